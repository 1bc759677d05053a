//! The table of figures: all that a process reports about itself, each figure once.
//!
//! A figure has a name with its unit, a kind, a unit, a meaning and a reader. All outputs come from this table: the
//! statistics page, `--stats` and `--slabinfo`, `commensal stat`, `top` and `slabinfo`, JSON, OpenMetrics and the
//! reference. To add a figure, add its line here and count it where it happens. The line is
//!
//! ```text
//! name: Kind Unit [Most], "What it means.", |source| how it is read;
//! ```
//!
//! With `Most`, several values are combined to the largest; otherwise they are added. [`TABLES`] describes each scope
//! (the process, caches, slots, groups and locks), and a structure of the scope's name holds its values.
//! `heap::statistics::read` expands the readers, because it knows the sources.

use super::page::Text;

/// Calls a macro with the table.
macro_rules! with_figures {
    ($then:ident) => {
        $then! {
    /// Figures of the process as a whole.
    #[non_exhaustive]
    Figures from Heap<'_>: 0 "process", metrics "" numbered "" {} {
        "memory" {
            in_use_bytes: Gauge Bytes, "Bytes that the program holds, in small objects and large blocks.",
                |heap| heap.in_use_bytes();
            peak_bytes: Gauge Bytes, "The most bytes that the program and the magazines held, sampled at refills.",
                |heap| heap.tally.peak_bytes().max(heap.in_use_bytes());
            run_bytes: Gauge Bytes, "Bytes of spans and large blocks in use.", |heap| heap.run_bytes();
            peak_run_bytes: Gauge Bytes, "The most bytes of spans and large blocks that were in use.",
                |heap| pages(&heap.runs.peak);
            large_bytes: Gauge Bytes, "Bytes of large blocks in use.", |heap| heap.large_bytes();
            large_blocks: Gauge Count, "Large blocks in use.", |heap| heap.tally.objects(0);
            peak_large_blocks: Gauge Count, "The most large blocks that were in use.",
                |heap| heap.tally.peak_objects(0);
            cached_bytes: Gauge Bytes, "Bytes of free objects in magazines and depots.",
                |heap| heap.walked.cached_bytes;
            free_bytes: Gauge Bytes, "Bytes of spans, neither in use nor cached. Untouched ones take no memory.",
                |heap| pages(&heap.runs.in_use).saturating_sub(heap.in_use_bytes() + heap.walked.cached_bytes);
            dirty_bytes: Gauge Bytes, "Bytes of free runs that were used and not yet returned to the kernel.",
                |heap| pages(&heap.runs.free_dirty);
            released_bytes: Counter Bytes, "Bytes returned to the kernel.", |heap| pages(&heap.runs.purged);
            segment_bytes: Gauge Bytes, "Bytes of address space in segments.", |heap| pages(&heap.runs.reserved);
            metadata_bytes: Gauge Bytes, "Bytes of address space for metadata. Only the used part takes memory.",
                |heap| heap.metadata_bytes;
            runs: Counter Count, "Runs of pages that were handed out.", |heap| heap.runs.allocations.get();
            misuses: Counter Count, "Misuses of the heap that were found, with `misuse:report`.",
                |_| misuse::findings();
            guards_skipped: Counter Count,
                "Allocations that `guard` chose and that are not guarded: no place was free, or one came just before.",
                |_| guards_skipped();
            samples_lost: Counter Count, "Samples of the heap profile for which its tables had no room.",
                |_| profile::lost();
        }
        "limits" {
            held_bytes: Gauge Bytes, "Bytes of spans and large blocks in use, and of dirty free runs.",
                |heap| heap.limit.held;
            limit_bytes: Gauge Bytes, "The most bytes that may be held; 0: no limit.",
                |heap| heap.limit.limit.unwrap_or(0);
            soft_limit_bytes: Gauge Bytes, "Held bytes above which unused memory goes back at once; 0: no limit.",
                |heap| heap.limit.soft_limit.unwrap_or(0);
            limit_reached: Counter Count, "Times that the limit was reached, after the process was a step below it.",
                |heap| heap.limit.reached;
            soft_limit_reached: Counter Count, "The same for the soft limit, after unused memory went back.",
                |heap| heap.limit.soft_reached;
            limit_refused: Counter Count, "Allocations that the limit refused.", |heap| heap.limit.refused;
            limit_reliefs: Counter Count, "Times that memory went back because of the soft limit.",
                |heap| heap.limit.reliefs;
            pressure_reliefs: Counter Count,
                "Times that memory went back because the control group was above its limits.",
                |heap| heap.upkeep.pressure;
        }
        "slots" {
            slots_used: Gauge Count, "Slots that have been used.", |_| slot::in_use().into();
            has_concurrency_ids: Gauge YesOrNo Most,
                "Whether slots are the kernel's concurrency ids; 0: each thread has a slot of its own.",
                |_| (slot::mode() == slot::Mode::ConcurrencyId).into();
            shared_since_ns: Gauge Moment Most, "When the process got its second thread; 0: never.",
                |heap| heap.shared_since_ns;
        }
        "kicks" {
            kicks: Counter Count, "Kicks for any reason. A kick interrupts the CPUs that run threads of the process.",
                |_| kick::counts().0;
            kicks_refused: Counter Count, "Kicks that the kernel refused.", |_| kick::counts().1;
            is_plain: Gauge YesOrNo Most,
                "Whether the process is in plain mode: it may be under a filter of system calls, so it does not kick.",
                |_| sandbox::is_plain().into();
            strandable_bytes: Gauge Bytes,
                "The most bytes that magazines of used slots can hold. In plain mode no other thread can drain them.",
                |heap| heap.strandable_bytes;
            kicks_trim: Counter Count, "Kicks to return all cached memory, on request or before the heap grows.",
                |heap| heap.kicks.get(Why::Trim);
            kicks_shrink: Counter Count, "Kicks to return what a cache does not need.",
                |heap| heap.kicks.get(Why::Shrink);
            kicks_tune: Counter Count, "Kicks to replace magazines by others of another capacity.",
                |heap| heap.kicks.get(Why::Tune);
            kicks_limit: Counter Count, "Kicks because a group reached its limit: its magazines are drained first.",
                |heap| heap.kicks.get(Why::Limit);
            kicks_idle: Counter Count, "Kicks to take capacity from an idle slot for a busy one.",
                |heap| heap.kicks.get(Why::Idle);
            kicks_deferred: Counter Count, "Kicks because deferred objects of idle slots were due to be freed.",
                |heap| heap.kicks.get(Why::Deferred);
            kicks_upkeep: Counter Count, "Kicks to reclaim magazines of slots that no thread had used for some time.",
                |heap| heap.kicks.get(Why::Upkeep);
            kicks_misuse: Counter Count, "Kicks because an object seemed to be freed twice: its magazine is drained.",
                |heap| heap.kicks.get(Why::Misuse);
        }
        "upkeep" {
            upkeep_on: Gauge YesOrNo Most, "Whether unused memory is returned in the background.",
                |heap| heap.upkeep.is_on.into();
            upkeep_shepherd: Gauge YesOrNo Most, "Whether the background thread exists.",
                |heap| heap.upkeep.has_shepherd.into();
            upkeep_interval_ns: Gauge Nanoseconds Most, "The interval in which each slot has one turn of upkeep.",
                |_| upkeep::interval_ns();
            upkeep_own_turns: Counter Count, "Turns that threads took in their own slots.",
                |heap| heap.upkeep.own_turns;
            upkeep_deserted_turns: Counter Count, "Turns that were taken for idle slots.",
                |heap| heap.upkeep.deserted_turns;
            upkeep_arrays: Counter Count, "Magazines that upkeep emptied.", |heap| heap.upkeep.arrays;
            upkeep_spans: Counter Count, "Spans that upkeep returned to the page heap.", |heap| heap.upkeep.spans;
            upkeep_released_bytes: Counter Bytes, "Bytes that upkeep returned to the kernel.",
                |heap| heap.upkeep.bytes;
            upkeep_calls: Counter Count, "Upkeep's calls that returned memory.", |heap| heap.upkeep.calls;
            upkeep_refused: Counter Count, "System calls of upkeep that the kernel refused.",
                |heap| heap.upkeep.refused;
            upkeep_longest_ns: Gauge Nanoseconds Most, "The longest time that upkeep took without a pause.",
                |heap| heap.upkeep.longest_ns;
            upkeep_patience: Gauge Count Most, "Intervals for which pages must be idle before upkeep returns them.",
                |heap| heap.upkeep.patience.into();
        }
        "rcu" {
            rcu_grace_periods: Counter Count, "Grace periods that have ended.", |heap| heap.standing.over;
            rcu_waiting_ns: Gauge Nanoseconds Most,
                "How long the current grace period has been waiting for readers; 0: there is none.",
                |heap| heap.standing.waiting_ns;
            rcu_hold_outs: Gauge Count, "Hold-outs of the current grace period.",
                |heap| heap.standing.hold_outs.into();
            rcu_deferred: Gauge Count, "Objects and calls that wait for a grace period.", |heap| heap.waiting.objects;
            rcu_deferred_bytes: Gauge Bytes, "Bytes of objects that wait for a grace period, where they are known.",
                |heap| heap.waiting.bytes;
            rcu_peak_deferred_bytes: Gauge Bytes,
                "The most bytes that waited for a grace period in each slot, added up.", |heap| heap.waiting.most_bytes;
            rcu_held_up: Counter Count, "Times that a thread was delayed because too many objects waited.",
                |heap| heap.waiting.held_up;
            rcu_lost: Counter Count, "Objects that could not be deferred and were leaked.", |heap| heap.waiting.lost;
        }
    }

    /// A cache: a size class, or an object cache that the program made.
    Cache from Reading: 1 "caches", metrics "cache_" numbered "" {
        name: 56, "The cache's name.", |cache| Text::of(cache.known.name);
    } {
        "caches" {
            object_bytes: Gauge Bytes Most, "Bytes of an object.", |cache| cache.known.object_bytes as u64;
            in_use: Gauge Count, "Objects that the program holds.",
                |cache| cache.known.counted.saturating_sub(cache.parts.in_words);
            peak: Gauge Count,
                "The most objects that the program and the magazines held, sampled at refills; 0 for object caches.",
                |cache| cache.known.peak;
            cached: Gauge Count, "Free objects in magazines and depots.", |cache| cache.parts.cached();
            objects: Gauge Count, "Objects that the cache's spans have room for.", |cache| cache.spans.objects;
            spans: Gauge Count, "Spans of the cache.", |cache| cache.spans.spans;
            span_bytes: Gauge Bytes, "Bytes of the cache's spans.", |cache| cache.spans.bytes;
            limit: Gauge Count Most, "The most objects that a slot keeps; without tuning, at the highest miss rate.",
                |cache| cache.known.limit as u64;
            batch: Gauge Count Most, "Objects that a slow path moves at once.", |cache| cache.known.batch as u64;
            refills: Counter Count, "Times that an allocation magazine was empty.", |cache| cache.parts.refills;
            active_spans: Gauge Count, "Spans with objects in use or in magazines.", |cache| cache.spans.active;
        }
    }

    /// A slot: the data of one concurrency id or, in fallback mode, of one thread.
    Slot from OfSlot: 2 "slots", metrics "slot_" numbered "slot" {} {
        "slots" {
            arrays: Gauge Count, "Magazines of the slot.", |slot| slot.parts.magazines;
            cached_objects: Gauge Count, "Free objects in the slot's magazines and shards.",
                |slot| slot.parts.cached();
            cached_bytes: Gauge Bytes, "Bytes of free objects in the slot's magazines and shards.",
                |slot| slot.cached_bytes;
            listed_bytes: Gauge Bytes, "Bytes of spans on the slot's page list.", |slot| slot.listed_bytes;
            refills: Counter Count, "Times that an allocation magazine was empty.", |slot| slot.parts.refills;
            unvisited_ns: Gauge Nanoseconds Most, "Time since a thread last reached a slow path in the slot.",
                |slot| slot.unvisited_ns;
            next_turn_ns: Gauge Moment Most, "When the slot's next turn of upkeep begins; 0: it has none.",
                |slot| upkeep::next_turn_ns(slot.number);
        }
    }

    /// A memory group.
    Group from OfGroup<'_>: 3 "groups", metrics "group_" numbered "" {
        name: 48, "The group's name.", |group| Text::of(group.core.name());
        parent: 48, "The name of the group's parent; empty: it has none.",
            |group| Text::of(group.core.parent().map_or("", Core::name));
    } {
        "groups" {
            charged_bytes: Gauge Bytes,
                "Bytes charged to the group: what the program and magazines hold of it and of the groups below.",
                |group| group.known.charged;
            peak_bytes: Gauge Bytes, "The most bytes that were charged.", |group| group.known.peak;
            limit_bytes: Gauge Bytes, "The most bytes that may be charged; 18446744073709551615: no limit.",
                |group| group.known.limit;
            refused: Counter Count, "Allocations refused at the group's own limit or at one above.",
                |group| group.known.refused;
            inside: Gauge Count, "Times that threads have entered the group and not left it yet.",
                |group| group.known.inside.into();
            children: Gauge Count, "Groups whose parent is this group.", |group| group.known.children.into();
            caches: Gauge Count, "Caches that were made for the group.", |group| group.known.caches.into();
            large_blocks: Gauge Count, "Large blocks of the group in use.", |group| group.known.large_blocks.into();
        }
    }

    /// Waits of one function for the locks of one class.
    Lock from columns::Row: 4 "locks", metrics "lock_" numbered "" {
        class: 24, "The class of the locks.", |lock| Text::of(lock.class);
        caller: 72, "The function that waited.", |lock| Text::of(lock.caller);
    } {
        "locks" {
            contended: Counter Count, "Acquisitions that did not succeed at once.", |lock| lock.contended;
            total_wait_ns: Counter Nanoseconds, "Total time waited.", |lock| lock.total_wait_ns;
            max_wait_ns: Gauge Nanoseconds Most, "The longest wait.", |lock| lock.max_wait_ns;
            max_hold_ns: Gauge Nanoseconds Most,
                "The longest hold, in CPU time of the holder; 0: `locks.holds` is off.", |lock| lock.max_hold_ns;
        }
    }
        }
    };
}
pub(crate) use with_figures;

