//! A sorted set: members with scores, found by either. The order is by score, then by member.
//!
//! Each member is one block that both sides share.

use std::collections::BTreeSet;
use std::ops::Range;
use std::rc::Rc;

use crate::map::Map;

/// Members in the order of their scores.
#[derive(Default)]
pub struct SortedSet {
    scores: Map<Rc<[u8]>, i64>,
    order: BTreeSet<(i64, Rc<[u8]>)>,
}

impl SortedSet {
    /// Gives a member a score. Whether the member is new.
    pub fn insert(&mut self, member: &[u8], score: i64) -> bool {
        let shared: Rc<[u8]> = member.into();
        let old = self.scores.insert(shared.clone(), score);
        if let Some(old) = old {
            self.order.remove(&(old, shared.clone()));
        }
        self.order.insert((score, shared));
        old.is_none()
    }

    /// Takes a member out. Whether it was there.
    pub fn remove(&mut self, member: &[u8]) -> bool {
        let Some((shared, score)) = self.scores.remove_entry(member) else { return false };
        self.order.remove(&(score, shared))
    }

    /// A member's score.
    pub fn score(&self, member: &[u8]) -> Option<i64> {
        self.scores.get(member).copied()
    }

    /// The members of some places, and their scores.
    pub fn range(&self, places: Range<usize>) -> impl Iterator<Item = (&[u8], i64)> {
        self.order.iter().skip(places.start).take(places.len()).map(|(score, member)| (&**member, *score))
    }

    /// How many members there are.
    pub fn len(&self) -> usize {
        self.scores.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.scores.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fastrand::Rng;

    /// Against a list that is sorted anew for each question.
    #[test]
    fn it_agrees_with_a_sorted_list() {
        let mut rng = Rng::with_seed(1);
        let (mut set, mut model) = (SortedSet::default(), Vec::<(i64, Vec<u8>)>::new());
        for step in 0..2000 {
            let member = format!("m{}", rng.u32(0..60)).into_bytes();
            let held = model.iter().position(|(_, other)| *other == member);
            assert_eq!(set.score(&member), held.map(|at| model[at].0), "step {step}");
            let gone = held.map(|at| model.swap_remove(at)).is_some();
            if rng.u32(0..3) == 0 {
                assert_eq!(set.remove(&member), gone, "step {step}");
            } else {
                let score = rng.i64(-20..20);
                assert_eq!(set.insert(&member, score), !gone, "step {step}");
                model.push((score, member));
            }
            model.sort();
            let end = rng.usize(0..=model.len());
            let places = rng.usize(0..=end)..end;
            let found: Vec<(i64, Vec<u8>)> =
                set.range(places.clone()).map(|(member, score)| (score, member.to_vec())).collect();
            assert_eq!(found, model[places], "step {step}");
            assert_eq!((set.len(), set.is_empty()), (model.len(), model.is_empty()));
            assert_eq!(set.order.len(), set.scores.len());
        }
    }
}
