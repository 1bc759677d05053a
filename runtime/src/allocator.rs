//! The interface that collections allocate by ([`Allocator`]), for a group and for the process's heap.
//!
//! Both are the same code on different sources of blocks. A layout without bytes gets an address without a block. The
//! heap reallocates blocks of usual alignments, in place if it can. A block with a larger alignment stays while it has
//! room, and otherwise moves.

use crate::group::{Core, Group};
use crate::{Commensal, heap};
use allocator_api2::alloc::{AllocError, Allocator};
use core::alloc::{GlobalAlloc, Layout};
use core::ptr::{NonNull, null_mut};

/// Takes blocks of one byte or more, and puts them back. Null: no memory, or no room.
trait Source {
    fn take(&self, layout: Layout) -> *mut u8;

    fn take_zeroed(&self, layout: Layout) -> *mut u8;

    /// Safety: the caller owns the block, which came from here.
    unsafe fn put(&self, block: *mut u8);
}

impl Source for Commensal {
    #[inline]
    fn take(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the layout has bytes.
        unsafe { self.alloc(layout) }
    }

    #[inline]
    fn take_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        unsafe { self.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn put(&self, block: *mut u8) {
        // SAFETY: passed on.
        unsafe { heap::free(block) }
    }
}

impl Source for Group<'_> {
    #[inline]
    fn take(&self, layout: Layout) -> *mut u8 {
        self.core().allocate(layout.size(), layout.align()).unwrap_or(null_mut())
    }

    #[inline]
    fn take_zeroed(&self, layout: Layout) -> *mut u8 {
        self.core().allocate_zeroed(layout.size(), layout.align()).unwrap_or(null_mut())
    }

    #[inline]
    unsafe fn put(&self, block: *mut u8) {
        // SAFETY: passed on.
        unsafe { Core::free(block) }
    }
}

type Block = Result<NonNull<[u8]>, AllocError>;

/// A block for the layout, or null.
fn block(start: *mut u8, layout: Layout) -> Block {
    let start = NonNull::new(start).ok_or(AllocError)?;
    Ok(NonNull::slice_from_raw_parts(start, layout.size()))
}

/// The address of a layout without bytes. Nothing is read or written there, and no block is taken or given back.
fn nothing(layout: Layout) -> Block {
    block(core::ptr::without_provenance_mut(layout.align()), layout)
}

/// A block of the new layout with the contents of the old one, which is given back. Null: it stays as it was. Both
/// layouts have bytes.
/// Safety: the caller owns the block, which came from the source with the old layout.
unsafe fn change(source: &impl Source, start: *mut u8, old: Layout, new: Layout) -> *mut u8 {
    let is_shorter = new.size() <= old.size();
    // SAFETY: passed on, for all of it. Both blocks have at least the bytes that are copied.
    unsafe {
        let changed = if new.align() <= heap::ALIGNMENT {
            // It stays in its group, whichever one the thread is inside.
            heap::reallocate(start, new.size())
        } else if stays(start, new) {
            start
        } else {
            let other = source.take(new);
            if !other.is_null() {
                other.copy_from_nonoverlapping(start, old.size().min(new.size()));
                source.put(start);
            }
            other
        };
        // So a group at its limit, or a process without memory, refuses no block that becomes shorter.
        let may_stay = changed.is_null() && is_shorter && start.addr().is_multiple_of(new.align());
        if may_stay { start } else { changed }
    }
}

/// Whether a block of a large alignment has room for the layout, and would not be half empty.
/// Safety: the caller owns the block.
unsafe fn stays(start: *mut u8, layout: Layout) -> bool {
    // SAFETY: passed on.
    let usable = unsafe { heap::usable_bytes(start) };
    let fits = layout.size() <= usable && layout.size() * 2 > usable;
    fits && start.addr().is_multiple_of(layout.align())
}

/// Safety: as for `change`.
unsafe fn resize(source: &impl Source, start: NonNull<u8>, old: Layout, new: Layout) -> Block {
    match (old.size(), new.size()) {
        (0, 0) => nothing(new),
        (0, _) => block(source.take(new), new),
        (_, 0) => {
            // SAFETY: passed on.
            unsafe { source.put(start.as_ptr()) };
            nothing(new)
        }
        // SAFETY: passed on.
        _ => block(unsafe { change(source, start.as_ptr(), old, new) }, new),
    }
}

