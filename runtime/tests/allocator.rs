//! Collections that allocate in a group or in the heap: what they hold stays, and what the group is charged is right.

mod common;

use allocator_api2::alloc::{AllocError, Allocator};
use allocator_api2::boxed;
use allocator_api2::vec;
use commensal_runtime::Commensal;
use commensal_runtime::group::Group;
use commensal_runtime::heap::{self, check};
use common::child::{act_out, alone, in_both_modes};
use common::random::Random;
use hashbrown::{DefaultHashBuilder, HashMap};
use std::alloc::Layout;
use std::collections;
use std::ptr::NonNull;
use std::thread;

type Map<'g> = HashMap<u64, boxed::Box<u64, &'g Group<'static>>, DefaultHashBuilder, &'g Group<'static>>;

fn group(name: &str) -> Group<'static> {
    Group::new(name).expect("there is memory")
}

fn map<'g>(group: &'g Group<'static>) -> Map<'g> {
    HashMap::with_hasher_in(DefaultHashBuilder::default(), group)
}

/// The objects and large blocks that a program leaves behind in the heap.
fn left_by(program: impl FnOnce()) -> (usize, usize) {
    // The first group makes what groups are made of.
    drop(group("first"));
    let before = check::check_valid(|_| {});
    program();
    let after = check::check_valid(|_| {});
    (after.objects - before.objects, after.large_blocks - before.large_blocks)
}

/// Bytes charged to a group without those in magazines.
fn charged_at_rest(group: &Group<'_>) -> u64 {
    heap::trim(0);
    group.charged()
}

/// Planted bugs that were seen here: a free that does nothing; an allocation in the thread's own group.
#[test]
fn map_in_a_group_is_charged_to_it_and_all_given_back() {
    in_both_modes(|| {
        let left = left_by(|| {
            let (tenant, other) = (group("tenant"), group("other"));
            let (mut map, mut model) = (map(&tenant), collections::HashMap::new());
            let (mut random, mut numbers) = (Random::new(1, 0), vec::Vec::new_in(&tenant));
            let work = || {
                for number in 0..20_000_u64 {
                    numbers.push(number);
                    let key = random.below(3000) as u64;
                    let removed = (number % 3 == 0).then(|| (map.remove(&key).map(|value| *value), model.remove(&key)));
                    assert!(removed.is_none_or(|(ours, theirs)| ours == theirs));
                    if number % 3 != 0 {
                        map.insert(key, boxed::Box::new_in(number, &tenant));
                        model.insert(key, number);
                    }
                }
                assert!(map.len() == model.len() && model.iter().all(|(key, value)| *map[key] == *value));
            };
            // SAFETY: what is allocated in this group is the other one's.
            unsafe { other.within(work) };
            let least = map.len() * 16 + map.allocation_size() + 8 * numbers.capacity();
            assert!(tenant.charged() >= least as u64, "{} bytes are charged for {least}", tenant.charged());
            assert_eq!(other.peak(), 0, "the group that the thread was inside was charged");
            drop((map, numbers));
            assert_eq!(charged_at_rest(&tenant), 0);
        });
        assert_eq!(left, (0, 0));
    });
}

#[test]
fn full_group_gives_errors_and_loses_nothing() {
    alone(|| {
        const LIMIT: u64 = 64 << 10;
        let left = left_by(|| {
            let tenant = group("tenant");
            tenant.set_limit(Some(LIMIT));
            let (mut numbers, mut map) = (vec::Vec::new_in(&tenant), map(&tenant));
            let (mut values, mut spare) = (0_u64, Vec::new());
            // A vector that doubles, and a map with boxes, until each of them was refused.
            let (mut refused_vector, mut refused_box, mut refused_map) = (false, false, false);
            while !(refused_vector && refused_box && refused_map) {
                match numbers.try_reserve(1) {
                    Ok(()) => numbers.push(values),
                    Err(_) => refused_vector = true,
                }
                refused_map |= map.try_reserve(1).is_err();
                match boxed::Box::try_new_in(values, &tenant) {
                    Ok(value) if map.len() < map.capacity() => _ = map.insert(values, value),
                    Ok(value) => spare.push(value),
                    Err(AllocError) => refused_box = true,
                }
                values += 1;
                assert!(tenant.peak() <= LIMIT, "{} bytes were charged", tenant.peak());
            }
            assert!(tenant.statistics().refused >= 3);
            assert!(numbers.iter().zip(0..).all(|(&number, expected)| number == expected));
            assert!(map.iter().all(|(key, value)| *key == **value) && map.len() > 100);
            // What becomes shorter is not refused.
            numbers.truncate(numbers.len() / 3);
            numbers.shrink_to_fit();
            assert!(numbers.iter().zip(0..).all(|(&number, expected)| number == expected));
            drop((map, spare));
            numbers.try_reserve(2000).expect("there is room again");
        });
        assert_eq!(left, (0, 0));
    });
}

