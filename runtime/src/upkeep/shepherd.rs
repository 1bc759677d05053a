//! The shepherd: a background thread of the runtime, which takes the turns of deserted slots, and returns idle pages.
//!
//! A process with one thread, or one that holds little, has none. Awake, the shepherd sleeps until the next thing is
//! due; idle, until a slot wants turns again. After a long idle time it ends, because a process whose main thread
//! called `pthread_exit` ends with its last thread. When the program has one thread left, the shepherd returns
//! everything and ends: when it notices, but at once before that thread forks or does what only a process with one
//! thread may do. The state carries the generation of the process, so that a fork child has none.
//!
//! No slot is forgotten: the shepherd declares itself idle, and then looks whether a slot wants turns. A slot joins,
//! and then looks whether the shepherd is idle. Both sides fence in between, so at least one sees the other.
//!
//! The slow path of an allocation creates it. A release does not, because the C library releases memory while it holds
//! the lock that creating a thread takes. Nor does a thread that holds a lock of ours, may be in a signal handler, or
//! is in a sandbox. Without a shepherd, threads do the upkeep of their own slots, and the next allocation tries again.

use super::state::{AWAKE, ENDING, IDLE, NONE, STATE, Shepherd, State, interval_ns, marked};
use super::step;
use crate::caches::{heap, known_at};
use crate::cpu_cache::Server;
use crate::page_heap::PAGE;
use crate::percpu;
use crate::rcu;
use crate::settings::Key;
use crate::upcalls::{From, Rest};
use machine::sync::{Ordering, fence, wait};
use machine::thread::{self, Work};
use machine::{clock, process, sandbox};

/// The longest idle sleep before it ends, unless two intervals are longer.
const LONG_NS: u64 = 2_000_000_000;
/// Pause after a failed attempt to create it.
const AFTER_FAILURE_NS: u64 = 100_000_000;
/// Time between checks whether a program with one thread has more.
const ALONE_NS: u64 = 1_000_000;
/// Time between looks of a thread that waits for its end, and their number.
const END_NS: u64 = 50_000;
const END_LOOKS: u32 = 2000;
/// A process whose runs have at most this many pages gets none: 2 MiB of address space, of which less is in memory.
const LITTLE_PAGES: u64 = (2 << 20) / PAGE as u64;

const SHEPHERD: Key = Key::of("upkeep.shepherd");

static WORK: Work = Work { name: c"commensal-keep", job: work };

impl Shepherd {
    /// Sleeps until a thread rouses it, or something is due. False after a long sleep: the shepherd has ended.
    fn rest(&self, bell: u32, long_ns: u64) -> bool {
        self.state.store(marked(IDLE), Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let until = clock::now_ns() + long_ns;
        while step(clock::now_ns()).is_none() && self.state() == IDLE {
            let now = clock::now_ns();
            if now >= until || self.bell.load(Ordering::Relaxed) != bell || is_last() {
                break;
            }
            heap().cpu.visit_observers(Rest::Soon);
            wait(&self.bell, bell, until - now);
        }
        let is_long = clock::now_ns() >= until;
        self.state.store(marked(AWAKE), Ordering::Relaxed);
        !is_long || !self.end()
    }

    /// Ends the shepherd. False: a thread left work for it meanwhile.
    fn end(&self) -> bool {
        let page_heap = heap().page_heap();
        let change = |from, to| {
            self.state.compare_exchange(marked(from), marked(to), Ordering::Relaxed, Ordering::Relaxed).is_ok()
        };
        page_heap.end_background_work();
        change(AWAKE, ENDING);
        // A slot that joined before that found the shepherd here. A later one finds none, and is in an allocation or
        // leaves the work to a later allocation. Work that is due is done here, unless a new shepherd exists already.
        fence(Ordering::SeqCst);
        let goes_on = !is_last() && SHEPHERD.is_on() && step(clock::now_ns()).is_some() && change(ENDING, AWAKE);
        if goes_on {
            page_heap.begin_background_work();
            return false;
        }
        if is_last() {
            heap().cpu.trim(page_heap.kept_dirty() as usize * PAGE);
        }
        // Nothing writes the page after this while the program idles.
        heap().cpu.visit_observers(Rest::Soon);
        self.ended_ns.store(clock::now_ns(), Ordering::Relaxed);
        change(ENDING, NONE);
        true
    }
}

impl State {
    /// In an allocation: creates a shepherd if needed and possible. False: a later allocation should try.
    pub(super) fn try_to_have_shepherd(&self, now_ns: u64, from: From) -> bool {
        let (allocates, counts) = (from == From::Allocation, &heap().page_heap().counts);
        let is_wanted = SHEPHERD.is_on()
            && !self.shepherd.is_there()
            && !sandbox::is_on()
            && heap().sharing.upgraded_at_ns().is_some()
            && counts.in_use.get() + counts.free_dirty.get() > LITTLE_PAGES
            && now_ns >= self.shepherd.not_before_ns.load(Ordering::Relaxed)
            && self.shepherd.is_possible_in_child();
        if is_wanted && allocates && process::threads() == Some(1) {
            self.shepherd.not_before_ns.store(now_ns + ALONE_NS, Ordering::Relaxed);
        } else if is_wanted && allocates && !self.make_shepherd() {
            self.shepherd.not_before_ns.store(now_ns + AFTER_FAILURE_NS, Ordering::Relaxed);
        }
        allocates || !is_wanted
    }

