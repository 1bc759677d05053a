//! The host's runner: threads of the operating system, which are moved from CPU to CPU, and interrupted by signals,
//! while they work; and fork children, which say what they found within their time.

use conformance::runner::{Child, Job};
use conformance::{Ended, Fork, Placement, Runner};
use machine::slot::Mode;
use std::cell::Cell;
use std::io::{self, PipeWriter, Read, Write};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, Ordering};
use std::thread;
use std::time::{Duration, Instant};

pub struct Host {
    mode: Mode,
    seed: u64,
    deadline: Instant,
    /// How long a fork child may take, in seconds.
    child_limit: u32,
    cpus: Vec<usize>,
}

impl Host {
    /// The bodies' time begins now.
    pub fn new(mode: Mode, seed: u64, seconds: f64, child_limit: u32) -> Self {
        let deadline = Instant::now() + Duration::from_secs_f64(seconds);
        Host { mode, seed, deadline, child_limit, cpus: own_cpus() }
    }
}

impl Runner for Host {
    fn mode(&self) -> Mode {
        self.mode
    }

    fn seed(&self) -> u64 {
        self.seed
    }

    fn width(&self) -> usize {
        // Large machines need no more: what matters is that threads of one CPU meet.
        (3 * self.cpus.len()).min(24)
    }

    fn slots(&self) -> usize {
        match self.mode {
            Mode::ConcurrencyId => self.cpus.len().min(self.width()) + 1,
            // Those of earlier runs come into use again, but not at once.
            Mode::PerThread => 4 * self.width(),
        }
    }

    fn goes_on(&self) -> bool {
        Instant::now() < self.deadline
    }

    fn pause(&self) {
        /// What another CPU answers in a microsecond would else cost a turn of whoever has work on this one.
        const SPINS: u32 = 64;
        thread_local!(static PAUSES: Cell<u32> = const { Cell::new(0) });
        let pauses = PAUSES.get().wrapping_add(1);
        PAUSES.set(pauses);
        if pauses.is_multiple_of(SPINS) {
            thread::yield_now();
        } else {
            core::hint::spin_loop();
        }
    }

    fn run(&self, placement: Placement, jobs: Vec<Job<'_>>, interrupt: Option<&(dyn Fn() + Sync)>) {
        let targets: Vec<_> = jobs.iter().map(|_| AtomicI32::new(0)).collect();
        let over = AtomicBool::new(false);
        if let Some(interrupt) = &interrupt {
            handle(interrupt);
        }
        thread::scope(|scope| {
            let (targets, over) = (&targets, &over);
            let jobs = jobs.into_iter().enumerate().map(|(number, job)| {
                // A thread inherits where its maker may run, which may have been moved to one CPU.
                let apart = number % self.cpus.len();
                let cpus = if placement == Placement::Apart { &self.cpus[apart..=apart] } else { &self.cpus };
                scope.spawn(move || {
                    place(0, cpus);
                    // SAFETY: asks, changes nothing.
                    targets[number].store(unsafe { libc::gettid() }, Ordering::Release);
                    job();
                    targets[number].store(0, Ordering::Release);
                })
            });
            let threads: Vec<_> = jobs.collect();
            let moved = placement == Placement::Moved;
            let disturber = (moved || interrupt.is_some()).then(|| {
                scope.spawn(move || {
                    disturb(targets, over, moved.then_some(&self.cpus[..]), interrupt.is_some(), self.seed)
                })
            });
            // Joined one by one, so that the threads are dead and not only their jobs done.
            threads.into_iter().for_each(|thread| thread.join().expect("jobs do not panic"));
            over.store(true, Ordering::Relaxed);
            if let Some(thread) = disturber {
                thread.join().expect("disturbing does not panic");
            }
        });
        if interrupt.is_some() {
            INTERRUPT.store(std::ptr::null_mut(), Ordering::Release);
        }
    }

    fn run_without_slot(&self, job: Job<'_>) -> bool {
        let run = || {
            let unregistered = unregister();
            if unregistered {
                job();
            }
            unregistered
        };
        thread::scope(|scope| scope.spawn(run).join().is_ok_and(|done| done))
    }

    fn fork(&self, fork: Fork, child: Child<'_>) -> Ended {
        fork_child(fork, child, self.child_limit)
    }
}

/// Between two disturbances. Sleeping takes longer than asked for, some 60 µs.
const REST: Duration = Duration::from_micros(10);

