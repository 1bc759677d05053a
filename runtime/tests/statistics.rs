//! The statistics page on this computer: what is there, when it is written, and what forks, crashes and exits leave of it.
//!
//! Each case plays in a process of its own, with a runtime directory of its own, in both modes of the machine.
//!
//! Planted bugs that were seen here: memory that is not wiped in children, no removal at exit, objects in arrays that count as in use, no pause after one
//! that took long, a change of much memory that is not told, children that have one at once, groups that stay listed, and writing into the current copy.

mod common;

use commensal_runtime::caches::Cache as SlabCache;
use commensal_runtime::central::size_class::{self, SMALL};
use commensal_runtime::group::Group as MemoryGroup;
use commensal_runtime::heap::{self, report, statistics};
use commensal_runtime::machine::{clock, process, slot};
use commensal_runtime::observe::figures::{Cache, Figures, Group, Row, Slot, TABLES, unitless};
use commensal_runtime::observe::page::Page;
use common::forks::{FINE, Way, wait_for};
use common::pages::{BEGAN, act_out, blocks, folder, free, in_child, owners, with_page};
use common::{PATIENCE, child};
use std::fs;
use std::path::Path;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// At rest the page says what a report says, and what there is.
#[test]
fn page_at_rest_equals_report() {
    in_child("observe:on,upkeep:off", || {
        let bytes = |number: usize| number * 37 % 9000 + 1;
        let kept = blocks(20_000, bytes);
        free(blocks(20_000, |number| number * 91 % 32_000 + 1));
        let large = blocks(3, |_| 1 << 20);
        statistics::write_now();
        let process = report::process().expect("the heap was used");
        let mut classes = Vec::new();
        report::for_each_class(|class| classes.push(*class));
        with_page(process::id(), |page| {
            let figures = page.figures();
            assert_eq!(figures, process);
            let small: usize = (0..20_000).map(|number| size_class::size(size_class::class_for(bytes(number)))).sum();
            assert_eq!(figures.in_use_bytes - figures.large_bytes, small as u64);
            assert!(figures.peak_bytes >= figures.in_use_bytes);
            assert_eq!((figures.large_blocks, figures.large_bytes >= 3 << 20), (3, true), "{figures:?}");
            assert!(figures.cached_bytes > 0 && figures.runs > 0 && figures.slots_used > 0, "{figures:?}");
            let caches: Vec<Cache> = page.rows().collect();
            assert!(classes.len() > 10 && classes.iter().all(|class| caches.contains(class)), "{classes:?}");
            for class in 1..SMALL {
                assert_eq!(caches[class - 1].name.as_str(), format!("malloc-{}", size_class::size(class)));
            }
            assert!(caches.iter().filter(|cache| cache.cached > 0).count() > 10, "nothing was cached");
            let slots: Vec<Slot> = page.rows().collect();
            assert_eq!(slots.len(), slot::in_use() as usize);
            let sum = |value: fn(&Slot) -> u64| slots.iter().map(value).sum::<u64>();
            assert_eq!(sum(|slot| slot.cached_objects), caches.iter().map(|cache| cache.cached).sum::<u64>());
            assert_eq!(sum(|slot| slot.refills), caches.iter().map(|cache| cache.refills).sum::<u64>());
            assert_eq!(sum(|slot| slot.cached_bytes), figures.cached_bytes);
            let own = slots[slot::current().expect("one") as usize];
            assert!(own.arrays > 10 && own.unvisited_ns < 1_000_000_000, "{own:?}");
        });
        free(kept);
        free(large);
    });
}

