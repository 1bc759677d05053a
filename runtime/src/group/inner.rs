//! Creating, destroying and allocating in a group.

use super::NAME_BYTES;
use super::core::{Core, List, Users};
use super::register::{self, Own};
use crate::caches::{ObjectCache, Wanted, enter, heap, is_plain};
use crate::central::{CacheRef, Charged, size_class};
use crate::counter::Account;
use crate::misuse::Line;
use crate::page_heap::{PAGE, Run};
use crate::profile::{self, Caller};
use core::fmt::{self, Write};
use core::ptr::null_mut;
use machine::sync::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};

/// Attempts to drain magazines for an allocation.
const ROUNDS: usize = 4;

/// Why a group was not created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refused {
    /// There is no memory for it.
    NoMemory,
    /// The name is empty, or contains a character other than letters, digits, `-`, `_`, `.` and `/`.
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

/// Why a group was not destroyed. It is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Busy {
    /// Threads are inside, this many times.
    Inside(u32),
    /// This many groups have it as parent.
    Children(u32),
    /// The caller is a signal handler that interrupted a drain of all caches.
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

/// Statistics of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// Bytes charged to it and its descendants, including objects in magazines of slots.
    pub charged: u64,
    /// The largest charge, exact to one refill of a magazine.
    pub peak: u64,
    /// The limit; `u64::MAX`: none.
    pub limit: u64,
    /// Allocations refused by its own limit or by an ancestor's.
    pub refused: u64,
    /// Times that threads are inside.
    pub inside: u32,
    /// Groups that have it as parent.
    pub children: u32,
    /// Caches created.
    pub caches: u32,
    /// Large blocks in use.
    pub large_blocks: u32,
}

impl Core {
    /// Creates a group. A microsecond or less; interrupts no thread.
    ///
    /// # Errors
    /// The name is refused, or there is no memory.
    pub fn create(name: &[u8], parent: Option<&Core>) -> Result<*mut Core, Refused> {
        if name.is_empty() || !is_plain(name) {
            return Err(Refused::Name);
        }
        if !enter() {
            return Err(Refused::NoMemory);
        }
        let place = Own::Group.allocate().cast::<Core>();
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
        // SAFETY: the memory is ours, and large enough.
        unsafe { place.write(core) };
        if let Some(parent) = parent {
            parent.children.fetch_add(1, Ordering::Relaxed);
        }
        register::enter(place);
        Ok(place)
    }

    /// Destroys a group: frees its memory at once, without looking at the objects. Takes time in proportion to its
    /// spans and large blocks; interrupts no thread.
    ///
    /// # Errors
    /// Threads are inside, it has children, or a signal handler interrupted a drain. The group is unchanged.
    ///
    /// # Safety
    /// The caller owns `this`, which was created. No thread uses its memory or allocates in it.
    pub unsafe fn destroy(this: *mut Core) -> Result<(), Busy> {
        enter();
        // SAFETY: passed on.
        let core = unsafe { &*this };
        match core.children.load(Ordering::Acquire) {
            0 => core.users.close().map_err(Busy::Inside)?,
            many => return Err(Busy::Children(many)),
        }
        if !register::leave(this) {
            core.users.set(0);
            return Err(Busy::Interrupting);
        }
        // SAFETY: passed on: no thread uses the caches any more.
        if core.known_table().is_some_and(|table| !unsafe { heap().end_charged(table) }) {
            register::enter(this);
            core.users.set(0);
            return Err(Busy::Interrupting);
        }
        core.release_large();
        let (table, parent) = (core.table.load(Ordering::Relaxed), Core::of_account(core.account.parent()));
        // SAFETY: no other thread can reach the group any more.
        unsafe {
            if !table.is_null() {
                Own::Table.free(table.cast());
            }
            this.drop_in_place();
            Own::Group.free(this.cast());
        }
        if let Some(parent) = parent {
            // Release pairs with the acquire in `destroy`: a parent is destroyed after its children.
            parent.children.fetch_sub(1, Ordering::Release);
        }
        Ok(())
    }

    pub(super) fn of_account(account: Option<&Account>) -> Option<&Core> {
        // SAFETY: every account is the first field of a group.
        account.map(|account| unsafe { &*(&raw const *account).cast() })
    }

