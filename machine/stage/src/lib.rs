//! Where the runtime's tests play: on this computer. The simulated machine's twin has the same functions (`simulated/lib.rs`), so that one
//! source of a test runs on both.

use std::thread;

/// What a thread does.
pub type Job<'a> = Box<dyn FnOnce() + Send + 'a>;

/// Runs a program, as the thread that calls. What there is to choose, the kernel chooses, and not by the seed.
pub fn play<R>(_seed: u64, program: impl FnOnce() -> R) -> R {
    program()
}

/// Runs jobs at the same time, each as a thread of its own; panics if one of them does.
pub fn run(jobs: Vec<Job<'_>>) {
    thread::scope(|scope| {
        let threads: Vec<_> = jobs.into_iter().map(|job| scope.spawn(job)).collect();
        threads.into_iter().for_each(|thread| thread.join().expect("the thread does not panic"));
    });
}
