//! Simulated processes' address space: a terabyte of the real one, assigned from the lowest address on, reproducibly.
//! Mappings are real, so programs read and write them plainly, accesses to missing pages kill, and forks copy.

use crate::syscall::{self, Errno};
use crate::vm::{MAP_FIXED_NOREPLACE, MREMAP_DONTUNMAP, MREMAP_FIXED, MREMAP_MAYMOVE, PAGE, PROT_NONE};
use core::cell::Cell;
use core::ops::Range;

/// Start of the space if it is free there: addresses are the same in each run. Not a multiple of the page map's window,
/// which a heap keeps off.
const START: usize = 0x1000_4000_0000;
const BYTES: usize = 1 << 40;
const MAP_PRIVATE: usize = 2;
const MAP_FIXED: usize = 0x10;
const MAP_ANONYMOUS: usize = 0x20;
const MAP_NORESERVE: usize = 0x4000;
pub const OUT_OF_MEMORY: Errno = Errno(12);
const EXISTS: Errno = Errno(17);

/// A mapping: half-open, with a number for people.
#[derive(Clone, Copy, Debug)]
struct Mapping {
    start: usize,
    end: usize,
    number: u32,
}

pub struct Space {
    start: usize,
    /// In the order of addresses.
    mappings: Vec<Mapping>,
    mapped: u32,
    /// Names addresses of the body's subject.
    pub namer: Option<Box<dyn Fn(usize) -> Option<String>>>,
}

