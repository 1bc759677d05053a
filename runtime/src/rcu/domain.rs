//! The domain: the process's state of sections and grace periods, and how a fork child puts it in order.
//!
//! **Levels.** Each thread counts its own open sections in `thread::level`, which also selects its slow paths: a
//! *base*, minus one for each open section.
//!
//! | based on | the thread | slow path when it opens a section | slow path when it ends one |
//! |---|---|---|---|
//! | 0 | is not ready, as when it begins; or cannot be | yes: makes it ready, or counts in a lane | perhaps, in vain |
//! | [`READY`] | has a slot, and there are rows | no | no |
//! | [`INHERITED`] | has forked with sections open, and this is the child | yes: counts in a lane | yes |
//!
//! **Forks.** When a child is put in order, the level of the thread that forked says how many of its sections are open.
//! They are the child's *inherited* sections: a number, of which no row knows. As long as it is not zero, rows are not
//! used. After the last inherited section, rows are zeroed, and used again. The child does not tell inherited sections
//! from later ones: when fewer are open than were inherited, the number falls. `docs/design/rcu.md` has the argument.

use super::grace::Grace;
use super::queues::Deferred;
use super::registered::Registered;
use super::sections::Sections;
use super::worker::Worker;
use crate::page_heap::memblock;
use crate::percpu;
use crate::{misuse, settings};
use machine::sync::{AtomicU32, AtomicU64, Ordering, order_reads, spin_loop};
use machine::{process, root, slot, thread};

/// The base of a thread that counts in rows.
const READY: i32 = 1 << 30;
/// The base of a thread that has inherited sections.
const INHERITED: i32 = -(1 << 30);
/// Beside the number of inherited sections: the child was put in order, but not by the thread that forked, which did
/// not say yet what it has open.
const UNSAID: u32 = 1 << 31;

/// RCU's state in the process. All-zero is valid: a process begins with it.
#[repr(C, align(64))]
pub(super) struct Domain {
    pub(super) sections: Sections,
    pub(super) grace: Grace,
    /// Twice the generation that this is in order for, plus one while a thread puts it in order; zero at first.
    state: AtomicU64,
    inherited: AtomicU32,
    is_watching: AtomicU32,
    pub(super) worker: Worker,
    pub(super) registered: Registered,
    pub(super) deferred: Deferred,
}

/// Behind what small processes have.
const OFFSET: usize = settings::BYTES + misuse::BYTES + memblock::ROOT_BYTES;
const _: () = assert!(OFFSET.is_multiple_of(64) && OFFSET + size_of::<Domain>() <= root::DOMAIN_BYTES);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Base {
    Zero,
    Ready,
    Inherited,
}

impl Base {
    /// No thread has so many open sections that its level gets from one base to the next.
    fn of(level: i32) -> Self {
        match level {
            1.. => Base::Ready,
            _ if level > INHERITED / 2 => Base::Zero,
            _ => Base::Inherited,
        }
    }
}

