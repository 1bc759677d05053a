//! A memory runtime. This crate has what programs use; the package `commensal-runtime` has the mechanisms.
//!
#![doc = include_str!("../README.md")]
#![no_std]

use commensal_runtime as means;

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

/// Memory groups: the memory of one task or tenant is charged, limited, and freed at once.
pub mod group {
    #[doc(inline)]
    pub use crate::means::group::{Box, Busy, Group, NAME_BYTES, Refused, Statistics};
}

/// The heap profile: which call sites allocate and hold memory, from samples.
pub mod profile {
    #[doc(inline)]
    pub use crate::means::profile::{At, Region, Sink, Within, is_on, start, stop, write, write_to};
}

/// RCU: readers that register nothing, and grace periods.
///
/// A reader *opens* a section ([`read`](rcu::read)) and ends it. An updater first makes sure that no reader can find a
/// thing any more. Then it waits for a *grace period* ([`synchronize`](rcu::synchronize())): at its end, all sections
/// that were open at its beginning have ended. A [`Cell`](rcu::Cell) does all of this by itself.
pub mod rcu {
    #[doc(inline)]
    pub use crate::means::rcu::{Cell, Loaded, ReadGuard, barrier, defer_drop, read, synchronize};
    #[doc(inline)]
    pub use crate::means::rcu::{Cookie, grace_periods, is_over, set_knob, start, synchronize_expedited};
    #[doc(inline)]
    pub use crate::means::rcu::{Head, Link, TypesafeBox, TypesafeCache, Waiting, call, defer_free, waiting};

    /// Registered readers: their sections cost nothing, and now and then they report that they are in none.
    pub mod qsbr {
        #[doc(inline)]
        pub use crate::means::rcu::qsbr::{
            CooperativeReader, KickableReader, Policy, Reader, Section, SignalInUse, policy, set_policy,
        };
    }
}

/// Plain mode, for programs that install a filter of system calls.
pub mod sandbox {
    #[doc(inline)]
    pub use crate::means::sandbox::{enter, is_plain};
}

/// Settings. [`rcu::set_knob`] and [`upkeep::set_knob`] change those that may change while the program runs.
pub mod settings {
    #[doc(inline)]
    pub use crate::means::heap::conf::apply_environment;
    #[doc(inline)]
    pub use crate::means::settings::Refused;
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
    pub use crate::means::upkeep::{Report, set_knob, tick};
}
