//! Reclaims memory from caches that are idle in a slot. `upkeep` says when.
//!
//! When this is due, a thread does it for its own slot, in bounded parts, without a kick. For a slot without threads,
//! another thread drains the magazines (`drain`): after the restart no operation is in flight.
//!
//! Runs at the same time: any thread. The drain lock admits one thread that walks all caches.

use super::drain::Which;
use super::slot_word::{Side, SlotWord};
use super::tier::CpuCaches;
use crate::central::{CacheRef, Subreleased, coarse_time};
use crate::observe::Why;
use crate::page_heap::Occupancy;
use core::iter;
use machine::here;
use machine::sync::Ordering;

/// The work done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reclaimed {
    /// Magazines emptied.
    pub magazines: usize,
    /// Spans moved from the page list to the page heap.
    pub spans: usize,
    /// Whether more work is left.
    pub is_more: bool,
}

impl CpuCaches {
    /// Empties the calling thread's slot of caches that have not missed for `idle` units of coarse time, and decays its
    /// page list. Starts at cache `from`, where the last call stopped, and empties about `most` magazines. Skips caches
    /// with destructors, which only a background thread may run. None: not now.
    pub fn reclaim_own(&self, slot: u32, from: u32, most: usize, idle: u32) -> Option<(Reclaimed, u32)> {
        let now = coarse_time();
        self.try_as_only_drainer(|| {
            let mut done = Reclaimed::default();
            if from == 0 {
                done.spans = self.decay_page_list(slot, Occupancy::Occupied);
            }
            let mut place = 0;
            for cache in self.depot.central.caches() {
                place += 1;
                if place <= from || !is_left_alone(cache, slot, now, idle) {
                    continue;
                }
                done.magazines += self.empty_own(cache, slot);
                if done.magazines >= most {
                    done.is_more = true;
                    break;
                }
            }
            (done, place)
        })
    }

    /// Empties a slot, even if threads are there on fast paths, of caches that have not missed for `idle` units:
    /// magazines, depots, unused spans and the page list. More work is left where a cache has missed. None: not now.
    pub fn reclaim_idle(&self, slot: u32, now: u32, idle: u32) -> Option<Reclaimed> {
        self.as_only_drainer(here!(), || {
            self.put_deferred_as_drainer();
            let drained = self.drain_slots(Which::Idle(now, idle), iter::once(slot), Why::Upkeep);
            let mut done = Reclaimed { magazines: drained.magazines, ..Reclaimed::default() };
            for cache in self.depot.central.caches().filter(|cache| cache.is_used_in(slot)) {
                if !cache.load(slot).is_idle(now, idle) {
                    done.is_more = true;
                    continue;
                }
                self.shrink_magazines(cache, slot);
                done.magazines += self.depot.drain_shard(cache, slot);
                self.depot.central.free_unused_spans(cache, slot);
            }
            let occupancy = if done.is_more { Occupancy::Occupied } else { Occupancy::Deserted };
            done.spans = self.decay_page_list(slot, occupancy);
            done
        })
    }

    /// Returns free pages to the kernel; see [`crate::central::Central::subrelease`].
    pub fn subrelease(&self, from: u64, idle: u32, done: &mut Subreleased) -> Option<u64> {
        let now = coarse_time();
        // As the only drainer, so that no cache ends and no segment is released.
        self.try_as_only_drainer(|| self.depot.central.subrelease(from, now, idle, done)).unwrap_or(Some(from))
    }

    fn decay_page_list(&self, slot: u32, occupancy: Occupancy) -> usize {
        let heap = &self.depot.central.page_heap;
        heap.page_list(slot).decay(occupancy, heap)
    }

    /// Empties the calling thread's slot of the cache.
    fn empty_own(&self, cache: CacheRef, slot: u32) -> usize {
        let words = Side::BOTH.map(|side| SlotWord::new(cache, slot, side));
        let emptied = words.into_iter().filter(|&word| self.drain_own_word(word)).count();
        if cache.level(slot).load(Ordering::Relaxed) > 0 {
            self.shrink_magazines(cache, slot);
        }
        let magazines = emptied + self.depot.drain_shard(cache, slot);
        self.depot.central.free_unused_spans(cache, slot);
        magazines
    }
}

/// Whether the slot has something of the cache, which is idle there and has no destructor.
fn is_left_alone(cache: CacheRef, slot: u32, now: u32, idle: u32) -> bool {
    let has_destructor = cache.state().is_some_and(|state| state.destructor().is_some());
    !has_destructor && cache.is_used_in(slot) && cache.load(slot).is_idle(now, idle)
}
