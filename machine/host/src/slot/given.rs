//! What the kernel, or in fallback mode the thread's own block, says of the thread's slot.

use super::layout::MAX;
use super::number::Mode;
use crate::sync::{AtomicIsize, AtomicU32, Ordering};
use crate::{process, thread};
use core::arch::asm;

/// Where the words at 4, 8 and 24 lie, seen from the thread pointer: the kernel's rseq area, or the thread's own block.
///
/// Until `initialise` has run, this is the unused part of the thread control block that the x86-64 ABI reserves (bytes
/// 52 to 76): no relocation that both linkers know can put the address of a thread-local block into a variable. The
/// stand-in region makes every operation fail, whatever it reads there.
#[doc(hidden)]
pub static WORDS: AtomicIsize = AtomicIsize::new(48);

/// Operations find the slot as the mode wants it from now on.
pub fn begin(mode: Mode) {
    let words = match mode {
        Mode::ConcurrencyId => rseq_offset().unwrap_or(0),
        Mode::PerThread => thread::block_offset(),
    };
    // Relaxed: `root` publishes with release, and every operation loads what it published first.
    WORDS.store(words, Ordering::Relaxed);
}

/// What the thread's words say; in fallback mode zero if it was given no slot yet.
#[inline]
pub fn read() -> Option<u32> {
    let words = WORDS.load(Ordering::Relaxed);
    let (cpu, slot): (i32, u32);
    // SAFETY: both words are in the thread's own static TLS area (see WORDS).
    unsafe {
        asm!("mov {0:e}, dword ptr fs:[{2} + 4]", "mov {1:e}, dword ptr fs:[{2} + 24]",
             out(reg) cpu, out(reg) slot, in(reg) words, options(readonly, nostack, preserves_flags));
    }
    (cpu >= 0 && (slot as usize) < MAX).then_some(slot)
}

/// The calling thread's word for its CPU, which is negative in a thread that has no slot. Where there are no other
/// threads it is one that nobody reads.
pub extern "C" fn own_cpu_word() -> *mut u32 {
    const CPU: isize = 4;
    static NOBODYS: AtomicU32 = AtomicU32::new(0);
    match thread::is_alone() {
        true => NOBODYS.as_ptr(),
        false => (thread::id() as isize + WORDS.load(Ordering::Relaxed) + CPU) as *mut u32,
    }
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

/// glibc 2.36 sets `__rseq_size` to 20 although the concurrency id at 24 works, so we ask the auxiliary vector instead.
pub fn kernel_gives_concurrency_ids() -> bool {
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
