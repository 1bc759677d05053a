//! The text of restartable sections, in x86-64 assembly: their start, and all of pop and push.
//!
//! Pop and push exist as functions of their own (`entry`) and inlined (`restartable`). So each macro gives a string,
//! and its caller names the registers: real ones in a naked function, operands in `asm!`.

/// The descriptor and the abort handler of the section between labels `2` and `3`, and the lines before `2`.
///
/// The handler begins again at `5`. Every fourth time it goes to `$leave` instead, as if the thread had no slot: no
/// section completes under a debugger that stops at each instruction. Threads share this count and may lose some of it.
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

/// Offset of the slot's area from slot 0's: shifted by the operand `shift`, or multiplied by `area`, which is one
/// instruction instead of two, and takes two cycles more.
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

/// Pops the topmost pointer into `$object`. Jumps to `$empty` with null if there is none, to `$leave` without a slot.
///
/// `$word` is the address of slot 0's allocation word; `$at` becomes that of this slot's, and `$at32` names its lower
/// half. The slot's part is added last, so loads and stores name the word by one register. Processors forward a store
/// to the next load only for simple forms of address, and each operation reads the word that the last one wrote.
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

/// Pushes `$object`. Jumps to `$leave` if the magazine is full or the thread has no slot. `$word` and `$at` are as for
/// [`pop_section`], but for the free word. The operand `full` is `FULL_MASK`.
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
