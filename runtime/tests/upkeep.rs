//! Upkeep on this computer: what goes back and when, who is made for it and who is woken.
//!
//! Each case plays in a process of its own, in both modes of the machine where that makes a difference, with an interval much shorter than
//! the usual second. What comes by itself is waited for as long as a busy machine may need; how soon it comes is looked at where the
//! embedder says what time it is. Threads at work beside the shepherd are in tests/stress.rs, and explored.
//!
//! Planted bugs that were seen here: turns that are never missed, a shepherd that is not woken, pages that are not idle until another
//! interval has passed, upkeep that is on where it was turned off, ticks that do nothing, slots that have to miss a turn first, a group's
//! use that is not told, a shepherd in small processes, a child that takes its parent's for its own, and pages that upkeep made free and
//! that were not idle at once; pages that the kernel refused and that are taken for zeroes, or tried again and again; one locked page that
//! keeps all others; and pages that go back although all memory is to be locked.

mod common;

use commensal_runtime::heap;
use commensal_runtime::machine::fault::{self, Plan, Point};
use commensal_runtime::machine::{clock, process};
use commensal_runtime::upkeep::{self, Report};
use common::PATIENCE;
use common::child::{self, with_settings};
use common::forks::{FINE, Way, wait_for};
use common::peak::{Blocks, MIB, after_a_peak, comes, resident};
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

/// The kernel's numbers of threads with the shepherd's name.
fn shepherds() -> Vec<String> {
    let tasks = fs::read_dir("/proc/self/task").expect("the kernel tells");
    let numbers = tasks.map(|task| task.expect("a task").file_name().into_string().expect("a number"));
    let name = |number: &String| fs::read_to_string(format!("/proc/self/task/{number}/comm")).unwrap_or_default();
    numbers.filter(|number| name(number).trim() == "commensal-keep").collect()
}

/// How often a thread has gone to sleep; none: it has ended.
fn sleeps_of(number: &str) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/self/task/{number}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    Some(line.and_then(|number| number.trim().parse().ok()).expect("the kernel tells"))
}

#[test]
fn pages_of_a_peak_go_back_by_themselves() {
    with_settings("upkeep.interval_ms:100", &[None], || {
        const LIVE: usize = 32 * MIB;
        let before = resident();
        after_a_peak(LIVE, 160 * MIB, Duration::from_millis(400), || {
            let (start, peak) = (Instant::now(), resident() - before);
            assert!(peak > 150 * MIB, "{peak} bytes at the peak");
            let left = || resident().saturating_sub(before);
            let is_back = comes(|| left() < LIVE * 12 / 10);
            println!("from {} MiB to {} MiB in {:?}; {:?}", peak / MIB, left() / MIB, start.elapsed(), Report::read());
            assert!(is_back, "{} bytes are left of {peak}, {LIVE} are in use: {:?}", left(), Report::read());
        });
    });
}

/// What nobody comes along for goes after one and a half intervals, wherever in a round that is. Time is what the embedder says it is.
#[test]
fn idle_slot_is_emptied_within_two_intervals() {
    const INTERVAL_NS: u64 = 100_000_000;
    with_settings("upkeep.interval_ms:100,upkeep.shepherd:off", &[None], || {
        let mut longest = 0;
        for phase in 0..8 {
            thread::spawn(|| Blocks::new(2 * MIB).free()).join().expect("no panic");
            let (start, before) = (clock::now_ns(), Report::read().arrays);
            let mut now = start;
            while Report::read().arrays == before {
                assert!(now < start + 4 * INTERVAL_NS, "it stays: {:?}", Report::read());
                now = upkeep::step(now).expect("there is something");
            }
            longest = longest.max(now - start);
            // The clock has to come as far, and a part of a round further than the last time.
            let ahead = now.saturating_sub(clock::now_ns());
            thread::sleep(Duration::from_nanos(ahead + phase * INTERVAL_NS / 8));
        }
        println!("after {longest} ns");
        assert!(longest <= INTERVAL_NS * 13 / 8, "it took {longest} ns: {:?}", Report::read());
    });
}

/// What upkeep itself makes free had idled for an interval: its pages go as soon as the process rests, and not an interval later.
#[test]
fn pages_of_what_idled_in_a_slot_go_with_it() {
    const INTERVAL_NS: u64 = 100_000_000;
    with_settings("upkeep.interval_ms:100,upkeep.shepherd:off,keep:0", &[None], || {
        thread::spawn(|| Blocks::new(8 * MIB).free()).join().expect("no panic");
        // Of the embedder's time, which is never behind the machine's clock.
        let (start, began) = (clock::now_ns(), Instant::now());
        let (mut now, mut given) = (start, (0, Instant::now()));
        let (end, mut last) = (now + 9 * INTERVAL_NS, Report::read());
        while let Some(next) = upkeep::step(now) {
            let report = Report::read();
            if report.bytes > last.bytes {
                given = (now, Instant::now());
            }
            now = next.max(clock::now_ns());
            last = report;
            assert!(now < end, "there is no end of it: {last:?}");
        }
        // Two intervals at most as things are, and more where pages have to be idle anew; what the machine took for it comes on top.
        let after = given.0.saturating_sub(start);
        let limit = INTERVAL_NS * 2 + given.1.saturating_duration_since(began).as_nanos() as u64;
        println!("after {after} ns of {limit}; {last:?}");
        assert!(last.arrays > 0 && last.bytes >= 7 * MIB as u64, "{last:?}");
        assert!(after <= limit, "the last went after {after} ns of {limit}: {last:?}");
    });
}

