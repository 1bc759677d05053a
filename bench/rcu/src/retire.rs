//! Objects that are allocated, retired, and freed after a grace period, by all who have such a thing. All of them allocate from Commensal's heap, so that
//! nobody wins by the faster malloc.

use commensal::{heap, rcu};
use seize::{Collector, Guard};
use std::sync::atomic::{AtomicU64, Ordering};

const BYTES: usize = 64;

/// Retires so many objects, and returns when all are freed.
pub type Retire = fn(u64);

/// Those that have it, by name.
#[cfg(liburcu)]
pub const RETIRING: [(&str, Retire); 6] = [
    ("commensal", commensal),
    ("liburcu call_rcu", liburcu::call),
    ("liburcu defer_rcu", liburcu::defer),
    ("liburcu-bp defer_rcu", liburcu::defer_bp),
    ("crossbeam-epoch", crossbeam),
    ("seize", seize),
];
/// Those that have it, by name.
#[cfg(not(liburcu))]
pub const RETIRING: [(&str, Retire); 3] = [("commensal", commensal), ("crossbeam-epoch", crossbeam), ("seize", seize)];

fn object() -> *mut u8 {
    let object = heap::allocate(BYTES);
    assert!(!object.is_null(), "no memory");
    // SAFETY: ours.
    unsafe { object.add(BYTES - 1).write_volatile(1) };
    object
}

fn commensal(times: u64) {
    for _ in 0..times {
        // SAFETY: ours.
        unsafe { rcu::defer_free(object()) };
    }
    rcu::barrier();
}

/// Objects that are freed; by one thread, so that it costs a load and a store.
static FREED: AtomicU64 = AtomicU64::new(0);

fn count() {
    FREED.store(FREED.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

fn crossbeam(times: u64) {
    let before = FREED.load(Ordering::Relaxed);
    for _ in 0..times {
        let object = object();
        let guard = crossbeam_epoch::pin();
        // SAFETY: ours.
        unsafe {
            guard.defer_unchecked(move || {
                count();
                heap::free(object);
            });
        }
    }
    while FREED.load(Ordering::Relaxed) - before < times {
        crossbeam_epoch::pin().flush();
    }
}

fn seize(times: u64) {
    unsafe fn free(object: *mut u8, _: &Collector) {
        // SAFETY: retired below.
        unsafe { heap::free(object) };
    }
    let collector = Collector::new();
    for _ in 0..times {
        let guard = collector.enter();
        // SAFETY: ours.
        unsafe { guard.defer_retire(object(), free) };
    }
    // What is left goes with the collector.
}

#[cfg(liburcu)]
mod liburcu {
    use super::BYTES;
    use commensal::heap;
    use std::thread;

    type Take = extern "C" fn(usize) -> *mut u8;
    type Give = unsafe extern "C" fn(*mut u8);

    extern "C" fn take(bytes: usize) -> *mut u8 {
        debug_assert_eq!(bytes, BYTES);
        heap::allocate(bytes)
    }

    unsafe extern "C" fn give(object: *mut u8) {
        // SAFETY: passed on.
        unsafe { heap::free(object) };
    }

    macro_rules! retire {
        ($($name:ident, $c:ident, $register:ident, $unregister:ident;)*) => {
            $(pub(super) fn $name(times: u64) {
                // In a thread of its own: liburcu 0.13 ends the program if one registers for defer_rcu again.
                let all = || {
                    $register();
                    $c(times, take, give);
                    $unregister();
                };
                thread::scope(|scope| scope.spawn(all).join()).expect("a thread that does not panic");
            })*
            // Functions of liburcu.c, which free what was taken, once.
            unsafe extern "C" { $(safe fn $c(times: u64, take: Take, give: Give);)* }
        };
    }

    retire! {
        call, memb_call, memb_register, memb_unregister;
        defer, memb_defer, memb_register, memb_unregister;
        defer_bp, bp_defer, bp_register, bp_unregister;
    }

    unsafe extern "C" {
        safe fn memb_register();
        safe fn memb_unregister();
        safe fn bp_register();
        safe fn bp_unregister();
    }
}
