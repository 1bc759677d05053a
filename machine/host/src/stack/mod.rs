//! The calls that a thread is in, as return addresses, by the unwind tables of each module, else by frame pointers.
//!
//! Allocates nothing, takes no lock, and calls no function but `_dl_find_object` of glibc 2.35, which is safe in signal
//! handlers. Under an older C library, in a static program, or in code that a program has generated, only frame
//! pointers are left.
//!
//! ```text
//!   frame of a function   │ locals │ saved registers │ return address │ ← CFA: the stack pointer before the call
//!                         └ stack pointer                │
//!   row    for each address of code: CFA = register + offset, where the caller's registers are saved
//! ```
//!
//! Compilers write rows as a program of small steps (DWARF 5, section 6.4; System V ABI for x86-64, section 3.7). A row
//! that was found is kept in [`Rows`], because the same calls come again.
//!
//! Runs at the same time: any thread, in signal handlers too.

mod row;
mod tables;
#[cfg(test)]
mod tests;

use crate::process;
use crate::sync::{AtomicU64, AtomicUsize, Ordering};
use crate::vm::PAGE;
use core::arch::asm;
use core::cell::Cell;
use core::ffi::{CStr, c_char};
use core::ops::Range;
use row::{Base, Row, Save};
use tables::Module;

const ROWS: usize = 2048;

/// Rows that were found, by the address of code. All-zero memory is valid: none yet.
#[derive(Debug)]
#[repr(C)]
pub struct Rows {
    kept: [Kept; ROWS],
    /// [`code_of_malloc`], once it was asked for: its start, and its end or 1.
    own: [AtomicUsize; 2],
}

/// A row, and the address that it is for. Two threads may write at once, so only a pair that fits together counts.
#[derive(Debug)]
#[repr(C)]
struct Kept {
    row: AtomicU64,
    /// The row's bits, the address and the module's identity, exclusive-ored.
    check: AtomicU64,
}

impl Rows {
    /// The row for an address in a module.
    fn of(&self, module: &Module, code: usize) -> Option<Row> {
        let kept = &self.kept[(code ^ code >> 11) % ROWS];
        let identity = code as u64 ^ module.identity();
        // Relaxed: `check` proves that both belong together.
        let bits = kept.row.load(Ordering::Relaxed);
        if kept.check.load(Ordering::Relaxed) ^ bits == identity {
            return Row::of_bits(bits);
        }
        let row = module.row(code);
        let bits = row.map_or(0, Row::bits);
        kept.row.store(bits, Ordering::Relaxed);
        kept.check.store(bits ^ identity, Ordering::Relaxed);
        row
    }
}

/// The registers by which callers are found.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
struct Registers {
    code: usize,
    stack: usize,
    frame: usize,
    base: usize,
}

/// Notes the return addresses of the calls that this thread is in, innermost first, and returns how many there are. The
/// first ones are those of the caller itself and of its callers.
///
/// Each address follows a call. Where a signal interrupted, it is one more than the next instruction's, so that for all
/// of them the byte before belongs to the call. Some 20 ns for each frame whose row is known, else about a microsecond.
#[inline(never)]
pub fn capture(rows: &Rows, frames: &mut [usize]) -> usize {
    let at = registers();
    let start = at.stack;
    let mut walk = Walk { at, is_exact: false, is_checked: false, checked_page: Cell::new(0), start, module: None };
    let mut count = 0;
    while count < frames.len() && walk.step(rows) {
        frames[count] = walk.at.code + usize::from(walk.is_exact);
        count += 1;
    }
    count
}

/// The registers here.
#[inline(always)]
fn registers() -> Registers {
    let mut at = Registers::default();
    // SAFETY: reads registers.
    unsafe {
        asm!("lea {0}, [rip]", "mov {1}, rsp", "mov {2}, rbp", "mov {3}, rbx",
             out(reg) at.code, out(reg) at.stack, out(reg) at.frame, out(reg) at.base,
             options(nomem, nostack, preserves_flags));
    }
    at
}

impl Rows {
    /// The code of the C library's `malloc`, if it is this code: of a library that a program has loaded in its place.
    /// Else empty. It stays the same.
    pub fn code_of_malloc(&self) -> Range<usize> {
        let [start, end] = &self.own;
        // Acquire pairs with the release: a thread that sees the end sees the start. Others store the same.
        if end.load(Ordering::Acquire) == 0 {
            let code = code_of_malloc();
            start.store(code.start, Ordering::Relaxed);
            end.store(code.end.max(1), Ordering::Release);
        }
        start.load(Ordering::Relaxed)..end.load(Ordering::Relaxed)
    }
}

