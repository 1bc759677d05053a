//! The tables of a profile: call sites, and sampled blocks that are live.
//!
//! A *site* is a stack of return addresses with labels. Its figures are estimates: a sampled block stands for `1/p`
//! blocks, where `p` is the probability by which one of its size is sampled. Tables never grow: what does not fit is
//! lost, and counted.
//!
//! **At the peak.** A new maximum of live bytes would have to copy the live figures of all sites. Instead, each event
//! has a number, and a site has that of its last event. Before it changes, it looks whether the last maximum came after
//! that. If so, its live figures are those of the maximum.

use crate::caches::MOST_CALLS;
use core::ops::{AddAssign, Sub};

/// Most sampled blocks that are live: at the default rate, those of 32 GiB.
pub(super) const SAMPLES: usize = 1 << 16;
/// Most call sites, and most return addresses in all of them.
const SITES: usize = 1 << 13;
const FRAMES: usize = 1 << 18;
const BUCKETS: usize = 2 * SITES;
/// Most different return addresses.
pub(super) const PLACES: usize = 1 << 16;
/// Most return addresses of a stack.
pub const DEPTH: usize = MOST_CALLS;
/// Bytes of a group's or a region's name that are kept.
pub const NAME: usize = 24;
/// Ranges of lifetimes: below 1 µs, and each four times as long as the last.
pub const LIFETIMES: usize = 16;

/// Estimated blocks and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
pub struct Figures {
    /// Blocks.
    pub blocks: f64,
    /// Bytes that their users asked for.
    pub bytes: f64,
}

impl Figures {
    /// The figures that a sampled block of so many bytes stands for, of which one in `1/probability` is sampled.
    pub fn of(bytes: usize, probability: f64) -> Self {
        Figures { blocks: 1.0 / probability, bytes: bytes as f64 / probability }
    }
}

impl AddAssign for Figures {
    fn add_assign(&mut self, other: Self) {
        self.blocks += other.blocks;
        self.bytes += other.bytes;
    }
}

impl Sub for Figures {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Figures { blocks: self.blocks - other.blocks, bytes: self.bytes - other.bytes }
    }
}

/// Labels of an allocation, beside its stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Labels {
    /// The thread's name, and zeroes behind it.
    pub thread: [u8; 16],
    /// The same for its group; zeroes: none.
    pub group: [u8; NAME],
    /// The tag of the region of code; 0: none.
    pub region: u32,
}

impl Labels {
    /// The same, and a thread's name.
    pub fn of_thread(self, thread: [u8; 16]) -> Self {
        Labels { thread, ..self }
    }

    /// A group's name, and a region.
    pub fn of(group: &str, region: u32) -> Self {
        let mut labels = Labels { region, ..Labels::default() };
        labels.group.iter_mut().zip(group.as_bytes()).for_each(|(to, &from)| *to = from);
        labels
    }
}

/// A call site. All-zero memory: unused.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Site {
    hash: u64,
    /// Next in the bucket, plus 1.
    next: u32,
    first_frame: u32,
    depth: u32,
    /// Blocks sampled.
    pub samples: u32,
    /// Labels tell it from other sites of the same stack.
    pub labels: Labels,
    /// All that was allocated.
    pub allocated: Figures,
    /// The part of it that was freed, or cannot be known to be live.
    pub freed: Figures,
    at_peak: Figures,
    /// The number of its last event.
    changed: u64,
    /// The part that was freed, by lifetime: ranges that end at `longest_of`.
    pub lifetimes: [Figures; LIFETIMES],
}

impl Site {
    /// Allocated and not freed.
    pub fn live(&self) -> Figures {
        self.allocated - self.freed
    }
}

/// A sampled block. All-zero memory: unused.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Sample {
    site: u32,
    /// The next unused one, plus 1.
    next: u32,
    stands_for: Figures,
    born_ns: u64,
}

/// Threads whose names are kept, by their identity, and for how long: a thread may change its name.
const NAMED: usize = 256;
const NAMED_NS: u64 = 10_000_000;

/// A thread's name. All-zero memory: none.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Named {
    thread: u64,
    at_ns: u64,
    name: [u8; 16],
}

/// The memory of the tables. All-zero memory is empty.
#[repr(C)]
pub(super) struct Arrays {
    names: [Named; NAMED],
    samples: [Sample; SAMPLES],
    sites: [Site; SITES],
    buckets: [u32; BUCKETS],
    /// Numbers of return addresses.
    frames: [u32; FRAMES],
    places: [usize; PLACES],
    /// Numbers of places, plus 1, by the address.
    place_buckets: [u32; 2 * PLACES],
}

