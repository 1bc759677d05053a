//! The simulated kernel: the system calls of the host's sources.

use super::costs::NS;
use super::space::OUT_OF_MEMORY;
use super::thread::{State, Wait, Woken};
use super::{Access, Engine, Here};
use crate::simulation::Defect;
use crate::syscall::{self, Errno};
use crate::{kick, vm};

const INTERRUPTED: Errno = Errno(4);
const TRY_AGAIN: Errno = Errno(11);
const INVALID: Errno = Errno(22);
const NO_SUCH_CALL: Errno = Errno(38);
const TIMED_OUT: Errno = Errno(110);

/// Whether a strategy may refuse the call: for lack of memory, or as an old kernel does.
pub fn may_be_refused(number: usize) -> bool {
    matches!(
        number,
        syscall::MMAP | syscall::MPROTECT | syscall::MREMAP | syscall::MADVISE | syscall::MUNMAP | syscall::MEMBARRIER
    )
}

impl Here {
    /// Makes a system call for the current thread.
    ///
    /// # Safety
    /// The arguments are what the call expects.
    pub unsafe fn system_call(self, number: usize, arguments: [usize; 6]) -> Result<usize, Errno> {
        self.step(Access::System { number });
        // The kernel sees the thread's writes, and memory may change its role.
        let is_refused = self.with(|engine| {
            engine.drain_own();
            std::mem::take(&mut engine.thread().is_refused)
        });
        if is_refused {
            return Err(OUT_OF_MEMORY);
        }
        let [first, second, third, ..] = arguments;
        match number {
            syscall::FUTEX if second == syscall::FUTEX_WAIT_PRIVATE => {
                self.futex_wait(first, third as u32, arguments[3])
            }
            syscall::FUTEX if second == syscall::FUTEX_WAKE_PRIVATE => {
                Ok(self.with(|engine| engine.futex_wake(first, third)))
            }
            syscall::MEMBARRIER => self.barrier(first),
            syscall::GETPID => Ok(self.with(|engine| engine.process) as usize),
            syscall::GETTID => Ok(self.with(|engine| engine.thread().tid) as usize),
            syscall::TGKILL => self.with(|engine| engine.is_alive(first as u32, second as u32)),
            // SAFETY: passed on.
            syscall::RT_SIGPROCMASK => unsafe { self.mask(first, second as *const u64, third as *mut u64) },
            // SAFETY: passed on.
            syscall::SCHED_GETAFFINITY => self.with(|engine| unsafe { engine.affinity(second, third as *mut u8) }),
            // SAFETY: passed on.
            _ => self.with(|engine| unsafe { engine.memory_call(number, arguments) }),
        }
    }

    fn futex_wait(self, at: usize, expected: u32, limit: usize) -> Result<usize, Errno> {
        let waits = self.with(|engine| {
            engine.drain_own();
            // Reading the word and sleeping are one step.
            if engine.load(at, 4) as u32 != expected {
                return false;
            }
            let until = (limit != 0).then(|| {
                // SAFETY: a timespec, by the call's contract.
                let [seconds, nanoseconds] = unsafe { *core::ptr::with_exposed_provenance::<[u64; 2]>(limit) };
                engine.time() + (seconds * 1_000_000_000 + nanoseconds) * NS
            });
            engine.block(Wait::Futex(at), until);
            true
        });
        if !waits {
            return Err(TRY_AGAIN);
        }
        self.wait();
        match self.with(|engine| engine.thread().woken) {
            Woken::Come => Ok(0),
            Woken::Late => Err(TIMED_OUT),
            Woken::Interrupted => Err(INTERRUPTED),
        }
    }

    /// Interrupts reach the CPUs one after the other, while threads go on.
    fn barrier(self, command: usize) -> Result<usize, Errno> {
        if self.with(|engine| engine.settings.denies_membarrier) {
            return Err(NO_SUCH_CALL);
        }
        let restarts = match command {
            kick::REGISTER_PRIVATE_EXPEDITED | kick::REGISTER_PRIVATE_EXPEDITED_RSEQ => return Ok(0),
            kick::PRIVATE_EXPEDITED => false,
            kick::PRIVATE_EXPEDITED_RSEQ => self.with(|engine| !engine.settings.is_broken(Defect::RestartIsFence)),
            _ => return Err(INVALID),
        };
        let is_lost = self.with(|engine| engine.settings.is_broken(Defect::KicksGetLost));
        let me = self.with(|engine| engine.current);
        self.with(|engine| engine.threads[me].in_kernel = true);
        let mut is_further = false;
        for cpu in 0..self.with(|engine| engine.cpus.len()) {
            let Some(_) = self.with(|engine| engine.cpus[cpu].thread) else { continue };
            self.step(Access::Kick { cpu, is_further });
            is_further |= self.with(|engine| engine.threads[me].cpu != cpu);
            self.with(|engine| {
                engine.interrupts += u64::from(engine.threads[me].cpu != cpu);
                engine.delay(cpu);
                if is_lost {
                    return;
                }
                engine.drain(cpu);
                if let Some(thread) = engine.cpus[cpu].thread.filter(|_| restarts) {
                    engine.abort_section(thread);
                }
            });
        }
        self.with(|engine| engine.threads[me].in_kernel = false);
        Ok(0)
    }