#[test]
fn printed_report_has_each_figure_once() {
    in_child("observe:off", || {
        free(blocks(1000, |number| number + 1));
        let mut text = String::new();
        report::write_text(&mut text).expect("a string takes any text");
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines.iter().all(|line| line.len() <= 180), "{text}");
        let name = fs::read_to_string("/proc/self/comm").expect("it has one");
        assert_eq!(lines[0], format!("commensal: statistics of {} ({})", name.trim_end(), process::id()));
        assert!(lines[1].starts_with("  resident ") && lines[1].contains(" = in use "), "{text}");
        let heading = lines.iter().position(|line| line.trim_start().starts_with("object ")).expect("a heading");
        // Each has its topic's line, or one that continues it, and a value behind its name.
        let printed = lines[2..heading].join(" ");
        let mut rest = printed.as_str();
        for figure in TABLES[0].figures {
            let name = unitless(figure.name);
            let short = name.strip_prefix(figure.topic).and_then(|name| name.strip_prefix('_')).unwrap_or(name);
            let name = format!(" {} ", short.replace('_', " "));
            let (_, behind) = rest.split_once(&name).unwrap_or_else(|| panic!("no {name}in {rest}: {text}"));
            let value = behind.split([' ', ',']).next().unwrap_or_default();
            assert!(
                value.starts_with(|c: char| c.is_ascii_digit()) || ["yes", "no", "never"].contains(&value),
                "{text}"
            );
            rest = behind;
        }
        let columns: Vec<&str> = lines[heading].split_whitespace().collect();
        let expected: Vec<&str> = TABLES[Cache::NUMBER].figures.iter().map(|figure| unitless(figure.name)).collect();
        assert_eq!(columns, expected);
        let widths: Vec<usize> = lines[heading + 1..].iter().map(|row| row.split_whitespace().count()).collect();
        assert!(widths.len() > 10 && widths.iter().all(|&width| width == columns.len()), "{text}");
    });
}

#[test]
fn tuned_caches_are_told() {
    in_child("observe:on", || {
        let cache: SlabCache<[u64; 9]> = SlabCache::new("tuned");
        cache.tune(60, 20).expect("it can be tuned");
        drop(cache.alloc([1; 9]));
        statistics::write_now();
        let told = with_page(process::id(), |page| page.rows::<Cache>().find(|row| row.name.as_str() == "tuned"));
        assert!(told.is_some_and(|row| (row.limit, row.batch) == (60, 20)), "{told:?}");
        let mut text = String::new();
        report::write_slabinfo(&mut text).expect("a string takes any text");
        let row = text.lines().find(|row| row.starts_with("tuned ")).expect("it is there");
        assert!(row.contains(" : tunables   60   20 "), "{row}");
    });
}

#[test]
fn without_being_asked_for_there_is_none() {
    in_child("stats:off", || {
        free(blocks(100_000, |number| number % 1000 + 1));
        statistics::write_now();
        assert_eq!(owners(), []);
    });
}

/// When it was written, and what each writing took, as seen by who comes along slow paths for half a second, or until it
/// was written so often.
fn written_meanwhile(least: usize) -> (Vec<u64>, Vec<u64>) {
    let (mut seen, mut costs) = (Vec::new(), Vec::new());
    let began = Instant::now();
    while began.elapsed() < Duration::from_millis(500) || seen.len() < least && began.elapsed() < PATIENCE {
        // Less than what is much, of which is told at once: beside other work caches cool, and all of it goes and comes.
        free(blocks(2000, |number| number % 100 + 1));
        if owners().is_empty() {
            continue;
        }
        let path = folder().join(process::id().to_string());
        if Page::of(&fs::read(path).expect("a page")).is_ok_and(|page| page.snapshot().is_ok()) {
            let (at, cost) = with_page(process::id(), |page| (page.ended_ns(), page.cost_ns()));
            if seen.last() != Some(&at) {
                seen.push(at);
                costs.push(cost);
            }
        }
    }
    assert!(seen.len() >= least, "{seen:?} {costs:?}");
    (seen, costs)
}

#[test]
fn statistics_page_is_rewritten_at_most_once_an_interval_at_a_bounded_cost() {
    // Without upkeep: the shepherd writes what has changed before it rests, however soon that is.
    in_child("observe:on,observe.interval_ms:20,upkeep:off", || {
        const INTERVAL_NS: u64 = 20_000_000;
        let (seen, costs) = written_meanwhile(8);
        // In a young process more often. How much less often depends on who else wants the CPU.
        let gaps: Vec<u64> = seen.windows(2).skip(3).map(|pair| pair[1] - pair[0]).collect();
        assert!(gaps.iter().all(|&gap| gap >= INTERVAL_NS), "{gaps:?} {costs:?}");
        // Of what took more than five milliseconds only so much is made up for; before the last one not all of it is, yet.
        let spent = costs[1..costs.len() - 1].iter().map(|&cost| cost.min(5_000_000)).sum::<u64>();
        let between = seen[seen.len() - 1] - seen[0];
        assert!(spent < between / 400 + 200_000, "{spent} ns were spent in {between}: {seen:?} {costs:?}");
    });
}

