//! Whether what is left to the runtime by the thousand is freed in time, and called once.
//!
//! Threads replace thousands of objects as fast as they can, and have each freed, dropped or called for by the runtime. What a section found
//! keeps its stamp until the section ends; every call is made, once. `flood` says how many there were, and the most bytes that waited.

use super::{CROWD, Planted, count, goes_on, of};
use crate::common::random::Random;
use commensal_runtime::{heap, rcu};
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// What floods replace.
#[repr(C)]
pub struct Flooded {
    head: rcu::Head,
    stamp: AtomicU64,
}

static CURRENT: AtomicPtr<Flooded> = AtomicPtr::new(std::ptr::null_mut());
static STAMPS: AtomicU64 = AtomicU64::new(0);
static CALLS: AtomicU64 = AtomicU64::new(0);
static CALLED: AtomicU64 = AtomicU64::new(0);
/// Sections whose object was used again.
static EARLY: AtomicU64 = AtomicU64::new(0);
static MOST_BYTES: AtomicU64 = AtomicU64::new(0);

/// Sections whose object was used again: never.
pub fn failures() -> u64 {
    of(&EARLY)
}

pub fn report() -> String {
    format!("flood: {} objects, {} calls, at most {} KiB", of(&STAMPS), of(&CALLED), of(&MOST_BYTES) >> 10)
}

/// What a section found, with its stamp.
pub struct Found(*const Flooded, u64);

impl Found {
    /// What is found now, if there is a flood. For a section.
    pub fn now() -> Option<Found> {
        // SAFETY: it stays while the section is open.
        let found = unsafe { CURRENT.load(Ordering::Acquire).as_ref() }?;
        Some(Found(found, found.stamp.load(Ordering::Relaxed)))
    }

    /// Still in the section: is it what it was?
    pub fn check(&self) {
        // SAFETY: as above.
        if unsafe { (*self.0).stamp.load(Ordering::Relaxed) } != self.1 {
            count(&EARLY);
        }
    }
}

fn new_flooded() -> *mut Flooded {
    let place = heap::allocate(size_of::<Flooded>()).cast::<Flooded>();
    assert!(!place.is_null(), "there is memory");
    let stamp = STAMPS.fetch_add(1, Ordering::Relaxed) + 1;
    // SAFETY: ours.
    unsafe { place.write(Flooded { head: rcu::Head::new(), stamp: AtomicU64::new(stamp) }) };
    place
}

/// Frees what was called for, or dropped.
unsafe extern "C" fn bury(head: *mut rcu::Head) {
    count(&CALLED);
    let object = head.cast::<Flooded>();
    // SAFETY: nobody finds it any more, and it begins with its head.
    unsafe {
        (*object).stamp.store(0, Ordering::Relaxed);
        heap::free(object.cast());
    }
}

struct Buried(*mut Flooded);

// SAFETY: whoever has it has the object to himself.
unsafe impl Send for Buried {}

impl Drop for Buried {
    fn drop(&mut self) {
        // SAFETY: as above.
        unsafe { bury(self.0.cast()) };
    }
}

/// Leaves an object to the runtime that nobody finds any more.
fn retire(old: *mut Flooded, random: &mut Random) {
    if Planted::Hasty.is_here() {
        // SAFETY: whatever waits is still there.
        unsafe { (*old).stamp.store(0, Ordering::Relaxed) };
    }
    let way = random.below(4);
    if way < 2 {
        count(&CALLS);
    }
    // SAFETY: it was taken out by the caller.
    unsafe {
        match way {
            0 => rcu::call(old.cast(), bury),
            1 => rcu::defer_drop(Buried(old)),
            _ => rcu::defer_free(old.cast()),
        }
    }
}

pub fn flood(random: &mut Random) {
    let _member = CROWD.enrol();
    while goes_on() {
        for _ in 0..random.below(20_000) {
            let old = CURRENT.swap(new_flooded(), Ordering::AcqRel);
            if !old.is_null() {
                retire(old, random);
            }
        }
        MOST_BYTES.fetch_max(rcu::waiting().bytes, Ordering::Relaxed);
        match random.below(4) {
            0 => rcu::barrier(),
            1 => {}
            _ => thread::sleep(Duration::from_millis(random.below(30) as u64)),
        }
    }
}

/// Every call was made, once, and nothing waits.
pub fn is_over(random: &mut Random) -> Result<(), String> {
    let last = CURRENT.swap(std::ptr::null_mut(), Ordering::AcqRel);
    if !last.is_null() {
        retire(last, random);
    }
    rcu::barrier();
    let (calls, called) = (of(&CALLS), of(&CALLED));
    let waiting = rcu::waiting().objects;
    if calls != called || waiting != 0 {
        return Err(format!("of {calls} calls {called} were made, and {waiting} objects wait after a barrier"));
    }
    Ok(())
}
