//! The flavours by name.

use arc_swap::ArcSwap;
use commensal::rcu;
use seize::{Collector, Guard};
use std::hint::black_box;
use std::sync::{Arc, LazyLock};

/// A kind of reader.
#[derive(Clone, Copy)]
pub struct Flavour {
    /// What a thread does before it reads, and after.
    pub begin: fn(),
    pub end: fn(),
    /// So many sections in which nothing is read.
    pub read: fn(u64),
    /// What a reader has to do now and then.
    pub checkpoint: fn(),
    /// So many times.
    pub checkpoints: fn(u64),
    /// Waits for readers, where that can be done.
    pub synchronize: Option<fn()>,
}

/// That of ours whose functions are called, in the library that is preloaded; all others but those of liburcu of that name are inlined.
pub const CALLED: &str = "commensal called";

const OF_LIBURCU: &[&str] = if cfg!(liburcu) { &["liburcu-memb", "liburcu-bp", "liburcu-qsbr"] } else { &[] };
const CALLED_OF_LIBURCU: &[&str] = if cfg!(liburcu) { &["liburcu-memb called", "liburcu-bp called"] } else { &[] };

/// The names of all.
pub fn reading() -> Vec<&'static str> {
    let ours = ["commensal", "commensal Cell", "commensal qsbr", "commensal qsbr kickable"];
    let others = ["crossbeam-epoch", "seize", "arc-swap"];
    [&ours, OF_LIBURCU, &others, &[CALLED], CALLED_OF_LIBURCU].concat()
}

/// Those with which somebody waits for readers.
pub fn waiting() -> Vec<&'static str> {
    [&["commensal", "commensal qsbr"], OF_LIBURCU].concat()
}

/// Those that have checkpoints.
pub fn checking() -> Vec<&'static str> {
    let liburcu: &[&str] = if cfg!(liburcu) { &["liburcu-qsbr"] } else { &[] };
    [&["commensal qsbr", "commensal qsbr flagged"], liburcu].concat()
}

const NOTHING: fn() = || ();

