//! Readers that open and end sections, and one thread that replaces what they read and waits for them each time.

use crate::Threads;
use crate::threads::Meeting;
use crate::timing::{long_or_short, sixteen_times};
use commensal_runtime::rcu;
use core::hint::black_box;
use core::ptr::null_mut;
use machine::clock::now_ns;
use machine::sync::{AtomicBool, AtomicPtr, AtomicU64, Ordering};

/// Replacements.
const UPDATES: u32 = long_or_short(2000, 4) as u32;
/// What a reader does between sixteen sections and the next, in nanoseconds, with nothing.
const BETWEEN_NS: u64 = long_or_short(1_000, 10_000);
/// Sixteen sections, where nobody replaces anything.
const ALONE: u64 = long_or_short(4000, 20);

/// So many threads at once, of which the first one replaces, if there are several; alone, it does one after the other.
/// Nanoseconds of a section in which a pointer is read, and of a wait for all readers.
pub fn sections((count, threads): (u32, &dyn Threads)) -> [f64; 2] {
    let (shared, is_over, meeting) = (AtomicPtr::new(null_mut::<u8>()), AtomicBool::new(false), Meeting::of(count));
    let [read_ns, read, waited_ns] = [const { AtomicU64::new(0) }; 3];
    let sixteen = || {
        let start = now_ns();
        sixteen_times!(|at| {
            let _section = rcu::read();
            black_box(shared.load(Ordering::Acquire));
        });
        read_ns.fetch_add(now_ns() - start, Ordering::Relaxed);
        read.fetch_add(16, Ordering::Relaxed);
    };
    let replace = || {
        for update in 0..UPDATES {
            shared.store(core::ptr::without_provenance_mut(update as usize), Ordering::Release);
            let start = now_ns();
            rcu::synchronize();
            waited_ns.fetch_add(now_ns() - start, Ordering::Relaxed);
        }
        is_over.store(true, Ordering::Release);
    };
    threads.run(count, &|number| {
        // The first section of a thread does more.
        drop(rcu::read());
        meeting.wait();
        match number {
            0 if count == 1 => {
                (0..ALONE).for_each(|_| sixteen());
                replace();
            }
            0 => replace(),
            // At least once: who comes late may find it over.
            _ => loop {
                sixteen();
                threads.busy(BETWEEN_NS);
                if is_over.load(Ordering::Acquire) {
                    break;
                }
            },
        }
    });
    let [read_ns, read, waited_ns] = [read_ns, read, waited_ns].map(|count| count.into_inner() as f64);
    [read_ns / read.max(1.0), waited_ns / f64::from(UPDATES)]
}
