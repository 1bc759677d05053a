//! One measurement of one kind of reader, of its checkpoints, of who waits for it, or of what retires objects: Commensal's and its peers'.
//!
//! Readers are inlined into the loop that is timed, in the language that they were made for, unless their name says that they are called. liburcu's
//! are in a program of their own, `bench/liburcu.c`.

use std::cell::RefCell;
use std::ffi::{CStr, c_void};
use std::hint::black_box;
use std::mem::transmute;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use arc_swap::ArcSwap;
use commensal_runtime::rcu::qsbr::{self, CooperativeReader, KickableReader, Policy, Reader};
use commensal_runtime::{heap, rcu};

use super::timing::{allowed, best_ns, stay_on};
use crate::peers;

const ROUNDS: usize = 15;
const SECTIONS: u64 = 1_000_000;
/// Between two looks at the clock while somebody reads besides.
const BURST: u64 = 200;
/// Grace periods of which the median counts.
const GRACE_PERIODS: usize = 2_000;
const OBJECTS: u64 = 2_000_000;
const RETIRE_ROUNDS: usize = 5;
const BYTES: usize = 64;
/// Until another thread surely runs.
const START: Duration = Duration::from_millis(5);

const LIBURCU: &str = "liburcu-";
const LIBRARY: &str = "libcommensal.so";

/// A kind of reader.
#[derive(Clone, Copy)]
struct Flavour {
    name: &'static str,
    /// What a thread does before it reads, and after.
    begin: fn(),
    end: fn(),
    /// So many sections.
    read: fn(u64),
    /// So many times what a reader has to do now and then.
    checkpoints: fn(u64),
}

const BARE: Flavour = Flavour { name: "", begin: || (), end: || (), read: |_| (), checkpoints: |_| () };

const FLAVOURS: [Flavour; 8] = [
    Flavour { name: "commensal", read: commensal, ..BARE },
    Flavour { name: "commensal-cell", read: cell, ..BARE },
    Flavour { name: "commensal-called", begin: find_functions, read: called, ..BARE },
    Flavour { name: "commensal-qsbr", begin: begin_counted, ..QSBR },
    Flavour { name: "commensal-qsbr-flagged", ..QSBR },
    Flavour { name: "commensal-qsbr-kickable", ..KICKABLE },
    Flavour { name: "crossbeam-epoch", read: crossbeam, ..BARE },
    Flavour { name: "arc-swap", read: arc_swap, ..BARE },
];

type Retire = fn(u64);

/// What retires objects, and returns when all are freed. All of them allocate from Commensal's heap, so that nobody wins by the faster malloc.
const RETIRING: [(&str, Retire); 2] = [("commensal", retire), ("crossbeam-epoch", retire_crossbeam)];

/// What the words ask for.
pub fn figures(words: &[&str]) -> Result<Vec<f64>> {
    if let Some(flavour) = words.last().and_then(|arm| arm.strip_prefix(LIBURCU)) {
        return liburcu(flavour, &words[..words.len() - 1]);
    }
    let ns = match *words {
        ["read", "0", name] => time(named(name)?, |flavour| flavour.read),
        ["read", "1", name] => {
            let flavour = named(name)?;
            beside_a_reader(flavour, || time(flavour, |flavour| flavour.read))
        }
        ["checkpoint", name] => time(named(name)?, |flavour| flavour.checkpoints),
        ["synchronize", name] => beside_a_reader(named(name)?, synchronize_ns),
        ["retire", name] => {
            let known = RETIRING.into_iter().find(|(known, _)| *known == name);
            let (_, retire) = known.with_context(|| format!("with {name}, nothing is retired"))?;
            // As a program that has readers: with a second thread.
            thread::spawn(|| ()).join().expect("the thread does nothing");
            best_ns(RETIRE_ROUNDS, OBJECTS, retire)
        }
        _ => bail!("found {words:?}"),
    };
    Ok(vec![ns])
}

fn named(name: &str) -> Result<Flavour> {
    let found = FLAVOURS.into_iter().find(|flavour| flavour.name == name);
    let flavour = found.with_context(|| {
        format!(
            "found the arm {name}; expected liburcu-… or one of {}",
            FLAVOURS.map(|flavour| flavour.name).join(", ")
        )
    })?;
    if name == "commensal-called" && function(LOCK).is_none() {
        // It has to be preloaded.
        let error = own()?.env("LD_PRELOAD", beside(LIBRARY)?).exec();
        return Err(error).context("this program cannot be started again");
    }
    Ok(flavour)
}

/// This program again, with the same words.
fn own() -> Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(std::env::args_os().skip(1));
    Ok(command)
}

/// What lies beside this program.
fn beside(file: &str) -> Result<PathBuf> {
    Ok(std::env::current_exe()?.with_file_name(file))
}

/// The peer's program prints its figure in our place.
fn liburcu(flavour: &str, words: &[&str]) -> Result<Vec<f64>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("bench/ lies in the workspace")?;
    let program = peers::place(root, "liburcu").join(flavour);
    let error = Command::new(&program).args(words).env("LD_PRELOAD", beside(LIBRARY)?).exec();
    Err(error).with_context(|| format!("{} cannot be started", program.display()))
}

fn time(flavour: Flavour, what: impl Fn(Flavour) -> fn(u64)) -> f64 {
    (flavour.begin)();
    let best = best_ns(ROUNDS, SECTIONS, what(flavour));
    (flavour.end)();
    best
}

