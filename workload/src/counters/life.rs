//! A task with one thread: an object is created, its owner updates it, and it is destroyed. And how long reading and
//! summing takes of a counter that several CPUs added to.

use super::Form;
use super::object::{COUNTERS, Object, bytes_touched};
use crate::timing::{eight_times, floor_ns, task_floor_ns};
use commensal_runtime::percpu::Area;
use core::array;
use core::hint::black_box;

/// Objects that are alive at a time, where one task follows another on the oldest one's place: more than a cache holds
/// of the eager form.
const ALIVE: usize = 256;

/// Measures a task with so many updates, a multiple of eight, laid out for so many CPUs. None: no memory, or a sum was
/// wrong.
///
/// Nanoseconds of the task; the same with `ALIVE` objects alive, the oldest of which is destroyed first; what is left
/// of the task without its updates, and its share of the task; and bytes in different places that creating and
/// destroying writes (`bytes_touched`).
pub fn life(form: Form, cpus: usize, updates: u32) -> Option<[f64; 5]> {
    form.in_area(cpus, |area| with_form!(form, life_in(area, updates)))
}

fn life_in<O: Object>(area: &'static Area, updates: u32) -> Option<[f64; 5]> {
    let task_ns = floor_ns(|tasks| (0..tasks).try_for_each(|_| one::<O>(area, updates)))?;
    let setup_ns = (task_ns - kept_ns::<O>(area, updates)?).max(0.0);
    let alive_ns = alive_ns::<O>(area, updates)?;
    Some([task_ns, alive_ns, setup_ns, setup_ns / task_ns, bytes_touched::<O>(area)? as f64])
}

#[inline(always)]
fn one<O: Object>(area: &'static Area, updates: u32) -> Option<()> {
    let object = O::new(area)?;
    update(black_box(&object), updates);
    // It may have changed for all that the compiler knows, so destroying it has to look.
    black_box(&object);
    Some(())
}

/// Spread over the counters, which end as they began: what a process maps, it unmaps. So an object that stays alive
/// costs no more the longer it lives, as counters would that only rise.
#[inline(always)]
pub(super) fn update<O: Object>(object: &O, updates: u32) {
    for _ in 0..updates / 8 {
        eight_times!(|at| object.add(at % COUNTERS, if at < COUNTERS { 1 } else { -1 }));
    }
}

/// The updates of a task, on an object that stays alive.
fn kept_ns<O: Object>(area: &'static Area, updates: u32) -> Option<f64> {
    let object = O::new(area)?;
    let time = task_floor_ns(|| update(black_box(&object), updates));
    is_level(&object).then_some(time)
}

pub(super) fn is_level<O: Object>(object: &O) -> bool {
    (0..COUNTERS).all(|index| object.sum(index) == 0)
}

fn alive_ns<O: Object>(area: &'static Area, updates: u32) -> Option<f64> {
    let mut ring: [Option<O>; ALIVE] = array::from_fn(|_| O::new(area));
    let mut at = 0;
    floor_ns(|tasks| {
        for _ in 0..tasks {
            at = (at + 1) % ALIVE;
            drop(ring[at].take()?);
            ring[at] = O::new(area);
            update(black_box(ring[at].as_ref()?), updates);
        }
        Some(())
    })
}

/// Nanoseconds of a reading and of a sum, laid out for so many CPUs. Threads have added in `slots` of them, as far as
/// the form's sums depend on that: an eager one's look at all CPUs in any case. None: no memory, or a sum was wrong.
pub fn look(form: Form, cpus: usize, slots: u32) -> Option<[f64; 2]> {
    form.in_area(cpus, |area| with_form!(form, look_in(area, slots)))
}

fn look_in<O: Object>(area: &'static Area, slots: u32) -> Option<[f64; 2]> {
    const ADDED: i64 = 7;
    let object = O::new(area)?;
    object.share(area)?;
    object.touch(slots);
    object.add(0, ADDED);
    let times = [each_ns(|| object.read(0)), each_ns(|| object.sum(0))];
    (object.sum(0) == ADDED).then_some(times)
}

/// Of eight in a row.
fn each_ns(look: impl Fn() -> i64) -> f64 {
    task_floor_ns(|| eight_times!(|at| black_box(black_box(&look)()))) / 8.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use commensal_runtime::percpu::CELL;
    use machine::slot::ROW;
    use std::vec::Vec;

    /// They look at their sums themselves.
    #[test]
    fn counter_forms_all_have_figures() {
        for form in Form::ALL {
            for cpus in [2, 256, 512] {
                let [task_ns, alive_ns, _, share, _] = life(form, cpus, 8).unwrap();
                assert!(task_ns > 0.0 && alive_ns > 0.0 && (0.0..=1.0).contains(&share), "{form:?} at {cpus}");
            }
            assert!(look(form, 256, 80).is_some_and(|look| look.iter().all(|time| *time > 0.0)), "{form:?}");
        }
        let [few, many] = [1, 256].map(|slots| look(Form::LazyAndCached, 256, slots).unwrap()[1]);
        assert!(many > 2.0 * few, "{few} ns for a sum of one slot, {many} ns of 256");
    }

    const PATTERN: u8 = 0xa5;

    /// Bytes of a block's rows that are made zero by giving it back, after a thread used it in one slot, and by taking
    /// it again: found by filling all of them with a pattern.
    fn wiped(area: &'static Area, cells: usize) -> usize {
        let block = area.take(cells * CELL, 1024).unwrap();
        let bytes = block.row_bytes();
        // The row before slot 0's, the third before it, and all slots'.
        let rows: Vec<usize> = [-1, -3]
            .into_iter()
            .chain(0..area.rows() as isize)
            .map(|row| (block.cell(0) as isize + row * ROW as isize) as usize)
            .collect();
        // SAFETY: the rows of a block that only this test uses.
        rows.iter().for_each(|&row| unsafe { (row as *mut u8).write_bytes(PATTERN, bytes) });
        block.touch(0);
        let place = *block;
        drop(block);
        assert_eq!(*area.take(cells * CELL, 1024).unwrap(), place, "the same block");
        // SAFETY: as above.
        let row = |&row: &usize| unsafe { core::slice::from_raw_parts(row as *const u8, bytes) };
        rows.iter().flat_map(row).filter(|&&byte| byte == 0).count()
    }

    #[test]
    fn bytes_told_are_those_that_are_written() {
        fn told<O: Object>(area: &'static Area) -> Option<usize> {
            bytes_touched::<O>(area)
        }
        fn written<O: Object>(area: &'static Area) -> Option<usize> {
            Some(size_of::<O>() + O::BLOCKS.iter().map(|&cells| 64 + wiped(area, cells)).sum::<usize>())
        }
        let told = |form: Form, cpus| form.in_area(cpus, |area| with_form!(form, told(area))).unwrap();
        for form in [Form::Eager, Form::Merged, Form::Cached] {
            for cpus in [2, 80, 300] {
                let written = form.in_area(cpus, |area| with_form!(form, written(area)));
                assert_eq!(Some(told(form, cpus)), written, "{form:?} at {cpus}");
            }
        }
        assert_eq!(told(Form::Lazy, 512), 80, "four counters and two words, at any number of CPUs");
        assert_eq!(told(Form::Eager, 512), 24 + 3 * 64 * (1 + 2 + 512));
    }
}
