//! A group, as the runtime knows it.

use super::NAME_BYTES;
use super::core::{Core, List, Users};
use super::own::Own;
use super::register;
use crate::caches::{ObjectCache, Wanted, enter, heap, is_plain};
use crate::central::size_class;
use crate::central::{CacheRef, Charged};
use crate::counter::Account;
use crate::misuse::Line;
use crate::page_heap::PAGE;
use core::fmt::{self, Write};
use core::ptr::null_mut;
use machine::sync::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};

/// As often are arrays emptied for an allocation.
const ROUNDS: usize = 4;

/// Why a group was not created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// There is no memory for it.
    NoMemory,
    /// The name is empty, or has something else in it than letters, digits and `-`, `_`, `.`, `/`.
    Name,
}

impl fmt::Display for Refused {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Refused::NoMemory => "no memory for another group",
            Refused::Name => "a group's name has letters, digits, and '-', '_', '.' and '/'",
        })
    }
}

impl core::error::Error for Refused {}

/// Why a group was not destroyed. Nothing happened to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Busy {
    /// So many times, threads are inside.
    Inside(u32),
    /// So many groups have it for a parent.
    Children(u32),
    /// A signal handler interrupted somebody who goes over all caches.
    Interrupting,
}

impl fmt::Display for Busy {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Busy::Inside(times) => {
                write!(out, "threads are inside the group, {times} times: they have to leave it first")
            }
            Busy::Children(many) => write!(out, "the group has {many} children: destroy them first"),
            Busy::Interrupting => {
                out.write_str("a group cannot be destroyed by a signal handler that interrupted a drain")
            }
        }
    }
}

impl core::error::Error for Busy {}

/// What is known of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Charged bytes: what the program holds of the group and of groups below, and what arrays of slots hold of it.
    pub charged: u64,
    /// The most that they were, exact to one refill of an array.
    pub peak: u64,
    /// The limit; `u64::MAX`: none.
    pub limit: u64,
    /// Allocations that a limit refused, its own or one above.
    pub refused: u64,
    /// Times that threads are inside.
    pub inside: u32,
    /// Groups that have it for a parent.
    pub children: u32,
    /// Caches that were made.
    pub caches: u32,
    /// Large blocks in use.
    pub large_blocks: u32,
}

impl Core {
    /// Creates a group. A microsecond or less; interrupts nobody.
    pub fn create(name: &[u8], parent: Option<&Core>) -> Result<*mut Core, Refused> {
        if name.is_empty() || !is_plain(name) {
            return Err(Refused::Name);
        }
        if !enter() {
            return Err(Refused::NoMemory);
        }
        let place = Own::GROUP.allocate().cast::<Core>();
        if place.is_null() {
            return Err(Refused::NoMemory);
        }
        let mut own = [0; NAME_BYTES];
        let name_bytes = name.len().min(NAME_BYTES);
        own[..name_bytes].copy_from_slice(&name[..name_bytes]);
        let core = Core {
            account: Account::new(parent.map_or(core::ptr::null(), |parent| &raw const parent.account)),
            users: Users::new(),
            children: AtomicU32::new(0),
            table: AtomicPtr::new(null_mut()),
            large: List::new(),
            name: own,
            name_bytes: name_bytes as u8,
        };
        // SAFETY: the place is ours, and large enough.
        unsafe { place.write(core) };
        if let Some(parent) = parent {
            parent.children.fetch_add(1, Ordering::Relaxed);
        }
        register::enter(place);
        Ok(place)
    }

