//! The slot of a thread, and how slots are given.

use super::layout::MAX;
use super::{fallback, given};
use crate::sync::{AtomicBool, AtomicU32, Ordering};
use crate::syscall;

early_state! {
    /// [`UNDECIDED`], or 1 + the number of the [`Mode`].
    static MODE: AtomicU32 = AtomicU32::new(UNDECIDED);
    static CHOSEN: AtomicBool = AtomicBool::new(false);
    static IN_USE: AtomicU32 = AtomicU32::new(0);
    static CPUS: AtomicU32 = AtomicU32::new(0);
}

/// Most CPUs that the kernel knows on x86-64.
const CPUS_AT_MOST: usize = 1 << 14;

const UNDECIDED: u32 = 0;

/// How slots are given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Mode {
    /// By the runtime, one for each thread.
    PerThread,
    /// By the kernel, one for each running thread.
    ConcurrencyId,
}

/// Chooses the mode, once. Call it before a region or an area is installed at the root.
#[inline]
pub fn initialise() {
    // Acquire pairs with the release in `choose`: the mode and the offset are there.
    if !CHOSEN.load(Ordering::Acquire) {
        choose();
    }
}

#[cold]
#[unsafe(link_section = ".text.first")]
fn choose() {
    let cpus = cpus();
    CPUS.store(cpus as u32, Ordering::Relaxed);
    // With more ids than areas, operations would access memory behind these.
    let is_given = given::kernel_gives_concurrency_ids() && cpus <= MAX;
    let seen = if is_given { Mode::ConcurrencyId } else { Mode::PerThread };
    // Relaxed: of several threads at once, each goes on with the first one's mode, and stores the same offset.
    let _ = MODE.compare_exchange(UNDECIDED, 1 + seen as u32, Ordering::Relaxed, Ordering::Relaxed);
    given::begin(mode());
    CHOSEN.store(true, Ordering::Release);
}

/// The mode of the process.
pub fn mode() -> Mode {
    if MODE.load(Ordering::Relaxed) == 1 + Mode::ConcurrencyId as u32 { Mode::ConcurrencyId } else { Mode::PerThread }
}

/// An upper bound of all slots of the process.
pub fn possible() -> usize {
    initialise();
    match mode() {
        // There are at most as many concurrency ids as CPUs.
        Mode::ConcurrencyId => CPUS.load(Ordering::Relaxed) as usize,
        Mode::PerThread => MAX,
    }
}

/// The same, by a closer look, which takes system calls.
pub fn most() -> usize {
    let mut mask = [0; CPUS_AT_MOST / 64];
    allowed(&mut mask);
    let last = mask.iter().rposition(|&word| word != 0).map_or(0, |at| at * 64 + mask[at].ilog2() as usize);
    // A list without a CPU that the thread may run on is not the kernel's: some containers show others.
    match mode() {
        Mode::ConcurrencyId => given::most().filter(|&most| most > last).unwrap_or(MAX).min(possible()),
        Mode::PerThread => MAX,
    }
}

/// The kernel's mask has a bit for each CPU that it could ever run on.
fn cpus() -> usize {
    allowed(&mut [0; CPUS_AT_MOST / 64])
}

/// Writes the mask of CPUs that the thread may run on; returns its bits.
fn allowed(mask: &mut [u64; CPUS_AT_MOST / 64]) -> usize {
    let arguments = [0, size_of_val(mask), mask.as_mut_ptr() as usize];
    // SAFETY: the kernel writes into the mask.
    unsafe { syscall::call(syscall::SCHED_GETAFFINITY, arguments) }.map_or(CPUS_AT_MOST, |bytes| bytes * 8)
}

/// The calling thread's slot now. With concurrency ids it may change before use, which the operations check. None: the
/// thread has none and must do without. Call `thread::enter` before.
#[inline]
pub fn current() -> Option<u32> {
    let slot = given::read()?;
    let slot = if slot == 0 && mode() == Mode::PerThread { fallback::adopt_slot()? } else { slot };
    if slot >= IN_USE.load(Ordering::Relaxed) {
        // Relaxed: a bound for walks over slots. Finding zeroed areas, or missing first blocks, is harmless.
        IN_USE.fetch_max(slot + 1, Ordering::Relaxed);
    }
    Some(slot)
}

/// [`current`], but none also for a thread that would need a slot first: it needs no `thread::enter`.
#[inline]
pub fn current_if_given() -> Option<u32> {
    given::read().filter(|&slot| slot != 0 || mode() == Mode::ConcurrencyId)
}

/// Counts a slot in [`in_use`] that has contents, though perhaps no thread was ever there.
pub fn count_as_used(slot: u32) {
    IN_USE.fetch_max(slot + 1, Ordering::Relaxed);
}

/// Slots below this number have been used.
#[inline]
pub fn in_use() -> u32 {
    IN_USE.load(Ordering::Relaxed)
}

/// In fallback mode: runs `work` while a dead thread keeps owning `slot`. None: its thread lives.
pub fn while_dead<R>(slot: u32, work: impl FnOnce() -> R) -> Option<R> {
    fallback::while_dead(slot, work)
}

/// In a fork child, before another thread exists: the slot stays the calling thread's under its new number.
pub fn claim() {
    if mode() == Mode::PerThread {
        fallback::claim();
    }
}
