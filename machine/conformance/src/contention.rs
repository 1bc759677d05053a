//! `machine::sync::Contention`: who waited for a lock, and how long.
//!
//! One thread holds the lock for a known time, so that the others' waits are known. Where many threads record, each
//! wait is chosen so that a reading that misses a part shows it.

use crate::case::{Findings, Outcome, ensure};
use crate::runner::{Placement, Runner, crowd, repeat, wait_until};
use crate::sync::{Middle, Operations};
use machine::sync::{
    AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Contention, Ordering, PLACES, Site, Waited, measure_holds,
};
use machine::{clock, here, thread};

crate::cases! {
    CASES of Operations::MACHINE;
    "sync::Contention" => contended, {
        "not counted" { acquire: |lock, _, site| lock.acquire(&Contention::new(), site) }
        "of one site for all" { acquire: |lock, contention, _| lock.acquire(contention, first_waiter()) }
    }
    "sync::measure_holds" => held, {
        "not counted" { acquire: |lock, _, _| planted::acquire_unmeasured(lock) }
        "of one site for all" { acquire: |lock, contention, _| lock.acquire(contention, first_waiter()) }
        "of another lock" { acquire: planted::acquire_measuring_another }
    }
    "sync::Contention is bounded" => bounded, {
        "forgets what has no place" { record: planted::record_if_placed }
        "has the longest before the sum" { record: planted::record_longest_first }
        "counts last" { record: planted::record_count_last }
    }
}

/// The body of [`Contention`]: one thread holds the lock repeatedly for a known time; two wait, each at its own site.
pub fn contended(runner: &dyn Runner, operations: &Operations) -> Outcome {
    const HOLD_NS: u64 = 1_000_000;
    const ROUNDS: u64 = 20;
    thread::enter();
    let (lock, contention) = (Middle::new(), Contention::new());
    for _ in 0..100 {
        (operations.acquire)(&lock, &contention, here!());
        (operations.release)(&lock);
    }
    ensure!(contention.report() == Default::default(), "nobody waited, and it was counted: {:?}", contention.report());
    let longest = [const { AtomicU64::new(0) }; 2];
    for _ in 0..ROUNDS {
        let (held, since) = (AtomicBool::new(false), AtomicU64::new(0));
        let wait = |site, longest: &AtomicU64| {
            wait_until(runner, || held.load(Ordering::Acquire));
            let start = clock::now_ns();
            (operations.acquire)(&lock, &contention, site);
            longest.fetch_max(clock::now_ns() - start, Ordering::Relaxed);
            (operations.release)(&lock);
        };
        let job = |number| match number {
            0 => {
                (operations.acquire)(&lock, &contention, here!());
                since.store(clock::now_ns(), Ordering::Relaxed);
                held.store(true, Ordering::Release);
                wait_until(runner, || clock::now_ns() > since.load(Ordering::Relaxed) + HOLD_NS);
                (operations.release)(&lock);
            }
            1 => wait(first_waiter(), &longest[0]),
            _ => wait(second_waiter(), &longest[1]),
        };
        runner.run(Placement::Anywhere, crowd(3, &job), None);
    }
    let (first, second) = (at(&contention, FIRST), at(&contention, SECOND));
    let holder = at(&contention, "contention::contended");
    for (waited, longest) in [(first, &longest[0]), (second, &longest[1])] {
        let longest = longest.load(Ordering::Relaxed);
        // A waiter that runs late may find the lock free, but not each time. One in time waits for most of the hold.
        let plausible = (1..=ROUNDS).contains(&waited.contended)
            && (HOLD_NS / 2..=longest).contains(&waited.max_wait_ns)
            && (waited.max_wait_ns..=waited.contended * waited.max_wait_ns).contains(&waited.total_wait_ns);
        ensure!(plausible, "{ROUNDS} waits of {HOLD_NS} ns, at most {longest} ns, were counted as {waited:?}");
    }
    ensure!(holder == Waited::default(), "who came first each time did not wait, and it was counted: {holder:?}");
    let (all, lost) = (contention.report().waited, contention.lost());
    ensure!(
        all == first.and(second) && lost == Waited::default(),
        "{first:?} and {second:?} make {all:?}, lost {lost:?}"
    );
    Ok(())
}

const FIRST: &str = "contention::first_waiter";
const SECOND: &str = "contention::second_waiter";

