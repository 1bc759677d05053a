//! The writer of the statistics page, a process's report about itself.
//!
//! A thread on a slow path writes the page when it is due, twice a second. It writes a part at a time, some twenty
//! microseconds each, because it looks at everything in the process. No thread is woken or created for it. It takes
//! less than one part in 400 of one thread's time, plus up to a fifth of a millisecond saved up. The next write comes
//! sooner if memory in use has changed by much. A young process writes each time its age has doubled. The background
//! thread writes the page before it rests or ends, so the page of an idle process is true. Without that thread nothing
//! writes the page of an idle process, and readers see its age.
//!
//! **Processes with a page.** With `observe:PID`, as `commensal run` sets it, that process at its start. Other
//! processes that inherit the setting, and all with `observe:on`, after 50 ms of life or some MiB more. Making a page
//! takes some 0.2 ms, so this is less than one part in 200 of any process, for any number of short-lived ones. A
//! process that did little before it came to rest has none; [`write_now`] makes one at once.
//!
//! **Forks.** The state of the page lies in memory that the kernel wipes in children: a child has none, and makes its
//! own. **Signal handlers** reach this code like any allocation, and skip it if they interrupted the writer.
//!
//! **Exits.** `exit`, `quick_exit` and the library's `_exit` [withdraw] the page. After a crash it stays.
//!
//! Any threads run this at the same time; one works, and the others do not wait.

mod allowance;
pub(super) mod read;
mod rows;

use super::console::StandardError;
use super::report;
use crate::caches::{enter, heap};
use crate::central::coarse_of;
use crate::group::register;
use crate::layout::{HeaderWord, header};
use crate::observe::page::{ENDED_AT, Room, Writer};
use crate::page_heap::PAGE;
use crate::percpu;
use crate::settings::Key;
use crate::upcalls::Rest;
use allowance::Allowance;
use core::cell::UnsafeCell;
use core::fmt::Write;
use core::ops::Range;
use core::ptr::null_mut;
use machine::publication::{self, Place};
use machine::sync::{AtomicPtr, AtomicU32, Ordering};
use machine::{clock, process, slot, thread, vm};
use read::{MOST_CACHES, Walk};

const MILLISECOND: u64 = 1_000_000;
/// Age, or growth in pages, at which a process other than the first makes its page.
const LIFE_NS: u64 = 50 * MILLISECOND;
const GROWTH: u64 = (4 << 20) / PAGE as u64;
/// The processes that have a page: 0, none; this process at its start; and any, each that lives for a while.
const OBSERVE: Key = Key::of("observe");
const INTERVAL: Key = Key::of("observe.interval_ms");
/// Memory in use has changed by much if by an eighth and this many pages.
const MUCH: u64 = (1 << 18) / PAGE as u64;
/// Length of a part.
const STRETCH_NS: u64 = 20_000;
/// In coarse time: to the next part; to the next attempt if a lock is taken; to the next look whether a write is due.
const SOON: u32 = coarse_of(100_000);
const NOT_NOW: u32 = coarse_of(1_600_000);
const LOOK: u32 = coarse_of(1_600_000);
const SECOND: u32 = coarse_of(1_000 * MILLISECOND);

/// The state of the page, in memory of its own. All zeroes: no page.
#[repr(C)]
struct State {
    /// 1: a thread is working.
    busy: AtomicU32,
    /// The process that has published the page, since then; 0: none, or it has withdrawn the page.
    owner: AtomicU32,
    inside: UnsafeCell<Inside>,
}

// SAFETY: the thread that made `busy` 1 uses the inside.
unsafe impl Sync for State {}

#[repr(C)]
struct Inside {
    writer: Writer,
    place: Place,
    /// Whether a page could not be made: then there is no second attempt.
    is_refused: bool,
    /// When a thread first ran this, and in which process: a child of `vfork` shares its parent's memory.
    first_ns: u64,
    process: u32,
    due_ns: u64,
    allowance: Allowance,
    /// The memory at the last write.
    seen: Seen,
    walk: Walk,
}

