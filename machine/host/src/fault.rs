//! Injected failures, for tests. A test can make each point fail from its n-th passage on, or once.
//!
//! A disarmed point costs one load of a line that no thread writes, on paths that end in a system call anyway.

use crate::sync::{AtomicU64, Ordering};

/// Points of injection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Point {
    /// [`crate::vm::reserve`] finds no address space.
    Reserve,
    /// [`crate::vm::decommit`] is refused.
    Decommit,
    /// [`crate::kick::restart`] and [`crate::kick::fence_all`] are refused.
    Kick,
    /// [`crate::vm::close`] finds a kernel that cannot mark pages.
    Mark,
}

/// How a point fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    /// Never.
    Never,
    /// Only the passage after `skip` others fails.
    Once {
        /// Passages that succeed first.
        skip: u32,
    },
    /// All passages after the first `skip` fail.
    Always {
        /// Passages that succeed first.
        skip: u32,
    },
}

const POINTS: usize = 4;
const ONCE: u64 = 1 << 32;
const ALWAYS: u64 = 1 << 33;

early_state! {
    static PLANS: [AtomicU64; POINTS] = [const { AtomicU64::new(0) }; POINTS];
}

/// Sets how `point` fails from now on.
pub fn arm(point: Point, plan: Plan) {
    let word = match plan {
        Plan::Never => 0,
        Plan::Once { skip } => ONCE | skip as u64,
        Plan::Always { skip } => ALWAYS | skip as u64,
    };
    // Relaxed here and below: plans order nothing.
    PLANS[point as usize].store(word, Ordering::Relaxed);
}

/// Counts a passage of `point`; true: it must fail.
#[inline]
pub fn fails(point: Point) -> bool {
    let plan = &PLANS[point as usize];
    plan.load(Ordering::Relaxed) != 0 && step(plan)
}

#[cold]
fn step(plan: &AtomicU64) -> bool {
    let next = |word: u64| match word as u32 {
        _ if word == 0 => None,
        0 if word & ONCE != 0 => Some(0),
        0 => Some(word),
        _ => Some(word - 1),
    };
    plan.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).is_ok_and(|old| old != 0 && old as u32 == 0)
}
