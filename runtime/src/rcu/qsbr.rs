//! Readers that registered: their sections cost nothing, and they say now and then that they are in none.
//!
//! ```text
//!   registered ─▶ sections ─▶ checkpoint ─▶ sections ─▶ checkpoint ─▶ … ─▶ offline, or no more
//!                              └ "seen": the number of the last grace period that began before it
//! ```
//!
//! A grace period waits until each of them has seen its number, or is offline. How readers come to report, and so how
//! short grace periods are, is for the program to choose, also while it runs: the [`Policy`].
//!
//! | policy | a checkpoint | the one that holds a grace period up |
//! |---|---|---|
//! | [`Policy::Counted`] | counts, and each n-th reports | is flagged after two thresholds |
//! | [`Policy::Flagged`] | looks at a word of its own | is flagged after one threshold |
//! | [`Policy::Kicked`] | likewise | is flagged after one, and interrupted after three if it is kickable |
//! | [`Policy::None`] | likewise | is waited for |
//!
//! The threshold is the setting `rcu.till_qs_ms`. Whoever is flagged reports at its next checkpoint.
//! [`Reader::checkpoint_always`] reports in any case. Short grace periods free memory early, and in small batches; long
//! ones make large batches and few, and let more of it wait.
//!
//! **Why that is enough.** An updater takes something away, fences, and reads the number of grace periods
//! (`grace::start`). Then that number is raised. A reader that has loaded the new number, and orders its loads
//! (`order_reads`), finds no more what was taken away. What it read before, it had read when it stored what it has
//! seen, by a release. So on x86 a report is a load and a store. Coming back from offline takes a fence: the store must
//! be visible before anything is read. It pairs with the fence behind the number that is raised: either the grace
//! period sees that the reader is there, or the reader sees all that was taken away.
//!
//! Source of the algorithm: liburcu's flavour of this name (Desnoyers), with numbers in place of two phases; policies
//! and thresholds are those that the Linux kernel had at different times for loops that call `cond_resched` (McKenney).

use super::domain::Domain;
use super::grace::{Caller, Pace, wait_for_registered};
use crate::caches::enter;
use crate::caches::heap;
use crate::settings::Key;
use core::marker::PhantomData;
use core::mem::{forget, offset_of};
use core::panic::Location;
use machine::sync::{
    AtomicPtr, AtomicU32, AtomicU64, Ordering, compiler_fence, fence, order_after_change, order_reads,
};
use machine::thread;

const POLICY: Key = Key::of("rcu.policy");
const COUNTED_EACH: Key = Key::of("rcu.counted_each");
const TILL_QS: Key = Key::of("rcu.till_qs_ms");

/// How readers come to report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// When they are flagged: the usual policy.
    Flagged,
    /// Only by [`Reader::checkpoint_always`], and when they go offline.
    None,
    /// When they are flagged, or interrupted.
    Kicked,
    /// At each so many checkpoints; 1: at each.
    Counted(u32),
}

/// As a word: zero is the usual one.
const NONE: u32 = 1;
const KICKED: u32 = 2;
const COUNTED: u32 = 1 << 31;

impl Policy {
    /// The policy that `rcu.policy` names so; each `each`-th checkpoint reports under the one that counts. None: there
    /// is none of this name.
    pub fn named(name: &str, each: u32) -> Option<Self> {
        POLICY.parse(name).map(|value| Self::valued(value, each))
    }

    /// That of the settings.
    pub(crate) fn said() -> Self {
        Self::valued(POLICY.get(), COUNTED_EACH.get() as u32)
    }

    /// By its place among the values of `rcu.policy`.
    fn valued(value: u64, each: u32) -> Self {
        [Policy::Flagged, Policy::Counted(each), Policy::Kicked, Policy::None][value as usize]
    }

    fn word(self) -> u32 {
        match self {
            Policy::Flagged => 0,
            Policy::None => NONE,
            Policy::Kicked => KICKED,
            Policy::Counted(each) => COUNTED | each.clamp(1, COUNTED - 1),
        }
    }

    fn of(word: u32) -> Self {
        match word {
            0 => Policy::Flagged,
            NONE => Policy::None,
            KICKED => Policy::Kicked,
            _ => Policy::Counted(word & !COUNTED),
        }
    }
}

// What a reader's checkpoints have to look after.
/// It is to report.
const FLAGGED: u32 = 1;
/// It is to count.
const COUNTS: u32 = 2;

