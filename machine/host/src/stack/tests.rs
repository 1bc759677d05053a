//! Other unwinders say the same: that of GCC about stacks, gimli about tables.

use super::row::{Base, Row, Save};
use super::tables::Module;
use super::{Rows, capture};
use core::ffi::c_void;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicUsize, Ordering};
use gimli::{BaseAddresses, CfaRule, EhFrame, NativeEndian, Register, RegisterRule, UnwindContext, UnwindSection};
use std::boxed::Box;
use std::vec::Vec;

unsafe extern "C" {
    fn _Unwind_Backtrace(visit: extern "C" fn(*mut c_void, *mut c_void) -> i32, to: *mut c_void) -> i32;
    fn _Unwind_GetIPInfo(context: *mut c_void, is_exact: *mut i32) -> usize;
}

extern "C" fn note(context: *mut c_void, to: *mut c_void) -> i32 {
    let mut is_exact = 0;
    // SAFETY: the unwinder passes on what it was given.
    unsafe {
        let code = _Unwind_GetIPInfo(context, &raw mut is_exact);
        if code != 0 {
            (*to.cast::<Vec<usize>>()).push(code + usize::from(is_exact != 0));
        }
    }
    0
}

fn rows() -> Box<Rows> {
    // SAFETY: zeroes are valid.
    Box::new(unsafe { core::mem::zeroed::<Rows>() })
}

/// Both captures, each without the functions that took it.
#[inline(never)]
fn both(rows: &Rows) -> [Vec<usize>; 2] {
    let (mut ours, mut theirs) = (std::vec![0; 200], Vec::new());
    let count = capture(rows, &mut ours);
    ours.truncate(count);
    // SAFETY: calls `note` with `theirs`.
    unsafe { _Unwind_Backtrace(note, (&raw mut theirs).cast()) };
    // This function called twice, from two places.
    [ours.split_off(1), theirs.split_off(1)]
}

#[inline(never)]
fn deep(depth: usize, work: &mut dyn FnMut()) -> usize {
    let pad = std::hint::black_box([depth; 7]);
    match depth {
        0 => work(),
        _ => _ = deep(depth - 1, work),
    }
    pad.iter().sum()
}

#[test]
fn stack_is_that_of_gcc() {
    let rows = rows();
    // The second time by rows that are known.
    for _ in 0..2 {
        deep(30, &mut || {
            let [ours, theirs] = both(&rows);
            assert!(ours.len() > 35, "{ours:x?}");
            assert_eq!(ours, theirs);
        });
    }
}

#[test]
fn short_array_gets_the_innermost_calls() {
    let rows = rows();
    deep(9, &mut || {
        let (mut few, mut many) = ([0; 3], [0; 64]);
        let counts = [&mut few[..], &mut many[..]].map(|frames| capture(&rows, frames));
        assert_eq!(counts[0], 3);
        assert!(counts[1] > 12);
        assert_eq!(few[1..], many[1..3]);
    });
}

/// What a handler found: frames of ours, and whether they are those of GCC.
static IN_HANDLER: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

extern "C" fn handler(_: i32) {
    let [ours, theirs] = both(&rows());
    IN_HANDLER[0].store(ours.len(), Ordering::Relaxed);
    IN_HANDLER[1].store(usize::from(ours == theirs), Ordering::Relaxed);
}

#[test]
fn handler_sees_the_calls_that_were_interrupted() {
    for on_own_stack in [0, libc::SA_ONSTACK] {
        let mut stack = std::vec![0_u8; 1 << 16];
        // SAFETY: a handler, and a stack for it that outlives the signal.
        unsafe {
            let alternative = libc::stack_t { ss_sp: stack.as_mut_ptr().cast(), ss_flags: 0, ss_size: stack.len() };
            libc::sigaltstack(&raw const alternative, null_mut());
            let mut action: libc::sigaction = core::mem::zeroed();
            (action.sa_sigaction, action.sa_flags) = (handler as *const () as usize, on_own_stack);
            libc::sigaction(libc::SIGUSR2, &raw const action, null_mut());
            deep(20, &mut || _ = libc::raise(libc::SIGUSR2));
            let none = libc::stack_t { ss_sp: null_mut(), ss_flags: libc::SS_DISABLE, ss_size: 0 };
            libc::sigaltstack(&raw const none, null_mut());
        }
        let [frames, is_same] = IN_HANDLER.each_ref().map(|found| found.load(Ordering::Relaxed));
        assert!(frames > 25 && is_same == 1, "{frames} frames, the same: {is_same}");
    }
}

