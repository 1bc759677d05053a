//! All cases on this machine: those of every machine, and those that only the host has.
//!
//! Some operations exist on the host only: kicks that a filter refuses, and malloc's entry points, which do what pop
//! and push do behind two table lookups. `take_body!` finds the take word by a size, `put_body!` by the pointer's bits
//! above 16. A region's header gets tables that map sizes and pointers to any word. Each pointer that is pushed gets
//! its word's index into those bits, which tokens leave free.
//!
//! ```text
//!   base ─▶ 1024 zeroes │ TABLE: byte n = n │ MAP: byte n = n │ MASK
//! ```

use conformance::slot::{self, Operations};
use conformance::{Case, Outcome, cases};
use core::ffi::c_void;
use machine::kick::{self, Refused};
use machine::root;
use std::cell::Cell;

cases! {
    BY_ENTRIES of OPERATIONS;
    "slot::pop by take_body" => |runner, entries| installed(|| slot::popped(runner, entries)), {}
    "slot::push by put_body" => |runner, entries| installed(|| slot::pushed(runner, entries)), {}
    "slot::compare_store with entries" => |runner, entries| installed(|| slot::replaced(runner, entries)), {}
}

const REFUSED: &[Case] = &[
    Case {
        name: "kick::register refused",
        planted: None,
        only: None,
        run: |_| match refuse(libc::SYS_membarrier, libc::EPERM) {
            true => refused(),
            false => Err("a system-call filter could not be set".into()),
        },
    },
    Case { name: "kick::register refused", planted: Some("not refused"), only: None, run: |_| refused() },
];

pub fn all() -> impl Iterator<Item = &'static Case> {
    cases().chain(BY_ENTRIES.iter().copied().flatten()).chain(REFUSED)
}

fn refused() -> Outcome {
    let answers = [kick::register(), kick::register(), kick::fence_all(), kick::restart(0)];
    if answers != [Err(Refused); 4] {
        return Err(format!("a system that refuses membarrier gave {answers:?}"));
    }
    match kick::counts() {
        (0, 2) => Ok(()),
        counts => Err(format!("no kick and 2 refusals were counted as {counts:?}")),
    }
}

const TABLE: usize = 1024;
const MAP: usize = 1280;
const MASK: usize = 1536;
const INDICES: usize = 256;
const STEP: usize = 16;
const INDEX_SHIFT: u32 = 16;

/// A pop from word `bytes / 16`.
#[unsafe(naked)]
extern "C-unwind" fn take_by_size(bytes: usize) -> *mut c_void {
    machine::take_body!(limit: STEP * (INDICES - 1), table: TABLE, slow: take_slow)
}

/// A push beside the word that bits 16 to 23 say.
#[unsafe(naked)]
unsafe extern "C" fn put_by_address(object: *mut c_void) {
    machine::put_body!(map: MAP, mask: MASK, slow: put_slow)
}

extern "C-unwind" fn take_slow(_: usize) -> *mut c_void {
    core::ptr::null_mut()
}

thread_local! {
    /// Whether the last push went the slow way.
    static WAS_REFUSED: Cell<bool> = const { Cell::new(false) };
}

unsafe extern "C" fn put_slow(_: *mut c_void) {
    WAS_REFUSED.set(true);
}

pub const OPERATIONS: Operations = Operations { pop: take, push: put, ..Operations::MACHINE };

/// Runs a body that makes one region, which is installed at the root when the first operation on it needs that.
pub fn installed(body: impl FnOnce() -> Outcome) -> Outcome {
    body()?;
    if root::is_installed() { Ok(()) } else { Err("the entry points were never called".into()) }
}

/// The entry points find their region at the root.
fn install(base: *mut u8) {
    if root::base() == base {
        return;
    }
    machine::thread::enter();
    // Threads that come here at the same time write the same.
    for number in 0..INDICES {
        // SAFETY: bytes of the header, which nobody else uses.
        unsafe {
            base.add(TABLE + number).write(number as u8);
            base.add(MAP + number).write(number as u8);
        }
    }
    // SAFETY: as above.
    unsafe { base.add(MASK).cast::<usize>().write(INDICES - 1) };
    root::install(base);
    assert!(root::base() == base, "entry points work on one region in a process");
}

fn take(base: *mut u8, index: usize) -> *mut u8 {
    debug_assert!(index < INDICES);
    install(base);
    let object = take_by_size(index * STEP);
    // The tokens' own bits.
    object.cast::<u8>().map_addr(|address| address & !((INDICES - 1) << INDEX_SHIFT))
}

fn put(base: *mut u8, index: usize, object: *mut u8) -> bool {
    debug_assert!(index < INDICES);
    install(base);
    // A handler that interrupts us puts the flag back.
    let outer = WAS_REFUSED.replace(false);
    // SAFETY: the bodies keep to the contract of `slot::push`.
    unsafe { put_by_address(object.map_addr(|address| address | index << INDEX_SHIFT).cast()) };
    !WAS_REFUSED.replace(outer)
}

/// Refuses a system call by a filter, as a container might: makes it fail with this error number, for the calling
/// thread and the threads that it creates. Returns false if filters are not available.
pub fn refuse(call: libc::c_long, error: libc::c_int) -> bool {
    const NUMBER: u32 = 0;
    let statement = |code: u32, k: u32, skip: u8| libc::sock_filter { code: code as u16, jt: 0, jf: skip, k };
    let mut program = [
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, NUMBER, 0),
        statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, call as u32, 1),
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ERRNO | error as u32, 0),
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW, 0),
    ];
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: the kernel copies the program, which is as long as is said.
    unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) == 0
    }
}
