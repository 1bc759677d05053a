//! Registered readers: a record for each, and the ways in which they come to report.
//!
//! A reader's own thread writes its record. Other threads change `due` and `kicked_for` only: a thread that waits for a
//! grace period raises `FLAGGED` and interrupts, and one that changes the policy changes `COUNTS`.

use super::grace::{Grace, MILLISECOND};
use crate::caches::{enter, heap};
use crate::settings::Key;
use core::mem::offset_of;
use machine::sync::{
    AtomicPtr, AtomicU32, AtomicU64, Ordering, compiler_fence, fence, order_after_change, order_reads,
};
use machine::{code, thread};

const POLICY: Key = Key::of("rcu.policy");
const COUNTED_EACH: Key = Key::of("rcu.counted_each");
const TILL_QS: Key = Key::of("rcu.till_qs_ms");

/// How readers come to report. A reader that is flagged reports at its next checkpoint. The threshold is the setting
/// `rcu.till_qs_ms`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Policy {
    /// When they hold a grace period up for a threshold, they are flagged: the usual policy.
    Flagged,
    /// Only by [`Reader::checkpoint_always`](super::qsbr::Reader::checkpoint_always), and when they go offline.
    None,
    /// As `Flagged`; after three thresholds, kickable readers are interrupted.
    Kicked,
    /// At every n-th checkpoint (1: at each); they are flagged after two thresholds.
    Counted(u32),
}

impl Policy {
    /// The policy of this name in `rcu.policy`, if there is one. Under the one that counts, `each` is its number.
    pub fn named(name: &str, each: u32) -> Option<Self> {
        POLICY.parse(name).map(|value| Self::valued(value, each))
    }

    pub(crate) fn said() -> Self {
        Self::valued(POLICY.get(), COUNTED_EACH.get() as u32)
    }

    /// By its place among the values of `rcu.policy`.
    fn valued(value: u64, each: u32) -> Self {
        [Policy::Flagged, Policy::Counted(each), Policy::Kicked, Policy::None][value as usize]
    }

    /// As a word: the place, and `each` above it. Zero is the usual policy.
    fn word(self) -> u32 {
        match self {
            Policy::Flagged => 0,
            Policy::Counted(each) => 1 | each.clamp(1, u32::MAX >> 2) << 2,
            Policy::Kicked => 2,
            Policy::None => 3,
        }
    }

    fn of(word: u32) -> Self {
        Self::valued((word & 3).into(), word >> 2)
    }
}

// Bits of `Record::due`.
const FLAGGED: u32 = 1;
const COUNTS: u32 = 2;

/// A reader's record. Records are never freed, but used again.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Record {
    /// Bits that its checkpoints have to look after.
    due: AtomicU32,
    /// Its open sections, if it is kickable.
    depth: AtomicU32,
    /// The number of the last grace period that it knows of, plus one; 0: it is offline, or has no thread.
    seen: AtomicU64,
    /// Checkpoints until it reports, if it counts.
    left: AtomicU32,
    is_kickable: AtomicU32,
    /// The grace period for which it was interrupted last.
    kicked_for: AtomicU64,
    /// The id of its thread; 0: it has none.
    owner: AtomicU64,
    /// The kernel's number of its thread.
    number: AtomicU32,
    /// The generation of the process in which it was registered, or last kept.
    generation: AtomicU32,
    next: AtomicPtr<Record>,
}

// As in commensal.h, which inlines checkpoints and sections.
const _: () = assert!(offset_of!(Record, due) == 0 && offset_of!(Record, depth) == 4 && FLAGGED == 1);

impl Record {
    #[inline(always)]
    pub(super) fn is_due(&self) -> bool {
        self.due.load(Ordering::Relaxed) != 0
    }