/// The tables, under the profile's lock. All-zero memory: without arrays, which never leave once they are there.
#[derive(Default)]
#[repr(C)]
pub(super) struct Tables {
    pub arrays: Option<&'static mut Arrays>,
    samples: u32,
    /// The first unused sample, plus 1.
    unused: u32,
    sites: u32,
    frames: u32,
    places: u32,
    event: u64,
    peak_event: u64,
    live: f64,
    peak: f64,
    regions: Regions,
}

/// Most regions of code.
const REGIONS: usize = 255;

/// The names of regions; zeroes behind the last one.
#[repr(transparent)]
struct Regions([[u8; NAME]; REGIONS]);

impl Default for Regions {
    fn default() -> Self {
        Regions([[0; NAME]; REGIONS])
    }
}

impl Tables {
    /// The name of a thread with this identity, which `ask` tells: it takes a system call.
    pub fn name_of_thread(&mut self, thread: u64, now_ns: u64, ask: impl FnOnce() -> [u8; 16]) -> Option<[u8; 16]> {
        let named = self.arrays.as_mut()?.names.get_mut(thread as usize % NAMED)?;
        if named.thread != thread || now_ns.wrapping_sub(named.at_ns) > NAMED_NS {
            *named = Named { thread, at_ns: now_ns, name: ask() };
        }
        Some(named.name)
    }

    /// Counts an allocation at a site. None: the tables are full.
    pub fn allocated(&mut self, stack: &[usize], labels: Labels, figures: Figures) -> Option<u32> {
        let site = self.site_of(stack, labels)?;
        self.change(site, figures.bytes, |site| {
            site.allocated += figures;
            site.samples += 1;
        });
        Some(site)
    }

    /// Notes a live block of a site. None: the table is full.
    pub fn note(&mut self, site: u32, stands_for: Figures, now_ns: u64) -> Option<u32> {
        let arrays = self.arrays.as_mut()?;
        let index = self.unused.checked_sub(1).unwrap_or(self.samples);
        let sample = arrays.samples.get_mut(index as usize)?;
        match self.unused {
            0 => self.samples += 1,
            _ => self.unused = sample.next,
        }
        *sample = Sample { site, next: 0, stands_for, born_ns: now_ns };
        Some(index)
    }

    /// Counts a block as freed that is in no table, because it was not noted or cannot be.
    pub fn not_live(&mut self, site: u32, figures: Figures) {
        self.change(site, -figures.bytes, |site| site.freed += figures);
    }

    /// Forgets a sampled block, which is freed.
    pub fn forget(&mut self, index: u32, now_ns: u64) {
        let sample = self.arrays.as_mut().and_then(|arrays| arrays.samples.get_mut(index as usize));
        let Some(sample) = sample else { return };
        let Sample { site, stands_for, born_ns, .. } = *sample;
        sample.next = self.unused;
        self.unused = index + 1;
        let lifetime = lifetime_of(now_ns.saturating_sub(born_ns));
        self.change(site, -stands_for.bytes, |site| {
            site.freed += stands_for;
            site.lifetimes.iter_mut().skip(lifetime).take(1).for_each(|freed| *freed += stands_for);
        });
    }

    /// The site of a number, its stack, innermost call first, and what was live there at the peak.
    pub fn site(&self, number: u32) -> Option<(&Site, &[u32], Figures)> {
        let arrays = self.arrays.as_ref().filter(|_| number < self.sites)?;
        let site = arrays.sites.get(number as usize)?;
        Some((site, arrays.stack_of(site)?, self.at_peak(site)))
    }

    /// The return address of a number.
    pub fn place(&self, number: u32) -> Option<usize> {
        let arrays = self.arrays.as_ref().filter(|_| number < self.places)?;
        arrays.places.get(number as usize).copied()
    }

    /// The number of a region, which is noted if it is new. 0: it has no name, or there are too many.
    pub fn region(&mut self, name: [u8; NAME]) -> u32 {
        let names = &mut self.regions.0;
        let place = (1..).zip(names).find(|(_, known)| **known == name || **known == [0; NAME]);
        place.filter(|_| name != [0; NAME]).map_or(0, |(number, known)| {
            *known = name;
            number
        })
    }

    /// The name of a region.
    pub fn name_of(&self, region: u32) -> Option<[u8; NAME]> {
        self.regions.0.get(region.checked_sub(1)? as usize).copied()
    }

    fn at_peak(&self, site: &Site) -> Figures {
        if site.changed <= self.peak_event { site.live() } else { site.at_peak }
    }

    fn change(&mut self, number: u32, bytes: f64, change: impl FnOnce(&mut Site)) {
        let (event, peak_event) = (self.event + 1, self.peak_event);
        let site = self.arrays.as_mut().and_then(|arrays| arrays.sites.get_mut(number as usize));
        let Some(site) = site else { return };
        if site.changed <= peak_event {
            site.at_peak = site.live();
        }
        change(site);
        (site.changed, self.event) = (event, event);
        self.live += bytes;
        if self.live > self.peak {
            (self.peak, self.peak_event) = (self.live, event);
        }
    }