/// What is known of a reader. Records are never freed, but used again.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Record {
    /// What its checkpoints have to look after.
    due: AtomicU32,
    /// Sections that are open, if it is kickable.
    depth: AtomicU32,
    /// The number of the last grace period that it knows of, plus one; 0: it is offline, or nobody's.
    seen: AtomicU64,
    /// Checkpoints until it reports, if it counts.
    left: AtomicU32,
    /// Whether it may be interrupted.
    is_kickable: AtomicU32,
    /// When it was interrupted last, by the number of the grace period.
    kicked_for: AtomicU64,
    /// The id of its thread; 0: nobody's.
    owner: AtomicU64,
    /// The kernel's number of its thread.
    number: AtomicU32,
    /// The generation of the process in which it was registered, or said to be still there.
    generation: AtomicU32,
    next: AtomicPtr<Record>,
}

// So commensal.h has it, whose checkpoints and sections are inlined.
const _: () = assert!(offset_of!(Record, due) == 0 && offset_of!(Record, depth) == 4 && FLAGGED == 1);

impl Record {
    /// In no section.
    fn report(&self, domain: &Domain) {
        // First: who raises it after this is answered by a later checkpoint.
        if self.due.load(Ordering::Relaxed) & FLAGGED != 0 {
            self.due.fetch_and(!FLAGGED, Ordering::Relaxed);
        }
        // Pairs with the fence in `grace::start`: see above.
        self.see(domain, order_reads);
    }

    fn go_online(&self, domain: &Domain) {
        // The store is visible before anything is read: see above.
        self.see(domain, || fence(Ordering::SeqCst));
    }

    fn see(&self, domain: &Domain, and_then: impl Fn()) {
        let mut number = domain.grace.number();
        loop {
            // Release: what was read in sections was read before. Pairs with the acquire in `is_quiet`.
            self.seen.store(number + 1, Ordering::Release);
            and_then();
            // A kick comes once for each grace period. One on top of this may have reported a later one; or have found
            // the reader offline here, when whoever sent it could not see that yet.
            match domain.grace.number() {
                same if same == number => return,
                later => number = later,
            }
        }
    }

    fn go_offline(&self) {
        // Release: as in `report`.
        self.seen.store(0, Ordering::Release);
    }

    /// A checkpoint of one that is flagged or counts.
    #[cold]
    fn look_after(&self) {
        let domain = Domain::of_process();
        if self.due.load(Ordering::Relaxed) & FLAGGED != 0 {
            return self.report(domain);
        }
        // Changed by its thread only.
        match self.left.load(Ordering::Relaxed) {
            0 | 1 => {
                if let Policy::Counted(each) = domain.registered.policy() {
                    self.left.store(each, Ordering::Relaxed);
                }
                self.report(domain);
            }
            left => self.left.store(left - 1, Ordering::Relaxed),
        }
    }

    fn is_quiet(&self, number: u64) -> bool {
        // Acquire pairs with the releases above: what it read in its sections was read before.
        let seen = self.seen.load(Ordering::Acquire);
        seen == 0 || seen > number
    }
}

/// All who registered. Zeroes: nobody, and the usual policy.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Registered {
    first: AtomicPtr<Record>,
    policy: AtomicU32,
}

impl Registered {
    fn policy(&self) -> Policy {
        Policy::of(self.policy.load(Ordering::Relaxed))
    }

    /// Has readers count if the policy wants it, and not else. Again, if the policy changes meanwhile: whoever is the
    /// last to change it, or to register, sees what both have written. Whoever counts goes on to the end of its count.
    fn have_count<'r, R: IntoIterator<Item = &'r Record>>(&self, readers: impl Fn() -> R) {
        loop {
            let policy = self.policy();
            for record in readers() {
                match policy {
                    Policy::Counted(_) => record.due.fetch_or(COUNTS, Ordering::SeqCst),
                    _ => record.due.fetch_and(!COUNTS, Ordering::SeqCst),
                };
            }
            // Behind the additions, and those before what another one's policy was stored.
            fence(Ordering::SeqCst);
            if self.policy() == policy {
                return;
            }
        }
    }