    #[inline(always)]
    pub(super) fn open_section(&self) {
        // Only this thread changes it. Its handlers leave it as it was.
        self.depth.store(self.depth.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        // A handler of this thread that comes in the section finds it open; no other thread looks.
        compiler_fence(Ordering::SeqCst);
    }

    /// Counts a section that ends. True: the reader was flagged or interrupted in it, and has to report.
    #[inline(always)]
    pub(super) fn end_section(&self) -> bool {
        compiler_fence(Ordering::SeqCst);
        let depth = self.depth.load(Ordering::Relaxed) - 1;
        self.depth.store(depth, Ordering::Relaxed);
        // A handler that comes after the next look finds the section ended.
        compiler_fence(Ordering::SeqCst);
        // A kick in the section left the flag up. A kick that comes now finds the section ended.
        self.due.load(Ordering::Relaxed) & FLAGGED != 0 && depth == 0
    }

    /// In no section.
    pub(super) fn report(&self, grace: &Grace) {
        // First: if a thread raises the flag after this, a later checkpoint answers.
        if self.due.load(Ordering::Relaxed) & FLAGGED != 0 {
            self.due.fetch_and(!FLAGGED, Ordering::Relaxed);
        }
        // Pairs with the fence in `synchronize::start`: see `qsbr`.
        self.see(grace, order_reads);
    }

    pub(super) fn go_online(&self, grace: &Grace) {
        // The store is visible before anything is read: see `qsbr`.
        self.see(grace, || fence(Ordering::SeqCst));
    }

    fn see(&self, grace: &Grace, and_then: impl Fn()) {
        let mut number = grace.number();
        loop {
            // Release pairs with the acquire in `is_quiet`: the reads in sections come before.
            self.seen.store(number + 1, Ordering::Release);
            and_then();
            // A kick comes once for each grace period. A kick on top of this may have reported a later number. Or it
            // found the reader offline here, while the thread that sent it could not see that yet.
            match grace.number() {
                same if same == number => return,
                later => number = later,
            }
        }
    }

    pub(super) fn go_offline(&self) {
        // Release: as in `see`.
        self.seen.store(0, Ordering::Release);
    }

    /// Leaves the record to another thread.
    pub(super) fn give_up(&self) {
        self.is_kickable.store(0, Ordering::Relaxed);
        self.go_offline();
        // Release pairs with the acquire in `take_record`: the thread that takes it comes behind us.
        self.owner.store(0, Ordering::Release);
    }

    fn is_quiet(&self, number: u64) -> bool {
        // Acquire pairs with the releases above: the reader's reads in sections come before.
        let seen = self.seen.load(Ordering::Acquire);
        seen == 0 || seen > number
    }
}

/// All registered readers. All-zero: none, and the usual policy.
#[repr(C)]
pub(super) struct Registered {
    first: AtomicPtr<Record>,
    policy: AtomicU32,
}

impl Registered {
    pub(super) fn policy(&self) -> Policy {
        Policy::of(self.policy.load(Ordering::Relaxed))
    }

    pub(super) fn set_policy(&self, policy: Policy) {
        self.policy.store(policy.word(), Ordering::SeqCst);
        // Pairs with the fence in `have_count` of a thread that registers: either we find its record, or it finds this
        // policy.
        order_after_change();
        self.have_count(|| self.records());
    }

    /// Makes readers count if the policy wants it, else not. Repeats if the policy changes meanwhile: the last thread
    /// to change it, or to register, sees what both have written. A reader that counts goes on to the end of its count.
    fn have_count<'r, R: IntoIterator<Item = &'r Record>>(&self, readers: impl Fn() -> R) {
        loop {
            let policy = self.policy();
            for record in readers() {
                match policy {
                    Policy::Counted(_) => record.due.fetch_or(COUNTS, Ordering::SeqCst),
                    _ => record.due.fetch_and(!COUNTS, Ordering::SeqCst),
                };
            }
            // Pairs with the one in `set_policy`: if that comes first, we see the new policy; else that thread sets the
            // bits after us.
            fence(Ordering::SeqCst);
            if self.policy() == policy {
                return;
            }
        }
    }

    fn records(&self) -> impl Iterator<Item = &'static Record> + use<> {
        // SAFETY: records are never freed. Acquire pairs with the release in `take_record`: they are found as they were
        // made.
        let first = unsafe { self.first.load(Ordering::Acquire).as_ref() };
        // SAFETY: as above.
        core::iter::successors(first, |record| unsafe { record.next.load(Ordering::Relaxed).as_ref() })
    }

