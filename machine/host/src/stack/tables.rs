//! Unwind tables of a module: `.eh_frame_hdr` finds a function's entry in `.eh_frame`, whose steps make a row.
//!
//! Only forms that compilers write for x86-64 are understood. All others, such as a CFA by an expression, are no row.

use super::row::{Base, Row, Save};
use core::arch::asm;
use core::ffi::{CStr, c_char, c_void};
use core::ops::Range;

/// A module that is loaded, as `struct dl_find_object` of glibc describes it.
#[derive(Debug)]
#[repr(C)]
pub struct Module {
    flags: u64,
    start: usize,
    end: usize,
    link_map: *const LinkMap,
    /// The module's `.eh_frame_hdr`.
    header: *const u8,
    reserved: [u64; 7],
}

/// The start of `struct link_map` (`link.h`).
#[derive(Debug)]
#[repr(C)]
struct LinkMap {
    base: usize,
    name: *const c_char,
}

type FindObject = unsafe extern "C" fn(*const c_void, *mut Module) -> i32;

/// Numbers of registers in unwind tables.
const RBX: u64 = 3;
const RBP: u64 = 6;
const RSP: u64 = 7;
const RETURN_ADDRESS: u64 = 16;

impl Module {
    /// The module at an address. None: no module, it has no table, or the C library cannot tell.
    pub fn at(code: usize) -> Option<Self> {
        let find: *const c_void;
        // SAFETY: reads the table's entry for a weak symbol of the loader: its address, or null before glibc 2.35.
        unsafe {
            asm!(".weak _dl_find_object", "mov {0}, qword ptr [rip + _dl_find_object@GOTPCREL]",
                 out(reg) find, options(pure, readonly, nostack, preserves_flags));
        }
        if find.is_null() {
            return None;
        }
        // SAFETY: a function of this type (`dlfcn.h`).
        let find = unsafe { core::mem::transmute::<*const c_void, FindObject>(find) };
        let mut module = Module {
            flags: 0,
            start: 0,
            end: 0,
            link_map: core::ptr::null(),
            header: core::ptr::null(),
            reserved: [0; 7],
        };
        // SAFETY: the function writes to `module`, and takes no lock.
        let found = unsafe { find(code as *const c_void, &raw mut module) } == 0;
        (found && !module.header.is_null()).then_some(module)
    }

    /// The addresses from its start to its end.
    pub fn code(&self) -> Range<usize> {
        self.start..self.end
    }

    /// Added to the addresses of its file; and the file's name, which is empty for the program.
    pub fn base_and_name(&self) -> Option<(usize, &'static CStr)> {
        // SAFETY: null, or the loader's, as long as the module is loaded.
        let map = unsafe { self.link_map.as_ref() }?;
        // SAFETY: a name of the loader's.
        Some((map.base, if map.name.is_null() { c"" } else { unsafe { CStr::from_ptr(map.name) } }))
    }

    /// Tells modules apart that were at the same place at different times.
    pub fn identity(&self) -> u64 {
        (self.header as u64).rotate_left(24) ^ (self.link_map as u64).rotate_left(48)
    }

    /// Where `.eh_frame` begins, and an end of the module behind it.
    #[cfg(test)]
    pub fn frames(&self) -> [usize; 2] {
        let mut pointer = Reader { at: self.header.wrapping_add(4) };
        [pointer.pointer(PC_RELATIVE | SIGNED_4).map_or(0, |start| start as usize), self.end]
    }

    /// The row for an instruction. None: there is none, or no form that is understood.
    pub fn row(&self, code: usize) -> Option<Row> {
        let entry = self.entry(code)?;
        let function = Function::of(entry, code)?;
        function.row(code)
    }

    /// The entry in `.eh_frame` that the sorted table names for an address: the last one that begins before it.
    fn entry(&self, code: usize) -> Option<Reader> {
        /// The version, and the encodings of the pointer to `.eh_frame`, of the number of entries, and of entries,
        /// which all linkers write: offsets of 4 bytes, those of entries from here.
        const USUAL: [u8; 4] = [1, PC_RELATIVE | SIGNED_4, UNSIGNED_4, 0x3b];
        // SAFETY: the loader has mapped the table, and says that it is one.
        let (form, entries) = unsafe { (*self.header.cast::<[u8; 4]>(), *self.header.add(8).cast::<u32>()) };
        if form != USUAL {
            return None;
        }
        // SAFETY: as above: the entries follow.
        let table = unsafe { core::slice::from_raw_parts(self.header.add(12).cast::<[i32; 2]>(), entries as usize) };
        let offset = code.wrapping_sub(self.header as usize) as isize;
        let after = table.partition_point(|&[start, _]| start as isize <= offset);
        let [_, entry] = table[after.checked_sub(1)?];
        Some(Reader { at: self.header.wrapping_offset(entry as isize) })
    }
}

/// Reads a table that the loader has mapped.
#[derive(Clone, Copy)]
struct Reader {
    at: *const u8,
}

