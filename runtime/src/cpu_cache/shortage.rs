//! Memory is short: what the caches return before an allocation fails, and at the limits of the process.
//!
//! Before the hard limit refuses an allocation, everything cached goes back, and the allocation is tried again. Above
//! the soft limit, *relief* returns as much as needed: dirty pages first, then everything cached. The page heap says
//! when that is due; see `limit` there. A thread does it at its next slow path, outside of all locks.
//!
//! **The program's function** is called once each time that a limit is reached: by a thread in an allocation, or by the
//! runtime's background thread. Only one call runs at a time, so that the function may allocate. Not in a signal
//! handler: another thread, or the background thread, makes the call then.

use super::drain::Which;
use super::tier::CpuCaches;
use crate::observe::Why;
use crate::page_heap::limit::{Limit, RELIEF, pages_for};
use crate::page_heap::{Metadata, PAGE};
use crate::percpu;
use machine::sync::{AtomicPtr, AtomicU32, AtomicU64, Ordering, Ordering::Relaxed};
use machine::{clock, here, process, thread};

/// Attempts to make room within the hard limit, while other threads take it.
const ROUNDS: usize = 4;
/// Time until a thread looks again whether it may call the function.
const PAUSE_NS: u64 = 1_000_000;

/// The program's function, called with the limit that was reached and the program's word.
pub type Notifier = extern "C" fn(limit: Limit, data: usize);

/// A function and its word, never freed.
#[derive(Clone, Copy, Debug)]
struct Listener {
    call: Notifier,
    data: usize,
}

/// The listener of the process. All-zero memory: none.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Listening {
    listener: AtomicPtr<Listener>,
    /// The generation of the process in which a thread is in the function.
    telling: AtomicU32,
    not_before_ns: AtomicU64,
}

/// The thread that serves the limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Server {
    /// It allocates.
    Allocating,
    /// It frees: the C library may hold locks that the function needs.
    Freeing,
    /// The runtime's own thread.
    Background,
}

impl Listening {
    /// False: no memory.
    fn set(&self, listener: Option<Listener>, metadata: &Metadata) -> bool {
        let made = listener.map(|listener| {
            let place = metadata.cut(size_of::<Listener>(), align_of::<Listener>())?.cast::<Listener>();
            // SAFETY: fresh metadata is ours and never freed.
            unsafe { place.write(listener) };
            Some(place)
        });
        let Some(place) = made.unwrap_or(Some(core::ptr::null_mut())) else { return false };
        // Release pairs with the acquire in `get`: a thread that finds the listener finds it whole.
        self.listener.store(place, Ordering::Release);
        true
    }

    fn get(&self) -> Option<Listener> {
        // SAFETY: null, or a listener that is never freed.
        unsafe { self.listener.load(Ordering::Acquire).as_ref() }.copied()
    }

    /// Runs `work` unless another thread of this process, or this one, is in it.
    fn alone(&self, work: impl FnOnce()) {
        let (seen, generation) = (self.telling.load(Relaxed), thread::generation());
        // In a fork child, a thread that was in it is gone, or is this one and has returned from it.
        if seen != generation && self.telling.compare_exchange(seen, generation, Relaxed, Relaxed).is_ok() {
            work();
            self.telling.store(0, Relaxed);
        }
    }
}

impl CpuCaches {
    /// Returns free memory to the kernel: magazines, depots, page lists, and dirty pages of free runs beyond `keep`
    /// bytes. Returns the bytes released, and at least 1 if any cached object became free.
    pub fn trim(&self, keep: usize) -> usize {
        let (magazines, released) = self.drain_all(keep == 0);
        let purged = self.depot.central.page_heap.purge((keep / PAGE) as u64) as usize * PAGE;
        (released + purged).max(usize::from(magazines > 0))
    }

    /// Drains all caches, part by part, and page lists into the page heap. May release wholly free segments, as the
    /// drainer, because then no walk of the spans can run. If the machine refuses a kick, magazines stay. Returns
    /// magazines emptied and bytes released.
    fn drain_all(&self, releases_segments: bool) -> (usize, usize) {
        let heap = &self.depot.central.page_heap;
        let parts = self.depot.central.parts();
        let drain = |part| self.as_only_drainer(here!(), || self.drain(Which::Part(part), Why::Trim));
        let magazines = parts.map_while(drain).sum();
        if self.as_only_drainer(here!(), || self.drain_page_lists()).is_none() {
            return (magazines, 0);
        }
        let mut released = self.depot.spare().release(heap.locks()) + heap.release_blocks();
        let mut from = Some(0).filter(|_| releases_segments);
        while let Some(segment) = from {
            let done = self.as_only_drainer(here!(), || heap.release_some_segments(segment));
            let Some((bytes, next)) = done else { break };
            (released, from) = (released + bytes, next);
        }
        (magazines, released)
    }

