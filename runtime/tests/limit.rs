//! The limits of the process on this computer: exactness, the order of giving back and refusing, the program's
//! function, forks, and the control group. Each case plays in a process of its own. Threads that race for the last pages
//! are also explored (`exploration/src/limits.rs`).

mod common;

use commensal::group::Group;
use commensal::heap::limit::{Limit, notify, report, set};
use commensal::heap::{self, PAGE};
use commensal::machine::process;
use commensal::upkeep::{self, Report};
use common::PATIENCE;
use common::child::{self, in_both_modes, with_settings};
use common::forks::{FINE, Way, wait_for};
use common::peak::{Blocks, MIB, comes};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Barrier, Mutex};
use std::{fs, thread};

/// A block as an address, so that threads can hand it over; it is not written.
fn take(bytes: usize) -> Option<usize> {
    let block = heap::allocate(bytes);
    (!block.is_null()).then_some(block as usize)
}

fn free(block: usize) {
    // SAFETY: the block is the caller's.
    unsafe { heap::free(block as *mut u8) }
}

/// Sets a hard limit of so many bytes beyond what is held.
fn leave(room: usize) -> u64 {
    free(take(100).expect("there is memory"));
    heap::trim(0);
    let most = report().held + room as u64;
    assert!(set(Limit::Hard, Some(most)));
    most
}

/// Planted bugs that were seen here: blocks with mappings that do not count; a run that counts after it was refused.
#[test]
fn hard_limit_gives_exactly_its_pages_in_blocks_of_all_kinds() {
    in_both_modes(|| {
        const ROOM: usize = 200 * MIB;
        let most = leave(ROOM);
        // Larger than the classes of middle sizes, whose spans count whole.
        for bytes in [5 * MIB, 10 * MIB, 65 * MIB] {
            let all: Vec<_> = std::iter::from_fn(|| take(bytes)).collect();
            assert_eq!(all.len(), ROOM / bytes, "blocks of {bytes} bytes");
            assert!(report().held <= most && take(bytes).is_none());
            all.into_iter().for_each(free);
        }
        let aligned = heap::allocate_aligned(100 * MIB, 8 * MIB);
        assert!(!aligned.is_null() && heap::allocate_aligned(101 * MIB, 8 * MIB).is_null());
        free(aligned as usize);
        let group = Group::new("inside").expect("there is memory");
        let of_group = group.core().allocate(150 * MIB, 16).expect("there is room");
        assert!(group.core().allocate(50 * MIB, 16).is_none(), "a group's note takes a page");
        // SAFETY: the block is ours.
        unsafe { commensal::group::Core::free(of_group) };
        assert!(report().refused >= 6, "{:?}", report());
        assert_eq!(report().limit, Some(most));
    });
}

#[test]
fn small_objects_stop_within_a_span_of_the_hard_limit() {
    in_both_modes(|| {
        const ROOM: usize = 8 * MIB;
        let most = leave(ROOM);
        for bytes in [64, 1000, 20_000] {
            let mut all: Vec<usize> = std::iter::from_fn(|| take(bytes)).collect();
            let left = most - report().held;
            assert!(left < 128 << 10, "{left} bytes are left for objects of {bytes}");
            // Errno says why, and a freed object can be taken again at once.
            assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(libc::ENOMEM));
            free(all.pop().expect("some"));
            all.push(take(bytes).expect("one was freed"));
            all.into_iter().for_each(free);
        }
    });
}

#[test]
fn realloc_within_and_beyond_the_hard_limit_keeps_the_contents() {
    in_both_modes(|| {
        const ROOM: usize = 200 * MIB;
        for first in [2 * MIB, 66 * MIB] {
            let most = leave(ROOM);
            let block = heap::allocate(first);
            // SAFETY: the block is ours, here and below.
            unsafe {
                block.write(7);
                // What is moved is held twice for a moment.
                let block = heap::reallocate(block, 90 * MIB);
                assert!(!block.is_null() && block.read() == 7, "from {first}");
                assert!(heap::reallocate(block, 201 * MIB).is_null() && block.read() == 7);
                assert!(report().held <= most);
                let block = heap::reallocate(block, first);
                assert_eq!(block.read(), 7);
                free(block as usize);
            }
        }
    });
}

