//! The process that starts what is measured: small, so that nothing of it is in the figures.
//!
//! The kernel gives a new program, as the least of its peak memory, the memory that its parent had: a parent of some megabytes
//! hides all programs that are smaller. And the fork of a large process takes longer than that of a small one. So the lab
//! starts programs by way of this one, which has neither a C library nor a heap: some 40 kB.
//!
//! A request is a byte in a pipe; what is to be started stands in shared memory (protocol.rs), and there the answer goes. Between
//! the two readings of the clock are vfork, execve and wait4, and nothing else. Orphans of what was started become children of
//! this process, so that none is overlooked. When the lab ends, it is killed, and so is what runs.
#![no_std]
#![no_main]

mod protocol;

use core::arch::{asm, naked_asm};
use core::panic::PanicInfo;
use core::ptr;

use protocol::{ADDRESS, MEMORY, Page, REPLIES, REQUESTS};

/// Numbers of system calls.
mod call {
    pub const READ: usize = 0;
    pub const WRITE: usize = 1;
    pub const MMAP: usize = 9;
    pub const EXECVE: usize = 59;
    pub const EXIT: usize = 60;
    pub const WAIT4: usize = 61;
    pub const FCNTL: usize = 72;
    pub const CHDIR: usize = 80;
    pub const SETSID: usize = 112;
    pub const PRCTL: usize = 157;
    pub const CLOCK_GETTIME: usize = 228;
}

const PAGE: *mut Page = ADDRESS as *mut Page;
const READ_AND_WRITE: usize = 1 | 2;
const SHARED_AND_FIXED: usize = 0x01 | 0x10;
const SET_DESCRIPTOR_FLAGS: usize = 2;
const CLOSE_ON_EXEC: usize = 1;
const SET_CHILD_SUBREAPER: usize = 36;
const SET_PARENT_DEATH_SIGNAL: usize = 1;
const KILL: usize = 9;
const MONOTONIC: usize = 1;
const NO_HANG: usize = 1;
const INTERRUPTED: isize = -4;
/// What a shell exits with where a program is missing; nobody sees it, as the errno is told.
const NOT_STARTED: usize = 127;

/// The stack of a child between vfork and execve, during which its parent sleeps.
#[repr(C, align(16))]
struct Stack([u8; 4096]);
static mut STACK: Stack = Stack([0; 4096]);

#[repr(C)]
#[derive(Default)]
struct Usage {
    user: [i64; 2],
    system: [i64; 2],
    peak_kb: u64,
    unused: [u64; 3],
    minor_faults: u64,
    major_faults: u64,
    swaps_and_messages: [u64; 6],
    voluntary_switches: u64,
    involuntary_switches: u64,
}

/// The kernel enters here, with a stack that is aligned, but not as a called function has it.
#[unsafe(naked)]
#[unsafe(no_mangle)]
extern "C" fn _start() -> ! {
    naked_asm!("xor ebp, ebp", "call {}", "ud2", sym serve)
}

extern "C" fn serve() -> ! {
    prepare();
    let mut byte = 0u8;
    // SAFETY: the kernel writes at most one byte there.
    while unsafe { system(call::READ, [REQUESTS as usize, &raw mut byte as usize, 1, 0, 0, 0]) } == 1 {
        // SAFETY: the lab wrote a request before it wrote the byte, and waits for ours.
        unsafe { answer(&mut *PAGE) };
        // SAFETY: the kernel reads one byte there.
        unsafe { system(call::WRITE, [REPLIES as usize, &raw const byte as usize, 1, 0, 0, 0]) };
    }
    exit(0)
}

/// Maps the shared memory and sees to it that programs do not inherit what is ours.
fn prepare() {
    // SAFETY: nothing else is at the address: this program is small, and mapped elsewhere.
    let first = unsafe { system(call::MMAP, [ADDRESS, 4096, READ_AND_WRITE, SHARED_AND_FIXED, MEMORY as usize, 0]) };
    if first != ADDRESS as isize {
        exit(1);
    }
    // SAFETY: it was just mapped, and the lab wrote its size before it started us.
    let bytes = unsafe { (*PAGE).bytes } as usize;
    // SAFETY: as above; it maps the first page once more.
    unsafe { system(call::MMAP, [ADDRESS, bytes, READ_AND_WRITE, SHARED_AND_FIXED, MEMORY as usize, 0]) };
    for descriptor in [REQUESTS, REPLIES, MEMORY] {
        // SAFETY: it changes a flag of a descriptor.
        unsafe { system(call::FCNTL, [descriptor as usize, SET_DESCRIPTOR_FLAGS, CLOSE_ON_EXEC, 0, 0, 0]) };
    }
    die_with_parent();
    // SAFETY: it changes who adopts orphans.
    unsafe { system(call::PRCTL, [SET_CHILD_SUBREAPER, 1, 0, 0, 0, 0]) };
}

/// What is measured must not outlive who measures, however that ends.
fn die_with_parent() {
    // SAFETY: it names the signal that the kernel sends.
    unsafe { system(call::PRCTL, [SET_PARENT_DEATH_SIGNAL, KILL, 0, 0, 0, 0]) };
}

