//! What is measured of a run: a name that stays the same over the years, a unit, and how a person reads it. Less is better.

use crate::process::Cost;

/// One figure of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Metric {
    /// The name in the JSON.
    pub name: &'static str,
    /// The unit in the JSON: `s`, `ns`, `kB` (as the kernel says it: 1024 bytes) or `1`.
    pub unit: &'static str,
    /// What tables call it.
    pub title: &'static str,
    /// The words of a verdict: less, and more.
    pub words: [&'static str; 2],
    /// Values are multiples of it, or were rounded to it on the way.
    pub resolution: f64,
}

impl Metric {
    /// One with all of these, in their order.
    pub const fn new(
        name: &'static str, unit: &'static str, title: &'static str, words: [&'static str; 2], resolution: f64,
    ) -> Self {
        Metric { name, unit, title, words, resolution }
    }
}

/// The time between two samples, on most kernels.
const TICK_S: f64 = 0.004;

/// The words for times.
pub const FASTER: [&str; 2] = ["faster", "slower"];
/// The words for what there is less of.
pub const LESS: [&str; 2] = ["less", "more"];

/// From before the fork until the end was seen.
pub const WALL: Metric = Metric::new("wall_s", "s", "wall time", FASTER, 1e-9);
/// Processor time, of the program and of the kernel for it.
pub const CPU: Metric = Metric::new("cpu_s", "s", "processor time", LESS, 1e-6);
/// The program's part of it. Most kernels tell the parts from each other by sampling, some hundred times a second.
pub const USER: Metric = Metric { name: "user_s", title: "user time", resolution: TICK_S, ..CPU };
/// The kernel's part of it.
pub const SYSTEM: Metric = Metric { name: "system_s", title: "system time", resolution: TICK_S, ..CPU };
/// The most memory that one of its processes had.
pub const PEAK: Metric = Metric::new("peak_kb", "kB", "peak memory", LESS, 4.0);
/// Pages that were not there when they were touched.
pub const FAULTS: Metric = Metric { name: "page_faults", unit: "1", title: "page faults", resolution: 1.0, ..PEAK };
/// How often another thread had the CPU.
pub const SWITCHES: Metric = Metric { name: "context_switches", title: "context switches", ..FAULTS };

/// All of a run's.
pub const OF_A_RUN: [Metric; 7] = [WALL, CPU, USER, SYSTEM, PEAK, FAULTS, SWITCHES];

/// The figures of [`OF_A_RUN`], in its order.
pub fn figures(cost: &Cost) -> Vec<f64> {
    let cpu_s = cost.user_s + cost.system_s;
    vec![cost.wall_s, cpu_s, cost.user_s, cost.system_s, cost.peak_kb, cost.page_faults, cost.context_switches]
}

/// A value with a unit that leaves one to three digits before the point.
pub fn for_people(value: f64, unit: &str) -> String {
    const TIMES: [(f64, &str); 5] = [(60.0, "min"), (1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")];
    let (scales, one): (&[(f64, &str)], f64) = match unit {
        "s" => (&TIMES, 1.0),
        "ms" => (&TIMES, 1e-3),
        "ns" => (&TIMES, 1e-9),
        "kB" => (&[(1048576.0, "GiB"), (1024.0, "MiB"), (1.0, "KiB")], 1.0),
        "MiB" => (&[(1.0, "MiB")], 1.0),
        _ => (&[(1e6, "million"), (1.0, "")], 1.0),
    };
    let value = value * one;
    let &(scale, unit) = scales.iter().find(|(scale, _)| value >= *scale).unwrap_or(&scales[scales.len() - 1]);
    let value = value / scale;
    let places = match value {
        // Of a whole number, the unit may leave a little more or less.
        _ if (value - value.round()).abs() < 1e-9 * value || value == 0.0 || value >= 100.0 => 0,
        10.0.. => 1,
        0.1.. => 2,
        // Two digits, however small.
        _ => (1.0 - value.log10().floor()) as usize,
    };
    format!("{value:.places$} {unit}").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_read_three_digits() {
        let read = |value, unit, expected: &str| assert_eq!(for_people(value, unit), expected);
        read(0.000_44, "s", "440 µs");
        read(1.234, "s", "1.23 s");
        read(90.0, "s", "1.50 min");
        read(4.97, "ns", "4.97 ns");
        read(1152.0, "kB", "1.12 MiB");
        read(1000.0, "ns", "1 µs");
        read(12.0, "1", "12");
        read(0.5, "1", "0.50");
        read(0.0, "s", "0 ns");
        read(0.00347, "1", "0.0035");
        read(2_500_000.0, "1", "2.50 million");
    }
}