#[test]
fn much_more_memory_is_told_soon() {
    in_child("observe:on,observe.interval_ms:60000", || {
        let in_use = || with_page(process::id(), |page| page.figures().in_use_bytes);
        free(blocks(2000, |_| 100));
        statistics::write_now();
        assert!(in_use() < 1 << 20);
        thread::sleep(Duration::from_millis(50));
        let kept = blocks(1000, |_| 30_000);
        let until = Instant::now() + PATIENCE;
        let mut some = Vec::new();
        while in_use() < 20 << 20 {
            assert!(Instant::now() < until, "{} bytes are told", in_use());
            some.extend(blocks(1, |_| 40_000));
            free(core::mem::take(&mut some));
        }
        free(kept);
    });
}

#[test]
fn children_have_their_own() {
    in_child("observe:on", || {
        let kept = blocks(10_000, |_| 1000);
        statistics::write_now();
        let parent = process::id();
        let of_parent = || with_page(parent, |page| (page.turn(), page.figures().in_use_bytes));
        let before = of_parent();
        // Threads are made by the C library, which has to know of the fork.
        for (with_threads, way) in [(true, Way::Fork)].into_iter().chain(Way::ALL.map(|way| (false, way))) {
            let child = way.fork_and(|| {
                if with_threads {
                    thread::spawn(|| free(blocks(1000, |_| 50))).join().map_err(|_| 3)?;
                }
                let until = Instant::now() + PATIENCE;
                let mut more = blocks(1000, |_| 1000);
                while !owners().contains(&process::id()) {
                    more.extend(blocks(100, |_| 1000));
                    if Instant::now() > until {
                        return Err(4);
                    }
                }
                statistics::write_now();
                let in_use = with_page(process::id(), |page| page.figures().in_use_bytes);
                if in_use < 11_000_000 { Err(5) } else { Ok(()) }
            });
            assert_eq!(wait_for(child, PATIENCE), Some(FINE), "{way:?}, threads {with_threads}");
            // It left by `_exit`, so what it said is there still.
            assert_eq!(owners(), {
                let mut both = vec![parent, child as u32];
                both.sort_unstable();
                both
            });
            assert!(with_page(child as u32, |page| page.figures().in_use_bytes) > 11_000_000);
            fs::remove_file(folder().join(child.to_string())).expect("it is ours");
            assert_eq!(of_parent(), before, "{way:?} changed the parent's page");
        }
        free(kept);
    });
}

#[test]
fn statistics_page_is_removed_by_an_orderly_exit() {
    in_child("observe:on", || {
        free(blocks(10_000, |_| 1000));
        statistics::write_now();
        let parent = process::id();
        // SAFETY: the child allocates, and exits.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let until = Instant::now() + PATIENCE;
            while !owners().contains(&process::id()) && Instant::now() < until {
                free(blocks(1000, |_| 1000));
            }
            let has_one = owners().contains(&process::id());
            // SAFETY: as any program does.
            unsafe { libc::exit(if has_one { FINE } else { 3 }) };
        }
        assert_eq!(wait_for(child, PATIENCE), Some(FINE));
        assert_eq!(owners(), [parent]);
    });
}

/// As before `_exit`. In a sandbox the process cannot remove the page, and says in it that it has ended.
#[test]
fn withdrawn_page_is_removed_or_says_so() {
    in_child("observe:on", || {
        free(blocks(10_000, |_| 1000));
        statistics::write_now();
        let parent = process::id();
        let child = |in_sandbox: bool| {
            let child = Way::Fork.fork_and(|| {
                // It has none yet, and leaves its parent's alone.
                statistics::withdraw();
                let until = Instant::now() + PATIENCE;
                while !owners().contains(&process::id()) && Instant::now() < until {
                    free(blocks(1000, |_| 1000));
                }
                if in_sandbox {
                    commensal_runtime::sandbox::enter();
                }
                (0..2).for_each(|_| statistics::withdraw());
                Ok(())
            });
            assert_eq!(wait_for(child, PATIENCE), Some(FINE));
            child as u32
        };
        child(false);
        assert_eq!(owners(), [parent]);
        let path = folder().join(child(true).to_string());
        let has_ended = |path: &Path| Page::of(&fs::read(path).expect("a page")).expect("it is one").has_ended();
        assert!(has_ended(&path) && !has_ended(&folder().join(parent.to_string())));
        fs::remove_file(path).expect("it is ours");
    });
}