// Encodings of pointers.
const ABSOLUTE: u8 = 0;
const UNSIGNED_4: u8 = 3;
const SIGNED_4: u8 = 0x0b;
const FORM: u8 = 0x0f;
const PC_RELATIVE: u8 = 0x10;
const RELATION: u8 = 0x70;

impl Reader {
    fn read<T: Copy>(&mut self) -> T {
        let at = self.at.cast::<T>();
        self.at = self.at.wrapping_add(size_of::<T>());
        // SAFETY: within the table, as its form says.
        unsafe { at.read_unaligned() }
    }

    fn skip(&mut self, bytes: u64) {
        self.at = self.at.wrapping_add(bytes as usize);
    }

    /// LEB128, without a sign.
    fn number(&mut self) -> u64 {
        let (mut number, mut shift) = (0, 0);
        loop {
            let byte: u8 = self.read();
            number |= u64::from(byte & 0x7f).wrapping_shl(shift);
            shift += 7;
            if byte & 0x80 == 0 {
                return number;
            }
        }
    }

    /// LEB128, with a sign.
    fn signed(&mut self) -> i64 {
        let start = self.at;
        let number = self.number();
        let bits = 7 * (self.at as u32).wrapping_sub(start as u32);
        let unused = 64_u32.saturating_sub(bits);
        (number << unused) as i64 >> unused
    }

    /// A pointer in an encoding. None: one that is not understood.
    fn pointer(&mut self, encoding: u8) -> Option<u64> {
        let place = self.at as u64;
        let value = match encoding & FORM {
            ABSOLUTE | 4 | 0x0c => self.read(),
            UNSIGNED_4 => u64::from(self.read::<u32>()),
            SIGNED_4 => self.read::<i32>() as u64,
            _ => return None,
        };
        match encoding & RELATION {
            ABSOLUTE => Some(value),
            PC_RELATIVE => Some(value.wrapping_add(place)),
            _ => None,
        }
    }
}

/// A function's entry (FDE) with what it shares with others (CIE).
struct Function {
    start: u64,
    is_signal_frame: bool,
    code_unit: u64,
    data_unit: i64,
    /// Steps of the shared part, and their end; then the function's own.
    steps: [(Reader, *const u8); 2],
}

impl Function {
    /// None: the entry is not for this instruction, or in a form that is not understood.
    fn of(mut entry: Reader, code: usize) -> Option<Self> {
        let end = end_of(&mut entry)?;
        let shared_at = entry.at;
        let back: u32 = entry.read();
        let mut shared = Reader { at: shared_at.wrapping_sub(back as usize) };
        let shared_end = end_of(&mut shared)?;
        let zero: u32 = shared.read();
        let version: u8 = shared.read();
        let text = shared;
        while shared.read::<u8>() != 0 {}
        let (code_unit, data_unit) = (shared.number(), shared.signed());
        let register = if version == 1 { u64::from(shared.read::<u8>()) } else { shared.number() };
        if zero != 0 || back == 0 || register != RETURN_ADDRESS {
            return None;
        }
        let (mut encoding, mut is_signal_frame, mut letters) = (ABSOLUTE, false, text);
        let has_length = letters.read::<u8>() == b'z';
        if has_length {
            let length = shared.number();
            let after = shared.at.wrapping_add(length as usize);
            loop {
                match letters.read::<u8>() {
                    0 => break,
                    b'R' => encoding = shared.read(),
                    b'L' => shared.skip(1),
                    b'S' => is_signal_frame = true,
                    b'P' => {
                        let form = shared.read::<u8>();
                        shared.pointer(form & FORM)?;
                    }
                    _ => return None,
                }
            }
            shared.at = after;
        }
        let start = entry.pointer(encoding)?;
        let length = entry.pointer(encoding & FORM)?;
        if has_length {
            let length = entry.number();
            entry.skip(length);
        }
        let steps = [(shared, shared_end), (entry, end)];
        let function = Function { start, is_signal_frame, code_unit, data_unit, steps };
        ((code as u64).wrapping_sub(start) < length).then_some(function)
    }

    fn row(&self, code: usize) -> Option<Row> {
        if self.is_signal_frame {
            return Some(Row::SIGNAL_FRAME);
        }
        let [(mut shared, shared_end), (mut own, own_end)] = self.steps;
        let mut rules = Rules::default();
        let mut place = self.start;
        self.run(&mut shared, shared_end, &mut rules, &mut place, code)?;
        rules.first = rules.now;
        self.run(&mut own, own_end, &mut rules, &mut place, code)?;
        rules.now.row()
    }

    /// Takes the steps up to those for the instruction. None: one is not understood.
    fn run(&self, steps: &mut Reader, end: *const u8, rules: &mut Rules, place: &mut u64, code: usize) -> Option<()> {
        while steps.at < end {
            let step: u8 = steps.read();
            let (low, unit) = (u64::from(step & 0x3f), self.data_unit);
            let advance = match (step >> 6, step) {
                (1, _) => low,
                (_, 0x02) => u64::from(steps.read::<u8>()),
                (_, 0x03) => u64::from(steps.read::<u16>()),
                (_, 0x04) => u64::from(steps.read::<u32>()),
                _ => {
                    rules.step(step, low, unit, steps)?;
                    continue;
                }
            };
            *place += advance * self.code_unit;
            if *place > code as u64 {
                return Some(());
            }
        }
        Some(())
    }
}

