//! Holds of the runtime's locks in a big heap: no hold may grow with the heap.
//!
//! `bench probe big BLOCKS LARGE CACHES GIB` makes so many live blocks of 16 to 64 bytes, so many large ones that share
//! so many GiB of address space untouched, and so many object caches with an object each. Then it does in turn all that
//! looks at many of them. It prints the longest hold of each class of locks in ns of CPU time, in the report's order,
//! and tells on standard error which step made a hold longer than any before.

use std::collections::HashMap;
use std::fmt::Write;

use anyhow::{Context, Result, bail, ensure};
use commensal_runtime::caches::Cache;
use commensal_runtime::heap::{self, locks, report};
use commensal_runtime::machine::sync::measure_holds;
use commensal_runtime::upkeep;

use super::number;

type Object = [u64; 4];
/// Blocks and caches that come and go in the big heap.
const CHANGES: usize = 20_000;
const ROUNDS_OF_UPKEEP: usize = 50;
const LEAST_LARGE: usize = 64 << 10;

/// Longest holds so far, by class and site.
#[derive(Default)]
struct Holds(HashMap<(&'static str, String), u64>);

impl Holds {
    /// Does a step, and tells which holds are longer than before.
    fn during(&mut self, step: &str, work: impl FnOnce()) {
        work();
        let note = |row: commensal_runtime::observe::columns::Row| {
            let site = row.caller.to_string();
            let longest = self.0.entry((row.class, site.clone())).or_default();
            if row.max_hold_ns > *longest {
                *longest = row.max_hold_ns;
                eprintln!("{step:<16} {:>12} ns   {:<12} {site}", row.max_hold_ns, row.class);
            }
        };
        locks::for_each_row(note);
    }

    fn of_class(&self, class: &str) -> f64 {
        self.0.iter().filter(|((of, _), _)| *of == class).map(|(_, ns)| *ns as f64).fold(0.0, f64::max)
    }
}

/// The longest hold of each class.
pub fn holds(words: &[&str]) -> Result<Vec<f64>> {
    let [blocks, large, caches, gib] = words else { bail!("found {words:?}") };
    let [blocks, large, caches, gib] = [number(blocks)?, number(large)?, number(caches)?, number(gib)?];
    let large_bytes = (gib << 30) / large;
    ensure!(large_bytes >= LEAST_LARGE, "large blocks of {large_bytes} bytes are not large");
    // SAFETY: the contentions of the runtime's locks last as long as the process.
    unsafe { measure_holds() };
    let mut holds = Holds::default();
    let (mut small, mut big, mut made) = (Vec::new(), Vec::new(), Vec::new());
    // More than one thread, so that upkeep and grace periods are those of a server.
    std::thread::spawn(|| free(heap::allocate(1))).join().ok().context("a thread panicked")?;
    holds.during("small blocks", || small.extend((0..blocks).map(|at| heap::allocate(16 + at % 4 * 16))));
    holds.during("large blocks", || big.extend((0..large).map(|_| heap::allocate(large_bytes))));
    holds.during("caches", || made.extend((0..caches).map(|_| cache())));
    ensure!(small.iter().chain(&big).all(|block| !block.is_null()), "there is no more memory");
    holds.during("change blocks", || {
        let mut rng = fastrand::Rng::with_seed(1);
        for at in 0..CHANGES * 50 {
            let block = &mut small[rng.usize(0..blocks)];
            free(std::mem::replace(block, heap::allocate(16 + at % 4 * 16)));
        }
    });
    holds.during("change large", || {
        let mut rng = fastrand::Rng::with_seed(2);
        for at in 0..CHANGES {
            let block = &mut big[rng.usize(0..large)];
            free(std::mem::replace(block, heap::allocate(large_bytes / (1 + at % 3))));
        }
    });
    holds.during("change caches", || {
        for made in made.iter_mut().take(CHANGES) {
            let (cache, object) = std::mem::replace(made, self::cache());
            drop(object);
            // SAFETY: leaked by `cache`, and its object is gone.
            unsafe { drop(Box::from_raw(std::ptr::from_ref(cache).cast_mut())) };
        }
    });
    holds.during("upkeep", tick);
    holds.during("report", || {
        let mut text = String::new();
        report::write_text(&mut text).and(report::write_slabinfo(&mut text)).expect("a string takes it");
        text.write_char('\n').expect("a string takes it");
    });
    holds.during("fork", || {
        // SAFETY: the child allocates, and ends without running what belongs to its parent.
        let child = unsafe { libc::fork() };
        if child == 0 {
            (0..CHANGES).for_each(|at| free(heap::allocate(at)));
            // SAFETY: ends the child.
            unsafe { libc::_exit(0) };
        }
        // SAFETY: waits for the child.
        unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
    });
    holds.during("free half", || small.iter().chain(&big).step_by(2).for_each(|&block| free(block)));
    holds.during("upkeep again", tick);
    holds.during("trim", || {
        heap::trim(0);
    });
    holds.during("free all", || small.iter().chain(&big).skip(1).step_by(2).for_each(|&block| free(block)));
    holds.during("trim again", || {
        heap::trim(0);
    });
    Ok(locks::classes().map(|(class, _)| holds.of_class(class)).collect())
}

fn tick() {
    (0..ROUNDS_OF_UPKEEP).for_each(|_| {
        upkeep::tick();
    });
}

fn free(block: *mut u8) {
    // SAFETY: allocated by this probe, which frees it once.
    unsafe { heap::free(block) };
}

/// A cache with an object.
fn cache() -> (&'static Cache<Object>, commensal_runtime::caches::Box<'static, Object>) {
    let cache: &Cache<Object> = Box::leak(Box::new(Cache::new("big")));
    (cache, cache.alloc(Object::default()).expect("there is memory"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_of_a_small_heap_are_measured() {
        let holds = holds(&["20000", "100", "30", "1"]).expect("it runs");
        assert_eq!(holds.len(), locks::classes().count());
        assert!(holds.iter().any(|&ns| ns > 0.0), "{holds:?}");
        assert!(super::holds(&["20000", "100000", "30", "1"]).is_err(), "they are not large");
    }
}
