//! A server that peaks and goes idle, the bundled program of that name: what it costs its mallocs that memory is given back in the
//! background, and how much is.
//!
//! All are told the same interval: ours in its settings; jemalloc by MALLOC_CONF, with a thread of its own that purges, and pages that go at
//! once when they have been idle for an interval; mimalloc by its variables, without the four times longer delay that it has for whole areas, and
//! without pieces of 2 MiB, as with both it gives hardly anything back here. mimalloc purges in its callers only, so that an idle process keeps what
//! it has. glibc knows no interval, and snmalloc, which gives nothing back, is left out.

use anyhow::Result;
use commensal_lab::arm::{Arm, COMMENSAL, GLIBC};
use commensal_lab::blocks::Subject;
use commensal_lab::metric::Metric;
use commensal_lab::process::Run;

use crate::musts::SNMALLOC;
use crate::parts::{Bench, Part};

/// What the part is called.
pub const UPKEEP: &str = "upkeep";
/// The arm without it, the baseline.
const WITHOUT: &str = "commensal without";

/// Places of the metrics that are judged.
pub const MALLOC: usize = 0;
pub const RESIDENT: usize = 3;

const INTERVAL_MS: &str = "500";

/// What the program's lines are called, and which of their words counts: the one for 99.9 %.
const LINES: [(&str, Metric); 3] = [
    ("malloc", slowest("malloc_p999_ns", "malloc, p99.9")),
    ("touch", slowest("touch_p999_ns", "first writes, p99.9")),
    ("free", slowest("free_p999_ns", "free, p99.9")),
];
const OF_LINE: usize = 3;
const AFTER_PEAK: Metric = Metric {
    name: "resident_over_live",
    unit: "1",
    title: "anonymous memory over live, two intervals after the peak",
    words: ["less", "more"],
    resolution: 1e-4,
};

const fn slowest(name: &'static str, title: &'static str) -> Metric {
    // It is printed as whole nanoseconds, of buckets.
    Metric { name, unit: "ns", title, words: ["faster", "slower"], resolution: 1.0 }
}

impl Bench {
    /// One server under each allocator, with what idles given back.
    pub fn upkeep(&self) -> Result<Part> {
        let mut subject = self.bundled("server", &["server", INTERVAL_MS]);
        // Each is read by its own allocator only, so that all arms may have all of them.
        let decay = format!("background_thread:true,dirty_decay_ms:{INTERVAL_MS},muzzy_decay_ms:0");
        let told = [
            ("MALLOC_CONF", decay.as_str()),
            ("MIMALLOC_PURGE_DELAY", INTERVAL_MS),
            ("MIMALLOC_ARENA_PURGE_MULT", "1"),
            ("MIMALLOC_ALLOW_THP", "1"),
        ];
        subject.program.environment.extend(told.map(|(name, value)| (name.into(), value.into())));
        let metrics = LINES.map(|(_, metric)| metric).into_iter().chain([AFTER_PEAK]).collect();
        let subject = Subject { metrics, read, prints_the_same: false, ..subject };
        self.measure(UPKEEP, "a server that peaks and goes idle", vec![subject], &self.purging())
    }

    /// The allocators that give memory back, and the baseline: ours without.
    fn purging(&self) -> Vec<Arm> {
        let told = |arm: &Arm| match arm.name.as_str() {
            COMMENSAL => Arm { settings: Some(format!("upkeep.interval_ms:{INTERVAL_MS}")), ..arm.clone() },
            _ => arm.clone(),
        };
        let ours = self.arms.iter().filter(|arm| arm.name == COMMENSAL);
        let without =
            ours.map(|arm| Arm { name: WITHOUT.to_owned(), settings: Some("upkeep:off".to_owned()), ..arm.clone() });
        let glibc_last = |arm: &&Arm| arm.name == GLIBC;
        let mut others: Vec<&Arm> = self.arms.iter().filter(|arm| arm.name != SNMALLOC).collect();
        others.sort_by_key(glibc_last);
        without.chain(others.into_iter().map(told)).collect()
    }
}

fn read(_: &Run, printed: &str) -> Option<Vec<f64>> {
    let words = |name: &str| {
        let line = printed.lines().find(|line| line.split(' ').next() == Some(name))?;
        Some(line.split(' ').skip(1).filter_map(|word| word.parse().ok()).collect::<Vec<f64>>())
    };
    let slowest = LINES.iter().map(|(name, _)| words(name)?.get(OF_LINE - 1).copied());
    let [_, live, resident] = words("memory")?.try_into().ok()?;
    slowest.chain([Some(resident / live)]).collect()
}
