//! Code: from where a function was called, and what a person can make of such an address.
//!
//! For reports of misuse, whose reader wants to know who did it. Nothing here is fast.

use crate::{sandbox, thread};
use core::ffi::{CStr, c_char, c_int, c_void};
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Calls that are recorded at most.
pub const DEPTH: usize = 8;
/// Calls of the runtime's own, at most, that may lie before those.
const OWN: usize = 24;

/// Return addresses, the innermost first; zero where there are no more.
pub type Calls = [usize; DEPTH];

unsafe extern "C" {
    fn backtrace(addresses: *mut *mut c_void, most: c_int) -> c_int;
    fn dl_iterate_phdr(
        show: unsafe extern "C" fn(*mut ObjectInfo, usize, *mut c_void) -> c_int,
        data: *mut c_void,
    ) -> c_int;
    fn getauxval(kind: u64) -> u64;
}

/// Where the runtime's own library lies, if it is one of its own; else, and as long as nobody knows, nowhere. Core's
/// atomics: it is so in every process, also in simulated ones.
static LIBRARY: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

/// Whether the unwinder is there.
static IS_READY: AtomicBool = AtomicBool::new(false);

/// Readies the C library's unwinder, which is loaded, and allocates, when it is first used: not in a sandbox, where
/// files may not be opened. And looks up where the runtime lies, which takes the loader's lock: no fork child has to
/// wait for that later.
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

/// The calls that led here: from the first one outside of the runtime's library on, or, in programs that the runtime is
/// a part of, from the one that returns to `from` on. Without an unwinder it is `from` alone. After [`prepare`].
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

/// Where in which file a call lies: what debuggers and `addr2line` want to be told.
pub fn place_of(call: usize) -> Option<(&'static CStr, usize)> {
    // The address is the one behind the call.
    let call = call.checked_sub(1)?;
    let image = Image::of(call)?;
    Some((image.file, call - image.base))
}

/// A program or library that is loaded.
#[derive(Clone, Copy)]
struct Image {
    file: &'static CStr,
    base: usize,
    start: usize,
    end: usize,
    is_program: bool,
}

struct Search {
    address: usize,
    found: Option<Image>,
}

/// The beginning of glibc's `struct dl_phdr_info`.
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
    /// The one whose executable part has an address.
    fn of(address: usize) -> Option<Image> {
        let mut search = Search { address, found: None };
        // SAFETY: `look` gets what it expects.
        unsafe { dl_iterate_phdr(look, (&raw mut search).cast()) };
        search.found
    }

    fn holds(&self, address: usize) -> bool {
        (self.start..self.end).contains(&address)
    }
}

unsafe extern "C" fn look(object: *mut ObjectInfo, _: usize, search: *mut c_void) -> c_int {
    const LOADED: u32 = 1;
    const EXECUTABLE: u32 = 1;
    const EXECUTED_FILE: u64 = 31;
    // SAFETY: the loader describes an object that stays loaded while we look at it; `search` is ours.
    unsafe {
        let (object, search) = (&*object, &mut *search.cast::<Search>());
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
            if header.kind == LOADED && header.flags & EXECUTABLE != 0 && image.holds(search.address) {
                let name = if image.is_program { getauxval(EXECUTED_FILE) as *const c_char } else { object.name };
                let file = if name.is_null() { c"?" } else { CStr::from_ptr(name) };
                search.found = Some(Image { file, ..image });
                return 1;
            }
        }
        0
    }
}

/// The body of a naked function that continues as another one, which has one argument more: the address that the call
/// returns to. It reads as the call that it is: `with_caller!(allocate_for(bytes, caller))`. Two instructions.
#[macro_export]
macro_rules! with_caller {
    ($to:ident($first:ident, caller)) => {
        core::arch::naked_asm!("mov rsi, qword ptr [rsp]", "jmp {to}", to = sym $to)
    };
    ($to:ident($first:ident, $second:ident, caller)) => {
        core::arch::naked_asm!("mov rdx, qword ptr [rsp]", "jmp {to}", to = sym $to)
    };
}
