//! Cache lines asked for ahead of time.

use core::arch::asm;

/// Asks the processor for the line at an address, to write to it soon, and goes on meanwhile. Any address: an unmapped
/// one does nothing.
///
/// Stores leave a CPU in order. So stores to lines that another CPU read last wait for them one by one, but lines asked
/// for here come side by side. Processors before Broadwell ignore the instruction.
#[inline(always)]
pub fn prefetchw(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: it reads and writes nothing.
    unsafe {
        asm!("prefetchw byte ptr [{}]", in(reg) address, options(nostack, preserves_flags, readonly));
    }
}