/// Code that a program makes has no table. With a frame pointer, its callers are found; with garbage, the walk ends.
#[test]
fn generated_code_is_left_by_its_frame_pointer() {
    type Run = extern "C" fn(extern "C" fn());
    static FOUND: [AtomicUsize; 8] = [const { AtomicUsize::new(0) }; 8];
    extern "C" fn note_calls() {
        let mut frames = [0; 8];
        let count = capture(&rows(), &mut frames);
        frames[count..].fill(0);
        FOUND.iter().zip(frames).for_each(|(to, frame)| to.store(frame, Ordering::Relaxed));
    }
    let with = [0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3];
    // push rbp; mov ebp, imm32; call rdi; pop rbp; ret
    let garbage = |value: u32| {
        let [a, b, c, d] = value.to_le_bytes();
        std::vec![0x55, 0xbd, a, b, c, d, 0xff, 0xd7, 0x5d, 0xc3]
    };
    let codes = [(with.to_vec(), true), (garbage(0), false), (garbage(0x7fff_fff8), false), (garbage(24), false)];
    for (code, goes_on) in codes {
        // SAFETY: code for this machine, in a mapping of its own.
        let page = unsafe {
            let page = libc::mmap(null_mut(), 4096, 7, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0).cast::<u8>();
            page.copy_from_nonoverlapping(code.as_ptr(), code.len());
            let run = core::mem::transmute::<*mut u8, Run>(page);
            run(note_calls);
            page as usize
        };
        let found = FOUND.each_ref().map(|found| found.load(Ordering::Relaxed));
        assert!((page..page + 16).contains(&found[1]), "{found:x?}");
        assert_eq!(found[2] != 0, goes_on, "{found:x?}");
        assert!(!goes_on || Module::at(found[2]).is_some(), "{found:x?}");
    }
}

/// The row that gimli gives. The inner one is none if it has another form.
fn expected(row: &gimli::UnwindTableRow<usize>) -> Option<Row> {
    let rule = |number: u16| row.registers().find(|(register, _)| register.0 == number).map(|(_, rule)| rule.clone());
    let save = |number| match rule(number) {
        Some(RegisterRule::Offset(offset)) => Some(Save::Below(u8::try_from(offset / -8).ok()?)),
        None | Some(RegisterRule::SameValue | RegisterRule::Undefined) => Some(Save::No),
        Some(_) => None,
    };
    match rule(16)? {
        RegisterRule::Undefined => return Some(Row::LAST),
        RegisterRule::Offset(-8) => {}
        _ => return None,
    }
    let &CfaRule::RegisterAndOffset { register: Register(register), offset } = row.cfa() else { return None };
    let base = [(7, Base::Rsp), (6, Base::Rbp), (3, Base::Rbx)].into_iter().find(|known| known.0 == register)?.1;
    Row::new(base, offset.try_into().ok()?, save(6)?, save(3)?)
}

/// Each row of the C library, of GCC's library, and of this program.
#[test]
fn rows_are_those_of_gimli() {
    for within in
        [libc::qsort as *const () as usize, _Unwind_Backtrace as *const () as usize, rows as *const () as usize]
    {
        let module = Module::at(within).expect("a module");
        let [frames, end] = module.frames();
        // SAFETY: the loader has mapped the module; entries end with one of length zero.
        let bytes = unsafe { core::slice::from_raw_parts(frames as *const u8, end - frames) };
        let section = EhFrame::new(bytes, NativeEndian);
        let bases = BaseAddresses::default().set_eh_frame(frames as u64);
        let (mut entries, mut context) = (section.entries(&bases), UnwindContext::new());
        let (mut seen, mut understood) = (0, 0);
        while let Some(entry) = entries.next().expect("entries are well-formed") {
            let gimli::CieOrFde::Fde(partial) = entry else { continue };
            let function = partial.parse(|_, bases, offset| section.cie_from_offset(bases, offset)).expect("an entry");
            let mut table = function.rows(&section, &bases, &mut context).expect("rows");
            while let Some(row) = table.next_row().expect("a row") {
                let is_signal_frame = function.cie().is_signal_trampoline();
                let expected = if is_signal_frame { Some(Row::SIGNAL_FRAME) } else { expected(row) };
                if row.start_address() >= row.end_address() {
                    continue;
                }
                for code in [row.start_address(), row.end_address() - 1] {
                    assert_eq!(module.row(code as usize), expected, "{code:x} {row:?}");
                }
                (seen, understood) = (seen + 1, understood + usize::from(expected.is_some()));
            }
        }
        assert!(seen > 300 && understood * 100 > seen * 97, "{understood} of {seen} rows understood");
        std::println!("{understood} of {seen}");
    }
}