pub(crate) fn named(name: &str) -> Result<Flavour, String> {
    let bare = Flavour {
        begin: NOTHING,
        end: NOTHING,
        read: |_| (),
        checkpoint: NOTHING,
        checkpoints: |_| (),
        synchronize: None,
    };
    match name {
        "commensal" => Ok(Flavour { read: commensal, synchronize: Some(rcu::synchronize), ..bare }),
        "commensal qsbr" => Ok(Flavour { begin: registered::begin_counted, ..registered::QSBR }),
        "commensal qsbr flagged" => Ok(registered::QSBR),
        "commensal qsbr kickable" => Ok(registered::KICKABLE),
        "commensal Cell" => Ok(Flavour { read: cell, ..bare }),
        CALLED => Ok(Flavour { begin: called::check()?, read: called::commensal, ..bare }),
        "crossbeam-epoch" => Ok(Flavour { read: crossbeam, ..bare }),
        "seize" => Ok(Flavour { read: seize, ..bare }),
        "arc-swap" => Ok(Flavour { read: arc_swap, ..bare }),
        #[cfg(liburcu)]
        "liburcu-memb" => Ok(liburcu::MEMB),
        #[cfg(liburcu)]
        "liburcu-bp" => Ok(liburcu::BP),
        #[cfg(liburcu)]
        "liburcu-qsbr" => Ok(liburcu::QSBR),
        #[cfg(liburcu)]
        "liburcu-memb called" => Ok(Flavour { read: called::memb, ..liburcu::MEMB }),
        #[cfg(liburcu)]
        "liburcu-bp called" => Ok(Flavour { read: called::bp, ..liburcu::BP }),
        _ => Err(format!("found no flavour '{name}'; expected one of {}", reading().join(", "))),
    }
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

/// Readers that registered. Where they are counted each checkpoint reports, as liburcu's does.
mod registered {
    use super::{Flavour, stay};
    use commensal::rcu;
    use commensal::rcu::qsbr::{self, Policy, Reader};
    use std::cell::RefCell;

    thread_local! {
        static READER: RefCell<Option<Reader<false>>> = const { RefCell::new(None) };
        static KICKABLE_READER: RefCell<Option<Reader<true>>> = const { RefCell::new(None) };
    }

    pub(super) fn begin_counted() {
        qsbr::set_policy(Policy::Counted(1)).expect("no signal is needed");
        (QSBR.begin)();
    }

    macro_rules! flavour {
        ($name:ident, $reader:ident) => {
            pub(super) const $name: Flavour = Flavour {
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
                checkpoint: || $reader.with_borrow_mut(|reader| reader.as_mut().expect("it has begun").checkpoint()),
                checkpoints: |times| {
                    $reader.with_borrow_mut(|reader| {
                        let reader = reader.as_mut().expect("it has begun");
                        for _ in 0..times {
                            reader.checkpoint();
                            stay();
                        }
                    });
                },
                synchronize: Some(rcu::synchronize),
            };
        };
    }

    flavour!(QSBR, READER);
    flavour!(KICKABLE, KICKABLE_READER);
}

fn crossbeam(times: u64) {
    for _ in 0..times {
        let guard = crossbeam_epoch::pin();
        black_box(&guard);
    }
}

fn seize(times: u64) {
    static COLLECTOR: LazyLock<Collector> = LazyLock::new(Collector::new);
    let collector = &*COLLECTOR;
    for _ in 0..times {
        let guard = collector.enter();
        black_box(guard.collector());
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

/// Sections as they are for programs that call a shared library's functions.
mod called {
    use super::{NOTHING, stay};
    use std::ffi::{CStr, c_void};
    use std::mem::transmute;
    use std::sync::OnceLock;

    /// `cm_rcu_section` of the header.
    #[repr(C)]
    struct Section {
        at: *mut c_void,
        slot: u32,
    }

    fn function(name: &CStr) -> Option<*mut c_void> {
        // SAFETY: looks the name up.
        let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
        (!found.is_null()).then_some(found)
    }

    type Lock = extern "C" fn() -> Section;
    type Unlock = extern "C" fn(Section);
    static FUNCTIONS: OnceLock<(Lock, Unlock)> = OnceLock::new();

    /// Nothing to begin with, if the library is there.
    pub(super) fn check() -> Result<fn(), String> {
        let both = function(c"cm_rcu_read_lock").zip(function(c"cm_rcu_read_unlock"));
        let (lock, unlock) =
            both.ok_or("there is no function cm_rcu_read_lock: libcommensal.so has to be preloaded")?;
        // SAFETY: they are what the header says of them.
        FUNCTIONS.get_or_init(|| unsafe {
            (transmute::<*mut c_void, Lock>(lock), transmute::<*mut c_void, Unlock>(unlock))
        });
        Ok(NOTHING)
    }

    pub(super) fn commensal(times: u64) {
        let (lock, unlock) = FUNCTIONS.get().expect("it was checked");
        for _ in 0..times {
            let section = lock();
            stay();
            unlock(section);
        }
    }

    #[cfg(liburcu)]
    fn liburcu(times: u64, [lock, unlock]: [&CStr; 2]) {
        let named = |name| function(name).expect("liburcu is linked");
        // SAFETY: they are what liburcu's headers say of them.
        let [lock, unlock] =
            unsafe { [lock, unlock].map(|name| transmute::<*mut c_void, extern "C" fn()>(named(name))) };
        for _ in 0..times {
            lock();
            stay();
            unlock();
        }
    }

    #[cfg(liburcu)]
    pub(super) fn memb(times: u64) {
        liburcu(times, [c"urcu_memb_read_lock", c"urcu_memb_read_unlock"]);
    }

    #[cfg(liburcu)]
    pub(super) fn bp(times: u64) {
        liburcu(times, [c"urcu_bp_read_lock", c"urcu_bp_read_unlock"]);
    }
}

#[cfg(liburcu)]
mod liburcu {
    use super::{Flavour, NOTHING};

    macro_rules! flavour {
        ($name:ident, $checkpoint:expr, $checkpoints:expr, $register:ident, $unregister:ident, $read:ident, $synchronize:ident) => {
            pub(super) const $name: Flavour = Flavour {
                begin: || $register(),
                end: || $unregister(),
                read: |times| $read(times),
                checkpoint: $checkpoint,
                checkpoints: $checkpoints,
                synchronize: Some(|| $synchronize()),
            };
            // Functions of liburcu.c; threads that read or wait have registered, as `begin` is called first.
            unsafe extern "C" {
                safe fn $register();
                safe fn $unregister();
                safe fn $read(times: u64);
                safe fn $synchronize();
            }
        };
    }

    flavour!(MEMB, NOTHING, |_| (), memb_register, memb_unregister, memb_read, memb_synchronize);
    flavour!(BP, NOTHING, |_| (), bp_register, bp_unregister, bp_read, bp_synchronize);
    flavour!(
        QSBR,
        || qsbr_checkpoint(),
        |times| qsbr_checkpoints(times),
        qsbr_register,
        qsbr_unregister,
        qsbr_read,
        qsbr_synchronize
    );

    unsafe extern "C" {
        safe fn qsbr_checkpoint();
        safe fn qsbr_checkpoints(times: u64);
    }
}
