//! Property tests of the timetable: any set of slots, that come and go, sleep and wake up, while the interval changes and the clock jumps.
//!
//! What is checked, of slots that look whenever they are told to: at most one run in a round; from one run to the next at least half of the
//! shortest interval in force meanwhile, and at most twice the longest; exactly an interval while nothing changes; and at no moment two slots
//! whose turn it is. Of slots that sleep: none is served by others that neither missed a turn nor looks deserted, and each is that did.
//!
//! Planted bugs: runs that are forgotten, turns that begin early, and slots that look deserted but have to miss a turn first.

use commensal_runtime::upkeep::timetable::{Errand, Timetable, Turn};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use std::collections::BTreeMap;

const MILLISECOND: u64 = 1_000_000;

#[derive(Clone, Debug)]
enum Event {
    /// So many looks, each at the next moment that anybody was told.
    Pass(u8),
    Join(u32),
    Leave(u32),
    /// It no longer comes by itself.
    Sleep(u32),
    Wake(u32),
    Interval(u64),
    Ahead(u64),
    Back(u64),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    /// Whoever ran may run again.
    Forgets,
    /// A turn begins half an interval early, while another one lasts.
    Hurries,
    /// Whoever looks deserted is not served before it has missed a turn.
    Waits,
}

#[derive(Debug, Default)]
struct Slot {
    sleeps: bool,
    is_wanted: bool,
    /// The round in which it left.
    left_in: u64,
    /// When it ran last, how long after it was due, and the shortest and longest interval in force since; none before its first run, and after a jump of the clock.
    last: Option<(u64, u64, [u64; 2])>,
    /// Whether nothing that moves turns has happened since.
    is_undisturbed: bool,
    /// Rounds that began since it last ran.
    rounds: u32,
}

impl Slot {
    /// Of those that sleep, some are seen to.
    fn looks_deserted(&self, slot: u32) -> bool {
        self.sleeps && slot.is_multiple_of(2)
    }
}

struct Model {
    table: Timetable,
    fault: Option<Fault>,
    now_ns: u64,
    interval_ns: u64,
    round: u64,
    /// From this round on all that happened has taken effect.
    calm_from: u64,
    slots: BTreeMap<u32, Slot>,
}

type Checked = Result<(), TestCaseError>;

impl Model {
    fn new(fault: Option<Fault>) -> Self {
        let mut model = Model {
            table: Timetable::new(),
            fault,
            now_ns: 7_123_456_789,
            interval_ns: 1000 * MILLISECOND,
            round: 0,
            calm_from: 0,
            slots: BTreeMap::new(),
        };
        model.advance();
        model
    }

    fn advance(&mut self) {
        self.table.advance(self.now_ns, self.interval_ns);
        self.table.check_valid();
        let passed = self.table.round() - self.round;
        self.round += passed;
        self.slots.values_mut().for_each(|slot| slot.rounds += passed as u32);
    }

    fn disturb(&mut self) {
        // What changes, does at the next boundary, or at the one after that.
        self.calm_from = self.round + 3;
        self.slots.values_mut().for_each(|slot| slot.is_undisturbed = false);
    }