/// How a value changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Up and down.
    Gauge,
    /// Only up, since the process started; a fork child continues its parent's.
    Counter,
}

impl Kind {
    /// Its word.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Gauge => "gauge",
            Kind::Counter => "counter",
        }
    }
}

/// The unit of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Things.
    Count,
    /// Bytes.
    Bytes,
    /// Nanoseconds.
    Nanoseconds,
    /// Nanoseconds on the machine's monotonic clock; 0: none.
    Moment,
    /// 1 or 0.
    YesOrNo,
}

impl Unit {
    /// Its words.
    pub fn word(self) -> &'static str {
        match self {
            Unit::Count => "count",
            Unit::Bytes => "bytes",
            Unit::Nanoseconds => "nanoseconds",
            Unit::Moment => "moment",
            Unit::YesOrNo => "yes or no",
        }
    }
}

/// How several values are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Together {
    /// The largest, where a sum means nothing.
    Most,
    /// Their sum.
    Sum,
}

/// Description of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Figure {
    /// Its topic.
    pub topic: &'static str,
    /// Its name, with its unit.
    pub name: &'static str,
    /// How it changes.
    pub kind: Kind,
    /// Its unit.
    pub unit: Unit,
    /// How values of several rows or processes are combined.
    pub together: Together,
    /// Its meaning.
    pub says: &'static str,
}

