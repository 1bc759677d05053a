//! What a machine's own operations take, one by one: what a profile of it is made of. A simulated machine is asked for
//! what it was told.

use crate::Threads;
use crate::timing::{floor_ns, long_or_short, task_floor_ns};
use core::hint::black_box;
use core::ptr::null_mut;
use machine::clock::now_ns;
use machine::kick;
use machine::sync::{AtomicBool, AtomicU32, AtomicU64, Ordering, spin_loop, wait, wake_one};
use machine::vm::{self, Access, PAGE};

const LINE: usize = 64;
/// Pages whose first touch is timed.
const PAGES: usize = 256;
/// Bytes that a CPU has in its caches, and bytes that it has not.
const NEAR: usize = 8 << 10;
const DISTANT: usize = long_or_short(64 << 20, 64 << 10) as usize;
/// Lines of the distant memory that are looked at one after the other.
const LOOKS: usize = long_or_short(200_000, 500) as usize;
const KICKS: u32 = long_or_short(2000, 50) as u32;
const WAKE_UPS: u32 = long_or_short(2000, 50) as u32;
const ROUNDS: usize = 5;
/// Longer than anybody waits for anything here.
const LONG_NS: u64 = 1_000_000_000;

words! {
    /// One of them.
    pub enum Primitive {
        /// Reading the clock.
        Clock = "clock",
        /// What whoever looks again and again waits between two looks.
        Pause = "pause",
        /// A call of the kernel that finds nothing to do.
        SystemCall = "system-call",
        /// The first touch of a page.
        Fault = "fault",
        /// Making a line zero that the CPU has.
        Zero = "zero",
        /// Making a line zero that is in memory, in a row of them.
        Row = "row",
        /// Reading a line that is in memory, whose address was not known before.
        Memory = "memory",
        /// Ordering memory on another CPU, whose thread runs.
        Kick = "kick",
        /// What that takes from this thread.
        Kicked = "kicked",
        /// From one thread to the next and back: each wakes the other, and sleeps.
        WakeUps = "wake-up",
    }
}

impl Primitive {
    /// Threads that it takes.
    pub const fn threads(self) -> u32 {
        if matches!(self, Primitive::Kick | Primitive::Kicked | Primitive::WakeUps) { 2 } else { 1 }
    }
}

/// Nanoseconds that it takes. None: there is no memory, or the machine refuses.
pub fn primitive_ns(primitive: Primitive, threads: &dyn Threads) -> Option<f64> {
    match primitive {
        Primitive::Clock => Some(task_floor_ns(|| _ = black_box(now_ns()))),
        Primitive::Pause => Some(task_floor_ns(spin_loop)),
        Primitive::SystemCall => system_call_ns(),
        Primitive::Fault => fault_ns(),
        Primitive::Zero => with_memory(NEAR, |memory| {
            // SAFETY: it is ours.
            let time = task_floor_ns(|| unsafe { vm::zero(black_box(memory), NEAR) });
            Some(time / (NEAR / LINE) as f64)
        }),
        Primitive::Row => with_memory(DISTANT, row_ns),
        Primitive::Memory => with_memory(DISTANT, memory_ns),
        Primitive::Kick => kick_ns(threads).map(|(kick, _)| kick),
        Primitive::Kicked => kick_ns(threads).map(|(_, lost)| lost),
        Primitive::WakeUps => wake_ups_ns(threads),
    }
}

/// Memory that is touched already.
fn with_memory(bytes: usize, work: impl FnOnce(*mut u8) -> Option<f64>) -> Option<f64> {
    let memory = vm::reserve(null_mut(), bytes, Access::ReadWrite)?;
    // SAFETY: it is ours, from here to its release.
    unsafe {
        vm::zero(memory, bytes);
        let result = work(memory);
        vm::release(memory, bytes);
        result
    }
}

fn best(mut round: impl FnMut() -> Option<f64>) -> Option<f64> {
    (0..ROUNDS).map(|_| round()).reduce(|one, other| Some(one?.min(other?)))?
}

fn system_call_ns() -> Option<f64> {
    with_memory(PAGE, |memory| {
        floor_ns(|tasks| {
            // SAFETY: it is ours, and has nothing after the first time.
            (0..tasks).all(|_| unsafe { vm::decommit(memory, PAGE) }).then_some(())
        })
    })
}

fn word<'a>(memory: *mut u8, offset: usize) -> &'a AtomicU64 {
    // SAFETY: the caller's memory, and zeroes are an atomic.
    unsafe { &*memory.wrapping_add(offset).cast() }
}

