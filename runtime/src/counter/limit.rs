//! Additions within a limit, when the counter is upgraded.
//!
//! The sum of additions is at most what is in no slot plus Σ edge, and equal to it where no stock is left. A limited
//! addition draws from the stock of its slot if that bound is within the limit: the stock was charged against the limit
//! when it was put there. Otherwise it takes the block's lock, adds to `direct` if the bound stays within the limit,
//! and puts stock into its slot while there is room. Before it refuses, it *closes* all cells, so that no stock is left
//! and the bound is exact. From then on the counter is *tight*: all additions go to `direct`, one atomic operation
//! each, until there is room for several stocks again. So each approach to a limit costs at most one kick.
//!
//! **Closing.** Marking a cell's `left` puts it out of the window. An operation in flight may still commit over the
//! mark. After a restart none is in flight, so a mark that is left stays, and its stock is ours. A lost one is set
//! again.
//!
//! **Never over.** Only the lock's holder raises stock, within the limit, and it checks the bound again after that.
//! `direct` rises by a compare-and-swap from the value that was judged. So a signal handler that interrupts the lock's
//! holder, and works without the lock, finds a bound that is too large rather than too small, and the holder notices
//! its work. A handler refuses if it must not wait for a holder that it did not interrupt.
//!
//! **Why a stale look is harmless.** A thread that saw the bound within the limit draws stock that was put there within
//! the same limit. This holds among additions with the same limit: additions under a larger one, or under none, may
//! have put the stock there.

use super::slots::{Edges, LIMITED, Motion, TIGHT, draw, edges, moving_edges, pair};
use crate::percpu::{Block, MARK, stock, total};
use machine::slot::{self, Mode, Pair, WINDOW};
use machine::sync::Ordering;
use machine::{here, kick};

/// Of all slots that there could ever be.
const MORE_THAN_ALL_STOCK: i64 = 1 << 48;
/// Marking, restarting and looking again: as often at most. Each time somebody must have been in the middle of a draw.
const ROUNDS: usize = 64;

/// With stock in it, a bound of what is near the largest value may lie beyond it, and read as one of the smallest.
fn may_have_wrapped(bound: i64) -> bool {
    bound < i64::MIN + MORE_THAN_ALL_STOCK
}

/// A limit, and what of the counter lies outside of the block.
pub(super) struct Limit<'a> {
    pub(super) most: i64,
    pub(super) outside: &'a dyn Fn() -> i64,
}

impl Limit<'_> {
    /// Whether the sum of additions stays within the limit with `more`, as far as is visible without the slots. The
    /// answer "no" may be wrong while there is stock.
    fn has_room(&self, block: Block, index: usize, direct: i64, more: i64) -> bool {
        let bound = self.bound(block, index, direct);
        if may_have_wrapped(bound) && block.cells(index).opened() > 0 {
            return false;
        }
        i128::from(bound) + i128::from(more) <= i128::from(self.most)
    }

    fn has_room_now(&self, block: Block, index: usize, more: i64) -> bool {
        // Acquire: what is looked at next is looked at later.
        self.has_room(block, index, block.direct(index).load(Ordering::Acquire), more)
    }

    /// Whether stock may stay that the bound has already, though no cell counts as open yet.
    fn has_room_for_stock(&self, block: Block, index: usize) -> bool {
        let bound = self.bound(block, index, block.direct(index).load(Ordering::Acquire));
        !may_have_wrapped(bound) && bound <= self.most
    }

    fn bound(&self, block: Block, index: usize, direct: i64) -> i64 {
        (self.outside)().wrapping_add(direct).wrapping_add(edges(block, index))
    }
}

