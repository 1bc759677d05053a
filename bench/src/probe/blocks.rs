//! Blocks of the malloc that the C library has, or that is preloaded.

use std::fs;
use std::hint::black_box;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::number;
use super::timing::{allowed, mean_ns, stay_on};

/// Blocks that travel together, and batches that are under way between two threads at most.
const BATCH: usize = 128;
const UNDER_WAY: usize = 16;
/// Of all pairs of threads.
const BATCHES: usize = 20_000;
/// Of a thread that was only made to be there.
const STACK_BYTES: usize = 64 << 10;
/// No address space has so much left.
const TOO_MUCH: usize = 0x7fff_ffff_0000;
const PAGE: usize = 4096;
const BUDGET: Duration = Duration::from_millis(50);

/// Blocks by their addresses, so that they may travel.
type Blocks = [usize; BATCH];

fn allocate(bytes: usize) -> usize {
    // SAFETY: malloc may be called with any size. `black_box` keeps the compiler from removing what is not used.
    black_box(unsafe { libc::malloc(black_box(bytes)) }) as usize
}

/// # Safety
/// A block from [`allocate`], or 0; once.
unsafe fn free(block: usize) {
    // SAFETY: passed on.
    unsafe { libc::free(block as *mut libc::c_void) };
}

/// Writes a byte of each page of a block.
fn touch(block: usize, bytes: usize) {
    for at in (0..bytes).step_by(PAGE) {
        // SAFETY: the block has so many bytes.
        unsafe { ((block + at) as *mut u8).write_volatile(1) };
    }
}

/// Half of the threads allocate, each for one of the others, which runs on the next CPU. Left to the scheduler, a pair
/// is often put on one CPU, and takes half the time: then no block travels.
pub fn handover(words: &[&str]) -> Result<Vec<f64>> {
    let [bytes, threads] = words else { bail!("found {words:?}") };
    let (bytes, threads) = (number(bytes)?, number(threads)?);
    ensure!(bytes >= 8 && threads % 2 == 0, "expected at least 8 bytes and an even number of threads");
    let pairs = threads / 2;
    let batches = BATCHES / pairs;
    let (start, cpus) = (Barrier::new(threads + 1), allowed());
    let begin = |pair: usize| {
        stay_on(&cpus, pair % cpus.count().max(1) as usize);
        start.wait();
    };
    let begun = thread::scope(|scope| {
        for pair in 0..pairs {
            let (sender, receiver) = sync_channel(UNDER_WAY);
            let begin = &begin;
            scope.spawn(move || {
                begin(pair);
                produce(&sender, bytes, batches);
            });
            scope.spawn(move || {
                begin(pair + 1);
                consume(&receiver);
            });
        }
        start.wait();
        Instant::now()
    });
    Ok(vec![begun.elapsed().as_secs_f64() * 1e9 / (pairs * batches * BATCH) as f64])
}

fn produce(queue: &SyncSender<Blocks>, bytes: usize, batches: usize) {
    for _ in 0..batches {
        let blocks = [(); BATCH].map(|()| allocate(bytes));
        blocks.iter().for_each(|&block| touch(block, 1));
        let mut rest = Some(blocks);
        while let Some(blocks) = rest.take() {
            if let Err(TrySendError::Full(blocks)) = queue.try_send(blocks) {
                rest = Some(blocks);
                thread::yield_now();
            }
        }
    }
}

fn consume(queue: &Receiver<Blocks>) {
    loop {
        match queue.try_recv() {
            Ok(blocks) => {
                for block in blocks {
                    // SAFETY: the producer allocated it, and left it to us.
                    unsafe {
                        black_box((block as *const u8).read_volatile());
                        free(block);
                    }
                }
            }
            Err(TryRecvError::Empty) => thread::yield_now(),
            Err(TryRecvError::Disconnected) => return,
        }
    }
}

