//! What a server has to do at which time: numbers in, numbers out.
//!
//! ```text
//!                                              ╱▏
//!   held          ╱╲        ╱╲                ╱ ▏
//!   besides  ____╱  ╲______╱  ╲______________╱  ▏______ idle
//! ```

use fastrand::Rng;

/// Milliseconds from one look at what has come in to the next.
pub const TICK_MS: u64 = 1;
/// Ticks in which a burst grows, and in which it shrinks again.
const BURST: [u64; 2] = [60, 40];
/// Ticks in which the peak grows; what it needed goes at once.
const PEAK: [u64; 2] = [200, 1];

/// The work of one thread; all have the same.
#[derive(Clone, Debug)]
pub struct Load {
    /// Bytes of what stays, at least.
    pub live_bytes: usize,
    /// Requests in each tick.
    pub requests: u64,
    /// How many ticks there are before it goes idle.
    pub ticks: u64,
    surges: Vec<Surge>,
}

/// More memory for a while.
#[derive(Clone, Debug)]
struct Surge {
    start: u64,
    grows: u64,
    shrinks: u64,
    bytes: usize,
}

impl Load {
    /// So many intervals with bursts, one to two and a half intervals apart, and then the peak, in which all is four times of what stays.
    pub fn new(live_bytes: usize, requests: u64, interval_ms: u64, intervals: u64) -> Load {
        let interval = interval_ms.div_ceil(TICK_MS);
        let mut rng = Rng::with_seed(9);
        let surge = |start, [grows, shrinks]: [u64; 2], bytes| Surge { start, grows, shrinks, bytes };
        let end = interval * intervals;
        let starts = std::iter::successors(Some(interval / 2), |start| {
            Some(start + BURST.iter().sum::<u64>() + rng.u64(interval..=interval * 5 / 2))
        });
        let bursts = starts.take_while(|start| start + BURST.iter().sum::<u64>() <= end);
        let mut surges: Vec<Surge> = bursts.map(|start| surge(start, BURST, live_bytes)).collect();
        surges.push(surge(end, PEAK, 3 * live_bytes));
        Load { live_bytes, requests, ticks: end + PEAK.iter().sum::<u64>(), surges }
    }

    /// Bytes that are held at the end of a tick, besides what stays.
    pub fn held_bytes(&self, tick: u64) -> usize {
        self.surges.iter().map(|surge| surge.bytes_at(tick)).sum()
    }
}

impl Surge {
    fn bytes_at(&self, tick: u64) -> usize {
        let Some(ticks) = (tick + 1).checked_sub(self.start) else { return 0 };
        let part = |ticks: u64, of: u64| (self.bytes as u64 * ticks / of) as usize;
        match ticks.checked_sub(self.grows) {
            None => part(ticks, self.grows),
            Some(since) => part(self.shrinks.saturating_sub(since), self.shrinks),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bursts_come_apart_and_the_peak_is_last() {
        let load = Load::new(1000, 1, 500, 8);
        let held: Vec<usize> = (0..load.ticks).map(|tick| load.held_bytes(tick)).collect();
        assert_eq!(held[load.ticks as usize - 2], 3000, "the peak");
        assert_eq!(held[load.ticks as usize - 1], 0, "what it needed goes at once");
        let steady = &held[..load.ticks as usize - 201];
        assert_eq!(steady.iter().max(), Some(&1000));
        let bursts = steady.windows(2).filter(|two| two[0] == 0 && two[1] > 0).count();
        assert_eq!(bursts, load.surges.len() - 1);
        assert!((3..=6).contains(&bursts), "{bursts} in 8 intervals");
    }

    #[test]
    fn a_burst_grows_evenly_and_shrinks_evenly() {
        let surge = Surge { start: 5, grows: 4, shrinks: 2, bytes: 400 };
        let bytes: Vec<usize> = (3..13).map(|tick| surge.bytes_at(tick)).collect();
        assert_eq!(bytes, [0, 0, 100, 200, 300, 400, 200, 0, 0, 0]);
    }
}
