//! Two profiles compared, site by site.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::profile::{Amount, Frame, Measure, Profile, Stack};
use crate::table::innermost;

/// A site in both profiles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The stack, innermost first; with lines of the later profile, if it is there.
    pub stack: Stack,
    /// The site in the first profile.
    pub before: Amount,
    /// The site in the second profile.
    pub after: Amount,
}

impl Change {
    /// By how many bytes it grew.
    pub fn growth(&self) -> i128 {
        i128::from(self.after.bytes) - i128::from(self.before.bytes)
    }
}

/// The files of both profiles whose builds differ. Lines of such files say nothing about the other profile.
pub fn rebuilt(before: &Profile, after: &Profile) -> Vec<String> {
    let differs = |(file, id): &(&String, &String)| {
        file.starts_with('/') && after.builds.get(*file).is_some_and(|other| other != *id)
    };
    let mut files: Vec<String> = before.builds.iter().filter(differs).map(|(file, _)| file.clone()).collect();
    files.sort();
    files
}

/// All sites that changed: those that grew most first, those that shrank most last. Sites are the same if their `depth`
/// innermost functions are, and their lines too unless a file was rebuilt.
pub fn changes(before: &Profile, after: &Profile, measure: Measure, depth: usize) -> Vec<Change> {
    let with_lines = rebuilt(before, after).is_empty();
    let mut sites: BTreeMap<Stack, Change> = BTreeMap::new();
    for (profile, is_after) in [(before, false), (after, true)] {
        for sample in &profile.samples {
            let stack = innermost(sample, depth);
            let key = if with_lines { stack.clone() } else { stack.iter().map(without_line).collect() };
            let nothing = Amount::default();
            let change =
                sites.entry(key).or_insert_with(|| Change { stack: Stack::new(), before: nothing, after: nothing });
            if is_after || change.stack.is_empty() {
                change.stack = stack;
            }
            let amount = sample.amount(measure);
            if is_after {
                change.after += amount;
            } else {
                change.before += amount;
            }
        }
    }
    let mut changes: Vec<Change> = sites.into_values().filter(|change| change.before != change.after).collect();
    changes.sort_by_key(|change| std::cmp::Reverse(change.growth()));
    changes
}

fn without_line(frame: &Arc<Frame>) -> Arc<Frame> {
    Arc::new(Frame { line: 0, ..frame.as_ref().clone() })
}
