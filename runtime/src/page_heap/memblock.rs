//! The blocks of a small process: they lie side by side in a few pages, as long as the heap has not begun.
//!
//! Most processes allocate some hundred blocks and end. A heap with a span for each size class costs them more page
//! faults than their own work. So the first blocks of a process, of all sizes, come from one area. The heap begins when
//! the area is full, when the process allocates so often that a fast path pays, or before a second thread. Then the
//! area gives nothing more; a freed block stays free.
//!
//! ```text
//!   │ guard │ bits of units │ guard │ units of 16 bytes … │ guard │
//!                                   └ at a granule; their entries of the page map stay 0
//! ```
//!
//! A unit has three bits: whether a block begins there, whether one ends there, and whether it is used. An end's bit is
//! right only in a used unit. A free that finds no beginning is misuse.
//!
//! Runs at the same time: frees, of any thread, and one allocation, of the only thread; in a signal handler above one,
//! the heap begins. Relaxed but for the allocation: no memory that another thread freed is given again. In a child that
//! forks in the middle of a change, at most one block is lost.
//!
//! Source: the kernel's memblock, which serves before the slab allocator can.

use super::guarded::{self, GUARD, Place};
use super::span::Misuse;
use super::{GRANULE, PAGE};
use crate::{misuse, settings};
use machine::sync::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, Ordering::Relaxed};
use machine::{clock, process, root, thread, vm};

/// Bytes of the blocks.
pub const BYTES: usize = 1 << 20;
const UNIT: usize = 16;
const UNITS: usize = BYTES / UNIT;
/// Of the largest block.
const MOST_BYTES: usize = BYTES / 4;
/// Of so many blocks, the slow path takes less time than a heap's page faults.
const FEW: u32 = 2048;
/// If so many further blocks are asked for within so short a time, the heap begins.
const ROUND: u32 = 256;
const HURRY_NS: u64 = 10_000 * ROUND as u64;
/// Random places lie within so many bytes of the library.
const RANGE: usize = 1 << 30;
/// Bytes of the mapping before the blocks.
const BEFORE: usize = GRANULE;

/// The part of the domain.
#[derive(Debug)]
#[repr(C)]
struct Root {
    /// The first block's address; 0: there is none yet.
    start: AtomicUsize,
    /// Whether the heap must begin with the first block.
    is_closed: AtomicBool,
}

/// With the bytes behind it, a line.
pub(crate) const ROOT_BYTES: usize = 64 - misuse::BYTES;

fn root() -> &'static Root {
    // SAFETY: these bytes are used for nothing else, aligned to 16, and zeroes are valid.
    unsafe { &*root::domain().add(settings::BYTES + misuse::BYTES).cast() }
}

/// Three bits of each of 64 units. Side by side, so that a small process writes one page of bits.
#[derive(Debug)]
#[repr(C)]
struct Bits {
    begins: AtomicU64,
    ends: AtomicU64,
    used: AtomicU64,
}

/// One of the three words.
type Which = fn(&Bits) -> &AtomicU64;

const BEGINS: Which = |bits| &bits.begins;
const ENDS: Which = |bits| &bits.ends;
const USED: Which = |bits| &bits.used;

/// The bits of the units. All-zero memory: no block.
#[derive(Debug)]
#[repr(C)]
struct Units {
    /// Pages that the kernel got back.
    released: [AtomicU64; BYTES / PAGE / 64],
    looked_at_ns: AtomicU64,
    /// Mixed into gaps.
    secret: AtomicU64,
    given: AtomicU32,
    /// Units that were ever used lie before it.
    high: AtomicU32,
    /// The next search begins here: behind the last block, or at a free unit before it.
    next: AtomicU32,
    is_busy: AtomicBool,
    bits: [Bits; UNITS / 64],
}

const UNITS_BYTES: usize = size_of::<Units>().next_multiple_of(PAGE);
const _: () = assert!(UNITS_BYTES + GUARD <= BEFORE && size_of::<Root>() <= ROOT_BYTES);

/// Whether an address lies among the blocks.
#[inline]
pub(crate) fn holds(address: *mut u8) -> bool {
    let start = root().start.load(Relaxed);
    start != 0 && (address as usize).wrapping_sub(start) < BYTES
}

/// Addresses of its granules.
pub(crate) fn granules() -> impl Iterator<Item = *mut u8> {
    start().into_iter().flat_map(|start| (0..BYTES).step_by(GRANULE).map(move |at| start.wrapping_add(at)))
}

/// The first block's address, if there are any.
fn start() -> Option<*mut u8> {
    Some(root().start.load(Relaxed) as *mut u8).filter(|start| !start.is_null())
}

/// A block of at least `bytes`. None: the heap must begin.
#[unsafe(link_section = ".text.first")]
pub(crate) fn allocate(bytes: usize) -> Option<*mut u8> {
    Some(give(bytes)?.0)
}

