//! Which slot a thread is in, and how slots are given.

use super::layout::MAX;
use super::{fallback, given};
use crate::sync::{AtomicBool, AtomicU32, Ordering};
use crate::syscall;

process_state! {
    /// [`UNDECIDED`], or 1 + the number of the [`Mode`].
    static MODE: AtomicU32 = AtomicU32::new(UNDECIDED);
    static CHOSEN: AtomicBool = AtomicBool::new(false);
    static IN_USE: AtomicU32 = AtomicU32::new(0);
    /// A bound of the kernel's numbers of CPUs, asked for once.
    static CPUS: AtomicU32 = AtomicU32::new(0);
}

/// The kernel knows no more CPUs on x86-64.
const CPUS_AT_MOST: usize = 1 << 14;

const UNDECIDED: u32 = 0;

/// How slots are given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Mode {
    /// By us, one for each thread.
    PerThread,
    /// By the kernel, one for each running thread.
    ConcurrencyId,
}

/// Chooses the mode for good; later calls find it chosen. Call it before a region or an area is installed at the root.
#[inline]
pub fn initialise() {
    // Acquire pairs with the release in `choose`: the mode and the offset are there.
    if !CHOSEN.load(Ordering::Acquire) {
        choose();
    }
}

#[cold]
fn choose() {
    let cpus = cpus();
    CPUS.store(cpus as u32, Ordering::Relaxed);
    // With more ids than areas the operations would read what lies behind these.
    let is_given = given::kernel_gives_concurrency_ids() && cpus <= MAX;
    let seen = if is_given { Mode::ConcurrencyId } else { Mode::PerThread };
    // Relaxed: of several that come at once each goes on with what the first one saw, and stores the same offset.
    let _ = MODE.compare_exchange(UNDECIDED, 1 + seen as u32, Ordering::Relaxed, Ordering::Relaxed);
    given::begin(mode());
    CHOSEN.store(true, Ordering::Release);
}

/// The mode of the process.
pub fn mode() -> Mode {
    if MODE.load(Ordering::Relaxed) == 1 + Mode::ConcurrencyId as u32 { Mode::ConcurrencyId } else { Mode::PerThread }
}

/// A bound of all slots that there will ever be: they are below it.
pub fn possible() -> usize {
    initialise();
    match mode() {
        // Concurrency ids are no more than CPUs.
        Mode::ConcurrencyId => CPUS.load(Ordering::Relaxed) as usize,
        Mode::PerThread => MAX,
    }
}

/// The kernel's mask has a bit for every CPU that it could ever run on.
fn cpus() -> usize {
    let mut mask = [0u64; CPUS_AT_MOST / 64];
    let arguments = [0, size_of_val(&mask), mask.as_mut_ptr() as usize, 0, 0, 0];
    // SAFETY: the kernel writes into the mask.
    unsafe { syscall::call(syscall::SCHED_GETAFFINITY, arguments) }.map_or(CPUS_AT_MOST, |bytes| bytes * 8)
}

/// The slot of the calling thread right now; in concurrency-id mode it may be another one by the time it is used, which
/// the operations check. None: this thread has none, and must do without. Call [`thread::enter`] before.
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

/// [`current`], but none also for a thread that would have to be given a slot first: it needs no [`thread::enter`].
#[inline]
pub fn current_if_given() -> Option<u32> {
    given::read().filter(|&slot| slot != 0 || mode() == Mode::ConcurrencyId)
}

/// Makes [`in_use`] say that a slot is, where something was put that is the slot's though no thread was ever there.
pub fn count_as_used(slot: u32) {
    IN_USE.fetch_max(slot + 1, Ordering::Relaxed);
}

/// Slots below this number have been used.
#[inline]
pub fn in_use() -> u32 {
    IN_USE.load(Ordering::Relaxed)
}

/// In fallback mode: runs `work` while a dead thread owns `slot`, which stays so. None if its thread lives.
pub fn while_dead<R>(slot: u32, work: impl FnOnce() -> R) -> Option<R> {
    fallback::while_dead(slot, work)
}

/// Makes sure that the calling thread owns its slot, also under the number that the kernel gave it in a fork child.
/// Call it there before another thread exists.
pub fn claim() {
    if mode() == Mode::PerThread {
        fallback::claim();
    }
}