fn answer(page: &mut Page) {
    *page = Page { status: 0, error: 0, left_running: 0, wall_ns: 0, user_us: 0, system_us: 0, ..*page };
    *page = Page { peak_kb: 0, minor_faults: 0, major_faults: 0, ..*page };
    *page = Page { voluntary_switches: 0, involuntary_switches: 0, ..*page };
    for _ in 0..page.times {
        once(page);
        if page.error != 0 || page.status != 0 {
            break;
        }
    }
    page.left_running = i32::from(reap());
}

fn once(page: &mut Page) {
    let mut usage = Usage::default();
    let mut status = 0i32;
    let begin = now();
    // SAFETY: the page is in use by nobody else, and lasts.
    let child = unsafe { start(page, (&raw mut page.running).addr()) };
    if child < 0 {
        page.error = -child as i32;
        return;
    }
    let arguments = [child as usize, &raw mut status as usize, 0, &raw mut usage as usize, 0, 0];
    // SAFETY: the kernel writes the status and the usage.
    while unsafe { system(call::WAIT4, arguments) } == INTERRUPTED {}
    page.wall_ns += now() - begin;
    page.running = 0;
    page.status = status;
    page.user_us += microseconds(usage.user);
    page.system_us += microseconds(usage.system);
    page.peak_kb = if usage.peak_kb > page.peak_kb { usage.peak_kb } else { page.peak_kb };
    page.minor_faults += usage.minor_faults;
    page.major_faults += usage.major_faults;
    page.voluntary_switches += usage.voluntary_switches;
    page.involuntary_switches += usage.involuntary_switches;
}

/// Forgets children that have ended; whether others still run.
fn reap() -> bool {
    loop {
        // SAFETY: nothing is written.
        let ended = unsafe { system(call::WAIT4, [usize::MAX, 0, NO_HANG, 0, 0, 0]) };
        if ended <= 0 {
            return ended == 0;
        }
    }
}

/// vfork and execve: the child runs in our memory, on a stack of its own, until it has become the program. The kernel writes
/// its number to `number`, where the lab looks if it has to end it. Returns the number, or an errno negated.
///
/// # Safety
/// The request in the page is complete.
unsafe fn start(page: *mut Page, number: usize) -> isize {
    /// Share memory, wait for execve, write the number; tell the parent by SIGCHLD.
    const FLAGS: usize = 0x100 | 0x4000 | 0x10_0000 | 17;
    let stack = (&raw mut STACK).addr() + size_of::<Stack>();
    let child: isize;
    // SAFETY: the child has a stack of its own and never returns; to the parent this is a system call that changes rcx and r11.
    unsafe {
        asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "mov rdi, r8",
            "call {become}",
            "ud2",
            "2:",
            become = sym become_program,
            inlateout("rax") 56usize => child,
            in("rdi") FLAGS, in("rsi") stack, in("rdx") number, in("r10") 0, in("r8") page,
            lateout("rcx") _, lateout("r11") _,
        );
    }
    child
}

/// The child: leads a session, so that all that it starts can be ended with it, and no terminal can stop it.
///
/// # Safety
/// As of [`start`].
unsafe extern "C" fn become_program(page: *mut Page) -> ! {
    // SAFETY: the pointers are the lab's and point to strings and lists that end with a zero.
    unsafe {
        system(call::SETSID, [0; 6]);
        die_with_parent();
        let directory = (*page).directory as usize;
        let moved = if directory == 0 { 0 } else { system(call::CHDIR, [directory, 0, 0, 0, 0, 0]) };
        let request = [(*page).path, (*page).arguments, (*page).environment, 0, 0, 0].map(|word| word as usize);
        let error = if moved < 0 { moved } else { system(call::EXECVE, request) };
        (*page).error = -error as i32;
    }
    exit(NOT_STARTED)
}

fn now() -> u64 {
    let mut time = [0u64; 2];
    // SAFETY: the kernel writes seconds and nanoseconds.
    unsafe { system(call::CLOCK_GETTIME, [MONOTONIC, &raw mut time as usize, 0, 0, 0, 0]) };
    time[0] * 1_000_000_000 + time[1]
}

fn microseconds(time: [i64; 2]) -> u64 {
    (time[0] * 1_000_000 + time[1]) as u64
}

fn exit(status: usize) -> ! {
    loop {
        // SAFETY: it does not return.
        unsafe { system(call::EXIT, [status, 0, 0, 0, 0, 0]) };
    }
}

/// # Safety
/// That of the system call.
unsafe fn system(number: usize, arguments: [usize; 6]) -> isize {
    let [a, b, c, d, e, f] = arguments;
    let result;
    // SAFETY: the caller's.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number => result,
            in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d, in("r8") e, in("r9") f,
            lateout("rcx") _, lateout("r11") _,
        );
    }
    result
}

#[panic_handler]
fn panic(_: &PanicInfo) -> ! {
    exit(2)
}

/// What the compiler may call to copy or fill a page's worth of words.
mod memory {
    use super::ptr;

    #[unsafe(no_mangle)]
    unsafe extern "C" fn memset(to: *mut u8, byte: i32, bytes: usize) -> *mut u8 {
        for at in 0..bytes {
            // SAFETY: the caller's; volatile, or this loop would become a call of itself.
            unsafe { ptr::write_volatile(to.add(at), byte as u8) };
        }
        to
    }

    #[unsafe(no_mangle)]
    unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, bytes: usize) -> *mut u8 {
        for at in 0..bytes {
            // SAFETY: as above.
            unsafe { ptr::write_volatile(to.add(at), *from.add(at)) };
        }
        to
    }
}