/// The same, zeroed.
pub(crate) fn allocate_zeroed(bytes: usize) -> Option<*mut u8> {
    let (block, used) = give(bytes)?;
    // SAFETY: the block is ours.
    unsafe { block.write_bytes(0, used.min(bytes)) };
    Some(block)
}

/// A block, and how many of its bytes were used before, from the first on.
#[unsafe(link_section = ".text.first")]
fn give(bytes: usize) -> Option<(*mut u8, usize)> {
    if bytes > MOST_BYTES || root().is_closed.load(Relaxed) || !thread::is_alone() {
        return None;
    }
    let start = start().or_else(begin)?;
    let units = units(start);
    // A handler may find it busy. Its own fork child goes on in our place. Acquire pairs with the release below: a
    // thread that the C library does not know of finds the bits of the one before it.
    if units.is_busy.swap(true, Ordering::Acquire) {
        return None;
    }
    let (length, high) = (bytes.div_ceil(UNIT).max(1), units.high.load(Relaxed));
    let taken = units.take(length);
    if let Some(unit) = taken {
        units.high.store(high.max((unit + length) as u32), Relaxed);
    }
    units.is_busy.store(false, Ordering::Release);
    taken.map(|unit| (start.wrapping_add(unit * UNIT), (high as usize).saturating_sub(unit) * UNIT))
}

/// Bytes of the block that begins at an address among the blocks; 0: none does.
#[unsafe(link_section = ".text.first")]
pub(crate) fn bytes_of(block: *mut u8) -> usize {
    let Some((units, unit)) = find(block) else { return 0 };
    if units.is_set(BEGINS, unit) { units.length(unit) * UNIT } else { 0 }
}

/// Frees the block that begins at an address among the blocks. Error: none does.
#[unsafe(link_section = ".text.first")]
pub(crate) fn free(block: *mut u8) -> Result<(), Misuse> {
    let (units, unit) = find(block).ok_or(Misuse::NotAnObject)?;
    units.put(unit)
}

/// Shortens a block, in place.
pub(crate) fn shrink(block: *mut u8, bytes: usize) {
    if let Some((units, unit)) = find(block) {
        units.shrink(unit, bytes.div_ceil(UNIT).max(1));
    }
}

/// Checks the units, and shows the bytes of each block. For tests, while no thread changes them.
pub(crate) fn check_valid(mut show: impl FnMut(usize)) {
    let Some(units) = start().map(units) else { return };
    let (mut unit, mut used) = (0, 0);
    while unit < UNITS {
        if !units.is_set(BEGINS, unit) {
            assert!(!units.is_set(USED, unit), "unit {unit} is used, and of no block");
            unit += 1;
            continue;
        }
        let length = units.length(unit);
        assert!(length > 0 && (unit..unit + length).all(|unit| units.is_set(USED, unit)), "the block at unit {unit}");
        show(length * UNIT);
        (unit, used) = (unit + length, used + length);
    }
    assert_eq!(used * UNIT, in_use(), "bytes of blocks, and of used units");
}

/// Bytes of all blocks.
pub(crate) fn in_use() -> usize {
    let used =
        |start| units(start).bits.iter().map(|bits| bits.used.load(Relaxed).count_ones() as usize).sum::<usize>();
    start().map_or(0, |start| used(start) * UNIT)
}

/// Returns pages without a block to the kernel, once the heap has begun and no block can be given. Returns their bytes.
pub(crate) fn release() -> usize {
    const IN_PAGE: usize = PAGE / UNIT;
    let Some(start) = start().filter(|_| root::is_installed()) else { return 0 };
    let units = units(start);
    let pages = (units.high.load(Relaxed) as usize).div_ceil(IN_PAGE);
    let is_free = |page: &usize| {
        let words = &units.bits[page * IN_PAGE / 64..(page + 1) * IN_PAGE / 64];
        let is_released = units.released[page / 64].load(Relaxed) >> (page % 64) & 1 == 1;
        !is_released && words.iter().all(|bits| bits.used.load(Relaxed) == 0)
    };
    let release = |&page: &usize| {
        units.released[page / 64].fetch_or(1 << (page % 64), Relaxed);
        // SAFETY: the page is ours, and no block lies there.
        unsafe { vm::decommit(start.wrapping_add(page * PAGE), PAGE) }
    };
    (0..pages).filter(is_free).filter(release).count() * PAGE
}