/// Adds `amount`, which is positive, if what was added stays within the limit; false if not.
#[inline]
pub(super) fn add_within<const RANGE: i32>(block: Block, index: usize, amount: i64, limit: &Limit) -> bool {
    // Acquire pairs with the release in `set_limit`: from then on no stock is raised unjudged.
    let limited = block.cells(index).state.load(Ordering::Acquire) & LIMITED != 0;
    if limited && limit.has_room_now(block, index, 0) && draw::<RANGE>(block, index, amount) {
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
        edges.set_limit(index);
        added = add_direct(block, index, amount, limit);
        if !added && edges.close_all(index) {
            edges.cells(index).state.fetch_or(TIGHT, Ordering::Relaxed);
            added = add_direct(block, index, amount, limit);
        }
        if added {
            edges.loosen(index, amount, limit);
        }
    });
    // A signal handler. If it interrupted the lock's holder, that waits for it to end. Otherwise the holder runs beside
    // it: both may judge by the same bound, and add.
    if held { added } else { block.head().lock.is_mine() && add_direct(block, index, amount, limit) }
}

fn add_direct(block: Block, index: usize, amount: i64, limit: &Limit) -> bool {
    let direct = &block.direct(index);
    // Acquire: what is looked at next is looked at later.
    let within = |seen| limit.has_room(block, index, seen, amount).then(|| seen.wrapping_add(amount));
    // Relaxed: see `slots::add_slow`.
    direct.fetch_update(Ordering::Relaxed, Ordering::Acquire, within).is_ok()
}

impl Edges {
    /// From now on this counter's stock is raised within limits only. Earlier stock is in the sum of edges.
    fn set_limit(&self, index: usize) {
        // Release pairs with the acquire in `add_within`.
        self.cells(index).state.fetch_or(LIMITED, Ordering::Release);
    }

    /// Puts stock into the thread's slot, if there is room; ends tightness if there is room for a few stocks.
    fn loosen(self, index: usize, amount: i64, limit: &Limit) {
        const SOME: i64 = 4;
        let flags = &self.cells(index).state;
        // Stock that could not be taken away again would be room that nobody can use.
        if slot::mode() == Mode::PerThread || kick::register().is_err() {
            return;
        }
        if flags.load(Ordering::Relaxed) & TIGHT != 0 {
            let slots = i64::from(slot::in_use()) + 1;
            if !limit.has_room_now(*self, index, SOME * slots * self.batch()) {
                return;
            }
            flags.fetch_and(!TIGHT, Ordering::Relaxed);
        }
        self.restock(index, amount, |edges| limit.has_room_for_stock(*edges, index));
    }

    /// Takes the stock out of all cells; no thread draws afterwards. False, without effect, if that is impossible.
    fn close_all(self, index: usize) -> bool {
        let _motion = Motion::new(&self, index);
        for _ in 0..ROUNDS {
            let open = |&slot: &u32| self.left(index, slot).load(Ordering::Relaxed) >= WINDOW;
            if self.touched_slots().filter(open).count() == 0 {
                return true;
            }
            for slot in self.touched_slots().filter(open) {
                self.left(index, slot).fetch_or(MARK, Ordering::Relaxed);
            }
            if kick::restart_all().is_err() {
                self.unmark_all(index);
                return false;
            }
            self.settle(index);
        }
        self.unmark_all(index);
        false
    }

    /// After a restart: what is still marked is closed.
    fn settle(self, index: usize) {
        for slot in self.touched_slots() {
            let old = pair(*self, index, slot);
            if old.left & MARK != 0 {
                let closed = Pair { left: 0, edge: total(old) };
                // SAFETY: the cell is marked, no operation on it is in flight, and we have the lock.
                unsafe { slot::store_pair(self.cell(index), slot, closed) };
                self.cells(index).state.fetch_sub(1, Ordering::Relaxed);
                self.cells(index).edges.fetch_sub(stock(old), Ordering::Relaxed);
            }
        }
    }

    fn unmark_all(self, index: usize) {
        for slot in self.touched_slots() {
            self.left(index, slot).fetch_and(!MARK, Ordering::Relaxed);
        }
    }
}