    fn happen(&mut self, event: &Event) -> Checked {
        match *event {
            Event::Pass(looks) => return (0..looks).try_for_each(|_| self.look()),
            Event::Join(slot) => {
                self.table.join(slot);
                // The first one has a turn at once, which it may miss.
                let has_turn = matches!(self.turn(slot), Turn::UntilNs(_));
                let known = self.slots.entry(slot).or_default();
                // Whoever comes back begins anew, but in the round in which it went.
                if !known.is_wanted && known.left_in != self.round {
                    (known.last, known.rounds) = (None, u32::from(has_turn));
                }
                known.is_wanted = true;
            }
            Event::Leave(slot) => {
                self.table.leave(slot);
                let round = self.round;
                let known = self.slots.entry(slot).or_default();
                if known.is_wanted {
                    (known.is_wanted, known.left_in) = (false, round);
                }
            }
            Event::Sleep(slot) => {
                self.slots.entry(slot).or_default().sleeps = true;
                return Ok(());
            }
            Event::Wake(slot) => {
                let known = self.slots.entry(slot).or_default();
                (known.sleeps, known.last) = (false, None);
                return Ok(());
            }
            Event::Interval(interval_ns) => {
                self.interval_ns = interval_ns;
                for (_, _, [shortest, longest]) in self.slots.values_mut().filter_map(|slot| slot.last.as_mut()) {
                    (*shortest, *longest) = ((*shortest).min(interval_ns), (*longest).max(interval_ns));
                }
            }
            Event::Ahead(ns) | Event::Back(ns) => {
                let back = matches!(event, Event::Back(_));
                self.now_ns = if back { self.now_ns.saturating_sub(ns) } else { self.now_ns + ns };
                self.slots.values_mut().for_each(|slot| slot.last = None);
                self.disturb();
                self.advance();
                self.slots.values_mut().for_each(|slot| slot.rounds = slot.rounds.min(2));
            }
        }
        self.disturb();
        self.advance();
        self.work()
    }

    /// Goes to the next moment that anybody was told, and has all who come look.
    fn look(&mut self) -> Checked {
        let told = |turn: Turn| if let Turn::NotBeforeNs(ns) = turn { Some(ns) } else { None };
        let errand = if let Errand::NotBeforeNs(ns) = self.errand() { Some(ns) } else { None };
        let of_slots = self.slots.keys().filter_map(|&slot| told(self.turn(slot)));
        let next = of_slots.chain(errand).min().unwrap_or(self.now_ns + self.interval_ns);
        prop_assert!(next > self.now_ns, "at {} somebody was told to come at {next}", self.now_ns);
        self.now_ns = next;
        self.advance();
        self.work()
    }

    fn work(&mut self) -> Checked {
        let slots: Vec<u32> = self.slots.keys().copied().collect();
        let mut have_turns = Vec::new();
        for slot in slots {
            if let Turn::UntilNs(end) = self.turn(slot) {
                prop_assert!(end > self.now_ns, "a turn that ends at {end} at {}", self.now_ns);
                have_turns.push(slot);
            }
        }
        prop_assert!(have_turns.len() <= 1, "slots {have_turns:?} have turns at {}", self.now_ns);
        let in_turn: Vec<u32> = have_turns.iter().copied().filter(|slot| !self.slots[slot].sleeps).collect();
        for slot in in_turn {
            let due = self.run(slot);
            self.ran(slot, due)?;
            prop_assert!(!matches!(self.turn(slot), Turn::UntilNs(_)), "slot {slot} may run again");
        }
        if let Errand::Serve(slot, _) = self.errand() {
            let known = &self.slots[&slot];
            let is_seen = known.rounds >= 2 || known.looks_deserted(slot);
            prop_assert!(is_seen && known.sleeps, "slot {slot} is served that missed nothing");
            prop_assert!(have_turns.contains(&slot), "slot {slot} is served out of its turn");
            let due = self.run(slot);
            self.ran(slot, due)?;
        } else {
            let left_out = have_turns.iter().find(|&slot| {
                let known = &self.slots[slot];
                known.looks_deserted(*slot) && matches!(self.turn(*slot), Turn::UntilNs(_))
            });
            prop_assert!(left_out.is_none(), "{left_out:?} looks deserted, has its turn, and is not served");
        }
        self.nobody_waits_too_long()
    }

    fn turn(&self, slot: u32) -> Turn {
        let turn = self.table.turn(slot);
        let is_in_turn = |slot: &u32| matches!(self.table.turn(*slot), Turn::UntilNs(_));
        match turn {
            Turn::NotBeforeNs(ns) if self.fault == Some(Fault::Hurries) && ns < self.now_ns + self.interval_ns / 2 => {
                if self.slots.keys().any(is_in_turn) {
                    Turn::UntilNs(ns)
                } else {
                    turn
                }
            }
            _ => turn,
        }
    }

