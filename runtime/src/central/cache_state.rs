//! What is known of a cache that a program made, beside its shape.

use super::label::{CacheName, Label};
use super::waiting::Waiting;
use crate::counter::{self, Account, LazyCounter};
use crate::layout::Region;
use crate::observe::Events;
use crate::page_heap::Span;
use core::cell::UnsafeCell;
use core::ptr::null_mut;
use machine::sync::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

/// Makes an object of raw memory, or the reverse, with an argument that the cache's creator chose.
pub type Hook = unsafe extern "C" fn(object: *mut u8, argument: *mut u8);

/// What a kind of cache does with the memory of an object when a span first gives it, and before the span goes.
pub type ObjectHook = unsafe fn(cache: &CacheState, object: *mut u8);

/// What this tier knows of the cache. It lies in metadata for ever; zeroes are an id that no cache had yet.
#[derive(Debug)]
#[repr(C)]
pub struct CacheState {
    /// Its own chunk and id.
    chunk: AtomicUsize,
    id: AtomicUsize,
    /// Objects outside of spans and depots.
    objects: LazyCounter,
    /// The most that they were.
    peak: Events,
    /// Who is charged for its objects; null: nobody.
    account: AtomicPtr<Account>,
    /// Spans that readers may still look at.
    pub(super) waiting: Waiting,
    /// The next cache of which spans ever waited; never changes once it is set.
    pub(super) next_waiting: AtomicPtr<CacheState>,
    pub(super) is_listed: AtomicBool,
    /// The next one of those that were destroyed; under the chunks' lock.
    pub(super) next: AtomicPtr<CacheState>,
    /// What people call it.
    label: Label,
    /// Does not change while the cache exists.
    home: UnsafeCell<Home>,
}

/// What a cache is.
#[derive(Clone, Copy, Debug)]
pub struct Home {
    /// Bytes that were asked for.
    pub bytes: usize,
    /// Makes an object of raw memory.
    pub constructor: Option<Hook>,
    /// The reverse.
    pub destructor: Option<Hook>,
    /// What both are called with.
    pub argument: *mut u8,
    /// Whether readers may look at objects that were given back.
    pub typesafe: bool,
    /// What its kind does with objects that a span gives for the first time; none: nothing.
    pub begin_object: Option<ObjectHook>,
    /// The reverse, for objects that nobody uses.
    pub end_object: Option<ObjectHook>,
}

// SAFETY: `home` does not change while anybody knows the cache; the rest is atomic, or has a lock.
unsafe impl Sync for CacheState {}

impl CacheState {
    /// Belongs to an id from now on; nobody else knows it.
    pub(super) fn begin_at(&self, chunk: Region, id: usize) {
        self.chunk.store(chunk.base() as usize, Ordering::Relaxed);
        self.id.store(id, Ordering::Relaxed);
        self.label.begin();
    }

    /// Its chunk, and its id there.
    pub(super) fn place(&self) -> (Region, usize) {
        // SAFETY: the base of a chunk.
        (unsafe { Region::at(self.chunk.load(Ordering::Relaxed) as *mut u8) }, self.id.load(Ordering::Relaxed))
    }

    /// Shows each span that waits for readers. Nobody else is here.
    pub fn waiting_spans(&self) -> impl Iterator<Item = &'static Span> {
        self.waiting.spans()
    }

    /// What the cache is.
    pub fn home(&self) -> &Home {
        // SAFETY: it does not change while anybody knows the cache.
        unsafe { &*self.home.get() }
    }

    /// Says what the cache is.
    ///
    /// # Safety
    /// Nobody else knows the cache.
    pub unsafe fn set_home(&self, home: Home) {
        // SAFETY: passed on.
        unsafe { *self.home.get() = home };
    }

    /// Who is charged for its objects.
    #[inline]
    pub fn account(&self) -> Option<&'static Account> {
        // SAFETY: it lives as long as the cache exists.
        unsafe { self.account.load(Ordering::Relaxed).as_ref() }
    }

    /// Charges an account from now on; null: nobody.
    ///
    /// # Safety
    /// The account lives as long as the cache.
    pub unsafe fn set_account(&self, account: *const Account) {
        self.account.store(account.cast_mut(), Ordering::Relaxed);
    }

    /// What people call it, and whether it is still this cache.
    pub fn label(&self) -> &Label {
        &self.label
    }

    /// Its name.
    pub fn name(&self) -> CacheName {
        self.label.name()
    }

    /// The constructor, and what it is called with.
    pub fn constructor(&self) -> Option<(Hook, *mut u8)> {
        let home = self.home();
        Some((home.constructor?, home.argument))
    }

    /// The destructor, and what it is called with.
    pub fn destructor(&self) -> Option<(Hook, *mut u8)> {
        let home = self.home();
        Some((home.destructor?, home.argument))
    }

    /// Whether nobody minds what becomes of the contents of free objects.
    pub fn is_indifferent_to_free_objects(&self) -> bool {
        let home = self.home();
        home.begin_object.is_none() && home.end_object.is_none() && !home.typesafe
    }

    /// Makes an object of memory that a span gives for the first time.
    ///
    /// # Safety
    /// The memory is ours.
    pub unsafe fn begin_object(&self, object: *mut u8) {
        if let Some(begin) = self.home().begin_object {
            // SAFETY: passed on.
            unsafe { begin(self, object) };
        }
    }

    /// The reverse, for objects that nobody uses.
    ///
    /// # Safety
    /// As above.
    pub unsafe fn end_objects(&self, objects: impl Iterator<Item = *mut u8>) {
        if let Some(end) = self.home().end_object {
            // SAFETY: passed on.
            objects.for_each(|object| unsafe { end(self, object) });
        }
    }

    /// Counts objects that left the depot or a span, or came back.
    pub(super) fn count(&self, objects: isize) {
        // As in the tally: what cannot be counted is not.
        let _ = self.objects.try_add(objects as i64);
        if objects > 0 && counter::reads_at_once() {
            self.peak.raise(self.objects.read_positive().value as u64);
        }
    }

    /// Objects outside of spans and depots.
    pub(super) fn counted(&self) -> u64 {
        self.objects.sum_positive() as u64
    }

    /// Counts nothing any more, and charges nobody.
    pub fn forget(&self) {
        self.objects.set(0);
        self.peak.set(0);
        self.account.store(null_mut(), Ordering::Relaxed);
    }
}
