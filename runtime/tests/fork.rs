//! Forks at any moment: children that are forked while other threads are in the middle of the heap.
//!
//! Four threads fork all the time, in each of three ways (`fork`; `_Fork`, which runs no handlers; and the bare system call), while
//! four others allocate and free. Each child allocates, frees, trims, forks once more, frees what its parent's thread
//! owned, and must be through within a time that no healthy child needs. It checks contents; an owner of a lock that does not exist
//! there would make it hang. In some children of plain forks, two threads do the same.
//!
//! Children use no memory but the heap under test: the locks of the system's allocator are anybody's after `_Fork`.
//! Planted: a child that waits for a lock of a thread that does not exist there. `COMMENSAL_TEST_EFFORT` multiplies how long each way is tried in each mode of the machine.

mod common;

use commensal::heap::{self, report::Report};
use commensal::slab;
use common::blocks::Block;
use common::forks::{FINE, Way, wait_for};
use common::model::{Failure, Heap, Model, Operation, Owned};
use common::random::Random;
use common::{PATIENCE, child, random, seconds};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const FORKERS: u64 = 4;
const HAMMERS: u64 = 4;
/// Blocks that a child may own at once.
const BLOCKS: usize = 64;

/// A child's findings, as its exit status.
const NO_MEMORY: i32 = 1;
const DAMAGED: i32 = 2;
const GRANDCHILD: i32 = 3;
const NOT_SOLO: i32 = 4;
const NOT_SHARED: i32 = 5;

/// Blocks in a place of their own, so that nobody else's memory is needed.
struct Blocks {
    blocks: [Option<Block>; BLOCKS],
    tag: u64,
}

impl Blocks {
    fn new(tag: u64) -> Self {
        Blocks { blocks: [None; BLOCKS], tag: tag << 32 }
    }

    /// Allocates a block for place `at`, or frees the one that is there.
    fn turn(&mut self, at: usize, bytes: usize) -> Result<(), i32> {
        if let Some(block) = self.blocks[at].take() {
            return give_back(&block);
        }
        let start = if bytes.is_multiple_of(3) { heap::allocate_zeroed(bytes) } else { heap::allocate(bytes) };
        if start.is_null() {
            return Err(NO_MEMORY);
        }
        self.tag += 1;
        // SAFETY: the block is ours.
        let block = Block { start: start as usize, usable: unsafe { heap::usable_bytes(start) }, tag: self.tag };
        block.fill();
        self.blocks[at] = Some(block);
        Ok(())
    }

    fn turn_some(&mut self, random: &mut Random, times: usize) -> Result<(), i32> {
        (0..times).try_for_each(|_| {
            let bytes = if random.once_in(32) { random.size(20) } else { random.size(13) };
            self.turn(random.below(BLOCKS), bytes)
        })
    }

    fn free_all(&mut self) -> Result<(), i32> {
        self.blocks.iter_mut().filter_map(Option::take).try_for_each(|block| give_back(&block))
    }
}

fn give_back(block: &Block) -> Result<(), i32> {
    if block.find_damage(block.usable).is_some() {
        return Err(DAMAGED);
    }
    // SAFETY: the block is the caller's.
    unsafe { heap::free(block.start as *mut u8) };
    Ok(())
}

/// What a child does, with the blocks that its parent's thread had.
fn live(way: Way, inherited: &mut Blocks, random: &mut Random, may_fork: bool) -> Result<(), i32> {
    let mut own = Blocks::new(random.next() >> 40);
    own.turn_some(random, 24)?;
    inherited.turn_some(random, 8)?;
    if random.once_in(8) {
        heap::trim(0);
    }
    if may_fork
        && random.once_in(4)
        && wait_for(way.fork_and(|| live(way, inherited, random, false)), PATIENCE) != Some(FINE)
    {
        return Err(GRANDCHILD);
    }
    if way == Way::Fork && random.once_in(8) {
        live_with_threads(random)?;
    }
    inherited.free_all()?;
    own.turn_some(random, 24)?;
    own.free_all()
}