fn first_waiter() -> Site {
    here!()
}

fn second_waiter() -> Site {
    here!()
}

fn at(contention: &Contention, name: &str) -> Waited {
    let of_name = contention.sites().filter(|(site, _)| site.to_string() == name);
    of_name.map(|(_, waited)| waited).fold(Waited::default(), Waited::and)
}

/// The body of [`measure_holds`]: threads take the lock at two sites; one site's holds are long, and the other's short.
pub fn held(runner: &dyn Runner, operations: &Operations) -> Outcome {
    const LONG_NS: u64 = 2_000_000;
    const SHORT_NS: u64 = 20_000;
    const ROUNDS: usize = 20;
    thread::enter();
    let (lock, contention) = (Middle::new(), Contention::new());
    let longest = [const { AtomicU64::new(0) }; 2];
    let hold = |at: usize, site, ns: u64| {
        let before_ns = clock::thread_ns();
        (operations.acquire)(&lock, &contention, site);
        let since_ns = clock::thread_ns();
        while clock::thread_ns() < since_ns + ns {}
        (operations.release)(&lock);
        longest[at].fetch_max(clock::thread_ns() - before_ns, Ordering::Relaxed);
    };
    hold(0, first_waiter(), LONG_NS);
    ensure!(at(&contention, FIRST).max_hold_ns == 0, "a hold was measured that nobody asked for");
    // SAFETY: the contention outlives all holds.
    unsafe { measure_holds() };
    let job = |number: usize| match number {
        0 => hold(0, first_waiter(), LONG_NS),
        _ => (0..ROUNDS).for_each(|_| hold(1, second_waiter(), SHORT_NS)),
    };
    runner.run(Placement::Anywhere, crowd(3, &job), None);
    let [first, second] = [FIRST, SECOND].map(|name| at(&contention, name).max_hold_ns);
    let [most_of_first, most_of_second] = longest.each_ref().map(|longest| longest.load(Ordering::Relaxed));
    for (ns, held, most) in [(LONG_NS, first, most_of_first), (SHORT_NS, second, most_of_second)] {
        let is_plausible = (ns * 9 / 10..=most).contains(&held);
        ensure!(is_plausible, "holds of {ns} ns, at most {most} ns, were measured as {held} ns");
    }
    let lost = contention.lost().max_hold_ns;
    ensure!(contention.report().waited.max_hold_ns == first.max(second) && lost == 0, "sites {first} and {second} ns");
    Ok(())
}

/// More sites than a table has places; each has a function of its own.
macro_rules! many_sites {
    ($($name:ident)*) => {
        const MANY: &[Site] = &[$({
            fn $name() -> &'static str {
                concat!("package::site::", stringify!($name), "::here")
            }
            Site::new($name)
        }),*];
    };
}

many_sites! {
    a0 a1 a2 a3 a4 a5 a6 a7 a8 a9 b0 b1 b2 b3 b4 b5 b6 b7 b8 b9
    c0 c1 c2 c3 c4 c5 c6 c7 c8 c9 d0 d1 d2 d3 d4 d5 d6 d7 d8 d9
}

const _: () = assert!(MANY.len() > PLACES);

/// The body of [`Contention`] for more sites than the table has places. Some threads record while one reads. Each wait
/// is a power of two that earlier waits at its site cannot add up to, so a torn reading shows.
pub fn bounded(runner: &dyn Runner, operations: &Operations) -> Outcome {
    repeat(runner, || fill_tables(runner, operations))
}

