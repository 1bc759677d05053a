//! Caches that watch their users: red zones, poison, owners, quarantine.
//!
//! ```text
//!   │ record: mark, state, bytes, owners │ red zone │ object as asked for │ red zone │
//!   └ what the span gives                           └ what the program gets
//! ```
//!
//! A rule of the configuration turns this on for a cache, when that is created; for a size class, when the program
//! starts: a cache of this kind then takes the class's place. Such a cache uses no magazines, so its users' fast paths
//! fail, and each of their operations comes here; caches that nobody watches pay nothing for that. An object that is
//! not in use is always as [`Debug::retire`] leaves it, so a look at it can tell whether somebody wrote to it; so can a
//! look at one in use, of what lies around it.
//!
//! Runs at the same time: any threads; a record belongs to whoever made it busy, and the quarantine has a lock. In a
//! signal handler as other slow paths, but that unwinding the stack is up to the C library.

mod layout;
mod options;
mod quarantine;
mod record;
mod report;
mod state;
mod watch;

pub use options::Options;
pub use state::Debug;
pub use watch::die_of_mixed_caches;
