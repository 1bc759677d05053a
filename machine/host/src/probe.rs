//! Probes for tracers outside of the process: `otel_memory:alloc` and `otel_memory:free`, for a heap's samples.
//!
//! OpenTelemetry's convention for memory profiles by eBPF names the probes and their arguments
//! (`design-docs/00003-memory-profiling` of `opentelemetry-ebpf-profiler`):
//!
//! ```text
//!   alloc(ptr, size, weighted_bytes)   a sampled allocation, which stands for so many bytes
//!   free(ptr)                          a block that was told so is freed
//! ```
//!
//! A probe is a `nop`, for which a tracer puts a breakpoint, and a note in the file that says where it is. The note is
//! that of `sys/sdt.h` of SystemTap, version 3 (<https://sourceware.org/systemtap/wiki/UserSpaceProbeImplementation>):
//! the addresses of the `nop`, of a base that tells tracers how far the file was moved after it was linked, and of the
//! semaphore; then provider, name and arguments. The semaphore counts tracers: the kernel, or a debugger, writes it.
//!
//! Each probe is a function of its own, and its arguments are those of the call. The profiler of OpenTelemetry expects
//! them in these registers. The note is retained (`R`), and retains the function, the base and the semaphore, so that
//! it never names an address that the linker has dropped.
//!
//! Runs at the same time: any thread, in signal handlers too.

use core::sync::atomic::{AtomicU16, Ordering::Relaxed};

/// A semaphore. Tracers find it by the section, too. `used`: the compiler may not think that it is always zero.
macro_rules! semaphore {
    ($name:ident) => {
        #[used]
        #[unsafe(link_section = ".probes")]
        static $name: AtomicU16 = AtomicU16::new(0);
    };
}

/// The body of a naked function that is a probe: `$arguments` says of each its size and place.
macro_rules! probe_body {
    ($name:literal, $arguments:literal, $semaphore:path) => {
        core::arch::naked_asm!(
            "990: nop",
            "ret",
            ".pushsection .note.stapsdt, \"R\", \"note\"",
            ".balign 4",
            ".4byte 992f - 991f, 994f - 993f, 3",
            "991: .asciz \"stapsdt\"",
            "992: .balign 4",
            "993: .8byte 990b, _.stapsdt.base, {semaphore}",
            concat!(".asciz \"otel_memory\", \"", $name, "\", \"", $arguments, "\""),
            "994: .balign 4",
            ".popsection",
            ".ifndef _.stapsdt.base",
            ".pushsection .stapsdt.base, \"aG\", \"progbits\", .stapsdt.base, comdat",
            ".weak _.stapsdt.base",
            ".hidden _.stapsdt.base",
            "_.stapsdt.base: .space 1",
            ".size _.stapsdt.base, 1",
            ".popsection",
            ".endif",
            semaphore = sym $semaphore,
        )
    };
}

semaphore!(ALLOC);
semaphore!(FREE);

#[unsafe(naked)]
extern "C" fn alloc(_: *mut u8, _: u64, _: u64) {
    probe_body!("alloc", "8@%rdi 8@%rsi 8@%rdx", ALLOC)
}

#[unsafe(naked)]
extern "C" fn free(_: *mut u8) {
    probe_body!("free", "8@%rdi", FREE)
}

/// Tells tracers of a sampled block, and for how many bytes it stands. Without a tracer: a load and a comparison.
#[inline]
pub fn allocated(block: *mut u8, bytes: usize, weighted_bytes: u64) {
    if ALLOC.load(Relaxed) != 0 {
        alloc(block, bytes as u64, weighted_bytes);
    }
}

/// Tells tracers that such a block is freed.
#[inline]
pub fn freed(block: *mut u8) {
    if FREE.load(Relaxed) != 0 {
        free(block);
    }
}

/// Whether a tracer listens to allocations.
#[inline]
pub fn is_traced() -> bool {
    ALLOC.load(Relaxed) != 0
}

/// Counts a tracer of allocations that comes, as the kernel does. For tests.
pub fn attach() {
    ALLOC.fetch_add(1, Relaxed);
}

/// Counts one that goes.
pub fn detach() {
    ALLOC.fetch_sub(1, Relaxed);
}
