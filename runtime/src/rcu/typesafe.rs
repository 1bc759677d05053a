//! Caches whose objects readers may look at after they were freed: a reader finds an object of the type, though perhaps
//! not the one that it looked for.
//!
//! A freed object is used again at once, while its lines are still in the CPU's cache, and no callback waits. The price
//! is a rule for readers, which [`TypesafeCache`] states.
//!
//! Memory goes back to the heap by whole spans, after a grace period. Only then are objects dropped, by a thread of the
//! runtime's, or by one that trims. Until then the cache uses those spans first. So it never has more memory than its
//! objects needed at their peak, however long a section stays open.
//!
//! Source: the Linux kernel's slab caches with `SLAB_TYPESAFE_BY_RCU`, and the rule that goes with them.

use super::domain::Domain;
use super::grace::{Caller, Pace};
use super::qsbr::Section;
use super::reader::ReadGuard;
use super::synchronize::wait_for;
use crate::caches::{self, Cache, Constructed};
use core::marker::PhantomData;
use core::ops::Deref;
use core::ptr::{NonNull, null_mut};
use machine::sync::{AtomicPtr, Ordering};
use machine::thread;

/// Whether no thread can be looking at objects of a typesafe cache. Under a shard's lock, where the domain must not be
/// put in order: each thread knows itself which sections it has open.
pub(crate) fn readers_are_absent() -> bool {
    thread::is_alone() && !Domain::of_process().waits_for_itself()
}

/// Waits for threads that may be looking at such objects.
pub(crate) fn wait_for_readers() {
    wait_for(Pace::Usual, Caller::OfLibrary);
}

/// A cache of objects that readers may look at after they were freed, and used again.
///
/// It may be a static. Allocating and freeing cost as much as in a [`Cache`]. Dropping the cache waits for a grace
/// period. In a section, or with a registered reader online, it ends the program with a message.
///
/// **The re-check rule.** In a section, an object that a reader found stays a constructed object of its type until the
/// section ends. But it may be freed, and become another one, between finding it and looking at it. So a reader first
/// gets hold of it, by a lock or a count that lies *in the object* and survives its uses. Then it looks whether it is
/// still the one that it wanted. If not, it lets go and looks again:
///
/// ```
/// use commensal::rcu::{self, Link, TypesafeCache};
/// use std::sync::Mutex;
///
/// struct Account { state: Mutex<State> }
/// struct State { owner: Option<u32>, balance: i64 }
///
/// // Each object is constructed once, and keeps its lock for ever.
/// static ACCOUNTS: TypesafeCache<Account> =
///     TypesafeCache::new("account", || Account { state: Mutex::new(State { owner: None, balance: 0 }) });
/// static TABLE: [Link<Account>; 64] = [const { Link::new(&ACCOUNTS) }; 64];
///
/// fn open(owner: u32, balance: i64) -> bool {
///     let Some(account) = ACCOUNTS.get() else { return false };
///     *account.state.lock().unwrap() = State { owner: Some(owner), balance };
///     replace(owner, Some(account));
///     true
/// }
///
/// fn replace(owner: u32, account: Option<rcu::TypesafeBox<'static, Account>>) {
///     if let Some(old) = TABLE[owner as usize % 64].swap(account) {
///         // No reader finds it any more, and those that have found it see that it has no owner.
///         old.state.lock().unwrap().owner = None;
///         // Freed here, and used again at once: no grace period.
///     }
/// }
///
/// fn deposit(owner: u32, amount: i64) -> Option<i64> {
///     let section = rcu::read();
///     loop {
///         let account = TABLE[owner as usize % 64].load(&section)?;
///         let mut state = account.state.lock().unwrap();
///         // The rule: it may have been freed, and be another one's by now.
///         if state.owner == Some(owner) {
///             state.balance += amount;
///             return Some(state.balance);
///         }
///     }
/// }
///
/// assert!(open(7, 100));
/// assert_eq!(deposit(7, 20), Some(120));
/// replace(7, None);
/// assert_eq!(deposit(7, 1), None);
/// ```
#[derive(Debug)]
pub struct TypesafeCache<T: Send + Sync + 'static>(Cache<T, Constructed>);