#[test]
fn idle_process_is_not_woken() {
    with_settings("upkeep.interval_ms:20", &child::MODES, || {
        after_a_peak(4 * MIB, 20 * MIB, Duration::from_millis(200), || {
            let number = match &shepherds()[..] {
                [one] => one.clone(),
                others => panic!("shepherds: {others:?}; {:?}", Report::read()),
            };
            // There is something left to do for a while, also for the harness's own thread; then it is not woken in 50 intervals any more.
            let (mut sleeps, mut since) = (sleeps_of(&number), Instant::now());
            let is_at_rest = comes(|| {
                let seen = sleeps_of(&number).expect("it ended before anybody saw it rest");
                if sleeps.replace(seen) != Some(seen) {
                    since = Instant::now();
                }
                since.elapsed() > Duration::from_secs(1)
            });
            assert!(is_at_rest, "the shepherd is woken all the time: {:?}", Report::read());
            // And then it ends: a process whose main thread has ended would wait for it.
            assert!(comes(|| shepherds().is_empty()), "it rests for ever");
            assert!(!Report::read().has_shepherd, "{:?}", Report::read());
            // Until somebody comes who leaves something behind.
            let before = resident();
            thread::spawn(|| Blocks::new(40 * MIB).free()).join().expect("no panic");
            let is_back = comes(|| resident() < before + 4 * MIB);
            assert!(is_back, "{} bytes are left: {:?}", resident() - before, Report::read());
        });
    });
}

#[test]
fn process_that_holds_little_gets_no_shepherd() {
    with_settings("upkeep.interval_ms:10", &[None], || {
        thread::spawn(|| {
            for _ in 0..300 {
                Blocks::new(MIB / 8).free();
                thread::sleep(Duration::from_millis(1));
            }
        })
        .join()
        .expect("no panic");
        assert_eq!(shepherds(), [""; 0], "{:?}", Report::read());
    });
}

#[test]
fn embedder_tick_replaces_the_shepherd() {
    with_settings("upkeep.interval_ms:50,upkeep.shepherd:off", &[None], || {
        const LIVE: usize = 10 * MIB;
        let before = resident();
        after_a_peak(LIVE, 80 * MIB, Duration::from_millis(300), || {
            let mut calls = 0;
            while let Some(ns) = upkeep::tick() {
                calls += 1;
                assert!(calls < 200, "there is no end of it: {:?}", Report::read());
                thread::sleep(Duration::from_nanos(ns));
            }
            let left = resident() - before;
            // Of so little, what free runs may keep and descriptions of the peak are a large part: 1.25 to 1.34.
            assert!(left < LIVE * 14 / 10, "{left} bytes are left: {:?}", Report::read());
            assert!(shepherds().is_empty() && !Report::read().has_shepherd);
        });
    });
}

#[test]
fn nothing_goes_back_where_it_is_off() {
    with_settings("upkeep.interval_ms:20,upkeep:off", &[None], || {
        let before = resident();
        after_a_peak(4 * MIB, 80 * MIB, Duration::from_millis(100), || {
            thread::sleep(Duration::from_millis(300));
            assert!(resident() - before > 70 * MIB && shepherds().is_empty());
            // And from now on it is on: by whoever comes along.
            upkeep::set_knob("on", 1).expect("it is in range");
            let work = || {
                Blocks::new(2 * MIB).free();
                resident() - before < 20 * MIB
            };
            assert!(comes(work), "{:?}", Report::read());
        });
    });
}

#[test]
fn swinging_load_keeps_its_pages() {
    with_settings("upkeep.interval_ms:50", &[None], || {
        const TRIES: usize = 20;
        thread::spawn(|| ()).join().expect("no panic");
        let faulted = |rounds: usize| {
            let before = Report::read().bytes;
            for _ in 0..rounds {
                Blocks::new(64 * MIB).free();
                // Three intervals, in which little happens.
                for _ in 0..15 {
                    Blocks::new(4 * MIB).free();
                    thread::sleep(Duration::from_millis(10));
                }
            }
            (Report::read().bytes - before) as usize / MIB
        };
        let first = faulted(8);
        // Where others have the CPU for long it swings more slowly, and is another load.
        let later: Vec<usize> = (0..TRIES).map(|_| faulted(8)).take_while(|&given| given > 128).collect();
        println!("MiB given back in eight swings {first}, then {later:?}; {:?}", Report::read());
        assert!(later.len() < TRIES, "MiB given back in eight swings {first}, then {later:?}: {:?}", Report::read());
    });
}

