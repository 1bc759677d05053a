//! The contents of the page: slots, spans and caches, a part at a time, and then the rest.

use super::read::{Heap, OfGroup, OfSlot, Stage};
use super::{Inside, Part};
use crate::caches::{Reading, heap};
use crate::central::coarse_time;
use crate::group::register;
use crate::heap::locks;
use crate::observe::figures::{Cache, Figures, Group, Lock, Slot};
use machine::{clock::COARSE_NS, slot};

const CACHES_AT_ONCE: usize = 8;

impl Inside {
    /// Writes a part of the copy.
    pub(super) fn do_part(&mut self) -> Part {
        self.walk.stage = match self.walk.stage {
            Stage::Slots(slot) if slot < slot::in_use() => {
                self.write_slot(slot);
                Stage::Slots(slot + 1)
            }
            Stage::Slots(_) => Stage::Spans(0),
            Stage::Spans(from) => match self.look_at_spans(from) {
                Some(next) if next == from => return Part::NotNow,
                Some(next) => Stage::Spans(next),
                None => Stage::Caches(0),
            },
            Stage::Caches(from) => match self.write_caches(from as usize) {
                Some(next) => Stage::Caches(next as u64),
                None => Stage::Rest,
            },
            Stage::Rest => {
                self.write_locks();
                self.write_groups();
                if let Some(row) = self.writer.row(0) {
                    *row = Figures::read(&Heap::after(self.walk.walked));
                }
                return Part::Last;
            }
        };
        Part::More
    }

    fn write_slot(&mut self, number: u32) {
        let mut own = OfSlot { number, listed_bytes: heap().listed_bytes_of(number), ..OfSlot::default() };
        heap().read_slot(number, |cache, object_bytes, parts| {
            own.parts += parts;
            own.cached_bytes += parts.cached() * object_bytes;
            if let Some((of_cache, _)) = self.walk.cache(cache) {
                *of_cache += parts;
            }
        });
        own.unvisited_ns = u64::from(heap().cpu.watch(number).since_last_visit(coarse_time())) * COARSE_NS;
        self.walk.walked.cached_bytes += own.cached_bytes;
        self.walk.walked.listed_bytes += own.listed_bytes;
        match self.writer.row(number as usize) {
            Some(row) => *row = Slot::read(&own),
            None => self.writer.lose::<Slot>(1),
        }
    }

    fn look_at_spans(&mut self, from: u64) -> Option<u64> {
        heap().read_spans(from, |cache, spans| {
            self.walk.walked.span_bytes += spans.bytes;
            if let Some((_, of_cache)) = self.walk.cache(cache) {
                *of_cache += spans;
            }
        })
    }

    fn write_caches(&mut self, from: usize) -> Option<usize> {
        heap().read_caches(from, CACHES_AT_ONCE, |cache, known| {
            let place = self.writer.row(cache).zip(self.walk.caches.get(cache));
            let Some((row, &(parts, spans))) = place else { return self.writer.lose::<Cache>(1) };
            *row = Cache::read(&Reading { known, parts, spans });
            self.walk.walked.small_bytes += row.in_use * row.object_bytes;
        })
    }

    fn write_locks(&mut self) {
        locks::for_each_row(|lock| match self.writer.push() {
            Some(row) => *row = Lock::read(&lock),
            None => self.writer.lose::<Lock>(1),
        });
    }

    fn write_groups(&mut self) {
        let unlisted = register::show(|group| {
            if let Some(row) = self.writer.push() {
                *row = Group::read(&OfGroup { core: group, known: group.statistics() });
            }
        });
        self.writer.lose::<Group>(unlisted.unwrap_or(0));
    }
}
