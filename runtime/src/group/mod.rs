//! Memory groups: like the kernel's `memcg`, within a program. Memory allocated in a group is charged to it and its
//! ancestors, up to a limit, and all of it can be freed at once.
//!
//! ```
//! use commensal::group::Group;
//!
//! let requests = Group::new("requests").expect("there is memory");
//! requests.set_limit(Some(1 << 20));
//! let text = requests.alloc([0_u8; 1000]).ok().expect("there is room");
//! assert!(requests.charged() >= 1000 && requests.peak() <= 1 << 20);
//! drop(text);
//! ```
//!
//! A group creates a cache for a size class with its first object of that class; this interrupts no thread. Allocations
//! that name their group find the cache in a table. A thread that has *entered* a group also allocates there by
//! `malloc`. From the first entry in a process on, all allocations check on a slow path whether they are inside one.
//!
//! Any threads run this at the same time. The caller that destroys a group guarantees that no thread uses its memory
//! any more. The group itself checks that no thread is inside, and that it has no children.

mod core;
mod entry;
mod inner;
mod instrumented;
mod large;
mod owned;
pub(crate) mod register;

pub use self::core::Core;
pub(crate) use entry::current;
pub use entry::{Entry, NotInside, innermost};
pub use inner::{Busy, Refused, Statistics};
pub use instrumented::Instrumented;
pub(crate) use large::forget_large;
pub use owned::{Box, Group};

/// Bytes of a group's name; a longer name is cut.
pub const NAME_BYTES: usize = 23;