/// After a plain fork, a child may have threads of its own.
fn live_with_threads(random: &mut Random) -> Result<(), i32> {
    let work = |seed| {
        move || {
            let (mut blocks, mut random) = (Blocks::new(seed >> 40), Random::new(seed, 0));
            blocks.turn_some(&mut random, 100).and_then(|()| blocks.free_all())
        }
    };
    let threads = [random.next(), random.next()].map(|seed| thread::spawn(work(seed)));
    threads.into_iter().try_for_each(|thread| thread.join().unwrap_or(Err(DAMAGED)))
}

fn fork_again_and_again(way: Way, seed: u64, number: u64, stop: &AtomicBool) -> Result<u64, String> {
    let (mut random, mut own) = (Random::new(seed, number), Blocks::new(number));
    let mut forks = 0;
    while !stop.load(Ordering::Relaxed) {
        own.turn_some(&mut random, 8).map_err(|status| format!("the parent found {status}"))?;
        let mut childs = random.clone();
        let status = wait_for(way.fork_and(|| live(way, &mut own, &mut childs, true)), PATIENCE);
        forks += 1;
        random.next();
        match status {
            Some(FINE) => {}
            Some(status) => return Err(format!("child {forks} by {way:?} found {status}")),
            None => return Err(format!("child {forks} by {way:?} died, or hung for {PATIENCE:?}")),
        }
    }
    own.free_all().map_err(|status| format!("the parent found {status}"))?;
    Ok(forks)
}

fn hammer(seed: u64, number: u64, stop: &AtomicBool) -> Result<(), Failure> {
    let mut random = Random::new(seed, number);
    let mut model = Model::new(Heap, Owned::untracked(), number, 4 << 20);
    while !stop.load(Ordering::Relaxed) {
        model.step(random.operation())?;
        if random.once_in(2000) {
            model.step(Operation::Trim { keep: 0 })?;
        }
        if random.once_in(64) {
            // Forkers and children want CPUs, too; a thread that is held up in the heap is as good as one that runs.
            thread::sleep(Duration::from_micros(100));
        }
    }
    model.free_all()
}

/// Forks while others hammer, in this process; how often.
fn act_out(way: Way, seed: u64) -> Result<u64, String> {
    slab::sharing::upgrade_if_shared();
    let stop = AtomicBool::new(false);
    let forks = AtomicU64::new(0);
    let result = thread::scope(|scope| {
        let stop = &stop;
        let forks = &forks;
        let hammers: Vec<_> =
            (0..HAMMERS).map(|number| scope.spawn(move || hammer(seed, 100 + number, stop))).collect();
        let fork = |number| {
            scope.spawn(move || {
                let result = fork_again_and_again(way, seed, number, stop);
                stop.fetch_or(result.is_err(), Ordering::Relaxed);
                result.map(|count| {
                    forks.fetch_add(count, Ordering::Relaxed);
                })
            })
        };
        let forkers: Vec<_> = (0..FORKERS).map(|number| fork(number + 1)).collect();
        let end = Instant::now() + duration();
        while Instant::now() < end && !stop.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(5));
        }
        stop.store(true, Ordering::Relaxed);
        let hammered = hammers.into_iter().map(|thread| thread.join().expect("no panic").map_err(|it| it.to_string()));
        let forked = forkers.into_iter().map(|thread| thread.join().expect("no panic"));
        forked.chain(hammered).collect::<Result<(), String>>()
    });
    result.map(|()| forks.into_inner())
}

fn duration() -> Duration {
    Duration::from_secs_f64(seconds(0.8))
}

fn run(test: &str, way: Way) {
    let seed = random::seed();
    if child::case().is_none() {
        return child::run_in_both_modes(test, "fork", seed);
    }
    match act_out(way, seed) {
        Ok(forks) => eprintln!("{forks} forks by {way:?}"),
        Err(why) => panic!("{why}\n{}", random::replay("fork", test, seed)),
    }
}

#[test]
fn plain_forks() {
    run("plain_forks", Way::Fork);
}

#[test]
fn forks_without_handlers() {
    run("forks_without_handlers", Way::WithoutHandlers);
}

#[test]
fn bare_system_calls() {
    run("bare_system_calls", Way::Bare);
}