/// The background thread writes it before it ends, although the program does nothing any more.
#[test]
fn page_of_an_idle_process_that_had_threads_is_true() {
    in_child("observe:on,upkeep.interval_ms:100", || {
        let has_shepherd = || report::process().is_some_and(|report| report.upkeep_shepherd == 1);
        let until = Instant::now() + PATIENCE;
        let work = || {
            while !has_shepherd() && Instant::now() < until {
                free(blocks(4000, |_| 4000));
            }
            let kept = blocks(4000, |_| 4000);
            statistics::write_now();
            free(kept);
        };
        thread::scope(|scope| [(); 2].map(|()| scope.spawn(work)).map(|thread| thread.join().expect("it works")));
        loop {
            let report = report::process().expect("the heap was used");
            let page = with_page(process::id(), |page| page.figures());
            let memory = |it: &Figures| [it.in_use_bytes, it.cached_bytes, it.free_bytes, it.dirty_bytes];
            if page.upkeep_shepherd == 0 && report.upkeep_shepherd == 0 && memory(&page) == memory(&report) {
                return;
            }
            assert!(Instant::now() < until, "the page says {page:?}, and the report {report:?}");
            thread::sleep(Duration::from_millis(50));
        }
    });
}

/// How long after some moment this process has one, which comes along slow paths meanwhile.
fn has_one_after(moment: Instant, churn: impl Fn()) -> Duration {
    let began = Instant::now();
    while !owners().contains(&process::id()) {
        assert!(began.elapsed() < PATIENCE, "there is none");
        churn();
    }
    moment.elapsed()
}

/// How long a process has none.
const AT_LEAST: Duration = Duration::from_millis(40);

#[test]
fn short_lived_process_has_no_statistics_page() {
    in_child("observe:1", || {
        let after = |moment| has_one_after(moment, || free(blocks(1000, |_| 1000)));
        let passed = after(*BEGAN.get().expect("it has begun"));
        assert!(passed > AT_LEAST, "after {passed:?}");
        // A child begins anew, although its parent has one.
        let forked = Instant::now();
        let child = Way::Fork.fork_and(|| if after(forked) > AT_LEAST { Ok(()) } else { Err(3) });
        assert_eq!(wait_for(child, PATIENCE), Some(FINE));
        fs::remove_file(folder().join(child.to_string())).expect("it left one");
    });
}

#[test]
fn process_that_holds_much_has_a_statistics_page_early() {
    in_child("observe:on", || {
        // Each child begins anew. Where others have the CPU, one may live for a while before it comes to hold much.
        let is_early = || {
            let forked = Instant::now();
            let child = Way::Fork.fork_and(|| {
                // What there is when somebody first comes along is not much, whatever it is.
                while forked.elapsed() < Duration::from_millis(5) {
                    free(blocks(1000, |_| 1000));
                }
                let much = blocks(1000, |_| 8000);
                let passed = has_one_after(forked, || free(blocks(1000, |_| 1000)));
                free(much);
                if passed < AT_LEAST { Ok(()) } else { Err(3) }
            });
            let status = wait_for(child, PATIENCE);
            fs::remove_file(folder().join(child.to_string())).expect("it left one");
            status == Some(FINE)
        };
        assert!((0..100).any(|_| is_early()), "they live for a while before they have one");
    });
}

#[test]
fn without_room_the_program_goes_on() {
    if child::case().is_some() {
        // SAFETY: no other thread of this process looks at its environment.
        unsafe { std::env::set_var("COMMENSAL_CONF", format!("observe:{}", process::id())) };
        heap::conf::apply_environment();
        free(blocks(1000, |_| 1000));
        statistics::write_now();
        assert_eq!(owners(), []);
        // It is not tried again, which would make the folder.
        fs::remove_dir(folder()).expect("it is empty");
        let began = Instant::now();
        while began.elapsed() < Duration::from_millis(150) {
            free(blocks(1000, |_| 1000));
        }
        return assert!(!folder().exists(), "it was tried again");
    }
    let mut command = child::command("act");
    let limit = || {
        let limit = libc::rlimit { rlim_cur: 4096, rlim_max: 4096 };
        // SAFETY: the limit is a local.
        if unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit) } == 0 {
            Ok(())
        } else {
            Err(std::io::Error::last_os_error())
        }
    };
    // SAFETY: the closure makes one system call.
    unsafe { std::os::unix::process::CommandExt::pre_exec(&mut command, limit) };
    let (outcome, _) = act_out(&mut command);
    outcome.expect_success();
    assert!(outcome.stderr.contains("no statistics page: files must not be so large"), "{}", outcome.stderr);
}