/// Memory figures that show whether a new write is worth it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
struct Seen {
    pages: u64,
    dirty: u64,
    purged: u64,
}

impl Seen {
    /// Differs from any state.
    const NEVER: Seen = Seen { pages: u64::MAX, dirty: 0, purged: 0 };

    fn now() -> Self {
        let counts = &heap().page_heap().counts;
        Seen { pages: counts.in_use.get(), dirty: counts.free_dirty.get(), purged: counts.purged.get() }
    }

    fn is_far_from(self, other: Seen) -> bool {
        self.pages.abs_diff(other.pages) > other.pages / 8 + MUCH
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// The copy is complete.
    Last,
    /// There is more.
    More,
    /// Another thread holds a lock that is needed.
    NotNow,
}

/// Applies the setting, and makes this process's page if it is due at the start.
///
/// # Errors
/// The reason, in words.
pub fn begin() -> Result<(), &'static str> {
    if !enter() {
        return Ok(());
    }
    let (at, observed) = (&heap().cpu.hook.statistics_at, OBSERVE.get());
    State::place().wanted.store(u32::from(observed != 0), Ordering::Relaxed);
    if observed == 0 {
        at.never();
        return Ok(());
    }
    at.in_units(LOOK);
    if observed != u64::from(process::id()) {
        return Ok(());
    }
    let state = State::known_or_made().ok_or("there is no memory for it, or the kernel does not tell forks")?;
    state.with(Inside::begin).unwrap_or(Ok(()))
}

/// Writes a part if it is due; or, before a thread of the runtime rests, everything.
pub(crate) fn write_due(rest: Rest) {
    let at = &heap().cpu.hook.statistics_at;
    // First, so that other threads skip this meanwhile.
    at.in_units(SOON);
    // The thread holds a lock, and the work takes others.
    if thread::holds_locks() {
        return;
    }
    percpu::enter();
    let Some(state) = State::known_or_made() else { return at.in_units(SECOND) };
    let work = |inside: &mut Inside| match rest {
        Rest::Soon => inside.write_all(),
        Rest::No => inside.go_on(),
    };
    if let Some(units) = state.with(work) {
        at.in_units(units);
    }
}

/// Writes the page at once, except parts whose lock is taken; makes it if this process is to have one. Does nothing if
/// another thread is writing.
pub fn write_now() {
    let is_wanted = PLACE.get().is_some_and(|place| place.wanted.load(Ordering::Relaxed) != 0);
    if !is_wanted || !enter() {
        return;
    }
    if let Some(state) = State::known_or_made() {
        state.with(|inside| {
            inside.note_first();
            if inside.make(clock::now_ns()).is_ok() {
                inside.write_all();
            }
        });
    }
}

/// The state of the page, and whether a page is wanted.
struct Known {
    state: AtomicPtr<State>,
    wanted: AtomicU32,
}

// SAFETY: zeroes are null and not wanted, and these bytes are only used here.
const PLACE: HeaderWord<Known> = unsafe { HeaderWord::at(header::STATISTICS) };

impl State {
    fn place() -> &'static Known {
        PLACE.get().expect("there is a heap")
    }

    fn known() -> Option<&'static State> {
        // Acquire pairs with the release in `known_or_made`.
        // SAFETY: null, or stored there, and never unmapped.
        unsafe { Self::place().state.load(Ordering::Acquire).as_ref() }
    }

    /// None: there is no memory, or the kernel cannot wipe memory in children (before 4.14).
    fn known_or_made() -> Option<&'static State> {
        const BYTES: usize = size_of::<State>().next_multiple_of(vm::PAGE);
        Self::known().or_else(|| {
            let made = vm::reserve(null_mut(), BYTES, vm::Access::ReadWrite)?;
            // SAFETY: the mapping is ours.
            let is_wiped = unsafe { vm::wipe_on_fork(made, BYTES) };
            let word = &Self::place().state;
            let install = || word.compare_exchange(null_mut(), made.cast(), Ordering::AcqRel, Ordering::Relaxed);
            if !is_wiped || install().is_err() {
                // SAFETY: no other thread has seen it.
                unsafe { vm::release(made, BYTES) };
            }
            Self::known()
        })
    }

    /// None: another thread is working.
    fn with<R>(&self, work: impl FnOnce(&mut Inside) -> R) -> Option<R> {
        // Acquire and release: one thread after the other.
        self.busy.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).ok()?;
        // SAFETY: no other thread is.
        let result = work(unsafe { &mut *self.inside.get() });
        self.busy.store(0, Ordering::Release);
        Some(result)
    }
}

