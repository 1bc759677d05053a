//! Property tests: sequences of calls at random, on a set of counters, against one number for each.
//!
//! The calls come one after another, some from other threads than the one before, each of which is born for it: they find a set that is
//! nobody's, theirs, another's, that of a dead thread whose id they have, or upgraded. After each call every way to read is compared with the
//! model; at the end the blocks that are in use are counted. Sets have the usual range, the smallest, and a large one.

mod common;

use commensal_runtime::counter::{CounterSet, DEFAULT_RANGE};
use commensal_runtime::machine::slot;
use commensal_runtime::percpu::Area;
use common::programs::hold;
use proptest::arbitrary::any;
use proptest::collection::vec;
use proptest::prop_oneof;
use proptest::strategy::{BoxedStrategy, Just, Strategy};

const COUNTERS: usize = 3;

#[derive(Clone, Copy, Debug)]
enum Call {
    Add(i64),
    Sub(i64),
    AddRemote(i64),
    /// An amount, and a limit seen from what the counter is.
    LimitedAdd(i64, i64),
    /// So many additions of one.
    AddOften(u16),
    Set(i64),
    Reset,
    Share,
    Rebind,
}

/// A call, for which counter, and whether another thread makes it.
type Step = (Call, usize, bool);

fn amounts() -> BoxedStrategy<i64> {
    prop_oneof![
        8 => -2i64..=2,
        8 => -1500i64..=1500,
        2 => -(1i64 << 33)..(1 << 33),
        1 => prop_oneof![Just(1i64 << 30), Just((1 << 30) - 1), Just(-(1 << 30)), Just(1 << 28), Just(1 << 29)],
    ]
    .boxed()
}

fn calls(amounts: BoxedStrategy<i64>) -> impl Strategy<Value = Call> {
    prop_oneof![
        8 => amounts.clone().prop_map(Call::Add),
        4 => amounts.clone().prop_map(Call::Sub),
        4 => amounts.clone().prop_map(Call::AddRemote),
        6 => (amounts.clone(), -2000i64..=2000).prop_map(|(amount, limit)| Call::LimitedAdd(amount, limit)),
        3 => (1u16..1500).prop_map(Call::AddOften),
        1 => amounts.prop_map(Call::Set),
        1 => Just(Call::Reset),
        1 => Just(Call::Share),
        1 => Just(Call::Rebind),
    ]
}

fn steps(amounts: BoxedStrategy<i64>) -> impl Strategy<Value = Vec<Step>> {
    vec((calls(amounts), 0..COUNTERS, any::<bool>()), 1..60)
}

#[derive(Default)]
struct Model {
    values: [i64; COUNTERS],
}

impl Model {
    /// Makes a call, and says what is wrong with what came of it.
    fn take<const RANGE: i32>(
        &mut self, set: &CounterSet<COUNTERS, RANGE>, call: Call, index: usize,
    ) -> Result<(), String> {
        let value = &mut self.values[index];
        let mut add = |amount: i64| *value = value.wrapping_add(amount);
        match call {
            Call::Add(amount) => {
                set.add(index, amount);
                add(amount);
            }
            Call::Sub(amount) => {
                set.sub(index, amount);
                add(amount.wrapping_neg());
            }
            Call::AddRemote(amount) => {
                set.add_remote(index, amount);
                add(amount);
            }
            Call::AddOften(times) => {
                (0..times).for_each(|_| set.add(index, 1));
                add(times.into());
            }
            Call::LimitedAdd(amount, room) => {
                let limit = value.saturating_add(room);
                let room = i128::from(limit) - i128::from(*value);
                let got = set.limited_add(index, amount, limit);
                *value = value.wrapping_add(if got { amount } else { 0 });
                // Refused where there is no room for it, and nowhere else.
                if got != (amount <= 0 || i128::from(amount) <= room) {
                    return Err(format!("{amount} where there is room for {room}: {got}"));
                }
            }
            Call::Set(to) => {
                set.set(index, to);
                *value = to;
            }
            Call::Reset => {
                let was = set.reset(index);
                if was != std::mem::take(value) {
                    return Err(format!("reset said {was}"));
                }
            }
            Call::Share => set.share().map_err(|_| "no memory")?,
            Call::Rebind => unreachable!("by whom has it alone"),
        }
        Ok(())
    }

