//! What the page says: slots, spans and caches, a part at a time, and then the rest.
//!
//! Objects in slots' own arrays were counted as in use when they left the depot, and are subtracted where they are found.

use super::{Inside, Part};
use crate::group::register;
use crate::heap::locks;
use crate::observe::Why;
use crate::observe::columns;
use crate::observe::page::{Cache, Figures, Group, Lock, Slot, Text};
use crate::page::PAGE;
use crate::slab::region::general;
use crate::slab::survey::{self, Known};
use crate::slab::{coarse_of, coarse_time};
use crate::{rcu, upkeep};
use machine::{clock, kick, slot};

const MILLISECOND: u64 = 1_000_000;
const CACHES_AT_ONCE: usize = 8;

/// How far the copy that is being written has come.
#[derive(Clone, Copy, Debug)]
#[repr(C, u32)]
pub(super) enum Stage {
    /// Slots from this one on.
    Slots(u32) = 0,
    /// Spans from this place in the heap on.
    Spans(u64),
    /// Caches from this one on.
    Caches(u64),
    /// The rest.
    Rest,
}

impl Inside {
    /// Does a part of the copy that is being written.
    pub(super) fn do_part(&mut self) -> Part {
        self.stage = match self.stage {
            Stage::Slots(slot) if slot < slot::in_use() => {
                self.write_slot(slot);
                Stage::Slots(slot + 1)
            }
            Stage::Slots(_) => Stage::Spans(0),
            Stage::Spans(from) => match self.write_spans(from) {
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
                self.write_turns();
                self.write_figures();
                return Part::Last;
            }
        };
        Part::More
    }

    fn write_slot(&mut self, slot: u32) {
        let mut own = Slot::NONE;
        general().survey_slot(slot, |cache, object_bytes, part| {
            let survey::Part { arrays, in_words, in_depot, refills } = part;
            own.arrays += arrays;
            own.cached_objects += in_words + in_depot;
            own.cached_bytes += (in_words + in_depot) * object_bytes;
            own.refills += refills;
            if let Some(row) = self.writer.row::<Cache>(cache) {
                row.cached += in_words + in_depot;
                row.refills += refills;
                // For now: what is in words was counted as in use. See `write_caches`.
                row.in_use += in_words;
            }
        });
        own.listed_bytes = general().listed_bytes_of(slot);
        let unvisited = general().watch(slot).since_last_visit(coarse_time());
        own.unvisited_ns = self.ns_of(unvisited);
        match self.writer.row::<Slot>(slot as usize) {
            Some(row) => *row = own,
            None => self.writer.lose::<Slot>(1),
        }
        if let Some(all) = self.writer.row::<Figures>(0) {
            all.cached_bytes += own.cached_bytes;
            // For now: it is subtracted in `write_figures`.
            all.run_bytes += own.listed_bytes;
        }
    }

    fn write_spans(&mut self, from: u64) -> Option<u64> {
        general().survey_spans(from, |cache, bytes, objects| {
            if let Some(row) = self.writer.row::<Cache>(cache) {
                row.spans += 1;
                row.span_bytes += bytes;
                row.objects += objects;
            }
            if let Some(all) = self.writer.row::<Figures>(0) {
                all.large_bytes += bytes;
            }
        })
    }

    fn write_caches(&mut self, from: usize) -> Option<usize> {
        general().survey_caches(from, CACHES_AT_ONCE, |cache, known| {
            let Known { name, object_bytes, counted, peak, limit, batch } = known;
            let Some(row) = self.writer.row::<Cache>(cache) else { return self.writer.lose::<Cache>(1) };
            (row.name, row.object_bytes, row.peak) = (Text::of(name), object_bytes as u64, peak);
            (row.limit, row.batch) = (limit as u64, batch as u64);
            row.in_use = counted.saturating_sub(row.in_use);
            let bytes = row.in_use * row.object_bytes;
            if let Some(all) = self.writer.row::<Figures>(0) {
                all.in_use_bytes += bytes;
            }
        })
    }

    fn write_locks(&mut self) {
        let writer = &mut self.writer;
        locks::for_each_row(|columns::Row { contended, total_wait_ns, max_wait_ns, class, caller, .. }| {
            let (class, caller) = (Text::of(class), Text::of(caller));
            match writer.push::<Lock>() {
                Some(row) => *row = Lock { class, caller, contended, total_wait_ns, max_wait_ns },
                None => writer.lose::<Lock>(1),
            }
        });
    }

