//! Object caches: one arm of one row of `lab cache`.

use super::super::workload::caches::{
    CONSTRUCTED_BYTES, Dedicated, General, bytes_per_object, constructed, pair_ns, solo_ns,
};
use super::{Machine, number, threads, unexpected};

const EXPECTED: &str = "pair solo|THREADS BYTES SOURCE, construct SOURCE or bytes BYTES SOURCE, where SOURCE is malloc, \
                        cache, general, dedicated or small-arrays, and for construct also constructed";

/// What a function says of a source, which has another type for each word.
macro_rules! of_source {
    ($word:expr, $bytes:expr, $machine:expr, $function:ident($($argument:expr),*)) => {{
        let (bytes, none) = ($bytes, "there is no memory for a cache");
        match $word {
            "malloc" => $function(&$machine.general_calls(bytes)?, $($argument),*),
            "cache" => $function(&$machine.cache_calls(bytes, false)?, $($argument),*),
            "general" => $function(&General { bytes }, $($argument),*),
            "dedicated" => $function(&Dedicated::of(bytes).ok_or(none)?, $($argument),*),
            "small-arrays" => $function(&Dedicated::with_small_arrays(bytes).ok_or(none)?, $($argument),*),
            word => {
                let words = "malloc, cache, general, dedicated, small-arrays";
                return Err(format!("the source is `{word}`; expected one of {words}"));
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
        ["pair", "solo", bytes, word] => one(of_source!(word, bytes_of(bytes)?, machine, solo_ns())),
        ["pair", count, bytes, word] => {
            let (count, bytes) = (threads(count)?, bytes_of(bytes)?);
            let threads = machine.threads(count)?;
            one(of_source!(word, bytes, machine, pair_ns((count, &threads))))
        }
        ["construct", "constructed"] => {
            constructed(&machine.cache_calls(CONSTRUCTED_BYTES, true)?, true).map(Vec::from)
        }
        ["construct", word] => of_source!(word, CONSTRUCTED_BYTES, machine, constructed(false)).map(Vec::from),
        ["bytes", bytes, word] => {
            let bytes = bytes_of(bytes)?;
            one(of_source!(word, bytes, machine, bytes_per_object(bytes, || machine.resident()))?)
        }
        _ => return unexpected(words, EXPECTED),
    };
    figures.ok_or_else(|| {
        format!("{words:?} gave no figures: there is no memory for it, or an object was not constructed")
    })
}
