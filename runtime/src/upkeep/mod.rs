//! Upkeep: memory goes back to the system in the background, on time and without spikes.
//!
//! * [`grid`]: when each slot has its turn.
//! * [`timetable`]: the same while slots come and go, the interval changes and the clock jumps.

pub mod grid;
pub mod timetable;
