//! Where tests of the runtime run: on this computer. The simulated machine has the same two functions, so that one source of a test runs on both.

/// Runs a program, as the thread that calls. The kernel makes all choices; the simulated machine makes them by the seed.
pub fn play<R>(_seed: u64, program: impl FnOnce() -> R) -> R {
    program()
}

/// Runs jobs at the same time, by what the caller has for that on this computer: this package has no threads and no heap.
pub fn run<J>(jobs: J, natively: impl FnOnce(J)) {
    natively(jobs);
}