    fn records(&self) -> impl Iterator<Item = &'static Record> + use<> {
        // SAFETY: records are never freed. Acquire pairs with the release in `push`: they are found as they were made.
        let first = unsafe { self.first.load(Ordering::Acquire).as_ref() };
        // SAFETY: as above.
        core::iter::successors(first, |record| unsafe { record.next.load(Ordering::Relaxed).as_ref() })
    }

    /// A record that is the calling thread's from now on. None: no memory.
    fn take_record(&self) -> Option<&'static Record> {
        let me = thread::id();
        let generation = thread::generation();
        let is_taken = |record: &&Record| {
            record.owner.load(Ordering::Relaxed) == 0 && {
                // Before it is seen to be anybody's: see `keep_own`.
                record.generation.store(generation, Ordering::Relaxed);
                // Acquire: behind whoever had it.
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
            // In this order: whose it is since the fork is said after that generation. Acquire keeps it.
            let owner = record.owner.load(Ordering::Acquire);
            if owner == 0 || record.generation.load(Ordering::Relaxed) == generation {
                continue;
            }
            if owner == thread::id() {
                record.generation.store(generation, Ordering::Relaxed);
                record.number.store(machine::code::thread_number(), Ordering::Relaxed);
                // The signal was the parent's.
                record.kicked_for.store(0, Ordering::Relaxed);
            } else {
                record.seen.store(0, Ordering::Relaxed);
                record.owner.store(0, Ordering::Release);
            }
        }
    }

    /// The kernel's number of one that has not seen a grace period's number yet, which is so old; whoever takes long is
    /// told to report.
    pub(super) fn first_open(&self, number: u64, age_ns: impl Fn() -> u64, threshold_ns: u64) -> Option<u32> {
        let mut first = None;
        for record in self.records().filter(|record| !record.is_quiet(number)) {
            first = first.or(Some(record.number.load(Ordering::Relaxed)));
            self.urge(record, number, age_ns(), threshold_ns);
        }
        first
    }

    fn urge(&self, record: &Record, number: u64, age_ns: u64, threshold_ns: u64) {
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

    /// Whether a reader of the calling thread is online, which a grace period would wait for.
    pub(super) fn is_own_online(&self) -> bool {
        let is_own = |record: &Record| record.owner.load(Ordering::Relaxed) == thread::id();
        self.records().any(|record| is_own(record) && record.seen.load(Ordering::Relaxed) != 0)
    }
}

/// What a kick does on the thread that it was meant for. In the middle of anything.
fn be_kicked() {
    let domain = Domain::of_process();
    let me = thread::id();
    for record in domain.registered.records().filter(|record| record.owner.load(Ordering::Relaxed) == me) {
        let is_outside = record.depth.load(Ordering::Relaxed) == 0;
        // Else it reports at the end of its section, as it is flagged.
        if record.is_kickable.load(Ordering::Relaxed) != 0 && is_outside && record.seen.load(Ordering::Relaxed) != 0 {
            record.report(domain);
        }
    }
}

/// The policy of the process.
pub fn policy() -> Policy {
    Domain::of_process().registered.policy()
}

/// A policy that was refused: the signal that it needs is the program's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignalInUse;

/// Sets the policy, for all readers, those that are registered already too. Error: it stays as it was.
pub fn set_policy(policy: Policy) -> Result<(), SignalInUse> {
    if policy == Policy::Kicked && !thread::on_interrupt(be_kicked) {
        return Err(SignalInUse);
    }
    let registered = &Domain::enter().registered;
    registered.policy.store(policy.word(), Ordering::SeqCst);
    // Pairs with the fence in `have_count` of one that registers: either we find its record, or it finds this policy.
    order_after_change();
    registered.have_count(|| registered.records());
    Ok(())
}

/// A reader of the calling thread, which is *online*: grace periods wait for its checkpoints. `KICKABLE`: it may be
/// interrupted under [`Policy::Kicked`]; its sections are counted for that, by two additions in a word of its own.
///
/// A program has it where it would else open a section again and again: a server's loop, say, with a checkpoint at its
/// end. Whatever blocks for long goes into [`offline`](Self::offline). A reader that is forgotten, and does neither, is
/// waited for, for ever; one that is dropped is not.
///
/// Threads may have several; a fork child has those of the thread that forked. Not for signal handlers.
#[derive(Debug)]
pub struct Reader<const KICKABLE: bool = false> {
    record: &'static Record,
    not_send: PhantomData<*mut ()>,
}

/// A section of a [`Reader`], until it is dropped.
#[derive(Debug)]
pub struct Section<'r, const KICKABLE: bool> {
    reader: &'r Reader<KICKABLE>,
}

/// There is no memory for another reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoMemory;

