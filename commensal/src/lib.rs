//! A memory runtime. This crate has what programs use; the package `commensal-runtime` has the mechanisms.
//!
#![doc = include_str!("../README.md")]
#![no_std]
#![deny(missing_docs, clippy::missing_errors_doc, clippy::missing_panics_doc, clippy::missing_safety_doc)]

/// What the runtime alone has.
macro_rules! on_runtime {
    ($($item:item)*) => {
        $(
            #[cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu", not(commensal_plain)))]
            $item
        )*
    };
}

/// What takes its place on other targets.
macro_rules! elsewhere {
    ($($item:item)*) => {
        $(
            #[cfg(not(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu", not(commensal_plain))))]
            $item
        )*
    };
}

on_runtime! {
    use commensal_runtime as means;
}

elsewhere! {
    extern crate std;
    mod plain;
    use plain as means;
}

#[doc(inline)]
pub use means::Commensal;

/// Caches of objects of one type, for programs that allocate and free them often.
///
/// A [`Cache`](caches::Cache) of values gives each user a new value. A [`Constructed`](caches::Constructed) one keeps
/// objects as their last users left them. The setting `cache.NAME.debug` makes either one watch its users.
pub mod caches {
    #[doc(inline)]
    pub use crate::means::caches::{Alive, Box, Cache, Constructed, OutOfMemory, Untunable, Values};
}

/// Counters that start as a plain word and become per-CPU counters when threads share them.
///
/// A [`LazyCounter`](counter::LazyCounter) is two words until a second thread shares it, and a per-CPU counter from then
/// on. A [`CounterSet`](counter::CounterSet) is several of them that are created, upgraded and dropped together.
pub mod counter {
    #[doc(inline)]
    pub use crate::means::counter::{CounterSet, Counters, DEFAULT_RANGE, LazyCounter, NoMemory, Reading};
}

/// RCU: readers that register nothing, and grace periods.
///
/// A [`Cell`](rcu::Cell) holds a value that many threads read and some replace. For structures of your own, the rest of
/// this module has sections, grace periods and deferred frees, on targets of the runtime.
pub mod rcu {
    #[doc(inline)]
    pub use crate::means::rcu::{Cell, Loaded, Replaced};

    on_runtime! {
        #[doc(inline)]
        pub use crate::means::rcu::{Cookie, grace_periods, is_over, start, synchronize, synchronize_expedited};
        #[doc(inline)]
        pub use crate::means::rcu::{Head, Waiting, barrier, call, defer_drop, defer_free, waiting};
        #[doc(inline)]
        pub use crate::means::rcu::{Link, ReadGuard, TypesafeBox, TypesafeCache, read};

        /// Registered readers: their sections cost nothing, and now and then they report that they are in none.
        pub mod qsbr {
            #[doc(inline)]
            pub use crate::means::rcu::qsbr::{
                CooperativeReader, KickableReader, Policy, Reader, Section, SignalInUse, policy, set_policy,
            };
        }
    }
}

/// The settings of `COMMENSAL_CONF`. `names::set` changes those that may change while the program runs.
pub mod settings {
    #[doc(inline)]
    pub use crate::means::heap::conf::apply_environment;
}

on_runtime! {
    /// Memory groups: the memory of one task or tenant is charged, limited, and freed at once.
    pub mod group {
        #[doc(inline)]
        pub use crate::means::group::{Box, Busy, Group, Instrumented, NAME_BYTES, Refused, Statistics};
    }

    /// Limits of what the heap holds, as a control group has them, and calls when they are reached.
    pub mod limit {
        #[doc(inline)]
        pub use crate::means::heap::limit::{Limit, Notifier, Report, notify, report, set};
    }

    /// Settings and statistics by name.
    pub mod names {
        #[doc(inline)]
        pub use crate::means::heap::names::{Described, Refusal, describe, get, set, show};
    }

    /// The heap profile: which call sites allocate and hold memory, from samples.
    pub mod profile {
        #[doc(inline)]
        pub use crate::means::profile::{At, Region, Sink, Within, is_on, start, stop, write, write_to};
    }

    /// Plain mode, for programs that install a filter of system calls.
    pub mod sandbox {
        #[doc(inline)]
        pub use crate::means::sandbox::{enter, is_plain};
    }

    /// The figures of this process, as on its statistics page, and reports of its heap.
    pub mod statistics {
        #[doc(inline)]
        pub use crate::means::heap::report::{process, write_slabinfo, write_text, write_xml};
        #[doc(inline)]
        pub use crate::means::observe::figures::Figures;
    }

    /// Upkeep returns memory to the system in the background, on time and without spikes.
    pub mod upkeep {
        #[doc(inline)]
        pub use crate::means::heap::trim;
        #[doc(inline)]
        pub use crate::means::upkeep::{Report, tick};
    }
}
