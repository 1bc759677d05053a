//! A signal handler interrupts a thread that waits for a lock, and forks. In the child the wait goes on. The holder
//! does not exist there and will wake no thread: the waiter has to find that out by itself.
//!
//! This is not among the bodies, because the child continues interrupted code, as only real processes can.

use conformance::sync::Middle;
use machine::sync::{Acquired, AtomicBool, AtomicU32, Contention, Ordering, Site};
use machine::{here, thread};
use std::fs;
use std::process;
use std::ptr;
use std::sync::Mutex;
use std::sync::atomic::AtomicI32;
use std::time::Duration;

type Acquire = fn(&Middle, &Contention, Site) -> Acquired;

/// Far more than the second after which a wait looks again, in seconds.
const PATIENCE: u32 = 600;
const PATIENCE_IF_PLANTED: u32 = 2;

/// The child that the handler made; 0: none yet.
static CHILD: AtomicI32 = AtomicI32::new(0);
static LIMIT: AtomicU32 = AtomicU32::new(0);
/// The tests share the signal and the child.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

extern "C" fn fork_here(_: libc::c_int) {
    // SAFETY: the child goes on in what was interrupted, and ends soon after.
    match unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) } {
        // SAFETY: no effects on memory.
        0 => _ = unsafe { libc::alarm(LIMIT.load(Ordering::Relaxed)) },
        child => CHILD.store(child as i32, Ordering::Release),
    }
}

/// How the lock was acquired in the child of a thread that slept on it; none if that took too long.
fn acquired_in_a_child(acquire: Acquire, patience: u32) -> Option<Acquired> {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    assert!(thread::notice_forks());
    CHILD.store(0, Ordering::Relaxed);
    LIMIT.store(patience, Ordering::Relaxed);
    // SAFETY: the handler makes system calls, and stores.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = fork_here as *const () as usize;
        action.sa_flags = libc::SA_RESTART;
        libc::sigaction(libc::SIGUSR2, &action, ptr::null_mut());
    }
    let (lock, contention) = (Middle::new(), Contention::new());
    let (held, done, waiter) = (AtomicBool::new(false), AtomicBool::new(false), AtomicI32::new(0));
    let parent = process::id();
    let mut ended = None;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            thread::enter();
            lock.acquire(&contention, here!());
            held.store(true, Ordering::Release);
            wait_until(|| done.load(Ordering::Acquire));
            // SAFETY: acquired above.
            unsafe { lock.release() };
        });
        scope.spawn(|| {
            wait_until(|| held.load(Ordering::Acquire));
            thread::enter();
            // SAFETY: asks, changes nothing.
            waiter.store(unsafe { libc::gettid() }, Ordering::Release);
            let outcome = acquire(&lock, &contention, here!());
            if process::id() != parent {
                // SAFETY: nothing of the parent's is to be finished here.
                unsafe { libc::_exit(outcome as i32) };
            }
            assert_eq!(outcome, Acquired::Clean, "in the parent, where the holder lives");
            // SAFETY: acquired above.
            unsafe { lock.release() };
        });
        wait_until(|| waiter.load(Ordering::Acquire) != 0);
        let thread = waiter.load(Ordering::Relaxed);
        wait_until(|| sleeps(thread));
        // SAFETY: the thread is one of ours.
        unsafe { libc::syscall(libc::SYS_tgkill, parent, thread, libc::SIGUSR2) };
        wait_until(|| CHILD.load(Ordering::Acquire) != 0);
        ended = exit_status(CHILD.load(Ordering::Relaxed));
        done.store(true, Ordering::Release);
    });
    let outcomes = [Acquired::Clean, Acquired::Abandoned, Acquired::WouldDeadlock];
    ended.map(|status| outcomes.into_iter().find(|&it| it as i32 == status).expect("the status is an outcome"))
}

fn wait_until(condition: impl Fn() -> bool) {
    while !condition() {
        std::thread::sleep(Duration::from_micros(100));
    }
}

/// Whether the kernel says that a thread of ours is asleep.
fn sleeps(thread: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/self/task/{thread}/stat")).expect("the thread lives");
    stat.rsplit(") ").next().is_some_and(|fields| fields.starts_with('S'))
}

fn exit_status(child: i32) -> Option<i32> {
    let mut status = 0;
    // SAFETY: the child is ours. Signals may interrupt.
    while unsafe { libc::waitpid(child, &mut status, 0) } < 0 {}
    let is_late = libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGALRM;
    assert!(is_late || libc::WIFEXITED(status), "the child died of {status}");
    (!is_late).then(|| libc::WEXITSTATUS(status))
}

#[test]
fn wait_interrupted_by_a_fork_goes_on_in_the_child() {
    assert_eq!(acquired_in_a_child(Middle::acquire, PATIENCE), Some(Acquired::Abandoned));
}

#[test]
fn planted_a_wait_until_somebody_wakes_it_is_found() {
    fn acquire(lock: &Middle, _: &Contention, _: Site) -> Acquired {
        const WAITERS: u32 = 1 << 31;
        // SAFETY: a lock is transparent over its word.
        let word: &AtomicU32 = unsafe { &*(&raw const *lock).cast() };
        while !lock.try_acquire() {
            let held = word.fetch_or(WAITERS, Ordering::Relaxed) | WAITERS;
            let at = (&raw const *word).cast::<u32>();
            // SAFETY: the kernel reads the word.
            unsafe {
                libc::syscall(libc::SYS_futex, at, libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG, held, ptr::null::<u8>())
            };
        }
        Acquired::Clean
    }
    assert_eq!(acquired_in_a_child(acquire, PATIENCE_IF_PLANTED), None);
}
