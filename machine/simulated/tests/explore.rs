//! Exploration finds what a body has, in whatever way it shows, shortens it, and says how to see it again.

use simulated::process;
use simulated::simulation::explore::{Finding, Outcome, Plan, Subject, Until, Verdict};
use simulated::simulation::{Place, Rates, Settings, run, set_namer};
use simulated::sync::{AtomicU64, Ordering};
use std::cell::Cell;

const PLANS: [Plan; 2] = [Plan::Random(Rates::QUIET), Plan::Priorities(3, Rates::QUIET)];

fn found(body: fn(u64) -> Outcome) -> Box<Finding> {
    let settings = |seed| Settings { seed, most_steps: 100_000, ..Settings::default() };
    let subject = Subject { name: "body", settings: &settings, body: &body, plans: &PLANS, twice_one_in: 1 };
    match subject.explore(1, Until::Runs { from: 0, to: 2000 }, |_| {}) {
        Verdict::Found(finding) => finding,
        nothing => panic!("{nothing:?}"),
    }
}

/// Two threads that count in two steps; what is done about a lost addition.
fn count(lost: fn(u64) -> Outcome) -> Outcome {
    let word = AtomicU64::new(0);
    let at = (&raw const word).addr();
    set_namer(move |named| (named == at).then(|| "word".into()));
    let add = || {
        for _ in 0..20 {
            let old = word.load(Ordering::Relaxed);
            word.store(old + 1, Ordering::Relaxed);
        }
    };
    run(vec![(Box::new(add), Place::On(0)), (Box::new(add), Place::On(1))], None);
    match word.into_inner() {
        40 => Ok(()),
        less => lost(less),
    }
}

#[test]
fn lost_addition_is_found_and_shortened_and_repeated() {
    let finding = found(|_| count(|less| Err(format!("counted {less}"))));
    assert!(finding.what.starts_with("counted "), "{finding}");
    // One has to come between the other's load and store.
    assert!(finding.schedule.len() <= 3 && finding.choices > finding.schedule.len(), "{finding}");
    let text = finding.to_string();
    for words in ["seed ", "strategy ", "load    word = ", "store   word ← ", "cpu 0", "t1"] {
        assert!(text.contains(words), "{words:?} is missing in {text}");
    }
    let settings = |seed| Settings { seed, ..Settings::default() };
    let body = |_| count(|less| Err(format!("counted {less}")));
    let subject = Subject { name: "body", settings: &settings, body: &body, plans: &PLANS, twice_one_in: 1 };
    for _ in 0..2 {
        let again = subject.replay(finding.run, Some(&finding.schedule));
        assert_eq!(again.what.as_ref(), Some(&finding.what));
        assert!(again.trace == finding.trace, "another trace: {finding}");
    }
    assert_eq!(subject.replay(finding.run, Some(&[])).what, None, "without its choices nothing happens");
}

#[test]
fn whatever_ends_a_process_is_a_finding() {
    let panicked = found(|_| count(|less| panic!("only {less}")));
    assert!(panicked.what.contains("only "), "{panicked}");
    let died = found(|_| {
        count(|_| {
            process::complain(b"the last words\n");
            process::die()
        })
    });
    assert!(died.what.contains("the last words"), "{died}");
    let crashed = found(|_| {
        count(|_| {
            // SAFETY: none: that it crashes is what is tested.
            unsafe { core::ptr::null_mut::<u8>().wrapping_add(8).write_volatile(1) };
            Ok(())
        })
    });
    assert!(crashed.what.contains("signal 11"), "{crashed}");
}

#[test]
fn endless_wait_is_a_finding() {
    let waits = found(|_| {
        let (first, second) = (AtomicU64::new(0), AtomicU64::new(0));
        let wait = |word: &AtomicU64| {
            while word.load(Ordering::Acquire) == 0 {
                simulated::sync::spin_loop();
            }
        };
        run(vec![(Box::new(|| wait(&first)), Place::On(0)), (Box::new(|| wait(&second)), Place::On(1))], None);
        Ok(())
    });
    assert!(waits.what.contains("no end within"), "{waits}");
}

#[test]
fn body_that_is_not_the_same_twice_is_a_finding() {
    thread_local! {
        static TIMES: Cell<u64> = const { Cell::new(0) };
    }
    let finding = found(|_| {
        let word = AtomicU64::new(0);
        word.store(TIMES.replace(TIMES.get() + 1), Ordering::Relaxed);
        Ok(())
    });
    assert!(finding.what.contains("not the same"), "{finding}");
}
