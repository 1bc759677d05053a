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

/// Their names.
#[cfg(liburcu)]
pub const NAMES: [&str; 10] = [
    "commensal",
    "commensal Cell",
    "commensal qsbr",
    "commensal qsbr kickable",
    "liburcu-memb",
    "liburcu-bp",
    "liburcu-qsbr",
    "crossbeam-epoch",
    "seize",
    "arc-swap",
];
/// Their names.
#[cfg(not(liburcu))]
pub const NAMES: [&str; 7] = [
    "commensal",
    "commensal Cell",
    "commensal qsbr",
    "commensal qsbr kickable",
    "crossbeam-epoch",
    "seize",
    "arc-swap",
];

/// Those with which somebody waits for readers.
#[cfg(liburcu)]
pub const WAITING: [&str; 5] = ["commensal", "commensal qsbr", "liburcu-memb", "liburcu-bp", "liburcu-qsbr"];
/// Those with which somebody waits for readers.
#[cfg(not(liburcu))]
pub const WAITING: [&str; 2] = ["commensal", "commensal qsbr"];

/// Those that have checkpoints.
#[cfg(liburcu)]
pub const CHECKING: [&str; 3] = ["commensal qsbr", "commensal qsbr flagged", "liburcu-qsbr"];
/// Those that have checkpoints.
#[cfg(not(liburcu))]
pub const CHECKING: [&str; 2] = ["commensal qsbr", "commensal qsbr flagged"];

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
        "crossbeam-epoch" => Ok(Flavour { read: crossbeam, ..bare }),
        "seize" => Ok(Flavour { read: seize, ..bare }),
        "arc-swap" => Ok(Flavour { read: arc_swap, ..bare }),
        #[cfg(liburcu)]
        "liburcu-memb" => Ok(liburcu::MEMB),
        #[cfg(liburcu)]
        "liburcu-bp" => Ok(liburcu::BP),
        #[cfg(liburcu)]
        "liburcu-qsbr" => Ok(liburcu::QSBR),
        _ => Err(format!("found no flavour '{name}'; expected one of {}", NAMES.join(", "))),
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
