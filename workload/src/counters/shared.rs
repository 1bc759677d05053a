//! A task with two threads, as the document's "parallel-true" is one: a second thread shares the object, both update it.
//! And what announcing the second thread costs by itself.
//!
//! Creating a thread would take fifty microseconds. Here two threads hand the object over by a word at which the other
//! looks again and again, in all forms alike.

use super::Form;
use super::life::{is_level, update};
use super::object::Object;
use crate::Threads;
use crate::timing::{floor_ns, long_or_short};
use commensal_runtime::percpu::Area;
use core::array;
use core::hint::black_box;
use core::ptr::null_mut;
use machine::clock::now_ns;
use machine::sync::{AtomicBool, AtomicPtr, AtomicU64, Ordering, spin_loop};

/// Objects that are upgraded one after the other between two looks at the clock: few enough to stay in the cache.
const UPGRADES: usize = 8;
const UPGRADE_BUDGET_NS: u64 = long_or_short(2_500_000, 200_000);
const LEAST_ROUNDS: u32 = 5;

/// Nanoseconds of one upgrade of a lazy object. None: no memory.
pub fn upgrade_ns(form: Form, cpus: usize) -> Option<f64> {
    form.in_area(cpus, |area| with_form!(form, upgrade_in(area)))
}

fn upgrade_in<O: Object>(area: &'static Area) -> Option<f64> {
    let (start, mut rounds, mut best) = (now_ns(), 0, u64::MAX);
    while rounds < LEAST_ROUNDS || now_ns() - start < UPGRADE_BUDGET_NS {
        let objects: [Option<O>; UPGRADES] = array::from_fn(|_| O::new(area));
        let begin = now_ns();
        objects.iter().try_for_each(|object| black_box(object).as_ref()?.share(area))?;
        best = best.min(now_ns() - begin);
        rounds += 1;
    }
    Some(best as f64 / UPGRADES as f64)
}

/// Nanoseconds of a task with two threads, each of which makes so many updates, a multiple of eight: create, announce,
/// hand over, update by both, wait for the other, destroy. None: no memory, a sum was wrong, or an object was not
/// upgraded.
pub fn shared_ns(form: Form, cpus: usize, updates: u32, threads: &dyn Threads) -> Option<f64> {
    form.in_area(cpus, |area| with_form!(form, shared_in(area, updates, threads)))
}

fn shared_in<O: Object>(area: &'static Area, updates: u32, threads: &dyn Threads) -> Option<f64> {
    let (table, is_over) = (AtomicPtr::<O>::new(null_mut()), AtomicBool::new(false));
    let task = || {
        let object = O::new(area)?;
        object.share(area)?;
        // Release pairs with the acquire of the guest: it sees the object whole.
        table.store((&raw const object).cast_mut(), Ordering::Release);
        update(black_box(&object), updates);
        // Acquire pairs with the release of the guest: it is done with the object.
        while !table.load(Ordering::Acquire).is_null() {
            spin_loop();
        }
        let is_upgraded = area.in_use() == O::BLOCKS.len() as u64;
        (is_upgraded && is_level(&object)).then_some(())
    };
    // SAFETY: what stands in the table is the owner's object, which stays until the guest takes the pointer away.
    let guest = || match unsafe { table.load(Ordering::Acquire).as_ref() } {
        Some(object) => {
            update(black_box(object), updates);
            table.store(null_mut(), Ordering::Release);
        }
        None => spin_loop(),
    };
    // A time in picoseconds, or zero.
    let measured = AtomicU64::new(0);
    threads.run(2, &|number| {
        if number == 0 {
            let time = floor_ns(|tasks| (0..tasks).try_for_each(|_| task()));
            measured.store(time.map_or(0, |time| (time * 1000.0) as u64), Ordering::Relaxed);
            return is_over.store(true, Ordering::Release);
        }
        while !is_over.load(Ordering::Acquire) {
            guest();
        }
    });
    let time = measured.into_inner();
    (time > 0).then_some(time as f64 / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::threads::OfStd;

    /// Each looks at its sums, and at the blocks in use.
    #[test]
    fn counter_forms_all_count_what_two_threads_add() {
        for form in Form::ALL {
            assert!(shared_ns(form, 8, 64, &OfStd).is_some_and(|time| time > 0.0), "{form:?}");
            assert!(upgrade_ns(form, 80).is_some(), "{form:?}");
        }
    }
}
