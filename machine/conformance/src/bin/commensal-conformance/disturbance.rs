//! What happens to threads while they work: they are moved from CPU to CPU, and interrupted by signals.

use conformance::Job;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, Ordering};
use std::time::Duration;

/// Between two disturbances. Sleeping takes longer than asked for, some 60 µs.
const REST: Duration = Duration::from_micros(10);

/// The threads that may be disturbed, by the kernel's number; zero: not yet, or not any more.
pub struct Targets(Vec<AtomicI32>);

impl Targets {
    /// Room for `count` threads.
    pub fn new(count: usize) -> Self {
        Targets((0..count).map(|_| AtomicI32::new(0)).collect())
    }

    /// Runs a job on the calling thread, which may be disturbed meanwhile.
    pub fn during(&self, number: usize, job: Job<'_>) {
        // SAFETY: asks, changes nothing.
        self.0[number].store(unsafe { libc::gettid() }, Ordering::Release);
        job();
        self.0[number].store(0, Ordering::Release);
    }
}

/// The CPUs that this process may run on.
pub fn own_cpus() -> Vec<usize> {
    // SAFETY: zeroes are an empty set, of the size that is said.
    let set = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::sched_getaffinity(0, size_of_val(&set), &mut set);
        set
    };
    // SAFETY: asks, within the set's size.
    let cpus: Vec<usize> =
        (0..libc::CPU_SETSIZE as usize).filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) }).collect();
    if cpus.is_empty() { vec![0] } else { cpus }
}

/// Lets a thread run on these CPUs only; 0 is the calling one. One that is dead by now is left alone.
pub fn place(thread: libc::pid_t, cpus: &[usize]) {
    // SAFETY: zeroes are an empty set, of the size that is said; the CPUs come from such a set.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        cpus.iter().for_each(|&cpu| libc::CPU_SET(cpu, &mut set));
        libc::sched_setaffinity(thread, size_of_val(&set), &set);
    }
}

/// What the signal's handler calls. It points to the caller's reference, which outlives the threads that are signalled.
static INTERRUPT: AtomicPtr<&(dyn Fn() + Sync)> = AtomicPtr::new(std::ptr::null_mut());

extern "C" fn interrupted(_: libc::c_int) {
    // SAFETY: set by `handle` before the first signal, and until the threads have been joined.
    if let Some(interrupt) = unsafe { INTERRUPT.load(Ordering::Acquire).as_ref() } {
        interrupt();
    }
}

/// While this lives, signals call the function.
pub struct Handler;

/// Has signals call a function.
pub fn handle(interrupt: &&(dyn Fn() + Sync)) -> Handler {
    // SAFETY: only the lifetime is forgotten: `Handler` is dropped before the reference ends.
    INTERRUPT.store(
        unsafe { std::mem::transmute::<*const &(dyn Fn() + Sync), *mut &(dyn Fn() + Sync)>(interrupt) },
        Ordering::Release,
    );
    // SAFETY: the handler calls what the bodies promise to be fit for it; zeroes are an empty mask.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = interrupted as extern "C" fn(libc::c_int) as libc::sighandler_t;
        action.sa_flags = libc::SA_RESTART;
        libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut());
    }
    Handler
}

impl Drop for Handler {
    fn drop(&mut self) {
        INTERRUPT.store(std::ptr::null_mut(), Ordering::Release);
    }
}

/// Disturbs one thread after the other until it is over: moves them between `cpus`, and interrupts them.
pub fn disturb(targets: &Targets, over: &AtomicBool, cpus: Option<&[usize]>, interrupts: bool, seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    while !over.load(Ordering::Relaxed) {
        let thread = targets.0[random.usize(0..targets.0.len())].load(Ordering::Acquire);
        if thread != 0 {
            match cpus {
                Some(cpus) if !interrupts || random.bool() => migrate(thread, cpus, &mut random),
                _ => interrupt(thread),
            }
        }
        std::thread::sleep(REST);
    }
}

fn migrate(thread: libc::pid_t, cpus: &[usize], random: &mut fastrand::Rng) {
    let cpu = random.usize(0..cpus.len());
    // Sometimes anywhere, so that the scheduler has its way, too.
    place(thread, if random.u8(0..4) == 0 { cpus } else { &cpus[cpu..=cpu] });
}

fn interrupt(thread: libc::pid_t) {
    // SAFETY: a dead thread gets nothing; a thread that got this number since is of this process, and has the handler.
    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, libc::SIGUSR1) };
}