impl Inside {
    fn begin(&mut self) -> Result<(), &'static str> {
        self.note_first();
        self.make(self.first_ns)?;
        self.catch_up();
        Ok(())
    }

    /// Without a page, the state begins again in a child that shares its parent's memory.
    fn note_first(&mut self) {
        if !self.writer.has_begun() && self.process != process::id() {
            (self.first_ns, self.process, self.seen) = (clock::now_ns(), process::id(), Seen::now());
        }
    }

    /// Whether there is a page; makes it when it is due. Reports no error: descriptor 2 may be any file by now.
    fn has_page(&mut self, now: u64) -> bool {
        let is_time = || now - self.first_ns >= LIFE_NS || Seen::now().pages.saturating_sub(self.seen.pages) >= GROWTH;
        self.writer.has_begun() || !self.is_refused && is_time() && self.make(now).is_ok()
    }

    /// Writes a part if it is due. Returns the units of coarse time until the next call.
    fn go_on(&mut self) -> u32 {
        self.note_first();
        let began = clock::now_ns();
        if !self.has_page(began) {
            return if self.is_refused { SECOND } else { self.next_look(began) };
        }
        if !self.writer.is_writing() {
            let is_due = began >= self.due_ns || Seen::now().is_far_from(self.seen);
            if !is_due || !self.allowance.is_left(began) {
                return self.next_look(began);
            }
            self.start(began);
        }
        loop {
            let part = self.do_part();
            let passed = clock::now_ns() - began;
            if part == Part::Last {
                break;
            }
            if part == Part::NotNow || passed > STRETCH_NS {
                self.spend(passed);
                return if part == Part::NotNow { NOT_NOW } else { SOON };
            }
        }
        let now = clock::now_ns();
        self.spend(now - began);
        let parts = self.writer.finish(now);
        self.show(&parts);
        self.due_ns = now + (INTERVAL.get() * MILLISECOND).min(now - self.first_ns);
        self.next_look(now)
    }

    fn spend(&mut self, ns: u64) {
        self.writer.spend(ns);
        self.allowance.spend(ns);
    }

    /// Time until the next look whether a write is due: shorter in a young process.
    fn next_look(&self, now: u64) -> u32 {
        coarse_of((now - self.first_ns) / 4).clamp(SOON, LOOK)
    }

    fn start(&mut self, now: u64) {
        self.seen = Seen::now();
        let turn = self.writer.start(now);
        self.show(&[turn]);
        self.walk.start();
    }

    /// Writes everything, if there is a page.
    fn write_all(&mut self) -> u32 {
        // The counts of pages may be as they were although objects were freed.
        self.seen = Seen::NEVER;
        self.catch_up()
    }

    /// Writes everything that has changed.
    fn catch_up(&mut self) -> u32 {
        self.note_first();
        if !self.has_page(clock::now_ns()) {
            return LOOK;
        }
        // At most two: one that was half written, and one of the present state.
        for _ in 0..2 {
            if !self.writer.is_writing() {
                if Seen::now() == self.seen {
                    break;
                }
                self.start(clock::now_ns());
            }
            while self.writer.is_writing() {
                // The complete copy also has a time for the next look.
                if self.go_on() == NOT_NOW && self.writer.is_writing() {
                    return NOT_NOW;
                }
            }
        }
        LOOK
    }

    /// Publishes parts of the page, one after the other. If the file was truncated, the process has no page any more.
    fn show(&mut self, parts: &[Range<usize>]) {
        if !parts.iter().all(|part| publication::update(&self.place, part.clone())) {
            (self.writer, self.is_refused) = (Writer::default(), true);
        }
    }

    fn make(&mut self, now: u64) -> Result<(), &'static str> {
        if self.writer.has_begun() {
            return Ok(());
        }
        const MOST_SLOTS: usize = 256;
        const LOCKS: usize = 80;
        let room =
            Room { caches: MOST_CACHES, slots: slot::possible().min(MOST_SLOTS), groups: register::MOST, locks: LOCKS };
        let memory = publication::publish(&mut self.place, room.bytes()).inspect_err(|_| self.is_refused = true)?;
        // SAFETY: the memory is ours, zero, and of that size.
        let parts = unsafe { self.writer.begin(memory, room, self.process, report::program(), now) };
        self.show(&parts);
        // So the first write follows.
        self.seen = Seen::NEVER;
        if let Some(state) = State::known() {
            // Release pairs with `withdraw`: the place is written, and nothing writes there again.
            state.owner.store(self.process, Ordering::Release);
        }
        percpu::for_process(|| process::at_any_exit(withdraw));
        Ok(())
    }
}

