//! Part b: an object is allocated and released, alone and with the work that makes raw memory an object; and the bytes that it takes.

use anyhow::Result;

use super::{DEDICATED, GENERAL, WITH_CONSTRUCTOR, in_c};
use crate::arm::Arm;
use crate::blocks::Subject;
use crate::experiment::probing::{Blocks, LESS, Measured, dots, library, measured, nanoseconds, probe};
use crate::experiment::{Part, Setting};
use crate::machine::{self, Machine};
use crate::metric::Metric;
use crate::parameters::Parameters;

const BLOCKS: Blocks = Blocks::of(8, 40);
/// What is in memory hardly varies.
const BLOCKS_OF_BYTES: Blocks = Blocks::of(3, 10);

pub const POP_PUSH: Metric = nanoseconds("pop_push_ns", "allocation and release");
pub const CONSTRUCTED: Metric = nanoseconds("constructed_ns", "allocation, constructor if needed, release");
pub const CONSTRUCTOR: Metric = nanoseconds("constructor_ns", "the constructor alone");
pub const BYTES: Metric =
    Metric { name: "bytes_per_object", unit: "B", title: "bytes in memory per object", words: LESS, resolution: 0.2 };

/// Bytes of an object where a row says nothing of it; and of a context.
const USUAL_BYTES: u64 = 64;
const CONTEXT_BYTES: u64 = 904;
const SIZES: [u64; 3] = [USUAL_BYTES, 200, CONTEXT_BYTES];

/// So many threads at once, in a process that has, or had, several.
pub fn with_threads(threads: u64) -> Parameters {
    Parameters::default().with("threads", threads)
}

/// One thread in a process that never had another.
pub fn in_process_of_one() -> Parameters {
    with_threads(1).with("process", "solo")
}

fn of_bytes(parameters: Parameters, bytes: u64) -> Parameters {
    if bytes == USUAL_BYTES { parameters } else { parameters.with("bytes", bytes) }
}

/// Of a Rust program.
pub fn rust(parameters: Parameters) -> Parameters {
    parameters.with("interface", "Rust")
}

/// A thread for each CPU of a simulated machine, as far as probes can have so many.
pub fn of_all(machine: &Machine) -> u64 {
    (machine.cpus as u64).min(machine::MOST_THREADS.into())
}

/// Parameters, and what the probe is told of threads and bytes.
type Row = (Parameters, String, u64);

fn of_one_thread() -> Vec<Row> {
    let mut rows = vec![(in_process_of_one(), "solo".to_owned(), USUAL_BYTES)];
    rows.extend(of_threads(1));
    rows
}

fn of_two_threads() -> Vec<Row> {
    of_threads(2).into()
}

fn of_threads(threads: u64) -> [Row; 2] {
    [USUAL_BYTES, CONTEXT_BYTES].map(|bytes| (of_bytes(with_threads(threads), bytes), threads.to_string(), bytes))
}

pub fn measure(setting: &Setting) -> Result<Measured> {
    let Some(arms) = in_c(setting) else { return Ok(Measured::default()) };
    let mut done = called(setting, &arms)?;
    done.parts.push(constructed(setting, &arms)?);
    let subject = |bytes: u64| {
        probe(setting, &format!("cache bytes {bytes}"), Parameters::default().with("bytes", bytes), &[BYTES])
    };
    let analysis = measured(setting, SIZES.map(subject).into(), &arms, BLOCKS_OF_BYTES, machine::quiet_cpu())?;
    let title = "b. Memory per object, including metadata".to_owned();
    let plots = |_: &_| Vec::new();
    done.parts.push(Part::of(title, analysis, plots));
    Ok(done)
}

/// Pairs through calls of functions in C.
fn called(setting: &Setting, arms: &[Arm]) -> Result<Measured> {
    let mut done = Measured::default();
    let one = "b. One allocation and one release by one thread, by calls of the library";
    done.parts.push(pairs(setting, one, of_one_thread(), arms, machine::quiet_cpu())?);
    if setting.machine.cpus < 2 {
        done.missing.push("Not measured: two threads, because this machine has one CPU.".to_owned());
    } else {
        let two = "b. One allocation and one release by each of two threads, by calls of the library";
        done.parts.push(pairs(setting, two, of_two_threads(), arms, None)?);
    }
    Ok(done)
}

/// The runtime inside of the program, as a Rust program has it.
pub fn in_rust(setting: &Setting) -> Result<Measured> {
    let arms = [GENERAL, DEDICATED].map(|name| Arm::told(name, name));
    let mut rows = of_one_thread();
    if setting.machine.cpus >= 2 {
        rows.extend(of_two_threads());
    }
    rows.retain(|(_, _, bytes)| *bytes == USUAL_BYTES);
    let all = of_all(&setting.machine);
    if setting.machine.is_simulated() && all > 2 {
        rows.push((with_threads(all), all.to_string(), USUAL_BYTES));
    }
    let rows = rows.into_iter().map(|(parameters, threads, bytes)| (rust(parameters), threads, bytes));
    let title = "b. One allocation and one release, in a Rust program";
    Ok(pairs(setting, title, rows.collect(), &arms, None)?.into())
}

fn pairs(setting: &Setting, title: &str, rows: Vec<Row>, arms: &[Arm], cpu: Option<usize>) -> Result<Part> {
    let subject = |(parameters, threads, bytes): Row| -> Subject {
        probe(setting, &format!("cache pair {threads} {bytes}"), parameters, &[POP_PUSH])
    };
    let analysis = measured(setting, rows.into_iter().map(subject).collect(), arms, BLOCKS, cpu)?;
    let (title, plots) = (title.to_owned(), |analysis: &_| dots(analysis, 0));
    Ok(Part::of(title, analysis, plots))
}

/// The arms of before, and the cache that keeps its objects constructed.
fn constructed(setting: &Setting, arms: &[Arm]) -> Result<Part> {
    let keeps = library(setting)
        .map(|library| Arm { words: vec!["constructed".to_owned()], ..Arm::preloading(WITH_CONSTRUCTOR, library) });
    let (ours, others): (Vec<_>, Vec<_>) =
        arms.iter().cloned().partition(|arm| [GENERAL, DEDICATED].contains(&arm.name.as_str()));
    let arms: Vec<Arm> = ours.into_iter().chain(keeps).chain(others).collect();
    let subject = probe(setting, "cache construct", Parameters::default(), &[CONSTRUCTED, CONSTRUCTOR]);
    let analysis = measured(setting, vec![subject], &arms, BLOCKS, machine::quiet_cpu())?;
    let title = "b. The same with a constructor worth keeping".to_owned();
    let plots = |analysis: &_| dots(analysis, 0);
    Ok(Part::of(title, analysis, plots))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pair_rows_have_distinct_parameters() {
        let rows: Vec<Row> = of_one_thread().into_iter().chain(of_two_threads()).collect();
        let names: Vec<String> = rows.iter().map(|(parameters, ..)| parameters.to_string()).collect();
        assert!(names.iter().enumerate().all(|(at, name)| !names[..at].contains(name)), "{names:?}");
        assert_eq!(names[0], "process solo, 1 thread");
        assert_eq!(with_threads(2).number("threads"), Some(2));
    }
}
