//! Promises of the public types themselves: which threads may have them, and that errors are errors.

use commensal_runtime::caches::{self, Cache, Constructed};
use commensal_runtime::counter::{CounterSet, LazyCounter, NoMemory, PerCpuSet};
use commensal_runtime::group::{self, Group, Instrumented};
use commensal_runtime::rcu::qsbr::{self, KickableReader, Section};
use commensal_runtime::rcu::{self, Link, Loaded, ReadGuard, Replaced, TypesafeBox, TypesafeCache};
use commensal_runtime::settings;
use std::cell;
use std::error::Error;
use std::marker::PhantomData;
use std::rc::Rc;

/// A type, and whether it is `Send` and `Sync`: an inherent constant counts before a trait's, if its bounds hold.
macro_rules! table {
    ($($type:ty: $send:literal $sync:literal,)+) => {{
        trait No {
            const SEND: bool = false;
            const SYNC: bool = false;
        }
        impl<T: Send> SendOf<T> {
            const SEND: bool = true;
        }
        impl<T: Sync> SyncOf<T> {
            const SYNC: bool = true;
        }
        struct SendOf<T>(PhantomData<T>);
        struct SyncOf<T>(PhantomData<T>);
        impl<T> No for SendOf<T> {}
        impl<T> No for SyncOf<T> {}
        [$((stringify!($type), (<SendOf<$type>>::SEND, <SyncOf<$type>>::SYNC), ($send, $sync))),+]
    }};
}

#[test]
fn public_types_are_sent_and_shared_as_promised() {
    let all = table! {
        Group<'static>: true true,
        group::Box<'static, u8>: true true,
        group::Box<'static, cell::Cell<u8>>: true false,
        group::Box<'static, Rc<u8>>: false false,
        Instrumented<'static, u8>: true true,
        Instrumented<'static, Rc<u8>>: false false,
        Cache<cell::Cell<u8>>: true true,
        Cache<Vec<u8>, Constructed>: true true,
        caches::Box<'static, u8>: true true,
        caches::Box<'static, cell::Cell<u8>>: true false,
        caches::Box<'static, Rc<u8>>: false false,
        LazyCounter: true true,
        CounterSet<4>: true true,
        PerCpuSet<4>: true true,
        rcu::Cell<u8>: true true,
        Replaced<u8>: true true,
        TypesafeCache<u8>: true true,
        TypesafeBox<'static, u8>: true true,
        Link<'static, u8>: true true,
        ReadGuard: false false,
        Loaded<'static, u8>: false false,
        KickableReader: false false,
        Section<'static, true>: false false,
        group::Entry: false false,
    };
    for (name, found, promised) in all {
        assert_eq!(found, promised, "{name} is (Send, Sync)");
    }
}

#[test]
fn errors_are_errors_and_say_what_to_do() {
    let all: [Box<dyn Error + Send + Sync>; 12] = [
        Box::new(caches::OutOfMemory(1)),
        Box::new(caches::Refused::Size),
        Box::new(caches::Alive::Objects(2)),
        Box::new(caches::Untunable::Numbers),
        Box::new(group::Refused::Name),
        Box::new(group::Busy::Children(1)),
        Box::new(group::NotInside),
        Box::new(NoMemory),
        Box::new(qsbr::SignalInUse),
        Box::new(settings::Refused),
        Box::new(settings::Refusal::Text),
        Box::new(settings::Misunderstood::Key("nothing")),
    ];
    for error in all {
        assert!(error.to_string().contains(' '), "{error:?} says only '{error}'");
    }
}