/// Withdraws the page of the process, because it is about to end in an orderly way. A child does not withdraw its
/// parent's, also not one that shares the parent's memory. Async-signal-safe: it may have interrupted the writer.
#[unsafe(link_section = ".text.first")]
pub extern "C" fn withdraw() {
    if PLACE.get().is_none() {
        return;
    }
    let Some(state) = State::known() else { return };
    // Acquire pairs with the release in `make`.
    if state.owner.compare_exchange(process::id(), 0, Ordering::Acquire, Ordering::Relaxed).is_ok() {
        // SAFETY: the owner has written the place, nothing writes there again, and only one caller comes here.
        publication::withdraw(unsafe { &(*state.inside.get()).place }, ENDED_AT);
    }
}

/// Reports on standard error why there is no page.
pub(super) fn complain(why: &str) {
    let _ = writeln!(StandardError::default(), "commensal: COMMENSAL_CONF: observe: no statistics page: {why}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heap;
    use crate::observe::page::Text;
    use std::vec;

    /// A copy that was half written when the process came to rest was true at its start. Another one follows later.
    /// Planted bug that was seen here: the time for the next look, after the last part, taken for "not now".
    #[test]
    fn catching_up_is_not_over_with_what_was_half_written() {
        const MANY: usize = 64 << 20;
        machine::test_support::play(1, || {
            percpu::enter();
            let room = Room { caches: 4, slots: 4, groups: 1, locks: 1 };
            let mut memory = vec![0u64; room.bytes().div_ceil(size_of::<u64>())];
            // SAFETY: zeroes mean no page yet.
            let mut inside: Inside = unsafe { core::mem::zeroed() };
            // SAFETY: the page's memory outlives it, and has no other user.
            unsafe { inside.writer.begin(memory.as_mut_ptr().cast(), room, process::id(), Text::of("test"), 0) };
            // A process as old as its clock, so that the next look is as late as possible.
            (inside.process, inside.first_ns) = (process::id(), 0);
            let small = heap::allocate(100);
            inside.start(clock::now_ns());
            assert_eq!(inside.do_part(), Part::More, "the first of several parts");
            let large = heap::allocate(MANY);
            assert!(!small.is_null() && !large.is_null());
            assert!(Seen::now().is_far_from(inside.seen), "{:?}, and now {:?}", inside.seen, Seen::now());
            inside.catch_up();
            // Other tests have memory of the same heap, but less than that.
            let missed = Seen::now().pages.abs_diff(inside.seen.pages);
            assert!(missed < (MANY / PAGE / 2) as u64, "{missed} pages are not said");
            assert!(!inside.writer.is_writing(), "it stopped on the way");
            // SAFETY: allocated above.
            unsafe { [small, large].into_iter().for_each(|block| heap::free(block)) };
        });
    }
}
