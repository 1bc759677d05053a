//! Programs at random: sequences of operations, and what runs them on the heap.

use super::blocks::Block;
use super::model::{AtRest, Failure, Model, Operation, Owned};
use super::subject::Subject;
use super::{Job, run};
use super::{child, forked, random, seconds};
use commensal_runtime::caches;
use commensal_runtime::machine::test_support::play;
use proptest::arbitrary::any;
use proptest::collection::vec;
use proptest::prop_oneof;
use proptest::strategy::{Just, Strategy};
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use std::ops::Range;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

/// Bytes that one program owns at once.
const LIMIT: usize = 256 << 20;

/// Sizes of requests: small ones, the edges of classes, and every magnitude up to 100 MiB, that one seldom.
fn sizes() -> impl Strategy<Value = usize> {
    let magnitude = |log2: Range<u32>| log2.prop_flat_map(|log2| 1usize << log2..2 << log2).boxed();
    let edge = (4u32..15, 0usize..8, 0usize..3)
        .prop_map(|(log2, eighths, around)| ((1usize << log2) + (eighths << log2 >> 3) + around).saturating_sub(1));
    prop_oneof![
        8 => 0usize..=160,
        8 => edge,
        8 => magnitude(4..15),
        4 => magnitude(15..21),
        1 => magnitude(21..26),
        1 => prop_oneof![3 => Just(0usize), 1 => (60usize << 20)..(100 << 20)],
    ]
}

/// Up to `most` operations, on requests of all sizes.
pub fn operations(most: usize) -> impl Strategy<Value = Vec<Operation>> {
    let aligned = prop_oneof![
        3 => (sizes(), 0u32..15),
        1 => (0usize..9000, 15u32..25),
    ];
    let trim = prop_oneof![Just(0), 0usize..(8 << 20)].prop_map(|keep| Operation::Trim { keep });
    vec(
        prop_oneof![
            10 => sizes().prop_map(|bytes| Operation::Allocate { bytes }),
            4 => sizes().prop_map(|bytes| Operation::AllocateZeroed { bytes }),
            7 => (any::<u32>(), sizes()).prop_map(|(which, bytes)| Operation::Reallocate { which, bytes }),
            12 => any::<u32>().prop_map(|which| Operation::Free { which }),
            4 => aligned.prop_map(|(bytes, log2)| Operation::AllocateAligned { bytes, log2_alignment: log2 }),
            1 => trim,
        ],
        1..most,
    )
}

/// Runs the operations, and frees what is left; checks the heap every few steps if nobody else can be in it.
pub fn run_one(subject: Subject, operations: &[Operation]) -> Result<(), Failure> {
    const STEPS: usize = 4;
    let owned = Owned::default();
    let at_rest = AtRest::begin();
    let mut model = Model::new(subject, owned.clone(), 1, LIMIT);
    for (step, &operation) in operations.iter().enumerate() {
        model.step(operation)?;
        if step % STEPS == 0 {
            at_rest.check(&owned)?;
        }
    }
    model.check_all()?;
    model.free_all()?;
    at_rest.check(&owned)
}

/// Operations of one thread; after every few of them, a block goes to the next thread, which takes it in when it gets to it.
fn run_thread(
    mut model: Model, operations: &[Operation], next: &Sender<Block>, inbox: &Receiver<Block>,
) -> Result<(), Failure> {
    for (step, &operation) in operations.iter().enumerate() {
        model.step(operation)?;
        if step % 3 == 0
            && let Some(block) = model.give_up(step as u32)
        {
            next.send(block).expect("the next thread's inbox outlives all threads");
        }
        inbox.try_iter().try_for_each(|block| model.take_in(block))?;
    }
    model.check_all()?;
    model.free_all()
}

/// Several programs at once, with the heap checked when all are through.
pub fn run_several(programs: &[Vec<Operation>]) -> Result<(), Failure> {
    let owned = Owned::default();
    let at_rest = AtRest::begin();
    let (senders, inboxes): (Vec<_>, Vec<_>) = programs.iter().map(|_| channel()).unzip();
    let mut results: Vec<_> = inboxes.into_iter().map(|inbox| (Ok(()), inbox)).collect();
    let mut jobs: Vec<Job<'_>> = Vec::new();
    for (number, (result, inbox)) in results.iter_mut().enumerate() {
        let (owned, next) = (owned.clone(), senders[(number + 1) % programs.len()].clone());
        jobs.push(Box::new(move || {
            let model = Model::new(Subject::new(None), owned, number as u64 + 1, LIMIT / 4);
            *result = run_thread(model, &programs[number], &next, inbox);
        }));
    }
    run(jobs);
    let mut rest = Model::new(Subject::new(None), owned.clone(), 99, LIMIT);
    for (result, inbox) in results {
        result?;
        inbox.try_iter().try_for_each(|block| rest.take_in(block))?;
    }
    at_rest.check(&owned)?;
    rest.free_all()?;
    at_rest.check(&owned)
}

/// What makes random input from a seed, up to `cases` times, and shortens what fails.
pub fn runner(seed: u64, cases: u32) -> TestRunner {
    let config = Config {
        cases,
        failure_persistence: None,
        max_shrink_iters: 4000,
        max_shrink_time: 30_000,
        ..Config::default()
    };
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes))
}

/// Tests `property` on random input in a process of its own, with a fresh heap for each case, until the time is over; in the
/// machine's usual mode and in fallback mode. A failing input is shortened and shown with how to have it again.
pub fn hold<T: std::fmt::Debug>(
    usual_seconds: f64, strategy: impl Strategy<Value = T>, property: impl Fn(&T) -> Result<(), Failure>,
) {
    const CASES: u32 = 32;
    let duration = Duration::from_secs_f64(seconds(usual_seconds));
    if child::case().is_none() {
        return child::run_in_both_modes("hold", random::seed());
    }
    let end = Instant::now() + duration;
    for seed in random::seed().. {
        let tested = runner(seed, CASES).run(&strategy, |input| {
            let case = || play(seed, || property(&input));
            forked::run(case).map_err(TestCaseError::fail)
        });
        match tested {
            Ok(()) => {}
            Err(TestError::Fail(why, input)) => panic!("{why}\n{input:?}\n{}", random::replay(seed)),
            Err(TestError::Abort(why)) => panic!("{why}"),
        }
        if Instant::now() > end {
            return;
        }
    }
}

/// Makes the process one that is shared by threads, as far as the heap is concerned.
pub fn become_shared() {
    run(vec![Box::new(|| {})]);
    caches::upgrade_if_shared();
}
