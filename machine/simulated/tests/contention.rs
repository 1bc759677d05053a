//! Contention where time is simulated: what is recorded of scripted waits is exact.

use simulated::simulation::{Job, Place, Settings, run, simulate, sleep};
use simulated::sync::{Acquired, AtomicBool, AtomicU64, Contention, Lock, Ordering, Site, Waited};
use simulated::{clock, here, thread};

const MS: u64 = 1_000_000;
/// Who sleeps on a lock has asked the clock before and after, and looked at the lock between: steps of some nanoseconds each.
const STEPS_NS: u64 = 2_000;

/// One holder and one waiter: holds of 3, 1 and 2 ms. What was recorded, and what the waiter measured.
fn script() -> ((Waited, Waited), [u64; 3]) {
    let (lock, contention) = (Lock::<3>::new(), Contention::new());
    let (held, measured) = (AtomicU64::new(0), [const { AtomicU64::new(0) }; 3]);
    let waits = [(3, AtomicBool::new(false)), (1, AtomicBool::new(false)), (2, AtomicBool::new(false))];
    let acquire = |site: Site| assert_eq!(lock.acquire(&contention, site), Acquired::Clean);
    let holder = || {
        thread::enter();
        for (number, (hold_ms, is_over)) in waits.iter().enumerate() {
            acquire(here!());
            held.store(number as u64 + 1, Ordering::Release);
            sleep(hold_ms * MS);
            // SAFETY: acquired above.
            unsafe { lock.release() };
            while !is_over.load(Ordering::Acquire) {
                sleep(1000);
            }
        }
    };
    let waiter = || {
        thread::enter();
        for (number, (_, is_over)) in waits.iter().enumerate() {
            while held.load(Ordering::Acquire) != number as u64 + 1 {
                sleep(1000);
            }
            let start = clock::now_ns();
            acquire(if number == 1 { second_site() } else { first_site() });
            measured[number].store(clock::now_ns() - start, Ordering::Relaxed);
            // SAFETY: acquired above.
            unsafe { lock.release() };
            is_over.store(true, Ordering::Release);
        }
    };
    let jobs: Vec<(Job<'_>, Place)> = vec![(Box::new(holder), Place::Anywhere), (Box::new(waiter), Place::Anywhere)];
    run(jobs, None);
    let sites: Vec<(Site, Waited)> = contention.sites().collect();
    let [(first, of_first), (second, of_second)] = sites[..] else { panic!("two sites waited, recorded: {sites:?}") };
    assert_eq!((first, second), (first_site(), second_site()));
    ((of_first, of_second), measured.each_ref().map(|ns| ns.load(Ordering::Relaxed)))
}

fn first_site() -> Site {
    here!()
}

fn second_site() -> Site {
    here!()
}

fn simulated(seed: u64) -> ((Waited, Waited), [u64; 3]) {
    simulate(Settings { seed, cpus: 2, ..Settings::default() }, None, script).outcome.expect("nothing fails")
}

#[test]
fn scripted_waits_are_recorded_as_long_as_they_were() {
    let ((first, second), measured) = simulated(1);
    let is_exact = |recorded: u64, measured: u64| recorded <= measured && measured - recorded < STEPS_NS;
    assert_eq!((first.contended, second.contended), (2, 1));
    assert!(is_exact(first.max_wait_ns, measured[0]), "{first:?}, {measured:?}");
    assert!(is_exact(first.total_wait_ns, measured[0] + measured[2]), "{first:?}, {measured:?}");
    assert!(is_exact(second.max_wait_ns, measured[1]), "{second:?}, {measured:?}");
    assert_eq!(second.total_wait_ns, second.max_wait_ns);
    // The waiter comes up to a microsecond late, and wakes some time after the release.
    for (measured, hold_ms) in measured.into_iter().zip([3, 1, 2]) {
        assert!(measured.abs_diff(hold_ms * MS) < MS / 10, "a hold of {hold_ms} ms was waited for {measured} ns");
    }
}

#[test]
fn the_same_script_is_recorded_the_same() {
    assert_eq!(simulated(7), simulated(7));
}