/// Description of a text of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label {
    /// Its name.
    pub name: &'static str,
    /// Bytes of it in the statistics page.
    pub bytes: usize,
    /// Its meaning.
    pub says: &'static str,
}

/// Description of a scope and its rows.
#[derive(Clone, Copy, Debug)]
pub struct Table {
    /// Its name.
    pub name: &'static str,
    /// The meaning of its rows.
    pub says: &'static str,
    /// The prefix of its metrics' names.
    pub metrics: &'static str,
    /// The metrics' label with the row's number; empty: none.
    pub numbered: &'static str,
    /// Its texts.
    pub labels: &'static [Label],
    /// Its figures.
    pub figures: &'static [Figure],
    /// Bytes of a row: the texts, and then the values.
    pub(super) row_bytes: usize,
}

impl Table {
    /// A table without texts, outside of the page, for figures from other sources.
    pub const fn of_figures(figures: &'static [Figure]) -> Self {
        Table { name: "", says: "", metrics: "", numbered: "", labels: &[], figures, row_bytes: 0 }
    }
}

/// A row of a table: texts, then values.
///
/// # Safety
/// It is `repr(C)`, without padding, any bytes are a valid one, and it is the row of the table of its number.
pub unsafe trait Row: Copy + 'static {
    /// The number of the table.
    const NUMBER: usize;
}