    fn check<const RANGE: i32>(&self, set: &CounterSet<COUNTERS, RANGE>) -> Result<(), String> {
        for (index, &value) in self.values.iter().enumerate() {
            let (sum, reading) = (set.sum(index), set.read(index));
            if sum != value || set.sum_positive(index) != value.max(0) {
                return Err(format!("counter {index} is {value}, and its sum {sum}"));
            }
            let off = reading.value.wrapping_sub(value).unsigned_abs();
            let by_slots = u64::from(slot::in_use()) * RANGE as u64 / 2;
            let most = if set.is_shared() { by_slots.max(reading.value.unsigned_abs() / 1000) } else { 0 };
            let error_is_right = reading.error <= most;
            if off > reading.error || !error_is_right || set.read_positive(index).value != reading.value.max(0) {
                return Err(format!("counter {index} is {value}, and reads as {reading:?}"));
            }
            let around = [value.checked_sub(1), Some(value), value.checked_add(1)].into_iter().flatten();
            let wrong = |&with: &i64| set.compare(index, with) != value.cmp(&with);
            // What a reading near the ends of 64 bits is worth: see `comparisons_near_the_ends`.
            if let Some(with) = around.take_while(|_| value.unsigned_abs() < 1 << 62).find(wrong) {
                return Err(format!("counter {index} is {value}, and {:?} than {with}", set.compare(index, with)));
            }
        }
        Ok(())
    }
}

fn run<const RANGE: i32>(steps: &[Step]) -> Result<(), String> {
    let area = Area::of_process().expect("there is address space");
    let before = area.in_use();
    let (mut set, mut model) = (CounterSet::<COUNTERS, RANGE>::with_range(), Model::default());
    for (number, &(call, index, elsewhere)) in steps.iter().enumerate() {
        let mut step = || match call {
            Call::Rebind => {
                set.rebind();
                if set.is_shared() { Err("it is still shared".to_string()) } else { Ok(()) }
            }
            call => model.take(&set, call, index),
        };
        let mut taken = Ok(());
        if elsewhere {
            common::run(vec![Box::new(|| taken = step())])
        } else {
            taken = step()
        }
        let is_right = taken.and_then(|()| model.check(&set));
        is_right.map_err(|wrong| format!("after call {number}, {call:?} of {index}: {wrong}"))?;
    }
    let (found, expected) = (area.in_use(), before + u64::from(set.is_shared()));
    if found == expected { Ok(()) } else { Err(format!("{found} blocks are in use instead of {expected}")) }
}

/// Planted: `set` that stores in the local word, `reset` that forgets the remote word, `read_positive` that clamps the sum only, `compare` that
/// trusts a reading, a stock of another range than the block's.
#[test]
fn counter_any_calls() {
    hold(1.0, (steps(amounts()), 0..3), |(steps, range)| match range {
        0 => run::<DEFAULT_RANGE>(steps),
        1 => run::<4>(steps),
        _ => run::<{ 1 << 20 }>(steps),
    });
}

/// Sums and readings are modulo 2^64. Limits come near the values here, but not where the amounts wrap: see `limits_of_what_wrapped`.
///
/// Planted: `abs_diff` of a reading and a value as 64 bits.
#[test]
fn counter_amounts_at_the_ends_of_64_bits() {
    let ends = prop_oneof![Just(i64::MAX), Just(i64::MIN), any::<i64>(), -1000i64..=1000];
    let without_limits = steps(ends.boxed()).prop_map(|mut steps| {
        steps.retain(|step| !matches!(step.0, Call::LimitedAdd(..)));
        steps
    });
    hold(0.5, without_limits, |steps| run::<DEFAULT_RANGE>(steps));
}
