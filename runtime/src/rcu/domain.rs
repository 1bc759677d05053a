//! Where sections are counted.
//!
//! ```text
//!   counts ─▶ │ period 0: begun, ended, ended elsewhere, begun beside │ period 1: … │   slot 0    two lines for each slot
//!             │                                                       │             │   slot 1
//!
//!   lanes     │ period 0: begun, ended │ period 1: … │   each marked with the generation of the process
//! ```
//!
//! Where the kernel gives concurrency ids and grants kicks, sections are counted in the rows of slots: by restartable
//! additions, but for ends of threads that have left the slot meanwhile, and for begins of threads that get no
//! restartable section to its end. Everywhere else, and by threads that have no slot, sections are counted in *lanes*,
//! by locked instructions.
//!
//! **Levels.** Each thread counts its own open sections, in the word by which it knows what to do: `thread::level` is
//! one lower for each, from what it is *based* on.
//!
//! | based on | the thread | whoever opens a section is told | whoever ends one |
//! |---|---|---|---|
//! | 0 | is not ready, as when it begins; or cannot be | yes: makes it ready, or counts in a lane | perhaps, in vain |
//! | [`READY`] | has a slot, and there are rows | no | no |
//! | [`INHERITED`] | has forked with sections open, and this is the child | yes: counts in a lane | yes |
//!
//! **Forks.** A child has a copy of all counts, and one thread of all whose sections they count. That thread went a
//! level down before it opened a section, and up after it had ended one. So when the child is put in order, the level
//! says how many of its sections are open, and any that it is in the middle of opening or ending are among them. They
//! are the child's *inherited* sections: a number, of which no row knows. As long as it is not zero, rows are not used:
//! ends of such sections may still be counted there. After the last one they are zeroed, and used again.
//!
//! Inherited sections and those that the thread has opened since are not told apart: all that matters is how many of
//! both are open. They are waited for until there are so few that even if all were inherited ones, some of them would
//! have ended.
//!
//! Marks of lanes make additions of another generation fail. Whoever finds that out was among the thread's open
//! sections, and is inherited.

use super::deferred::Deferred;
use super::grace::Grace;
use super::qsbr::Registered;
use super::worker::Worker;
use crate::percpu;
use crate::settings;
use core::mem::offset_of;
use core::ptr::null_mut;
use machine::slot::{self, COUNTS, Counted, Mode};
use machine::sync::{AtomicPtr, AtomicU32, AtomicU64, Ordering, order_after_change, order_reads, spin_loop};
use machine::{kick, process, root, thread, vm};

/// What the level of a thread is counted down from that counts in rows.
const READY: i32 = 1 << 30;
/// Likewise, of one that has inherited sections.
const INHERITED: i32 = -(1 << 30);
/// Beside the number of inherited sections: the child was put in order by another thread than the one that forked,
/// which did not say yet what it has open.
const UNSAID: u32 = 1 << 31;
const LANES: usize = 16;
/// Bits of a lane's word that count; its mark is above them.
const COUNT: u64 = u32::MAX as u64;

/// Whether rows are counted in.
const UNTRIED: u32 = 0;
const USED: u32 = 1;
const REFUSED: u32 = 2;
/// As long as there are inherited sections.
const RESTING: u32 = 3;

/// All about sections of the process. All zero is valid, and as a process begins.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Domain {
    /// The generation that this is in order for, times two, plus one while somebody puts it in order; zero at first.
    state: AtomicU64,
    /// 0 or 1: where sections are to be counted.
    period: AtomicU32,
    rows: AtomicU32,
    /// Where new sections are counted, in slot 0: in one of the two periods. Ready threads read it.
    pub(super) counts: AtomicPtr<u8>,
    /// Slot 0's of period 0; null before there are any.
    all_counts: AtomicPtr<u8>,
    slots: AtomicU32,
    inherited: AtomicU32,
    is_watching: AtomicU32,
    /// A bit for each lane in which a section was ever counted.
    used_lanes: AtomicU32,
    pub(super) grace: Grace,
    pub(super) worker: Worker,
    pub(super) registered: Registered,
    lanes: [Lane; LANES],
    pub(super) deferred: Deferred,
}

