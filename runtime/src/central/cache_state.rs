//! The state of a cache that a program made, beside its shape.

use super::label::{CacheName, Label};
use super::waiting::Waiting;
use crate::counter::{self, Account, LazyCounter};
use crate::layout::Region;
use crate::observe::Events;
use crate::page_heap::Span;
use core::cell::UnsafeCell;
use core::ptr::null_mut;
use machine::sync::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

/// The program's constructor or destructor of an object, with an argument that the cache's creator chose.
pub type Hook = unsafe extern "C" fn(object: *mut u8, argument: *mut u8);

/// Runs on an object's memory when a span first gives it, or before the span goes. The kind of the cache sets it.
pub type ObjectHook = unsafe fn(cache: &CacheState, object: *mut u8);

/// This tier's state of a cache. It lies in metadata and stays for ever. Zeroes are an id that no cache has had.
#[derive(Debug)]
#[repr(C)]
pub struct CacheState {
    chunk: AtomicUsize,
    id: AtomicUsize,
    /// Objects outside of spans and depots.
    objects: LazyCounter,
    peak: Events,
    /// Pays for the objects; may be null.
    account: AtomicPtr<Account>,
    /// Spans that readers may still look at.
    pub(super) waiting: Waiting,
    /// The next cache whose spans may wait; set once.
    pub(super) next_waiting: AtomicPtr<CacheState>,
    pub(super) is_listed: AtomicBool,
    /// The next destroyed cache; under the chunks' lock.
    pub(super) next: AtomicPtr<CacheState>,
    label: Label,
    /// Does not change while the cache exists.
    home: UnsafeCell<Home>,
}

#[derive(Clone, Copy, Debug)]
pub struct Home {
    /// Bytes that the program asked for.
    pub bytes: usize,
    /// Makes an object of raw memory.
    pub constructor: Option<Hook>,
    pub destructor: Option<Hook>,
    pub argument: *mut u8,
    /// Whether readers may look at free objects.
    pub typesafe: bool,
    /// The page map's class for the objects: 0, unless the cache is hardened.
    pub class_word: u8,
    /// Runs on objects that a span gives for the first time; may be none.
    pub begin_object: Option<ObjectHook>,
    /// Undoes it, for free objects.
    pub end_object: Option<ObjectHook>,
    /// Runs under the shard's lock on an object that its span has not given yet; may be none.
    pub carve_object: Option<ObjectHook>,
}

// SAFETY: `home` does not change while the cache is known; the rest is atomic or has a lock.
unsafe impl Sync for CacheState {}

impl CacheState {
    pub(super) fn begin_at(&self, chunk: Region, id: usize) {
        self.chunk.store(chunk.base() as usize, Ordering::Relaxed);
        self.id.store(id, Ordering::Relaxed);
        self.label.begin();
    }

    pub(super) fn place(&self) -> (Region, usize) {
        // SAFETY: this is the base of a chunk.
        (unsafe { Region::at(self.chunk.load(Ordering::Relaxed) as *mut u8) }, self.id.load(Ordering::Relaxed))
    }

    /// Each span that waits for readers, while no other thread runs here.
    pub fn waiting_spans(&self) -> impl Iterator<Item = &'static Span> {
        self.waiting.spans()
    }

    pub fn home(&self) -> &Home {
        // SAFETY: it does not change while the cache is known.
        unsafe { &*self.home.get() }
    }

    /// Sets the cache's properties.
    ///
    /// # Safety
    /// No other thread knows the cache.
    pub unsafe fn set_home(&self, home: Home) {
        // SAFETY: passed on.
        unsafe { *self.home.get() = home };
    }

    /// The account that pays for its objects.
    #[inline]
    pub fn account(&self) -> Option<&'static Account> {
        // SAFETY: the account lives as long as the cache.
        unsafe { self.account.load(Ordering::Relaxed).as_ref() }
    }

    /// Sets the account that pays from now on; may be null.
    ///
    /// # Safety
    /// The account lives as long as the cache.
    pub unsafe fn set_account(&self, account: *const Account) {
        self.account.store(account.cast_mut(), Ordering::Relaxed);
    }

    /// Its name, and a check that it is still this cache.
    pub fn label(&self) -> &Label {
        &self.label
    }

    pub fn name(&self) -> CacheName {
        self.label.name()
    }

    pub fn constructor(&self) -> Option<(Hook, *mut u8)> {
        Some((self.home().constructor?, self.home().argument))
    }

    pub fn destructor(&self) -> Option<(Hook, *mut u8)> {
        Some((self.home().destructor?, self.home().argument))
    }

    /// Whether the contents of free objects may change.
    pub fn is_indifferent_to_free_objects(&self) -> bool {
        let home = self.home();
        let has_hook = home.begin_object.is_some() || home.end_object.is_some() || home.carve_object.is_some();
        !has_hook && !home.typesafe
    }

    /// Runs the kind's hook on an object that a span gives for the first time.
    ///
    /// # Safety
    /// The caller owns the memory.
    pub unsafe fn begin_object(&self, object: *mut u8) {
        if let Some(begin) = self.home().begin_object {
            // SAFETY: passed on.
            unsafe { begin(self, object) };
        }
    }

    /// Undoes that for free objects.
    ///
    /// # Safety
    /// As above.
    pub unsafe fn end_objects(&self, objects: impl Iterator<Item = *mut u8>) {
        if let Some(end) = self.home().end_object {
            // SAFETY: passed on.
            objects.for_each(|object| unsafe { end(self, object) });
        }
    }

    pub(super) fn count(&self, objects: isize) {
        // If the counter fails, the objects go uncounted, as in the tally.
        let _ = self.objects.try_add(objects as i64);
        if objects > 0 && counter::reads_at_once() {
            self.peak.raise(self.objects.read_positive().value as u64);
        }
    }

    pub(super) fn counted(&self) -> u64 {
        self.objects.sum_positive() as u64
    }

    /// Sets the counts to zero and drops the account.
    pub fn forget(&self) {
        self.objects.set(0);
        self.peak.set(0);
        self.account.store(null_mut(), Ordering::Relaxed);
    }
}