impl<T: Send + Sync + 'static> TypesafeCache<T> {
    /// Makes a cache of objects that `constructor` makes, each once. Panics, at compile time for a static, as
    /// [`Cache::new`] does. The constructor must not panic: then the program ends.
    pub const fn new(name: &'static str, constructor: fn() -> T) -> Self {
        TypesafeCache(Cache::typesafe(name, constructor))
    }

    /// Allocates an object, as its last user or the constructor left it. Readers may look at it. None: no memory.
    #[inline]
    pub fn get(&self) -> Option<TypesafeBox<'_, T>> {
        self.0.get().map(TypesafeBox)
    }

    /// As [`Cache::alive`].
    pub fn alive(&self) -> usize {
        self.0.alive()
    }

    /// As [`Cache::shrink`]; memory goes back after a grace period.
    pub fn shrink(&self) -> usize {
        self.0.shrink()
    }
}

/// The owner of an object of a [`TypesafeCache`], which gives it back at once when it is dropped. Readers may look at
/// it all the while, so there is no `&mut`.
#[derive(Debug)]
#[must_use = "the object is freed with its owner"]
pub struct TypesafeBox<'a, T: Send + Sync + 'static>(caches::Box<'a, T, Constructed>);

impl<T: Send + Sync + 'static> Deref for TypesafeBox<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}

/// A place where readers find an object, if there is one: it belongs to the thread that takes it out.
#[derive(Debug)]
pub struct Link<'a, T: Send + Sync + 'static> {
    object: AtomicPtr<T>,
    cache: &'a TypesafeCache<T>,
    owns: PhantomData<TypesafeBox<'a, T>>,
}

impl<'a, T: Send + Sync + 'static> Link<'a, T> {
    /// An empty place, for objects of this cache.
    pub const fn new(cache: &'a TypesafeCache<T>) -> Self {
        Link { object: AtomicPtr::new(null_mut()), cache, owns: PhantomData }
    }

    /// The object, if any. It stays an object of the type until the section ends, but may be freed, and used again, at
    /// any moment.
    #[inline]
    pub fn load<'s>(&self, _section: &'s ReadGuard) -> Option<&'s T> {
        // Acquire pairs with the release in `swap`: a reader that finds the object finds it constructed, and with what
        // was written to it before. SAFETY: it was in use while it was here, and its memory stays such an object until
        // the section ends, even if it is freed or its cache ends.
        unsafe { self.object.load(Ordering::Acquire).as_ref() }
    }

    /// The same, in a section of a reader that registered.
    #[inline]
    pub fn load_in<'s, const KICKABLE: bool>(&self, _section: &'s Section<'_, KICKABLE>) -> Option<&'s T> {
        // SAFETY: as above. Acquire: as above.
        unsafe { self.object.load(Ordering::Acquire).as_ref() }
    }

    /// Puts another object there, or none; returns the one that was there. Panics if the object is of another cache.
    pub fn swap(&self, object: Option<TypesafeBox<'a, T>>) -> Option<TypesafeBox<'a, T>> {
        let new = object.map_or(null_mut(), |TypesafeBox(object)| caches::Box::into_object(object, &self.cache.0));
        // Acquire pairs with the release of the thread that put the old one there.
        let old = self.object.swap(new, Ordering::AcqRel);
        // SAFETY: it was put here by `swap`, from this cache, and is ours now.
        NonNull::new(old).map(|old| TypesafeBox(unsafe { caches::Box::from_object(old, &self.cache.0) }))
    }
}

impl<T: Send + Sync + 'static> Drop for Link<'_, T> {
    fn drop(&mut self) {
        drop(self.swap(None));
    }
}