/// The mapping of the area. None: the process has settings, there is no address space, or a handler was faster.
#[cold]
#[unsafe(link_section = ".text.first")]
fn begin() -> Option<*mut u8> {
    if !settings::allow_no_heap() {
        root().is_closed.store(true, Relaxed);
        return None;
    }
    const ALL: usize = BEFORE + BYTES;
    let place = Place { near: root::domain() as usize, range: RANGE, turn: 0 };
    let mapping = guarded::reserve(place, ALL, GRANULE)?;
    let start = mapping.wrapping_add(BEFORE);
    // SAFETY: the mapping is fresh and ours until it is known.
    unsafe {
        let is_committed = vm::protect(units_at(start), UNITS_BYTES, vm::Access::ReadWrite)
            && vm::protect(start, BYTES, vm::Access::ReadWrite);
        if is_committed {
            units(start).secret.store(process::randomness(), Relaxed);
        }
        if !is_committed || root().start.compare_exchange(0, start as usize, Relaxed, Relaxed).is_err() {
            guarded::release(mapping, ALL);
            return None;
        }
    }
    Some(start)
}

fn units_at(start: *mut u8) -> *mut u8 {
    start.wrapping_sub(GUARD + UNITS_BYTES)
}

fn units(start: *mut u8) -> &'static Units {
    // SAFETY: the page lies before the blocks, is never unmapped, and zeroes are valid.
    unsafe { &*units_at(start).cast() }
}

/// The unit that begins at an address.
fn find(block: *mut u8) -> Option<(&'static Units, usize)> {
    let start = start()?;
    let offset = (block as usize).wrapping_sub(start as usize);
    (offset < BYTES && offset.is_multiple_of(UNIT)).then(|| (units(start), offset / UNIT))
}

impl Units {
    /// Takes free units, so many in a row.
    #[unsafe(link_section = ".text.first")]
    fn take(&self, length: usize) -> Option<usize> {
        let given = self.given.load(Relaxed);
        if given.is_multiple_of(ROUND) && given >= FEW - ROUND && self.is_hurried() && given >= FEW {
            return None;
        }
        // A gap of a unit or none, so that the distance of two blocks is not known.
        let gap = guarded::mixed(self.secret.load(Relaxed).wrapping_add(given.into())) as usize & 1;
        let next = self.next.load(Relaxed) as usize + gap;
        let first = self.find_free(next, length).or_else(|| self.find_free(0, length))?;
        self.next.store((first + length) as u32, Relaxed);
        self.given.store(given + 1, Relaxed);
        self.set(USED, first..first + length);
        self.clear(ENDS, first..first + length - 1);
        self.set(ENDS, first + length - 1..first + length);
        self.set(BEGINS, first..first + 1);
        Some(first)
    }

    /// Frees the block that begins at a unit. Error: none does.
    #[unsafe(link_section = ".text.first")]
    fn put(&self, unit: usize) -> Result<(), Misuse> {
        if self.clear(BEGINS, unit..unit + 1) == 0 {
            return Err(if self.is_set(USED, unit) { Misuse::NotAnObject } else { Misuse::DoubleFree });
        }
        // After the beginning, so that of two frees one fails; and the end stays, so that it is right until then.
        let length = self.length(unit);
        self.clear(USED, unit..unit + length);
        self.next.fetch_min(unit as u32, Relaxed);
        Ok(())
    }

    fn shrink(&self, unit: usize, length: usize) {
        let end = unit + self.length(unit);
        self.set(ENDS, unit + length - 1..unit + length);
        self.clear(USED, unit + length..end);
        self.next.fetch_min((unit + length) as u32, Relaxed);
    }

    fn is_set(&self, which: Which, unit: usize) -> bool {
        which(&self.bits[unit / 64]).load(Relaxed) >> (unit % 64) & 1 == 1
    }

    #[unsafe(link_section = ".text.first")]
    fn set(&self, which: Which, range: core::ops::Range<usize>) {
        masks(range).for_each(|(at, mask)| _ = which(&self.bits[at]).fetch_or(mask, Relaxed));
    }

    /// Clears bits. Returns whether the last one was set.
    #[unsafe(link_section = ".text.first")]
    fn clear(&self, which: Which, range: core::ops::Range<usize>) -> u64 {
        let last = range.end.wrapping_sub(1) % 64;
        let word = |(at, mask): (usize, u64)| which(&self.bits[at]).fetch_and(!mask, Relaxed);
        masks(range).map(word).last().map_or(0, |word| word >> last & 1)
    }

    /// Whether the last look at the clock was a moment ago.
    fn is_hurried(&self) -> bool {
        let now_ns = clock::coarse() * clock::COARSE_NS;
        now_ns.wrapping_sub(self.looked_at_ns.swap(now_ns, Relaxed)) < HURRY_NS
    }

