//! What the statistics page says: single figures, and rows of tables. Each is declared once, with its kind, its unit and what it means; readers
//! show them, exporters name them and the book explains them by these lists, so that no value can come to stand in another one's place.

use super::text::Text;

/// How a value moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Up and down.
    Gauge,
    /// Only up, from the start of the process or, in a fork child, of its parent.
    Counter,
}

/// What a value is counted in.
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

/// A value, described.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// What it is called, with its unit.
    pub name: &'static str,
    /// How it moves.
    pub kind: Kind,
    /// What it is counted in.
    pub unit: Unit,
    /// What it means.
    pub says: &'static str,
}

/// A row of a table, of texts and then values.
///
/// # Safety
/// It is `repr(C)`, without padding, any bytes are a valid one, and no other row has its number.
pub unsafe trait Row: Copy + 'static {
    /// The number of the table.
    const NUMBER: usize;
    /// What the table is called.
    const TABLE: &'static str;
    /// What the texts are called.
    const TEXTS: &'static [&'static str];
    /// What the values are.
    const FIELDS: &'static [Field];

    /// The texts, in order.
    fn texts(&self) -> impl Iterator<Item = &str>;

    /// The values, in order.
    fn values(&self) -> impl Iterator<Item = u64>;
}

/// Declares a row.
macro_rules! row {
    (
        $(#[doc = $about:literal])+
        $row:ident in $number:literal $table:literal {
            $($(#[doc = $text_says:literal])+ $text:ident: $bytes:literal,)*
        } {
            $($(#[doc = $says:literal])+ $field:ident: $kind:ident $unit:ident,)*
        }
    ) => {
        $(#[doc = $about])+
        #[derive(Clone, Copy, Debug)]
        #[repr(C)]
        pub struct $row {
            $($(#[doc = $text_says])+ pub $text: Text<$bytes>,)*
            $($(#[doc = $says])+ pub $field: u64,)*
        }

        impl $row {
            /// Without texts, and with zeroes.
            pub const NONE: Self = $row { $($text: Text::NONE,)* $($field: 0,)* };
        }

        const _: () = assert!(size_of::<$row>() == $($bytes +)* 8 * $row::FIELDS.len());

        // SAFETY: the assertion above; bytes and numbers may have any value.
        unsafe impl Row for $row {
            const NUMBER: usize = $number;
            const TABLE: &'static str = $table;
            const TEXTS: &'static [&'static str] = &[$(stringify!($text)),*];
            const FIELDS: &'static [Field] = &[$(Field {
                name: stringify!($field),
                kind: Kind::$kind,
                unit: Unit::$unit,
                says: concat!($($says),+),
            }),*];

            fn texts(&self) -> impl Iterator<Item = &str> {
                let texts: [&str; Self::TEXTS.len()] = [$(self.$text.as_str()),*];
                texts.into_iter()
            }

            fn values(&self) -> impl Iterator<Item = u64> {
                [$(self.$field),*].into_iter()
            }
        }
    };
}

row! {
    /// Figures of the process as a whole.
    Figures in 0 "process" {} {
        /// Bytes that the program holds: small objects and large blocks.
        in_use_bytes: Gauge Bytes,
        /// The most bytes that the program and the slots' arrays held, as refills saw it.
        peak_bytes: Gauge Bytes,
        /// Bytes of runs in use: spans and large blocks.
        run_bytes: Gauge Bytes,
        /// The most bytes of runs that were in use.
        peak_run_bytes: Gauge Bytes,
        /// Bytes of large blocks in use.
        large_bytes: Gauge Bytes,
        /// Large blocks in use.
        large_blocks: Gauge Count,
        /// Bytes of free objects in arrays and depots.
        cached_bytes: Gauge Bytes,
        /// Bytes of free runs that the kernel has not got back.
        dirty_bytes: Gauge Bytes,
        /// Bytes given back to the kernel.
        released_bytes: Counter Bytes,
        /// Bytes of address space in segments.
        segment_bytes: Gauge Bytes,
        /// Bytes of address space for metadata.
        metadata_bytes: Gauge Bytes,
        /// Runs of pages that were handed out.
        runs: Counter Count,
        /// Slots that have been used.
        slots_used: Gauge Count,
        /// Whether slots are given by the kernel's concurrency ids; 0: each thread has one of its own.
        has_concurrency_ids: Gauge YesOrNo,
        /// When the second thread came; 0: there never was one.
        shared_since_ns: Gauge Moment,
        /// Times that other CPUs were interrupted, for any reason.
        kicks: Counter Count,
        /// Times that the kernel refused to interrupt other CPUs.
        kicks_refused: Counter Count,
        /// Kicks because memory had to go back.
        kicks_trim: Counter Count,
        /// Kicks because a cache was to give back what it does not need.
        kicks_shrink: Counter Count,
        /// Kicks because arrays were replaced by others of another size.
        kicks_tune: Counter Count,
        /// Kicks because a group had reached its limit.
        kicks_limit: Counter Count,
        /// Kicks because a slot that rested had more than another could make use of.
        kicks_idle: Counter Count,
        /// Kicks because what was deferred was to be freed.
        kicks_deferred: Counter Count,
        /// Kicks because nobody had come along in a slot for some time.
        kicks_upkeep: Counter Count,
        /// Whether memory that nobody uses goes back in the background.
        upkeep_on: Gauge YesOrNo,
        /// Whether there is a thread that sees to slots where nobody comes along.
        upkeep_shepherd: Gauge YesOrNo,
        /// The interval in which each slot has one turn of upkeep.
        upkeep_interval_ns: Gauge Nanoseconds,
        /// Turns that threads took in their own slots.
        upkeep_own_turns: Counter Count,
        /// Turns that were taken for slots where nobody came along.
        upkeep_deserted_turns: Counter Count,
        /// Arrays that upkeep emptied.
        upkeep_arrays: Counter Count,
        /// Spans that upkeep gave to the zone.
        upkeep_spans: Counter Count,
        /// Bytes that upkeep gave back to the kernel.
        upkeep_released_bytes: Counter Bytes,
        /// Calls by which upkeep gave memory back to the kernel.
        upkeep_calls: Counter Count,
        /// Calls for that that the kernel refused.
        upkeep_refused: Counter Count,
        /// The longest that upkeep took at a stretch.
        upkeep_longest_ns: Gauge Nanoseconds,
        /// Intervals that pages have to be idle for before they go back.
        upkeep_patience: Gauge Count,
        /// Grace periods that are over.
        rcu_grace_periods: Counter Count,
        /// For how long the grace period that is under way has been waiting for readers; 0: none is.
        rcu_waiting_ns: Gauge Nanoseconds,
        /// Sections that the grace period under way is held up by.
        rcu_hold_outs: Gauge Count,
        /// Objects and calls that wait for a grace period.
        rcu_deferred: Gauge Count,
        /// Bytes of objects that wait for a grace period, as far as they are known.
        rcu_deferred_bytes: Gauge Bytes,
        /// The most bytes that waited for a grace period in each slot, added up.
        rcu_peak_deferred_bytes: Gauge Bytes,
        /// Times that somebody who deferred was held up.
        rcu_held_up: Counter Count,
        /// Objects that could neither wait nor be waited for.
        rcu_lost: Counter Count,
    }
}

row! {
    /// A cache: a general size class, or one that somebody created.
    Cache in 1 "caches" {
        /// What people call it.
        name: 56,
    } {
        /// Bytes of an object.
        object_bytes: Gauge Bytes,
        /// Objects that the program holds.
        in_use: Gauge Count,
        /// The most objects that the program and the slots' arrays held, as refills saw it; of caches that somebody created, not known: 0.
        peak: Gauge Count,
        /// Free objects in arrays and depots.
        cached: Gauge Count,
        /// Objects that the cache's spans have room for.
        objects: Gauge Count,
        /// Spans of the cache.
        spans: Gauge Count,
        /// Bytes of the cache's spans.
        span_bytes: Gauge Bytes,
        /// Objects that a slot keeps at most; of a cache that nobody tuned, while it is as hot as can be.
        limit: Gauge Count,
        /// Objects that move at once.
        batch: Gauge Count,
        /// Times that an array to take from ran out.
        refills: Counter Count,
    }
}

row! {
    /// A slot: what a CPU, or without concurrency ids a thread, has at hand.
    Slot in 2 "slots" {} {
        /// Arrays that the slot has to take from and to give to.
        arrays: Gauge Count,
        /// Free objects in its arrays and its part of the depot.
        cached_objects: Gauge Count,
        /// Bytes of free objects in its arrays and its part of the depot.
        cached_bytes: Gauge Bytes,
        /// Bytes on the slot's page list.
        listed_bytes: Gauge Bytes,
        /// Times that an array to take from ran out.
        refills: Counter Count,
        /// How long it is since anybody came along a slow path in the slot.
        unvisited_ns: Gauge Nanoseconds,
        /// When the slot's next turn of upkeep begins; 0: it has none.
        next_turn_ns: Gauge Moment,
    }
}

row! {
    /// A memory group.
    Group in 3 "groups" {
        /// What it is called.
        name: 48,
        /// What the group is called that it is in; empty: in none.
        parent: 48,
    } {
        /// Bytes that are charged: what the program holds of it and of groups below, and what arrays hold of it.
        charged_bytes: Gauge Bytes,
        /// The most bytes that were charged.
        peak_bytes: Gauge Bytes,
        /// The most bytes that may be charged; 18446744073709551615: any number.
        limit_bytes: Gauge Bytes,
        /// Allocations that a limit refused, its own or one above.
        refused: Counter Count,
        /// Times that threads are inside the group.
        inside: Gauge Count,
        /// Groups that have the group for a parent.
        children: Gauge Count,
        /// Caches that were made for the group.
        caches: Gauge Count,
        /// Large blocks of the group in use.
        large_blocks: Gauge Count,
    }
}

row! {
    /// Who waited for locks of a class.
    Lock in 4 "locks" {
        /// The class of the locks.
        class: 24,
        /// The function that waited.
        caller: 72,
    } {
        /// Acquisitions of a lock that did not succeed at once.
        contended: Counter Count,
        /// Time waited, all together.
        total_wait_ns: Counter Nanoseconds,
        /// The longest time that anybody waited.
        max_wait_ns: Gauge Nanoseconds,
    }
}