    /// # Safety
    /// The sets are readable and writable, or null.
    unsafe fn mask(self, how: usize, set: *const u64, old: *mut u64) -> Result<usize, Errno> {
        const SET_MASK: usize = 2;
        self.with(|engine| {
            let thread = engine.thread();
            // SAFETY: passed on. All signals are masked, or none.
            unsafe {
                if !old.is_null() {
                    *old = if thread.is_masked { u64::MAX } else { 0 };
                }
                if !set.is_null() {
                    thread.is_masked = if how == SET_MASK { *set != 0 } else { thread.is_masked || *set != 0 };
                }
            }
        });
        // Signals that came meanwhile come now.
        self.step(Access::Nothing);
        Ok(0)
    }
}

impl Engine {
    pub fn seed(&self) -> u64 {
        self.settings.seed
    }

    fn futex_wake(&mut self, at: usize, most: usize) -> usize {
        let sleeps = |thread: &usize| self.threads[*thread].state == State::Blocked(Wait::Futex(at));
        let mut sleepers: Vec<usize> = (0..self.threads.len()).filter(sleeps).collect();
        // First come, first served.
        sleepers.sort_by_key(|&thread| self.threads[thread].blocked_at);
        sleepers.truncate(most);
        for &thread in &sleepers {
            self.wake(thread, Woken::Come);
        }
        sleepers.len()
    }

    fn is_alive(&self, process: u32, tid: u32) -> Result<usize, Errno> {
        let lives = process == self.process && self.living().any(|thread| thread.tid == tid);
        if lives { Ok(0) } else { Err(Errno::NO_SUCH_PROCESS) }
    }

    /// # Safety
    /// The mask has `bytes` bytes.
    unsafe fn affinity(&self, bytes: usize, mask: *mut u8) -> Result<usize, Errno> {
        // As the kernel does, whole words for all possible CPUs.
        let needed = self.cpus.len().div_ceil(64) * 8;
        if bytes < needed {
            return Err(INVALID);
        }
        for cpu in (0..self.cpus.len()).filter(|&cpu| !self.cpus[cpu].is_offline) {
            // SAFETY: passed on.
            unsafe { *mask.add(cpu / 8) |= 1 << (cpu % 8) };
        }
        Ok(needed)
    }

    /// # Safety
    /// As for the call.
    unsafe fn memory_call(&mut self, number: usize, arguments: [usize; 6]) -> Result<usize, Errno> {
        let [at, bytes, third, ..] = arguments;
        // Stores to memory that changes its role must be visible before. New memory has none yet.
        if number != syscall::MMAP {
            self.drain_all();
        }
        match number {
            syscall::MMAP => self.space.map(arguments),
            syscall::MUNMAP => {
                self.lines.forget(at, at + bytes);
                self.space.unmap(at, bytes)
            }
            syscall::MREMAP => {
                self.lines.forget(at, at + bytes);
                self.space.remap(arguments)
            }
            // SAFETY: the range belongs to the simulated process.
            syscall::MPROTECT => unsafe { syscall::on_host(number, arguments) },
            syscall::MADVISE => {
                if matches!(third, vm::MADV_DONTNEED | vm::MADV_GUARD_INSTALL) {
                    self.lines.forget(at, at + bytes);
                }
                // The host may be too old for marks. Any way to close a page does here.
                let access = match third {
                    vm::MADV_GUARD_INSTALL => Some(vm::Access::None),
                    vm::MADV_GUARD_REMOVE => Some(vm::Access::ReadWrite),
                    _ => None,
                };
                if let Some(access) = access {
                    // SAFETY: as below.
                    return unsafe { syscall::on_host(syscall::MPROTECT, [at, bytes, access.protection(), 0, 0, 0]) };
                }
                if third == vm::MADV_WIPEONFORK && self.settings.is_broken(Defect::NoWipe) {
                    return Ok(0);
                }
                // SAFETY: the range belongs to the simulated process.
                unsafe { syscall::on_host(number, arguments) }
            }
            _ => Err(NO_SUCH_CALL),
        }
    }
}
