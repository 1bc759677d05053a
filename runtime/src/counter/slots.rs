//! A counter after its upgrade: a cell in the row of each slot.
//!
//! The sum of a cell's additions is `edge − stock`, where the stock is the amount that can still be drawn. An addition
//! draws from the stock of the slot where the thread runs, by one restartable operation on one word. It fails if the
//! stock would leave [0, RANGE). Then the amount goes to the shared word `direct`, by one atomic addition. If the
//! block's lock is free, the thread then brings the stock back to the middle, and moves the edge with it. So
//!
//! * each addition is one store or one atomic operation: a fork or a signal handler sees it counted or not counted;
//! * the sum of additions is `direct` + Σ (edge − stock), exactly;
//! * the sum is `direct` + Σ edge minus half a range for each open cell, within plus or minus as much: [`read`] returns
//!   that without looking at slots;
//! * the sum is at most `direct` + Σ edge: a limit on that bound is a limit on the sum ([`super::limit`]).
//!
//! If threads own slots, the kernel does not restart a draw that a signal handler interrupts. So cells stay closed
//! there, and a thread adds to the edge in its own row, by one instruction. Readings look at all touched rows.
//!
//! Runs at the same time: threads draw in their slots. One thread at a time moves edges; threads that draw never wait.

use crate::percpu::{self, Block, Cells, stock, total};
use machine::slot::{self, Mode, Pair, Stored, WINDOW};
use machine::sync::{Acquired, AtomicU32, Ordering, Site, order_reads, order_writes};

const _: () = assert!((super::LARGEST_RANGE as u64) < WINDOW / 2);
const LARGE: i64 = (WINDOW / 2) as i64;

/// A limit was set on the counter: only limited additions raise its stock, and only within the limit.
pub(super) const LIMITED: u32 = 1 << 31;
/// The limit is near: all cells are closed.
pub(super) const TIGHT: u32 = 1 << 30;

const _: () = assert!((LIMITED | TIGHT) & Cells::OPENED == 0);

/// Adds through the cell of the slot where the thread runs. Returns false if the stock or the amount does not allow it.
#[inline(always)]
pub(super) fn draw<const RANGE: i32>(block: Block, index: usize, amount: i64) -> bool {
    // Both ends of the interval by one comparison.
    let is_small = (amount.wrapping_add(LARGE) as u64) < 2 * LARGE as u64;
    // SAFETY: the block is in use, so its rows exist for every possible slot.
    is_small && unsafe { slot::draw::<RANGE, { Block::FROM_NEAR }>(block.near(index), amount) }
}

/// Adds past the cells, and brings the stock back to the middle.
#[cold]
#[inline(never)]
pub(super) fn add_slow(block: Block, index: usize, amount: i64) {
    percpu::enter();
    if slot::mode() == Mode::PerThread {
        return add_to_own_row(block, index, amount);
    }
    // Relaxed: a sum orders nothing. A reader that knows that this addition is over knows it by another order.
    block.direct(index).fetch_add(amount, Ordering::Relaxed);
    try_moving_edges(block, |edges| {
        if edges.cells(index).state.load(Ordering::Relaxed) & LIMITED == 0 {
            edges.restock(index, amount, |_| true);
        }
    });
}

fn add_to_own_row(block: Block, index: usize, amount: i64) {
    match slot::current() {
        Some(slot) => {
            block.touch(slot);
            // SAFETY: the edge is in a row that this thread owns, of a block in use.
            unsafe { slot::local_add::<0>(block.edge(index, slot).as_ptr().cast(), amount) };
        }
        None => drop(block.direct(index).fetch_add(amount, Ordering::Relaxed)),
    }
}

/// The sum of edges: an upper bound of all additions except `direct`.
pub(super) fn edges(block: Block, index: usize) -> i64 {
    match slot::mode() {
        Mode::ConcurrencyId => block.cells(index).edges.load(Ordering::Relaxed),
        Mode::PerThread => in_cells(block, index),
    }
}

/// The sum of additions, with some of the concurrent ones. Takes time in proportion to the touched slots.
pub(super) fn sum(block: Block, index: usize) -> i64 {
    block.direct(index).load(Ordering::Relaxed).wrapping_add(in_cells(block, index))
}

fn in_cells(block: Block, index: usize) -> i64 {
    block.touched_slots().map(|slot| total(pair(block, index, slot))).fold(0, i64::wrapping_add)
}

/// The sum of additions, plus or minus the second number. Reads two lines, but the touched slots where threads own
/// slots or while edges keep moving, as when a limit closes all cells.
pub(super) fn read(block: Block, index: usize) -> (i64, u64) {
    if slot::mode() == Mode::PerThread {
        return (sum(block, index), 0);
    }
    let Some((edges, opened)) = steady(block, index) else { return (sum(block, index), 0) };
    let error = block.batch() * opened;
    let middle = edges.wrapping_sub(error);
    // The order of the two reads does not matter: an amount that bypassed the cells is not in them.
    (block.direct(index).load(Ordering::Relaxed).wrapping_add(middle), error as u64)
}

/// The sum of edges with its number of open cells. None if edges were moving at each attempt.
fn steady(block: Block, index: usize) -> Option<(i64, i64)> {
    const TRIES: usize = 16;
    let cells = block.cells(index);
    (0..TRIES).find_map(|_| {
        // Acquire pairs with the release in `Motion::drop`: an even number means that we see all earlier writes.
        // `order_reads` pairs with `order_writes` in `Motion::new`: if we saw a later write, the second look sees an
        // odd number.
        let before = cells.sequence.load(Ordering::Acquire);
        let seen = (cells.edges.load(Ordering::Relaxed), cells.opened().into());
        order_reads();
        (before.is_multiple_of(2) && cells.sequence.load(Ordering::Relaxed) == before).then_some(seen)
    })
}

