//! The text of restartable sections, in x86-64 assembly: how each one begins, and the whole of pop and push.
//!
//! Pop and push are used in two places: in functions of their own (`entry`), and inlined (`restartable`). So each macro
//! here gives a string, and its caller names the registers: real ones in a naked function, operands in `asm!`.

/// The descriptor and the abort handler of the section between labels `2` and `3`, and the lines before `2`.
///
/// The handler begins again at `5`. Every fourth time it goes to `$leave` instead, as if the thread had no slot: under
/// a debugger that stops at each instruction, no section ever reaches its end. Threads share the count of times and may
/// lose some of it, which only changes when one of them leaves.
#[doc(hidden)]
#[macro_export]
macro_rules! restartable_section {
    (words = $words:literal, scratch = $scratch:literal, leave = $leave:literal) => {
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
             test byte ptr [rip + 78b], 3\n",
            concat!("jz ", $leave, "\n"),
            "jmp 5f
             .popsection\n",
            concat!("5: lea ", $scratch, ", [rip + 77b]\n"),
            concat!("mov qword ptr fs:[", $words, " + 8], ", $scratch, "\n"),
            "2: "
        )
    };
}

/// The same, and a jump to `$leave` if the thread has no slot.
#[doc(hidden)]
#[macro_export]
macro_rules! slot_section {
    (words = $words:literal, scratch = $scratch:literal, leave = $leave:literal) => {
        concat!(
            $crate::restartable_section!(words = $words, scratch = $scratch, leave = $leave),
            concat!("cmp dword ptr fs:[", $words, " + 4], 0\n"),
            concat!("js ", $leave, "\n"),
        )
    };
}

/// The offset of the slot's area from that of slot 0: shifted by the operand `shift`, or multiplied by `area`, which is
/// one instruction instead of two, and takes two cycles more.
#[doc(hidden)]
#[macro_export]
macro_rules! area_offset {
    (shift, words = $words:literal, at = $at:literal) => {
        concat!("mov ", $at, ", dword ptr fs:[", $words, " + 24]\n shl ", $at, ", {shift}\n")
    };
    (multiply, words = $words:literal, at = $at:literal) => {
        concat!("imul ", $at, ", dword ptr fs:[", $words, " + 24], {area}\n")
    };
}

/// Takes the topmost pointer of an array into `$object`. It jumps to `$empty` if there is none, with null in `$object`,
/// and to `$leave` if the thread has no slot.
///
/// `$word` is the address of slot 0's take word, and `$at` becomes the address of this slot's; `$at32` names its lower
/// half. The slot's part of the address is added last, and loads and stores name the word by that one register:
/// processors that forward a store to the next load by the form of its address do so only for simple ones, and each
/// operation reads what the one before wrote.
#[doc(hidden)]
#[macro_export]
macro_rules! pop_section {
    ($offset:ident, words = $words:literal, base = $base:literal, word = $word:literal, at = $at:literal $at32:literal,
     head = $head:literal, object = $object:literal, empty = $empty:literal, leave = $leave:literal) => {
        concat!(
            $crate::slot_section!(words = $words, scratch = $head, leave = $leave),
            $crate::area_offset!($offset, words = $words, at = $at32),
            concat!("add ", $at, ", ", $word, "\n"),
            concat!("mov ", $head, ", qword ptr [", $at, "]\n"),
            concat!("mov ", $object, ", qword ptr [", $base, " + ", $head, "]\n"),
            concat!("test ", $object, ", ", $object, "\n"),
            concat!("jz ", $empty, "\n"),
            concat!("sub ", $head, ", 8\n"),
            concat!("mov qword ptr [", $at, "], ", $head, "\n"),
            "3: "
        )
    };
}

/// Puts `$object` on an array. It jumps to `$leave` if the array is full or the thread has no slot.
///
/// `$word` and `$at` are as for [`pop_section`], but of the give word. The operand `full` is `FULL_MASK`.
#[doc(hidden)]
#[macro_export]
macro_rules! push_section {
    ($offset:ident, words = $words:literal, base = $base:literal, word = $word:literal, at = $at:literal $at32:literal,
     head = $head:literal $head32:literal, object = $object:literal, leave = $leave:literal) => {
        concat!(
            $crate::slot_section!(words = $words, scratch = $head, leave = $leave),
            $crate::area_offset!($offset, words = $words, at = $at32),
            concat!("add ", $at, ", ", $word, "\n"),
            concat!("mov ", $head, ", qword ptr [", $at, "]\n"),
            concat!("test ", $head32, ", {full}\n"),
            concat!("jz ", $leave, "\n"),
            concat!("mov qword ptr [", $base, " + ", $head, "], ", $object, "\n"),
            concat!("add ", $head, ", 8\n"),
            concat!("mov qword ptr [", $at, "], ", $head, "\n"),
            "3: "
        )
    };
}