/// Threads that had something to do, one after the other, and wait for more.
pub fn idle(words: &[&str]) -> Result<Vec<f64>> {
    let [threads, kb] = words else { bail!("found {words:?}") };
    let (threads, bytes) = (number(threads)?, number(kb)? << 10);
    let before = anonymous_kb()?;
    let (done, seen) = (Arc::new(Barrier::new(threads + 1)), Arc::new(Barrier::new(threads + 1)));
    let turn = Arc::new(Mutex::new(()));
    let sleep = |number: usize| {
        let (done, seen, turn) = (Arc::clone(&done), Arc::clone(&seen), Arc::clone(&turn));
        let work = move || {
            // Otherwise the scheduler decides how many of them have their blocks at once.
            let guard = turn.lock().expect("no thread panics");
            // Sizes of 16 to 1024 bytes in turn.
            let sizes = (0..).map(|at| 16 << ((at + number) % 7));
            let mut left = bytes;
            let blocks: Vec<usize> = sizes
                .map_while(|size| {
                    left = left.checked_sub(size)?;
                    let block = allocate(size);
                    touch(block, size);
                    Some(block)
                })
                .collect();
            // SAFETY: allocated above, and nobody else has them.
            blocks.into_iter().for_each(|block| unsafe { free(block) });
            drop(guard);
            done.wait();
            seen.wait();
        };
        spawn(work)
    };
    let threads = (0..threads).map(sleep).collect::<Result<Vec<_>>>()?;
    done.wait();
    let after = anonymous_kb()?;
    seen.wait();
    threads.into_iter().try_for_each(|thread| thread.join()).ok().context("a thread panicked")?;
    Ok(vec![after - before])
}

fn spawn(work: impl FnOnce() + Send + 'static) -> Result<thread::JoinHandle<()>> {
    thread::Builder::new().stack_size(STACK_BYTES).spawn(work).context("a thread cannot be started")
}

/// The kernel's count of this process's own pages.
fn anonymous_kb() -> Result<f64> {
    let rollup = fs::read_to_string("/proc/self/smaps_rollup")?;
    let line = rollup.lines().find_map(|line| line.strip_prefix("Anonymous:")).context("the kernel tells none")?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}

/// What no memory can satisfy, while much of it waits to be used again.
pub fn refused(words: &[&str]) -> Result<Vec<f64>> {
    const BYTES: usize = 16 << 10;
    let [mib] = words else { bail!("found {words:?}") };
    let blocks: Vec<usize> = (0..(number(mib)? << 20) / BYTES).map(|_| allocate(BYTES)).collect();
    blocks.iter().for_each(|&block| touch(block, BYTES));
    // SAFETY: allocated above.
    blocks.into_iter().for_each(|block| unsafe { free(block) });
    let before = anonymous_kb()?;
    let ns = mean_ns(BUDGET, 3, || assert_eq!(allocate(TOO_MUCH), 0, "there is not so much"));
    Ok(vec![ns, (before - anonymous_kb()?) / 1024.0])
}

/// Blocks that nobody writes to, until there are enough or no more.
pub fn many(words: &[&str]) -> Result<Vec<f64>> {
    let [bytes, count] = words else { bail!("found {words:?}") };
    let (bytes, count) = (number(bytes)?, number(count)?);
    let blocks: Vec<usize> = (0..count).map(|_| allocate(bytes)).take_while(|&block| block != 0).collect();
    let had = blocks.len() as f64;
    // SAFETY: allocated above.
    blocks.into_iter().for_each(|block| unsafe { free(block) });
    Ok(vec![had])
}

/// The last of many threads, all of which have allocated.
pub fn crowd(words: &[&str]) -> Result<Vec<f64>> {
    const BYTES: usize = 64;
    let [threads] = words else { bail!("found {words:?}") };
    let threads = number(threads)?;
    let (here, seen) = (Arc::new(Barrier::new(threads + 1)), Arc::new(Barrier::new(threads + 1)));
    // SAFETY: allocated at once.
    let pair = || unsafe { free(allocate(BYTES)) };
    let sleep = |_| {
        let (here, seen) = (Arc::clone(&here), Arc::clone(&seen));
        spawn(move || {
            pair();
            here.wait();
            seen.wait();
        })
    };
    let threads = (0..threads).map(sleep).collect::<Result<Vec<_>>>()?;
    here.wait();
    let last = thread::spawn(move || mean_ns(BUDGET, 3, || (0..16).for_each(|_| pair())) / 16.0);
    let ns = last.join().ok().context("the last thread panicked")?;
    seen.wait();
    threads.into_iter().try_for_each(|thread| thread.join()).ok().context("a thread panicked")?;
    Ok(vec![ns])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn block_probes_have_their_figures() {
        assert_eq!(many(&["1000", "50"]).expect("there is memory"), [50.0]);
        assert_eq!(handover(&["64", "2"]).expect("it runs").len(), 1);
        assert!(handover(&["64", "3"]).is_err() && handover(&["4", "2"]).is_err());
        assert_eq!(idle(&["2", "64"]).expect("it runs").len(), 1);
        assert_eq!(refused(&["1"]).expect("it runs").len(), 2);
        assert_eq!(crowd(&["3"]).expect("it runs").len(), 1);
    }
}
