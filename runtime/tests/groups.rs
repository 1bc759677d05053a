//! Groups: what their owners rely on. Runs on the simulated machine, too. Threads that meet in groups and at limits are explored
//! (`exploration/src/groups.rs`).

use commensal_runtime::group::{Core, Entry, Group, NotInside, Refused, innermost};
use commensal_runtime::heap::{self, check::check_valid, report};
use commensal_runtime::machine::test_support::play;
use std::sync::Mutex;

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Runs a program while no other test is in the heap, and looks afterwards whether the heap is whole, and holds as much as before.
fn alone<R>(program: impl FnOnce() -> R) -> R {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    play(7, || {
        // What groups themselves are made of is there from the first one on.
        drop(group("first"));
        let before = check_valid(|_| {});
        let result = program();
        assert_eq!(check_valid(|_| {}), before, "objects and blocks in use, before and after");
        result
    })
}

fn group(name: &str) -> Group<'static> {
    Group::new(name).expect("there is memory")
}

/// A block of malloc's, of whichever group the thread is in; as an address, so that it can be handed over.
fn block(bytes: usize) -> Option<usize> {
    let block = heap::allocate(bytes);
    (!block.is_null()).then(|| {
        // SAFETY: the block is ours.
        unsafe { block.write_bytes(0xa5, bytes) };
        block as usize
    })
}

fn free(block: usize) {
    // SAFETY: the block is the caller's.
    unsafe { heap::free(block as *mut u8) }
}

/// A block of a group's.
fn block_of(group: &Group<'_>, bytes: usize) -> Option<usize> {
    group.core().allocate(bytes, 16).map(|block| block as usize)
}

/// Inside a group; what is allocated there is not used after the group.
fn within<R>(group: &Group<'_>, work: impl FnOnce() -> R) -> R {
    // SAFETY: as said.
    unsafe { group.within(work) }
}

#[test]
fn values_are_charged_and_come_back() {
    alone(|| {
        let group = group("values");
        assert_eq!((group.charged(), group.peak(), group.name()), (0, 0, "values"));
        let mut one = group.alloc([1_u64; 10]).expect("there is room");
        let large = block_of(&group, 100_000).expect("there is room");
        one[3] = 4;
        assert_eq!((one[2], one[3]), (1, 4));
        let charged = group.charged();
        assert!((80 + 102_400..80 + 102_400 + 16_384).contains(&charged), "{charged} bytes");
        let statistics = group.statistics();
        assert_eq!((statistics.caches, statistics.large_blocks, statistics.limit), (1, 1, u64::MAX));
        free(large);
        assert_eq!(group.charged(), charged - 102_400);
        assert_eq!(group.peak(), charged);
        drop(one);
        // What is left lies in arrays of this slot.
        heap::trim(0);
        assert_eq!(group.charged(), 0);
    });
}

#[test]
fn names_are_looked_at() {
    alone(|| {
        assert_eq!(Group::new("").err(), Some(Refused::Name));
        assert_eq!(Group::new("two words").err(), Some(Refused::Name));
        assert_eq!(group("a/name-of_4.2-that-is-longer-than-it-may-be").name(), "a/name-of_4.2-that-is-l");
    });
}

#[test]
fn group_is_charged_only_by_threads_inside() {
    alone(|| {
        let (outer, inner) = (group("outer"), group("inner"));
        let sizes = [1, 100, 5000, 32_768, 40_000, 300_000];
        let outside: Vec<_> = sizes.iter().map(|&bytes| block(bytes).expect("there is memory")).collect();
        assert_eq!((outer.charged(), inner.charged()), (0, 0));
        let mut charges = Vec::new();
        let inside = within(&outer, || {
            let own: Vec<_> = sizes.iter().map(|&bytes| block(bytes).expect("there is memory")).collect();
            assert!(outer.charged() >= sizes.iter().sum::<usize>() as u64);
            let of_inner = within(&inner, || {
                charges.push((outer.charged(), inner.charged()));
                let block = block(64 << 20 | 1).expect("there is memory");
                charges.push((outer.charged(), inner.charged()));
                block
            });
            assert_eq!(outer.charged(), charges[0].0, "what the inner group is charged is not the outer one's");
            let more = block(300).expect("there is memory");
            assert!(outer.charged() > charges[0].0, "the outer group is entered again");
            assert_eq!((outer.statistics().inside, inner.statistics().inside), (1, 0));
            [own, vec![of_inner, more]].concat()
        });
        assert_eq!(charges[0].1, 0);
        assert_eq!(charges[1].1, (64 << 20) + 4096);
        let before = (outer.charged(), inner.charged());
        let again = block(100).expect("there is memory");
        assert_eq!((outer.charged(), inner.charged()), before, "outside again");
        inside.into_iter().chain(outside).chain([again]).for_each(free);
        heap::trim(0);
        assert_eq!((outer.charged(), inner.charged()), (0, 0), "given back from outside");
    });
}