    fn site_of(&mut self, stack: &[usize], labels: Labels) -> Option<u32> {
        let stack = stack.get(..DEPTH).unwrap_or(stack);
        let (hash, arrays) = (hash_of(stack, labels), self.arrays.as_mut()?);
        let bucket = hash as usize % BUCKETS;
        let first_of_bucket = *arrays.buckets.get(bucket)?;
        let mut next = first_of_bucket;
        while let Some(number) = next.checked_sub(1) {
            let site = arrays.sites.get(number as usize)?;
            let frames = arrays.stack_of(site)?.iter();
            let is_stack = || frames.map(|&frame| arrays.places.get(frame as usize)).eq(stack.iter().map(Some));
            if site.hash == hash && site.labels == labels && is_stack() {
                return Some(number);
            }
            next = site.next;
        }
        let (number, first) = (self.sites, self.frames as usize);
        if first + stack.len() > FRAMES || number as usize >= SITES {
            return None;
        }
        for (to, &address) in (first..).zip(stack) {
            let place = arrays.number_of(address, &mut self.places)?;
            *arrays.frames.get_mut(to)? = place;
        }
        let site = arrays.sites.get_mut(number as usize)?;
        (site.hash, site.labels, site.next) = (hash, labels, first_of_bucket);
        (site.first_frame, site.depth) = (first as u32, stack.len() as u32);
        *arrays.buckets.get_mut(bucket)? = number + 1;
        self.sites += 1;
        self.frames += stack.len() as u32;
        Some(number)
    }
}

impl Arrays {
    fn stack_of(&self, site: &Site) -> Option<&[u32]> {
        self.frames.get(site.first_frame as usize..)?.get(..site.depth as usize)
    }

    /// The number of a return address, of which there are so many. None: there are too many.
    fn number_of(&mut self, address: usize, places: &mut u32) -> Option<u32> {
        let buckets = self.place_buckets.len();
        let start = crate::page_heap::guarded::mixed(address as u64) as usize % buckets;
        // At least half of the buckets are empty.
        for bucket in (start..start + buckets).map(|bucket| bucket % buckets) {
            let known = self.place_buckets.get_mut(bucket)?;
            match known.checked_sub(1) {
                Some(number) if self.places.get(number as usize) == Some(&address) => return Some(number),
                Some(_) => {}
                None => {
                    let number = *places;
                    *self.places.get_mut(number as usize)? = address;
                    *places += 1;
                    *known = number + 1;
                    return Some(number);
                }
            }
        }
        None
    }
}

/// The longest lifetime in a range, in nanoseconds; the last range has no end.
pub(super) fn longest_of(range: usize) -> u64 {
    1000 << (2 * range)
}

/// The range that a lifetime lies in.
fn lifetime_of(ns: u64) -> usize {
    let micros = ns / 1000;
    ((u64::BITS - micros.leading_zeros()).div_ceil(2) as usize).min(LIFETIMES - 1)
}

