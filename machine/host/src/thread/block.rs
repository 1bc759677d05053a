//! The thread's block of memory, and the C library's knowledge of threads.

use super::identity::Block;
use core::arch::{asm, global_asm};
use core::mem::offset_of;

// The first 32 bytes have the layout of the kernel's `struct rseq`. Restartable operations use its fields at 4
// (negative: no slot), 8 (descriptor) and 24 (slot); in fallback mode they use this block instead.
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

/// Offset of the thread's block from the thread pointer.
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
pub fn block() -> &'static Block {
    // SAFETY: it lies in the static TLS area, and no reference outlives the thread.
    unsafe { &*((id() as isize + block_offset()) as *const Block) }
}

/// The thread's id: even, not zero, and unique among the living threads of the process. The forking thread keeps it in
/// the child. A later thread may get the id of one that died or vanished in a fork, whose actions happened before.
/// Costs one load, which a compiler may hoist out of a loop; needs no `enter`.
///
/// It is the thread pointer. The C library reuses a thread's memory only after the kernel has ended the thread.
#[inline(always)]
pub fn id() -> u64 {
    let pointer: u64;
    // SAFETY: by the x86-64 TLS ABI, the word at fs:0 is the thread pointer itself; it never changes.
    unsafe { asm!("mov {0}, qword ptr fs:[0]", out(reg) pointer, options(pure, nomem, nostack, preserves_flags)) };
    pointer
}

/// Decrements [`level`](super::level) by one instruction; true: it is negative now.
#[inline(always)]
pub fn descend() -> bool {
    // SAFETY: changes a word of the thread's own block.
    unsafe {
        asm!("sub dword ptr fs:[{block} + {level}], 1", "js {negative}", block = in(reg) block_offset(),
             level = const offset_of!(Block, level), negative = label { return true }, options(nostack));
    }
    false
}

/// Increments [`level`](super::level) by one instruction; true: it is still negative.
#[inline(always)]
pub fn ascend() -> bool {
    // SAFETY: as above.
    unsafe {
        asm!("add dword ptr fs:[{block} + {level}], 1", "js {negative}", block = in(reg) block_offset(),
             level = const offset_of!(Block, level), negative = label { return true }, options(nostack));
    }
    false
}

/// Whether the process has always had only one thread. False also if the C library cannot tell.
#[inline]
pub fn is_alone() -> bool {
    let flag: *const u8;
    // SAFETY: reads the table's entry for a weak symbol of the C library: its address, or null.
    unsafe {
        asm!(".weak __libc_single_threaded", "mov {0}, qword ptr [rip + __libc_single_threaded@GOTPCREL]",
             out(reg) flag, options(pure, readonly, nostack, preserves_flags));
    }
    // SAFETY: the symbol is a char that the C library writes while no other thread runs.
    !flag.is_null() && unsafe { flag.read_volatile() } != 0
}

unsafe extern "C" {
    fn pthread_atfork(
        prepare: Option<extern "C" fn()>, parent: Option<extern "C" fn()>, child: Option<extern "C" fn()>,
    ) -> i32;
}

/// Registers a function for the child of an ordinary `fork`, run before the child can have a second thread.
pub fn on_fork_in_child(child: extern "C" fn()) -> bool {
    // SAFETY: the function lives as long as the process, because the library is never unloaded.
    unsafe { pthread_atfork(None, None, Some(child)) == 0 }
}

/// Registers a function that the forking thread runs before an ordinary `fork`.
pub fn before_fork(prepare: extern "C" fn()) -> bool {
    // SAFETY: as above.
    unsafe { pthread_atfork(Some(prepare), None, None) == 0 }
}
