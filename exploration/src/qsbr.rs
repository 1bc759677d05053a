//! Readers that registered: what they find stays until their section ends, however they come to report.

use crate::forks::must_be_well;
use crate::heaps::crowd;
use crate::protocol::{BOTH, NO_SIGNALS, protocols};
use crate::rcu::{Objects, POLLS, Updater, must_end};
use commensal_runtime::heap;
use commensal_runtime::rcu;
use commensal_runtime::rcu::qsbr::{self, KickableReader, Policy, Reader};
use fastrand::Rng;
use machine::simulation::explore::Outcome;
use machine::simulation::{fork, pause};
use machine::sync::{AtomicBool, Ordering, fence};

protocols! {
    "registered": "readers that registered, under policies that change, beside readers that did not, and updaters",
        registered, NO_SIGNALS, BOTH => by_ids StoresOvertake, in_fallback ChangesTear;
    "registered forks":
        "forks by threads that registered, and by others: the child waits for the readers of the one that forked",
        forked, NO_SIGNALS, BOTH => by_ids NoWipe;
}

const READERS: usize = 2;
const UPDATERS: usize = 2;

fn begin() {
    rcu::set_knob("till_qs_ms", 0).expect("a value in range");
    // Every process has allocated before it has a second thread.
    // SAFETY: ours.
    unsafe { heap::free(heap::allocate(64)) };
}

fn any_policy(are_silent: bool, random: &mut Rng) -> Policy {
    match random.u8(..5) {
        _ if are_silent => Policy::Kicked,
        0 => Policy::Counted(random.u32(1..4)),
        1 => Policy::Flagged,
        _ => Policy::Kicked,
    }
}

fn in_section(reader: &KickableReader, objects: &Objects, random: &mut Rng) {
    let section = reader.read();
    let found = objects.find();
    for _ in 0..random.usize(..6) {
        if random.u8(..4) == 0 {
            drop(reader.read());
        }
        objects.check(found);
    }
    drop(section);
}

fn step(reader: &mut KickableReader, objects: &Objects, random: &mut Rng) {
    match random.u8(..12) {
        0 => reader.checkpoint_always(),
        1 => reader.offline(pause),
        2 => *reader = Reader::register().expect("there is memory"),
        3..6 => reader.checkpoint(),
        _ => in_section(reader, objects, random),
    }
}

fn registered(seed: u64) -> Outcome {
    begin();
    let (objects, done) = (Objects::new(), AtomicBool::new(false));
    let is_mixed = seed.is_multiple_of(3);
    // Readers that come to no checkpoint any more: each grace period takes a kick that is not lost.
    let are_silent = seed % 4 == 1;
    if are_silent {
        qsbr::set_policy(Policy::Kicked).expect("no other signal is there");
    }
    crowd(READERS + UPDATERS, seed, None, &|thread, random| {
        if thread < READERS {
            let mut reader = Reader::register().expect("there is memory");
            let mut left = if are_silent { random.usize(..30) } else { usize::MAX };
            while !done.load(Ordering::Relaxed) {
                match left {
                    // A store becomes visible in the end, also of a CPU that stores nothing more.
                    0 => {
                        pause();
                        fence(Ordering::SeqCst);
                    }
                    _ => step(&mut reader, &objects, random),
                }
                left = left.saturating_sub(1);
            }
            return;
        }
        let mut updater = Updater::new(thread - READERS);
        for _ in 0..4 {
            qsbr::set_policy(any_policy(are_silent, random)).expect("no other signal is there");
            updater.update(&objects, rcu::synchronize);
            if is_mixed && random.bool() {
                let _section = rcu::read();
                let found = objects.find();
                objects.check(found);
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    Ok(())
}

fn forked(seed: u64) -> Outcome {
    begin();
    let (objects, done) = (Objects::new(), AtomicBool::new(false));
    crowd(READERS + 1, seed, None, &|thread, random| {
        let when = random.usize(..8);
        if thread == READERS {
            let mut updater = Updater::new(0);
            for step in 0..3 {
                updater.update(&objects, rcu::synchronize);
                if step == when {
                    must_be_well(fork(random.bool(), &mut || must_end(rcu::start())));
                }
            }
            return done.store(true, Ordering::Relaxed);
        }
        let mut reader = Reader::register().expect("there is memory");
        let mut steps = 0;
        while !done.load(Ordering::Relaxed) {
            step(&mut reader, &objects, random);
            if steps == when && thread == 0 {
                must_be_well(fork(random.bool(), &mut || live(&mut reader, &objects)));
            }
            steps += 1;
        }
    });
    Ok(())
}

/// In a child: its thread's reader is waited for, and no other.
fn live(reader: &mut KickableReader, objects: &Objects) -> Result<(), &'static str> {
    qsbr::set_policy(Policy::None).map_err(|_| "a policy was refused")?;
    let section = reader.read();
    let found = objects.find();
    let cookie = rcu::start();
    let is_over = (0..50).any(|_| {
        pause();
        rcu::is_over(cookie)
    });
    objects.check(found);
    drop(section);
    if is_over {
        return Err("a grace period ended in a child before the reader reported that its thread had");
    }
    // Twice, if another grace period was under way when it forked.
    let is_over = (0..POLLS).any(|_| {
        pause();
        reader.checkpoint_always();
        rcu::is_over(cookie)
    });
    if is_over { Ok(()) } else { Err("a grace period does not end in a child whose reader reports") }
}
