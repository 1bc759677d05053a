//! Object caches: one arm of one row of `lab cache`.

use super::super::workload::Threads;
use super::super::workload::caches::{
    CONSTRUCTED_BYTES, Dedicated, General, Source, bytes_per_object, constructed, pair_ns, solo_ns,
};
use super::{Machine, number, threads};

const EXPECTED: &str = "pair solo|THREADS BYTES SOURCE, construct SOURCE or bytes BYTES SOURCE, where SOURCE is malloc, cache, general, dedicated or \
                        small-arrays, and for construct also constructed";
/// The largest objects that are asked for.
const MOST_BYTES: usize = 32 << 10;

/// Measures what the words say: the figures, or what is wrong with the words.
pub fn measure(words: &[&str], machine: &impl Machine) -> Result<Vec<f64>, String> {
    let figures = match *words {
        ["pair", count, bytes, source] => {
            let threads = if count == "solo" { None } else { Some(threads(count)?) };
            let pair = Pair { threads, machine };
            of_source(source, bytes_of(bytes)?, machine, pair)?
        }
        ["construct", "constructed"] => {
            Construct { stays: true }.with(&machine.cache_calls(CONSTRUCTED_BYTES, true)?)?
        }
        ["construct", source] => of_source(source, CONSTRUCTED_BYTES, machine, Construct { stays: false })?,
        ["bytes", bytes, source] => {
            let bytes = bytes_of(bytes)?;
            of_source(source, bytes, machine, Bytes { bytes, machine })?
        }
        _ => return Err(format!("the arguments are {words:?}; expected {EXPECTED}")),
    };
    figures.ok_or_else(|| {
        format!("{words:?} gave no figures: there is no memory for it, or an object was not constructed")
    })
}

/// What is measured of a source of any type.
trait Visit {
    fn with(self, source: &impl Source) -> Result<Option<Vec<f64>>, String>;
}

fn of_source(word: &str, bytes: usize, machine: &impl Machine, visit: impl Visit) -> Result<Option<Vec<f64>>, String> {
    match word {
        "malloc" => visit.with(&machine.general_calls(bytes)?),
        "cache" => visit.with(&machine.cache_calls(bytes, false)?),
        "general" => visit.with(&General { bytes }),
        "dedicated" => visit.with(&Dedicated::of(bytes).ok_or("there is no memory for a cache")?),
        "small-arrays" => visit.with(&Dedicated::with_small_arrays(bytes).ok_or("there is no memory for a cache")?),
        _ => Err(format!("the source is `{word}`; expected one of malloc, cache, general, dedicated, small-arrays")),
    }
}

struct Pair<'a, M> {
    /// None: the process never had another thread.
    threads: Option<u32>,
    machine: &'a M,
}

impl<M: Machine> Visit for Pair<'_, M> {
    fn with(self, source: &impl Source) -> Result<Option<Vec<f64>>, String> {
        let time = match self.threads {
            None => solo_ns(source),
            Some(count) => {
                let threads: &dyn Threads = &self.machine.threads(count)?;
                pair_ns(source, (count, threads))
            }
        };
        Ok(time.map(|time| vec![time]))
    }
}

struct Construct {
    stays: bool,
}

impl Visit for Construct {
    fn with(self, source: &impl Source) -> Result<Option<Vec<f64>>, String> {
        Ok(constructed(source, self.stays).map(|of| vec![of.task_ns, of.constructor_ns]))
    }
}

struct Bytes<'a, M> {
    bytes: usize,
    machine: &'a M,
}

impl<M: Machine> Visit for Bytes<'_, M> {
    fn with(self, source: &impl Source) -> Result<Option<Vec<f64>>, String> {
        Ok(bytes_per_object(source, self.bytes, || self.machine.resident())?.map(|bytes| vec![bytes]))
    }
}

fn bytes_of(word: &str) -> Result<usize, String> {
    // An object has room for a pointer.
    let bytes = number("number of bytes", word, MOST_BYTES)?;
    if bytes < size_of::<usize>() {
        Err(format!("the number of bytes is `{word}`; expected at least 8"))
    } else {
        Ok(bytes)
    }
}