/// FNV-1a by words, spread over all bits.
fn hash_of(stack: &[usize], labels: Labels) -> u64 {
    let names = labels.thread.as_chunks::<8>().0.iter().chain(labels.group.as_chunks::<8>().0);
    let names = names.map(|&part| u64::from_ne_bytes(part)).chain([u64::from(labels.region)]);
    let words = stack.iter().map(|&frame| frame as u64).chain(names);
    crate::page_heap::guarded::mixed(
        words.fold(0xcbf2_9ce4_8422_2325, |hash, word| {
            (hash ^ word).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(23)
        }),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::boxed::Box;
    use std::vec::Vec;

    fn tables() -> Tables {
        // SAFETY: all-zero memory is empty arrays.
        let arrays = unsafe { Box::<Arrays>::new_zeroed().assume_init() };
        Tables { arrays: Some(Box::leak(arrays)), ..Tables::default() }
    }

    fn figures(bytes: f64) -> Figures {
        Figures { blocks: 1.0, bytes }
    }

    /// Planted bugs that were seen here: a site that notes its live figures after it changed; one that has not changed
    /// since the peak, and tells what it noted before.
    #[test]
    fn figures_at_the_peak_are_those_of_all_sites_at_that_moment() {
        let mut tables = tables();
        let (mut live, mut random) = (Vec::<(u32, u32, f64)>::new(), 1_u64);
        let (mut now, mut peak, mut at_peak) = ([0.0; 5], 0.0, [0.0; 5]);
        for step in 0..20_000 {
            random = crate::page_heap::guarded::mixed(random);
            let grows = random % 1000 < 505;
            if grows || live.is_empty() {
                let (place, bytes) = ((random as usize >> 20) % 5, (random >> 40 & 0xff) as f64);
                let site = tables.allocated(&[place, 7], Labels::default(), figures(bytes)).expect("there is room");
                let index = tables.note(site, figures(bytes), 0).expect("there is room");
                live.push((index, place as u32, bytes));
                now[place] += bytes;
            } else {
                let (index, place, bytes) = live.swap_remove((random >> 24) as usize % live.len());
                tables.forget(index, 5000);
                now[place as usize] -= bytes;
            }
            if now.iter().sum::<f64>() > peak {
                (peak, at_peak) = (now.iter().sum(), now);
            }
            // Often enough to see sites that have not changed since the peak.
            for (site, stack, peak) in (0..).map_while(|number| tables.site(number)).filter(|_| step % 7 == 0) {
                let place = tables.place(stack[0]).expect("it is known");
                assert_eq!((site.live().bytes, peak.bytes), (now[place], at_peak[place]), "{stack:?}");
                assert_eq!(site.lifetimes.iter().map(|freed| freed.blocks).sum::<f64>(), site.freed.blocks);
            }
        }
        assert_eq!((0..).map_while(|number| tables.site(number)).count(), 5);
    }

    #[test]
    fn sites_differ_by_stack_and_by_each_label() {
        let mut tables = tables();
        let labels = |thread: u8, group, region| Labels { thread: [thread; 16], group: [group; NAME], region };
        let keys = [
            (&[1, 2][..], labels(0, 0, 0)),
            (&[2, 1], labels(0, 0, 0)),
            (&[1], labels(0, 0, 0)),
            (&[1, 2], labels(1, 0, 0)),
            (&[1, 2], labels(0, 1, 0)),
            (&[1, 2], labels(0, 0, 1)),
        ];
        for round in 1..=3 {
            for (number, (stack, labels)) in keys.iter().enumerate() {
                assert_eq!(tables.allocated(stack, *labels, figures(8.0)), Some(number as u32));
                assert_eq!(tables.site(number as u32).expect("it is there").0.samples, round);
            }
        }
    }

    #[test]
    fn return_addresses_are_kept_once_until_there_are_too_many() {
        let mut tables = tables();
        // All in one bucket, or in few, are found as well.
        let address = |number: usize| if number.is_multiple_of(2) { number << 40 } else { number };
        let mut allocate =
            |numbers: [usize; 16]| tables.allocated(&numbers.map(address), Labels::default(), figures(1.0));
        let stacks = |number: usize| core::array::from_fn(|place| 16 * number + place);
        assert_eq!((0..).take_while(|&number| allocate(stacks(number)).is_some()).count(), PLACES / 16);
        assert!(allocate(stacks(7)).is_some() && allocate([7; 16]).is_some());
        let places = (0..).map_while(|number| tables.place(number)).collect::<Vec<_>>();
        assert_eq!(places, (0..PLACES).map(address).collect::<Vec<_>>());
    }

    #[test]
    fn full_tables_lose_what_comes_and_keep_what_they_have() {
        let mut tables = tables();
        let mut allocate = |place| tables.allocated(&[place; DEPTH], Labels::default(), figures(1.0));
        let fitting = (0..).take_while(|&place| allocate(place).is_some()).count();
        assert_eq!(fitting, (FRAMES / DEPTH).min(SITES));
        assert_eq!(allocate(3), Some(3));
        let mut note = || tables.note(0, figures(1.0), 0);
        assert_eq!((0..).take_while(|_| note().is_some()).count(), SAMPLES);
        tables.forget(77, 0);
        assert_eq!(tables.note(0, figures(1.0), 0), Some(77));
    }

    #[test]
    fn names_of_threads_are_asked_for_again_after_a_while() {
        let mut tables = tables();
        let mut ask =
            |thread, now_ns, name: u8| tables.name_of_thread(thread, now_ns, || [name; 16]).map(|name| name[0]);
        let other = 3 + NAMED as u64;
        for (thread, now_ns, name, expected) in [
            (3, 7, 1, 1),
            (3, 7 + NAMED_NS, 2, 1),
            (4, 8, 3, 3),
            (3, 8 + NAMED_NS, 2, 2),
            (other, 9, 5, 5),
            (3, 9, 6, 6),
        ] {
            assert_eq!(ask(thread, now_ns, name), Some(expected), "{thread} at {now_ns}");
        }
    }

    #[test]
    fn lifetimes_fall_into_ranges_of_four_times() {
        let ranges = [0, 999, 1000, 3999, 4000, 16_000, 1_000_000, u64::MAX].map(lifetime_of);
        assert_eq!(ranges, [0, 0, 1, 1, 2, 3, 5, LIFETIMES - 1]);
        assert!((0..LIFETIMES - 1).all(|range| {
            let longest = longest_of(range);
            lifetime_of(longest - 1) == range && lifetime_of(longest) == range + 1
        }));
    }
}
