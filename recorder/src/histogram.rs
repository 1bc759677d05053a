//! Histograms: what the facade's own crate keeps of values, in as many parts as there are CPUs.
//!
//! This is no mechanism of the runtime's: each part has a lock, and a thread always uses the same part, by a number that threads get
//! in turn. So threads meet at a lock if there are more of them than CPUs, or if their numbers happen to be far apart by as many. A part is made by
//! the first thread that needs it. Not for signal handlers; and in the child of a fork whoever meets a lock that a vanished thread held waits for ever.

use metrics_util::storage;
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;

/// Quantiles are off by this part of the value at most, unless values differ by more than `SKETCH_BINS` times as much.
const SKETCH_ERROR: f64 = 0.005;
const SKETCH_BINS: u32 = 4096;
/// Smaller values count as zero.
const SKETCH_LEAST: f64 = 1e-9;
const MOST_PARTS: usize = 64;

/// What is told of the values.
#[derive(Debug)]
pub enum Shape {
    /// A summary: these quantiles, of all values since the beginning.
    Quantiles(Vec<f64>),
    /// A histogram: how many values are at most each of these bounds, which rise.
    Buckets(Vec<f64>),
}

/// The distribution of many values.
#[derive(Debug)]
pub struct Histogram {
    shape: Arc<Shape>,
    parts: Box<[OnceLock<Box<Part>>]>,
}

/// A line of its own, as its lock is written by one thread as a rule.
#[derive(Debug)]
#[repr(align(64))]
struct Part(Mutex<Samples>);

#[derive(Debug)]
struct Samples {
    count: u64,
    sum: f64,
    kept: Kept,
}

#[derive(Debug)]
enum Kept {
    Sketch(storage::Summary),
    Buckets(storage::Histogram),
    /// There are no bounds.
    Nothing,
}

/// What a histogram holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Distribution {
    /// How many values were recorded.
    pub count: u64,
    /// Their sum; NaN or infinite once a value was.
    pub sum: f64,
    /// Quantiles and what they are, of the finite values; NaN if there are none. Empty if there are buckets.
    pub quantiles: Vec<(f64, f64)>,
    /// Bounds, and how many values are at most that.
    pub buckets: Vec<(f64, u64)>,
}

impl Histogram {
    pub(crate) fn new(shape: Arc<Shape>) -> Self {
        let parts = thread::available_parallelism().map_or(1, usize::from).next_power_of_two().min(MOST_PARTS);
        Histogram { shape, parts: (0..parts).map(|_| OnceLock::new()).collect() }
    }

    /// Records a value so many times.
    pub(crate) fn record_many(&self, value: f64, count: usize) {
        let mut samples = self.own_part();
        (0..count).for_each(|_| samples.record(value));
    }

    fn own_part(&self) -> MutexGuard<'_, Samples> {
        let part = &self.parts[number_of_thread() & (self.parts.len() - 1)];
        lock(part.get_or_init(|| Box::new(Part(Mutex::new(Samples::new(&self.shape))))))
    }

    /// What all parts hold. Values that are recorded at the same time may be in it or not.
    pub fn distribution(&self) -> Distribution {
        let mut parts = self.parts.iter().filter_map(OnceLock::get);
        let mut all = Samples::new(&self.shape);
        let mut buckets = all.buckets();
        let mut add = |part: &Part| {
            let samples = lock(part);
            all.count += samples.count;
            all.sum += samples.sum;
            if let (Kept::Sketch(all), Kept::Sketch(sketch)) = (&mut all.kept, &samples.kept) {
                all.merge(sketch).expect("sketches of one histogram are alike");
            }
            for (sum, (_, count)) in buckets.iter_mut().zip(samples.buckets()) {
                sum.1 += count;
            }
        };
        parts.by_ref().for_each(|part| add(part));
        let quantiles = match (&*self.shape, &all.kept) {
            (Shape::Quantiles(quantiles), Kept::Sketch(sketch)) => {
                quantiles.iter().map(|&quantile| (quantile, sketch.quantile(quantile).unwrap_or(f64::NAN))).collect()
            }
            _ => Vec::new(),
        };
        Distribution { count: all.count, sum: all.sum, quantiles, buckets }
    }
}

/// Nobody panics with the lock; if somebody does, counts are as good as they were.
fn lock(part: &Part) -> MutexGuard<'_, Samples> {
    part.0.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Threads are numbered as they come.
fn number_of_thread() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    const NONE: usize = usize::MAX;
    thread_local! { static NUMBER: Cell<usize> = const { Cell::new(NONE) } }
    NUMBER.with(|number| {
        if number.get() == NONE {
            // Relaxed: numbers need only differ.
            number.set(NEXT.fetch_add(1, Ordering::Relaxed) % NONE);
        }
        number.get()
    })
}

impl Samples {
    fn new(shape: &Shape) -> Self {
        let kept = match shape {
            Shape::Quantiles(_) => Kept::Sketch(storage::Summary::new(SKETCH_ERROR, SKETCH_BINS, SKETCH_LEAST)),
            Shape::Buckets(bounds) => storage::Histogram::new(bounds).map_or(Kept::Nothing, Kept::Buckets),
        };
        Samples { count: 0, sum: 0.0, kept }
    }

    fn record(&mut self, value: f64) {
        self.count += 1;
        self.sum += value;
        match &mut self.kept {
            // What is no number has no place among the others.
            Kept::Sketch(sketch) if value.is_finite() => sketch.add(value),
            Kept::Buckets(buckets) => buckets.record(value),
            Kept::Sketch(_) | Kept::Nothing => {}
        }
    }

    fn buckets(&self) -> Vec<(f64, u64)> {
        if let Kept::Buckets(buckets) = &self.kept { buckets.buckets() } else { Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quantiles() -> Histogram {
        Histogram::new(Arc::new(Shape::Quantiles(vec![0.0, 0.5, 1.0])))
    }

    #[test]
    fn what_threads_record_is_all_there() {
        for shape in [Shape::Quantiles(vec![0.5]), Shape::Buckets(vec![10.0, 500.0])] {
            let histogram = Histogram::new(Arc::new(shape));
            thread::scope(|scope| {
                for thread in 0..8 {
                    let histogram = &histogram;
                    scope
                        .spawn(move || (0..1000).for_each(|value| histogram.record_many(f64::from(value + thread), 1)));
                }
            });
            let distribution = histogram.distribution();
            assert_eq!((distribution.count, distribution.sum), (8000, 8.0 * 499_500.0 + 28_000.0));
            for (_, median) in distribution.quantiles {
                assert!((median / 503.0 - 1.0).abs() < 2.0 * SKETCH_ERROR, "{median}");
            }
            if let [(_, few), (_, half)] = distribution.buckets[..] {
                // At most ten: eleven values of the first thread, ten of the second and so on.
                assert_eq!((few, half), ((4..=11).sum(), (494..=501).sum()));
            }
        }
    }

    #[test]
    fn what_is_no_number_is_counted() {
        let histogram = quantiles();
        assert!(histogram.distribution().quantiles[1].1.is_nan());
        histogram.record_many(3.0, 2);
        histogram.record_many(f64::INFINITY, 1);
        let distribution = histogram.distribution();
        assert_eq!((distribution.count, distribution.sum), (3, f64::INFINITY));
        assert_eq!(distribution.quantiles, [(0.0, 3.0), (0.5, distribution.quantiles[1].1), (1.0, 3.0)]);
        histogram.record_many(f64::NAN, 1);
        let distribution = histogram.distribution();
        assert!(distribution.count == 4 && distribution.sum.is_nan());
    }
}
