//! The kernels: each is about one pattern of allocation and does nothing else.

pub mod foreign;
pub mod handover;
pub mod large;
pub mod larson;
pub mod lifetimes;
pub mod shell;
pub mod short_lived;
pub mod threads;
pub mod trees;