impl<const KICKABLE: bool> Reader<KICKABLE> {
    /// Registers a reader, online. Takes some 100 ns, and longer the more threads are registered.
    pub fn register() -> Result<Self, NoMemory> {
        let domain = Domain::enter();
        let record = domain.registered.take_record().ok_or(NoMemory)?;
        record.number.store(machine::code::thread_number(), Ordering::Relaxed);
        record.depth.store(0, Ordering::Relaxed);
        record.left.store(0, Ordering::Relaxed);
        record.due.store(0, Ordering::Relaxed);
        domain.registered.have_count(|| [record]);
        record.is_kickable.store(KICKABLE.into(), Ordering::Relaxed);
        record.go_online(domain);
        Ok(Reader { record, not_send: PhantomData })
    }

    /// Opens a section: what is found in it stays until it ends. Free, but for two additions if the reader is kickable.
    #[inline(always)]
    pub fn read(&self) -> Section<'_, KICKABLE> {
        if KICKABLE {
            let depth = &self.record.depth;
            // By this thread only, but for its own handlers, which leave it as it was.
            depth.store(depth.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            // The handler of this thread that comes in the section finds it open; nobody else looks.
            compiler_fence(Ordering::SeqCst);
        }
        Section { reader: self }
    }

    /// In no section: reports if the policy wants it to. Else it costs a load of a word of its own, which stays in this
    /// CPU's cache.
    #[inline(always)]
    pub fn checkpoint(&mut self) {
        if self.record.due.load(Ordering::Relaxed) != 0 {
            self.record.look_after();
        }
    }

    /// In no section: reports, whatever the policy.
    #[inline]
    pub fn checkpoint_always(&mut self) {
        self.record.report(Domain::of_process());
    }

    /// Does something that may take long, as one for which nobody waits.
    pub fn offline<R>(&mut self, work: impl FnOnce() -> R) -> R {
        /// Online again, also after a panic.
        struct Online(&'static Record);
        impl Drop for Online {
            fn drop(&mut self) {
                self.0.go_online(Domain::enter());
            }
        }
        let _online = Online(self.record);
        self.record.go_offline();
        work()
    }

    /// The reader as other languages have it, for [`Self::from_raw`]: it stays registered.
    pub fn into_raw(self) -> *mut () {
        let raw = (&raw const *self.record).cast_mut().cast();
        forget(self);
        raw
    }

    /// A reader that was given away by [`Self::into_raw`].
    ///
    /// # Safety
    ///
    /// It is there once, and the calling thread's.
    pub unsafe fn from_raw(raw: *mut ()) -> Self {
        // SAFETY: by the caller; records are never freed.
        Reader { record: unsafe { &*raw.cast() }, not_send: PhantomData }
    }

    /// What [`Self::offline`] begins with, for languages without closures.
    ///
    /// # Safety
    ///
    /// No section is opened before [`Self::go_online`].
    pub unsafe fn go_offline(&mut self) {
        self.record.go_offline();
    }

    /// What [`Self::offline`] ends with.
    pub fn go_online(&mut self) {
        self.record.go_online(Domain::enter());
    }

    /// Waits for a grace period; [`synchronize`](super::synchronize) would wait for this reader, too, and ends the
    /// program.
    #[track_caller]
    pub fn synchronize(&mut self) {
        self.synchronize_for(Pace::Usual, Caller::Place(Location::caller()));
    }

    /// What it is made of.
    pub fn synchronize_for(&mut self, pace: Pace, caller: Caller) {
        self.record.go_offline();
        wait_for_registered(pace, caller);
        self.record.go_online(Domain::of_process());
    }
}

impl<const KICKABLE: bool> Drop for Section<'_, KICKABLE> {
    #[inline(always)]
    fn drop(&mut self) {
        if KICKABLE {
            let record = self.reader.record;
            compiler_fence(Ordering::SeqCst);
            let depth = record.depth.load(Ordering::Relaxed) - 1;
            record.depth.store(depth, Ordering::Relaxed);
            // The handler that comes after the next look finds it ended.
            compiler_fence(Ordering::SeqCst);
            // It was interrupted in the section. One that comes now finds it ended.
            if record.due.load(Ordering::Relaxed) & FLAGGED != 0 && depth == 0 {
                record.look_after();
            }
        }
    }
}

impl<const KICKABLE: bool> Drop for Reader<KICKABLE> {
    fn drop(&mut self) {
        self.record.is_kickable.store(0, Ordering::Relaxed);
        self.record.go_offline();
        // Release: whoever takes it comes behind us.
        self.record.owner.store(0, Ordering::Release);
    }
}

impl Domain {
    /// After how long readers are flagged.
    pub(super) fn threshold_ns(&self) -> u64 {
        TILL_QS.get() * 1_000_000
    }
}
