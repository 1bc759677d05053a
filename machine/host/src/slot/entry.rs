//! The two operations as whole functions: what a C program calls when it calls malloc and free.
//!
//! They do what `pop` and `push` do, by the same text (`section`), behind the runtime's table lookups. As a function of
//! its own a pop tests its outcome once; the caller of an inlined one tests it again, since inline assembly cannot both
//! jump out and give a value. The layout and the slow path come from the runtime as arguments.

/// A second name of the function that begins here, which no other library can take over: `commensal_own_$symbol`.
#[macro_export]
macro_rules! own_label {
    ($symbol:literal) => {
        concat!(".globl commensal_own_", $symbol, "\n.hidden commensal_own_", $symbol, "\ncommensal_own_", $symbol, ":")
    };
}

/// The body of a naked `extern "C" fn(bytes: usize) -> *mut c_void`: for up to `$limit` bytes, a [`pop`](super::pop)
/// from the take word whose index is in the byte table at offset `$table` of the region, by steps of 16 bytes;
/// `$slow(bytes)` if that gives null.
///
/// 21 instructions.
#[macro_export]
macro_rules! take_body {
    ($(label: $label:expr,)? limit: $limit:expr, table: $table:expr, slow: $slow:path) => {
        core::arch::naked_asm!(
            $($label,)?
            "cmp rdi, {limit}",
            "ja {slow}",
            "mov rcx, qword ptr [rip + {base}]",
            "lea rax, [rdi + 15]",
            "shr rax, 4",
            "movzx edx, byte ptr [rcx + rax + {table}]",
            "lea rdx, [rcx + rdx*8 + {areas}]",
            "mov rsi, qword ptr [rip + {words}]",
            $crate::pop_section!(
                multiply, words = "rsi", base = "rcx", word = "rdx", at = "r9" "r9d",
                head = "r8", object = "rax", empty = "{slow}", leave = "{slow}"
            ),
            "ret",
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

/// The body of a naked `extern "C" fn(object: *mut c_void)`: a [`push`](super::push) to the give word beside the take
/// word whose index is in the byte map at offset `$map` of the region, by steps of 64 KiB, modulo the mask at offset
/// `$mask`; `$slow(object)` if that fails.
///
/// 20 instructions.
#[macro_export]
macro_rules! put_body {
    (map: $map:expr, mask: $mask:expr, slow: $slow:path) => {
        core::arch::naked_asm!(
            "mov rcx, qword ptr [rip + {base}]",
            "mov rax, rdi",
            "shr rax, 16",
            "and rax, qword ptr [rcx + {mask}]",
            "movzx edx, byte ptr [rcx + rax + {map}]",
            "lea rdx, [rcx + rdx*8 + {gives}]",
            "mov rsi, qword ptr [rip + {words}]",
            $crate::push_section!(
                multiply, words = "rsi", base = "rcx", word = "rdx", at = "r9" "r9d",
                head = "r8" "r8d", object = "rdi", leave = "{slow}"
            ),
            "ret",
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

/// The body of a naked `extern "C" fn(cache: *mut _) -> *mut c_void`: a [`pop`](super::pop) from the take word whose
/// index is in the second word of what the pointer leads to, in the region whose base is in the first; `$slow(cache)`
/// if that gives null.
///
/// 18 instructions.
#[macro_export]
macro_rules! cache_take_body {
    (slow: $slow:path) => {
        core::arch::naked_asm!(
            "mov rcx, qword ptr [rdi]",
            "mov rdx, qword ptr [rdi + 8]",
            "lea rdx, [rcx + rdx*8 + {areas}]",
            "mov rsi, qword ptr [rip + {words}]",
            $crate::pop_section!(
                shift, words = "rsi", base = "rcx", word = "rdx", at = "r9" "r9d",
                head = "r8", object = "rax", empty = "{slow}", leave = "{slow}"
            ),
            "ret",
            ".p2align 6",
            slow = sym $slow,
            words = sym $crate::slot::WORDS,
            shift = const $crate::slot::AREA_SHIFT,
            areas = const $crate::slot::AREAS,
        )
    };
}

/// The body of a naked `extern "C" fn(cache: *mut _, object: *mut c_void)`: a [`push`](super::push) to the give word
/// beside the take word that [`cache_take_body`] pops from; `$slow(cache, object)` if that fails. Null is nothing.
///
/// 20 instructions.
#[macro_export]
macro_rules! cache_put_body {
    (slow: $slow:path) => {
        core::arch::naked_asm!(
            "test rsi, rsi",
            "jz 9f",
            "mov rcx, qword ptr [rdi]",
            "mov rdx, qword ptr [rdi + 8]",
            "lea rdx, [rcx + rdx*8 + {gives}]",
            "mov rax, qword ptr [rip + {words}]",
            $crate::push_section!(
                shift, words = "rax", base = "rcx", word = "rdx", at = "r9" "r9d",
                head = "r8" "r8d", object = "rsi", leave = "{slow}"
            ),
            "9: ret",
            ".p2align 6",
            slow = sym $slow,
            words = sym $crate::slot::WORDS,
            shift = const $crate::slot::AREA_SHIFT,
            gives = const $crate::slot::AREAS + 8,
            full = const $crate::slot::ARRAY - 1,
        )
    };
}
