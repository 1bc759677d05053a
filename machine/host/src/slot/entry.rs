//! The two operations as whole functions: what a C program calls when it calls malloc and free.
//!
//! They do what `pop` and `push` do behind the runtime's two table lookups; as functions of their
//! own they test the outcome once, where inline assembly (which cannot jump out and give a value) makes its caller test it
//! again. What differs from slot to slot of a word's address is added last, and the word is named by that sum alone: processors that
//! forward a store to the next load by the form of its address do so only for simple ones, and each operation reads what the one before
//! wrote. The layout and the slow path come from the runtime as arguments.

/// A second name of the function that begins here, which no other library can take over: `commensal_own_` and its symbol.
#[macro_export]
macro_rules! own_label {
    ($symbol:literal) => {
        concat!(".globl commensal_own_", $symbol, "\n.hidden commensal_own_", $symbol, "\ncommensal_own_", $symbol, ":")
    };
}

/// The body of a naked `extern "C" fn(bytes: usize) -> *mut c_void`: for up to `$limit` bytes, a [`pop`](super::pop) from the take word
/// whose index is in the byte table at offset `$table` of the region, by steps of 16 bytes; `$slow(bytes)` if that gives null.
///
/// 21 instructions.
#[macro_export]
macro_rules! take_body {
    ($(label: $label:expr,)? limit: $limit:expr, table: $table:expr, slow: $slow:path) => {
        core::arch::naked_asm!(
            $($label,)?
            $crate::restartable_section!("{slow}"),
            "cmp rdi, {limit}",
            "ja {slow}",
            "mov rcx, qword ptr [rip + {base}]",
            "lea rax, [rdi + 15]",
            "shr rax, 4",
            "movzx edx, byte ptr [rcx + rax + {table}]",
            "lea rdx, [rcx + rdx*8 + {areas}]",
            "mov rsi, qword ptr [rip + {words}]",
            "5: lea r8, [rip + 77b]",
            "mov qword ptr fs:[rsi + 8], r8",
            "2: cmp dword ptr fs:[rsi + 4], 0",
            "js {slow}",
            "imul r9d, dword ptr fs:[rsi + 24], {area}",
            "add r9, rdx",
            "mov r8, qword ptr [r9]",
            "mov rax, qword ptr [rcx + r8]",
            "test rax, rax",
            "jz {slow}",
            "sub r8, 8",
            "mov qword ptr [r9], r8",
            "3: ret",
            ".p2align 6",
            limit = const $limit,
            table = const $table,
            slow = sym $slow,
            base = sym $crate::root::BASE,
            words = sym $crate::slot::WORDS,
            area = const $crate::slot::AREA,
            areas = const $crate::slot::AREAS,
        )
    };
}

/// The body of a naked `extern "C" fn(object: *mut c_void)`: a [`push`](super::push) to the give word beside the take word whose
/// index is in the byte map at offset `$map` of the region, by steps of 64 KiB, modulo the mask at offset `$mask`;
/// `$slow(object)` if that fails.
///
/// 20 instructions.
#[macro_export]
macro_rules! put_body {
    (map: $map:expr, mask: $mask:expr, slow: $slow:path) => {
        core::arch::naked_asm!(
            $crate::restartable_section!("{slow}"),
            "mov rcx, qword ptr [rip + {base}]",
            "mov rax, rdi",
            "shr rax, 16",
            "and rax, qword ptr [rcx + {mask}]",
            "movzx edx, byte ptr [rcx + rax + {map}]",
            "lea rdx, [rcx + rdx*8 + {gives}]",
            "mov rsi, qword ptr [rip + {words}]",
            "5: lea r8, [rip + 77b]",
            "mov qword ptr fs:[rsi + 8], r8",
            "2: cmp dword ptr fs:[rsi + 4], 0",
            "js {slow}",
            "imul r9d, dword ptr fs:[rsi + 24], {area}",
            "add r9, rdx",
            "mov r8, qword ptr [r9]",
            "test r8d, {full}",
            "jz {slow}",
            "mov qword ptr [rcx + r8], rdi",
            "add r8, 8",
            "mov qword ptr [r9], r8",
            "3: ret",
            ".p2align 6",
            map = const $map,
            mask = const $mask,
            slow = sym $slow,
            base = sym $crate::root::BASE,
            words = sym $crate::slot::WORDS,
            area = const $crate::slot::AREA,
            gives = const $crate::slot::AREAS + 8,
            full = const $crate::slot::ARRAY - 1,
        )
    };
}