    /// The group of a cache, if it has one; valid while an object of the cache is in use.
    pub(crate) fn of_cache(cache: CacheRef) -> Option<&'static Core> {
        Self::of_account(cache.account())
    }

    pub(crate) fn parent(&self) -> Option<&Core> {
        Self::of_account(self.account.parent())
    }

    /// Its name.
    pub fn name(&self) -> &str {
        core::str::from_utf8(&self.name[..self.name_bytes as usize]).unwrap_or("?")
    }

    /// Its account.
    pub fn account(&self) -> &Account {
        &self.account
    }

    /// Its statistics: exact at rest.
    pub fn statistics(&self) -> Statistics {
        // In a fork child this recounts the threads inside.
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

    /// At least `bytes` at a multiple of `alignment`, a power of two. None: no memory, or no room within the limits.
    pub fn allocate(&self, bytes: usize, alignment: usize) -> Option<*mut u8> {
        self.allocate_any(bytes, alignment).map(|run| run.start)
    }

    /// [`Self::allocate`], and the bytes are zero.
    pub(crate) fn allocate_zeroed(&self, bytes: usize, alignment: usize) -> Option<*mut u8> {
        let Run { start, is_zero } = self.allocate_any(bytes, alignment)?;
        if !is_zero {
            // SAFETY: the block is ours.
            unsafe { start.write_bytes(0, bytes) };
        }
        Some(start)
    }

    #[inline]
    fn allocate_any(&self, bytes: usize, alignment: usize) -> Option<Run> {
        let class = match alignment {
            _ if alignment <= size_class::STEP => (bytes <= size_class::LARGEST).then(|| size_class::class_for(bytes)),
            _ if alignment <= PAGE => size_class::class_for_aligned(bytes, alignment),
            _ => None,
        };
        let Some(class) = class else {
            let run = self.allocate_large(bytes, alignment)?;
            profile::draw(run.start, bytes, Caller { from: 0, group: self.name() });
            return Some(run);
        };
        self.allocate_small(class, bytes, alignment, 0).map(|start| Run { start, is_zero: false })
    }

    /// Frees what [`Self::allocate`] of any group returned.
    ///
    /// # Safety
    /// The caller owns the block.
    pub unsafe fn free(block: *mut u8) {
        enter();
        // SAFETY: passed on.
        unsafe {
            match heap().central().cache_at(block) {
                Some(cache) => heap().cpu.put(cache, block),
                None => heap().free_special(block, 0),
            }
        }
    }

    /// An object of a size class.
    #[inline]
    pub(crate) fn allocate_small(&self, class: usize, bytes: usize, alignment: usize, from: usize) -> Option<*mut u8> {
        // Acquire pairs with the release in `make_cache`.
        let word = self.known_table().map_or(0, |table| table.entry(class).load(Ordering::Acquire));
        let cache = Charged::cache_of(word);
        let object = cache.and_then(|cache| heap().cpu.take(cache).or_else(|| heap().cpu.swap(cache)));
        object.or_else(|| self.allocate_slow(class, bytes, alignment, from))
    }

    #[cold]
    fn allocate_slow(&self, class: usize, bytes: usize, alignment: usize, from: usize) -> Option<*mut u8> {
        if !enter() {
            return None;
        }
        let cache = self.cache_for(class)?;
        let run = || self.allocate_large(bytes, alignment).map(|run| run.start);
        let refill = || self.within_limits(size_class::size(class), || heap().cpu.refill(cache));
        let caller = Caller { from, group: self.name() };
        let sample =
            if profile::takes_samples() { profile::sample(cache, (bytes, alignment), caller, run) } else { None };
        sample.or_else(refill)
    }

    /// Calls `attempt`. If it fails, drains the caches of the full group, or of the process, and retries.
    pub(super) fn within_limits<R>(&self, bytes: usize, mut attempt: impl FnMut() -> Option<R>) -> Option<R> {
        if let Some(got) = attempt() {
            return Some(got);
        }
        for _ in 0..ROUNDS {
            let Some(full) = self.account.without_room(bytes) else {
                // No memory; or there was no room, and now there is.
                return attempt().or_else(|| heap().cpu.flush_and_retry(bytes, attempt));
            };
            // Objects in magazines are charged, but must cause no refusal. Others may have drained or taken them.
            let table = Self::of_account(Some(full)).and_then(Core::known_table);
            let drained = table.and_then(|table| heap().drain_charged(table));
            if let Some(got) = attempt() {
                return Some(got);
            }
            if drained.is_none_or(|magazines| magazines == 0) {
                break;
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
        let wanted = Wanted::plain(name.as_bytes(), bytes, alignment);
        // SAFETY: the caches end before the group does.
        let cache = unsafe { ObjectCache::create_for(&raw const self.account, &wanted) }?;
        let ours = cache.cache();
        // Release: a thread that sees the entry finds the cache as it was made.
        match entry.compare_exchange(0, ours.word(), Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Some(ours),
            Err(theirs) => {
                // SAFETY: no other thread has seen ours. If it cannot end here, in a handler, it has no owner.
                if unsafe { cache.destroy() }.is_err() {
                    cache.disown();
                }
                Charged::cache_of(theirs)
            }
        }
    }

    /// The table. Makes one if there is none, and links it below the parent's.
    fn table(&self) -> Option<&Charged> {
        let mut table = self.table.load(Ordering::Acquire);
        if table.is_null() {
            let made = Own::Table.allocate().cast::<Charged>();
            if made.is_null() {
                return None;
            }
            // SAFETY: the memory is ours; zeroes are an empty table.
            unsafe { made.cast::<u8>().write_bytes(0, size_of::<Charged>()) };
            // Release: a thread that sees the table sees it empty, or later.
            match self.table.compare_exchange(null_mut(), made, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => table = made,
                Err(theirs) => {
                    // SAFETY: no other thread has seen this table.
                    unsafe { Own::Table.free(made.cast()) };
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
