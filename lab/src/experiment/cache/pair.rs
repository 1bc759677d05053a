//! Part b: an object is allocated and released, alone and with the work that makes raw memory an object; and the bytes that it takes.

use anyhow::Result;

use super::{DEDICATED, GENERAL, WITH_CONSTRUCTOR};
use crate::arm::Arm;
use crate::experiment::Setting;
use crate::experiment::probing::{Blocks, Measured, dots_of_first, library, nanoseconds, no_plots, of_parts, part};
use crate::machine::{MOST_THREADS, Machine};
use crate::metric::{LESS, Metric};
use crate::parameters::Parameters;

const BLOCKS: Blocks = Blocks::of(8, 40);
/// What is in memory hardly varies.
const BLOCKS_OF_BYTES: Blocks = Blocks { are_on_one_cpu: true, ..Blocks::of(3, 10) };

pub const POP_PUSH: Metric = nanoseconds("pop_push_ns", "allocation and release");
pub const CONSTRUCTED: Metric = nanoseconds("constructed_ns", "allocation, constructor if needed, release");
pub const CONSTRUCTOR: Metric = nanoseconds("constructor_ns", "the constructor alone");
pub const BYTES: Metric = Metric::new("bytes_per_object", "B", "bytes in memory per object", LESS, 0.2);

/// Bytes of an object where a row says nothing of it; and of a context.
const USUAL_BYTES: u64 = 64;
const CONTEXT_BYTES: u64 = 904;
const SIZES: [u64; 3] = [USUAL_BYTES, 200, CONTEXT_BYTES];

/// So many threads at once, in a process that has, or had, several.
pub fn with_threads(threads: u64) -> Parameters {
    Parameters::default().with("threads", threads)
}

/// Of a Rust program.
pub fn rust(parameters: Parameters) -> Parameters {
    parameters.with("interface", "Rust")
}

/// A thread for each CPU of a simulated machine, as far as probes can have so many.
pub fn of_all(machine: &Machine) -> u64 {
    (machine.cpus as u64).min(MOST_THREADS.into())
}

type Row = (Parameters, String);

fn pair(parameters: Parameters, threads: &str, bytes: u64) -> Row {
    let parameters = if bytes == USUAL_BYTES { parameters } else { parameters.with("bytes", bytes) };
    (parameters, format!("cache pair {threads} {bytes}"))
}

/// One thread in a process that never had another.
fn alone() -> Row {
    pair(with_threads(1).with("process", "solo"), "solo", USUAL_BYTES)
}

fn of_threads(threads: u64) -> [Row; 2] {
    [USUAL_BYTES, CONTEXT_BYTES].map(|bytes| pair(with_threads(threads), &threads.to_string(), bytes))
}

/// By calls of functions in C: this library's malloc, its caches, and other mallocs. Its caches may also keep objects constructed.
pub fn measure(setting: &Setting) -> Result<Measured> {
    let Some(library) = library(setting) else { return Ok(Measured::default()) };
    let ours = |name, word: &str| Arm { words: vec![word.to_owned()], ..Arm::preloading(name, library) };
    let mut arms = vec![ours(GENERAL, "malloc"), ours(DEDICATED, "cache")];
    let others = setting.arms.iter().filter(|arm| arm.is_peer || arm.library.is_none());
    arms.extend(others.map(|arm| Arm { words: vec!["malloc".to_owned()], ..arm.clone() }));
    let mut constructed = arms.clone();
    constructed.insert(2, ours(WITH_CONSTRUCTOR, "constructed"));

    let bytes = SIZES.map(|bytes| (Parameters::default().with("bytes", bytes), format!("cache bytes {bytes}")));
    let blocks = Blocks { are_on_one_cpu: true, ..BLOCKS };
    let pairs = |title: &str, rows: Vec<Row>| part(setting, title, rows, &[POP_PUSH], &arms, blocks, dots_of_first);
    of_parts(0..4, setting, |number| match number {
        0 => {
            let title = "b. One allocation and one release by one thread, by calls of the library";
            pairs(title, [alone()].into_iter().chain(of_threads(1)).collect())
        }
        1 => {
            let title = "b. One allocation and one release by each of two threads, by calls of the library";
            pairs(title, of_threads(2).into())
        }
        2 => {
            let (title, metrics) = ("b. The same with a constructor worth keeping", [CONSTRUCTED, CONSTRUCTOR]);
            let row = (Parameters::default(), "cache construct".to_owned());
            part(setting, title, [row], &metrics, &constructed, blocks, dots_of_first)
        }
        _ => {
            let title = "b. Memory per object, including metadata";
            part(setting, title, bytes.clone(), &[BYTES], &arms, BLOCKS_OF_BYTES, no_plots)
        }
    })
}

/// The runtime inside of the program, as a Rust program has it.
pub fn in_rust(setting: &Setting) -> Result<Measured> {
    let arms = [GENERAL, DEDICATED].map(|name| Arm::told(name, name));
    let [all, one, two] = [of_all(&setting.machine), 1, 2];
    let mut rows = vec![alone()];
    rows.extend([one, two].map(|threads| pair(with_threads(threads), &threads.to_string(), USUAL_BYTES)));
    if setting.machine.is_simulated() && all > two {
        rows.push(pair(with_threads(all), &all.to_string(), USUAL_BYTES));
    }
    let rows = rows.into_iter().map(|(parameters, line)| (rust(parameters), line));
    let title = "b. One allocation and one release, in a Rust program";
    part(setting, title, rows, &[POP_PUSH], &arms, BLOCKS, dots_of_first)
}
