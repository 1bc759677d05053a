//! Reading figures: how far a copy of the page has come, and the sources and readers of the table of figures.
//! A reading takes no lock; it is exact at rest.

use crate::caches::{CHUNK, Parts, Reading, Spans, guards_skipped, heap};
use crate::central::Tally;
use crate::group::{Core, Statistics};
use crate::heap::limit;
use crate::observe::figures::{Cache, Figures, Group, Lock, Slot, with_figures};
use crate::observe::page::Text;
use crate::observe::{Events, Kicks, Why, columns};
use crate::page_heap::memblock;
use crate::page_heap::{PAGE, PageCounts};
use crate::{misuse, profile, rcu, sandbox, upkeep};
use machine::{kick, slot};

/// Sums of a walk over slots, spans and caches.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(in crate::heap) struct Walked {
    /// Bytes of objects of caches that the program holds.
    pub small_bytes: u64,
    /// Bytes of free objects in magazines and depots.
    pub cached_bytes: u64,
    /// Bytes on page lists.
    pub listed_bytes: u64,
    /// Bytes of spans.
    pub span_bytes: u64,
}

/// Most caches of a page.
pub const MOST_CACHES: usize = 4 * CHUNK;

/// The progress of the copy that is being written, and the sums so far.
#[repr(C)]
pub(super) struct Walk {
    pub stage: Stage,
    pub walked: Walked,
    /// By the number of the cache; those from `used` on are zeroes.
    pub caches: [(Parts, Spans); MOST_CACHES],
    used: usize,
}

#[derive(Clone, Copy, Debug)]
#[repr(C, u32)]
pub(super) enum Stage {
    /// Slots from this one on.
    Slots(u32) = 0,
    /// Spans from this place in the heap on.
    Spans(u64),
    /// Caches from this one on.
    Caches(u64),
    Rest,
}

impl Walk {
    pub fn start(&mut self) {
        (self.stage, self.walked) = (Stage::Slots(0), Walked::default());
        self.caches[..self.used].fill(Default::default());
        self.used = 0;
    }

    pub fn cache(&mut self, place: usize) -> Option<&mut (Parts, Spans)> {
        let cache = self.caches.get_mut(place);
        self.used = self.used.max(place + 1).min(MOST_CACHES);
        cache
    }
}

/// The source of the process's figures.
pub(in crate::heap) struct Heap<'a> {
    walked: Walked,
    runs: &'a PageCounts,
    tally: &'a Tally,
    kicks: &'a Kicks,
    metadata_bytes: u64,
    shared_since_ns: u64,
    strandable_bytes: u64,
    limit: limit::Report,
    upkeep: upkeep::Report,
    standing: rcu::Standing,
    waiting: rcu::Waiting,
}

impl Heap<'_> {
    /// The present state, with the sums of a walk.
    pub fn after(walked: Walked) -> Self {
        let heap = heap();
        Heap {
            walked,
            runs: &heap.page_heap().counts,
            tally: heap.central().tally(),
            kicks: heap.cpu.kicks(),
            metadata_bytes: heap.page_heap().metadata.reserved_bytes.get(),
            shared_since_ns: heap.sharing.upgraded_at_ns().unwrap_or(0),
            strandable_bytes: u64::from(slot::in_use()) * heap.cpu.most_in_magazines() as u64,
            limit: limit::report(),
            upkeep: upkeep::Report::read(),
            standing: rcu::standing(),
            waiting: rcu::waiting(),
        }
    }

    fn in_use_bytes(&self) -> u64 {
        memblock::in_use() as u64 + self.walked.small_bytes + self.large_bytes()
    }

    fn run_bytes(&self) -> u64 {
        pages(&self.runs.in_use).saturating_sub(self.walked.listed_bytes)
    }

    fn large_bytes(&self) -> u64 {
        self.run_bytes().saturating_sub(self.walked.span_bytes)
    }
}

fn pages(count: &Events) -> u64 {
    count.get() * PAGE as u64
}

/// The source of a slot's figures.
#[derive(Debug, Default)]
pub(in crate::heap) struct OfSlot {
    pub number: u32,
    pub parts: Parts,
    pub cached_bytes: u64,
    pub listed_bytes: u64,
    pub unvisited_ns: u64,
}

/// The source of a group's figures.
pub(in crate::heap) struct OfGroup<'a> {
    pub core: &'a Core,
    pub known: Statistics,
}

macro_rules! readers {
    ($(
        #[doc = $says:literal]
        $(#[$open:meta])?
        $row:ident from $source:ty: $number:literal $table:literal,
        metrics $metrics:literal numbered $numbered:literal {
            $($text:ident: $bytes:literal, $text_says:literal, $text_read:expr;)*
        } {
            $($topic:literal {
                $($figure:ident: $kind:ident $unit:ident $($together:ident)?, $figure_says:literal, $read:expr;)*
            })*
        }
    )*) => {
        $(impl $row {
            /// Reads all figures of the row.
            pub(in crate::heap) fn read(source: &$source) -> Self {
                $row {
                    $($text: apply(source, $text_read),)*
                    $($($figure: apply(source, $read),)*)*
                }
            }
        })*
    };
}

#[inline(always)]
fn apply<S, R>(source: &S, read: impl FnOnce(&S) -> R) -> R {
    read(source)
}

with_figures!(readers);
