//! Object caches: one arm of one row of `lab cache`.

use super::super::workload::caches::{
    CONSTRUCTED_BYTES, Dedicated, General, bytes_per_object, constructed, pair_ns, solo_ns,
};
use super::{Machine, number, threads, unexpected};

const EXPECTED: &str = "pair solo|THREADS BYTES SOURCE, construct SOURCE or bytes BYTES SOURCE, where SOURCE is malloc, cache, general, dedicated or \
                        small-arrays, and for construct also constructed";

/// What is measured of a source, which has another type for each word.
macro_rules! of_source {
    ($word:expr, $bytes:expr, $machine:expr, |$source:ident| $figure:expr) => {{
        let bytes: usize = $bytes;
        let no_memory = || "there is no memory for a cache".to_owned();
        match $word {
            "malloc" => {
                let $source = &$machine.general_calls(bytes)?;
                $figure
            }
            "cache" => {
                let $source = &$machine.cache_calls(bytes, false)?;
                $figure
            }
            "general" => {
                let $source = &General { bytes };
                $figure
            }
            "dedicated" => {
                let $source = &Dedicated::of(bytes).ok_or_else(no_memory)?;
                $figure
            }
            "small-arrays" => {
                let $source = &Dedicated::with_small_arrays(bytes).ok_or_else(no_memory)?;
                $figure
            }
            word => {
                Err(format!("the source is `{word}`; expected one of malloc, cache, general, dedicated, small-arrays"))?
            }
        }
    }};
}

/// Measures what the words say: the figures, or what is wrong with the words.
pub fn measure(words: &[&str], machine: &impl Machine) -> Result<Vec<f64>, String> {
    let one = |figure: Option<f64>| figure.map(|figure| vec![figure]);
    // An object has room for a pointer.
    let bytes_of = |word| number("number of bytes", word, size_of::<usize>()..=32 << 10);
    let figures = match *words {
        // The process never had another thread.
        ["pair", "solo", bytes, word] => of_source!(word, bytes_of(bytes)?, machine, |source| one(solo_ns(source))),
        ["pair", count, bytes, word] => {
            let (count, bytes) = (threads(count)?, bytes_of(bytes)?);
            let threads = machine.threads(count)?;
            of_source!(word, bytes, machine, |source| one(pair_ns(source, (count, &threads))))
        }
        ["construct", "constructed"] => {
            constructed(&machine.cache_calls(CONSTRUCTED_BYTES, true)?, true).map(Vec::from)
        }
        ["construct", word] => {
            of_source!(word, CONSTRUCTED_BYTES, machine, |source| constructed(source, false).map(Vec::from))
        }
        ["bytes", bytes, word] => {
            let bytes = bytes_of(bytes)?;
            of_source!(word, bytes, machine, |source| one(bytes_per_object(source, bytes, || machine.resident())?))
        }
        _ => return unexpected(words, EXPECTED),
    };
    figures.ok_or_else(|| {
        format!("{words:?} gave no figures: there is no memory for it, or an object was not constructed")
    })
}