    fn run(&mut self, slot: u32) -> u64 {
        let has_turn = matches!(self.table.turn(slot), Turn::UntilNs(_));
        let is_right = self.fault.is_none() || self.fault != Some(Fault::Forgets) && has_turn;
        if is_right { self.table.run(slot) } else { self.now_ns }
    }

    fn errand(&self) -> Errand {
        match self.table.errand(|slot| self.slots[&slot].looks_deserted(slot)) {
            Errand::Serve(..) if self.fault == Some(Fault::Waits) => self.table.errand(|_| false),
            errand => errand,
        }
    }

    /// A slot was due, and runs now.
    fn ran(&mut self, slot: u32, due: u64) -> Checked {
        let (now, late) = (self.now_ns, self.now_ns - due);
        let (interval, is_calm) = (self.interval_ns, self.round >= self.calm_from);
        let known = self.slots.get_mut(&slot).expect("it was asked");
        if let Some((last, was_late, [shortest, longest])) = known.last
            && !known.sleeps
            && known.rounds <= 2
        {
            let since = now - last;
            // Dividing loses less than a nanosecond at each end, and stretching as much.
            prop_assert!(
                since + was_late + 64 >= shortest / 2,
                "slot {slot} ran {since} ns after it ran, intervals from {shortest}"
            );
            prop_assert!(
                since <= 2 * longest + late + 64,
                "slot {slot} ran {since} ns after it ran, intervals to {longest}"
            );
            if known.is_undisturbed {
                prop_assert!(
                    (since + was_late - late).abs_diff(interval) <= 1,
                    "slot {slot} ran {since} ns after it ran, interval {interval}"
                );
            }
        }
        (known.last, known.is_undisturbed, known.rounds) = (Some((now, late, [interval; 2])), is_calm, 0);
        Ok(())
    }

    /// Of three rounds in a row, each member has a turn in two: in the first it may not be one yet, and one it may skip.
    fn nobody_waits_too_long(&self) -> Checked {
        for (slot, known) in self.slots.iter().filter(|(_, known)| known.is_wanted) {
            prop_assert!(known.rounds <= 3, "slot {slot} had no turn in {} rounds", known.rounds);
        }
        Ok(())
    }
}

fn event() -> impl Strategy<Value = Event> {
    // Few slots, in several words of the set.
    let slot = || prop_oneof![0..6_u32, 60..70_u32, Just(1023_u32)];
    let interval = prop_oneof![1..5_u64, 100..5000_u64].prop_map(|ms| ms * MILLISECOND);
    prop_oneof![
        8 => (1..20_u8).prop_map(Event::Pass),
        4 => slot().prop_map(Event::Join),
        3 => slot().prop_map(Event::Leave),
        2 => slot().prop_map(Event::Sleep),
        2 => slot().prop_map(Event::Wake),
        1 => interval.prop_map(Event::Interval),
        1 => (0..10_000_u64).prop_map(|ms| Event::Ahead(ms * MILLISECOND + 1)),
        1 => (1000..10_000_u64).prop_map(|ms| Event::Back(ms * MILLISECOND + 1)),
    ]
}

fn checked(cases: u32, fault: Option<Fault>) -> Result<(), TestError<Vec<Event>>> {
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let random = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
    TestRunner::new_with_rng(config, random).run(&vec(event(), 1..120), |events| {
        let mut model = Model::new(fault);
        events.iter().try_for_each(|event| model.happen(event))
    })
}

#[test]
fn turns_keep_their_distance_whatever_happens() {
    checked(500, None).unwrap_or_else(|failure| panic!("{failure}"));
}

#[test]
fn planted_faults_are_found() {
    for (how, expected) in
        [(Fault::Forgets, "may run again"), (Fault::Hurries, "have turns at"), (Fault::Waits, "is not served")]
    {
        let Err(TestError::Fail(why, _)) = checked(300, Some(how)) else { panic!("{how:?} was not found") };
        assert!(why.message().contains(expected), "{how:?}: {why}");
    }
}
