//! Futures inside groups: each poll, and the drop, is inside the future's group, and nothing else is.

mod common;

use allocator_api2::vec;
use commensal_runtime::Commensal;
use commensal_runtime::group::{Core, Group, Instrumented, innermost};
use commensal_runtime::heap;
use common::child::{alone, in_both_modes};
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::panic::{self, AssertUnwindSafe};
use std::pin::Pin;
use std::sync::Mutex;
use std::task::{Context, Poll, Waker};
use std::thread;

fn group(name: &str) -> Group<'static> {
    Group::new(name).expect("there is memory")
}

/// The name of the group that the thread is inside.
fn current() -> Option<&'static str> {
    // SAFETY: the groups of these tests outlive each thread's stay.
    unsafe { innermost().as_ref() }.map(Core::name)
}

/// Pending once.
fn pause() -> impl Future<Output = ()> {
    let mut is_over = false;
    poll_fn(move |_| if std::mem::replace(&mut is_over, true) { Poll::Ready(()) } else { Poll::Pending })
}

/// In the group; all that it allocates is dropped with it.
fn instrument<'g, F: Future>(group: &'g Group<'_>, future: F) -> Pin<Box<Instrumented<'g, F>>> {
    // SAFETY: as said.
    Box::pin(unsafe { group.instrument(future) })
}

fn poll<F: Future>(future: &mut Pin<Box<F>>) -> Poll<F::Output> {
    future.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

/// Allocates in each poll, in the group of this name.
async fn work(name: &str, polls: usize) -> usize {
    let mut numbers = vec::Vec::new_in(Commensal);
    for _ in 0..polls {
        assert_eq!(current(), Some(name));
        numbers.extend(0..1000_u64);
        pause().await;
    }
    numbers.len()
}

/// Says in which group it was dropped.
struct Dropped<'a>(&'a Mutex<Vec<Option<&'static str>>>);

impl Drop for Dropped<'_> {
    fn drop(&mut self) {
        self.0.lock().expect("no panic").push(current());
    }
}

/// Planted bugs that were seen here: a poll outside of the group; a thread that stays inside after a poll.
#[test]
fn futures_polled_on_several_threads_are_each_charged_to_their_group() {
    in_both_modes(|| {
        const POLLS: usize = 50;
        let names = ["a", "b", "c", "d", "e"];
        let groups = names.map(group);
        let futures = groups.iter().zip(names).map(|(group, name)| instrument(group, work(name, POLLS)));
        let (queue, lengths) = (Mutex::new(futures.collect::<VecDeque<_>>()), Mutex::new(Vec::new()));
        let run = || {
            loop {
                let next = queue.lock().expect("no panic").pop_front();
                let Some(mut future) = next else { return };
                let outcome = poll(&mut future);
                assert_eq!(current(), None, "the thread is inside a group after a poll");
                match outcome {
                    Poll::Pending => queue.lock().expect("no panic").push_back(future),
                    Poll::Ready(length) => lengths.lock().expect("no panic").push(length),
                }
            }
        };
        thread::scope(|scope| {
            let threads: Vec<_> = (0..3).map(|_| scope.spawn(run)).collect();
            threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
        });
        assert_eq!(lengths.into_inner().expect("no panic"), [POLLS * 1000; 5]);
        drop(queue);
        heap::trim(0);
        for group in groups {
            assert!(group.peak() >= POLLS as u64 * 8000, "{} bytes at most were charged", group.peak());
            assert_eq!((group.charged(), group.statistics().inside), (0, 0));
            group.destroy().expect("no thread is inside");
        }
    });
}

/// Planted bug that was seen here: a leave that a panic skips.
#[test]
fn poll_that_panics_leaves_the_group() {
    alone(|| {
        let (tenant, drops) = (group("tenant"), Mutex::new(Vec::new()));
        let mut future = instrument(&tenant, async {
            let _dropped = Dropped(&drops);
            pause().await;
            panic::resume_unwind(Box::new("planned"));
        });
        assert!(poll(&mut future).is_pending());
        let outcome = panic::catch_unwind(AssertUnwindSafe(|| poll(&mut future)));
        assert_eq!(outcome.expect_err("it panics").downcast_ref(), Some(&"planned"));
        assert_eq!((current(), tenant.statistics().inside), (None, 0));
        drop(future);
        assert_eq!(*drops.lock().expect("no panic"), [Some("tenant")]);
        tenant.destroy().expect("no thread is inside");
    });
}

#[test]
fn future_in_a_future_is_inside_the_inner_group() {
    alone(|| {
        let (outer, inner, thread) = (group("outer"), group("inner"), group("thread"));
        let mut future = instrument(&outer, async {
            assert_eq!(instrument(&inner, work("inner", 3)).await, 3000);
            assert_eq!(current(), Some("outer"));
            work("outer", 2).await
        });
        let mut polls = 0;
        // SAFETY: nothing is allocated in this group.
        let length = unsafe {
            thread.within(|| {
                loop {
                    polls += 1;
                    let outcome = poll(&mut future);
                    assert_eq!(current(), Some("thread"));
                    if let Poll::Ready(length) = outcome {
                        break length;
                    }
                }
            })
        };
        assert_eq!((length, polls, thread.peak()), (2000, 6, 0));
        assert!(outer.peak() >= 16_000 && inner.peak() >= 24_000);
    });
}

/// Planted bug that was seen here: an inner future that is dropped outside of the group.
#[test]
fn future_is_dropped_inside_its_group() {
    alone(|| {
        let (tenant, drops) = (group("tenant"), Mutex::new(Vec::new()));
        let waiting = |dropped| async move {
            pause().await;
            drop(dropped);
        };
        drop(instrument(&tenant, waiting(Dropped(&drops))));
        let mut begun = instrument(&tenant, waiting(Dropped(&drops)));
        assert!(poll(&mut begun).is_pending());
        thread::scope(|scope| drop(scope.spawn(|| drop(begun))));
        let dropped = Dropped(&drops);
        let mut over = instrument(&tenant, poll_fn(move |_| Poll::Ready(_ = &dropped)));
        assert!(poll(&mut over).is_ready());
        assert_eq!(drops.lock().expect("no panic").len(), 2);
        drop(over);
        assert_eq!(*drops.lock().expect("no panic"), [Some("tenant"); 3]);
        assert_eq!((current(), tenant.statistics().inside), (None, 0));
    });
}