#[test]
fn entries_may_end_in_any_order() {
    alone(|| {
        let (one, two) = (group("one"), group("two"));
        let mut entries = [Entry::new(), Entry::new(), Entry::new()];
        let [a, b, c] = entries.each_mut().map(|entry| &raw mut *entry);
        // SAFETY: the groups exist.
        let current = || unsafe { innermost().as_ref() }.map(Core::name);
        // SAFETY: the entries stay where they are; nothing is allocated.
        unsafe {
            assert_eq!(Entry::leave(a), Err(NotInside));
            assert!(Entry::enter(a, one.core()) && Entry::enter(b, two.core()) && Entry::enter(c, one.core()));
            assert_eq!(one.statistics().inside, 2);
            assert_eq!(Entry::leave(b), Ok(()));
            assert_eq!(current(), Some("one"));
            assert_eq!((one.statistics().inside, two.statistics().inside), (2, 0));
            assert_eq!(Entry::leave(b), Err(NotInside));
            assert_eq!(Entry::leave(a), Ok(()));
            assert_eq!(current(), Some("one"));
            assert_eq!(Entry::leave(c), Ok(()));
            assert_eq!(current(), None);
        }
    });
}

#[test]
fn group_limit_is_reached_and_never_passed() {
    const OBJECT: usize = 96;
    const MOST: usize = 1000;
    alone(|| {
        let group = group("limited");
        group.set_limit(Some((MOST * OBJECT) as u64));
        let fill = || (0..).map_while(|_| group.alloc([0_u8; OBJECT]).ok()).collect::<Vec<_>>();
        for round in 0..3 {
            let mut values = fill();
            assert_eq!(values.len(), MOST, "round {round}: refused too early, or too late");
            assert_eq!((group.charged(), group.peak()), ((MOST * OBJECT) as u64, (MOST * OBJECT) as u64));
            assert_eq!(group.statistics().refused, 3 * round + 1);
            values.truncate(MOST - 10);
            values.extend((0..10).map(|_| group.alloc([0; OBJECT]).expect("ten were given back")));
            assert!(group.alloc([0_u8; OBJECT]).is_err() && block_of(&group, 50_000).is_none());
            block(OBJECT).into_iter().for_each(free);
        }
        // What lies in arrays of one size is not in the way of another.
        drop(fill());
        free(block_of(&group, 90_000).expect("nothing is in use"));
        // A limit below what is charged holds from then on.
        let values = fill();
        group.set_limit(Some(500));
        assert!(group.alloc(0_u64).is_err());
        drop(values);
        assert!(group.alloc(0_u64).is_ok());
    });
}

#[test]
fn parents_are_charged_and_limit() {
    alone(|| {
        let parent = group("parent");
        let (one, two) = (parent.child("one").expect("memory"), parent.child("two").expect("memory"));
        assert_eq!(parent.statistics().children, 2);
        let value = one.alloc([0_u8; 1000]).expect("there is room");
        assert_eq!((one.charged(), two.charged()), (parent.charged(), 0));
        parent.set_limit(Some(100_000));
        two.set_limit(Some(60_000));
        let large = block_of(&two, 50_000).expect("there is room");
        assert_eq!(block_of(&two, 40_000), None, "beyond its own limit");
        assert_eq!(block_of(&one, 90_000), None, "beyond its parent's");
        assert_eq!(two.charged(), 53_248, "what was refused is not charged");
        // What lies in arrays of the one is not in the way of the other.
        let many: Vec<_> = (0..40).map(|_| one.alloc([0_u8; 1000]).expect("there is room")).collect();
        free(large);
        drop((many, value));
        let more: Vec<_> = (0..58).map(|_| two.alloc([0_u8; 1024]).expect("nothing is in use")).collect();
        drop(more);
        drop((one, two));
        assert_eq!(parent.statistics().children, 0);
        assert_eq!(parent.charged(), 0, "what the children had is given back");
    });
}

