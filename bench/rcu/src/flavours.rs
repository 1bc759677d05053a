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
    /// Waits for readers, where that can be done.
    pub synchronize: Option<fn()>,
}

/// Their names.
#[cfg(liburcu)]
pub const NAMES: [&str; 8] = [
    "commensal",
    "commensal Cell",
    "liburcu-memb",
    "liburcu-bp",
    "liburcu-qsbr",
    "crossbeam-epoch",
    "seize",
    "arc-swap",
];
/// Their names.
#[cfg(not(liburcu))]
pub const NAMES: [&str; 5] = ["commensal", "commensal Cell", "crossbeam-epoch", "seize", "arc-swap"];

/// Those with which somebody waits for readers.
#[cfg(liburcu)]
pub const WAITING: [&str; 4] = ["commensal", "liburcu-memb", "liburcu-bp", "liburcu-qsbr"];
/// Those with which somebody waits for readers.
#[cfg(not(liburcu))]
pub const WAITING: [&str; 1] = ["commensal"];

const NOTHING: fn() = || ();

pub(crate) fn named(name: &str) -> Result<Flavour, String> {
    let bare = Flavour { begin: NOTHING, end: NOTHING, read: |_| (), checkpoint: NOTHING, synchronize: None };
    match name {
        "commensal" => Ok(Flavour { read: commensal, synchronize: Some(rcu::synchronize), ..bare }),
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

/// Compilers must not move anything out of a section, nor leave it out.
fn stay() {
    std::sync::atomic::compiler_fence(std::sync::atomic::Ordering::SeqCst);
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
        ($name:ident, $checkpoint:expr, $register:ident, $unregister:ident, $read:ident, $synchronize:ident) => {
            pub(super) const $name: Flavour = Flavour {
                begin: || $register(),
                end: || $unregister(),
                read: |times| $read(times),
                checkpoint: $checkpoint,
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

    flavour!(MEMB, NOTHING, memb_register, memb_unregister, memb_read, memb_synchronize);
    flavour!(BP, NOTHING, bp_register, bp_unregister, bp_read, bp_synchronize);
    flavour!(QSBR, || qsbr_checkpoint(), qsbr_register, qsbr_unregister, qsbr_read, qsbr_synchronize);

    unsafe extern "C" {
        safe fn qsbr_checkpoint();
    }
}