/// Planted bugs that were seen here: a refusal before caches are drained; one before dirty pages go back.
#[test]
fn memory_that_is_not_in_use_goes_back_before_a_refusal() {
    with_settings("upkeep:off", &child::MODES, || {
        common::have_threads();
        leave(64 * MIB);
        // Other threads' magazines and depots, and dirty runs, hold nearly all of it.
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    Blocks::of(6 * MIB, &[64, 1000, 20_000]).free();
                    Blocks::of(9 * MIB, &[90_000]).free();
                });
            }
        });
        assert!(report().held > 8 * MIB as u64, "nothing is cached: {:?}", report());
        free(take(64 * MIB).expect("nothing else is in use"));
        assert_eq!(report().refused, 0);
    });
}

/// Threads race for the last pages again and again. Together they never hold more, and nothing is lost.
#[test]
fn racing_threads_never_pass_the_hard_limit() {
    in_both_modes(|| {
        const THREADS: usize = 4;
        const BLOCK: usize = 5 * MIB + 3 * PAGE;
        const MOST: usize = 50;
        let most = leave(MOST * BLOCK);
        let (all, start) = (AtomicUsize::new(0), Barrier::new(THREADS));
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    for _ in 0..100 {
                        start.wait();
                        let own: Vec<_> = std::iter::from_fn(|| take(BLOCK)).collect();
                        let together = all.fetch_add(own.len(), Ordering::SeqCst) + own.len();
                        assert!(together <= MOST, "{together} blocks of {MOST}");
                        assert!(report().held <= most);
                        start.wait();
                        assert_eq!(all.load(Ordering::SeqCst), MOST, "the last that was refused was refused too early");
                        start.wait();
                        all.fetch_sub(own.len(), Ordering::SeqCst);
                        own.into_iter().for_each(free);
                    }
                });
            }
        });
        assert_eq!(std::iter::from_fn(|| take(BLOCK)).count(), MOST);
    });
}

static CALLS: Mutex<Vec<(Limit, usize)>> = Mutex::new(Vec::new());

extern "C" fn note(limit: Limit, data: usize) {
    CALLS.lock().expect("no panic").push((limit, data));
    // It may allocate.
    [100, MIB].into_iter().filter_map(take).for_each(free);
}

fn calls() -> Vec<(Limit, usize)> {
    std::mem::take(&mut CALLS.lock().expect("no panic"))
}

/// Planted bug that was seen here: a call for each refusal.
#[test]
fn function_is_called_once_each_time_that_a_limit_is_reached() {
    with_settings("limit:100,limit.soft:50,upkeep.shepherd:off", &child::MODES, || {
        assert_eq!((report().limit, report().soft_limit), (Some(100 << 20), Some(50 << 20)));
        assert!(notify(Some((note, 42))));
        let mut all = Vec::new();
        let mut fill = |most: usize| {
            while all.len() < most
                && let Some(block) = take(MIB)
            {
                all.push(block);
            }
            all.len()
        };
        assert_eq!(fill(45), 45);
        assert_eq!(calls(), []);
        fill(60);
        assert_eq!(calls(), [(Limit::Soft, 42)]);
        let held = fill(usize::MAX);
        assert_eq!(calls(), [(Limit::Hard, 42)]);
        assert!((95..=100).contains(&held), "{held} MiB");
        assert!((0..10).all(|_| take(10 * MIB).is_none()));
        assert_eq!(calls(), []);
        let Some(last) = all.pop() else { return };
        free(last);
        assert!(take(10 * MIB).is_none());
        assert_eq!(calls(), [], "a MiB below is not enough");
        all.drain(30..).for_each(free);
        let mut more: Vec<_> = std::iter::from_fn(|| take(MIB)).collect();
        assert_eq!(calls(), [(Limit::Soft, 42), (Limit::Hard, 42)]);
        let seen = report();
        assert_eq!((seen.reached, seen.soft_reached), (2, 2), "{seen:?}");
        assert!(notify(None));
        more.drain(10..).chain(all.drain(10..)).for_each(free);
        more.extend(std::iter::from_fn(|| take(MIB)));
        assert_eq!((calls().len(), report().reached), (0, 3));
    });
}