/// A block, what it was asked for with, and a byte that fills it.
struct Block {
    start: NonNull<u8>,
    layout: Layout,
    fill: u8,
}

impl Block {
    fn of(block: NonNull<[u8]>, layout: Layout, fill: u8) -> Self {
        let start = block.cast::<u8>();
        assert!(start.addr().get().is_multiple_of(layout.align()), "{start:p} for {layout:?}");
        assert!(block.len() >= layout.size(), "{} bytes for {layout:?}", block.len());
        Block { start, layout, fill }
    }

    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: the block is ours.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.layout.size()) }
    }

    fn is_filled(&mut self, bytes: usize) -> bool {
        let fill = self.fill;
        self.bytes()[..bytes].iter().all(|&byte| byte == fill)
    }
}

/// A layout of any size up to some hundred kilobytes, also of none, and of any alignment up to four pages.
fn layout(random: &mut Random) -> Layout {
    let size = match random.below(8) {
        0 => 0,
        1 => random.below(400_000),
        2 | 3 => random.below(40_000),
        _ => random.below(2000),
    };
    let alignment = if random.once_in(3) { 1 << random.below(15) } else { 1 << random.below(5) };
    Layout::from_size_align(size, alignment).expect("it is a layout")
}

/// Calls all methods of an allocator, and looks at every byte. Layouts of no bytes and large alignments are among them.
fn call_all_methods(allocator: &impl Allocator, random: &mut Random) {
    let mut blocks: Vec<Block> = Vec::new();
    for step in 0..6000 {
        let (wanted, fill) = (layout(random), step as u8);
        let at = random.below(blocks.len().max(1));
        let (wanted_zeroes, old) = (random.once_in(2), blocks.get(at).map(|block| block.layout));
        match (random.below(5), old) {
            (0 | 1, _) if blocks.len() < 60 => {
                let made = if wanted_zeroes { allocator.allocate_zeroed(wanted) } else { allocator.allocate(wanted) };
                let mut block = Block::of(made.expect("there is memory"), wanted, 0);
                assert!(!wanted_zeroes || block.is_filled(wanted.size()), "{wanted:?} is not zeroed");
                block.fill = fill;
                block.bytes().fill(fill);
                blocks.push(block);
            }
            (2 | 3, Some(old)) => {
                let Block { start, fill, .. } = blocks.swap_remove(at);
                let (common, is_longer) = (old.size().min(wanted.size()), wanted.size() >= old.size());
                // SAFETY: the block is ours, and the new layout is not shorter, or not longer.
                let made = unsafe {
                    match is_longer {
                        true if wanted_zeroes => allocator.grow_zeroed(start, old, wanted),
                        true => allocator.grow(start, old, wanted),
                        false => allocator.shrink(start, old, wanted),
                    }
                };
                let mut block = Block::of(made.expect("there is memory"), wanted, fill);
                assert!(block.is_filled(common), "{old:?} lost its contents when it became {wanted:?}");
                let is_zero = !(is_longer && wanted_zeroes) || block.bytes()[common..].iter().all(|&byte| byte == 0);
                assert!(is_zero, "the rest of {old:?} is not zero in {wanted:?}");
                block.bytes().fill(fill);
                blocks.push(block);
            }
            (4, Some(_)) => end(allocator, blocks.swap_remove(at)),
            _ => {}
        }
    }
    blocks.into_iter().for_each(|block| end(allocator, block));
}

fn end(allocator: &impl Allocator, mut block: Block) {
    assert!(block.is_filled(block.layout.size()), "{:?} was changed", block.layout);
    // SAFETY: the block is ours.
    unsafe { allocator.deallocate(block.start, block.layout) };
}

/// Planted bugs that were seen here: a block that stays though it is not aligned; zeroes that begin too late.
#[test]
fn blocks_keep_their_contents_and_alignment_in_all_methods() {
    act_out(0.0, |seed, _| {
        let left = left_by(|| {
            let tenant = group("tenant");
            call_all_methods(&&tenant, &mut Random::new(seed, 1));
            assert_eq!(charged_at_rest(&tenant), 0);
            call_all_methods(&Commensal, &mut Random::new(seed, 2));
            assert_eq!(tenant.charged(), 0);
        });
        assert_eq!(left, (0, 0));
    });
}

