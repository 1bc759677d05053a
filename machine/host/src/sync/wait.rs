//! Waiting for a word to change, and waking waiters.

use super::AtomicU32;
use crate::syscall;

const SECOND_NS: u64 = 1_000_000_000;

/// Sleeps while `word` is `expected`, for at most `limit_ns`, until another thread wakes it. May return early.
///
/// Without a limit, the kernel would resume a wait in a child that a signal handler forked, where no thread wakes us.
pub fn wait(word: &AtomicU32, expected: u32, limit_ns: u64) {
    let limit = [(limit_ns / SECOND_NS) as i64, (limit_ns % SECOND_NS) as i64];
    let arguments = [word.as_ptr() as usize, syscall::FUTEX_WAIT_PRIVATE, expected as usize, &raw const limit as usize];
    // SAFETY: the kernel reads the word and the limit, which outlive the call. Our caller looks again in any case.
    let _ = unsafe { syscall::call(syscall::FUTEX, arguments) };
}

/// Wakes one waiter.
#[cold]
pub fn wake_one(word: &AtomicU32) {
    wake(word, 1);
}

/// Wakes all waiters.
#[cold]
pub fn wake_all(word: &AtomicU32) {
    wake(word, i32::MAX as usize);
}

fn wake(word: &AtomicU32, most: usize) {
    // SAFETY: wakes by address; nothing is read or written there.
    let _ = unsafe { syscall::call(syscall::FUTEX, [word.as_ptr() as usize, syscall::FUTEX_WAKE_PRIVATE, most]) };
}