static DEPTH: AtomicU32 = AtomicU32::new(0);

extern "C" fn reach_hard(limit: Limit, _: usize) {
    assert_eq!(DEPTH.fetch_add(1, Ordering::Relaxed), 0, "a call from within a call");
    CALLS.lock().expect("no panic").push((limit, 0));
    assert!(take(200 * MIB).is_none());
    DEPTH.fetch_sub(1, Ordering::Relaxed);
}

/// Planted bug that was seen here: a call from within the call.
#[test]
fn function_that_reaches_the_other_limit_is_called_again_after_its_return() {
    with_settings("limit:100,limit.soft:20,upkeep.shepherd:off", &child::MODES, || {
        assert!(notify(Some((reach_hard, 0))));
        let block = take(30 * MIB).expect("there is room");
        free(take(5 * MIB).expect("there is room"));
        free(take(5 * MIB).expect("there is room"));
        assert_eq!(calls(), [(Limit::Soft, 0), (Limit::Hard, 0)]);
        free(block);
    });
}

static SPARE: AtomicUsize = AtomicUsize::new(0);

extern "C" fn give_spare(limit: Limit, _: usize) {
    let spare = SPARE.swap(0, Ordering::Relaxed);
    if limit == Limit::Hard && spare != 0 {
        free(spare);
    }
}

#[test]
fn allocation_succeeds_with_memory_that_the_function_frees() {
    in_both_modes(|| {
        leave(20 * MIB);
        SPARE.store(take(15 * MIB).expect("there is room"), Ordering::Relaxed);
        assert!(notify(Some((give_spare, 0))));
        let block = take(12 * MIB).expect("the function freed as much");
        assert_eq!((report().refused, SPARE.load(Ordering::Relaxed)), (1, 0));
        assert!(take(12 * MIB).is_none(), "there is nothing more to free");
        free(block);
    });
}

/// Above the soft limit, memory goes back once in a step of growth, however many allocations come.
///
/// Planted bug that was seen here: relief at each allocation above the limit.
#[test]
fn relief_above_the_soft_limit_comes_once_in_a_step() {
    with_settings("limit.soft:64,upkeep:off,keep:1000", &child::MODES, || {
        let stays = Blocks::of(40 * MIB, &[100_000]);
        Blocks::of(22 * MIB, &[90_000]).free();
        assert_eq!(report().reliefs, 0);
        // Dirty memory suffices: the limit is not reached.
        let more = Blocks::of(20 * MIB, &[36_864]);
        let seen = report();
        assert!(seen.held <= 68 * MIB as u64 && seen.soft_reached == 0, "{seen:?}");
        // Everything is in use now.
        let before = report().reliefs;
        let last = Blocks::of(36 * MIB, &[36_864]);
        let (seen, step) = (report(), 4);
        let reliefs = seen.reliefs - before;
        assert!((1..=36 / step + 1).contains(&reliefs) && seen.soft_reached == 1, "{reliefs} reliefs: {seen:?}");
        [stays, more, last].into_iter().for_each(Blocks::free);
    });
}

#[test]
fn fork_child_has_the_same_limit_for_itself() {
    with_settings("limit:64", &child::MODES, || {
        common::have_threads();
        let own = take(30 * MIB).expect("there is room");
        for way in Way::ALL {
            let child = way.fork_and(|| {
                // The parent's block is held in the child, too, until it is freed there.
                let is_refused = take(40 * MIB).is_none();
                free(own);
                let fits = take(60 * MIB).is_some();
                if is_refused && fits && report().limit == Some(64 << 20) { Ok(()) } else { Err(3) }
            });
            assert_eq!(wait_for(child, PATIENCE), Some(FINE), "{way:?}");
        }
        free(take(30 * MIB).expect("the children's memory is not held here"));
        free(own);
    });
}

static HANDLED: AtomicU32 = AtomicU32::new(0);

