//! The same seed gives the same run: by its own choices, and on every machine.

use simulated::simulation::{
    Ended, Job, Place, Priorities, Random, Rates, Replay, Report, Settings, Strategy, fork, pause, run, simulate,
};
use simulated::slot::Mode;
use simulated::sync::{Acquired, AtomicU64, Contention, Lock, Ordering};
use simulated::{clock, here, slot, thread, vm};

/// Something of everything: locks, slots, signals, address space, a fork.
fn main_thread() -> u64 {
    slot::initialise();
    assert!(thread::notice_forks());
    let (lock, contention, sum) = (Lock::<3>::new(), Contention::new(), AtomicU64::new(0));
    let handler = || {
        sum.fetch_add(1000, Ordering::Relaxed);
    };
    let (lock, contention, sum_here) = (&lock, &contention, &sum);
    let job = |number: u64| -> (Job<'_>, Place) {
        let work = move || {
            let page = vm::reserve(core::ptr::null_mut(), vm::PAGE, vm::Access::ReadWrite).expect("there is memory");
            for step in 0..20 {
                thread::enter();
                if lock.acquire(contention, here!()) == Acquired::Clean {
                    let old = sum_here.load(Ordering::Relaxed);
                    sum_here.fetch_add(number, Ordering::Relaxed);
                    // SAFETY: the page is ours.
                    unsafe {
                        page.cast::<u64>().write(old + u64::from(slot::current().unwrap_or(7)) + clock::now_ns())
                    };
                    // SAFETY: acquired above.
                    unsafe { lock.release() };
                }
                if number == 2 && step == 10 {
                    let child = &mut || {
                        thread::enter();
                        if lock.acquire(contention, here!()) == Acquired::WouldDeadlock {
                            Err("nobody holds it")
                        } else {
                            Ok(())
                        }
                    };
                    assert_eq!(fork(true, child), Ended::Well);
                }
                pause();
            }
            // SAFETY: the page is ours.
            unsafe { vm::release(page, vm::PAGE) };
        };
        (Box::new(work), Place::Anywhere)
    };
    run((1..=4).map(job).collect(), Some(&handler));
    sum.into_inner()
}

fn report(seed: u64, strategy: Option<Box<dyn Strategy>>) -> Report<u64> {
    let mode = if seed.is_multiple_of(2) { Mode::ConcurrencyId } else { Mode::PerThread };
    let settings = Settings { seed, cpus: 3, mode, ..Settings::default() };
    simulate(settings, strategy, main_thread)
}

fn strategies(seed: u64) -> [Option<Box<dyn Strategy>>; 3] {
    let rates = Rates { signal: 2000, ..Rates::USUAL };
    [None, Some(Box::new(Random::new(seed, rates))), Some(Box::new(Priorities::new(seed, 10, rates)))]
}

#[test]
fn another_seed_gives_another_trace() {
    let hashes: std::collections::BTreeSet<u64> =
        (0..20).map(|seed| report(seed, Some(Box::new(Random::new(seed, Rates::USUAL)))).hash).collect();
    assert_eq!(hashes.len(), 20);
}

#[test]
fn its_own_choices_repeat_a_run() {
    for seed in 0..20 {
        for strategy in strategies(seed).into_iter().flatten() {
            let first = report(seed, Some(strategy));
            assert!(first.outcome.is_ok() && first.steps > 500, "{:?}", first.outcome);
            let second = report(seed, Some(Box::new(Replay::new(first.deviations.iter().copied()))));
            let all = |report: &Report<u64>| (report.outcome.clone(), report.steps, report.hash);
            assert_eq!(all(&first), all(&second), "seed {seed}");
            assert_eq!(first.deviations, second.deviations, "seed {seed}");
            for deviation in first.deviations {
                assert_eq!(deviation.to_string().parse(), Ok(deviation));
            }
        }
    }
}

/// The traces that every machine makes of these seeds. They change with the engine, the strategies and the shared
/// sources: then run the test, check that the new traces are what you meant, and put them here. (Not in fallback mode,
/// where assertions of debug builds make steps.)
#[test]
fn traces_are_the_same_on_every_machine() {
    let hashes = [2u64, 4].map(|seed| strategies(seed).map(|strategy| report(seed, strategy).hash));
    assert_eq!(hashes, TRACES, "found {hashes:#x?}");
}

const TRACES: [[u64; 3]; 2] = [
    [0x4042_f412_63d7_d3e4, 0xd7e2_713a_726f_3c8e, 0x8e78_f880_646e_b1d6],
    [0x4042_f412_63d7_d3e4, 0x2493_e1e2_effa_c8a6, 0xda0d_6bcc_618a_a13b],
];
