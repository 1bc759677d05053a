//! Atomics: core's in memory, so that zeroed pages hold them, but each access is a step of the simulated CPU.
//!
//! A load sees its own CPU's waiting stores. A store waits in the CPU's buffer, unless it is SeqCst. A
//! read-modify-write empties the buffer first. Outside simulations these are core's atomics in every respect.

use crate::engine::{self, Access, Here};
use core::fmt;
use core::mem::{ManuallyDrop, size_of};
use core::sync::atomic::{self as core_atomic, Ordering};

/// An atomic's value as a number, as in memory.
trait Word: Copy {
    fn to_bits(self) -> u64;
    fn from_bits(bits: u64) -> Self;
}

macro_rules! words {
    ($($type:ty)*) => {
        $(impl Word for $type {
            #[inline]
            fn to_bits(self) -> u64 {
                self as u64
            }
            #[inline]
            fn from_bits(bits: u64) -> Self {
                bits as Self
            }
        })*
    };
}

words! { u8 u16 u32 u64 usize i64 }

impl Word for bool {
    #[inline]
    fn to_bits(self) -> u64 {
        self.into()
    }
    #[inline]
    fn from_bits(bits: u64) -> Self {
        bits as u8 != 0
    }
}

impl<T> Word for *mut T {
    #[inline]
    fn to_bits(self) -> u64 {
        self.expose_provenance() as u64
    }
    #[inline]
    fn from_bits(bits: u64) -> Self {
        core::ptr::with_exposed_provenance_mut(bits as usize)
    }
}

/// A word's address and size. The engine accesses it by its address, which the compiler must know.
#[inline]
fn place<W>(word: *mut W) -> (usize, u8) {
    (word.expose_provenance(), size_of::<W>() as u8)
}

#[inline]
fn load<W: Word>(here: Here, word: *mut W) -> W {
    let (at, size) = place(word);
    here.step(Access::Load { at, size });
    W::from_bits(here.with(|engine| engine.load(at, size)) as u64)
}

#[inline]
fn store<W: Word>(here: Here, word: *mut W, value: W, order: Ordering) {
    let (at, size) = place(word);
    let is_locked = order == Ordering::SeqCst;
    here.step(Access::Store { at, size, is_locked });
    here.with(|engine| {
        if is_locked {
            engine.exchange(at, size, |_| Some(value.to_bits()));
        } else {
            engine.store(at, size, value.to_bits().into());
        }
    });
}

/// A read-modify-write: writes the result of `change`, if there is one.
#[inline]
fn change<W: Word>(here: Here, word: *mut W, change: impl FnOnce(W) -> Option<W>) -> Result<W, W> {
    let (at, size) = place(word);
    here.step(Access::Change { at, size });
    if here.with(|engine| engine.changes_tear()) {
        return change_in_two_steps(here, word, change);
    }
    here.with(|engine| {
        let mut is_changed = false;
        let old = engine.exchange(at, size, |bits| {
            let new = change(W::from_bits(bits));
            is_changed = new.is_some();
            new.map(W::to_bits)
        });
        if is_changed { Ok(W::from_bits(old)) } else { Err(W::from_bits(old)) }
    })
}

/// The same on a broken machine.
fn change_in_two_steps<W: Word>(here: Here, word: *mut W, change: impl FnOnce(W) -> Option<W>) -> Result<W, W> {
    let (at, size) = place(word);
    let old = W::from_bits(here.with(|engine| engine.load(at, size)) as u64);
    let Some(new) = change(old) else { return Err(old) };
    here.step(Access::Change { at, size });
    here.with(|engine| engine.exchange(at, size, |_| Some(new.to_bits())));
    Ok(old)
}

#[inline]
fn either<W>(result: Result<W, W>) -> W {
    result.unwrap_or_else(|old| old)
}

