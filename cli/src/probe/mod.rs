//! `commensal workload counters|cache|kicks|grace|primitives|sections|stagger|increments WHAT …`: one arm of one row of
//! an experiment of the lab, in a process of its own, which prints a line of figures. `commensal workload server …` is one
//! run of a server likewise, which `lab::servers` describes.
//!
//! Here are the threads and the printing; what is done is in the package `workload`, which has neither. The probe is
//! run before the command line is parsed, as the bundled programs are, which know nothing of the runtime and so cannot
//! have it. `simulated CPUS` before the words measures on a simulated machine with so many CPUs, whose costs `@PROFILE`
//! behind their number names. `increments` are what published curves measured, simulated.

mod host;
mod simulated;

use std::process::ExitCode;

use host::Host;
use host::figures::{measure, number, unexpected};
use lab::profile::Profile;
use simulated::{Costs, costs};

/// The probes by name.
const NAMES: [&str; 9] =
    ["counters", "cache", "kicks", "grace", "primitives", "sections", "stagger", INCREMENTS, SERVER];
/// The one that is always simulated.
const INCREMENTS: &str = "increments";
const SIMULATED: &str = "simulated";
/// The one that starts another program.
const SERVER: &str = lab::servers::WORDS[1];

/// The probe of this name, where bundled programs have theirs.
pub fn find(name: &str) -> Option<&'static str> {
    NAMES.into_iter().find(|probe| *probe == name)
}

/// Measures what the words say on a simulated machine, `CPUS` or `CPUS@PROFILE`.
fn on_simulated(machine: &str, probe: &str, words: &[&str]) -> Result<Vec<f64>, String> {
    let (cpus, costs) = match machine.split_once('@') {
        None => (machine, Costs::SIMPLE),
        Some((cpus, name)) => (cpus, costs(&find_profile(name)?)),
    };
    simulated::measured((number("number of simulated CPUs", cpus, 1..=1024)?, costs), probe, words)
}

fn find_profile(name: &str) -> Result<Profile, String> {
    Profile::find(name).map_err(|error| format!("{error:#}"))
}

/// `PROFILE THREADS…`: nanoseconds of an addition of each thread to one word, for each number of threads.
fn increments(words: &[&str]) -> Result<Vec<f64>, String> {
    let [name, ref threads @ ..] = *words else { return unexpected(words, "PROFILE THREADS…") };
    let profile = find_profile(name)?;
    let increment = |word: &&str| {
        let threads = number("number of threads", word, 1..=profile.cpus)?;
        simulated::increments::increment_ns(profile.cpus, costs(&profile), threads as u32)
    };
    threads.iter().map(increment).collect()
}

/// Measures what the words say for a probe and prints the figures; or says what is wrong with them, status 2.
#[expect(clippy::print_stdout, clippy::print_stderr, reason = "only this command reads them")]
pub fn main(probe: &str, words: impl Iterator<Item = String>) -> ExitCode {
    let words: Vec<String> = words.collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let measured = match words[..] {
        [SIMULATED, machine, ref words @ ..] => on_simulated(machine, probe, words),
        _ if probe == INCREMENTS => increments(&words),
        _ if probe == SERVER => lab::servers::drive(&words).map_err(|error| format!("{error:#}")),
        _ => measure(probe, &words, &Host),
    };
    match measured {
        Ok(figures) => {
            let figures: Vec<String> = figures.iter().map(|figure| format!("{figure:.5}")).collect();
            println!("{}", figures.join(" "));
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("workload: {probe}: {why}");
            ExitCode::from(2)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(line: &str) -> Result<Vec<f64>, String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        measure(words[0], &words[1..], &Host)
    }

    #[test]
    fn bad_arguments_are_named() {
        for (line, named) in [
            ("counters life 256 8 late", "`late`; expected one of eager, merged, cached, lazy, lazy-and-cached"),
            ("counters life 1025 8 lazy", "`1025`; expected 1 to 1024"),
            ("counters life 8 9 lazy", "`9`; expected a multiple of 8"),
            ("counters upgrade 8 eager", "upgrade CPUS lazy|lazy-and-cached"),
            ("counters upgraded 1023 lazy", "1023 threads at once need as many CPUs"),
            ("counters called own", "has to be preloaded"),
            ("counters others plain", "a plain word was shared"),
            ("cache bytes 4 general", "`4`; expected 8 to 32768"),
            ("cache construct dinner", "`dinner`; expected one of malloc"),
            ("sections", "expected THREADS"),
            ("kicks", "expected groups GROUPS"),
            ("grace hold waits 5 256 1 none", "`waits`; expected one of checks, retires, always"),
            ("grace", "expected files THREADS"),
            ("stagger run 72 2 20000 4 20000 1 1 0 100 0 zero all 1 grid", "`100`; expected 0 to 99"),
            ("stagger run 72 37 20000 4 20000 1 1 0 0 0 zero even 1 grid", "`37`; expected 1 to 36"),
            ("stagger run 72 2 20000 4 grid", "expected run or drains"),
        ] {
            let why = said(line).expect_err("they are wrong");
            assert!(why.contains(named) && !why.contains('\n'), "{line}: {why}");
        }
        assert!(find("kicks").is_some() && find("dinner").is_none());
    }

    /// What was deferred goes back to where it was deferred, in whole arrays: so slots do not meet where it is freed,
    /// however short grace periods are.
    #[test]
    fn depot_that_gets_its_own_back_is_not_contended() {
        let contended = |hands_back: &str| -> f64 {
            let files = |threads| {
                let words = ["files", threads, "1000", "1000", "256", "1", "1", hands_back, "counted"];
                simulated::measured((24, Costs::SIMPLE), "grace", &words).unwrap()[5]
            };
            ["5", "8", "12", "23"].map(files).iter().sum()
        };
        let (then, now) = (contended("0"), contended("1"));
        // By number of threads and by where objects come to lie, each of the four was between 2e-4 and 30e-4.
        assert!(then > 6e-4, "{then} of an operation: the load shows nothing");
        assert!(now < then / 20.0, "{now} against {then} of an operation");
    }

    #[test]
    fn probe_prints_as_many_figures_as_it_has() {
        for (line, figures) in [
            ("counters life 8 64 eager", 5),
            ("counters upgrade 8 lazy", 1),
            ("counters own apart told", 1),
            ("counters look 8 2 lazy-and-cached", 2),
            ("cache pair solo 64 malloc", 1),
            ("cache pair 1 64 dedicated", 1),
            ("cache construct general", 2),
            ("cache bytes 200 dedicated", 1),
            ("kicks groups 10 0 kick-on-create", 7),
            ("kicks replace 10 1", 4),
            ("grace files 1 0 100 256 1 1 1 counted", 7),
            ("grace hold retires 5 256 1 flagged", 2),
            ("grace checkpoint 256 counted", 1),
            ("primitives clock", 1),
            ("sections 1", 2),
            ("sections 2", 2),
            ("stagger run 8 1 2000 4 2000 1000 1000 0 50 1 grid even 1 posted", 12),
        ] {
            let measured = said(line).unwrap_or_else(|why| panic!("{line}: {why}"));
            assert_eq!(measured.len(), figures, "{line}");
            assert!(measured.iter().all(|figure| figure.is_finite() && *figure >= 0.0), "{line}: {measured:?}");
        }
    }
}
