//! Return addresses of callers, and their places in files, for reports of misuse. Nothing here is fast.

use crate::{sandbox, thread};
use core::ffi::{CStr, c_char, c_int, c_void};
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Most calls recorded.
pub const DEPTH: usize = 8;
/// Most calls of the runtime itself before those.
const OWN: usize = 24;

/// Return addresses, the innermost first; zeroes at the end.
pub type Calls = [usize; DEPTH];

unsafe extern "C" {
    fn backtrace(addresses: *mut *mut c_void, most: c_int) -> c_int;
    fn dl_iterate_phdr(
        show: unsafe extern "C" fn(*mut ObjectInfo, usize, *mut c_void) -> c_int, data: *mut c_void,
    ) -> c_int;
    fn getauxval(kind: u64) -> u64;
}

/// Address range of the runtime's own library; empty if it is part of the program, or unknown. Core's atomics: it is
/// the same in all processes, also simulated ones.
static LIBRARY: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

static IS_READY: AtomicBool = AtomicBool::new(false);

/// Loads the C library's unwinder, whose first use allocates, unless in a sandbox, which may forbid opening files.
/// Finds the runtime's library too: this takes the loader's lock, and no fork child should wait for that later.
pub fn prepare() {
    if !sandbox::is_on() {
        let mut calls = Calls::default();
        // SAFETY: there is room for so many.
        unsafe { backtrace(calls.as_mut_ptr().cast(), 2) };
        IS_READY.store(true, Ordering::Release);
    }
    if let Some(own) = Image::of(self::calls as *const () as usize).filter(|own| !own.is_program) {
        LIBRARY[0].store(own.start, Ordering::Relaxed);
        LIBRARY[1].store(own.end, Ordering::Relaxed);
    }
}

/// The calls that led here, from the first one outside the runtime's library on. If the runtime is part of the program,
/// from the one that returns to `from` on. Without an unwinder, `from` alone. Call [`prepare`] before.
#[inline(never)]
pub fn calls(from: usize) -> Calls {
    let mut all = [0; OWN + DEPTH];
    let count = match IS_READY.load(Ordering::Acquire) {
        // SAFETY: there is room for so many.
        true => unsafe { backtrace(all.as_mut_ptr().cast(), all.len() as c_int) },
        false => 0,
    };
    let all = &all[..count.clamp(0, (OWN + DEPTH) as c_int) as usize];
    let own = LIBRARY[0].load(Ordering::Relaxed)..LIBRARY[1].load(Ordering::Relaxed);
    let first = match own.is_empty() {
        false => all.iter().position(|call| !own.contains(call)),
        true => all.iter().position(|&call| call == from),
    };
    let known = &all[first.unwrap_or(0)..];
    let mut calls = Calls::default();
    calls.iter_mut().zip(known).for_each(|(place, &call)| *place = call);
    if calls[0] == 0 {
        calls[0] = from;
    }
    calls
}

/// The kernel's number of this thread.
pub fn thread_number() -> u32 {
    thread::tid()
}

/// File and offset of a call, as debuggers and `addr2line` want them.
pub fn place_of(call: usize) -> Option<(&'static CStr, usize)> {
    // A return address lies behind the call.
    let call = call.checked_sub(1)?;
    let image = Image::of(call)?;
    Some((image.file, call - image.base))
}

#[derive(Clone, Copy)]
struct Image {
    file: &'static CStr,
    base: usize,
    start: usize,
    end: usize,
    is_program: bool,
}

/// An address, and the image that has it.
type Search = (usize, Option<Image>);

/// The start of glibc's `struct dl_phdr_info`.
#[repr(C)]
struct ObjectInfo {
    base: usize,
    name: *const c_char,
    headers: *const Header,
    count: u16,
}

/// `Elf64_Phdr`.
#[repr(C)]
struct Header {
    kind: u32,
    flags: u32,
    offset: u64,
    address: u64,
    physical: u64,
    file_bytes: u64,
    bytes: u64,
    alignment: u64,
}

impl Image {
    /// The image whose executable part has an address.
    fn of(address: usize) -> Option<Image> {
        let mut search: Search = (address, None);
        // SAFETY: `look` gets the data it expects.
        unsafe { dl_iterate_phdr(look, (&raw mut search).cast()) };
        search.1
    }
}

unsafe extern "C" fn look(object: *mut ObjectInfo, _: usize, search: *mut c_void) -> c_int {
    const LOADED: u32 = 1;
    const EXECUTABLE: u32 = 1;
    const EXECUTED_FILE: u64 = 31;
    // SAFETY: the loader describes an object that stays loaded meanwhile; `search` is ours.
    unsafe {
        let (object, (address, found)) = (&*object, &mut *search.cast::<Search>());
        for index in 0..object.count as usize {
            let header = &*object.headers.add(index);
            let start = object.base + header.address as usize;
            let image = Image {
                file: c"",
                base: object.base,
                start,
                end: start + header.bytes as usize,
                is_program: object.name.is_null() || *object.name == 0,
            };
            if header.kind == LOADED && header.flags & EXECUTABLE != 0 && (image.start..image.end).contains(address) {
                let name = if image.is_program { getauxval(EXECUTED_FILE) as *const c_char } else { object.name };
                let file = if name.is_null() { c"?" } else { CStr::from_ptr(name) };
                *found = Some(Image { file, ..image });
                return 1;
            }
        }
        0
    }
}

/// The body of a naked function that continues as another one, with the return address as an additional argument:
/// `with_caller!(allocate_for(bytes, caller))`. Two instructions.
#[macro_export]
macro_rules! with_caller {
    ($to:ident($first:ident, caller)) => {
        core::arch::naked_asm!("mov rsi, qword ptr [rsp]", "jmp {to}", to = sym $to)
    };
    ($to:ident($first:ident, $second:ident, caller)) => {
        core::arch::naked_asm!("mov rdx, qword ptr [rsp]", "jmp {to}", to = sym $to)
    };
}
