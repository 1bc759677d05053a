//! The kernels: each is about one pattern of allocation and does nothing else.

pub mod lifetimes;
pub mod processes;
pub mod threads;