fn own_cpus() -> Vec<usize> {
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
fn place(thread: libc::pid_t, cpus: &[usize]) {
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

fn handle(interrupt: &&(dyn Fn() + Sync)) {
    // SAFETY: only the lifetime is forgotten: `run` takes it back before the reference ends.
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
}

/// Disturbs one thread after the other until it is over: moves them between `cpus`, and interrupts them. Targets are
/// the kernel's numbers; zero: not yet, or not any more.
fn disturb(targets: &[AtomicI32], over: &AtomicBool, cpus: Option<&[usize]>, interrupts: bool, seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    while !over.load(Ordering::Relaxed) {
        let thread = targets[random.usize(0..targets.len())].load(Ordering::Acquire);
        if thread != 0 {
            match cpus {
                Some(cpus) if !interrupts || random.bool() => {
                    let cpu = random.usize(0..cpus.len());
                    // Sometimes anywhere, so that the scheduler has its way, too.
                    place(thread, if random.u8(0..4) == 0 { cpus } else { &cpus[cpu..=cpu] });
                }
                // SAFETY: a dead thread gets nothing. One that got this number since is ours, and has the handler.
                _ => _ = unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, libc::SIGUSR1) },
            }
        }
        std::thread::sleep(REST);
    }
}

unsafe extern "C" {
    /// The C library's fork without handlers.
    fn _Fork() -> libc::pid_t;
}

/// What goes through the pipe: a text's address and length, both zero if all was well.
type Message = [[u8; size_of::<usize>()]; 2];

/// Runs `child` in a fork child, which may take so many seconds. Between the fork and its end, the child calls nothing
/// that could wait for a thread that it does not have. It reports static text by its address, through a pipe: the child
/// is a copy, so the address is valid here.
fn fork_child(kind: Fork, child: Child<'_>, limit: u32) -> Ended {
    let (mut reader, writer) = io::pipe().expect("a pipe can be made");
    let process = match kind {
        // SAFETY: the child keeps to what is said above.
        Fork::Ordinary => unsafe { libc::fork() },
        // SAFETY: as above.
        Fork::Bare => unsafe { _Fork() },
    };
    assert!(process >= 0, "a child could not be made");
    if process == 0 {
        live(child, writer, limit);
    }
    // So that the pipe ends with the child.
    drop(writer);
    let mut message = Message::default();
    let said = reader.read_exact(message.as_flattened_mut());
    let mut status = 0;
    // SAFETY: the child is ours. Signals may interrupt.
    while unsafe { libc::waitpid(process, &mut status, 0) } < 0 {}
    match (said, message.map(usize::from_ne_bytes)) {
        (Err(_), _) if libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGALRM => Ended::Hung,
        (Err(_), _) => Ended::Died,
        (Ok(()), [0, _]) => Ended::Well,
        // SAFETY: a child's static text lies where ours does.
        (Ok(()), [at, length]) => Ended::Found(unsafe {
            String::from_utf8_lossy(std::slice::from_raw_parts(std::ptr::with_exposed_provenance(at), length))
                .into_owned()
        }),
    }
}

fn live(child: Child<'_>, mut writer: PipeWriter, limit: u32) -> ! {
    // SAFETY: no effects on memory. A child that hangs ends by itself, and must not outlive a parent that gives up.
    unsafe {
        libc::alarm(limit);
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
    }
    // SAFETY: a limit of this process, which may die on purpose, silently.
    unsafe { libc::setrlimit(libc::RLIMIT_CORE, &libc::rlimit { rlim_cur: 0, rlim_max: 0 }) };
    let message: Message = match child() {
        Ok(()) => Message::default(),
        Err(what) => [what.as_ptr().expose_provenance(), what.len()].map(usize::to_ne_bytes),
    };
    let written = writer.write_all(message.as_flattened());
    // SAFETY: nothing of the parent's is to be finished here.
    unsafe { libc::_exit(written.is_err().into()) }
}

/// Undoes the calling thread's registration for restartable sequences; it dies soon. False: it has none that is known.
fn unregister() -> bool {
    const UNREGISTER: libc::c_int = 1;
    const SIGNATURE: u32 = 0x5305_3053;
    // The size with which it was registered must be given again: 32 bytes, or as many as later versions know.
    const SIZES: [u32; 3] = [32, 64, 128];
    let Some(area) = area() else { return false };
    // SAFETY: the kernel writes its farewell to the area, or refuses.
    let undo = |size: u32| unsafe { libc::syscall(libc::SYS_rseq, area, size, UNREGISTER, SIGNATURE) };
    SIZES.into_iter().any(|size| undo(size) == 0)
}

/// Where the C library keeps this thread's area.
fn area() -> Option<*mut u8> {
    // SAFETY: the name ends with a zero byte, and the symbol is a constant offset from the thread pointer.
    let offset = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_offset".as_ptr()).cast::<isize>().as_ref() }?;
    // The host's ids are thread pointers.
    Some(std::ptr::with_exposed_provenance_mut::<u8>(machine::thread::id() as usize).wrapping_offset(*offset))
}
