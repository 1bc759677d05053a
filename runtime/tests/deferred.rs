//! Deferring: nothing is freed, dropped or called before the sections that are open have ended, all of it is afterwards, once, and not more waits
//! than is promised. Forks meanwhile, and handlers that defer, are explored (`exploration/src/deferred.rs`).

mod common;

use commensal_runtime::caches::Cache;
use commensal_runtime::group::Group;
use commensal_runtime::heap::report;
use commensal_runtime::machine::slot;
use commensal_runtime::rcu::{self, Head};
use commensal_runtime::{heap, rcu::Waiting};
use common::child::{self, in_both_modes};
use common::peak::comes;
use common::{PATIENCE, have_threads};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

fn block(bytes: usize) -> *mut u8 {
    let block = heap::allocate(bytes);
    assert!(!block.is_null());
    block
}

#[test]
fn deferred_work_is_done_without_further_calls() {
    in_both_modes(|| {
        static CALLED: AtomicU32 = AtomicU32::new(0);
        have_threads();
        for round in 1..=3 {
            // SAFETY: ours.
            unsafe { rcu::defer_free(block(100)) };
            rcu::defer_drop(Told(&CALLED, thread::current().id()));
            let is_done = || rcu::waiting().objects == 0 && CALLED.load(Ordering::SeqCst) == round;
            assert!(comes(is_done), "{:?}", rcu::waiting());
            // The worker goes to sleep.
            thread::sleep(Duration::from_millis(100));
        }
    });
}

/// Counts that it was dropped, on another thread.
struct Told(&'static AtomicU32, thread::ThreadId);

impl Drop for Told {
    fn drop(&mut self) {
        assert_ne!(thread::current().id(), self.1, "dropped by who deferred it");
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn values_are_dropped_once_and_after_the_section() {
    in_both_modes(|| {
        const VALUES: u32 = 10_000;
        static DROPPED: AtomicU32 = AtomicU32::new(0);
        struct Large(#[expect(dead_code, reason = "takes place")] [u64; 200]);
        impl Drop for Large {
            fn drop(&mut self) {
                DROPPED.fetch_add(1, Ordering::SeqCst);
            }
        }
        let section = rcu::read();
        for value in 0..VALUES {
            match value % 3 {
                0 => rcu::defer_drop(Large([7; 200])),
                1 => rcu::defer_drop(Box::new(Large([8; 200]))),
                _ => rcu::defer_drop((Large([9; 200]), std::sync::Arc::new(value))),
            }
        }
        thread::sleep(Duration::from_millis(100));
        assert_eq!(DROPPED.load(Ordering::SeqCst), 0, "dropped in a section");
        drop(section);
        rcu::barrier();
        assert_eq!(DROPPED.load(Ordering::SeqCst), VALUES);
        assert!(matches!(rcu::waiting(), Waiting { objects: 0, bytes: 0, held_up: 0, lost: 0, .. }));
    });
}

#[repr(C)]
struct Numbered {
    head: Head,
    number: u32,
}

static ORDER: Mutex<Vec<u32>> = Mutex::new(Vec::new());

unsafe extern "C" fn note(head: *mut Head) {
    // SAFETY: the head is the first field of ours.
    let numbered = unsafe { Box::from_raw(head.cast::<Numbered>()) };
    ORDER.lock().unwrap().push(numbered.number);
}

fn call_with(number: u32) {
    let numbered = Box::into_raw(Box::new(Numbered { head: Head::new(), number }));
    // SAFETY: a box of its own, which the function makes one again.
    unsafe { rcu::call(numbered.cast(), note) };
}

#[test]
fn calls_come_in_order_and_a_barrier_waits_for_them() {
    in_both_modes(|| {
        const CALLS: u32 = 20_000;
        // In one slot.
        common::disturbed::pin(0);
        for round in 0..5 {
            ORDER.lock().unwrap().clear();
            // Held while calls are deferred: they must not be made by who defers.
            let held = (round % 2 == 0).then(|| ORDER.lock().unwrap());
            rcu::set_knob("hold_up_ms", 0).unwrap();
            (0..CALLS).for_each(call_with);
            drop(held);
            rcu::barrier();
            let order = ORDER.lock().unwrap();
            assert_eq!(order.len(), CALLS as usize);
            assert!(order.is_sorted(), "calls came in another order");
        }
    });
}

#[test]
fn objects_of_caches_and_groups_go_back_where_they_came_from() {
    in_both_modes(|| {
        have_threads();
        let cache: Cache<[u64; 20]> = Cache::new("deferred");
        let group = Group::new("deferred").unwrap();
        for _ in 0..300 {
            let mut object = std::mem::ManuallyDrop::new(cache.alloc([1; 20]).ok().unwrap());
            let small = group.core().allocate(1000, 16).unwrap();
            let large = group.core().allocate(100_000, 16).unwrap();
            // SAFETY: ours.
            unsafe {
                rcu::defer_free((&raw mut **object).cast());
                rcu::defer_free(small);
                rcu::defer_free(large);
            }
        }
        rcu::barrier();
        assert_eq!(cache.alive(), 0);
        assert!(cache.destroy().is_ok());
        // What slots have cached of a group is charged.
        assert!(group.charged() < 100_000, "{} bytes are charged", group.charged());
        assert!(group.destroy().is_ok());
    });
}

/// Names of this process's threads.
fn threads() -> Vec<String> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    // One may have ended meanwhile.
    let name = |task: std::fs::DirEntry| Some(std::fs::read_to_string(task.path().join("comm")).ok()?.trim().into());
    tasks.filter_map(|task| name(task.ok()?)).collect()
}

#[test]
fn worker_exists_once_and_only_where_something_is_deferred() {
    in_both_modes(|| {
        let has_worker = || threads().iter().filter(|name| *name == "commensal-rcu").count();
        drop(rcu::read());
        rcu::synchronize();
        rcu::barrier();
        assert_eq!(has_worker(), 0, "{:?}", threads());
        have_threads();
        thread::scope(|scope| {
            for _ in 0..8 {
                // SAFETY: ours.
                scope.spawn(|| unsafe { rcu::defer_free(block(64)) });
            }
        });
        rcu::barrier();
        assert!(comes(|| has_worker() > 0), "{:?}", threads());
        thread::sleep(Duration::from_millis(50));
        assert_eq!(has_worker(), 1, "{:?}", threads());
    });
}

/// For which kicks the process has registered, as the kernel says; -1 where it does not say (before Linux 6.3).
fn registrations() -> libc::c_long {
    const GET_REGISTRATIONS: libc::c_int = 1 << 9;
    // SAFETY: asks, changes nothing.
    unsafe { libc::syscall(libc::SYS_membarrier, GET_REGISTRATIONS, 0, 0) }
}

#[test]
fn first_deferral_beside_busy_threads_does_not_register() {
    child::alone(|| {
        let end = AtomicBool::new(false);
        let registered = thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while !end.load(Ordering::Relaxed) {
                        std::hint::spin_loop()
                    }
                });
            }
            // The heap has been used by more than one thread.
            scope.spawn(|| assert!(!heap::allocate(64).is_null())).join().unwrap();
            let first = block(64);
            let before = registrations();
            // SAFETY: ours.
            unsafe { rcu::defer_free(first) };
            let after = registrations();
            end.store(true, Ordering::Relaxed);
            [before, after]
        });
        assert_eq!(registered[0], registered[1], "it registered for kicks, which takes long where threads run");
        // Later ones are laid aside: whoever frees them kicks.
        let is_kicked = comes(|| {
            // SAFETY: ours.
            unsafe { rcu::defer_free(block(64)) };
            rcu::barrier();
            let has_kicked = report::process().is_some_and(|process| process.kicks_deferred > 0);
            slot::mode() != slot::Mode::ConcurrencyId || has_kicked
        });
        assert!(is_kicked, "nobody was kicked");
    });
}