/// A source as an allocator.
macro_rules! allocator {
    ($(#[$doc:meta])* $source:ty) => {
        $(#[$doc])*
        // SAFETY: blocks are disjoint, have the layout's size and alignment, and live until they are given back or, in
        // a group, the group is destroyed. That takes the group, or the end of its borrow: an allocator that is a group
        // owns it, and one that refers to a group borrows it. Moving either moves no block. Any block of a source may
        // be given back through any other handle of it, by any thread.
        unsafe impl Allocator for $source {
            #[inline]
            fn allocate(&self, layout: Layout) -> Block {
                if layout.size() == 0 { nothing(layout) } else { block(self.take(layout), layout) }
            }

            #[inline]
            fn allocate_zeroed(&self, layout: Layout) -> Block {
                if layout.size() == 0 { nothing(layout) } else { block(self.take_zeroed(layout), layout) }
            }

            #[inline]
            unsafe fn deallocate(&self, start: NonNull<u8>, layout: Layout) {
                if layout.size() != 0 {
                    // SAFETY: passed on.
                    unsafe { self.put(start.as_ptr()) }
                }
            }

            unsafe fn grow(&self, start: NonNull<u8>, old: Layout, new: Layout) -> Block {
                // SAFETY: passed on.
                unsafe { resize(self, start, old, new) }
            }

            unsafe fn grow_zeroed(&self, start: NonNull<u8>, old: Layout, new: Layout) -> Block {
                if old.size() == 0 {
                    return self.allocate_zeroed(new);
                }
                // SAFETY: passed on. The block is ours, and is not shorter than the old one.
                unsafe {
                    let grown = resize(self, start, old, new)?;
                    let (from, more) = (old.size(), new.size() - old.size());
                    grown.cast::<u8>().add(from).write_bytes(0, more);
                    Ok(grown)
                }
            }

            unsafe fn shrink(&self, start: NonNull<u8>, old: Layout, new: Layout) -> Block {
                // SAFETY: passed on.
                unsafe { resize(self, start, old, new) }
            }
        }
    };
}

allocator! {
    /// Blocks of the process's heap, as the global allocator takes them: in a thread that is inside a group, blocks of
    /// that group. Constant time, except for large blocks and those that move. Allowed in signal handlers and in fork
    /// children.
    Commensal
}

allocator! {
    /// Collections whose memory is a group's: maps of hashbrown, vectors and boxes of `allocator-api2`, and all others
    /// that take an allocator of that crate.
    ///
    /// ```
    /// use commensal::group::Group;
    /// use hashbrown::{DefaultHashBuilder, HashMap};
    ///
    /// let tenant = Group::new("tenant")?;
    /// tenant.set_limit(Some(64 << 10));
    /// let mut sessions = HashMap::with_hasher_in(DefaultHashBuilder::default(), &tenant);
    /// sessions.insert(7, "seven");
    /// assert!(tenant.charged() > 0);
    ///
    /// // A full group is an error, and the map stays as it is.
    /// assert!(sessions.try_reserve(100_000).is_err());
    /// assert_eq!(sessions[&7], "seven");
    /// # drop(sessions);
    /// # Ok::<(), commensal::group::Refused>(())
    /// ```
    ///
    /// **The group that is charged** is the one that the collection was made with, whichever thread allocates, and
    /// whichever group that thread is inside. Any thread may free.
    ///
    /// **A group that is full**, or a process without memory, gives an [`AllocError`]. Methods that can say so, such as
    /// `try_reserve` and `Box::try_new_in`, return it. Others, such as `push`, end the program, as they do with any
    /// allocator. A block that becomes shorter is never refused.
    ///
    /// **Lifetimes.** A collection made with `&group` borrows the group, so the compiler refuses programs in which it
    /// lives longer. The memory of a forgotten collection goes with the group. A collection that was made with the
    /// group itself owns it, and destroys it at its end.
    ///
    /// **In place.** A block that grows or shrinks stays in place if the heap can do that, as by
    /// [`heap::reallocate`]. A block that is aligned to more than 16 bytes stays while it has room.
    ///
    /// Takes constant time, except for large blocks and those that move. Signal handlers and fork children may allocate
    /// and free.
    Group<'_>
}