const _: () = assert!(size_of::<Domain>() <= root::DOMAIN_BYTES - settings::BYTES);

/// Sections that are not counted in rows.
#[derive(Debug)]
#[repr(C, align(64))]
struct Lane([Marked; 2]);

/// Marked with the generation in the upper half.
#[derive(Debug)]
#[repr(C)]
struct Marked {
    begun: AtomicU64,
    ended: AtomicU64,
}

/// A slot's sections of one period.
#[derive(Debug)]
#[repr(C)]
struct Row {
    /// By restartable additions only, as `ended`.
    begun: AtomicU64,
    ended: AtomicU64,
    ended_elsewhere: AtomicU64,
    /// By threads that get no section to its end.
    begun_beside: AtomicU64,
}

/// From where a section was begun in a row to where it ends.
pub(super) const TO_END: i32 = offset_of!(Row, ended) as i32;
const _: () = assert!(2 * size_of::<Row>() <= COUNTS);
const _: () = assert!(offset_of!(Row, begun_beside) == slot::COUNTED_BESIDE);

/// What a thread's level is counted down from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Base {
    Zero,
    Ready,
    Inherited,
}

impl Base {
    /// Nobody has so many sections open that its level comes from one to the next.
    fn of(level: i32) -> Self {
        match level {
            1.. => Base::Ready,
            _ if level > INHERITED / 2 => Base::Zero,
            _ => Base::Inherited,
        }
    }
}

/// In [`Counted::slot`], with the generation below it: the section was counted in a lane.
const IN_LANE: u32 = 1 << 31;

/// What an opened section has that is not counted anywhere: it is among the inherited.
const UNCOUNTED: Counted = Counted { at: null_mut(), slot: IN_LANE };

/// One place where sections are counted, as grace periods look at them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// The number of a lane.
    Lane(usize),
    /// The row of a slot.
    Slot(u32),
}