    /// After an allocation of so many bytes was refused: drains all caches and tries again. None: that did not help.
    /// If the kernel refused it, does nothing if more is asked for than all segments have, or if a flush was in vain a
    /// moment ago.
    #[cold]
    pub fn flush_and_retry<R>(&self, bytes: usize, mut attempt: impl FnMut() -> Option<R>) -> Option<R> {
        let heap = &self.depot.central.page_heap;
        if heap.limits.is_hard() {
            return self.retry_within_limit(pages_for(bytes) as u64, attempt);
        }
        let (counts, vain) = (&heap.counts, &self.cold.vain_flush);
        if bytes as u64 / PAGE as u64 > counts.reserved.get() || vain.tells_against_another(counts.in_use.get()) {
            return None;
        }
        let got = (self.trim(0) > 0).then(&mut attempt).flatten();
        if got.is_none() {
            vain.note(counts.in_use.get());
        }
        got
    }

    /// The same under a hard limit. If that refuses, the program's function may free memory.
    fn retry_within_limit<R>(&self, pages: u64, mut attempt: impl FnMut() -> Option<R>) -> Option<R> {
        let limits = &self.depot.central.page_heap.limits;
        let may_fit = limits.get(Limit::Hard).is_none_or(|most| pages <= most);
        for _ in 0..if may_fit { ROUNDS } else { 0 } {
            let freed = self.trim(0);
            if let Some(got) = attempt() {
                return Some(got);
            }
            if freed == 0 {
                break;
            }
        }
        if limits.lacking(pages) == 0 {
            return None;
        }
        limits.refuse();
        if self.serve_limits(Server::Allocating) && may_fit { attempt() } else { None }
    }

    // ---- what the limits ask for ----

    /// Returns memory that is not in use to the kernel until at most so many pages are held, or nothing is left.
    fn relieve(&self, held: u64) {
        let heap = &self.depot.central.page_heap;
        heap.purge_to(held);
        if heap.limits.held() > held {
            self.drain_all(false);
            heap.purge_to(held);
        }
    }

    /// Relieves, and calls the program's function, if that is due and the thread may do it. Returns whether the
    /// function was called.
    #[cold]
    pub fn serve_limits(&self, server: Server) -> bool {
        if thread::holds_locks() {
            return false;
        }
        let limits = &self.depot.central.page_heap.limits;
        if limits.take_due(RELIEF) != 0 {
            self.relieve(limits.after_relief());
            limits.note_relief();
        }
        limits.is_due() && server != Server::Freeing && self.tell(server)
    }

    fn tell(&self, server: Server) -> bool {
        const CALLS: u32 = 1 << Limit::Soft as u32 | 1 << Limit::Hard as u32;
        let (limits, listening) = (&self.depot.central.page_heap.limits, &self.cold.listening);
        let Some(Listener { call, data }) = listening.get() else {
            limits.take_due(CALLS);
            return false;
        };
        let now_ns = clock::now_ns();
        if server != Server::Background
            && (now_ns < listening.not_before_ns.load(Relaxed) || thread::may_be_in_handler())
        {
            listening.not_before_ns.store(now_ns + PAUSE_NS, Relaxed);
            return false;
        }
        let mut due = 0;
        listening.alone(|| {
            due = limits.take_due(CALLS);
            // In no group, so that none is charged; and without signals, whose handlers could find this half done.
            process::keeping_errno(|| {
                percpu::for_process(|| {
                    let reached = [Limit::Soft, Limit::Hard].into_iter().filter(|limit| due & limit.bit() != 0);
                    reached.for_each(|limit| call(limit, data));
                });
            });
        });
        due != 0
    }

    /// Sets the function to call when a limit is reached, or none. False: no memory.
    pub fn listen(&self, function: Option<(Notifier, usize)>) -> bool {
        let listener = function.map(|(call, data)| Listener { call, data });
        self.cold.listening.set(listener, &self.depot.central.page_heap.metadata)
    }
}