fn code_of_malloc() -> Range<usize> {
    const ENTRY: u64 = 9;
    unsafe extern "C" {
        fn malloc(bytes: usize) -> *mut u8;
    }
    let code = |module: Module| module.code();
    let range = Module::at(malloc as *const () as usize).map_or(0..0, code);
    let is_ours = range.contains(&(capture as *const () as usize));
    if is_ours && !range.contains(&(process::auxiliary(ENTRY) as usize)) { range } else { 0..0 }
}

/// File and offset of the call before a return address, as `addr2line` wants them. None: no module has it, or the C
/// library cannot tell.
///
/// Takes no lock, and is safe in signal handlers. The file's name stays as long as the module.
pub fn place_of(call: usize) -> Option<(&'static CStr, usize)> {
    /// The name of the executed file.
    const FILE_NAME: u64 = 31;
    let call = call.checked_sub(1)?;
    let (base, name) = Module::at(call)?.base_and_name()?;
    let name = match name.is_empty() {
        // SAFETY: the kernel's string, which lasts as long as the process.
        true => unsafe { CStr::from_ptr(process::auxiliary(FILE_NAME) as *const c_char) },
        false => name,
    };
    Some((name, call.wrapping_sub(base)))
}

struct Walk {
    at: Registers,
    /// `at.code` is an instruction that was interrupted, or the start; else it follows a call.
    is_exact: bool,
    /// Whether the next stack pointer is only guessed, so that reads must be checked.
    is_checked: bool,
    /// A page that was read so. Only a page near the start is noted: it is the stack's, and stays mapped.
    checked_page: Cell<usize>,
    start: usize,
    /// That of the last call: most calls are within one.
    module: Option<Module>,
}

impl Walk {
    /// Goes to the caller. False: there is none, or it cannot be found.
    fn step(&mut self, rows: &Rows) -> bool {
        // A call may be the last instruction of its function.
        let code = self.at.code - usize::from(!self.is_exact);
        if self.module.as_ref().is_none_or(|module| !module.code().contains(&code)) {
            self.module = Module::at(code);
        }
        let row = self.module.as_ref().and_then(|module| rows.of(module, code));
        match row {
            Some(row) if row.is_last() => false,
            Some(row) if row.is_signal_frame() => self.leave_handler().is_some(),
            Some(row) => self.leave(row).is_some(),
            None => self.follow_frame_pointer().is_some(),
        }
    }

    fn leave(&mut self, row: Row) -> Option<()> {
        let from = match row.base() {
            Base::Rsp => self.at.stack,
            Base::Rbp => self.at.frame,
            Base::Rbx => self.at.base,
        };
        let top = from.checked_add(row.offset())?;
        let saved = |save: Save, now: usize| match save {
            Save::No => Some(now),
            Save::Below(words) => self.read(top - 8 * words as usize),
        };
        let next = Registers {
            code: self.read(top - 8)?,
            stack: top,
            frame: saved(row.frame(), self.at.frame)?,
            base: saved(row.base_register(), self.at.base)?,
        };
        self.go(next)
    }

    /// The kernel saves all registers above the return address of a handler (`ucontext_t`).
    fn leave_handler(&mut self) -> Option<()> {
        const REGISTERS: usize = 40;
        let of = |number: usize| self.read(self.at.stack + REGISTERS + 8 * number);
        let next = Registers { frame: of(10)?, base: of(11)?, stack: of(15)?, code: of(16)? };
        // A handler may have a stack of its own, so this may go anywhere.
        self.at = next;
        self.is_exact = true;
        (next.code != 0).then_some(())
    }

    fn follow_frame_pointer(&mut self) -> Option<()> {
        self.is_checked = true;
        let frame = self.at.frame;
        if frame < self.at.stack {
            return None;
        }
        let next = Registers { frame: self.read(frame)?, code: self.read(frame + 8)?, stack: frame + 16, ..self.at };
        self.go(next)
    }

    /// Callers lie above: a walk that does not climb would never end.
    fn go(&mut self, next: Registers) -> Option<()> {
        const LOWEST_CODE: usize = 4096;
        let climbs = next.stack > self.at.stack && next.stack.is_multiple_of(8) && next.code >= LOWEST_CODE;
        (self.at, self.is_exact) = (next, false);
        climbs.then_some(())
    }

    fn read(&self, address: usize) -> Option<usize> {
        if !address.is_multiple_of(8) || address == 0 {
            return None;
        }
        const NEAR: usize = 1 << 18;
        if self.is_checked && address / PAGE != self.checked_page.get() {
            let mut word = [0; 8];
            process::read_memory(address, &mut word).then_some(())?;
            if address.wrapping_sub(self.start) < NEAR {
                self.checked_page.set(address / PAGE);
            }
            return Some(usize::from_ne_bytes(word));
        }
        // SAFETY: a word of this thread's stack: in a page of it that was read, or where the unwind tables say that a
        // register was saved.
        Some(unsafe { *(address as *const usize) })
    }
}