thread_local! {
    /// The space of the last simulation on this host thread, for the next one.
    static KEPT: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Reserves addresses without access.
fn close(at: usize, bytes: usize, flags: usize) -> Option<usize> {
    let flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | flags;
    // SAFETY: only fresh addresses, or those of a space that is ours.
    unsafe { syscall::on_host(syscall::MMAP, [at, bytes, PROT_NONE, flags, usize::MAX, 0]) }.ok()
}

impl Space {
    pub fn new() -> Self {
        let mut starts = (0..64).map(|number| START + number * BYTES);
        let start =
            KEPT.take().or_else(|| starts.find(|&start| close(start, BYTES, MAP_FIXED_NOREPLACE) == Some(start)));
        let start = start.expect("a terabyte of address space for the simulated process");
        Space { start, mappings: Vec::new(), mapped: 0, namer: None }
    }

    pub fn range(&self) -> Range<usize> {
        self.start..self.start + BYTES
    }

    /// An address as in each run; none: outside this space.
    pub fn offset(&self, at: usize) -> Option<usize> {
        at.checked_sub(self.start).filter(|&offset| offset < BYTES)
    }

    pub fn name(&self, at: usize) -> String {
        self.known(at).unwrap_or_else(|| format!("{at:#x}"))
    }

    /// The name of an address: of the subject, in a mapping, or in the process's state.
    pub fn known(&self, at: usize) -> Option<String> {
        if let Some(name) = self.namer.as_ref().and_then(|namer| namer(at)) {
            return Some(name);
        }
        if let Some(mapping) = self.mappings.iter().find(|mapping| (mapping.start..mapping.end).contains(&at)) {
            return Some(format!("m{}+{:#x}", mapping.number, at - mapping.start));
        }
        super::state::name(at)
    }

    /// The index of the first mapping that ends behind an address.
    fn first_behind(&self, at: usize) -> usize {
        self.mappings.partition_point(|mapping| mapping.end <= at)
    }

    fn is_free(&self, at: usize, bytes: usize) -> bool {
        let fits = at >= self.start && bytes <= BYTES && at + bytes <= self.start + BYTES;
        let next = self.mappings.get(self.first_behind(at));
        fits && next.is_none_or(|mapping| mapping.start >= at + bytes)
    }

    /// The lowest place with enough space.
    fn find(&self, bytes: usize) -> Option<usize> {
        let ends = std::iter::once(self.start).chain(self.mappings.iter().map(|mapping| mapping.end));
        ends.into_iter().find(|&at| self.is_free(at, bytes))
    }

    fn add(&mut self, start: usize, bytes: usize) {
        let at = self.first_behind(start);
        self.mapped += 1;
        self.mappings.insert(at, Mapping { start, end: start + bytes, number: self.mapped });
    }

    /// Cuts a range out of the mappings.
    fn cut(&mut self, start: usize, end: usize) {
        let mut at = self.first_behind(start);
        while let Some(&mapping) = self.mappings.get(at).filter(|mapping| mapping.start < end) {
            self.mappings.remove(at);
            if mapping.start < start {
                self.mappings.insert(at, Mapping { end: start, ..mapping });
                at += 1;
            }
            if mapping.end > end {
                self.mappings.insert(at, Mapping { start: end, ..mapping });
                at += 1;
            }
        }
    }

    pub fn map(&mut self, [at, bytes, protection, flags, ..]: [usize; 6]) -> Result<usize, Errno> {
        let at = match (at, flags & MAP_FIXED_NOREPLACE) {
            (_, 0) => self.find(bytes).ok_or(OUT_OF_MEMORY)?,
            (at, _) if self.is_free(at, bytes) => at,
            _ => return Err(EXISTS),
        };
        let flags = flags & !MAP_FIXED_NOREPLACE | MAP_FIXED;
        // SAFETY: the range is ours, and free in the simulated process.
        unsafe { syscall::on_host(syscall::MMAP, [at, bytes, protection, flags, usize::MAX, 0]) }?;
        self.add(at, bytes);
        Ok(at)
    }

    pub fn unmap(&mut self, at: usize, bytes: usize) -> Result<usize, Errno> {
        close(at, bytes, MAP_FIXED).ok_or(OUT_OF_MEMORY)?;
        self.cut(at, at + bytes);
        Ok(0)
    }

    pub fn remap(&mut self, [from, old, new, flags, to, _]: [usize; 6]) -> Result<usize, Errno> {
        if flags & MREMAP_MAYMOVE == 0 {
            return self.resize(from, old, new);
        }
        let to = if flags & MREMAP_FIXED == 0 { self.find(new).ok_or(OUT_OF_MEMORY)? } else { to };
        // SAFETY: both ranges belong to the simulated process, or are free.
        unsafe { syscall::on_host(syscall::MREMAP, [from, old, new, flags | MREMAP_FIXED, to, 0]) }?;
        self.cut(to, to + new);
        self.add(to, new);
        if flags & MREMAP_DONTUNMAP == 0 {
            self.unmap(from, old)?;
        }
        Ok(to)
    }

    fn resize(&mut self, at: usize, old: usize, new: usize) -> Result<usize, Errno> {
        if new <= old {
            return if new < old { self.unmap(at + new, old - new).map(|_| at) } else { Ok(at) };
        }
        if !self.is_free(at + old, new - old) {
            return Err(OUT_OF_MEMORY);
        }
        // SAFETY: these addresses are free; the real mapping can only grow into a hole.
        unsafe { syscall::on_host(syscall::MUNMAP, [at + old, new - old, 0, 0, 0, 0]) }?;
        // SAFETY: the mapping belongs to the simulated process.
        let grown = unsafe { syscall::on_host(syscall::MREMAP, [at, old, new, 0, 0, 0]) };
        if grown.is_err() {
            close(at + old, new - old, MAP_FIXED).ok_or(OUT_OF_MEMORY)?;
            return grown;
        }
        self.cut(at, at + old);
        self.add(at, new);
        Ok(at)
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        let last = self.mappings.last().map_or(self.start, |mapping| mapping.end);
        let bytes = (last - self.start).next_multiple_of(PAGE);
        if bytes == 0 || close(self.start, bytes, MAP_FIXED).is_some() {
            KEPT.set(Some(self.start));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_of_mappings_and_follow_them() {
        const READ_WRITE: usize = 3;
        let flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
        let mut space = Space::new();
        let at = space.map([0, 4 * PAGE, READ_WRITE, flags, usize::MAX, 0]).expect("there is room");
        assert_eq!(space.name(at + 24), "m1+0x18");
        space.unmap(at + PAGE, PAGE).expect("it is mapped");
        assert_eq!(space.name(at + 2 * PAGE), "m1+0x0");
        assert_eq!(space.known(1), None);
    }
}