macro_rules! declare {
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
        $(
            #[doc = $says]
            $(#[$open])?
            #[derive(Clone, Copy, Debug, PartialEq, Eq)]
            #[repr(C)]
            pub struct $row {
                $(#[doc = $text_says] pub $text: Text<$bytes>,)*
                $($(#[doc = $figure_says] pub $figure: u64,)*)*
            }

            impl $row {
                /// Without texts, all values zero.
                pub const NONE: Self = $row { $($text: Text::NONE,)* $($($figure: 0,)*)* };

                /// Calls `show` with each figure's topic, name, unit and value.
                pub fn for_each(&self, mut show: impl FnMut(&'static str, &'static str, Unit, u64)) {
                    $($(show($topic, stringify!($figure), Unit::$unit, self.$figure);)*)*
                }
            }

            const _: () = assert!(size_of::<$row>() == TABLES[$number].row_bytes);

            // SAFETY: asserted above; bytes and numbers may have any value.
            unsafe impl Row for $row {
                const NUMBER: usize = $number;
            }
        )*

        /// All scopes.
        pub static TABLES: [Table; [$($number),*].len()] = [$({
            const LABELS: &[Label] = &[$(Label { name: stringify!($text), bytes: $bytes, says: $text_says }),*];
            const FIGURES: &[Figure] = &[$($(Figure {
                topic: $topic,
                name: stringify!($figure),
                kind: Kind::$kind,
                unit: Unit::$unit,
                together: [$(Together::$together,)? Together::Sum][0],
                says: $figure_says,
            }),*),*];
            Table {
                name: $table,
                says: $says.trim_ascii(),
                metrics: $metrics,
                numbered: $numbered,
                labels: LABELS,
                figures: FIGURES,
                row_bytes: $($bytes +)* 8 * FIGURES.len(),
            }
        }),*];
    };
}

with_figures!(declare);

/// A name without its unit.
pub fn unitless(name: &str) -> &str {
    ["_bytes", "_ns"].into_iter().find_map(|unit| name.strip_suffix(unit)).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::vec::Vec;

    #[test]
    fn names_are_used_once_and_end_in_their_unit() {
        for table in &TABLES {
            let labels = table.labels.iter().map(|label| (label.name, label.says));
            let all: Vec<_> = labels.chain(table.figures.iter().map(|figure| (figure.name, figure.says))).collect();
            let names: HashSet<&str> = all.iter().map(|&(name, _)| name).collect();
            assert_eq!(names.len(), all.len(), "{}: a name is used twice", table.name);
            assert!(all.iter().all(|(_, says)| says.ends_with('.')), "{}: a meaning is no sentence", table.name);
            for Figure { name, kind, unit, together, .. } in table.figures {
                let of_name = [("_bytes", "bytes"), ("_ns", "nanoseconds")];
                let of_name = of_name.into_iter().find(|(end, _)| name.ends_with(end)).map_or("", |(_, unit)| unit);
                let expected = match unit {
                    Unit::Count | Unit::YesOrNo => "",
                    Unit::Moment => "nanoseconds",
                    unit => unit.word(),
                };
                assert_eq!(of_name, expected, "{name}");
                let is_summed = *kind == Kind::Counter || matches!(unit, Unit::Count | Unit::Bytes);
                assert!(is_summed || *together == Together::Most, "{name}: times of several do not follow each other");
            }
        }
        let numbers = [Figures::NUMBER, Cache::NUMBER, Slot::NUMBER, Group::NUMBER, Lock::NUMBER];
        assert!(numbers.iter().copied().eq(0..TABLES.len()));
        let topics: Vec<&str> = TABLES[0].figures.iter().map(|figure| figure.topic).collect();
        let distinct: HashSet<&str> = topics.iter().copied().collect();
        assert_eq!(topics.chunk_by(|one, other| one == other).count(), distinct.len(), "a topic is in two places");
    }
}
