//! The process that starts what is measured: small, so that nothing of it is in the figures.
//!
//! The kernel gives a new program, as the least of its peak memory, the memory that its parent had: a parent of some megabytes
//! hides all programs that are smaller. And the fork of a large process takes longer than that of a small one. So the lab
//! starts programs by way of this one, which has neither a C library nor a heap: some 40 kB.
//!
//! It starts one program, as its arguments say: how often one after the other, where, the program's file, and the program's own arguments.
//! The environment is the program's. Between the two readings of the clock are vfork, execve and wait4, and nothing else. What came of it goes into a
//! socket (protocol.rs). Orphans of what was started become children of this process, so that none is overlooked: it stays until the lab, which
//! looks for them, ends it. When the lab ends, it is killed, and so is what runs.
#![no_std]
#![no_main]

mod protocol;

use core::arch::{asm, naked_asm};
use core::panic::PanicInfo;
use core::ptr;

use protocol::{GO, REPLY, Reply};

/// Numbers of system calls.
mod call {
    pub const READ: usize = 0;
    pub const WRITE: usize = 1;
    pub const PAUSE: usize = 34;
    pub const EXECVE: usize = 59;
    pub const EXIT: usize = 60;
    pub const WAIT4: usize = 61;
    pub const FCNTL: usize = 72;
    pub const CHDIR: usize = 80;
    pub const SETSID: usize = 112;
    pub const PRCTL: usize = 157;
    pub const CLOCK_GETTIME: usize = 228;
}

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

/// What is to be started, in the kernel's form; and why it could not be, an errno, else 0.
struct Program {
    directory: *const u8,
    path: *const u8,
    arguments: *const *const u8,
    environment: *const *const u8,
    error: i32,
}

/// The kernel enters here, with a stack that is aligned, but not as a called function has it.
#[unsafe(naked)]
#[unsafe(no_mangle)]
extern "C" fn _start() -> ! {
    naked_asm!("mov rdi, rsp", "xor ebp, ebp", "call {}", "ud2", sym serve)
}

/// # Safety
/// On the stack are what the kernel puts there: the number of arguments, these, a null, the environment, and a null.
unsafe extern "C" fn serve(stack: *const usize) -> ! {
    // SAFETY: the caller's; the lab gives three arguments before the program's own.
    let (times, mut program) = unsafe {
        let words = stack.add(1).cast::<*const u8>();
        let (arguments, environment) = (words.add(3), words.add(*stack + 1));
        let (directory, path) = (*words.add(1), *words.add(2));
        (number(*words), Program { directory, path, arguments, environment, error: 0 })
    };
    prepare();
    if !may_begin() {
        exit(NOT_STARTED);
    }
    let mut reply = Reply::default();
    for _ in 0..times {
        once(&mut program, &mut reply);
        if reply.error != 0 || reply.status != 0 {
            break;
        }
    }
    reply.left_running = reap().into();
    // SAFETY: the kernel reads the reply there.
    unsafe { system(call::WRITE, [REPLY as usize, (&raw const reply).addr(), size_of::<Reply>(), 0, 0, 0]) };
    loop {
        // SAFETY: it waits for a signal.
        unsafe { system(call::PAUSE, [0; 6]) };
    }
}

/// # Safety
/// It is a string of digits.
unsafe fn number(digits: *const u8) -> u64 {
    // SAFETY: the caller's; a zero ends it.
    let digits = (0..).map(|at| unsafe { *digits.add(at) }).take_while(|digit| *digit != 0);
    digits.fold(0, |number, digit| number * 10 + u64::from(digit - b'0'))
}

/// Sees to it that programs do not inherit what is ours, and have no page fault that is.
fn prepare() {
    // SAFETY: it changes a flag of a descriptor.
    unsafe { system(call::FCNTL, [REPLY as usize, SET_DESCRIPTOR_FLAGS, CLOSE_ON_EXEC, 0, 0, 0]) };
    die_with_parent();
    // SAFETY: it changes who adopts orphans.
    unsafe { system(call::PRCTL, [SET_CHILD_SUBREAPER, 1, 0, 0, 0, 0]) };
    // SAFETY: nobody uses it yet.
    unsafe { (&raw mut STACK).cast::<u8>().add(size_of::<Stack>() - 1).write_volatile(0) };
}

/// Waits for the lab; false if that is gone.
fn may_begin() -> bool {
    let mut byte = 0u8;
    loop {
        // SAFETY: the kernel writes one byte there.
        let read = unsafe { system(call::READ, [REPLY as usize, (&raw mut byte).addr(), 1, 0, 0, 0]) };
        if read != INTERRUPTED {
            return read == 1 && byte == GO;
        }
    }
}

/// What is measured must not outlive who measures, however that ends.
fn die_with_parent() {
    // SAFETY: it names the signal that the kernel sends.
    unsafe { system(call::PRCTL, [SET_PARENT_DEATH_SIGNAL, KILL, 0, 0, 0, 0]) };
}

fn once(program: &mut Program, reply: &mut Reply) {
    let mut usage = Usage::default();
    let mut status = 0i32;
    let begin = now();
    // SAFETY: the program is in use by nobody else, and lasts.
    let child = unsafe { start(program) };
    let arguments = [child as usize, (&raw mut status).addr(), 0, (&raw mut usage).addr(), 0, 0];
    // SAFETY: the kernel writes the status and the usage; without a child, nothing.
    while unsafe { system(call::WAIT4, arguments) } == INTERRUPTED {}
    reply.wall_ns += now() - begin;
    reply.error = if child < 0 { -child as i64 } else { program.error.into() };
    reply.status = status.into();
    reply.user_us += microseconds(usage.user);
    reply.system_us += microseconds(usage.system);
    reply.peak_kb = if usage.peak_kb > reply.peak_kb { usage.peak_kb } else { reply.peak_kb };
    reply.page_faults += usage.minor_faults + usage.major_faults;
    reply.context_switches += usage.voluntary_switches + usage.involuntary_switches;
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

/// vfork and execve: the child runs in our memory, on a stack of its own, until it has become the program. Returns its number, or an errno
/// negated.
///
/// # Safety
/// The program's pointers are those of strings and of lists that end with a null.
unsafe fn start(program: *mut Program) -> isize {
    /// Share memory, wait for execve; tell the parent by SIGCHLD.
    const FLAGS: usize = 0x100 | 0x4000 | 17;
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
            in("rdi") FLAGS, in("rsi") stack, in("rdx") 0, in("r10") 0, in("r8") program,
            lateout("rcx") _, lateout("r11") _,
        );
    }
    child
}

/// The child: leads a session, so that all that it starts can be ended with it, and no terminal can stop it.
///
/// # Safety
/// As of [`start`].
unsafe extern "C" fn become_program(program: *mut Program) -> ! {
    // SAFETY: the caller's.
    unsafe {
        system(call::SETSID, [0; 6]);
        die_with_parent();
        let Program { directory, path, arguments, environment, .. } = *program;
        let moved = system(call::CHDIR, [directory.addr(), 0, 0, 0, 0, 0]);
        let words = [path.addr(), arguments.addr(), environment.addr(), 0, 0, 0];
        let error = if moved < 0 { moved } else { system(call::EXECVE, words) };
        (*program).error = -error as i32;
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