    /// Destroys a group: returns everything that was allocated in it at once, without looking at it. Takes time in
    /// proportion to its spans and large blocks; interrupts no thread.
    ///
    /// # Safety
    /// `this` was created, and is the caller's to destroy. No thread uses its memory or allocates in it.
    pub unsafe fn destroy(this: *mut Core) -> Result<(), Busy> {
        enter();
        // SAFETY: passed on.
        let core = unsafe { &*this };
        match core.children.load(Ordering::Acquire) {
            0 => core.users.close().map_err(Busy::Inside)?,
            many => return Err(Busy::Children(many)),
        }
        if !register::leave(this) {
            core.users.open();
            return Err(Busy::Interrupting);
        }
        // SAFETY: passed on: nobody uses the caches any more.
        if core.known_table().is_some_and(|table| !unsafe { heap().end_charged(table) }) {
            register::enter(this);
            core.users.open();
            return Err(Busy::Interrupting);
        }
        core.release_large();
        let (table, parent) = (core.table.load(Ordering::Relaxed), Core::of_account(core.account.parent()));
        // SAFETY: nobody knows the group any more.
        unsafe {
            if !table.is_null() {
                Own::TABLE.free(table.cast());
            }
            this.drop_in_place();
            Own::GROUP.free(this.cast());
        }
        if let Some(parent) = parent {
            // Release pairs with the acquire in `destroy`: a parent goes after its children.
            parent.children.fetch_sub(1, Ordering::Release);
        }
        Ok(())
    }

    /// The group that an account is of.
    pub(super) fn of_account(account: Option<&Account>) -> Option<&Core> {
        // SAFETY: all accounts are groups', of which they are the first field.
        account.map(|account| unsafe { &*(&raw const *account).cast() })
    }

