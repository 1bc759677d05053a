//! An object with per-CPU members, as the kernel's `mm_struct` is one: four counters (`rss_stat`) and two members more
//! (as `mm_cid` and `futex_ref`).
//!
//! | form | an object's blocks | where they come from |
//! |---|---|---|
//! | eager | three: the counters as one group, and each of the two | an area that prepares for all CPUs when a block is taken |
//! | merged | one for everything | likewise |
//! | cached | one for everything | an area that keeps ready blocks, wiped on return as far as they were touched |
//! | lazy | none until a second thread shares it, then as merged | prepares for all CPUs |
//! | lazy and cached | none until then, then as cached | keeps ready blocks |

/// Calls a function of the type that stands for a form.
macro_rules! with_form {
    ($form:expr, $function:ident($($argument:expr),*)) => {{
        use $crate::counters::{Form, Separate, Together, Waiting};
        match $form {
            Form::Eager => $function::<Separate>($($argument),*),
            Form::Merged | Form::Cached => $function::<Together>($($argument),*),
            Form::Lazy | Form::LazyAndCached => $function::<Waiting>($($argument),*),
        }
    }};
}

mod life;
mod object;
mod shared;
mod steady;
mod update;
mod word;

use commensal_runtime::percpu::{Area, Preparation};
use object::{Separate, Together, Waiting};

pub use life::{life, look};
pub use shared::{shared_ns, upgrade_ns};
pub use steady::steady;
pub use update::{Turns, Updates, add_called_ns, add_called_upgraded_ns, add_others_ns, add_own_ns, add_upgraded_ns};
pub use word::Calls;

words! {
    /// How an object has its per-CPU members.
    pub enum Form {
        Eager = "eager",
        Merged = "merged",
        Cached = "cached",
        Lazy = "lazy",
        LazyAndCached = "lazy-and-cached",
    }
}

impl Form {
    /// Measures with the area that its blocks come from, with rows for so many CPUs. None: no address space, or a block
    /// did not come back.
    fn in_area<T>(self, cpus: usize, work: impl FnOnce(&'static Area) -> Option<T>) -> Option<T> {
        let preparation = match self {
            Form::Eager | Form::Merged | Form::Lazy => Preparation::ForAll { cpus },
            Form::Cached | Form::LazyAndCached => Preparation::OnReturn,
        };
        let area = Area::new(cpus, preparation)?;
        work(area).filter(|_| area.in_use() == 0)
    }
}
