//! Additions within a limit, when the counter is upgraded.
//!
//! The *bound* is what lies in no slot plus Σ edge. The sum of additions is at most the bound, and equal to it when no
//! stock is left. While the bound is within the limit, a limited addition draws from the stock of its slot: the stock
//! was charged against the limit when it was put there. Otherwise it takes the block's lock, adds to `direct` if the
//! bound stays within the limit, and puts stock into its slot while there is room. Before it refuses, it *closes* all
//! cells: no stock is left, and the bound is exact. From then on the counter is *tight*: each addition is one atomic
//! operation on `direct`, until there is room for several stocks. So an approach to a limit costs one kick.
//!
//! **Closing.** A mark in a cell's `left` puts the room below zero. An operation in flight may still commit over the
//! mark. After a restart none is in flight. Then the lock's holder takes the stock of marked cells, and repeats lost
//! marks.
//!
//! **Never over.** Only the lock's holder raises stock, within the limit, and it checks the bound again after that.
//! `direct` rises by a compare-and-swap from the value that was judged. A signal handler that interrupts the lock's
//! holder works without the lock. It finds a bound that is too large rather than too small, and the holder notices its
//! additions. A handler refuses if it would have to wait for a holder that it did not interrupt.
//!
//! **A stale look is harmless** among additions with one limit: the stock that a thread draws was put there within it.

use super::slots::{Edges, LIMITED, Motion, TIGHT, draw, edges, moving_edges, pair};
use crate::percpu::Block;
use machine::slot::{self, MARK, Mode, Pair};
use machine::sync::Ordering;
use machine::{here, kick};

/// More than the stock of all possible slots.
const MORE_THAN_ALL_STOCK: i64 = 1 << 48;
/// Most rounds of marking, restarting and checking. A round fails only if a thread was in the middle of a draw.
const ROUNDS: usize = 64;

/// With stock in it, a bound near the largest value may have wrapped to one near the smallest.
fn may_have_wrapped(bound: i64) -> bool {
    bound < i64::MIN + MORE_THAN_ALL_STOCK
}

/// A limit, and the part of the counter outside of the block.
pub(super) struct Limit<'a> {
    pub(super) most: i64,
    pub(super) outside: &'a dyn Fn() -> i64,
}

impl Limit<'_> {
    /// Whether the sum of additions stays within the limit with `more`. False may be wrong while there is stock.
    fn has_room(&self, block: Block, index: usize, direct: i64, more: i64) -> bool {
        let bound = self.bound(block, index, direct);
        if may_have_wrapped(bound) && block.cells(index).ranges() > 0 {
            return false;
        }
        i128::from(bound) + i128::from(more) <= i128::from(self.most)
    }

    fn has_room_now(&self, block: Block, index: usize, more: i64) -> bool {
        // Acquire: the later reads come later.
        self.has_room(block, index, block.direct(index).load(Ordering::Acquire), more)
    }

    /// Whether stock may stay that the bound already includes, though no cell counts as open yet.
    fn has_room_for_stock(&self, block: Block, index: usize) -> bool {
        let bound = self.bound(block, index, block.direct(index).load(Ordering::Acquire));
        !may_have_wrapped(bound) && bound <= self.most
    }

    fn bound(&self, block: Block, index: usize, direct: i64) -> i64 {
        (self.outside)().wrapping_add(direct).wrapping_add(edges(block, index))
    }
}

/// Adds `amount`, which is positive, and returns true if the sum stays within the limit.
#[inline]
pub(super) fn add_within(block: Block, index: usize, amount: i64, limit: &Limit) -> bool {
    // Acquire pairs with the release in `add_slow`: from then on all stock is raised within limits.
    let limited = block.cells(index).state.load(Ordering::Acquire) & LIMITED != 0;
    if limited && limit.has_room_now(block, index, 0) && draw(block, index, amount) {
        return true;
    }
    add_slow(block, index, amount, limit)
}

#[cold]
#[inline(never)]
fn add_slow(block: Block, index: usize, amount: i64, limit: &Limit) -> bool {
    crate::percpu::enter();
    let mut added = false;
    let held = moving_edges(block, here!(), |edges| {
        // From now on this counter's stock is raised within limits only. The sum of edges includes earlier stock.
        // Release pairs with the acquire in `add_within`.
        edges.cells(index).state.fetch_or(LIMITED, Ordering::Release);
        added = add_direct(block, index, amount, limit);
        if !added && edges.close_all(index) {
            edges.cells(index).state.fetch_or(TIGHT, Ordering::Relaxed);
            added = add_direct(block, index, amount, limit);
        }
        if added {
            edges.loosen(index, limit);
        }
    });
    // Not held: this is a signal handler. If it interrupted the lock's holder, the holder waits for it. Otherwise both
    // run at once, and may both judge by one bound and add. So then it refuses.
    if held { added } else { block.head().lock.is_mine() && add_direct(block, index, amount, limit) }
}

fn add_direct(block: Block, index: usize, amount: i64, limit: &Limit) -> bool {
    // Acquire: the later reads come later.
    let within = |seen| limit.has_room(block, index, seen, amount).then(|| seen.wrapping_add(amount));
    // Relaxed: see `slots::add_slow`.
    block.direct(index).fetch_update(Ordering::Relaxed, Ordering::Acquire, within).is_ok()
}

impl Edges {
    /// Puts stock into the thread's slot if there is room. Ends tightness if there is room for a few stocks.
    fn loosen(self, index: usize, limit: &Limit) {
        const SOME: i64 = 4;
        let batch = self.range() / 2;
        let flags = &self.cells(index).state;
        // The thread must be able to collect stock again; otherwise its room would be lost.
        if slot::mode() == Mode::PerThread || kick::register().is_err() {
            return;
        }
        if flags.load(Ordering::Relaxed) & TIGHT != 0 {
            let slots = i64::from(slot::in_use()) + 1;
            if !limit.has_room_now(*self, index, SOME * slots * i64::from(batch)) {
                return;
            }
            flags.fetch_and(!TIGHT, Ordering::Relaxed);
        }
        self.restock(index, 0, |_| [batch; 2], |edges| limit.has_room_for_stock(*edges, index));
    }

    /// Takes the stock out of all cells; no thread draws afterwards. Returns false, without effect, if it cannot.
    fn close_all(self, index: usize) -> bool {
        let _motion = Motion::new(&self, index);
        for _ in 0..ROUNDS {
            let open = |&slot: &u32| self.left(index, slot).load(Ordering::Relaxed) != 0;
            if self.touched_slots().filter(open).count() == 0 {
                return true;
            }
            for slot in self.touched_slots().filter(open) {
                self.left(index, slot).fetch_or(MARK, Ordering::Relaxed);
            }
            if kick::restart_all().is_err() {
                break;
            }
            self.settle(index);
        }
        for slot in self.touched_slots() {
            self.left(index, slot).fetch_and(!MARK, Ordering::Relaxed);
        }
        false
    }

    /// After a restart: closes the cells that are still marked.
    fn settle(self, index: usize) {
        for slot in self.touched_slots() {
            let old = pair(*self, index, slot);
            if old.left & MARK != 0 {
                let closed = Pair::new(0, 0, old.total());
                // SAFETY: the cell is marked, no operation on it is in flight, and this thread has the lock.
                unsafe { slot::store_pair(self.cell(index), slot, closed) };
                self.cells(index).state.fetch_sub(self.ranges(old), Ordering::Relaxed);
                self.cells(index).edges.fetch_sub(old.stock().into(), Ordering::Relaxed);
            }
        }
    }
}
