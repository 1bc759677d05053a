//! What disturbs restartable operations: migration, signals and kicks, from threads that do nothing else.
//!
//! Threads that want to be disturbed enrol, for as long as they live or for a while. Signals may have any handler; the one here does nothing.

use super::child::act_out;
use super::random::Random;
use commensal_runtime::machine::{kick, slot};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

pub const SIGNAL: libc::c_int = libc::SIGUSR1;

const MOST: usize = 64;

/// Threads that are to be disturbed, by the kernel's numbers.
pub struct Crowd {
    threads: [AtomicI32; MOST],
}

/// A thread's place in the crowd, which it leaves again.
pub struct Member<'a>(&'a AtomicI32);

impl Crowd {
    pub const fn new() -> Self {
        Crowd { threads: [const { AtomicI32::new(0) }; MOST] }
    }

    pub fn enrol(&self) -> Member<'_> {
        // SAFETY: asks for a number.
        let me = unsafe { libc::gettid() };
        let free = |place: &&AtomicI32| place.compare_exchange(0, me, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        Member(self.threads.iter().find(free).expect("there are fewer threads than places"))
    }

    fn someone(&self, random: &mut Random) -> Option<libc::pid_t> {
        let start = random.below(MOST);
        let threads = self.threads[start..].iter().chain(&self.threads[..start]);
        threads.map(|place| place.load(Ordering::Relaxed)).find(|&thread| thread != 0)
    }

    /// Acts a test out in rounds until its time is over, disturbed by signals that `handler` handles.
    pub fn repeat(&self, usual_seconds: f64, handler: extern "C" fn(libc::c_int), mut round: impl FnMut(&mut Random)) {
        act_out(usual_seconds, |seed, end| {
            handle(handler);
            let (mut random, mut rounds) = (Random::new(seed, 0), 0);
            self.disturb_while(seed, || {
                while Instant::now() < end {
                    rounds += 1;
                    round(&mut random);
                }
            });
            eprintln!("{:?}: {rounds} rounds, kicks made and refused: {:?}", slot::mode(), kick::counts());
        });
    }

    /// Does `work` while kicks come, and signals and migrations to whoever enrolled.
    pub fn disturb_while<R>(&self, seed: u64, work: impl FnOnce() -> R) -> R {
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let (stop, mut targets, mut movers) = (&stop, Random::new(seed, 2001), Random::new(seed, 2002));
            let again_and_again = move |pause: u64, act: &mut dyn FnMut()| {
                while !stop.load(Ordering::Relaxed) {
                    act();
                    thread::sleep(Duration::from_micros(pause));
                }
            };
            scope.spawn(move || again_and_again(50, &mut || kick::restart(0).unwrap_or(())));
            scope.spawn(move || again_and_again(20, &mut || signal(self.someone(&mut targets))));
            scope.spawn(move || {
                again_and_again(100, &mut || {
                    let thread = self.someone(&mut movers);
                    thread.into_iter().for_each(|thread| move_thread(thread, &mut movers));
                });
            });
            let _stop = StopsWhenDropped(stop);
            work()
        })
    }
}

impl Drop for Member<'_> {
    fn drop(&mut self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

/// Also when the work panics: else its disturbers would be waited for.
struct StopsWhenDropped<'a>(&'a AtomicBool);

impl Drop for StopsWhenDropped<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn signal(thread: Option<libc::pid_t>) {
    let Some(thread) = thread else { return };
    // SAFETY: to a thread of this process, or to none if it has ended meanwhile.
    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, SIGNAL) };
}

pub fn migrate(random: &mut Random) {
    move_thread(0, random);
}

/// Keeps the calling thread on one CPU, if there are as many.
pub fn pin(cpu: usize) {
    place(0, cpu);
}

fn move_thread(thread: libc::pid_t, random: &mut Random) {
    place(thread, random.below(thread::available_parallelism().map_or(1, |cpus| cpus.get())));
}

fn place(thread: libc::pid_t, cpu: usize) {
    // SAFETY: the set is a local.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(thread, size_of::<libc::cpu_set_t>(), &set);
    }
}

/// Makes `handler` what a disturbing signal calls.
pub fn handle(handler: extern "C" fn(libc::c_int)) {
    // SAFETY: the handler lives as long as the process, and its author knows what a handler may do.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as usize;
        action.sa_flags = libc::SA_RESTART;
        libc::sigaction(SIGNAL, &action, std::ptr::null_mut());
    }
}

pub extern "C" fn nothing(_signal: libc::c_int) {}
