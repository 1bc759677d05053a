//! The thread's slot, as the kernel or, in fallback mode, the thread's own block has it.

use super::layout::MAX;
use super::number::Mode;
use crate::sync::{AtomicIsize, AtomicU32, Ordering};
use crate::{process, thread};
use core::arch::asm;

/// Offset from the thread pointer to the words at 4, 8 and 24: the kernel's rseq area, or the thread's own block.
///
/// Until `initialise` has run, this is the unused part of the thread control block that the x86-64 ABI reserves (bytes
/// 52 to 76). No relocation known to both linkers puts the address of a thread-local block into a variable. The
/// stand-in region makes each operation fail, whichever value it reads there.
#[doc(hidden)]
pub static WORDS: AtomicIsize = AtomicIsize::new(48);

/// Makes operations find the slot by this mode.
#[unsafe(link_section = ".text.first")]
pub fn begin(mode: Mode) {
    let words = match mode {
        Mode::ConcurrencyId => rseq_offset().unwrap_or(0),
        Mode::PerThread => thread::block_offset(),
    };
    // Relaxed: `root` publishes with release, and each operation loads the root first.
    WORDS.store(words, Ordering::Relaxed);
}

/// The slot in the thread's words; in fallback mode zero if it has none yet.
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

/// The calling thread's word for its CPU; negative: no slot. In a process with one thread, an unused word.
pub extern "C" fn own_cpu_word() -> *mut u32 {
    const CPU: isize = 4;
    early_state! { static NOBODYS: AtomicU32 = AtomicU32::new(0); }
    match thread::is_alone() {
        true => NOBODYS.as_ptr(),
        false => (thread::id() as isize + WORDS.load(Ordering::Relaxed) + CPU) as *mut u32,
    }
}

/// The number of concurrency ids, if the kernel says it: that of possible CPUs. librseq sizes its areas by this file.
pub fn most() -> Option<usize> {
    let mut text = [0; 64];
    let text = core::str::from_utf8(process::read_file(c"/sys/devices/system/cpu/possible", &mut text)?).ok()?;
    let last = text.strip_suffix('\n')?.rsplit([',', '-']).next()?;
    Some(last.parse::<usize>().ok()? + 1)
}

/// Offset of the rseq area, if the C library has registered one for this thread.
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

/// glibc 2.36 sets `__rseq_size` to 20 although the concurrency id at 24 works, so ask the auxiliary vector.
pub fn kernel_gives_concurrency_ids() -> bool {
    const FEATURE_SIZE: u64 = 27;
    const SIZE_WITH_CONCURRENCY_ID: u64 = 28;
    let Some(offset) = rseq_offset() else {
        return false;
    };
    let cpu: i32;
    // SAFETY: the C library put the area into this thread's static TLS.
    unsafe { asm!("mov {0:e}, dword ptr fs:[{1} + 4]", out(reg) cpu, in(reg) offset, options(readonly, nostack)) };
    cpu >= 0 && process::auxiliary(FEATURE_SIZE) >= SIZE_WITH_CONCURRENCY_ID
}
