//! Threads that open and close files, as far as memory is concerned: an object is allocated, put into a table where
//! others find it, taken out, and freed after a grace period. How they come to report is what differs; and how long a
//! thread can hold grace periods up that loops for long.

use crate::Threads;
use crate::shared::{Array, Outcome};
use crate::timing::long_or_short;
use commensal_runtime::central::size_class;
use commensal_runtime::heap;
use commensal_runtime::heap::{locks, report};
use commensal_runtime::rcu;
use commensal_runtime::rcu::qsbr::{KickableReader, Policy, set_policy};
use core::array;
use core::hint::black_box;
use core::ptr::null_mut;
use machine::clock::now_ns;
use machine::sync::{AtomicBool, AtomicPtr, AtomicU64, Ordering};

/// Bytes of a file: about what the kernel's has.
const BYTES: usize = 256;
/// Before it counts: after so many tasks as much memory has been asked for as there is ever going to be.
const WARM_UP: u64 = 2;
/// How long threads are at it.
const DURATION_NS: u64 = long_or_short(100_000_000, 2_000_000);
/// Between two waits for readers.
const REST_NS: u64 = long_or_short(200_000, 20_000);
/// Of a loop that holds grace periods up: between two checkpoints.
const LOOP_NS: u64 = long_or_short(1_000, 5_000);
/// Between two looks whether a grace period is over.
const LOOK_NS: u64 = long_or_short(10_000, 10_000);
/// Checkpoints of which the time is taken.
const CHECKPOINTS: u64 = long_or_short(4_000_000, 2_000);

words! {
    /// How readers come to report.
    pub enum Reports {
        /// At each so many checkpoints.
        Counted = "counted",
        /// At a checkpoint after they were flagged.
        Flagged = "flagged",
        /// When they are interrupted; there are no checkpoints.
        Kicked = "kicked",
        /// When a task is over; there are no checkpoints.
        None = "none",
    }
}

impl Reports {
    fn policy(self, threshold: u32) -> Policy {
        match self {
            Reports::Counted => Policy::Counted(threshold),
            Reports::Flagged => Policy::Flagged,
            Reports::Kicked => Policy::Kicked,
            Reports::None => Policy::None,
        }
    }

    fn has_checkpoints(self) -> bool {
        matches!(self, Reports::Counted | Reports::Flagged)
    }
}

/// One arm of one row.
#[derive(Clone, Copy, Debug)]
pub struct Arm {
    pub reports: Reports,
    /// Checkpoints after which they do, where they count.
    pub threshold: u32,
    /// Milliseconds after which they are told to.
    pub till_qs_ms: u32,
}

impl Arm {
    fn begin(self) -> Option<()> {
        rcu::set_knob("till_qs_ms", self.till_qs_ms).ok()?;
        set_policy(self.reports.policy(self.threshold)).ok()
    }
}

/// What threads do that open and close files.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    pub threads: u32,
    /// What an operation takes besides, for names and permissions.
    pub work_ns: u64,
    /// Operations of a task: after it, a thread is surely in no section, and goes offline for once, whatever the
    /// policy.
    pub task: u64,
    /// Objects that wait in a slot before it asks for a grace period.
    pub lazy_limit: u32,
    /// Whether what has waited goes back to the slot where it was deferred.
    pub hands_back: bool,
}

words! {
    /// What the loop does besides.
    pub enum Loop {
        /// Comes to a checkpoint each time, where the policy has some.
        Checks = "checks",
        /// Likewise, and has something to be freed each time.
        Retires = "retires",
        /// Comes to a checkpoint each time that always reports.
        Always = "always",
    }
}

/// What a thread has of its own, in a line of its own.
#[derive(Default)]
#[repr(C, align(64))]
struct Desk {
    /// Its file, if it is open.
    file: AtomicPtr<u64>,
    operations: AtomicU64,
}

fn open_and_close(own: &Desk, other: &Desk, reader: &KickableReader) -> Option<()> {
    let file = heap::allocate(BYTES).cast::<u64>();
    if file.is_null() {
        return None;
    }
    // SAFETY: ours until it is published.
    unsafe { file.write(1) };
    own.file.store(file, Ordering::Release);
    let section = reader.read();
    let found = other.file.load(Ordering::Acquire);
    if !found.is_null() {
        // SAFETY: it stays while the section is open.
        black_box(unsafe { found.read() });
    }
    drop(section);
    own.file.store(null_mut(), Ordering::Release);
    // SAFETY: nobody finds it any more.
    unsafe { rcu::defer_free(file.cast()) };
    Some(())
}

fn work(
    number: usize, desks: &[Desk], (arm, size): (Arm, Size), over: &AtomicBool, threads: &dyn Threads,
) -> Option<()> {
    let mut reader = KickableReader::register().ok()?;
    let (own, other) = (&desks[number], &desks[(number + 1) % desks.len()]);
    let mut done = 0;
    while !over.load(Ordering::Relaxed) {
        if size.work_ns > 0 {
            threads.busy(size.work_ns);
        }
        open_and_close(own, other, &reader)?;
        done += 1;
        own.operations.store(done, Ordering::Relaxed);
        if arm.reports.has_checkpoints() {
            reader.checkpoint();
        }
        if done % size.task == 0 {
            reader.offline(|| ());
        }
    }
    Some(())
}

