//! Slots: the index of per-CPU data, and the restartable operations on it.
//!
//! A *slot* is the kernel's concurrency id of the running thread where the kernel has those (Linux 6.3): at any moment each
//! running thread of the process has another one, and they are dense, so a process with two threads on 256 CPUs uses two
//! slots. A section that begins by reading the slot and ends with one committing store is aborted by the kernel, and
//! begun again, if the thread was preempted, migrated or interrupted by a signal in between ([`restartable`]).
//!
//! Where there are no concurrency ids, the process is in *fallback mode*: each thread owns a slot of its own
//! ([`fallback`]), and the very same code works on it; only signals are not detected then, as in any other allocator.
//! A single thread whose registration failed has no slot: every operation says "not here" and the caller must
//! take its locked path.
//!
//! ```text
//!   base ─▶ ┌──────────────────────┐ 0            array words are offsets from base, so that zero memory
//!           │ header, starts with  │              means "empty" to pop and "full" to push
//!           │ a zeroed array       │
//!           ├──────────────────────┤ AREAS
//!           │ slot 0   AREA bytes  │   word i of slot s is at AREAS + s·AREA + 8·i
//!           │ slot 1               │
//! ```
//!
//! An *array* is 1024 bytes, aligned to 1024 from base, of which word 0 belongs to the owner of the array, then at least one word
//! is zero (the bottom), and the rest up to the end holds pointers, growing upwards. A *take word* is the offset of the topmost
//! pointer; an array is empty when that offset holds zero. A *give word* is the offset behind the topmost pointer; an array
//! is full when it is 0 modulo 1024.

mod entry;
mod fallback;
mod restartable;
mod row;

use crate::sync::{AtomicBool, AtomicIsize, AtomicU32, AtomicUsize, Ordering};
use crate::{process, syscall, thread};
use core::arch::asm;

pub use restartable::{Stored, change_places, compare_store, pop, push};
pub use row::{Pair, ROW, WINDOW, draw, load_pair, local_add, replace_pair, store_pair};

/// The most slots that a process can use at once.
pub const MAX: usize = 1024;
/// Offset of slot 0's area from the base.
pub const AREAS: usize = 4096;
/// Bytes of a slot's area.
pub const AREA: usize = 1 << AREA_SHIFT;
#[doc(hidden)]
pub const AREA_SHIFT: u32 = 12;
/// Bytes, and alignment, of an array.
pub const ARRAY: usize = 1024;

/// Where the words at 4, 8 and 24 lie, seen from the thread pointer: the kernel's rseq area, or the thread's own block.
///
/// Until `initialise` has run it is the unused part of the thread control block that the x86-64 ABI reserves (bytes 52 to 76),
/// because no relocation that both linkers know can put the address of a thread-local block into a variable. The stand-in
/// region makes every operation fail whatever is read there.
#[doc(hidden)]
pub static WORDS: AtomicIsize = AtomicIsize::new(48);
/// [`UNDECIDED`], or 1 + the number of the [`Mode`].
static MODE: AtomicU32 = AtomicU32::new(UNDECIDED);
const UNDECIDED: u32 = 0;
static CHOSEN: AtomicBool = AtomicBool::new(false);
static IN_USE: AtomicU32 = AtomicU32::new(0);

/// How slots are given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Mode {
    /// By us, one for each thread.
    PerThread,
    /// By the kernel, one for each running thread.
    ConcurrencyId,
}

/// Chooses the mode, for good; whoever comes later finds it chosen. Must be called before a region or an area is installed at the root.
#[inline]
pub fn initialise() {
    // Acquire pairs with the release in `choose`: the mode and the offset are there.
    if !CHOSEN.load(Ordering::Acquire) {
        choose();
    }
}

#[cold]
fn choose() {
    let seen = if kernel_gives_concurrency_ids() { Mode::ConcurrencyId } else { Mode::PerThread };
    // Relaxed: of several that come at once each goes on with what the first one saw, and stores the same offset.
    let _ = MODE.compare_exchange(UNDECIDED, 1 + seen as u32, Ordering::Relaxed, Ordering::Relaxed);
    let words = match mode() {
        Mode::ConcurrencyId => rseq_offset().unwrap_or(0),
        Mode::PerThread => thread::block_offset(),
    };
    // Relaxed: `root` publishes with release, and every operation loads what it published first.
    WORDS.store(words, Ordering::Relaxed);
    CHOSEN.store(true, Ordering::Release);
}

/// The mode of the process.
pub fn mode() -> Mode {
    if MODE.load(Ordering::Relaxed) == 1 + Mode::ConcurrencyId as u32 { Mode::ConcurrencyId } else { Mode::PerThread }
}

/// A bound of all slots that there will ever be: they are below it.
pub fn possible() -> usize {
    // The kernel's mask has a bit for every CPU that it could ever run on, and concurrency ids are no more than those.
    const CPUS_AT_MOST: usize = 1 << 14;
    let mut mask = [0u64; CPUS_AT_MOST / 64];
    let arguments = [0, size_of_val(&mask), mask.as_mut_ptr() as usize, 0, 0, 0];
    // SAFETY: the kernel writes into the mask.
    let bytes = unsafe { syscall::call(syscall::SCHED_GETAFFINITY, arguments) };
    match (mode(), bytes) {
        (Mode::ConcurrencyId, Ok(bytes)) => bytes * 8,
        (Mode::ConcurrencyId, Err(_)) => CPUS_AT_MOST,
        (Mode::PerThread, _) => MAX,
    }
}