#[test]
fn reallocation_stays_in_the_group() {
    alone(|| {
        let group = group("grows");
        let mut block = group.core().allocate(10, 8).expect("there is memory");
        // SAFETY: the block is ours.
        unsafe { block.write(42) };
        for bytes in [100, 1000, 40_000, 400_000, 500_000, 80 << 20, 120_000, 33_000, 50, 20_000] {
            // SAFETY: as above.
            block = unsafe { heap::reallocate(block, bytes) };
            // SAFETY: as above.
            assert_eq!(unsafe { block.read() }, 42);
            // SAFETY: as above.
            let (charged, usable) = (group.charged(), unsafe { heap::usable_bytes(block) } as u64);
            assert!(charged >= usable && usable >= bytes as u64, "{charged} bytes are charged for {bytes}");
            assert!(charged < usable + 120_000, "{charged} bytes are charged for {usable}");
            assert!(group.peak() >= charged, "{charged} bytes are charged, and the peak is {}", group.peak());
        }
        group.set_limit(Some(100_000));
        // SAFETY: as above.
        assert!(unsafe { heap::reallocate(block, 200_000) }.is_null(), "beyond the limit");
        free(block as usize);
    });
}

#[test]
fn at_a_limit_what_shrinks_still_does() {
    alone(|| {
        let group = group("shrinks");
        group.set_limit(Some(1 << 20));
        // SAFETY: the blocks are ours.
        let shrink = |block: usize, bytes| unsafe { heap::reallocate(block as *mut u8, bytes) } as usize;
        let large = shrink(block_of(&group, 1 << 20).expect("there is room"), 1000);
        assert!(large != 0 && group.charged() < 20_000, "{} bytes are charged", group.charged());
        let blocks: Vec<_> = std::iter::from_fn(|| block_of(&group, 512)).collect();
        let small = shrink(blocks[0], 16);
        assert!(small != 0 && group.charged() <= 1 << 20);
        blocks[1..].iter().chain(&[large, small]).for_each(|&block| free(block));
        let peak = group.peak();
        group.set_limit(None);
        assert_eq!((block_of(&group, 1 << 50), group.peak()), (None, peak), "what there is no memory for is no peak");
    });
}

#[test]
fn large_block_that_shrinks_at_a_limit_leaves_the_peak_as_it_is() {
    const MIB: usize = 1 << 20;
    alone(|| {
        let group = group("shrinks");
        group.set_limit(Some(MIB as u64));
        let peak = || report::process().expect("there is a heap").peak_bytes;
        let before = peak();
        // So often that what is counted would pass any peak that other tests left.
        for _ in 0..before / MIB as u64 + 4 {
            let block = block_of(&group, MIB).expect("there is room");
            // SAFETY: the block is ours.
            free(unsafe { heap::reallocate(block as *mut u8, 1000) } as usize);
        }
        assert!(peak() <= before + MIB as u64 + 64 * 1024, "the peak rose from {before} to {}", peak());
    });
}

#[test]
fn zeroed_and_aligned_blocks_are_the_groups_too() {
    alone(|| {
        let group = group("kinds");
        within(&group, || {
            for bytes in [100, 40_000] {
                let block = heap::allocate_zeroed(bytes);
                // SAFETY: the block is ours.
                assert!(unsafe { std::slice::from_raw_parts(block, bytes) }.iter().all(|&byte| byte == 0));
                let aligned = heap::allocate_aligned(bytes, 8192);
                assert!((aligned as usize).is_multiple_of(8192));
                free(block as usize);
                free(aligned as usize);
            }
        });
        assert!(group.peak() >= 2 * 40_000, "{} bytes", group.peak());
    });
}

#[test]
fn group_with_a_million_objects_is_destroyed_at_once() {
    // Simulated machines are slower.
    let many = if cfg!(debug_assertions) { 100_000 } else { 1_000_000 };
    alone(|| {
        let group = group("bulk");
        within(&group, || {
            for number in 0..many {
                block(16 + number % 200).expect("there is memory");
            }
            assert!((0..20).all(|_| block(100_000).is_some()));
        });
        assert!(group.charged() > many as u64 * 100);
        assert!(group.destroy().is_ok());
    });
}

#[test]
fn idle_group_takes_at_most_512_bytes() {
    const MANY: usize = 100_000;
    alone(|| {
        let bytes = || report::process().map_or(0, |process| process.run_bytes + process.metadata_bytes);
        let before = bytes();
        let parent = group("parent");
        let groups: Vec<_> = (0..MANY).map(|_| parent.child("idle").expect("there is memory")).collect();
        let each = (bytes() - before) as usize / MANY;
        assert!(each <= 512, "an idle group takes {each} bytes");
        drop(groups);
    });
}