/// So far: operations, grace periods, how often an array of files ran out, and how often a lock of the depot was not
/// free.
fn counts(desks: &[Desk]) -> Option<[u64; 4]> {
    let operations = desks.iter().map(|desk| desk.operations.load(Ordering::Relaxed)).sum();
    let bytes = size_class::size(size_class::class_for(BYTES)) as u64;
    let mut refills = 0;
    report::for_each_class(|class| {
        if class.object_bytes == bytes {
            refills = class.refills;
        }
    });
    let (_, shards) = locks::classes().next()?;
    Some([operations, rcu::grace_periods(), refills, shards.report().waited.contended])
}

/// So many threads open and close files, and one waits for readers now and then. None: no memory, or a policy was
/// refused.
///
/// Operations of all threads in a second, milliseconds of a wait in the mean, grace periods in a second, objects for
/// each of them; for each operation how often an array ran out and how often a lock of the depot was not free; and the
/// most bytes that waited.
pub fn files(arm: Arm, size: Size, threads: &dyn Threads) -> Option<[f64; 7]> {
    arm.begin()?;
    rcu::set_knob("lazy_limit", size.lazy_limit).ok()?;
    rcu::set_knob("hand_back", size.hands_back.into()).ok()?;
    let count = size.threads;
    let desks = Array::of(count as usize, |_| Desk::default())?;
    let (over, has_failed) = (AtomicBool::new(false), AtomicBool::new(false));
    let outcome = Outcome::new();
    threads.run(count + 1, &|number| {
        if number < count {
            if work(number as usize, &desks, (arm, size), &over, threads).is_none() {
                has_failed.store(true, Ordering::Relaxed);
            }
            return;
        }
        while desks.iter().any(|desk| desk.operations.load(Ordering::Relaxed) < WARM_UP * size.task)
            && !has_failed.load(Ordering::Relaxed)
        {
            threads.busy(LOOK_NS);
        }
        let watched = counts(&desks).and_then(|before| {
            let (begin, mut waits, mut waited_ns) = (now_ns(), 0, 0);
            while now_ns() - begin < DURATION_NS {
                let start = now_ns();
                rcu::synchronize();
                (waits, waited_ns) = (waits + 1, waited_ns + now_ns() - start);
                threads.busy(REST_NS);
            }
            let (after, seconds) = (counts(&desks)?, (now_ns() - begin) as f64 / 1e9);
            let [operations, periods, refills, contended] = array::from_fn(|at| (after[at] - before[at]) as f64);
            let wait_ms = waited_ns as f64 / f64::from(waits) / 1e6;
            let batch = operations / periods.max(1.0);
            let [refills, contended] = [refills, contended].map(|count| count / operations.max(1.0));
            let peak = rcu::waiting().most_bytes as f64;
            Some([operations / seconds, wait_ms, periods / seconds, batch, refills, contended, peak])
        });
        over.store(true, Ordering::Relaxed);
        // SAFETY: this thread alone uses it before all have ended.
        unsafe { *outcome.place() = watched };
    });
    rcu::barrier();
    outcome.into_inner().filter(|_| !has_failed.into_inner())
}

/// One thread loops for so long, or but for [`Loop::Retires`] until the grace period is over, and holds up a grace
/// period that another one asks for. None: no memory, or a policy was refused.
///
/// Milliseconds of the grace period, and the most bytes that waited.
pub fn hold_out(arm: Arm, looks: Loop, hold_ns: u64, threads: &dyn Threads) -> Option<[f64; 2]> {
    arm.begin()?;
    let [begun, is_over, has_failed] = [const { AtomicBool::new(false) }; 3];
    let took_ns = AtomicU64::new(0);
    threads.run(2, &|number| {
        if number == 1 {
            while !begun.load(Ordering::Acquire) {
                threads.busy(LOOK_NS);
            }
            let (start, cookie) = (now_ns(), rcu::start());
            while !rcu::is_over(cookie) && !has_failed.load(Ordering::Relaxed) {
                threads.busy(LOOK_NS);
            }
            took_ns.store(now_ns() - start, Ordering::Relaxed);
            return is_over.store(true, Ordering::Relaxed);
        }
        let Ok(mut reader) = KickableReader::register() else {
            has_failed.store(true, Ordering::Relaxed);
            return begun.store(true, Ordering::Release);
        };
        begun.store(true, Ordering::Release);
        let start = now_ns();
        while now_ns() - start < hold_ns && (looks == Loop::Retires || !is_over.load(Ordering::Relaxed)) {
            threads.busy(LOOP_NS);
            if looks == Loop::Retires {
                let file = heap::allocate(BYTES);
                // SAFETY: ours, or null.
                unsafe { rcu::defer_free(file) };
            }
            match looks {
                Loop::Always => reader.checkpoint_always(),
                _ if arm.reports.has_checkpoints() => reader.checkpoint(),
                _ => {}
            }
        }
    });
    let peak_bytes = rcu::waiting().most_bytes as f64;
    rcu::barrier();
    (!has_failed.into_inner()).then_some([took_ns.into_inner() as f64 / 1e6, peak_bytes])
}

/// Nanoseconds of one checkpoint of a thread that nobody waits for. None: no memory, or a policy was refused.
pub fn checkpoint_ns(arm: Arm) -> Option<f64> {
    arm.begin()?;
    let mut reader = KickableReader::register().ok()?;
    let start = now_ns();
    for _ in 0..CHECKPOINTS {
        if arm.reports.has_checkpoints() {
            black_box(&mut reader).checkpoint();
        } else {
            black_box(&mut reader);
        }
    }
    Some((now_ns() - start) as f64 / CHECKPOINTS as f64)
}