    /// Registers a reader of the calling thread, offline. None: no memory.
    pub(super) fn register<const KICKABLE: bool>(&self) -> Option<&'static Record> {
        let record = self.take_record()?;
        record.number.store(code::thread_number(), Ordering::Relaxed);
        record.depth.store(0, Ordering::Relaxed);
        record.left.store(0, Ordering::Relaxed);
        record.due.store(0, Ordering::Relaxed);
        self.have_count(|| [record]);
        record.is_kickable.store(KICKABLE.into(), Ordering::Relaxed);
        Some(record)
    }

    /// Takes a record for the calling thread. None: no memory.
    fn take_record(&self) -> Option<&'static Record> {
        let me = thread::id();
        let generation = thread::generation();
        let is_taken = |record: &&Record| {
            record.owner.load(Ordering::Relaxed) == 0 && {
                // Before another thread sees the owner: see `keep_own`.
                record.generation.store(generation, Ordering::Relaxed);
                // Acquire pairs with the release in `give_up`: we come behind the thread that had it.
                record.owner.compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed).is_ok()
            }
        };
        self.records().find(is_taken).or_else(|| {
            if !enter() {
                return None;
            }
            let place = heap().page_heap().metadata.cut(size_of::<Record>(), align_of::<Record>())?;
            // SAFETY: fresh metadata is zero, which is valid, and is never taken back.
            let record = unsafe { &*place.cast::<Record>() };
            record.generation.store(generation, Ordering::Relaxed);
            record.owner.store(me, Ordering::Relaxed);
            let link = |first| {
                record.next.store(first, Ordering::Relaxed);
                Some(place.cast::<Record>())
            };
            // Release pairs with the acquire in `records`.
            let _ = self.first.fetch_update(Ordering::Release, Ordering::Relaxed, link);
            Some(record)
        })
    }

    /// In a fork child, for the thread that forked: its readers stay, and those of all others are gone.
    pub(super) fn keep_own(&self) {
        let generation = thread::generation();
        for record in self.records() {
            // In this order, which acquire keeps: a record taken since the fork has its generation before its owner.
            let owner = record.owner.load(Ordering::Acquire);
            if owner == 0 || record.generation.load(Ordering::Relaxed) == generation {
                continue;
            }
            if owner == thread::id() {
                record.generation.store(generation, Ordering::Relaxed);
                record.number.store(code::thread_number(), Ordering::Relaxed);
                // The signal was the parent's.
                record.kicked_for.store(0, Ordering::Relaxed);
            } else {
                record.seen.store(0, Ordering::Relaxed);
                record.owner.store(0, Ordering::Release);
            }
        }
    }

    /// A checkpoint of a reader that is flagged or counts.
    pub(super) fn look_after(&self, record: &Record, grace: &Grace) {
        if record.due.load(Ordering::Relaxed) & FLAGGED != 0 {
            return record.report(grace);
        }
        // Only its thread changes it.
        match record.left.load(Ordering::Relaxed) {
            0 | 1 => {
                if let Policy::Counted(each) = self.policy() {
                    record.left.store(each, Ordering::Relaxed);
                }
                record.report(grace);
            }
            left => record.left.store(left - 1, Ordering::Relaxed),
        }
    }

    /// The kernel's number of the thread of a reader that has not seen a grace period's number yet. Also tells readers
    /// to report if the grace period is older than the policy allows.
    pub(super) fn first_open(&self, number: u64, age_ns: impl Fn() -> u64) -> Option<u32> {
        let mut first = None;
        for record in self.records().filter(|record| !record.is_quiet(number)) {
            first = first.or(Some(record.number.load(Ordering::Relaxed)));
            self.urge(record, number, age_ns());
        }
        first
    }

    fn urge(&self, record: &Record, number: u64, age_ns: u64) {
        let threshold_ns = TILL_QS.get() * MILLISECOND;
        let patience = match self.policy() {
            Policy::None => return,
            Policy::Counted(_) => 2 * threshold_ns,
            Policy::Flagged | Policy::Kicked => threshold_ns,
        };
        if age_ns >= patience && record.due.load(Ordering::Relaxed) & FLAGGED == 0 {
            record.due.fetch_or(FLAGGED, Ordering::Relaxed);
        }
        let is_kicked = self.policy() == Policy::Kicked
            && age_ns >= 3 * threshold_ns
            && record.is_kickable.load(Ordering::Relaxed) != 0;
        // Once for each grace period.
        if is_kicked && record.kicked_for.swap(number, Ordering::Relaxed) != number {
            thread::interrupt(record.number.load(Ordering::Relaxed));
        }
    }

    /// Receives a kick on the thread that it was meant for, on top of anything.
    pub(super) fn be_kicked(&self, grace: &Grace) {
        let me = thread::id();
        for record in self.records().filter(|record| record.owner.load(Ordering::Relaxed) == me) {
            let is_outside = record.depth.load(Ordering::Relaxed) == 0;
            let is_meant = record.is_kickable.load(Ordering::Relaxed) != 0;
            // Else it reports at the end of its section, as it is flagged.
            if is_meant && is_outside && record.seen.load(Ordering::Relaxed) != 0 {
                record.report(grace);
            }
        }
    }

    /// Whether a reader of the calling thread is online, so that a grace period would wait for it.
    pub(super) fn is_own_online(&self) -> bool {
        let is_own = |record: &Record| record.owner.load(Ordering::Relaxed) == thread::id();
        self.records().any(|record| is_own(record) && record.seen.load(Ordering::Relaxed) != 0)
    }
}