    fn write_groups(&mut self) {
        let writer = &mut self.writer;
        let unlisted = register::show(|group| {
            let known = group.statistics();
            let row = Group {
                name: Text::of(group.name()),
                parent: Text::of(group.parent().map_or("", |parent| parent.name())),
                charged_bytes: known.charged,
                peak_bytes: known.peak,
                limit_bytes: known.limit,
                refused: known.refused,
                inside: known.inside.into(),
                children: known.children.into(),
                caches: known.caches.into(),
                large_blocks: known.large_blocks.into(),
            };
            if let Some(place) = writer.push::<Group>() {
                *place = row;
            }
        });
        writer.lose::<Group>(unlisted.unwrap_or(0));
    }

    fn write_turns(&mut self) {
        upkeep::next_turns(slot::in_use(), |slot, at| {
            if let Some(row) = self.writer.row::<Slot>(slot as usize) {
                row.next_turn_ns = at;
            }
        });
    }

    fn write_figures(&mut self) {
        let slab = general().state();
        let (counts, registry) = (&slab.zone.counts, slab.registry());
        let pages = |count: u64| count * PAGE as u64;
        let Some(all) = self.writer.row::<Figures>(0) else { return };
        let (listed, in_spans) = (all.run_bytes, all.large_bytes);
        let run_bytes = pages(counts.in_use.get()).saturating_sub(listed);
        let large_bytes = run_bytes.saturating_sub(in_spans);
        let kicks = kick::counts();
        let kicks_for = |why| registry.rare.0.kicks.get(why);
        let upkeep = upkeep::Report::read();
        let (standing, waiting) = (rcu::standing(), rcu::waiting());
        *all = Figures {
            in_use_bytes: all.in_use_bytes + large_bytes,
            peak_bytes: registry.tally.peak_bytes(),
            run_bytes,
            peak_run_bytes: pages(counts.peak.get()),
            large_bytes,
            large_blocks: registry.tally.objects(0),
            cached_bytes: all.cached_bytes,
            dirty_bytes: pages(counts.free_dirty.get()),
            released_bytes: pages(counts.purged.get()),
            segment_bytes: pages(counts.reserved.get()),
            metadata_bytes: slab.zone.metadata.reserved_bytes.get(),
            runs: counts.allocations.get(),
            slots_used: slot::in_use().into(),
            has_concurrency_ids: (slot::mode() == slot::Mode::ConcurrencyId).into(),
            shared_since_ns: slab.sharing.upgraded_at_ns().unwrap_or(0),
            kicks: kicks.0,
            kicks_refused: kicks.1,
            kicks_trim: kicks_for(Why::Trim),
            kicks_shrink: kicks_for(Why::Shrink),
            kicks_tune: kicks_for(Why::Tune),
            kicks_limit: kicks_for(Why::Limit),
            kicks_idle: kicks_for(Why::Idle),
            kicks_deferred: kicks_for(Why::Deferred),
            kicks_upkeep: kicks_for(Why::Upkeep),
            upkeep_on: upkeep.is_on.into(),
            upkeep_shepherd: upkeep.has_shepherd.into(),
            upkeep_interval_ns: u64::from(upkeep::knob(upkeep::Knob::Interval)) * MILLISECOND,
            upkeep_own_turns: upkeep.own_turns,
            upkeep_deserted_turns: upkeep.deserted_turns,
            upkeep_arrays: upkeep.arrays,
            upkeep_spans: upkeep.spans,
            upkeep_released_bytes: upkeep.bytes,
            upkeep_calls: upkeep.calls,
            upkeep_refused: upkeep.refused,
            upkeep_longest_ns: upkeep.longest_ns,
            upkeep_patience: upkeep.patience.into(),
            rcu_grace_periods: standing.over,
            rcu_waiting_ns: standing.waiting_ns,
            rcu_hold_outs: standing.hold_outs.into(),
            rcu_deferred: waiting.objects,
            rcu_deferred_bytes: waiting.bytes,
            rcu_peak_deferred_bytes: waiting.most_bytes,
            rcu_held_up: waiting.held_up,
            rcu_lost: waiting.lost,
        };
    }

    /// So many units of coarse time in nanoseconds, by how fast both clocks have been since somebody first came along.
    fn ns_of(&self, units: u32) -> u64 {
        const USUAL_NS: u64 = 512;
        let passed = coarse_of(clock::ticks().saturating_sub(self.first_ticks));
        let ns = clock::now_ns().saturating_sub(self.first_ns);
        // Too early to tell.
        if passed < 1 << 16 {
            return u64::from(units) * USUAL_NS;
        }
        (u128::from(units) * u128::from(ns) / u128::from(passed)) as u64
    }
}