fn fault_ns() -> Option<f64> {
    with_memory(PAGES * PAGE, |memory| {
        best(|| {
            // SAFETY: it is ours.
            if !unsafe { vm::decommit(memory, PAGES * PAGE) } {
                return None;
            }
            let start = now_ns();
            (0..PAGES).for_each(|page| word(memory, page * PAGE).store(1, Ordering::Relaxed));
            Some((now_ns() - start) as f64 / PAGES as f64)
        })
    })
}

fn row_ns(memory: *mut u8) -> Option<f64> {
    best(|| {
        let start = now_ns();
        // SAFETY: it is ours.
        unsafe { vm::zero(memory, DISTANT) };
        Some((now_ns() - start) as f64 / (DISTANT / LINE) as f64)
    })
}

/// Each line says where the next one is, all over the memory.
fn memory_ns(memory: *mut u8) -> Option<f64> {
    let lines = DISTANT / LINE;
    // A full period (Hull and Dobell): the lines are a power of two, the factor is one more than a multiple of 4, the
    // summand odd.
    const { assert!((DISTANT / LINE).is_power_of_two()) };
    let next = |line: usize| (line * 5 + 0x3_9e37 * 2 + 1) % lines;
    (0..lines).for_each(|line| word(memory, line * LINE).store(next(line) as u64, Ordering::Relaxed));
    best(|| {
        let (start, mut line) = (now_ns(), 0);
        (0..LOOKS).for_each(|_| line = word(memory, line * LINE).load(Ordering::Relaxed) as usize);
        black_box(line);
        Some((now_ns() - start) as f64 / LOOKS as f64)
    })
}

/// What a kick takes of a CPU whose thread runs; and what it takes from that thread, in the round in which that lost
/// the least: it may have to leave its CPU, too.
fn kick_ns(threads: &dyn Threads) -> Option<(f64, f64)> {
    kick::register().ok()?;
    let (round, took, lost) = (AtomicU32::new(0), AtomicU64::new(u64::MAX), AtomicU64::new(u64::MAX));
    let is_refused = AtomicBool::new(false);
    threads.run(2, &|number| {
        if number == 0 {
            let usual = least_gap(KICKS.into());
            round.store(1, Ordering::Release);
            while round.load(Ordering::Acquire) == 1 {
                spin_loop();
            }
            let (mut last, mut total, mut current) = (now_ns(), 0, 2);
            while current < 2 + ROUNDS as u32 {
                let now = now_ns();
                total += (now - last).saturating_sub(usual * 2);
                last = now;
                let seen = round.load(Ordering::Acquire);
                if seen != current {
                    lost.fetch_min(total * 1000 / u64::from(KICKS), Ordering::Relaxed);
                    (total, current) = (0, seen);
                }
            }
            return;
        }
        while round.load(Ordering::Acquire) == 0 {
            spin_loop();
        }
        for _ in 0..ROUNDS {
            round.fetch_add(1, Ordering::AcqRel);
            let start = now_ns();
            is_refused.fetch_or((0..KICKS).any(|_| kick::fence_all().is_err()), Ordering::Relaxed);
            took.fetch_min((now_ns() - start) * 1000 / u64::from(KICKS), Ordering::Relaxed);
        }
        round.fetch_add(1, Ordering::AcqRel);
    });
    let [took, lost] = [took, lost].map(|time| time.into_inner() as f64 / 1000.0);
    (!is_refused.into_inner()).then_some((took, lost))
}

/// The shortest time between two looks at the clock.
fn least_gap(looks: u64) -> u64 {
    let mut last = now_ns();
    let gap = |_| {
        let now = now_ns();
        core::mem::replace(&mut last, now).abs_diff(now)
    };
    (0..looks).map(gap).min().unwrap_or(0)
}

fn wake_ups_ns(threads: &dyn Threads) -> Option<f64> {
    let (turn, took) = (AtomicU32::new(0), AtomicU64::new(0));
    threads.run(2, &|number| {
        let start = now_ns();
        for round in 0..WAKE_UPS {
            let mine = 2 * round + number;
            loop {
                let now = turn.load(Ordering::Acquire);
                if now == mine {
                    break;
                }
                wait(&turn, now, LONG_NS);
            }
            turn.store(mine + 1, Ordering::Release);
            wake_one(&turn);
        }
        if number == 0 {
            took.store(now_ns() - start, Ordering::Relaxed);
        }
    });
    Some(took.into_inner() as f64 / f64::from(WAKE_UPS))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::threads::OfStd;

    #[test]
    fn primitives_all_take_some_time() {
        for primitive in Primitive::ALL {
            let time = primitive_ns(primitive, &OfStd).unwrap_or_else(|| panic!("{primitive:?} was refused"));
            assert!(
                (0.0..1e7).contains(&time) && (time > 0.0 || primitive == Primitive::Kicked),
                "{primitive:?}: {time}"
            );
        }
    }
}
