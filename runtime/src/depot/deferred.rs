//! What signal handlers could not give back: magazines that wait for the next slow path.

use super::magazine::{Magazine, View};
use machine::sync::{AtomicUsize, Ordering};

/// The magazines, linked. Their objects count as outside of the depot. All-zero memory: there is none.
///
/// Runs at the same time: any thread puts one in, also in signal handlers; a drainer takes all.
#[derive(Debug)]
#[repr(transparent)]
pub(super) struct Deferred(AtomicUsize);

impl Deferred {
    /// Keeps a magazine for the next thread that drains: a signal handler must not wait for the shard that owns a span.
    #[cold]
    pub(super) fn push(&self, magazine: Magazine) {
        let link = |first| {
            magazine.set_link(first);
            Some(magazine.view().top())
        };
        // Release pairs with the acquire in `take`: who sees the magazine sees its link and its objects, or does not
        // see the magazine.
        let _ = self.0.fetch_update(Ordering::Release, Ordering::Relaxed, link);
        magazine.into_top();
    }

    /// Whether there is none.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }

    /// Takes all of them.
    pub(super) fn take(&self) -> impl Iterator<Item = Magazine> {
        let mut next = self.0.swap(0, Ordering::Acquire);
        core::iter::from_fn(move || {
            // SAFETY: written by `push`; the magazine is ours since the exchange.
            let view = (next != 0).then(|| unsafe { View::at(next) })?;
            next = view.next();
            // SAFETY: as above.
            Some(unsafe { Magazine::adopt(view.top()) })
        })
    }
}