    fn find_free(&self, from: usize, length: usize) -> Option<usize> {
        let (mut first, mut unit) = (from, from);
        while unit < UNITS {
            let (word, left) = (self.bits[unit / 64].used.load(Relaxed) >> (unit % 64), 64 - unit % 64);
            let free = (word.trailing_zeros() as usize).min(left);
            unit += free;
            if unit - first >= length {
                return Some(first);
            }
            if free < left {
                unit += (!(word >> free)).trailing_zeros() as usize;
                first = unit;
            }
        }
        None
    }

    /// Units of the block that begins at one.
    #[unsafe(link_section = ".text.first")]
    fn length(&self, first: usize) -> usize {
        let in_word = |at: usize| {
            let word =
                self.bits[at].ends.load(Relaxed) & if at == first / 64 { u64::MAX << (first % 64) } else { u64::MAX };
            (word != 0).then(|| at * 64 + word.trailing_zeros() as usize)
        };
        (first / 64..UNITS / 64).find_map(in_word).map_or(0, |end| end + 1 - first)
    }
}

/// The words of some units' bits, with these bits.
fn masks(range: core::ops::Range<usize>) -> impl Iterator<Item = (usize, u64)> {
    let words = if range.is_empty() { 0..0 } else { range.start / 64..range.end.div_ceil(64) };
    words.map(move |at| {
        let (from, to) = (range.start.max(at * 64) % 64, range.end.min(at * 64 + 64) - at * 64);
        (at, u64::MAX << from & u64::MAX >> (64 - to))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::boxed::Box;
    use std::collections::BTreeMap;
    use std::vec::Vec;

    fn fresh() -> Box<Units> {
        // SAFETY: zeroes are valid.
        unsafe { Box::new_zeroed().assume_init() }
    }

    /// Planted bugs that were seen here: an end that a longer block leaves inside itself; a search that skips the first
    /// unit of a word.
    #[test]
    fn blocks_lie_apart_and_know_their_lengths() {
        for seed in 0..200_u64 {
            let (units, mut random) = (fresh(), seed);
            let mut draw = |below: u64| {
                random = guarded::mixed(random);
                random % below
            };
            let mut blocks = BTreeMap::<usize, usize>::new();
            for _ in 0..1500 {
                if draw(9) == 0 && !blocks.is_empty() {
                    let (&unit, &length) = blocks.iter().nth(draw(blocks.len() as u64) as usize).expect("it is there");
                    let shorter = draw(length as u64) as usize + 1;
                    units.shrink(unit, shorter);
                    blocks.insert(unit, shorter);
                    continue;
                }
                if draw(5) < 2 && !blocks.is_empty() {
                    let (&unit, _) = blocks.iter().nth(draw(blocks.len() as u64) as usize).expect("there are so many");
                    blocks.remove(&unit);
                    assert_eq!(units.put(unit), Ok(()));
                    assert_eq!(units.put(unit), Err(Misuse::DoubleFree));
                    continue;
                }
                let length = if draw(20) == 0 { draw(4000) } else { draw(40) } as usize + 1;
                let Some(unit) = units.take(length) else { continue };
                blocks.insert(unit, length);
                if length > 1 {
                    assert_eq!(units.put(unit + length / 2), Err(Misuse::NotAnObject));
                }
            }
            let list: Vec<_> = blocks.into_iter().collect();
            assert!(list.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0), "seed {seed}");
            assert!(list.iter().all(|&(unit, length)| unit + length <= UNITS && units.length(unit) == length));
            let used: u32 = units.bits.iter().map(|bits| bits.used.load(Relaxed).count_ones()).sum();
            assert_eq!(used as usize, list.iter().map(|block| block.1).sum::<usize>(), "seed {seed}");
        }
    }

    #[test]
    fn area_is_used_up_and_used_again() {
        let units = fresh();
        let taken: Vec<_> = core::iter::from_fn(|| units.take(UNITS / 16)).collect();
        assert_eq!(taken.len(), 15, "and gaps");
        assert_eq!(units.put(taken[7]), Ok(()));
        assert!(units.take(UNITS / 16).is_some_and(|unit| unit.abs_diff(taken[7]) <= 1));
        assert_eq!(units.take(UNITS / 16), None);
    }

    /// Threads free blocks whose bits share words, and each block twice: once it fails.
    #[test]
    fn of_two_frees_at_once_one_is_found() {
        for _ in 0..50 {
            let units = fresh();
            let blocks: Vec<_> = (0..1000).map(|number| units.take(1 + number % 7).expect("there is room")).collect();
            let free = || blocks.iter().filter(|&&unit| units.put(unit).is_err()).count();
            let failed: usize = std::thread::scope(|scope| {
                let threads = [scope.spawn(free), scope.spawn(free)];
                threads.into_iter().map(|thread| thread.join().expect("it freed")).sum()
            });
            assert_eq!(failed, blocks.len());
            assert!(units.bits.iter().all(|bits| bits.used.load(Relaxed) | bits.begins.load(Relaxed) == 0));
        }
    }
}
