//! An object with per-CPU members, as the kernel's `mm_struct` is one: four counters (`rss_stat`) and two members more (as `mm_cid` and
//! `futex_ref`).
//!
//! | form | an object's blocks | where they come from |
//! |---|---|---|
//! | eager | three: the counters as one group, and each of the two | an area that prepares for all CPUs when a block is taken |
//! | merged | one for everything | likewise |
//! | cached | one for everything | an area that keeps ready blocks, wiped on return as far as they were touched |
//! | lazy | none until a second thread shares it, then as merged | prepares for all CPUs |
//! | lazy and cached | none until then, then as cached | keeps ready blocks |
//!
//! | file | what is measured |
//! |---|---|
//! | `object` | nothing: the forms as types, and how many bytes each touches |
//! | `life` | create, update, destroy; reading and summing |
//! | `shared` | the same with a second thread, and the upgrade alone |
//! | `update` | one update, against plain and atomic words |
//! | `word` | nothing: these words and counters, as types |

mod life;
mod object;
mod shared;
mod update;
mod word;

use commensal::percpu::{Area, Preparation};

pub use life::{Life, Look, life, look};
pub use object::{COUNTERS, Object, Separate, Together, Waiting};
pub use shared::{shared_ns, upgrade_ns};
pub use update::{Turns, Updates, add_called_ns, add_called_upgraded_ns, add_others_ns, add_own_ns, add_upgraded_ns};
pub use word::{AddFunction, CalledWords, Calls, ShareFunction, SumFunction};

words! {
    /// How an object has its per-CPU members.
    pub enum Form {
        /// Three blocks, prepared for all CPUs.
        Eager = "eager",
        /// One block, prepared for all CPUs.
        Merged = "merged",
        /// One ready block.
        Cached = "cached",
        /// No block until somebody shares it; then one that is prepared for all CPUs.
        Lazy = "lazy",
        /// No block until somebody shares it; then a ready one.
        LazyAndCached = "lazy-and-cached",
    }
}

pub trait Visit {
    type Out;

    fn with<O: Object>(self) -> Self::Out;
}

impl Form {
    /// The area that its blocks come from, with rows for so many CPUs. None: no address space.
    pub fn area(self, cpus: usize) -> Option<&'static Area> {
        let preparation = match self {
            Form::Eager | Form::Merged | Form::Lazy => Preparation::ForAll { cpus },
            Form::Cached | Form::LazyAndCached => Preparation::OnReturn,
        };
        Area::new(cpus, preparation)
    }

    /// Does something with the type that stands for the form.
    pub fn visit<V: Visit>(self, visit: V) -> V::Out {
        match self {
            Form::Eager => visit.with::<Separate>(),
            Form::Merged | Form::Cached => visit.with::<Together>(),
            Form::Lazy | Form::LazyAndCached => visit.with::<Waiting>(),
        }
    }
}