impl Domain {
    #[inline]
    pub(super) fn of_process() -> &'static Domain {
        // SAFETY: these bytes are used for nothing else, aligned to 64, and zeroes are valid.
        unsafe { &*root::domain().add(OFFSET).cast() }
    }

    /// Begins a slow path: afterwards the domain is in order for this process.
    pub(super) fn enter() -> &'static Domain {
        percpu::enter();
        let domain = Self::of_process();
        // Acquire pairs with the release in `put_in_order`.
        let state = domain.state.load(Ordering::Acquire);
        if state != current_state() {
            // Before any thread has a section open.
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

    /// Arranges that children of ordinary forks are put in order before they have a second thread. The first thread
    /// that reads or waits does this, once in a process and all of its children.
    #[cold]
    fn watch_forks(&self, is_noticed: bool) {
        if self.is_watching.swap(1, Ordering::Relaxed) == 0 {
            let in_child = if is_noticed { put_child_in_order } else { after_fork_in_child };
            percpu::for_process(|| thread::on_fork_in_child(in_child));
        }
    }

    /// For the first thread of a process, or of a child. One thread does it, the others wait: a child's second thread
    /// is created in the child, and a handler comes before or after.
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
                // Acquire: we come behind a parent's thread that was at it. Relaxed on failure: looks again.
                if seen == busy
                    || seen == current
                    || self.state.compare_exchange(seen, busy, Ordering::Acquire, Ordering::Relaxed).is_err()
                {
                    return false;
                }
                self.sections.mark_lanes();
                if seen != 0 {
                    self.begin_in_child();
                }
                // Release pairs with the acquires here and in `enter`: a thread that sees the generation finds the
                // domain in order.
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
    fn begin_in_child(&self) {
        self.grace.begin_anew();
        self.worker.begin_anew();
        self.deferred.begin_anew();
        match is_forker() {
            true => self.inherit(own_sections()),
            // Sections inherited before stay, as far as their thread is there.
            false => self.rest(self.inherited.load(Ordering::Relaxed) | UNSAID),
        }
    }

    /// Declares the calling thread's open sections, so many, as inherited.
    fn inherit(&self, sections: u32) {
        self.registered.keep_own();
        self.rest(sections);
        match sections {
            0 => {
                thread::set_level(0);
                self.sections.use_rows_again();
            }
            _ => thread::set_level(INHERITED),
        }
    }

    fn rest(&self, inherited: u32) {
        // Release pairs with the acquire in `has_inherited`.
        self.inherited.store(inherited, Ordering::Release);
        self.sections.rest_rows();
    }

    /// Ends a section of a thread whose level is below zero.
    #[cold]
    pub(super) fn end_inherited(&self) {
        if Base::of(thread::level()) != Base::Inherited {
            return;
        }
        thread::without_signals(|| {
            let since = INHERITED.wrapping_sub(thread::level());
            // Else only younger sections may have ended.
            if Base::of(thread::level()) == Base::Inherited && since < 0 {
                thread::set_level(INHERITED);
                let seen = self.inherited.load(Ordering::Relaxed);
                let ended = since.unsigned_abs().min(seen & !UNSAID);
                if ended == seen {
                    thread::set_level(0);
                    self.sections.use_rows_again();
                }
                // A subtraction, as another thread of a child may set `UNSAID` meanwhile. Release pairs with the
                // acquire in `has_inherited`: the reads in the section come before.
                self.inherited.fetch_sub(ended, Ordering::Release);
            }
        });
    }

    pub(super) fn has_inherited(&self) -> bool {
        self.inherited.load(Ordering::Acquire) != 0
    }

    /// Makes the calling thread count in rows, if possible, and returns whether it does.
    pub(super) fn make_ready(&self) -> bool {
        if self.sections.are_rows_untried() {
            // Under the lock, so that the period stays the same. Without signals: in a child that a handler forked in
            // the middle, rows may have to rest.
            self.grace.if_free(|_| {
                thread::without_signals(|| {
                    // Not while there are inherited sections: after the last of them, rows are zeroed.
                    if self.sections.are_rows_untried() && !self.has_inherited() {
                        self.sections.try_rows();
                    }
                })
            });
        }
        let uses_rows = self.sections.uses_rows();
        // Pairs with the fence in `synchronize::start`, for a grace period that found no rows (`order_readers`).
        order_reads();
        // Without signals: a handler that forks would change the level, and put rows to rest.
        uses_rows
            && thread::without_signals(|| match Base::of(thread::level()) {
                Base::Ready => true,
                Base::Zero if self.sections.uses_rows() && slot::current_if_given().is_some() => {
                    thread::set_level(thread::level() + READY);
                    true
                }
                _ => false,
            })
    }

    /// Whether a grace period, or the calls that are made after one, would wait for the calling thread.
    pub(super) fn waits_for_itself(&self) -> bool {
        own_sections() != 0 || self.deferred.is_caller() || self.registered.is_own_online()
    }
}

/// The state of a domain that is in order for this process.
fn current_state() -> u64 {
    u64::from(thread::generation()) << 1
}

extern "C" fn put_child_in_order() {
    Domain::enter().deferred.collect_retired();
}

/// For kernels that wipe nothing in children (before 4.14).
extern "C" fn after_fork_in_child() {
    thread::declare_forked();
    put_child_in_order();
}

/// Whether this is the first thread of the process: in a child, the one that forked.
fn is_forker() -> bool {
    machine::code::thread_number() == process::id()
}

/// The number of the calling thread's open sections, inherited or not.
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