/// The end of an entry whose length begins here.
fn end_of(entry: &mut Reader) -> Option<*const u8> {
    let length: u32 = entry.read();
    (length != 0 && length != u32::MAX).then(|| entry.at.wrapping_add(length as usize))
}

/// A register's rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Rule {
    #[default]
    Same,
    /// Saved at the CFA plus an offset.
    At(i64),
    Undefined,
    NotUnderstood,
}

/// The rules that hold for an instruction.
#[derive(Clone, Copy, Default)]
struct State {
    /// None: an expression.
    cfa: Option<(u64, i64)>,
    frame: Rule,
    base: Rule,
    return_address: Rule,
}

impl State {
    fn row(&self) -> Option<Row> {
        match self.return_address {
            Rule::Undefined => return Some(Row::LAST),
            Rule::At(-8) => {}
            _ => return None,
        }
        let (register, offset) = self.cfa?;
        let base = match register {
            RSP => Base::Rsp,
            RBP => Base::Rbp,
            RBX => Base::Rbx,
            _ => return None,
        };
        let save = |rule| match rule {
            Rule::At(offset) if offset < 0 && offset % 8 == 0 => Some(Save::Below(u8::try_from(offset / -8).ok()?)),
            // A caller cannot use one that is undefined.
            Rule::Same | Rule::Undefined => Some(Save::No),
            _ => None,
        };
        Row::new(base, u64::try_from(offset).ok()?, save(self.frame)?, save(self.base)?)
    }

    fn rule(&mut self, register: u64) -> Option<&mut Rule> {
        match register {
            RBX => Some(&mut self.base),
            RBP => Some(&mut self.frame),
            RETURN_ADDRESS => Some(&mut self.return_address),
            _ => None,
        }
    }

    fn set(&mut self, register: u64, rule: Rule) {
        if let Some(place) = self.rule(register) {
            *place = rule;
        }
    }
}

/// Rules while steps are taken.
#[derive(Default)]
struct Rules {
    now: State,
    /// After the shared steps.
    first: State,
    remembered: [State; 4],
    depth: usize,
}

impl Rules {
    /// One step of DWARF 5, table 7.29, that does not advance. None: it is not understood.
    fn step(&mut self, step: u8, low: u64, unit: i64, steps: &mut Reader) -> Option<()> {
        let now = &mut self.now;
        match (step >> 6, step) {
            (2, _) => now.set(low, Rule::At(steps.number() as i64 * unit)),
            (3, _) => self.restore(low),
            (_, 0x00) => {}
            // An offset with more bits, and one with a sign.
            (_, 0x05) => now.set(steps.number(), Rule::At(steps.number() as i64 * unit)),
            (_, 0x11) => now.set(steps.number(), Rule::At(steps.signed() * unit)),
            (_, 0x06) => {
                let register = steps.number();
                self.restore(register);
            }
            (_, 0x07) => now.set(steps.number(), Rule::Undefined),
            (_, 0x08) => now.set(steps.number(), Rule::Same),
            // In another register.
            (_, 0x09) => {
                now.set(steps.number(), Rule::NotUnderstood);
                steps.number();
            }
            (_, 0x0a) => {
                *self.remembered.get_mut(self.depth)? = self.now;
                self.depth += 1;
            }
            (_, 0x0b) => {
                self.depth = self.depth.checked_sub(1)?;
                self.now = self.remembered[self.depth];
            }
            (_, 0x0c) => now.cfa = Some((steps.number(), steps.number() as i64)),
            (_, 0x12) => now.cfa = Some((steps.number(), steps.signed() * unit)),
            // Both need a CFA that is no expression, which the function's steps say again.
            (_, 0x0d) => now.cfa = Some((steps.number(), now.cfa?.1)),
            (_, 0x0e) => now.cfa = Some((now.cfa?.0, steps.number() as i64)),
            (_, 0x13) => now.cfa = Some((now.cfa?.0, steps.signed() * unit)),
            // An expression for the CFA, and for a register: its address, or its value.
            (_, 0x0f) => {
                now.cfa = None;
                let length = steps.number();
                steps.skip(length);
            }
            (_, 0x10 | 0x16) => {
                now.set(steps.number(), Rule::NotUnderstood);
                let length = steps.number();
                steps.skip(length);
            }
            // Bytes of arguments that were pushed.
            (_, 0x2e) => _ = steps.number(),
            _ => return None,
        }
        Some(())
    }

    fn restore(&mut self, register: u64) {
        let mut first = self.first;
        if let Some(&mut rule) = first.rule(register) {
            self.now.set(register, rule);
        }
    }
}