fn fill_tables(runner: &dyn Runner, operations: &Operations) -> Outcome {
    let tables: Vec<Contention> = (0..TABLES).map(|_| Contention::new()).collect();
    let (findings, turn, left) = (Findings::new(), AtomicUsize::new(0), AtomicU32::new(RECORDERS));
    let job = |number: usize| {
        if number == 0 {
            while left.load(Ordering::Acquire) != 0 && findings.none() {
                check_reading(&tables[turn.load(Ordering::Relaxed)], &findings);
            }
            return;
        }
        for (at, table) in tables.iter().enumerate() {
            turn.fetch_max(at, Ordering::Relaxed);
            for power in 0..MANY.len() {
                (operations.record)(table, MANY[(7 * power + number) % MANY.len()], 1 << power);
            }
        }
        left.fetch_sub(1, Ordering::Release);
    };
    runner.run(Placement::Anywhere, crowd(RECORDERS as usize + 1, &job), None);
    findings.outcome()?;
    let recorded = Waited {
        contended: u64::from(RECORDERS) * MANY.len() as u64,
        total_wait_ns: u64::from(RECORDERS) * ((1 << MANY.len()) - 1),
        max_wait_ns: 1 << (MANY.len() - 1),
        max_hold_ns: 0,
    };
    for table in &tables {
        let (all, lost, sites) = (table.report().waited, table.lost(), table.sites().map(|(site, _)| site.to_string()));
        let mut sites: Vec<String> = sites.collect();
        ensure!(all == recorded, "{recorded:?} was recorded, and is reported as {all:?}");
        ensure!(
            sites.len() == PLACES && lost.contended > 0,
            "{} sites have {} places, and lost {lost:?}",
            MANY.len(),
            sites.len()
        );
        sites.sort();
        sites.dedup();
        ensure!(sites.len() == PLACES, "a site has two places");
    }
    Ok(())
}

const TABLES: u64 = 10;
const RECORDERS: u32 = 2;

fn check_reading(table: &Contention, findings: &Findings) {
    let all = table.report().waited;
    for Waited { contended, total_wait_ns, max_wait_ns, .. } in
        table.sites().map(|(_, waited)| waited).chain([table.lost(), all])
    {
        let numbers = [contended, total_wait_ns, max_wait_ns];
        let has_longest = max_wait_ns <= total_wait_ns;
        findings.demand(has_longest, "a reading's longest wait is above its sum: contended, total, max", numbers);
        // As many powers of two, or more, make up the sum.
        let counted = u64::from(total_wait_ns.count_ones()) <= contended;
        findings.demand(counted, "a reading's sum has waits that are not counted: contended, total, max", numbers);
    }
}

mod planted {
    use super::*;
    use machine::sync::Acquired;

    pub(super) fn acquire_unmeasured(lock: &Middle) -> Acquired {
        while !lock.try_acquire() {
            core::hint::spin_loop();
        }
        Acquired::Clean
    }

    pub(super) fn acquire_measuring_another(lock: &Middle, contention: &Contention, site: Site) -> Acquired {
        static OTHER: Middle = Middle::new();
        let acquired = acquire_unmeasured(lock);
        OTHER.measure_hold(contention, site);
        acquired
    }

    pub(super) fn record_if_placed(contention: &Contention, site: Site, wait_ns: u64) {
        let has_place = |(other, _): (Site, Waited)| other.to_string() == site.to_string();
        if contention.sites().count() < PLACES || contention.sites().any(has_place) {
            contention.record(site, wait_ns);
        }
    }

    /// The words of the site's waits: contended, total, max. A table has one word for what was out of order, then
    /// places of four words, of which the first is the site, then three words for what was lost.
    fn words_of(contention: &Contention, site: Site) -> &[AtomicU64] {
        const WORDS: usize = size_of::<Contention>() / size_of::<AtomicU64>();
        // SAFETY: a table is of such words, laid out as C would.
        let words = unsafe { &*(&raw const *contention).cast::<[AtomicU64; WORDS]>() };
        let place = contention.sites().position(|(other, _)| other.to_string() == site.to_string());
        let start = place.map_or(WORDS - 3, |place| 1 + 4 * place + 1);
        &words[start..start + 3]
    }

    /// The longest wait comes before it is in the sum. (The count has a wait of nothing before.)
    pub(super) fn record_longest_first(contention: &Contention, site: Site, wait_ns: u64) {
        contention.record(site, 0);
        let words = words_of(contention, site);
        words[2].fetch_max(wait_ns, Ordering::Release);
        (0..100).for_each(|_| core::hint::spin_loop());
        words[1].fetch_add(wait_ns, Ordering::Release);
    }

    /// A wait is in the sum before it is counted.
    pub(super) fn record_count_last(contention: &Contention, site: Site, wait_ns: u64) {
        contention.record(site, wait_ns);
        let words = words_of(contention, site);
        words[0].fetch_sub(1, Ordering::Release);
        (0..100).for_each(|_| core::hint::spin_loop());
        words[0].fetch_add(1, Ordering::Release);
    }
}