#[test]
fn deferred_bytes_stay_bounded_while_a_reader_holds_out() {
    in_both_modes(|| {
        const UPDATERS: u64 = 4;
        const HOLD_OUT: Duration = Duration::from_millis(300);
        for (bytes, mark_kib) in [(64u64, 256u64), (4096, 1024), (100_000, 2048)] {
            rcu::set_knob("high_kib", mark_kib as u32).unwrap();
            let (end, deferred) = (AtomicBool::new(false), AtomicU64::new(0));
            let before = rcu::waiting();
            let section = rcu::read();
            let mut took = Duration::ZERO;
            thread::scope(|scope| {
                for _ in 0..UPDATERS {
                    scope.spawn(|| {
                        while !end.load(Ordering::Relaxed) {
                            // SAFETY: ours.
                            unsafe { rcu::defer_free(block(bytes as usize)) };
                            deferred.fetch_add(1, Ordering::Relaxed);
                        }
                    });
                }
                let start = Instant::now();
                thread::sleep(HOLD_OUT);
                let is_reached = comes(|| {
                    let waiting = rcu::waiting();
                    waiting.bytes >= mark_kib << 10 && waiting.held_up > before.held_up
                });
                assert!(is_reached, "the mark does not come: {:?}", rcu::waiting());
                let waiting = rcu::waiting();
                took = start.elapsed();
                end.store(true, Ordering::Relaxed);
                // A batch; large blocks come alone.
                let batch = (32 << 10).max(2 * bytes);
                // Slots of this process: those of fallback mode are the threads'.
                let slots = u64::from(slot::in_use());
                let held = UPDATERS * (took.as_millis() as u64 / 10 + 1);
                let bound = slots * ((mark_kib << 10) + batch) + held * batch;
                assert!(waiting.bytes <= bound, "{} bytes wait, more than {bound}: {waiting:?}", waiting.bytes);
            });
            drop(section);
            rcu::barrier();
            assert_eq!(rcu::waiting().bytes, 0);
            assert_eq!(rcu::waiting().lost, 0);
        }
    });
}

#[test]
fn deferral_misuse_ends_the_program_with_a_message() {
    unsafe extern "C" fn waits(_: *mut Head) {
        rcu::barrier();
    }
    const WAITS: &str = "waits for what was deferred in a read section, or in a deferred call";
    fn in_a_section() {
        let _section = rcu::read();
        rcu::barrier();
    }
    fn in_a_call() {
        // SAFETY: a head for ever.
        unsafe { rcu::call(Box::into_raw(Box::new(Head::new())), waits) };
        thread::sleep(PATIENCE);
    }
    fn foreign() {
        // SAFETY: not kept.
        unsafe { rcu::defer_free(Box::into_raw(Box::new(7u64)).cast()) };
    }
    let cases: [(&str, fn(), &str); 3] = [
        ("section", in_a_section, WAITS),
        ("call", in_a_call, WAITS),
        ("foreign", foreign, "free of a foreign pointer"),
    ];
    if let Some(case) = child::case() {
        have_threads();
        return cases.iter().find(|(name, ..)| *name == case).map(|(_, act, _)| act()).unwrap();
    }
    for (name, _, message) in cases {
        child::run(&mut child::command(name)).expect_death(message);
    }
}
