//! A fork child has what was counted, and counts on by handles and by keys that its thread knows, while other threads of the parent count.
//!
//! Planted, and found here: increments that a thread gathers, and adds to the counter sixteen at a time.

use commensal_metrics::Builder;
use metrics::{counter, gauge, with_local_recorder};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

const CHILDREN: u32 = 60;

#[test]
fn a_child_counts_on() {
    let recorder = Builder::new().build().expect("the usual settings are good");
    let (requests, guests) = (recorder.direct_counter("requests"), recorder.direct_gauge("guests"));
    let (stop, begun, complete) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                begun.fetch_add(1, Ordering::SeqCst);
                requests.increment(1);
                complete.fetch_add(1, Ordering::SeqCst);
            }
        });
        with_local_recorder(&recorder, || {
            let handle = counter!("requests");
            gauge!("guests").set(2.5);
            for _ in 0..CHILDREN {
                let least = complete.load(Ordering::SeqCst);
                // SAFETY: the child allocates nothing, takes no lock and ends at once.
                let child = unsafe { libc::fork() };
                if child == 0 {
                    let inherited = requests.value();
                    let is_inherited = (least..=begun.load(Ordering::SeqCst)).contains(&inherited);
                    (0..500).for_each(|_| handle.increment(1));
                    (0..500).for_each(|_| counter!("requests").increment(2));
                    gauge!("guests").increment(1.0);
                    let is_counted = requests.value() == inherited + 1500 && guests.value() == 3.5;
                    // SAFETY: ends the process.
                    unsafe { libc::_exit(i32::from(!is_inherited) + 2 * i32::from(!is_counted)) };
                }
                let mut status = 0;
                // SAFETY: the child is ours, the status has a place.
                assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
                assert_eq!(status, 0, "inherited wrongly 256, counted wrongly 512, a signal below that");
            }
        });
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(guests.value(), 2.5);
    assert_eq!(requests.value(), complete.load(Ordering::SeqCst));
}
