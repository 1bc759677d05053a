//! A task with one thread: an object is created, its owner updates it, and it is destroyed. And how long reading and
//! summing takes of a counter that several CPUs added to.

use super::object::bytes_touched;
use super::{COUNTERS, Form, Object, Visit};
use crate::timing::{eight_times, floor_ns};
use commensal::percpu::Area;
use core::array;
use core::hint::black_box;

/// Objects that are alive at a time, where one task follows another on the oldest one's place: more than a cache holds of the eager form.
pub const ALIVE: usize = 256;

/// What a task costs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Life {
    /// Create, update, destroy, back to back.
    pub task_ns: f64,
    /// The same with [`ALIVE`] objects alive, the oldest of which is destroyed first.
    pub alive_ns: f64,
    /// The task without its updates: less what the same updates take on an object that stays alive.
    pub setup_ns: f64,
    /// Bytes in different places that creating and destroying writes (`bytes_touched`).
    pub bytes: usize,
}

impl Life {
    pub fn setup_share(&self) -> f64 {
        self.setup_ns / self.task_ns
    }
}

/// Measures it in some form, laid out for so many CPUs, with so many updates a task, a multiple of eight. None: no memory, or a sum was
/// wrong.
pub fn life(form: Form, cpus: usize, updates: u32) -> Option<Life> {
    let area = form.area(cpus)?;
    let life = form.visit(Task { area, updates })?;
    // All objects are gone, so all of their blocks must be back.
    (area.in_use() == 0).then_some(life)
}

struct Task {
    area: &'static Area,
    updates: u32,
}

impl Visit for Task {
    type Out = Option<Life>;

    fn with<O: Object>(self) -> Option<Life> {
        let Task { area, updates } = self;
        let task_ns = floor_ns(|tasks| (0..tasks).try_for_each(|_| one::<O>(area, updates).map(drop)))?;
        let updates_ns = kept_ns::<O>(area, updates)?;
        let alive_ns = alive_ns::<O>(area, updates)?;
        let (setup_ns, bytes) = ((task_ns - updates_ns).max(0.0), bytes_touched::<O>(area)?);
        Some(Life { task_ns, alive_ns, setup_ns, bytes })
    }
}

#[inline(always)]
fn one<O: Object>(area: &'static Area, updates: u32) -> Option<O> {
    let object = O::new(area)?;
    update(black_box(&object), updates);
    // It may have changed for all that the compiler knows, so destroying it has to look.
    black_box(&object);
    Some(object)
}

/// Spread over the counters, which end as they began: what a process maps, it unmaps. So an object that stays alive costs no more the
/// longer it lives, as counters would that only rise.
#[inline(always)]
pub(super) fn update<O: Object>(object: &O, updates: u32) {
    for _ in 0..updates / 8 {
        eight_times!(|at| object.add(at % COUNTERS, if at < COUNTERS { 1 } else { -1 }));
    }
}