/// One process that is solo so far: a thread comes into its heap, and so makes it shared, while another one forks.
fn become_shared_in_a_fork(seed: u64) -> Result<(), i32> {
    unsafe extern "C" {
        static mut __libc_single_threaded: libc::c_char;
    }
    // SAFETY: this is the only thread; the harness's stayed behind in the parent, which the C library does not take into account.
    unsafe { (&raw mut __libc_single_threaded).write(1) };
    let mut own = Blocks::new(seed >> 40);
    own.turn_some(&mut Random::new(seed, 0), 24)?;
    let is_solo = || Report::read().is_some_and(|report| report.process.shared_since_ns == 0);
    if !is_solo() {
        return Err(NOT_SOLO);
    }
    let ready = AtomicU64::new(0);
    let begin = |random: &mut Random| {
        ready.fetch_add(1, Ordering::Relaxed);
        while ready.load(Ordering::Relaxed) < 2 {
            std::hint::spin_loop();
        }
        let delay = Duration::from_nanos(random.below(30_000) as u64);
        let start = Instant::now();
        while start.elapsed() < delay {}
    };
    let work = || {
        let mut random = Random::new(seed, 1);
        begin(&mut random);
        let mut blocks = Blocks::new(1);
        blocks.turn_some(&mut random, 60).and_then(|()| blocks.free_all())
    };
    let fork = || {
        let mut random = Random::new(seed, 2);
        begin(&mut random);
        let child = Way::Bare.fork_and(|| live(Way::Bare, &mut Blocks::new(2), &mut random, false));
        if wait_for(child, PATIENCE) == Some(FINE) { Ok(()) } else { Err(GRANDCHILD) }
    };
    thread::scope(|scope| {
        let threads = [scope.spawn(work), scope.spawn(fork)];
        threads.into_iter().try_for_each(|thread| thread.join().unwrap_or(Err(DAMAGED)))
    })?;
    if is_solo() {
        return Err(NOT_SHARED);
    }
    own.free_all()
}

#[test]
fn bare_system_calls_while_the_process_becomes_shared() {
    const TEST: &str = "bare_system_calls_while_the_process_becomes_shared";
    let seed = random::seed();
    if child::case().is_none() {
        return child::run_in_both_modes(TEST, "fork", seed);
    }
    let (end, mut rounds) = (Instant::now() + duration(), 0);
    while Instant::now() < end {
        // Nobody has used the heap here yet, and the process has one thread.
        let status = wait_for(Way::Fork.fork_and(|| become_shared_in_a_fork(seed + rounds)), PATIENCE);
        let replay = || random::replay("fork", TEST, seed);
        assert_eq!(status, Some(FINE), "in round {rounds} (none: it hung, or died)\n{}", replay());
        rounds += 1;
    }
    eprintln!("{rounds} processes became shared");
}

/// What others do before and after a fork: allocate, in all three places.
extern "C" fn handler_that_allocates() {
    let mut blocks = Blocks::new(77);
    let done = blocks.turn_some(&mut Random::new(1, 1), 50).and_then(|()| blocks.free_all());
    if done.is_err() {
        std::process::abort();
    }
}

#[test]
fn plain_forks_among_handlers_that_allocate() {
    if child::case().is_some() {
        let register = || {
            let handler = Some(handler_that_allocates as unsafe extern "C" fn());
            // SAFETY: the handler lives as long as the process.
            unsafe { libc::pthread_atfork(handler, handler, handler) };
        };
        register();
        slab::sharing::upgrade_if_shared();
        register();
    }
    run("plain_forks_among_handlers_that_allocate", Way::Fork);
}

#[test]
fn planted_a_child_that_hangs_is_found() {
    let lock = Mutex::new(());
    let held = lock.lock().expect("nobody else has it");
    let wait = || {
        // The holder is the parent's thread, as it would be another thread that is in the middle of the heap.
        drop(lock.lock());
        Ok(())
    };
    assert_eq!(wait_for(Way::Bare.fork_and(wait), Duration::from_millis(300)), None);
    drop(held);
    assert_eq!(wait_for(Way::Bare.fork_and(wait), PATIENCE), Some(FINE));
}