/// One atomic type. Each of its operations is one of the three above, or core's.
macro_rules! atomic {
    ($name:ident $(<$t:ident>)?, $value:ty,
     [$($(#[$attribute:meta])* $operation:ident($old:ident, $argument:ident) $new:expr;)*]) => {
        #[doc = concat!("`core::sync::atomic::", stringify!($name), "`, seen by a simulated CPU.")]
        #[repr(transparent)]
        pub struct $name $(<$t>)? (core_atomic::$name $(<$t>)?);

        impl $(<$t>)? $name $(<$t>)? {
            pub const fn new(value: $value) -> Self {
                Self(core_atomic::$name::new(value))
            }

            #[inline]
            pub fn load(&self, order: Ordering) -> $value {
                engine::here().map_or_else(|| self.0.load(order), |here| load(here, self.0.as_ptr()))
            }

            #[inline]
            pub fn store(&self, value: $value, order: Ordering) {
                match engine::here() {
                    Some(here) => store(here, self.0.as_ptr(), value, order),
                    None => self.0.store(value, order),
                }
            }

            #[inline]
            pub fn swap(&self, value: $value, order: Ordering) -> $value {
                match engine::here() {
                    Some(here) => either(change(here, self.0.as_ptr(), |_| Some(value))),
                    None => self.0.swap(value, order),
                }
            }

            #[inline]
            pub fn compare_exchange(
                &self, current: $value, new: $value, success: Ordering, failure: Ordering,
            ) -> Result<$value, $value> {
                match engine::here() {
                    Some(here) => change(here, self.0.as_ptr(), |old| (old == current).then_some(new)),
                    None => self.0.compare_exchange(current, new, success, failure),
                }
            }

            /// The same: x86 has no weak one.
            #[inline]
            pub fn compare_exchange_weak(
                &self, current: $value, new: $value, success: Ordering, failure: Ordering,
            ) -> Result<$value, $value> {
                self.compare_exchange(current, new, success, failure)
            }

            /// Writes the result of `next`, until no thread came in between, or there is no result.
            #[inline]
            pub fn fetch_update(
                &self, success: Ordering, failure: Ordering, mut next: impl FnMut($value) -> Option<$value>,
            ) -> Result<$value, $value> {
                let mut old = self.load(failure);
                while let Some(new) = next(old) {
                    match self.compare_exchange(old, new, success, failure) {
                        Ok(old) => return Ok(old),
                        Err(seen) => old = seen,
                    }
                }
                Err(old)
            }

            $($(#[$attribute])*
            #[inline]
            pub fn $operation(&self, $argument: $value, order: Ordering) -> $value {
                match engine::here() {
                    Some(here) => either(change(here, self.0.as_ptr(), |$old| Some($new))),
                    None => self.0.$operation($argument, order),
                }
            })*

            #[inline]
            pub const fn as_ptr(&self) -> *mut $value {
                self.0.as_ptr()
            }

            #[inline]
            pub fn get_mut(&mut self) -> &mut $value {
                engine::settle(place(self.0.as_ptr()));
                self.0.get_mut()
            }

            #[inline]
            pub fn into_inner(self) -> $value {
                engine::settle(place(self.0.as_ptr()));
                *ManuallyDrop::new(self).0.get_mut()
            }
        }

        impl $(<$t>)? Default for $name $(<$t>)? {
            fn default() -> Self {
                Self(Default::default())
            }
        }

        impl $(<$t>)? Drop for $name $(<$t>)? {
            #[inline]
            fn drop(&mut self) {
                engine::settle(place(self.0.as_ptr()));
            }
        }

        impl $(<$t>)? fmt::Debug for $name $(<$t>)? {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, formatter)
            }
        }
    };
}

/// The operations of numbers.
macro_rules! number {
    ($name:ident, $value:ty) => {
        atomic!($name, $value, [
            fetch_add(old, value) old.wrapping_add(value);
            fetch_sub(old, value) old.wrapping_sub(value);
            fetch_max(old, value) old.max(value);
            fetch_min(old, value) old.min(value);
            fetch_and(old, value) old & value;
            fetch_or(old, value) old | value;
        ]);
    };
}

number!(AtomicU8, u8);
number!(AtomicU16, u16);
number!(AtomicU32, u32);
number!(AtomicU64, u64);
number!(AtomicUsize, usize);
number!(AtomicI64, i64);

atomic!(AtomicBool, bool, [
    fetch_and(old, value) old & value;
    fetch_or(old, value) old | value;
]);

atomic!(AtomicPtr<T>, *mut T, []);

/// A fence. On x86, only SeqCst orders more than is ordered already.
#[inline]
pub fn fence(order: Ordering) {
    match engine::here() {
        Some(here) => {
            here.step(Access::Fence { is_full: order == Ordering::SeqCst });
            if order == Ordering::SeqCst {
                here.with(|engine| engine.drain_own());
            }
        }
        None => core_atomic::fence(order),
    }
}

/// Longest time until other CPUs see a store; the host's is as long as a simulation.
pub(crate) const STORES_TAKE_NS: u64 = 100;

/// Orders later accesses after a time in which all CPUs have emptied their store buffers: here they do so at once.
pub(crate) fn empty_all_buffers() {
    fence(Ordering::SeqCst);
    if let Some(here) = engine::here() {
        here.with(|engine| engine.settle_stores());
    }
}

/// A compiler fence: nothing to the CPU, but a place where a signal may come.
#[inline]
pub fn compiler_fence(order: Ordering) {
    core_atomic::compiler_fence(order);
    if let Some(here) = engine::here() {
        here.step(Access::Nothing);
    }
}

/// Lets other threads go on, for a thread that waits for them.
#[inline]
pub fn spin_loop() {
    match engine::here() {
        Some(here) => here.give_way(),
        None => core::hint::spin_loop(),
    }
}
