//! A counter after its upgrade: a cell in the row of each slot.
//!
//! The sum of a cell's additions is `edge − stock`, where the stock is the amount that can still be drawn. An addition
//! draws from the stock of the slot where the thread runs, by one restartable operation on one word. It fails if the
//! stock would leave [0, width]. If the block's lock is free, the thread then fills the stock up, and moves the edge by
//! as much and by the amount. Otherwise the amount goes to the shared word `direct`, by one atomic addition. So
//!
//! * each addition is one store or one atomic operation: a fork or a signal handler sees it counted or not counted;
//! * the sum of additions is `direct` + Σ (edge − stock), exactly;
//! * the sum is `direct` + Σ edge − Σ width / 2, within plus or minus Σ width / 2: [`read`] returns that without a look
//!   at slots;
//! * the sum is at most `direct` + Σ edge: a limit on that bound is a limit on the sum ([`super::limit`]).
//!
//! **A width follows the use of its cell.** A cell is one range wide at first, and up to four times as wide each time
//! that it is used up, as long as Σ width / 2 stays below 1 / [`SHARE`] of the counter's value. So a counter that many
//! CPUs add to all the time soon makes them meet seldom, and a reading stays as exact relative to its value. If the
//! value falls, wide cells become narrow when they are used up. Until then [`read`] sums up the slots.
//!
//! If threads own slots, the kernel does not restart a draw that a signal handler interrupts. So cells stay closed
//! there, and a thread adds to the edge in its own row, by one instruction. Readings look at all touched rows.
//!
//! Runs at the same time: threads draw in their slots. One thread at a time moves edges; threads that draw never wait.

use super::Reading;
use crate::percpu::{self, Block, Cells};
use machine::here;
use machine::slot::{self, DRAWN, MARK, Mode, Pair, Stored, WIDEST};
use machine::sync::{Acquired, AtomicU32, Ordering, Site, order_reads, order_writes};

const _: () = assert!(super::LARGEST_RANGE as u32 <= WIDEST);

/// The error of a reading is at most this part of the value, or half a range for each slot: a little less than 0.1 %.
pub const SHARE: u64 = 1024;

/// A limit was set on the counter: only limited additions raise its stock, and only within the limit.
pub(super) const LIMITED: u32 = 1 << 31;
/// The limit is near: all cells are closed.
pub(super) const TIGHT: u32 = 1 << 30;

const _: () = assert!((LIMITED | TIGHT) & Cells::RANGES == 0);

/// Adds through the cell of the slot where the thread runs. Returns false if the stock or the amount does not allow it.
#[inline(always)]
pub(super) fn draw(block: Block, index: usize, amount: i64) -> bool {
    // Both ends of the interval by one comparison.
    let is_small = (amount.wrapping_add(DRAWN - 1) as u64) < 2 * DRAWN as u64 - 1;
    // SAFETY: the block is in use, so its rows exist for every possible slot.
    is_small && unsafe { slot::draw::<{ Block::FROM_NEAR }>(block.near(index), amount) }
}

/// Adds and fills the stock up, or adds past the cells.
#[cold]
#[inline(never)]
pub(super) fn add_slow(block: Block, index: usize, amount: i64) {
    percpu::enter();
    if slot::mode() == Mode::PerThread {
        return add_to_own_row(block, index, amount);
    }
    let add = |edges: Edges| {
        let is_limited = edges.cells(index).state.load(Ordering::Relaxed) & LIMITED != 0;
        !is_limited && edges.restock(index, amount, |old| edges.refilled(index, old, amount), |_| true)
    };
    if try_moving_edges(block, add) != Some(true) {
        // Relaxed: a sum orders nothing. A reader that knows that this addition is over knows it by another order.
        block.direct(index).fetch_add(amount, Ordering::Relaxed);
    }
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
    block.touched_slots().map(|slot| pair(block, index, slot).total()).fold(0, i64::wrapping_add)
}

/// The sum of additions, and of what lies outside of the block. Reads two lines. It reads the touched slots where
/// threads own slots, where the value has fallen, and while edges keep moving, as when a limit closes all cells.
pub(super) fn read(block: Block, index: usize, outside: i64) -> Reading {
    let at_once = || {
        let (edges, ranges) = (slot::mode() == Mode::ConcurrencyId).then(|| steady(block, index))??;
        let error = ranges * u64::from(block.range()) / 2;
        // The order of the two reads does not matter: an amount that bypassed the cells is not in them.
        let direct = block.direct(index).load(Ordering::Relaxed);
        let middle = direct.wrapping_add(edges).wrapping_sub_unsigned(error);
        let value = outside.wrapping_add(middle);
        let most = (u64::from(block.range()) / 2 * u64::from(slot::in_use())).max(value.unsigned_abs() / SHARE);
        (error <= most).then_some(Reading { value, error })
    };
    at_once().unwrap_or_else(|| Reading { value: outside.wrapping_add(sum(block, index)), error: 0 })
}