/// The slot of the calling thread right now; in concurrency-id mode it may be another one by the time it is used, which
/// the operations check. None: this thread has none, and must do without. Call [`thread::enter`] before.
#[inline]
pub fn current() -> Option<u32> {
    let slot = read()?;
    let slot = if slot == 0 && mode() == Mode::PerThread { fallback::adopt_slot()? } else { slot };
    if slot >= IN_USE.load(Ordering::Relaxed) {
        // Relaxed: a bound for walks over slots, which find zeroed areas or miss a slot's first blocks; both are harmless.
        IN_USE.fetch_max(slot + 1, Ordering::Relaxed);
    }
    Some(slot)
}

/// [`current`], but none also for a thread that would have to be given a slot first: it needs no [`thread::enter`].
#[inline]
pub fn current_if_given() -> Option<u32> {
    read().filter(|&slot| slot != 0 || mode() == Mode::ConcurrencyId)
}

/// What the thread's words say; in fallback mode zero if it was given no slot yet.
#[inline]
fn read() -> Option<u32> {
    let words = WORDS.load(Ordering::Relaxed);
    let (cpu, slot): (i32, u32);
    // SAFETY: both words are in the thread's own static TLS area (see WORDS).
    unsafe {
        asm!("mov {0:e}, dword ptr fs:[{2} + 4]", "mov {1:e}, dword ptr fs:[{2} + 24]",
             out(reg) cpu, out(reg) slot, in(reg) words, options(readonly, nostack, preserves_flags));
    }
    // A machine may have more CPUs than there are areas: beyond them lies the page map, whose first part reads as zero, so
    // that `pop` and `push` find nothing to do there.
    (cpu >= 0 && (slot as usize) < MAX).then_some(slot)
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

/// In fallback mode: runs `work` while `slot` belongs to a thread that is dead, and nobody else can get it; none if its thread lives.
pub fn while_dead<R>(slot: u32, work: impl FnOnce() -> R) -> Option<R> {
    fallback::while_dead(slot, work)
}

/// Makes sure that the slot of the calling thread is its own, also under the number that the kernel gave it in a fork child. Call
/// it there before another thread exists.
pub fn claim() {
    if mode() == Mode::PerThread {
        fallback::claim();
    }
}

/// Reads word `index` of slot `slot`, as it is at some moment.
///
/// # Safety
/// `base` is the base of a region whose area for `slot` exists.
#[inline]
pub unsafe fn load(base: *mut u8, slot: u32, index: usize) -> usize {
    // SAFETY: passed on; a volatile read of an aligned word does not tear on this machine.
    unsafe { word(base, slot, index).read_volatile() }
}

/// Writes word `index` of any slot, also of one that another thread is working in, and returns what was there: an operation of
/// that thread that is in flight may overwrite it, as if our store had not been, until the slot is restarted
/// (`kick::restart`).
///
/// # Safety
/// As for [`load`]; the caller accounts for the array that the word named.
#[inline]
pub unsafe fn exchange(base: *mut u8, slot: u32, index: usize, value: usize) -> usize {
    // AcqRel: what the owner wrote into the array before its last commit is visible to us, who get the array with its fill;
    // and what we write later is not seen before the word has changed.
    // SAFETY: passed on; the owner's plain stores of an aligned word do not tear on this machine.
    unsafe { (*word(base, slot, index).cast::<AtomicUsize>()).swap(value, Ordering::AcqRel) }
}

/// Replaces word `index` of any slot if it is `expected` at that very moment. As with [`exchange`], an operation in flight may
/// commit over it.
///
/// # Safety
/// As for [`exchange`].
#[inline]
pub unsafe fn compare_exchange(base: *mut u8, slot: u32, index: usize, expected: usize, new: usize) -> bool {
    // SAFETY: as for `exchange`.
    let word = unsafe { &*word(base, slot, index).cast::<AtomicUsize>() };
    // AcqRel as for `exchange`; Relaxed on failure: nothing is read then.
    word.compare_exchange(expected, new, Ordering::AcqRel, Ordering::Relaxed).is_ok()
}

#[inline]
fn word(base: *mut u8, slot: u32, index: usize) -> *mut usize {
    base.wrapping_add(AREAS + slot as usize * AREA + index * 8).cast()
}

/// The rseq area's place, where the C library has registered one for this thread.
fn rseq_offset() -> Option<isize> {
    let offset: *const isize;
    // SAFETY: reads the table's entry for a weak symbol of the loader: its address, or null before glibc 2.35.
    unsafe {
        asm!(".weak __rseq_offset", "mov {0}, qword ptr [rip + __rseq_offset@GOTPCREL]",
             out(reg) offset, options(pure, readonly, nostack, preserves_flags));
    }
    // SAFETY: the symbol is a constant once the program runs.
    (!offset.is_null()).then(|| unsafe { *offset })
}

/// `__rseq_size` of glibc 2.36 says 20 where the concurrency id at 24 is alive, so the auxiliary vector is asked instead.
fn kernel_gives_concurrency_ids() -> bool {
    const FEATURE_SIZE: u64 = 27;
    const SIZE_WITH_CONCURRENCY_ID: u64 = 28;
    let Some(offset) = rseq_offset() else {
        return false;
    };
    let cpu: i32;
    // SAFETY: the C library laid the area out in this thread's static TLS.
    unsafe { asm!("mov {0:e}, dword ptr fs:[{1} + 4]", out(reg) cpu, in(reg) offset, options(readonly, nostack)) };
    cpu >= 0 && process::auxiliary(FEATURE_SIZE) >= SIZE_WITH_CONCURRENCY_ID
}