/// The body of a naked `extern "C" fn(cache: *mut _) -> *mut c_void`: a [`pop`](super::pop) from the take word whose index is in the second word of
/// what the pointer leads to, in the region whose base is in the first; `$slow(cache)` if that gives null.
///
/// 18 instructions.
#[macro_export]
macro_rules! cache_take_body {
    (slow: $slow:path) => {
        core::arch::naked_asm!(
            $crate::restartable_section!("{slow}"),
            "mov rcx, qword ptr [rdi]",
            "mov rdx, qword ptr [rdi + 8]",
            "lea rdx, [rcx + rdx*8 + {areas}]",
            "mov rsi, qword ptr [rip + {words}]",
            "5: lea r8, [rip + 77b]",
            "mov qword ptr fs:[rsi + 8], r8",
            "2: cmp dword ptr fs:[rsi + 4], 0",
            "js {slow}",
            "mov r9d, dword ptr fs:[rsi + 24]",
            "shl r9d, {shift}",
            "add r9, rdx",
            "mov r8, qword ptr [r9]",
            "mov rax, qword ptr [rcx + r8]",
            "test rax, rax",
            "jz {slow}",
            "sub r8, 8",
            "mov qword ptr [r9], r8",
            "3: ret",
            ".p2align 6",
            slow = sym $slow,
            words = sym $crate::slot::WORDS,
            shift = const $crate::slot::AREA_SHIFT,
            areas = const $crate::slot::AREAS,
        )
    };
}

/// The body of a naked `extern "C" fn(cache: *mut _, object: *mut c_void)`: a [`push`](super::push) to the give word beside the take word that
/// [`cache_take_body`] pops from; `$slow(cache, object)` if that fails. Null is nothing.
///
/// 20 instructions.
#[macro_export]
macro_rules! cache_put_body {
    (slow: $slow:path) => {
        core::arch::naked_asm!(
            $crate::restartable_section!("{slow}"),
            "test rsi, rsi",
            "jz 9f",
            "mov rcx, qword ptr [rdi]",
            "mov rdx, qword ptr [rdi + 8]",
            "lea rdx, [rcx + rdx*8 + {gives}]",
            "mov rax, qword ptr [rip + {words}]",
            "5: lea r8, [rip + 77b]",
            "mov qword ptr fs:[rax + 8], r8",
            "2: cmp dword ptr fs:[rax + 4], 0",
            "js {slow}",
            "mov r9d, dword ptr fs:[rax + 24]",
            "shl r9d, {shift}",
            "add r9, rdx",
            "mov r8, qword ptr [r9]",
            "test r8d, {full}",
            "jz {slow}",
            "mov qword ptr [rcx + r8], rsi",
            "add r8, 8",
            "mov qword ptr [r9], r8",
            "3: 9: ret",
            ".p2align 6",
            slow = sym $slow,
            words = sym $crate::slot::WORDS,
            shift = const $crate::slot::AREA_SHIFT,
            gives = const $crate::slot::AREAS + 8,
            full = const $crate::slot::ARRAY - 1,
        )
    };
}

/// The descriptor and the abort handler of the section between labels `2` and `3`, which an abort begins again at `5`; but every fourth time it goes to `$leave`, as
/// if the thread had no slot: under a debugger that stops at each instruction no section ever comes to its end.
/// Threads share the count, and lose some of it: that changes when one leaves, and nothing else.
#[doc(hidden)]
#[macro_export]
macro_rules! restartable_section {
    ($leave:literal) => {
        concat!(
            ".pushsection __rseq_cs, \"aw\"
             .balign 32
             77: .long 0, 0
             .quad 2f, 3f - 2f, 4f
             .popsection
             .pushsection .bss.commensal_aborts, \"aw\", @nobits
             78: .zero 1
             .popsection
             .pushsection .text.commensal_abort, \"ax\"
             .byte 0x0f, 0xb9, 0x3d
             .long 0x53053053
             4: inc byte ptr [rip + 78b]
             test byte ptr [rip + 78b], 3
             jz ",
            $leave,
            "
             jmp 5f
             .popsection"
        )
    };
}