/// A group of its own, with a limit, where the kernel lets us make one.
#[test]
fn control_group_limit_is_found_by_a_member() {
    const LIMIT: u64 = 1 << 30;
    if child::case().is_some() {
        let mut found = Vec::new();
        process::memory_of_groups(|used, limit| found.push((used, limit)));
        println!("{found:?}");
        let &(used, limit) = found.first().expect("there is a limit");
        assert!(limit == LIMIT && (1..LIMIT).contains(&used), "{used} of {limit}, and the limit is {LIMIT}");
        return;
    }
    let name = format!("commensal-{}", std::process::id());
    let made = ["/sys/fs/cgroup/memory", "/sys/fs/cgroup"].into_iter().find_map(|root| {
        let folder = PathBuf::from(root).join(&name);
        fs::create_dir(&folder).ok()?;
        let files = ["memory.limit_in_bytes", "memory.max"];
        let is_limited = files
            .iter()
            .any(|file| folder.join(file).exists() && fs::write(folder.join(file), LIMIT.to_string()).is_ok());
        is_limited.then_some(folder.clone()).or_else(|| fs::remove_dir(folder).ok().and(None))
    });
    let Some(folder) = made else { return println!("no group can be made here") };
    let mut command = child::command("act");
    let members = folder.join("cgroup.procs");
    // SAFETY: a child of a fork writes to a file; the path was made before.
    unsafe { command.pre_exec(move || fs::write(&members, "0")) };
    let outcome = child::run(&mut command);
    // The kernel may take a moment to see that nobody is in it any more.
    let is_gone = comes(|| fs::remove_dir(&folder).is_ok());
    outcome.expect_success();
    assert!(is_gone, "{} stays", folder.display());
}

#[test]
fn forked_child_gets_a_shepherd_of_its_own() {
    with_settings("upkeep.interval_ms:20", &child::MODES, || {
        // From time to time somebody allocates; who comes first, and finds that there is much, makes it.
        let comes = || {
            comes(|| {
                thread::spawn(|| Blocks::new(8 * MIB).free()).join().expect("no panic");
                !shepherds().is_empty() && Report::read().has_shepherd
            })
        };
        assert!(comes(), "{:?}", Report::read());
        let child = Way::Fork.fork_and(|| {
            let is_inherited = Report::read().has_shepherd;
            match (is_inherited, comes()) {
                (true, _) => Err(1),
                (false, true) => Ok(()),
                (false, false) => Err(2),
            }
        });
        assert_eq!(wait_for(child, PATIENCE), Some(FINE), "{:?}", Report::read());
    });
}

#[test]
fn locked_page_after_free_keeps_no_memory() {
    with_settings("upkeep.interval_ms:20,keep:0", &[None], || {
        let before = resident();
        thread::spawn(|| {
            let blocks = Blocks::new(60 * MIB);
            let largest = blocks.0.iter().skip(7).step_by(8);
            for &block in largest.step_by(20) {
                // SAFETY: a page of a block of ours.
                assert_eq!(unsafe { libc::mlock(block.add(40_000).cast(), 1) }, 0, "a few pages may be locked");
            }
            blocks.free();
        })
        .join()
        .expect("no panic");
        let work = || Blocks::new(MIB / 2).free();
        let is_back = comes(|| {
            work();
            resident() < before + 4 * MIB
        });
        assert!(is_back, "{} bytes are left: {:?}", resident() - before, Report::read());
    });
}

#[test]
fn process_with_all_memory_locked_keeps_its_pages() {
    with_settings("upkeep.interval_ms:20,keep:0", &[None], || {
        // SAFETY: it changes no memory.
        if unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE) } != 0 {
            return println!("skipped: this user may not lock as much");
        }
        thread::spawn(|| Blocks::new(20 * MIB).free()).join().expect("no panic");
        let before = resident();
        let is_refused = comes(|| {
            Blocks::new(MIB / 2).free();
            Report::read().refused > 0
        });
        assert!(is_refused && resident() + 2 * MIB > before, "{before}, then {}: {:?}", resident(), Report::read());
    });
}

#[test]
fn refused_pages_stay_as_they_are() {
    with_settings("upkeep.interval_ms:20", &[None], || {
        fault::arm(Point::Decommit, Plan::Always { skip: 0 });
        after_a_peak(4 * MIB, 40 * MIB, Duration::from_millis(100), || {
            assert!(comes(|| Report::read().refused > 0), "{:?}", Report::read());
            thread::sleep(Duration::from_millis(300));
            let report = Report::read();
            assert!(report.bytes == 0 && (1..100).contains(&report.refused), "{report:?}");
            // They are not taken for zeroes.
            for _ in 0..100 {
                const WORDS: usize = 40_000;
                let block: *mut u64 = heap::allocate_zeroed(WORDS * 8).cast();
                // SAFETY: the block is ours; it is never freed, so that each is another one.
                let is_zero = (0..WORDS).all(|word| unsafe { block.add(word).read() } == 0);
                assert!(is_zero, "a block that should be zero is not");
            }
            let again = Blocks::new(60 * MIB);
            heap::check::check_valid(|_| {});
            again.free();
            fault::arm(Point::Decommit, Plan::Never);
            assert!(comes(|| Report::read().bytes > 30 << 20), "{:?}", Report::read());
        });
    });
}
