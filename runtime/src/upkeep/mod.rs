//! Upkeep: memory goes back to the system in the background, on time and without spikes.
//!
//! * [`grid`]: when each slot has its turn.

pub mod grid;
