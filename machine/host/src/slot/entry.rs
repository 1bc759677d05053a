//! The two operations as whole functions, for the entry points malloc and free.
//!
//! They do the same as `pop` and `push`, by the same text (`section`), after the runtime's table lookups. A pop as a
//! function of its own tests its outcome once. The caller of an inlined one tests it again, because inline assembly
//! cannot both jump out and give a value. The runtime passes the layout and the slow path as arguments.

/// A second label of the function, `commensal_own_$symbol`, which no other library can interpose.
#[macro_export]
macro_rules! own_label {
    ($symbol:literal) => {
        concat!(".globl commensal_own_", $symbol, "\n.hidden commensal_own_", $symbol, "\ncommensal_own_", $symbol, ":")
    };
}

/// The body of a naked `extern "C" fn(bytes: usize) -> *mut c_void`. For up to `$limit` bytes it is a
/// [`pop`](super::pop) from the allocation word whose index is in the byte table at offset `$table` of the region, by
/// steps of 16 bytes. If that gives null, it is `$slow(bytes)`.
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
            ".p2align 7",
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

/// The body of a naked `extern "C" fn(object: *mut c_void)`: a [`push`](super::push) to a free word; `$slow(object)` if
/// that fails. The index of the allocation word beside it is in the byte map at offset `$map` of the region, by steps
/// of 64 KiB, modulo the mask at offset `$mask`.
///
/// 20 instructions.
///
/// With `sized`, the second argument is the object's size, and the body first compares it with the bounds of the class:
/// `$bounds[class] < size <= $bounds[class + 1]`. It also compares the address of the function `$symbol`, which it
/// stands for, with that of this library's own. If either differs, it is `$other(object, size)`. 28 instructions.
#[macro_export]
macro_rules! put_body {
    (
        $(label: $label:expr,)? map: $map:expr, mask: $mask:expr,
        $(sized: $symbol:literal $bounds:path, other: $other:path,)? slow: $slow:path
    ) => {
        core::arch::naked_asm!(
            $($label,)?
            $(
                concat!("lea rax, [rip + commensal_own_", $symbol, "]"),
                concat!("cmp rax, qword ptr [rip + ", $symbol, "@GOTPCREL]"),
                "jne {other}",
            )?
            "mov rcx, qword ptr [rip + {base}]",
            "mov rax, rdi",
            "shr rax, 16",
            "and rax, qword ptr [rcx + {mask}]",
            "movzx edx, byte ptr [rcx + rax + {map}]",
            $(
                // Twice the class is in `rdx`, and a bound has eight bytes.
                concat!("lea rax, [rip + {bounds}] # ", $symbol),
                "cmp rsi, qword ptr [rax + rdx*4 + 8]",
                "ja {other}",
                "cmp rsi, qword ptr [rax + rdx*4]",
                "jbe {other}",
            )?
            "lea rdx, [rcx + rdx*8 + {gives}]",
            "mov rsi, qword ptr [rip + {words}]",
            $crate::push_section!(
                multiply, words = "rsi", base = "rcx", word = "rdx", at = "r9" "r9d",
                head = "r8" "r8d", object = "rdi", leave = "{slow}"
            ),
            "ret",
            ".p2align 7",
            map = const $map,
            mask = const $mask,
            slow = sym $slow,
            base = sym $crate::root::BASE,
            words = sym $crate::slot::WORDS,
            area = const $crate::slot::AREA,
            gives = const $crate::slot::AREAS + 8,
            full = const $crate::slot::ARRAY - 1,
            $(bounds = sym $bounds, other = sym $other,)?
        )
    };
}

/// The body of a naked `extern "C" fn(cache: *mut _) -> *mut c_void`: a [`pop`](super::pop) from an allocation word;
/// `$slow(cache)` if that gives null. `cache` leads to the base of the region, and then to the word's index.
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
            ".p2align 7",
            slow = sym $slow,
            words = sym $crate::slot::WORDS,
            shift = const $crate::slot::AREA_SHIFT,
            areas = const $crate::slot::AREAS,
        )
    };
}

/// The body of a naked `extern "C" fn(cache: *mut _, object: *mut c_void)`: a [`push`](super::push) to the free word
/// beside the word of [`cache_take_body`]; `$slow(cache, object)` if that fails. A null object has no effect.
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
            ".p2align 7",
            slow = sym $slow,
            words = sym $crate::slot::WORDS,
            shift = const $crate::slot::AREA_SHIFT,
            gives = const $crate::slot::AREAS + 8,
            full = const $crate::slot::ARRAY - 1,
        )
    };
}
