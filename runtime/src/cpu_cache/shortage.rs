//! Memory is short: what the caches return before an allocation fails, and at the limits of the process.
//!
//! Before the hard limit refuses an allocation, everything cached goes back, and the allocation is tried again. Above
//! the soft limit, *relief* returns as much as needed: dirty pages first, then everything cached. The page heap says
//! when that is due; see `limit` there. A thread does it at its next slow path, outside of all locks.
//!
//! Runs at the same time: any number of threads. They drain one after the other.

use super::drain::Which;
use super::listener::{Listener, Notifier, Server};
use super::tier::CpuCaches;
use crate::observe::Why;
use crate::page_heap::PAGE;
use crate::page_heap::limit::{Limit, RELIEF, pages_for};
use crate::percpu;
use machine::{here, process, thread};

/// Attempts to make room within the hard limit, while other threads take it.
const ROUNDS: usize = 4;

/// An allocation that was refused, and the attempts so far.
#[derive(Debug)]
struct Retry {
    bytes: usize,
    pages: u64,
    round: usize,
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
        let mut retry = Retry { bytes, pages: pages_for(bytes) as u64, round: 0 };
        while self.prepare(&mut retry) {
            let got = attempt();
            if got.is_some() {
                return got;
            }
        }
        None
    }

    /// Returns memory for the next attempt. False: there is none.
    fn prepare(&self, retry: &mut Retry) -> bool {
        let heap = &self.depot.central.page_heap;
        if heap.limits.is_hard() {
            return self.prepare_within_limit(retry);
        }
        let (counts, vain) = (&heap.counts, &self.cold.vain_flush);
        let is_first = retry.round == 0;
        retry.round = 1;
        let is_hopeless = (retry.bytes / PAGE) as u64 > counts.reserved.get();
        if is_first && (is_hopeless || vain.tells_against_another(counts.in_use.get())) {
            return false;
        }
        let may_help = is_first && self.trim(0) > 0;
        if !may_help {
            vain.note(counts.in_use.get());
        }
        may_help
    }

    /// The same under a hard limit. If that refuses, the program's function may free memory.
    fn prepare_within_limit(&self, retry: &mut Retry) -> bool {
        let heap = &self.depot.central.page_heap;
        let limits = &heap.limits;
        let may_fit = limits.get(Limit::Hard).is_none_or(|most| retry.pages <= most);
        if may_fit && retry.round < ROUNDS {
            retry.round = if self.trim(0) > 0 { retry.round + 1 } else { ROUNDS };
            return true;
        }
        if retry.round > ROUNDS || limits.lacking(retry.pages) == 0 {
            return false;
        }
        retry.round = ROUNDS + 1;
        limits.refuse(heap.counts.in_use.get());
        self.serve_limits(Server::Allocating) && may_fit
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
        let mut due = 0;
        listening.alone(|| {
            if server != Server::Background && listening.may_be_in_handler() {
                return;
            }
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
