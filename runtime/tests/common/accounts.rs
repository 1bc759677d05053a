//! What threads say about their additions, so that others can judge a counter while it changes.
//!
//! Whoever adds says so before and afterwards. What a reader sees must have in it all that was complete before it began, nothing that was
//! not begun when it had ended, and of the rest anything: so what is added and what is subtracted are told apart.
//!
//! ```text
//!   added and complete before − subtracted and begun after  ≤  seen  ≤  added and begun after − subtracted and complete before
//! ```

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicI64, Ordering};

#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Account {
    added: Sums,
    subtracted: Sums,
}

#[derive(Debug, Default)]
struct Sums {
    begun: AtomicI64,
    complete: AtomicI64,
}

impl Sums {
    const fn none() -> Self {
        Sums { begun: AtomicI64::new(0), complete: AtomicI64::new(0) }
    }
}

impl Account {
    pub const fn new() -> Self {
        Account { added: Sums::none(), subtracted: Sums::none() }
    }

    /// Has `amount` added by `add`, and says so.
    pub fn add(&self, amount: i64, add: impl FnOnce(i64)) {
        self.try_add(amount, |amount| {
            add(amount);
            true
        });
    }

    /// The same with an addition that says whether it was made.
    pub fn try_add(&self, amount: i64, add: impl FnOnce(i64) -> bool) -> bool {
        let sums = if amount < 0 { &self.subtracted } else { &self.added };
        // SeqCst here and below, although the order of one thread's stores would do: a test has no time to be clever.
        sums.begun.fetch_add(amount.abs(), Ordering::SeqCst);
        let added = add(amount);
        if added {
            sums.complete.fetch_add(amount.abs(), Ordering::SeqCst);
        } else {
            sums.begun.fetch_sub(amount.abs(), Ordering::SeqCst);
        }
        added
    }

    pub fn total(&self) -> i64 {
        self.added.complete.load(Ordering::SeqCst) - self.subtracted.complete.load(Ordering::SeqCst)
    }
}

pub fn total(accounts: &[Account]) -> i64 {
    accounts.iter().map(Account::total).sum()
}

/// Looks, and says between what bounds that must be which is seen.
pub fn look<R>(accounts: &[Account], look: impl FnOnce() -> R) -> (R, RangeInclusive<i64>) {
    let all =
        |which: fn(&Account) -> &AtomicI64| accounts.iter().map(|it| which(it).load(Ordering::SeqCst)).sum::<i64>();
    let (added, subtracted) = (all(|it| &it.added.complete), all(|it| &it.subtracted.complete));
    let seen = look();
    let bounds = added - all(|it| &it.subtracted.begun)..=all(|it| &it.added.begun) - subtracted;
    (seen, bounds)
}
