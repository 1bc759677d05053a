//! What drives a server, and what that takes.

use std::time::Duration;

use anyhow::Result;

/// Connections to a server.
pub const CONNECTIONS: usize = 16;

/// What sends requests to a server, and checks the answers.
pub trait Driver {
    /// Whether the server answers already.
    fn is_answered(&mut self) -> Result<bool>;
    /// Fills the server with data.
    fn fill(&mut self) -> Result<()>;
    /// Requests per second that a closed loop reaches in this time.
    fn rate(&mut self, time: Duration) -> Result<f64>;
    /// The time of this many requests in a closed loop.
    fn closed(&mut self, requests: u64) -> Result<Duration>;
    /// An open loop at `rate` requests per second. Calls `then` while all connections are still open.
    fn open(&mut self, rate: f64, time: Duration, then: &mut dyn FnMut() -> Result<()>) -> Result<Took>;
}

/// What a loop took.
pub struct Took {
    /// From the first request to the last answer.
    pub wall: Duration,
    /// By request: the time from when it should have been sent to its answer.
    pub latencies: Vec<Duration>,
}

impl Took {
    /// The latency that this part of the requests does not exceed.
    pub fn quantile(&mut self, part: f64) -> Option<Duration> {
        let rank = ((self.latencies.len() as f64 * part).ceil() as usize).saturating_sub(1);
        let has_one = rank < self.latencies.len();
        has_one.then(|| *self.latencies.select_nth_unstable(rank).1)
    }
}