    #[cold]
    fn make_shepherd(&self) -> bool {
        if thread::holds_locks() || thread::may_be_in_handler() {
            return false;
        }
        // Without signals: if a handler on it forked, this thread would continue in the child and create another one.
        percpu::for_process(|| {
            let word = &self.shepherd.state;
            let seen = word.load(Ordering::Relaxed);
            let is_ours = !self.shepherd.is_there()
                && word.compare_exchange(seen, marked(AWAKE), Ordering::Relaxed, Ordering::Relaxed).is_ok();
            if !is_ours {
                return true;
            }
            let page_heap = heap().page_heap();
            page_heap.begin_background_work();
            let is_made = process::keeping_errno(|| thread::spawn(&WORK));
            if !is_made {
                page_heap.end_background_work();
                word.store(marked(NONE), Ordering::Relaxed);
            }
            is_made
        })
    }
}

/// Number of threads except the caller and RCU's worker. None: unknown.
fn others() -> Option<u32> {
    process::threads().map(|all| all.saturating_sub(1 + u32::from(rcu::has_worker())))
}

/// For the shepherd: whether the program has at most one thread.
fn is_last() -> bool {
    others().is_some_and(|others| others <= 1)
}

/// Makes forks end the shepherd first, if it should end. Call it early, because handlers cannot register others.
pub(crate) fn before_a_thread() {
    thread::before_fork(leave_before_fork);
}

/// If the caller is the program's last thread, waits until there is no shepherd any more, also for the kernel, for a
/// tenth of a second at most. Waits `looks` times for joined threads to end. Any thread, also in signal handlers.
pub fn leave_to_the_last(looks: u32) {
    let Some(shepherd) = known_at(&STATE).map(|state| &state.shepherd) else { return };
    let (mut look, mut most) = (0, looks);
    // Other threads than the caller.
    while let Some(others @ 1..) = others() {
        if others == 1 && (shepherd.is_there() || shepherd.is_going()) {
            shepherd.ring();
            most = END_LOOKS;
        }
        if look >= most {
            return;
        }
        look += 1;
        wait(&shepherd.bell, shepherd.bell.load(Ordering::Relaxed), END_NS);
    }
}

extern "C" fn leave_before_fork() {
    process::keeping_errno(|| leave_to_the_last(0));
}

fn work() {
    loop {
        percpu::enter();
        let Some(state) = known_at(&STATE) else { return };
        let shepherd = &state.shepherd;
        // A later ring changes the word before we sleep.
        let bell = shepherd.bell.load(Ordering::SeqCst);
        if (!SHEPHERD.is_on() || is_last()) && shepherd.end() {
            return;
        }
        if heap().page_heap().limits.is_due() {
            heap().cpu.serve_limits(Server::Background);
        }
        match step(clock::now_ns()) {
            Some(at) => {
                heap().cpu.visit_observers(Rest::No);
                let left = at.saturating_sub(clock::now_ns());
                if left > 0 {
                    wait(&shepherd.bell, bell, left);
                }
            }
            None if shepherd.rest(bell, LONG_NS.max(2 * interval_ns())) => {}
            None => return,
        }
    }
}
