//! Readers, and one that waits for them.

use super::super::workload::sections::{Sections, sections};
use super::{Machine, threads};

/// Measures what the words say: the figures, or what is wrong with the words.
pub fn measure(words: &[&str], machine: &impl Machine) -> Result<Vec<f64>, String> {
    let [count] = *words else { return Err(format!("the arguments are {words:?}; expected THREADS")) };
    let count = threads(count)?;
    let Sections { section_ns, synchronize_ns } = sections((count, &machine.threads(count)?));
    Ok(vec![section_ns, synchronize_ns])
}