extern "C" fn refuse_in_handler(_: libc::c_int) {
    assert!(take(100 * MIB).is_none());
    HANDLED.store(1 + CALLS.lock().map_or(100, |calls| calls.len() as u32), Ordering::Relaxed);
}

#[test]
fn function_is_not_called_in_a_signal_handler() {
    with_settings("limit:64,upkeep.shepherd:off", &[None], || {
        assert!(notify(Some((note, 1))));
        free(take(100).expect("there is room"));
        // SAFETY: the handler does what a handler may, but for the lock, which nobody else holds.
        unsafe {
            libc::signal(libc::SIGUSR1, refuse_in_handler as extern "C" fn(libc::c_int) as libc::sighandler_t);
            libc::raise(libc::SIGUSR1);
        }
        assert_eq!(HANDLED.load(Ordering::Relaxed), 1, "no call in the handler");
        thread::sleep(std::time::Duration::from_millis(5));
        // Outside of it, at a next slow path.
        free(take(MIB).expect("there is room"));
        assert_eq!(calls(), [(Limit::Hard, 1)]);
    });
}

/// The file as the kernel writes it.
fn write_events(folder: &str, low: u32, high: u32, max: u32) {
    let text = format!("low {low}\nhigh {high}\nmax {max}\noom 0\noom_kill 0\noom_group_kill 0\n");
    let (new, file) = (format!("{folder}/new"), format!("{folder}/memory.events"));
    fs::write(&new, text).and_then(|()| fs::rename(new, file)).expect("the folder is ours");
}

/// Planted bugs that were seen here: the first look counts as growth; growth of `low` counts; nothing goes back.
#[test]
fn memory_that_is_not_in_use_goes_back_when_the_control_group_is_above_its_limits() {
    let folder = std::env::temp_dir().join(format!("commensal-cgroup-{}", std::process::id()));
    let folder = std::env::var("COMMENSAL_TEST_FOLDER").unwrap_or_else(|_| folder.to_str().expect("text").into());
    if child::case().is_none() {
        fs::create_dir_all(&folder).expect("a folder");
        write_events(&folder, 0, 7, 0);
        let conf = format!("upkeep.interval_ms:20,keep:1000,upkeep.cgroup:{folder}");
        let outcome =
            child::run(child::command("act").env("COMMENSAL_CONF", conf).env("COMMENSAL_TEST_FOLDER", &folder));
        fs::remove_dir_all(&folder).expect("the folder is ours");
        return outcome.expect_success();
    }
    heap::conf::apply_environment();
    thread::scope(|scope| {
        let (is_over, over) = std::sync::mpsc::channel::<()>();
        // The shepherd stays as long as a slot has turns.
        scope.spawn(move || {
            while over.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
                Blocks::of(MIB, &[20_000]).free();
                thread::sleep(std::time::Duration::from_millis(2));
            }
        });
        let mut stays = Vec::new();
        for (low, high, max) in [(1, 8, 0), (2, 9, 0), (3, 9, 1)] {
            Blocks::of(40 * MIB, &[90_000]).free();
            stays.push(take(100).expect("there is memory"));
            assert!(comes(|| Report::read().has_shepherd), "no shepherd: {:?}", Report::read());
            // `low` tells of protection that did not hold, not of this group's own limits.
            write_events(&folder, low, high - u32::from(max == 0), 0);
            thread::sleep(std::time::Duration::from_millis(200));
            let (held, before) = (report().held, Report::read().pressure);
            assert!(
                held > 40 * MIB as u64 && before == stays.len() as u64 - 1,
                "{held} are held: {:?}",
                Report::read()
            );
            write_events(&folder, low, high, max);
            assert!(comes(|| Report::read().pressure > before), "nobody looked: {:?}", Report::read());
            assert!(report().held < held / 2, "{held} bytes were held, and now {:?}", report());
        }
        is_over.send(()).expect("it waits");
        stays.into_iter().for_each(free);
    });
    let _ = upkeep::step(0);
    assert!(process::pressure_of_group(Some("/nowhere")).is_none());
}
