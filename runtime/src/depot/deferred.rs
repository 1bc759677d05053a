//! Deferred magazines: objects that signal handlers could not return. They wait for the next slow path.

use super::magazine::{Magazine, View};
use machine::sync::{AtomicUsize, Ordering};

/// A list of magazines, whose objects count as outside of the depot. All-zero memory: empty. Runs at the same time: any
/// thread pushes, also in signal handlers; a drainer takes all.
#[derive(Debug)]
#[repr(transparent)]
pub(super) struct Deferred(AtomicUsize);

impl Deferred {
    /// Defers a magazine to the next drain, as a signal handler must not wait for a shard.
    #[cold]
    pub(super) fn push(&self, magazine: Magazine) {
        let link = |first| {
            magazine.set_link(first);
            Some(magazine.view().top())
        };
        // Release pairs with the acquire in `take`: a thread that sees the magazine sees its link and its objects.
        let _ = self.0.fetch_update(Ordering::Release, Ordering::Relaxed, link);
        magazine.into_top();
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }

    pub(super) fn take(&self) -> impl Iterator<Item = Magazine> {
        let mut next = self.0.swap(0, Ordering::Acquire);
        core::iter::from_fn(move || {
            // SAFETY: `push` wrote the word, and the exchange made the magazine ours.
            let view = (next != 0).then(|| unsafe { View::at(next) })?;
            next = view.next();
            // SAFETY: as above.
            Some(unsafe { Magazine::adopt(view.top()) })
        })
    }
}
