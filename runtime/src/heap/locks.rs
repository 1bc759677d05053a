//! The lock report: the calls that waited for the runtime's locks, like `perf lock contention` for the kernel.
//!
//! A reading takes no lock and allocates nothing, so it works in any state, also in signal handlers and after a fork,
//! where it includes the parent's. It is exact at rest.

use super::console::StandardError;
use crate::caches::heap;
use crate::observe::columns::{Row, Table, rows_of};
use crate::observe::{LockReport, Word};
use crate::percpu::Area;
use crate::rcu;
use machine::root;
use machine::sync::{Contention, Waited};

/// The names of locks that exist without a heap.
const OTHERS: [Word; 3] = [Word::new("rcu queue"), Word::new("counter"), Word::new("area")];
const HEAPS: usize = LockReport::NAMES.len();
/// The names of all classes.
pub static NAMES: [Word; HEAPS + OTHERS.len()] = {
    let mut names = [Word::new(""); HEAPS + OTHERS.len()];
    names.split_at_mut(HEAPS).0.copy_from_slice(&LockReport::NAMES);
    names.split_at_mut(HEAPS).1.copy_from_slice(&OTHERS);
    names
};

/// All existing classes of locks, with the cost of waiting for them; the heap's first.
pub fn classes() -> impl Iterator<Item = (&'static str, &'static Contention)> {
    let heap = root::is_installed().then(|| heap().locks().classes());
    let area = Area::is_made().then(Area::of_process).flatten();
    let others = [Some(rcu::contention()), area.map(Area::block_contention), area.map(Area::contention)];
    let all = heap.map_or([None; HEAPS], |heap| heap.map(Some)).into_iter().chain(others);
    NAMES.iter().zip(all).filter_map(|(class, contention)| Some((class.as_str(), contention?)))
}

/// Shows all rows. Returns the waits that have no row.
pub fn for_each_row(mut show: impl FnMut(Row)) -> Waited {
    classes().fold(Waited::default(), |lost, (class, contention)| lost.and(rows_of(class, contention, &mut show)))
}

/// Prints the report on standard error.
pub extern "C" fn print() {
    let _ = Table::of(classes()).write_text(&mut StandardError::default());
}

/// Prints the report as JSON on standard error.
pub extern "C" fn print_json() {
    let _ = Table::of(classes()).write_json(&mut StandardError::default());
}