/// The sum of edges with that of widths, in ranges. None if edges were moving at each attempt.
fn steady(block: Block, index: usize) -> Option<(i64, u64)> {
    const TRIES: usize = 16;
    let cells = block.cells(index);
    (0..TRIES).find_map(|_| {
        // Acquire pairs with the release in `Motion::drop`: an even number means that we see all earlier writes.
        // `order_reads` pairs with `order_writes` in `Motion::new`: if we saw a later write, the second look sees an
        // odd number.
        let before = cells.sequence.load(Ordering::Acquire);
        let seen = (cells.edges.load(Ordering::Relaxed), cells.ranges().into());
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
fn try_moving_edges<R>(block: Block, work: impl FnOnce(Edges) -> R) -> Option<R> {
    let lock = &block.head().lock;
    // A look first, because it leaves the line in the holder's cache.
    let abandoned = lock.is_held() || !lock.try_acquire();
    if abandoned && !lock.try_inherit() {
        return None;
    }
    let edges = Edges(block);
    if abandoned {
        edges.repair();
    }
    lock.measure_hold(block.area().block_contention(), here!());
    let result = work(edges);
    // SAFETY: acquired above.
    unsafe { lock.release() };
    Some(result)
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

/// A change of the sums of edges and widths, which readers detect.
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
    /// Stock and room for a cell that `amount` did not fit, three quarters of which go to more of its sign.
    fn refilled(self, index: usize, old: Pair, amount: i64) -> [u32; 2] {
        const FASTER: u32 = 4;
        // Without `direct`, which many threads may be writing to. A reading looks at all, and does without wide cells.
        let value = edges(self.0, index).unsigned_abs();
        let (range, slots) = (self.range(), slot::in_use().max(1));
        // The widths of all slots may be twice the error.
        let most = (value / (SHARE / 2 * u64::from(slots))).min(self.most_width()) as u32;
        let width = (old.width() * FASTER).min(most / range * range).max(range);
        let [back, ahead] = [width / 4, width - width / 4];
        if amount > 0 { [ahead, back] } else { [back, ahead] }
    }

    /// Gives the cell of the slot where the thread runs stock and room, which opens a closed one, and adds `amount` by
    /// the same store. Calls `may_rise` after it raises the sum of edges, before there is stock to draw from; if that
    /// returns false, nothing changes. Returns whether it added.
    pub(super) fn restock(
        self, index: usize, amount: i64, refilled: impl FnOnce(Pair) -> [u32; 2], may_rise: impl FnOnce(Edges) -> bool,
    ) -> bool {
        let Some(slot) = slot::current() else { return false };
        let old = pair(self.0, index, slot);
        let [stock, room] = refilled(old);
        let change = amount.wrapping_add(i64::from(stock) - i64::from(old.stock()));
        let _motion = Motion::new(&self, index);
        let cells = self.cells(index);
        // The sum is never less than what it is the sum of: raised first, lowered last.
        if change > 0 {
            cells.edges.fetch_add(change, Ordering::Relaxed);
            if !may_rise(self) {
                cells.edges.fetch_sub(change, Ordering::Relaxed);
                return false;
            }
        }
        let new = Pair::new(stock, room, old.edge.wrapping_add(change));
        self.touch(slot);
        // SAFETY: the row exists; only the lock's holder moves edges.
        let done = unsafe { slot::replace_pair(self.cell(index), slot, old.left, new) } == Stored::Done;
        if done && new.width() != old.width() {
            cells.state.fetch_add(self.ranges(new).wrapping_sub(self.ranges(old)), Ordering::Relaxed);
        }
        if done != (change > 0) {
            cells.edges.fetch_sub(change.wrapping_abs(), Ordering::Relaxed);
        }
        done
    }

    /// The width of a cell, in ranges.
    pub(super) fn ranges(self, pair: Pair) -> u32 {
        pair.width() / self.range()
    }

    /// After a fork in the middle of a motion: recomputes the sums. Edges themselves change by one store.
    fn repair(self) {
        for index in 0..self.row_bytes() / percpu::CELL {
            let _motion = Motion::new(&self, index);
            let (mut edges, mut ranges) = (0i64, 0);
            for slot in self.touched_slots() {
                self.left(index, slot).fetch_and(!MARK, Ordering::Relaxed);
                let pair = pair(self.0, index, slot);
                edges = edges.wrapping_add(pair.edge);
                ranges += self.ranges(pair);
            }
            let cells = self.cells(index);
            cells.edges.store(edges, Ordering::Relaxed);
            let flags = cells.state.load(Ordering::Relaxed) & !Cells::RANGES;
            // Release, as where a flag is set: a thread that reads the flag here sees the same.
            cells.state.store(flags | ranges, Ordering::Release);
        }
    }
}
