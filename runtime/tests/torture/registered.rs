//! A reader that registered, among all the others: it comes to checkpoints of all kinds, goes offline, forks, and registers anew, while policies change.
//!
//! What its sections find is counted with what the others find. A child waits until its thread's reader has reported, and for nobody else.

use super::{CHILDREN, CROWD, Planted, Section, count, dawdle, goes_on, wait_for_child};
use crate::common::forks::Way;
use crate::common::random::Random;
use commensal_runtime::rcu;
use commensal_runtime::rcu::qsbr::{KickableReader as Kickable, Policy, set_policy};
use std::thread;
use std::time::Duration;

fn register() -> Kickable {
    Kickable::register().expect("there is memory")
}

pub fn read(random: &mut Random) {
    let _member = CROWD.enrol();
    while goes_on() {
        let mut reader = register();
        for _ in 0..random.below(50_000) {
            if Planted::Absent.is_here() {
                // SAFETY: none; this is what is planted.
                unsafe { reader.go_offline() };
            }
            let section = Section::with(reader.read());
            dawdle(random);
            section.end();
            match random.below(64) {
                0 => reader.offline(|| thread::sleep(Duration::from_micros(random.below(2000) as u64))),
                1 => reader.synchronize(),
                2..8 => reader.checkpoint_always(),
                8..40 => reader.checkpoint(),
                _ => {}
            }
            if random.once_in(5000) {
                fork(&mut reader, random);
            }
            if !reader.offline(goes_on) {
                return;
            }
        }
        drop(reader);
        thread::sleep(Duration::from_millis(random.below(20) as u64));
    }
}

fn fork(reader: &mut Kickable, random: &mut Random) {
    let child = Way::ALL[random.below(3)].fork_and(|| {
        const EARLY: i32 = 2;
        let cookie = rcu::start();
        let section = reader.read();
        if rcu::is_over(cookie) || rcu::is_over(cookie) {
            return Err(EARLY);
        }
        drop(section);
        reader.checkpoint_always();
        reader.synchronize();
        Ok(())
    });
    count(&CHILDREN);
    wait_for_child(child);
}

/// Another policy.
pub fn choose(random: &mut Random) {
    let policies = [Policy::Flagged, Policy::Counted(1), Policy::Counted(100), Policy::Kicked, Policy::None];
    set_policy(policies[random.below(policies.len())]).expect("the signal is nobody's");
}
