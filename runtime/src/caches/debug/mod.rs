//! Debug caches: red zones, poison, owners, quarantine.
//!
//! ```text
//!   │ record: mark, state, bytes, owners │ red zone │ object as asked for │ red zone │
//!   └ what the span gives                           └ what the program gets
//! ```
//!
//! A configuration rule turns this on for a cache when it is created. For a size class, a debug cache takes its place
//! when the program starts. A debug cache uses no magazines. So its users' fast paths fail and reach this code, while
//! other caches pay nothing. An unused object always is as [`Debug::retire`] leaves it, so a check finds any write to
//! it. Around an object in use, a check finds writes to its red zones.
//!
//! The thread that made a record busy owns it; the quarantine has a lock. In a signal handler, unwinding the stack
//! depends on the C library.

mod layout;
mod report;
mod state;
mod watch;

pub(crate) use layout::Options;
pub(crate) use state::Debug;
pub(crate) use watch::report_mixed_caches;