fn synchronize_ns() -> f64 {
    let time = |_| {
        let start = Instant::now();
        rcu::synchronize();
        start.elapsed().as_nanos() as f64
    };
    let mut times: Vec<f64> = (0..GRACE_PERIODS).map(time).collect();
    statistics::median(&mut times)
}

fn beside_a_reader<R>(flavour: Flavour, work: impl FnOnce() -> R) -> R {
    let (stop, allowed) = (AtomicBool::new(false), allowed());
    thread::scope(|scope| {
        scope.spawn(|| {
            stay_on(&allowed, 1);
            (flavour.begin)();
            while !stop.load(Ordering::Relaxed) {
                (flavour.read)(BURST);
                (flavour.checkpoints)(1);
            }
            (flavour.end)();
        });
        stay_on(&allowed, 0);
        thread::sleep(START);
        let result = work();
        stop.store(true, Ordering::Relaxed);
        result
    })
}

/// Compilers must not move anything out of a section, nor leave it out, or the loop around it; as in liburcu.c.
fn stay() {
    // SAFETY: no instruction.
    unsafe { std::arch::asm!("", options(nostack, preserves_flags)) };
}

fn commensal(times: u64) {
    for _ in 0..times {
        let guard = rcu::read();
        stay();
        drop(guard);
    }
}

fn cell(times: u64) {
    static VALUE: LazyLock<rcu::Cell<u64>> = LazyLock::new(|| rcu::Cell::new(1).expect("there is memory"));
    let value = &*VALUE;
    for _ in 0..times {
        let loaded = value.load();
        black_box(*loaded);
    }
}

thread_local! {
    static READER: RefCell<Option<CooperativeReader>> = const { RefCell::new(None) };
    static KICKABLE_READER: RefCell<Option<KickableReader>> = const { RefCell::new(None) };
}

/// Each checkpoint reports, as liburcu's does.
fn begin_counted() {
    qsbr::set_policy(Policy::Counted(1)).expect("no signal is needed");
    (QSBR.begin)();
}

macro_rules! registered {
    ($name:ident, $reader:ident) => {
        const $name: Flavour = Flavour {
            begin: || $reader.set(Some(Reader::register().expect("there is memory"))),
            end: || $reader.set(None),
            read: |times| {
                $reader.with_borrow(|reader| {
                    let reader = reader.as_ref().expect("it has begun");
                    for _ in 0..times {
                        let section = reader.read();
                        stay();
                        drop(section);
                    }
                });
            },
            checkpoints: |times| {
                $reader.with_borrow_mut(|reader| {
                    let reader = reader.as_mut().expect("it has begun");
                    for _ in 0..times {
                        reader.checkpoint();
                        stay();
                    }
                });
            },
            ..BARE
        };
    };
}

registered!(QSBR, READER);
registered!(KICKABLE, KICKABLE_READER);

fn crossbeam(times: u64) {
    for _ in 0..times {
        let guard = crossbeam_epoch::pin();
        black_box(&guard);
    }
}

fn arc_swap(times: u64) {
    static VALUE: LazyLock<ArcSwap<u64>> = LazyLock::new(|| ArcSwap::new(Arc::new(1)));
    let value = &*VALUE;
    for _ in 0..times {
        let guard = value.load();
        black_box(**guard);
    }
}

const LOCK: &CStr = c"cm_rcu_read_lock";
const UNLOCK: &CStr = c"cm_rcu_read_unlock";

/// `cm_rcu_section` of the header.
#[repr(C)]
struct Section {
    at: *mut c_void,
    slot: u32,
}

type Begin = extern "C" fn() -> Section;
type End = extern "C" fn(Section);
type Functions = (Begin, End);
static FUNCTIONS: OnceLock<Functions> = OnceLock::new();

fn function(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: looks the name up.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    (!found.is_null()).then_some(found)
}

fn find_functions() {
    let (lock, unlock) = function(LOCK).zip(function(UNLOCK)).expect("the library is preloaded");
    // SAFETY: they are what the header says of them.
    FUNCTIONS.get_or_init(|| unsafe { (transmute::<*mut c_void, Begin>(lock), transmute::<*mut c_void, End>(unlock)) });
}

fn called(times: u64) {
    let (lock, unlock) = FUNCTIONS.get().expect("it has begun");
    for _ in 0..times {
        let section = lock();
        stay();
        unlock(section);
    }
}

fn object() -> *mut u8 {
    let object = heap::allocate(BYTES);
    assert!(!object.is_null(), "no memory");
    // SAFETY: ours.
    unsafe { object.add(BYTES - 1).write_volatile(1) };
    object
}

fn retire(times: u64) {
    for _ in 0..times {
        // SAFETY: ours.
        unsafe { rcu::defer_free(object()) };
    }
    rcu::barrier();
}

fn retire_crossbeam(times: u64) {
    /// By one thread, so that it costs a load and a store.
    static FREED: AtomicU64 = AtomicU64::new(0);
    let before = FREED.load(Ordering::Relaxed);
    for _ in 0..times {
        let object = object();
        let guard = crossbeam_epoch::pin();
        // SAFETY: ours.
        unsafe {
            guard.defer_unchecked(move || {
                FREED.store(FREED.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
                heap::free(object);
            });
        }
    }
    while FREED.load(Ordering::Relaxed) - before < times {
        crossbeam_epoch::pin().flush();
    }
}
