//! Accounts: what the objects of some caches, and large blocks, cost somebody, up to a limit.
//!
//! What is charged are magazines of objects, when they leave a depot or a span, and large blocks. So the charge is what
//! the program holds together with what lies in the slots' magazines; whoever is refused has those emptied, and tries
//! again. Each account may have a parent, which is charged for all that its children are.
//!
//! Runs at the same time: any thread, also in signal handlers, and under any lock. The algorithm is that of the limited
//! lazy counter; see `limit`.

use super::lazy::LazyCounter;
use crate::observe::Events;
use machine::sync::{AtomicPtr, AtomicU64, Ordering};

/// Bytes are counted in these: every object is a multiple of it.
const UNIT: usize = 8;
/// In units: see the tally's.
const RANGE: i32 = 1 << 15;
/// No limit.
const ANY: u64 = i64::MAX as u64;

/// The account.
#[derive(Debug)]
#[repr(C)]
pub struct Account {
    charge: LazyCounter<RANGE>,
    /// In units.
    limit: AtomicU64,
    peak: Events,
    refused: Events,
    /// Does not change.
    parent: AtomicPtr<Account>,
}

impl Account {
    /// An empty one, without a limit. The parent lives longer.
    pub(crate) fn new(parent: *const Account) -> Self {
        Account {
            charge: LazyCounter::with_range(),
            limit: AtomicU64::new(ANY),
            peak: Events::new(),
            refused: Events::new(),
            parent: AtomicPtr::new(parent.cast_mut()),
        }
    }

    /// The account that is charged for what this one is.
    pub fn parent(&self) -> Option<&Account> {
        // SAFETY: it lives longer.
        unsafe { self.parent.load(Ordering::Relaxed).as_ref() }
    }

    /// This one, its parent, and so on.
    fn chain(&self) -> impl Iterator<Item = &Account> {
        core::iter::successors(Some(self), |account| account.parent())
    }

    /// Bytes that are charged: exact at rest.
    pub fn charged(&self) -> u64 {
        self.charge.sum_positive() as u64 * UNIT as u64
    }

    /// The most bytes that were charged.
    pub fn peak(&self) -> u64 {
        self.peak.get() * UNIT as u64
    }

    /// The limit in bytes, if there is one.
    pub fn limit(&self) -> Option<u64> {
        let limit = self.limit.load(Ordering::Relaxed);
        (limit != ANY).then(|| limit * UNIT as u64)
    }

    /// Sets the limit, also below what is charged: then nothing more is, until enough came back.
    pub fn set_limit(&self, bytes: Option<u64>) {
        self.limit.store(bytes.map_or(ANY, |bytes| (bytes / UNIT as u64).min(ANY - 1)), Ordering::Relaxed);
    }

    /// Charges that a limit refused, of this account or of one above.
    pub fn refused(&self) -> u64 {
        self.refused.get()
    }

    /// Counts one.
    pub fn count_refusal(&self) {
        self.refused.count();
    }

    /// The topmost account, from this one upwards, that has no room for so many bytes.
    pub fn without_room(&self, bytes: usize) -> Option<&Account> {
        self.chain().filter(|account| account.room() < bytes.next_multiple_of(UNIT) as u64).last()
    }

    /// Bytes that could be charged, at some moment.
    fn room(&self) -> u64 {
        self.limit().map_or(u64::MAX, |limit| limit.saturating_sub(self.charged()))
    }

    /// Charges bytes, if no limit is in the way; the peak is for whoever then has the memory to note. Until a limit
    /// above has refused them, those below count them: who asks for the rest meanwhile may be refused too early.
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

    /// Notes what is charged as the peak, if it is; here and above.
    pub fn note_peaks(&self) {
        self.chain().for_each(Account::note_peak);
    }

    fn add_within_limit(&self, units: i64) -> bool {
        let limit = self.limit.load(Ordering::Relaxed);
        if limit == ANY { self.charge.try_add(units).is_ok() } else { self.charge.limited_add(units, limit as i64) }
    }

    /// Charges bytes that are the account's whatever its limit says; or takes them back.
    pub fn charge_anyway(&self, bytes: isize) {
        let units = bytes / UNIT as isize;
        self.chain().for_each(|account| account.add(units as i64));
        if bytes > 0 {
            self.note_peaks();
        }
    }

    fn add(&self, units: i64) {
        // As in the tally: what cannot be counted, for lack of memory, is not.
        let _ = self.charge.try_add(units);
    }

    /// The peak is exact to one refill: it looks at each slot's part.
    fn note_peak(&self) {
        self.peak.raise(self.charge.sum_positive() as u64);
    }
}
