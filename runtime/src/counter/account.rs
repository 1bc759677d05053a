//! Accounts: the memory that is charged to one owner, up to a limit.
//!
//! The allocator charges large blocks, and magazines of objects when they leave a depot or a span. So the charge is
//! what the program holds plus what lies in the slots' magazines. Before a limit refuses a charge, the allocator drains
//! those magazines and retries. An account's charge is part of its ancestors' charges.
//!
//! Runs at any time in any thread, also in signal handlers and under locks. The algorithm is that of `limit`.

use super::lazy::LazyCounter;
use crate::observe::Events;
use machine::sync::{AtomicPtr, AtomicU64, Ordering};

/// Bytes of one unit: the size of every object is a multiple of it.
const UNIT: usize = 8;
/// In units. See the tally's range.
const RANGE: i32 = 1 << 15;
const ANY: u64 = i64::MAX as u64;

/// An account with a charge, a peak and an optional limit.
#[derive(Debug)]
#[repr(C)]
pub struct Account {
    charge: LazyCounter<RANGE>,
    /// In units.
    limit: AtomicU64,
    peak: Events,
    refused: Events,
    parent: AtomicPtr<Account>,
}

impl Account {
    /// An empty account without a limit. The parent must outlive it.
    pub(crate) fn new(parent: *const Account) -> Self {
        Account {
            charge: LazyCounter::with_range(),
            limit: AtomicU64::new(ANY),
            peak: Events::new(),
            refused: Events::new(),
            parent: AtomicPtr::new(parent.cast_mut()),
        }
    }

    /// The account that is charged for everything that this one is charged for.
    pub fn parent(&self) -> Option<&Account> {
        // SAFETY: the parent outlives its children.
        unsafe { self.parent.load(Ordering::Relaxed).as_ref() }
    }

    fn chain(&self) -> impl Iterator<Item = &Account> {
        core::iter::successors(Some(self), |account| account.parent())
    }

    pub(crate) fn charged(&self) -> u64 {
        self.charge.sum_positive() as u64 * UNIT as u64
    }

    pub(crate) fn peak(&self) -> u64 {
        self.peak.get() * UNIT as u64
    }

    pub(crate) fn limit(&self) -> Option<u64> {
        let limit = self.limit.load(Ordering::Relaxed);
        (limit != ANY).then(|| limit * UNIT as u64)
    }

    /// Sets the limit. If it is below the charge, the account refuses charges until enough memory is freed.
    pub fn set_limit(&self, bytes: Option<u64>) {
        self.limit.store(bytes.map_or(ANY, |bytes| (bytes / UNIT as u64).min(ANY - 1)), Ordering::Relaxed);
    }

    /// Charges that the limit of this account or of an ancestor refused.
    pub fn refused(&self) -> u64 {
        self.refused.get()
    }

    pub(crate) fn count_refusal(&self) {
        self.refused.count();
    }

    /// The topmost of this account and its ancestors that has no room for `bytes`.
    pub(crate) fn without_room(&self, bytes: usize) -> Option<&Account> {
        let needed = bytes.next_multiple_of(UNIT) as u64;
        let is_full =
            |account: &&Self| account.limit().is_some_and(|most| most.saturating_sub(account.charged()) < needed);
        self.chain().filter(is_full).last()
    }

    /// Charges bytes to this account and its ancestors unless a limit refuses. The caller notes the peak once it has
    /// the memory. Until an ancestor refuses, its descendants count the bytes, and may refuse other charges too early.
    pub fn charge(&self, bytes: usize) -> bool {
        let units = bytes.div_ceil(UNIT) as i64;
        for account in self.chain() {
            if !account.add_within_limit(units) {
                self.chain().take_while(|below| !core::ptr::eq(*below, account)).for_each(|below| below.add(-units));
                return false;
            }
        }
        true
    }

    /// Raises the peak of this account and its ancestors to the charge, where it is lower. Exact to one refill.
    pub(crate) fn note_peaks(&self) {
        self.chain().for_each(|account| account.peak.raise(account.charge.sum_positive() as u64));
    }

    fn add_within_limit(&self, units: i64) -> bool {
        let limit = self.limit.load(Ordering::Relaxed);
        if limit == ANY { self.charge.try_add(units).is_ok() } else { self.charge.limited_add(units, limit as i64) }
    }

    /// Charges bytes regardless of limits, or takes them back if negative.
    pub(crate) fn charge_anyway(&self, bytes: isize) {
        let units = bytes / UNIT as isize;
        self.chain().for_each(|account| account.add(units as i64));
        if bytes > 0 {
            self.note_peaks();
        }
    }

    fn add(&self, units: i64) {
        // As in the tally: without memory, the amount is not counted.
        let _ = self.charge.try_add(units);
    }
}