    /// The group that a cache is of, if it is one's; for as long as an object of the cache is in use.
    pub(crate) fn of_cache(cache: CacheRef) -> Option<&'static Core> {
        Self::of_account(cache.account())
    }

    /// The group that it is in, if it is in one.
    pub fn parent(&self) -> Option<&Core> {
        Self::of_account(self.account.parent())
    }

    /// Its name.
    pub fn name(&self) -> &str {
        core::str::from_utf8(&self.name[..self.name_bytes as usize]).unwrap_or("?")
    }

    /// Who is charged.
    pub fn account(&self) -> &Account {
        &self.account
    }

    /// What is known of it: exact at rest.
    pub fn statistics(&self) -> Statistics {
        // A fork child's first look at who is inside may be this.
        enter();
        Statistics {
            charged: self.account.charged(),
            peak: self.account.peak(),
            limit: self.account.limit().unwrap_or(u64::MAX),
            refused: self.account.refused(),
            inside: self.users.count(),
            children: self.children.load(Ordering::Relaxed),
            caches: self.known_table().map_or(0, |table| table.caches().count()) as u32,
            large_blocks: self.large.len(),
        }
    }

    fn known_table(&self) -> Option<&Charged> {
        // SAFETY: the table lives as long as the group. Acquire pairs with the release in `table`.
        unsafe { self.table.load(Ordering::Acquire).as_ref() }
    }

    // ---- allocating ----

    /// At least `bytes` at a multiple of `alignment`, a power of two. None: no memory, or no room within the limits.
    pub fn allocate(&self, bytes: usize, alignment: usize) -> Option<*mut u8> {
        let class = if alignment <= size_class::STEP {
            (bytes <= size_class::LARGEST).then(|| size_class::class_for(bytes))
        } else if alignment <= PAGE {
            size_class::class_for_aligned(bytes, alignment)
        } else {
            None
        };
        match class {
            Some(class) => self.allocate_small(class),
            None => self.allocate_large(bytes, alignment).map(|run| run.start),
        }
    }

    /// Gives back what [`Self::allocate`] gave, of whichever group.
    ///
    /// # Safety
    /// The block is the caller's to give up.
    pub unsafe fn free(block: *mut u8) {
        enter();
        // SAFETY: passed on.
        unsafe {
            match heap().central().cache_at(block) {
                Some(cache) => heap().cpu.put(cache, block),
                None => heap().free_large_of_any(block),
            }
        }
    }

    /// An object of a class.
    #[inline]
    pub fn allocate_small(&self, class: usize) -> Option<*mut u8> {
        // Acquire pairs with the release in `make_cache`.
        let word = self.known_table().map_or(0, |table| table.entry(class).load(Ordering::Acquire));
        let object = Charged::cache_of(word).and_then(|cache| heap().cpu.take(cache));
        object.or_else(|| self.allocate_slow(class))
    }

    #[cold]
    fn allocate_slow(&self, class: usize) -> Option<*mut u8> {
        if !enter() {
            return None;
        }
        let cache = self.cache_for(class)?;
        self.within_limits(size_class::size(class), || {
            let cpu = &heap().cpu;
            cpu.take(cache).or_else(|| cpu.swap(cache)).or_else(|| cpu.refill(cache))
        })
    }

    /// Tries, and tries again after draining caches: the group's if a limit was in the way, or all of the process.
    pub(super) fn within_limits<R>(&self, bytes: usize, mut attempt: impl FnMut() -> Option<R>) -> Option<R> {
        if let Some(got) = attempt() {
            return Some(got);
        }
        for _ in 0..ROUNDS {
            let Some(full) = self.account.without_room(bytes) else {
                // No memory; or there was no room, and now there is.
                return attempt().or_else(|| heap().cpu.flush_and_retry(bytes, attempt));
            };
            // Objects in arrays are charged, but refuse no request. Others may have drained or taken them.
            let table = Self::of_account(Some(full)).and_then(Core::known_table);
            let drained = table.and_then(|table| heap().drain_charged(table));
            let again = attempt();
            if again.is_some() || drained.is_none_or(|arrays| arrays == 0) {
                if again.is_none() {
                    self.account.count_refusal();
                }
                return again;
            }
        }
        self.account.count_refusal();
        None
    }

    fn cache_for(&self, class: usize) -> Option<CacheRef> {
        let entry = self.table()?.entry(class);
        Charged::cache_of(entry.load(Ordering::Acquire)).or_else(|| self.make_cache(entry, class))
    }

    #[cold]
    fn make_cache(&self, entry: &AtomicUsize, class: usize) -> Option<CacheRef> {
        let bytes = size_class::size(class);
        let mut name = Line::new();
        let _ = write!(name, "malloc-{bytes}/{}", self.name());
        let alignment = (1 << bytes.trailing_zeros()).min(PAGE);
        let wanted = Wanted {
            name: name.as_bytes(),
            bytes,
            alignment,
            constructor: None,
            destructor: None,
            argument: null_mut(),
            typesafe: false,
        };
        // SAFETY: the caches end before the group does.
        let cache = unsafe { ObjectCache::create_for(&raw const self.account, &wanted) }?;
        let ours = cache.cache();
        // Release: who sees the entry finds the cache as it was made.
        match entry.compare_exchange(0, ours.word(), Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Some(ours),
            Err(theirs) => {
                // SAFETY: nobody has seen ours. One that cannot end here, in a handler, is nobody's.
                if unsafe { cache.destroy() }.is_err() {
                    cache.disown();
                }
                Charged::cache_of(theirs)
            }
        }
    }

    /// The table, which is made now if there is none, and put below that of the parent.
    fn table(&self) -> Option<&Charged> {
        let mut table = self.table.load(Ordering::Acquire);
        if table.is_null() {
            let made = Own::TABLE.allocate().cast::<Charged>();
            if made.is_null() {
                return None;
            }
            // SAFETY: the place is ours; zeroes are an empty table.
            unsafe { made.cast::<u8>().write_bytes(0, size_of::<Charged>()) };
            // Release: who sees the table sees it empty, or later.
            match self.table.compare_exchange(null_mut(), made, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => table = made,
                Err(theirs) => {
                    // SAFETY: nobody has seen ours.
                    unsafe { Own::TABLE.free(made.cast()) };
                    table = theirs;
                }
            }
        }
        // SAFETY: it lives as long as the group.
        let table = unsafe { table.as_ref() }?;
        if let Some(parent) = self.parent() {
            heap().link_charged(table, parent.table()?);
        }
        Some(table)
    }
}
