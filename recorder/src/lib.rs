//! A recorder for the facade [`metrics`], whose counters and gauges are Commensal's lazy counters.
//!
//! A program that counts by that facade changes one line:
//!
//! ```no_run
//! # fn main() -> Result<(), commensal_metrics::Error> {
//! // metrics_exporter_prometheus::PrometheusBuilder::new().install()?;
//! commensal_metrics::Builder::new().install()?;
//! # Ok(())
//! # }
//! ```
//!
//! Everything else stays: `counter!`, `gauge!`, `histogram!`, descriptions and units. It answers on `127.0.0.1:9000/metrics`, in the text format of OpenMetrics.
//! The allocator stays the program's own.
//!
//! # What it costs
//!
//! An increment is a plain addition while one thread does it; when others come, an addition in a line of the CPU. Nobody waits for a line that
//! others write, however many there are; nor do look-ups by the macros, as each thread keeps handles of its own. What is left is the facade's
//! call through a table of functions, which takes as long as an atomic addition that nobody else wants: with one thread nothing is gained or lost
//! but by a [`DirectCounter`], which counts in the same counter without that call. `docs/design/recorder.md` of the project has the figures.
//!
//! # Counters
//!
//! Sums are exact: no increment is lost between threads, in forks, or in a signal handler that has a handle. They are modulo 2^64. `absolute` has a
//! counter be at least that value, and increments at the same time come on top. Readings one after another never fall, unless 2^64 was passed.
//!
//! # Gauges
//!
//! Increments and decrements by whole numbers below 2^29 cost what a counter's do, and are exact. Fractions and `set` exchange sixteen bytes, at
//! which threads may meet. An increment at the same time as a `set` is before it, and gone, or after it, and stays. NaN and infinities
//! do what they do in `f64`.
//!
//! # Histograms
//!
//! are not our mechanism: what they keep is that of `metrics-util`, in a part with a lock for each CPU. They are told as summaries, of all values since the
//! beginning, or with [`Builder::buckets`] as histograms. The format has neither sums nor quantiles that are negative: those a [`Snapshot`] has only.
//!
//! # Names
//!
//! What OpenMetrics does not have in names becomes `_`; units stand at the end of a name, and `_total` at the end of a counter's, as
//! that exporter has them with `with_recommended_naming(true)`. Keys that look the same then are told apart by a label `original`, families by their kind.
//!
//! # Forks
//!
//! A child has the parent's values as they were and counts on from there, by handles and by keys that its thread has used. The first use of another key,
//! histograms and rendering take locks of the standard library: if another thread of the parent was in the midst of that, the child waits for ever.
//! The endpoint's thread stays with the parent.
#![forbid(unsafe_code)]

mod builder;
mod counter;
mod direct;
mod endpoint;
mod exposition;
mod gauge;
mod histogram;
mod recorder;
mod registry;

pub use builder::{Builder, DEFAULT_ADDRESS, Error};
pub use direct::{DirectCounter, DirectGauge};
pub use histogram::Distribution;
pub use recorder::{Recorder, Snapshot};