fn kept_ns<O: Object>(area: &'static Area, updates: u32) -> Option<f64> {
    let object = O::new(area)?;
    let time = floor_ns(|tasks| {
        (0..tasks).for_each(|_| update(black_box(&object), updates));
        Some(())
    });
    time.filter(|_| is_level(&object))
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

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Look {
    pub read_ns: f64,
    pub sum_ns: f64,
}

/// Measures it in some form, laid out for so many CPUs. Threads have added in `slots` of them, as far as the form's sums depend on that:
/// an eager one's look at all CPUs in any case. None: no memory.
pub fn look(form: Form, cpus: usize, slots: u32) -> Option<Look> {
    form.visit(Looks { area: form.area(cpus)?, slots })
}

struct Looks {
    area: &'static Area,
    slots: u32,
}

impl Visit for Looks {
    type Out = Option<Look>;

    fn with<O: Object>(self) -> Option<Look> {
        const ADDED: i64 = 7;
        let object = O::new(self.area)?;
        object.share(self.area)?;
        object.touch(self.slots);
        object.add(0, ADDED);
        let read_ns = each_ns(|| object.read(0))?;
        let sum_ns = each_ns(|| object.sum(0))?;
        (object.sum(0) == ADDED).then_some(Look { read_ns, sum_ns })
    }
}

/// Of eight in a row.
fn each_ns(look: impl Fn() -> i64) -> Option<f64> {
    let eight_ns = floor_ns(|tasks| {
        for _ in 0..tasks {
            eight_times!(|at| black_box(black_box(&look)()));
        }
        Some(())
    });
    Some(eight_ns? / 8.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use commensal::percpu::CELL;
    use machine::slot::ROW;
    use std::vec::Vec;

    struct Sums(&'static Area);

    impl Visit for Sums {
        type Out = [i64; COUNTERS];

        fn with<O: Object>(self) -> [i64; COUNTERS] {
            let object: O = one(self.0, 64).unwrap();
            assert!(is_level(&object));
            for _ in 0..1000 {
                eight_times!(|at| object.add(at % COUNTERS, at as i64));
            }
            assert!(!is_level(&object));
            array::from_fn(|index| object.sum(index))
        }
    }

    #[test]
    fn counter_forms_all_count_right_and_leave_no_block_in_use() {
        for form in Form::ALL {
            for cpus in [2, 256, 512] {
                let area = form.area(cpus).unwrap();
                for _ in 0..3 {
                    assert_eq!(form.visit(Sums(area)), [4000, 6000, 8000, 10_000], "{form:?} at {cpus}");
                    assert_eq!(area.in_use(), 0, "{form:?} at {cpus}");
                }
            }
        }
    }

    #[test]
    fn figures_make_sense() {
        for form in Form::ALL {
            let life = life(form, 8, 8).unwrap();
            assert!(life.task_ns > 0.0 && life.alive_ns > 0.0 && (0.0..=1.0).contains(&life.setup_share()), "{life:?}");
        }
    }

    const PATTERN: u8 = 0xa5;

    /// Bytes of a block's rows that are made zero by taking it, and those that are by giving it back, after a thread used it in one slot:
    /// found by filling all of them with a pattern.
    fn wiped(form: Form, cpus: usize, cells: usize) -> usize {
        let area = form.area(cpus).unwrap();
        let block = area.take(cells * CELL, 1024).unwrap();
        let bytes = block.row_bytes();
        // The row before slot 0's, the third before it, and all slots'.
        let rows: Vec<usize> = [-1, -3]
            .into_iter()
            .chain(0..area.rows() as isize)
            .map(|row| (block.cell(0) as isize + row * ROW as isize) as usize)
            .collect();
        let fill = |rows: &[usize]| {
            // SAFETY: the rows of a block that only this test uses.
            rows.iter().for_each(|&row| unsafe { (row as *mut u8).write_bytes(PATTERN, bytes) });
        };
        let zeroes = |rows: &[usize]| {
            // SAFETY: as above.
            let row = |&row: &usize| unsafe { core::slice::from_raw_parts(row as *const u8, bytes) };
            rows.iter().flat_map(row).filter(|&&byte| byte == 0).count()
        };
        fill(&rows);
        block.touch(0);
        let place = *block;
        drop(block);
        let back = zeroes(&rows);
        fill(&rows[2..]);
        let again = area.take(cells * CELL, 1024).unwrap();
        assert_eq!(*again, place, "the same block");
        back + zeroes(&rows[2..])
    }

    struct Bytes(&'static Area);

    impl Visit for Bytes {
        type Out = (usize, usize, &'static [usize]);

        fn with<O: Object>(self) -> Self::Out {
            (bytes_touched::<O>(self.0).unwrap(), size_of::<O>(), O::BLOCKS)
        }
    }

    #[test]
    fn bytes_told_are_those_that_are_written() {
        for form in [Form::Eager, Form::Merged, Form::Cached] {
            for cpus in [2, 80, 300] {
                let (bytes, size, blocks) = form.visit(Bytes(form.area(cpus).unwrap()));
                let written: usize = blocks.iter().map(|&cells| 64 + wiped(form, cpus, cells)).sum();
                assert_eq!(bytes, size + written, "{form:?} at {cpus}");
            }
        }
        let bytes = |form: Form| form.visit(Bytes(form.area(512).unwrap())).0;
        assert_eq!(bytes(Form::Lazy), 80, "four counters and two words, at any number of CPUs");
        assert_eq!(bytes(Form::Eager), 24 + 3 * 64 * (1 + 2 + 512));
        assert_eq!(bytes(Form::Merged), 8 + 64 + 128 * (2 + 512));
        assert!(bytes(Form::Cached) < 1000);
    }

    #[test]
    fn touched_slots_are_summed_and_no_others() {
        struct Touched(&'static Area);
        impl Visit for Touched {
            type Out = i64;
            fn with<O: Object>(self) -> i64 {
                let object = O::new(self.0).unwrap();
                object.share(self.0).unwrap();
                object.touch(80);
                object.add(0, 41);
                object.add(0, 1);
                object.sum(0)
            }
        }
        for form in Form::ALL {
            assert_eq!(form.visit(Touched(form.area(256).unwrap())), 42, "{form:?}");
            assert!(look(form, 256, 80).is_some_and(|look| look.read_ns > 0.0 && look.sum_ns > 0.0), "{form:?}");
        }
        let (few, many) = (look(Form::LazyAndCached, 256, 1).unwrap(), look(Form::LazyAndCached, 256, 256).unwrap());
        assert!(many.sum_ns > 2.0 * few.sum_ns, "{few:?}, {many:?}");
    }
}
