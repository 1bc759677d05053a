//! The thread's block of memory, and what else the C library knows of threads.

use super::identity::Block;
use core::arch::{asm, global_asm};
use core::mem::offset_of;

// The first 32 bytes have the layout of the kernel's `struct rseq`, of which the restartable operations use the
// fields at 4 (negative: no slot), 8 (descriptor) and 24 (slot): in fallback mode they work on this block instead.
global_asm!(
    ".pushsection .tbss,\"awT\",@nobits",
    ".balign 64",
    ".globl commensal_thread",
    ".hidden commensal_thread",
    ".type commensal_thread,@object",
    ".size commensal_thread,64",
    "commensal_thread: .zero 64",
    ".popsection",
);

/// Where the thread's block lies, seen from the thread pointer.
#[inline]
pub(crate) fn block_offset() -> isize {
    let offset: isize;
    // SAFETY: reads a word of the global offset table, which the loader filled: a constant for the program.
    unsafe {
        asm!("mov {0}, qword ptr [rip + commensal_thread@GOTTPOFF]", out(reg) offset,
             options(pure, nomem, nostack, preserves_flags));
    }
    offset
}

#[inline]
pub fn block() -> *mut Block {
    (id() as isize + block_offset()) as *mut Block
}

/// The thread's id: even, not zero, and different from those of all other living threads of the process. The thread
/// that forks keeps it in the child. A later thread may get the id of one that died or vanished in a fork; what that
/// one did happened before. Costs one load, which a compiler may hoist out of a loop; needs no [`enter`].
///
/// It is the thread pointer. The C library reuses a thread's memory only after the kernel has ended the thread.
#[inline(always)]
pub fn id() -> u64 {
    let pointer: u64;
    // SAFETY: by the x86-64 TLS ABI, the word at fs:0 is the thread pointer itself; it never changes.
    unsafe { asm!("mov {0}, qword ptr fs:[0]", out(reg) pointer, options(pure, nomem, nostack, preserves_flags)) };
    pointer
}

/// One [`level`](super::level) down, by one instruction; whether it is negative then.
#[inline(always)]
pub fn descend() -> bool {
    // SAFETY: changes a word of the thread's own block.
    unsafe {
        asm!("sub dword ptr fs:[{block} + {level}], 1", "js {negative}", block = in(reg) block_offset(),
             level = const offset_of!(Block, level), negative = label { return true }, options(nostack));
    }
    false
}

/// One [`level`](super::level) up, by one instruction; whether it is still negative.
#[inline(always)]
pub fn ascend() -> bool {
    // SAFETY: as above.
    unsafe {
        asm!("add dword ptr fs:[{block} + {level}], 1", "js {negative}", block = in(reg) block_offset(),
             level = const offset_of!(Block, level), negative = label { return true }, options(nostack));
    }
    false
}

/// Whether the process has had one thread only, all its life. False when the C library cannot tell.
#[inline]
pub fn is_alone() -> bool {
    let flag: *const u8;
    // SAFETY: reads the table's entry for a weak symbol of the C library: its address, or null.
    unsafe {
        asm!(".weak __libc_single_threaded", "mov {0}, qword ptr [rip + __libc_single_threaded@GOTPCREL]",
             out(reg) flag, options(pure, readonly, nostack, preserves_flags));
    }
    // SAFETY: if the symbol exists it is a char that the C library writes while no other thread runs.
    !flag.is_null() && unsafe { flag.read_volatile() } != 0
}

unsafe extern "C" {
    fn pthread_atfork(
        prepare: Option<extern "C" fn()>,
        parent: Option<extern "C" fn()>,
        child: Option<extern "C" fn()>,
    ) -> i32;
}

/// Registers what runs in the child of an ordinary `fork`, before the child can have a second thread.
pub fn on_fork_in_child(child: extern "C" fn()) -> bool {
    // SAFETY: the function lives as long as the process: the library is never unloaded.
    unsafe { pthread_atfork(None, None, Some(child)) == 0 }
}

/// Registers what runs before an ordinary `fork`, in the thread that forks.
pub fn before_fork(prepare: extern "C" fn()) -> bool {
    // SAFETY: as above.
    unsafe { pthread_atfork(Some(prepare), None, None) == 0 }
}