#[inline]
pub(super) fn pair(block: Block, index: usize, slot: u32) -> Pair {
    // SAFETY: the block is in use, and the slot was touched or is the thread's.
    unsafe { slot::load_pair(block.cell(index), slot) }
}

/// The right to move edges.
#[derive(Clone, Copy)]
pub(super) struct Edges(Block);

impl core::ops::Deref for Edges {
    type Target = Block;

    fn deref(&self) -> &Block {
        &self.0
    }
}

/// Runs `work` with the block's lock, if that is free or was left behind in a fork. Never waits.
pub(super) fn try_moving_edges(block: Block, work: impl FnOnce(Edges)) {
    let lock = &block.head().lock;
    // A look first, because it leaves the line in the holder's cache.
    let abandoned = lock.is_held() || !lock.try_acquire();
    if abandoned && !lock.try_inherit() {
        return;
    }
    let edges = Edges(block);
    if abandoned {
        edges.repair();
    }
    work(edges);
    // SAFETY: acquired above.
    unsafe { lock.release() };
}

/// Like [`try_moving_edges`], but waits for the lock. Returns false, and does nothing, if the wait might be endless:
/// the thread is in a signal handler that interrupted the holder of the lock or of one above it.
pub(super) fn moving_edges(block: Block, site: Site, work: impl FnOnce(Edges)) -> bool {
    let edges = Edges(block);
    match block.head().lock.acquire(block.area().block_contention(), site) {
        Acquired::WouldDeadlock => return false,
        Acquired::Abandoned => edges.repair(),
        Acquired::Clean => {}
    }
    work(edges);
    // SAFETY: acquired above.
    unsafe { block.head().lock.release() };
    true
}

/// A change of the sum of edges or of the number of open cells, which readers detect.
pub(super) struct Motion<'a>(&'a AtomicU32);

impl<'a> Motion<'a> {
    pub(super) fn new(edges: &'a Edges, index: usize) -> Self {
        let sequence = &edges.cells(index).sequence;
        // Only the lock's holder writes it, so load and store are one step. After a fork it may still be odd.
        sequence.store(sequence.load(Ordering::Relaxed) | 1, Ordering::Relaxed);
        // Pairs with `order_reads` in `steady`.
        order_writes();
        Motion(sequence)
    }
}

impl Drop for Motion<'_> {
    fn drop(&mut self) {
        let next = self.0.load(Ordering::Relaxed).wrapping_add(1);
        // Release pairs with the acquire in `steady`.
        self.0.store(next, Ordering::Release);
    }
}

impl Edges {
    /// Brings the stock of the slot where the thread runs to the middle, and opens a closed cell. Does so if the stock
    /// is far from the middle, or would then have sufficed for `amount`, which bypassed the cell. Calls `may_rise`
    /// after it raises the sum of edges, before there is stock to draw from; if that returns false, nothing changes.
    pub(super) fn restock(self, index: usize, amount: i64, may_rise: impl FnOnce(Edges) -> bool) {
        let Some(slot) = slot::current() else { return };
        let old = pair(self.0, index, slot);
        let is_closed = old.left < WINDOW;
        let batch = self.batch();
        let change = batch - stock(old);
        let fits_the_middle = amount.unsigned_abs() <= batch as u64;
        if !is_closed && change.abs() < batch / 2 && !fits_the_middle {
            return;
        }
        let _motion = Motion::new(&self, index);
        let cells = self.cells(index);
        // The sum is never less than what it is the sum of: raised first, lowered last.
        if change > 0 {
            cells.edges.fetch_add(change, Ordering::Relaxed);
            if !may_rise(self) {
                cells.edges.fetch_sub(change, Ordering::Relaxed);
                return;
            }
        }
        let new = Pair { left: WINDOW + batch as u64, edge: old.edge.wrapping_add(change) };
        self.touch(slot);
        let done = if is_closed {
            cells.state.fetch_add(1, Ordering::Relaxed);
            // SAFETY: no thread draws from a closed cell, and only the lock's holder writes it.
            unsafe { slot::store_pair(self.cell(index), slot, new) };
            true
        } else {
            // SAFETY: the row exists; only the lock's holder moves edges.
            unsafe { slot::replace_pair(self.cell(index), slot, old.left, new) == Stored::Done }
        };
        if done != (change > 0) {
            cells.edges.fetch_sub(change.abs(), Ordering::Relaxed);
        }
    }

    /// After a fork in the middle of a motion: recomputes sum and number. Edges themselves change by one store.
    fn repair(self) {
        for index in 0..self.row_bytes() / percpu::CELL {
            let _motion = Motion::new(&self, index);
            let (mut edges, mut opened) = (0i64, 0);
            for slot in self.touched_slots() {
                self.left(index, slot).fetch_and(!percpu::MARK, Ordering::Relaxed);
                let pair = pair(self.0, index, slot);
                edges = edges.wrapping_add(pair.edge);
                opened += u32::from(pair.left >= WINDOW);
            }
            let cells = self.cells(index);
            cells.edges.store(edges, Ordering::Relaxed);
            let flags = cells.state.load(Ordering::Relaxed) & !Cells::OPENED;
            // Release, as where a flag is set: a thread that reads the flag here sees the same.
            cells.state.store(flags | opened, Ordering::Release);
        }
    }
}
