//! Samples summed by call site, function, thread, group, region or lifetime.

use std::collections::{BTreeMap, HashSet};

use crate::profile::{Amount, Measure, Profile, Sample, Stack};

/// By which fact samples are summed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// So many frames of the stack, from the innermost on.
    Site(usize),
    /// The innermost function.
    Function,
    /// The thread that allocated.
    Thread,
    /// The memory group.
    Group,
    /// The region of the program.
    Region,
    /// How long blocks lived before they were freed.
    Lifetime,
}

/// What samples have in common.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// A stack, innermost first.
    Stack(Stack),
    /// A function or a word.
    Word(String),
    /// Blocks that were freed lived at most so many nanoseconds.
    Lifetime(u64),
    /// The samples do not say.
    None,
}

/// Samples with the same key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// What they have in common.
    pub key: Key,
    /// Their sum.
    pub own: Amount,
    /// By function: also the samples below the function, anywhere in the stack.
    pub with_callees: Amount,
}

/// Rows with something in them, most bytes first; lifetimes from short to long.
pub fn rows(profile: &Profile, measure: Measure, by: By) -> Vec<Row> {
    let mut sums: BTreeMap<Key, [Amount; 2]> = BTreeMap::new();
    for sample in &profile.samples {
        let amount = sample.amount(measure);
        if amount == Amount::default() {
            continue;
        }
        sums.entry(key(sample, by)).or_default()[0] += amount;
        if by == By::Function {
            let functions: HashSet<&str> = sample.stack.iter().map(|frame| frame.function.as_str()).collect();
            for function in functions {
                sums.entry(Key::Word(function.to_owned())).or_default()[1] += amount;
            }
        }
    }
    let row = |(key, [own, with_callees]): (Key, [Amount; 2])| Row { key, own, with_callees };
    let mut rows: Vec<Row> = sums.into_iter().map(row).collect();
    if by != By::Lifetime {
        rows.sort_by_key(|row| (std::cmp::Reverse((row.own, row.with_callees)), row.key.clone()));
    }
    rows
}

/// So many frames of a sample's stack, from the innermost on.
pub fn innermost(sample: &Sample, depth: usize) -> Stack {
    sample.stack.iter().take(depth).cloned().collect()
}

fn key(sample: &Sample, by: By) -> Key {
    let word = |word: &Option<String>| word.clone().map_or(Key::None, Key::Word);
    match by {
        By::Site(depth) => Key::Stack(innermost(sample, depth)),
        By::Function => word(&sample.stack.first().map(|frame| frame.function.clone())),
        By::Thread => word(&sample.thread),
        By::Group => word(&sample.group),
        By::Region => word(&sample.region),
        By::Lifetime => sample.lifetime_ns.map_or(Key::None, Key::Lifetime),
    }
}