#[test]
fn statistics_page_is_whole_whenever_it_is_read() {
    in_child("observe:on,observe.interval_ms:20", || {
        const THREADS: usize = 4;
        let (stop, together) = (AtomicBool::new(false), Barrier::new(THREADS + 1));
        let work = |thread: usize| {
            together.wait();
            let mut round = 0;
            while !stop.load(Ordering::Relaxed) {
                round += 1;
                let kept = blocks(500, |number| (number * 7 + thread * 31 + round) % 2000 + 1);
                let group = MemoryGroup::new(&format!("g{thread}-{}", round % 40)).expect("there is memory");
                assert!(group.alloc([0_u8; 100]).is_ok(), "there is no room");
                free(kept);
            }
        };
        thread::scope(|scope| {
            (0..THREADS).for_each(|thread| {
                drop(scope.spawn({
                    let work = &work;
                    move || work(thread)
                }))
            });
            together.wait();
            let (began, mut last, mut written) = (Instant::now(), 0, 0);
            // One of the threads may be about to make it.
            while owners().is_empty() && began.elapsed() < PATIENCE {
                statistics::write_now();
            }
            // Four threads take the CPU from whoever writes; what he took so is made up for by a pause.
            while began.elapsed() < Duration::from_millis(800) || written < 3 && began.elapsed() < PATIENCE {
                let bytes = fs::read(folder().join(process::id().to_string())).expect("there is a page");
                if Page::of(&bytes).and_then(|page| page.snapshot().map(|_| ())).is_err() {
                    continue;
                }
                with_page(process::id(), |page| {
                    assert!(page.began_ns() <= page.ended_ns() && page.ended_ns() <= clock::now_ns());
                    assert!(page.ended_ns() >= last, "it went back");
                    written += u32::from(page.ended_ns() > last);
                    last = page.ended_ns();
                    for group in page.rows::<Group>() {
                        assert!(group.name.as_str().starts_with('g') && group.charged_bytes < 1 << 20, "{group:?}");
                    }
                    assert!(page.figures().in_use_bytes < 64 << 20, "{:?}", page.figures());
                });
            }
            stop.store(true, Ordering::Relaxed);
            assert!(written > 2, "written {written} times");
        });
    });
}

#[test]
fn groups_are_shown() {
    in_child("observe:on", || {
        let shown = || {
            statistics::write_now();
            with_page(process::id(), |page| (page.rows::<Group>().collect::<Vec<_>>(), page.lost_in(Group::NUMBER)))
        };
        let tenants = MemoryGroup::new("tenants").expect("there is memory");
        let one = tenants.child("one").expect("there is memory");
        one.set_limit(Some(1 << 20));
        let Ok(value) = one.alloc([0_u8; 5000]) else { panic!("there is no room") };
        let (groups, lost) = shown();
        let find = |name: &str| *groups.iter().find(|group| group.name.as_str() == name).expect("it is there");
        assert_eq!((groups.len(), lost), (2, 0));
        assert_eq!((find("tenants").parent.as_str(), find("one").parent.as_str()), ("", "tenants"));
        assert_eq!((find("tenants").limit_bytes, find("one").limit_bytes), (u64::MAX, 1 << 20));
        assert!(find("one").charged_bytes >= 5000 && find("tenants").charged_bytes == find("one").charged_bytes);
        assert_eq!((find("tenants").children, find("one").caches), (1, 1));
        drop(value);
        assert!(one.destroy().is_ok(), "somebody is inside");
        assert_eq!(shown().0.len(), 1);
        let many: Vec<MemoryGroup<'_>> =
            (0..70).map(|number| MemoryGroup::new(&format!("m{number}")).expect("there is memory")).collect();
        let (groups, lost) = shown();
        assert_eq!((groups.len(), lost), (64, 7));
        drop(many);
        let (groups, lost) = shown();
        assert_eq!((groups.len(), lost), (1, 0));
    });
}
