//! A task with two threads, as the document's "parallel-true" is one: a second thread shares the object, both update it. And what
//! announcing the second thread costs by itself.
//!
//! Threads hand the object over by a word that the other looks at again and again; that takes a part of a microsecond, in all forms alike,
//! and there is no thread creation in the figures, which would take fifty.

use super::life::{is_level, update};
use super::{Form, Object, Visit};
use crate::Threads;
use crate::timing::{floor_ns, long_or_short};
use commensal::percpu::Area;
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
    let area = form.area(cpus)?;
    let time = form.visit(Upgrades { area })?;
    (area.in_use() == 0).then_some(time)
}

struct Upgrades {
    area: &'static Area,
}

impl Visit for Upgrades {
    type Out = Option<f64>;

    fn with<O: Object>(self) -> Option<f64> {
        let (start, mut rounds, mut best) = (now_ns(), 0, u64::MAX);
        while rounds < LEAST_ROUNDS || now_ns() - start < UPGRADE_BUDGET_NS {
            let objects: [Option<O>; UPGRADES] = array::from_fn(|_| O::new(self.area));
            let begin = now_ns();
            objects.iter().try_for_each(|object| black_box(object).as_ref()?.share(self.area))?;
            best = best.min(now_ns() - begin);
            rounds += 1;
        }
        Some(best as f64 / UPGRADES as f64)
    }
}

/// Nanoseconds of a task with two threads, each of which makes so many updates, a multiple of eight: create, announce, hand over, update
/// by both, wait for the other, destroy. None: no memory, or a sum was wrong.
pub fn shared_ns(form: Form, cpus: usize, updates: u32, threads: &dyn Threads) -> Option<f64> {
    let area = form.area(cpus)?;
    let time = form.visit(Shared { area, updates, threads })?;
    (area.in_use() == 0).then_some(time)
}

struct Shared<'a> {
    area: &'static Area,
    updates: u32,
    threads: &'a dyn Threads,
}

impl Visit for Shared<'_> {
    type Out = Option<f64>;

    fn with<O: Object>(self) -> Option<f64> {
        let table = Table::<O> { object: AtomicPtr::new(null_mut()), is_over: AtomicBool::new(false) };
        // A time in picoseconds, or zero.
        let measured = AtomicU64::new(0);
        self.threads.run(2, &|number| match number {
            0 => {
                let time = floor_ns(|tasks| (0..tasks).try_for_each(|_| table.host(self.area, self.updates)));
                measured.store(time.map_or(0, |time| (time * 1000.0) as u64), Ordering::Relaxed);
                table.is_over.store(true, Ordering::Release);
            }
            _ => table.visit(self.updates),
        });
        let time = measured.into_inner();
        (time > 0).then_some(time as f64 / 1000.0)
    }
}

struct Table<O> {
    object: AtomicPtr<O>,
    is_over: AtomicBool,
}

impl<O: Object> Table<O> {
    /// The owner's part of a task.
    fn host(&self, area: &'static Area, updates: u32) -> Option<()> {
        let object = O::new(area)?;
        object.share(area)?;
        // Release pairs with the acquire in `visit`: who sees the object sees it whole.
        self.object.store((&raw const object).cast_mut(), Ordering::Release);
        update(black_box(&object), updates);
        // Acquire pairs with the release in `visit`: the other is done with the object.
        while !self.object.load(Ordering::Acquire).is_null() {
            spin_loop();
        }
        let is_upgraded = area.in_use() == O::BLOCKS.len() as u64;
        (is_upgraded && is_level(&object)).then_some(())
    }

    /// The other's part of all tasks.
    fn visit(&self, updates: u32) {
        while !self.is_over.load(Ordering::Acquire) {
            // SAFETY: what stands there is the owner's object, which stays until we take the pointer away.
            match unsafe { self.object.load(Ordering::Acquire).as_ref() } {
                Some(object) => {
                    update(black_box(object), updates);
                    self.object.store(null_mut(), Ordering::Release);
                }
                None => spin_loop(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::threads::OfStd;

    #[test]
    fn counter_forms_all_count_what_two_threads_add() {
        struct Sum(&'static Area);
        impl Visit for Sum {
            type Out = i64;
            fn with<O: Object>(self) -> i64 {
                let object = O::new(self.0).unwrap();
                object.share(self.0).unwrap();
                OfStd.run(2, &|_| (0..10_000).for_each(|_| object.add(3, 1)));
                object.sum(3)
            }
        }
        for form in Form::ALL {
            assert_eq!(form.visit(Sum(form.area(80).unwrap())), 20_000, "{form:?}");
            let time = shared_ns(form, 8, 64, &OfStd);
            assert!(time.is_some_and(|time| time > 0.0), "{form:?}: {time:?}");
        }
    }

    #[test]
    fn upgraded_counter_gives_its_block_back() {
        for form in [Form::Lazy, Form::LazyAndCached] {
            assert!(upgrade_ns(form, 80).is_some_and(|time| time > 0.0), "{form:?}");
        }
    }

    #[test]
    fn shared_object_is_upgraded() {
        struct Blocks(&'static Area);
        impl Visit for Blocks {
            type Out = (u64, u64);
            fn with<O: Object>(self) -> (u64, u64) {
                let object = O::new(self.0).unwrap();
                let before = self.0.in_use();
                object.share(self.0).unwrap();
                (before, self.0.in_use())
            }
        }
        for (form, blocks) in Form::ALL.into_iter().zip([(3, 3), (1, 1), (1, 1), (0, 1), (0, 1)]) {
            assert_eq!(form.visit(Blocks(form.area(80).unwrap())), blocks, "{form:?}");
        }
    }
}