/// Planted bug that was seen here: a free of a layout without bytes.
#[test]
fn layouts_without_bytes_take_no_block() {
    alone(|| {
        let tenant = group("tenant");
        let (nothing, something) = (Layout::from_size_align(0, 64).unwrap(), Layout::new::<[u64; 4]>());
        let empty = tenant.allocate(nothing).expect("it needs no memory");
        assert!(empty.cast::<u8>().addr().get().is_multiple_of(64) && empty.is_empty());
        let mut units = vec::Vec::new_in(&tenant);
        units.extend([(); 1000]);
        assert_eq!((tenant.charged(), tenant.statistics().caches, units.len()), (0, 0, 1000));
        // SAFETY: the blocks are ours.
        unsafe {
            let grown = tenant.grow_zeroed(empty.cast(), nothing, something).expect("there is memory");
            assert_eq!(grown.cast::<[u64; 4]>().read(), [0; 4]);
            assert!(tenant.charged() >= 32);
            let shrunk = tenant.shrink(grown.cast(), something, nothing).expect("there is always memory");
            assert_eq!(charged_at_rest(&tenant), 0);
            tenant.deallocate(shrunk.cast(), nothing);
        }
        assert_eq!(left_by(|| drop(boxed::Box::new_in((), &tenant))), (0, 0));
    });
}

#[test]
fn block_that_the_heap_can_resize_in_place_stays() {
    alone(|| {
        let tenant = group("tenant");
        let layout = |size, alignment| Layout::from_size_align(size, alignment).unwrap();
        // Within its class; a run of pages; one that has room and a large alignment.
        for (from, to, alignment) in [(33, 48, 8), (400_000, 200_000, 8), (200, 256, 128)] {
            let start = tenant.allocate(layout(from, alignment)).expect("there is memory").cast::<u8>();
            let (old, new) = (layout(from, alignment), layout(to, alignment));
            // SAFETY: the block is ours.
            let moved =
                unsafe { if to > from { tenant.grow(start, old, new) } else { tenant.shrink(start, old, new) } };
            let moved = moved.expect("there is memory").cast();
            assert_eq!(moved, start, "{old:?} moved to become {new:?}");
            // SAFETY: as above.
            unsafe { tenant.deallocate(moved, new) };
        }
    });
}

#[test]
fn collections_are_freed_by_other_threads() {
    in_both_modes(|| {
        let left = left_by(|| {
            let tenant = group("tenant");
            let make = |thread: u64| {
                let mut map = map(&tenant);
                map.extend((0..3000).map(|key| (key, boxed::Box::new_in(key * thread, &tenant))));
                map
            };
            let maps: Vec<_> = thread::scope(|scope| {
                let makers: Vec<_> = (0..3).map(|thread| scope.spawn(move || make(thread))).collect();
                makers.into_iter().map(|maker| maker.join().expect("no panic")).collect()
            });
            assert!(tenant.charged() >= 3 * 3000 * 16);
            // Joined: a thread that is still ending may keep a magazine in fallback mode.
            thread::scope(|scope| {
                let check = |(map, thread): (Map<'_>, u64)| map.iter().all(|(key, value)| **value == key * thread);
                let users: Vec<_> = maps.into_iter().zip(0..).map(|map| scope.spawn(move || check(map))).collect();
                assert!(users.into_iter().all(|user| user.join().expect("no panic")));
            });
            assert_eq!(charged_at_rest(&tenant), 0);
        });
        assert_eq!(left, (0, 0));
    });
}

#[test]
fn forgotten_collection_goes_with_its_group() {
    alone(|| {
        let left = left_by(|| {
            let tenant = group("tenant");
            let mut map = map(&tenant);
            map.extend((0..30_000).map(|key| (key, boxed::Box::new_in(key, &tenant))));
            std::mem::forget(map);
        });
        assert_eq!(left, (0, 0));
    });
}

#[test]
fn collection_that_owns_its_group_destroys_it() {
    alone(|| {
        let left = left_by(|| {
            let mut numbers = vec::Vec::new_in(group("owned"));
            numbers.extend(0..30_000);
            assert!(numbers.allocator().charged() >= 120_000);
            let numbers = thread::spawn(|| numbers).join().expect("no panic");
            assert!(numbers.iter().zip(0..).all(|(&number, expected)| number == expected));
        });
        assert_eq!(left, (0, 0));
    });
}

#[test]
fn heaps_own_blocks_are_charged_to_the_group_that_the_thread_is_inside() {
    alone(|| {
        let tenant = group("tenant");
        let make = || {
            let mut numbers = vec::Vec::new_in(Commensal);
            numbers.extend(0..10_000_u32);
            numbers
        };
        let (outside, before) = (make(), tenant.charged());
        // SAFETY: dropped before the group.
        let mut inside = unsafe { tenant.within(make) };
        assert!(before == 0 && tenant.charged() >= 40_000, "{} bytes are charged", tenant.charged());
        // A block stays in its group when it grows.
        inside.extend(0..100_000);
        assert!(tenant.charged() >= 440_000, "{} bytes are charged", tenant.charged());
        drop((inside, outside));
        assert_eq!(charged_at_rest(&tenant), 0);
    });
}
