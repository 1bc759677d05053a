//! The arbiter gives a line to the nearest waiter, until other clusters have waited their turn; then to the longest.
//!
//! Of a fixed number of transfers, each cluster with waiters gets an equal share. So with more waiting clusters, the
//! line travels far more often. This matches published curves. On a machine with eight sockets, an addition takes
//! hardly longer when the second socket begins to wait, and half as long again when all do.

use super::costs::Costs;
use std::collections::VecDeque;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    Read,
    Write,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiter {
    pub cpu: u32,
    /// When the CPU asked.
    pub asked_at: u64,
    pub purpose: Use,
    /// Duration of the operation once the line has come.
    pub own: u64,
}

/// The waiters for a line, by cluster, in order of arrival.
pub struct Queue {
    of_clusters: Vec<VecDeque<Waiter>>,
    waiting: usize,
    /// Transfers in a row to the same cluster, and that cluster.
    in_a_row: u32,
    last: Option<usize>,
}

impl Queue {
    pub fn new(clusters: usize) -> Self {
        Queue { of_clusters: vec![VecDeque::new(); clusters], waiting: 0, in_a_row: 0, last: None }
    }

    pub fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    pub fn join(&mut self, cluster: usize, waiter: Waiter) {
        self.of_clusters[cluster].push_back(waiter);
        self.waiting += 1;
    }

    /// Gives the line at cluster `holder` (none: in memory) to the next waiter. At most one step per cluster.
    pub fn take(&mut self, costs: &Costs, holder: Option<usize>) -> Option<Waiter> {
        let near = holder.filter(|&cluster| !self.of_clusters[cluster].is_empty());
        let stays = near.filter(|&cluster| self.may_stay(costs, cluster));
        let cluster = stays.or_else(|| self.longest_waiting(holder)).or(near)?;
        let waiter = self.of_clusters[cluster].pop_front()?;
        self.waiting -= 1;
        let is_same = self.last.replace(cluster) == Some(cluster);
        self.in_a_row = if is_same { self.in_a_row.saturating_add(1) } else { 1 };
        Some(waiter)
    }

    fn may_stay(&self, costs: &Costs, cluster: usize) -> bool {
        if self.last != Some(cluster) || self.of_clusters[cluster].len() == self.waiting {
            return true;
        }
        let clusters = self.of_clusters.iter().filter(|waiters| !waiters.is_empty()).count() as u32;
        self.in_a_row < (costs.turn / clusters).max(1)
    }

    fn longest_waiting(&self, but_for: Option<usize>) -> Option<usize> {
        let fronts = self.of_clusters.iter().enumerate().filter(|(cluster, _)| Some(*cluster) != but_for);
        let fronts = fronts.filter_map(|(cluster, waiters)| waiters.front().map(|waiter| (cluster, waiter)));
        fronts.min_by_key(|(_, waiter)| (waiter.asked_at, waiter.cpu)).map(|(cluster, _)| cluster)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster(cpu: u32) -> usize {
        cpu as usize / 2
    }

    fn waiter(cpu: u32, asked_at: u64) -> Waiter {
        Waiter { cpu, asked_at, purpose: Use::Write, own: 0 }
    }

    /// The order in which CPUs get a line that is at CPU 0, if each asks again at once.
    fn order(turn: u32, cpus: &[u32], count: usize) -> Vec<u32> {
        let costs = Costs { turn, ..Costs::SIMPLE };
        let mut queue = Queue::new(4);
        cpus.iter().zip(0..).for_each(|(&cpu, at)| queue.join(cluster(cpu), waiter(cpu, at)));
        let mut holder = 0;
        let next = |at: usize| {
            let next = queue.take(&costs, Some(cluster(holder))).expect("somebody waits");
            holder = next.cpu;
            queue.join(cluster(holder), waiter(holder, (100 + at) as u64));
            holder
        };
        (0..count).map(next).collect()
    }

    #[test]
    fn arbiter_prefers_the_nearest_until_others_have_their_turn() {
        assert_eq!(order(6, &[6, 4, 2, 0, 1], 8), [0, 6, 4, 2, 1, 6, 0, 4], "four clusters have one each");
        assert_eq!(order(6, &[6, 0, 1], 9), [0, 1, 0, 6, 6, 6, 1, 0, 1], "two have three");
        assert_eq!(order(u32::MAX, &[6, 2, 0, 1], 5), [0, 1, 0, 1, 0], "for ever");
        assert_eq!(order(1, &[6, 2, 0, 1], 5), [0, 6, 2, 1, 6], "never twice");
        assert_eq!(order(2, &[0, 1], 6), [0, 1, 0, 1, 0, 1], "no other cluster waits");
    }

    #[test]
    fn arbiter_of_a_line_in_memory_serves_the_first_to_ask() {
        let mut queue = Queue::new(4);
        assert!(queue.is_empty() && queue.take(&Costs::SIMPLE, None).is_none());
        [(7, 3), (1, 2), (5, 9)]
            .into_iter()
            .for_each(|(cpu, asked_at)| queue.join(cluster(cpu), waiter(cpu, asked_at)));
        assert_eq!(queue.take(&Costs::SIMPLE, None).map(|waiter| waiter.cpu), Some(1));
        assert!(!queue.is_empty());
    }
}
