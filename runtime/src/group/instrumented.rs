//! Futures that run inside a group: [`Instrumented`].
//!
//! The thread enters the group for each poll and leaves it before the poll returns, so between two polls no thread is
//! inside, and each poll may be on another thread.

use super::owned::Group;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};
use pin_project_lite::pin_project;

pin_project! {
    /// A future that is polled and dropped inside a group. [`Group::instrument`] makes it.
    #[derive(Debug)]
    #[must_use = "a future does nothing unless it is awaited or polled"]
    pub struct Instrumented<'g, F> {
        group: &'g Group<'g>,
        // There until the drop.
        #[pin]
        future: Option<F>,
    }

    impl<F> PinnedDrop for Instrumented<'_, F> {
        fn drop(this: Pin<&mut Self>) {
            let mut this = this.project();
            // SAFETY: by the caller of `instrument`.
            unsafe { this.group.within(|| this.future.set(None)) }
        }
    }
}

impl<'p> Group<'p> {
    /// Makes a future whose polls, and whose drop, run inside the group, as [`within`](Self::within) runs a closure.
    /// The thread leaves the group at the end of each poll, also if the poll panics. Groups may nest: the innermost one
    /// is charged.
    ///
    /// ```
    /// use commensal::{Commensal, group::Group};
    /// use std::{future::Future, pin::pin, task::{Context, Poll, Waker}};
    ///
    /// #[global_allocator]
    /// static GLOBAL: Commensal = Commensal;
    ///
    /// async fn count(line: &str) -> usize {
    ///     let words: Vec<&str> = line.split(' ').collect();
    ///     words.len()
    /// }
    ///
    /// let tenant = Group::new("tenant")?;
    /// // SAFETY: the number is no memory of the group, and `count` leaves none elsewhere.
    /// let counting = pin!(unsafe { tenant.instrument(count("charged to the tenant")) });
    /// assert_eq!(counting.poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(4));
    /// assert!(tenant.peak() > 0);
    /// # Ok::<(), commensal::group::Refused>(())
    /// ```
    ///
    /// The future borrows the group. For a runtime that demands `'static`, an outer future owns the group, in an `Arc`:
    /// `async move { unsafe { group.instrument(work) }.await }`.
    ///
    /// Each poll costs an entry and a leave.
    ///
    /// # Safety
    /// As for [`within`](Self::within): memory that is allocated in polls is not used after the group is destroyed.
    /// Such memory may be in the future's output, in channels, and in what a runtime notes of the task, such as timers.
    pub unsafe fn instrument<F: Future>(&self, future: F) -> Instrumented<'_, F> {
        Instrumented { group: self, future: Some(future) }
    }
}

impl<F: Future> Future for Instrumented<'_, F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let future = this.future.as_pin_mut().expect("a future is there until it is dropped");
        // SAFETY: by the caller of `instrument`.
        unsafe { this.group.within(|| future.poll(context)) }
    }
}
