//! `commensal workload counters WHAT …`: one arm of one row of the lab's counters, in a process of its own.
//!
//! Here are the threads and the printing; what is done is in the package `workload`, which has neither. The probe is run before the command
//! line is parsed, as the bundled programs are, which know nothing of the runtime and so cannot have it. A line on standard output
//! has the figures. `simulated CPUS` before the words has them measured on a simulated machine with so many CPUs.

mod host;
mod simulated;

use std::process::ExitCode;

use host::Host;
use host::figures::measure;

/// The probe's name, where bundled programs have theirs.
pub const NAME: &str = "counters";
const SIMULATED: &str = "simulated";
/// As many as a simulated machine can have.
const MOST_CPUS: usize = 1024;

/// Measures what the words say and prints the figures; or says what is wrong with them, status 2.
pub fn main(words: impl Iterator<Item = String>) -> ExitCode {
    let words: Vec<String> = words.collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let measured = match words[..] {
        [SIMULATED, cpus, ref words @ ..] => cpus
            .parse()
            .ok()
            .filter(|cpus| (1..=MOST_CPUS).contains(cpus))
            .ok_or_else(|| format!("the simulated machine has `{cpus}` CPUs; expected 1 to {MOST_CPUS}"))
            .and_then(|cpus| simulated::measured(cpus, words)),
        _ => measure(&words, &Host),
    };
    match measured {
        Ok(figures) => {
            let figures: Vec<String> = figures.iter().map(|figure| format!("{figure:.5}")).collect();
            println!("{}", figures.join(" "));
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("workload: {NAME}: {why}");
            ExitCode::from(2)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_arguments_are_named() {
        for (words, named) in [
            (&["life", "256", "8", "late"][..], "`late`; expected one of eager, merged, cached, lazy, lazy-and-cached"),
            (&["life", "0", "8", "lazy"], "`0`; expected 1 to 1024"),
            (&["life", "1025", "8", "lazy"], "`1025`"),
            (&["life", "8", "9", "lazy"], "`9`; expected a multiple of 8"),
            (&["upgrade", "8", "eager"], "`eager`; expected one of lazy, lazy-and-cached"),
            (&["own", "2", "lazy"], "`2`; expected one of one, apart, in-set"),
            (&["upgraded", "3", "lazy"], "expected life CPUS"),
            (&["called", "3"], "expected life CPUS"),
            (&["called", "own"], "has to be preloaded"),
            (&["others", "plain"], "a plain word was shared"),
            (&["dinner"], "dinner"),
            (&[], "[]"),
        ] {
            let why = measure(words, &Host).expect_err("they are wrong");
            assert!(why.contains(named) && !why.contains('\n'), "{words:?}: {why}");
        }
    }

    #[test]
    fn each_prints_as_many_figures_as_it_has() {
        for (words, figures) in [
            (&["life", "8", "64", "eager"][..], 5),
            (&["upgrade", "8", "lazy"], 1),
            (&["own", "apart", "told"], 1),
            (&["look", "8", "2", "lazy-and-cached"], 2),
        ] {
            let measured = measure(words, &Host).unwrap_or_else(|why| panic!("{words:?}: {why}"));
            assert_eq!(measured.len(), figures, "{words:?}");
            assert!(measured.iter().all(|figure| figure.is_finite() && *figure >= 0.0), "{words:?}: {measured:?}");
        }
    }
}
