//! Memory groups of the runtime, which is inside of this program.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use commensal::group::Group;

use super::number;
use super::timing::mean_ns;

const BUDGET: Duration = Duration::from_millis(100);
const BYTES: usize = 64;

/// A full group beside many that have something.
pub fn full(words: &[&str]) -> Result<Vec<f64>> {
    let [groups] = words else { bail!("found {words:?}") };
    let group = || Group::new("tenant").ok().context("no more groups");
    let groups = (0..number(groups)?).map(|_| group()).collect::<Result<Vec<_>>>()?;
    let alive: Vec<_> = groups.iter().map(|group| group.alloc([0_u8; BYTES]).ok()).collect();
    let full = group()?;
    full.set_limit(Some(1 << 16));
    // Until it is full.
    let held: Vec<_> = std::iter::from_fn(|| full.alloc([0_u8; BYTES]).ok()).collect();
    let ns = mean_ns(BUDGET, 3, || assert!(full.alloc([0_u8; BYTES]).is_err(), "the group is full"));
    drop((held, alive));
    Ok(vec![ns])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_group_refuses() {
        assert_eq!(full(&["3"]).expect("it is refused").len(), 1);
        assert!(full(&["many"]).is_err());
    }
}