impl Domain {
    /// The domain of the process.
    #[inline]
    pub(super) fn of_process() -> &'static Domain {
        // SAFETY: these bytes are nobody else's, aligned to 64, and zeroes are valid.
        unsafe { &*root::domain().cast() }
    }

    /// Begins a slow path: afterwards the domain is in order for this process.
    pub(super) fn enter() -> &'static Domain {
        percpu::enter();
        let domain = Self::of_process();
        // Acquire pairs with the release in `put_in_order`.
        let state = domain.state.load(Ordering::Acquire);
        if state != current_state() {
            // Before anybody has a section open.
            let is_noticed = state != 0 || thread::notice_forks();
            domain.put_in_order();
            if state == 0 {
                domain.watch_forks(is_noticed);
            }
        }
        if domain.inherited.load(Ordering::Relaxed) & UNSAID != 0 && is_forker() {
            // A handler may say it first.
            thread::without_signals(|| {
                if domain.inherited.load(Ordering::Relaxed) & UNSAID != 0 {
                    domain.inherit(own_sections());
                }
            });
        }
        domain
    }

    /// Has children of ordinary forks put in order before they have a second thread. Once in a process and all of its
    /// children, by whoever reads or waits first.
    #[cold]
    fn watch_forks(&self, is_noticed: bool) {
        if self.is_watching.swap(1, Ordering::Relaxed) == 0 {
            let in_child = if is_noticed { put_child_in_order } else { after_fork_in_child };
            percpu::for_process(|| thread::on_fork_in_child(in_child));
        }
    }

    /// Anew for the first thread of a process, or of a child. One does it, the others wait: a child's second thread is
    /// born in it, and a handler comes before or after.
    #[cold]
    fn put_in_order(&self) {
        loop {
            // A handler may have forked since the last look.
            percpu::enter();
            if self.state.load(Ordering::Acquire) == current_state() {
                return;
            }
            let done = thread::without_signals(|| {
                let (seen, current) = (self.state.load(Ordering::Acquire), current_state());
                let busy = current | 1;
                // Acquire: behind whoever was at it in a parent. Relaxed on failure: looks again.
                if seen == busy
                    || seen == current
                    || self.state.compare_exchange(seen, busy, Ordering::Acquire, Ordering::Relaxed).is_err()
                {
                    return false;
                }
                self.begin_generation(seen == 0);
                // Release pairs with the acquires here and in `enter`: who sees the generation finds all as it is for
                // it.
                self.state.store(current, Ordering::Release);
                true
            });
            if done {
                return;
            }
            spin_loop();
        }
    }

    /// With the state busy, and without signals.
    fn begin_generation(&self, is_first: bool) {
        let mark = self.mark();
        for word in self.lanes.iter().flat_map(|lane| &lane.0).flat_map(|words| [&words.begun, &words.ended]) {
            word.store(mark, Ordering::Relaxed);
        }
        if is_first {
            return;
        }
        self.grace.begin_anew();
        self.worker.begin_anew();
        self.deferred.begin_anew();
        match is_forker() {
            true => self.inherit(own_sections()),
            // What was inherited before stays, as far as its thread is there.
            false => self.rest(self.inherited.load(Ordering::Relaxed) | UNSAID),
        }
    }

    /// Takes the calling thread's open sections, so many, for inherited ones.
    fn inherit(&self, sections: u32) {
        self.registered.keep_own();
        self.rest(sections);
        match sections {
            0 => {
                thread::set_level(0);
                self.use_rows_again();
            }
            _ => thread::set_level(INHERITED),
        }
    }

    fn rest(&self, inherited: u32) {
        // Release pairs with the acquire of who looks whether there are any.
        self.inherited.store(inherited, Ordering::Release);
        let _ = self.rows.compare_exchange(USED, RESTING, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// After the last inherited section: nobody will count in the old rows.
    fn use_rows_again(&self) {
        if self.rows.load(Ordering::Relaxed) == RESTING {
            // SAFETY: the rows' words, which nobody uses.
            unsafe {
                vm::zero(self.all_counts.load(Ordering::Relaxed), self.slots.load(Ordering::Relaxed) as usize * COUNTS)
            };
            // Untried: who has the lock of grace periods lets readers in.
            self.rows.store(UNTRIED, Ordering::Release);
        }
    }

    /// A section ended of a thread whose level is below zero.
    #[cold]
    pub(super) fn end_inherited(&self) {
        if Base::of(thread::level()) != Base::Inherited {
            return;
        }
        thread::without_signals(|| {
            let since = INHERITED.wrapping_sub(thread::level());
            // Else all that have ended may be younger ones.
            if Base::of(thread::level()) == Base::Inherited && since < 0 {
                thread::set_level(INHERITED);
                let seen = self.inherited.load(Ordering::Relaxed);
                let ended = since.unsigned_abs().min(seen & !UNSAID);
                if ended == seen {
                    thread::set_level(0);
                    self.use_rows_again();
                }
                // By a subtraction: another thread of a child may say meanwhile that this one has not said what it has.
                // Release pairs with the acquire in `has_inherited`: what was read in the section was read before.
                self.inherited.fetch_sub(ended, Ordering::Release);
            }
        });
    }

    /// Whether sections are open that this process inherited.
    pub(super) fn has_inherited(&self) -> bool {
        self.inherited.load(Ordering::Acquire) != 0
    }

    fn mark(&self) -> u64 {
        u64::from(thread::generation() & !IN_LANE) << 32
    }

    /// Has the calling thread count in rows, if that can be; whether it does. It has no sections open but those that
    /// its level says.
    pub(super) fn make_ready(&self) -> bool {
        if self.rows.load(Ordering::Acquire) == UNTRIED {
            self.grace.if_free(|_| self.try_rows());
        }
        let uses_rows = self.uses_rows();
        // Pairs with the fence in `grace::start`, for a grace period that found no rows (`order_readers`).
        order_reads();
        // Without signals: a handler that forks would change the level, and what there is.
        uses_rows
            && thread::without_signals(|| match Base::of(thread::level()) {
                Base::Ready => true,
                Base::Zero if self.uses_rows() && slot::current_if_given().is_some() => {
                    thread::set_level(thread::level() + READY);
                    true
                }
                _ => false,
            })
    }

    /// Lets readers use rows, if that can be. Under the lock of grace periods: the period stays the same. Without
    /// signals: in a child that a handler forked in the middle, rows may have to rest.
    pub(super) fn try_rows(&self) {
        thread::without_signals(|| {
            // Not while there are inherited sections: after the last of them, rows are zeroed.
            if self.rows.load(Ordering::Acquire) == UNTRIED && !self.has_inherited() {
                let outcome = if self.has_rows() { USED } else { REFUSED };
                self.counts.store(self.rows_of(self.period()), Ordering::Relaxed);
                // Release pairs with the acquire in `uses_rows`: whoever uses the rows finds them, and finds them
                // zeroed.
                self.rows.store(outcome, Ordering::Release);
            }
        });
    }

    #[cold]
    fn has_rows(&self) -> bool {
        slot::initialise();
        if slot::mode() != Mode::ConcurrencyId || kick::register().is_err() || !thread::notice_forks() {
            return false;
        }
        if self.all_counts.load(Ordering::Relaxed).is_null() {
            let slots = slot::possible();
            let bytes = (slots * COUNTS).next_multiple_of(vm::PAGE);
            let Some(counts) = vm::reserve(null_mut(), bytes, vm::Access::ReadWrite) else { return false };
            self.slots.store(slots as u32, Ordering::Relaxed);
            self.all_counts.store(counts, Ordering::Relaxed);
        }
        true
    }

    /// Whether readers may count in rows at this moment, which whoever has the lock of grace periods may rely on.
    pub(super) fn uses_rows(&self) -> bool {
        self.rows.load(Ordering::Acquire) == USED
    }

    /// Whether nobody has a section open, by rows and lanes, or opens one without a locked instruction. Under the lock
    /// of grace periods.
    pub(super) fn has_no_sections(&self) -> bool {
        self.rows.load(Ordering::Relaxed) == UNTRIED && self.used_lanes.load(Ordering::SeqCst) == 0
    }

    /// The kernel's number of a thread whose reader has not reported since the grace period of this number began, which
    /// is so old.
    pub(super) fn first_unreported(&self, number: u64, age_ns: impl Fn() -> u64) -> Option<u32> {
        self.registered.first_open(number, age_ns, self.threshold_ns())
    }

    fn rows_of(&self, period: usize) -> *mut u8 {
        self.all_counts.load(Ordering::Relaxed).wrapping_add(period * size_of::<Row>())
    }

    /// New sections are counted in the other period from now on. Under the lock of grace periods.
    pub(super) fn turn(&self) {
        let period = 1 - self.period();
        self.period.store(period as u32, Ordering::Relaxed);
        // Release: what was unlinked before the grace period that turns here is unlinked for whoever counts there.
        self.counts.store(self.rows_of(period), Ordering::Release);
    }

    /// Where new sections are counted. Changes under the lock of grace periods only.
    pub(super) fn period(&self) -> usize {
        self.period.load(Ordering::Relaxed) as usize
    }

    /// All places where sections may be counted.
    pub(super) fn places(&self) -> usize {
        LANES + if self.uses_rows() { self.slots.load(Ordering::Relaxed) as usize } else { 0 }
    }

    pub(super) fn place(&self, number: usize) -> Place {
        number.checked_sub(LANES).map_or(Place::Lane(number), |slot| Place::Slot(slot as u32))
    }

    fn row(&self, slot: u32, period: usize) -> &Row {
        let at = self.rows_of(period).wrapping_add(slot as usize * COUNTS);
        // SAFETY: every possible slot has its counts, which are never unmapped; only atomics and restartable additions
        // change them.
        unsafe { &*at.cast() }
    }

    /// Whether no section is open that was counted in a place and period, and that whoever has the lock of grace
    /// periods must wait for.
    ///
    /// Ends are loaded first, by acquire, and each is a release behind its begin. Whoever sees an end here sees its
    /// begin below, and what was read in the section was read before. So begun less ended is at least the number of
    /// open sections whose begin can be seen, as those can that were open before the fence of `order_readers`. The
    /// other way round, a section that begins and ends in between would make up for one that is open. The kernel orders
    /// a slot's threads, one behind the other: whoever sees the last one's end sees those before it.
    pub(super) fn is_quiet(&self, place: Place, period: usize) -> bool {
        match place {
            Place::Lane(number) if self.used_lanes.load(Ordering::Relaxed) & 1 << number == 0 => true,
            Place::Lane(number) => {
                let words = &self.lanes[number].0[period];
                // Acquire pairs with the release in `end_elsewhere`. The second one orders nothing.
                let ended = words.ended.load(Ordering::Acquire);
                words.begun.load(Ordering::Acquire) == ended
            }
            Place::Slot(slot) => {
                let row = self.row(slot, period);
                // Acquire, both, pairs with the releases of `slot::count_in` and `end_elsewhere`. The begins order
                // nothing.
                let ended = row.ended.load(Ordering::Acquire).wrapping_add(row.ended_elsewhere.load(Ordering::Acquire));
                row.begun.load(Ordering::Acquire).wrapping_add(row.begun_beside.load(Ordering::Acquire)) == ended
            }
        }
    }

    /// Opens a section of a thread that has gone a level down, in a lane; or it is inherited by now. If the thread
    /// forked since it went down, and this is the child, it is both, and waited for twice.
    pub(super) fn begin_in_lane(&self) -> Counted {
        let mark = self.mark();
        let (lane, period) = (self.own_lane(), self.period());
        if self.used_lanes.load(Ordering::Relaxed) & 1 << lane == 0 {
            // SeqCst: see `has_no_sections`.
            self.used_lanes.fetch_or(1 << lane, Ordering::SeqCst);
        }
        let word = &self.lanes[lane].0[period].begun;
        let is_counted = add(word, mark, Ordering::SeqCst);
        // Pairs with the fence of a grace period: if that comes first, the section does not find what was unlinked
        // before; if this one does, the period sees the section.
        order_after_change();
        if !is_counted {
            return UNCOUNTED;
        }
        Counted { at: word.as_ptr().cast(), slot: IN_LANE | (mark >> 32) as u32 }
    }

    /// One for each slot, as far as there are enough; the first one for those who have none.
    fn own_lane(&self) -> usize {
        slot::current_if_given().unwrap_or(0) as usize % LANES
    }

    /// Ends a section that could not end by a restartable addition.
    #[cold]
    pub(super) fn end_elsewhere(counted: Counted) {
        if counted.at.is_null() {
            return;
        }
        // Release: what was read in the section was read before; pairs with the acquires in `is_quiet`.
        if counted.slot & IN_LANE != 0 {
            let mark = u64::from(counted.slot & !IN_LANE) << 32;
            // SAFETY: it was counted in a lane, of which it is the first word.
            let words = unsafe { &*counted.at.cast::<Marked>() };
            // Else it is an inherited section, and no lane knows of it.
            add(&words.ended, mark, Ordering::Release);
        } else {
            // SAFETY: it was counted in a row.
            let row = unsafe { &*counted.at.cast::<Row>() };
            row.ended_elsewhere.fetch_add(1, Ordering::Release);
        }
    }
}

/// What the state of a domain is that is in order for this process.
fn current_state() -> u64 {
    u64::from(thread::generation()) << 1
}

extern "C" fn put_child_in_order() {
    Domain::enter().deferred.collect_retired();
}

/// Where the kernel wipes nothing in children (before 4.14).
extern "C" fn after_fork_in_child() {
    thread::declare_forked();
    put_child_in_order();
}

/// Adds one to a word of a lane; false if it has another mark.
fn add(word: &AtomicU64, mark: u64, order: Ordering) -> bool {
    let next = |seen: u64| (seen & !COUNT == mark).then(|| mark | (seen.wrapping_add(1) & COUNT));
    word.fetch_update(order, Ordering::Relaxed, next).is_ok()
}

/// Whether this is the thread that forked, in a child; or the first one of a process that is none.
fn is_forker() -> bool {
    machine::code::thread_number() == process::id()
}

/// Sections that the calling thread has open, whether inherited or not.
pub(super) fn own_sections() -> u32 {
    let level = thread::level();
    match Base::of(level) {
        Base::Zero => level.unsigned_abs(),
        Base::Ready => (READY - level) as u32,
        Base::Inherited => {
            let inherited = Domain::of_process().inherited.load(Ordering::Relaxed) & !UNSAID;
            inherited.saturating_add_signed(INHERITED.wrapping_sub(level))
        }
    }
}
