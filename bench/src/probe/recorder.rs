//! Increments of counters for registries: Commensal's, directly and behind the facade `metrics`, and those of `prometheus` and `prometheus-client`.
//!
//! All threads increment the same counter, which one of them has used before the others came. What is taken each of them counts until the first has
//! used up its time: what the others then had left would be done without anybody in their way.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use metrics::{Counter, CounterFn};

use super::{number, timing};

/// Rounds of which the median counts, and how long each takes. Of threads that are in each other's way there is no best: it would be the round in
/// which one was held up elsewhere.
const ROUNDS: usize = 15;
const ROUND: Duration = Duration::from_millis(2);
/// Between two looks at the clock.
const BATCH: u64 = 2_000;

/// So many increments.
type Work = Box<dyn Fn(u64) + Send + Sync>;

type Arm = (&'static str, fn() -> Work);

/// Theirs first, which the others are held against.
const ARMS: [Arm; 5] = [
    ("prometheus", prometheus),
    ("prometheus-client", prometheus_client),
    ("nothing-behind-the-facade", || behind_facade(Counter::from_arc(Arc::new(Nobody)))),
    ("commensal", || behind_facade(commensal_metrics::Counter::default().into())),
    ("commensal-direct", commensal_direct),
];

/// What one increment takes each of the threads, in nanoseconds.
pub fn figures(words: &[&str]) -> Result<Vec<f64>> {
    let [threads, name] = words else { bail!("expected THREADS ARM, found {words:?}") };
    let (_, make) = ARMS.iter().find(|(known, _)| known == name).with_context(|| format!("there is no arm {name}"))?;
    Ok(vec![increment_ns(&make(), number(threads)?)])
}

fn increment_ns(work: &Work, threads: usize) -> f64 {
    let allowed = timing::allowed();
    // The first to use it.
    work(BATCH);
    let (here, is_over) = (AtomicUsize::new(0), [const { AtomicBool::new(false) }; ROUNDS]);
    let rounds = |number: usize| {
        timing::stay_on(&allowed, number);
        // Whoever comes new is known before it counts.
        work(BATCH);
        let round = |(round, is_over): (usize, &AtomicBool)| {
            here.fetch_add(1, Ordering::Relaxed);
            // Awake: who has to be woken comes when the others are done.
            while here.load(Ordering::Relaxed) < (round + 1) * threads {
                thread::yield_now();
            }
            let (begin, mut done) = (Instant::now(), 0);
            while !is_over.load(Ordering::Relaxed) {
                work(BATCH);
                done += BATCH;
                is_over.fetch_or(begin.elapsed() >= ROUND, Ordering::Relaxed);
            }
            (begin.elapsed().as_secs_f64() * 1e9, done as f64)
        };
        is_over.iter().enumerate().map(round).collect::<Vec<_>>()
    };
    let all: Vec<Vec<(f64, f64)>> = thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|number| scope.spawn(move || rounds(number))).collect();
        let own = rounds(0);
        let others = others.into_iter().map(|other| other.join().expect("no arm panics"));
        [own].into_iter().chain(others).collect()
    });
    let of_round = |round: usize| {
        let sum = all.iter().map(|rounds| rounds[round]).fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        sum.0 / sum.1
    };
    statistics::median(&mut (0..ROUNDS).map(of_round).collect::<Vec<_>>())
}

fn prometheus() -> Work {
    let counter = prometheus::IntCounter::new("requests", "Requests").expect("a good name");
    Box::new(move |times| (0..times).for_each(|_| counter.inc()))
}

fn prometheus_client() -> Work {
    let counter = prometheus_client::metrics::counter::Counter::<u64>::default();
    Box::new(move |times| {
        (0..times).for_each(|_| {
            counter.inc();
        });
    })
}

fn commensal_direct() -> Work {
    let counter = commensal_metrics::Counter::default();
    Box::new(move |times| (0..times).for_each(|_| counter.inc()))
}

fn behind_facade(counter: Counter) -> Work {
    Box::new(move |times| (0..times).for_each(|_| counter.increment(1)))
}

/// A counter that does nothing: what is left is the facade.
struct Nobody;

impl CounterFn for Nobody {
    fn increment(&self, value: u64) {
        std::hint::black_box(value);
    }

    fn absolute(&self, value: u64) {
        std::hint::black_box(value);
    }
}
