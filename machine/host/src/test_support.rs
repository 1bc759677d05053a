//! Runs the runtime's tests on this computer. The simulated machine has the same functions.

/// Runs a program on the calling thread. The kernel makes all choices; on the simulated machine the seed does.
pub fn play<R>(_seed: u64, program: impl FnOnce() -> R) -> R {
    program()
}

/// Runs jobs concurrently, by the caller's means: this package has no threads and no heap.
pub fn run<J>(jobs: J, natively: impl FnOnce(J)) {
    natively(jobs);
}
