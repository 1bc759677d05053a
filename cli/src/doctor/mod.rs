//! `commensal doctor`: what this machine offers, and what the runtime does about it.
//!
//! The kernel's files are read below a root (`tree`) and this process is asked once (`process`); from both, `kernel`, `slots`, `memory`, `cgroup`,
//! `cpus`, `directory`, `loading` and `measuring` make findings, one an item, without asking anybody else: so tests can give them any machine.
//! `trial` starts a process under the library and says what that does, and `verified` holds it against what was expected. `screen` shows all of it.

mod cgroup;
mod cpus;
mod directory;
mod finding;
mod kernel;
mod loading;
mod measuring;
mod memory;
mod process;
mod screen;
mod slots;
mod tree;
pub mod trial;
mod verified;

use std::process::ExitCode;

use clap::Args;
use commensal_lab::metric;
use serde::Serialize;

use crate::failure::Failure;
use crate::library::{self, Library};
use crate::places;
use finding::{Finding, Verdict};
use process::Process;
use slots::Conduct;
use tree::Tree;

/// Say what this machine offers, and what the library does about it
///
/// Each item is fine, works with less, fails, or is unknown, with the reason. What they lead to expect is verified by a small process that is run
/// under the library. The exit status is 0 if programs can run under the library, 1 if not.
#[derive(Args)]
pub struct Doctor {
    /// Write the findings as JSON, for programs
    #[arg(long)]
    json: bool,
}

/// Everything that was found. The names of the fields are those of the JSON.
#[derive(Serialize)]
struct Report {
    /// The command's version.
    version: &'static str,
    /// The worst of all items.
    verdict: Verdict,
    /// What the items lead to expect.
    expected: Conduct,
    /// What the library did in a trial; none if there was none.
    seen: Option<Conduct>,
    /// One finding an item.
    items: Vec<Finding>,
}

/// Examines this machine; status 1 if the library would not work here.
pub fn doctor(request: &Doctor) -> Result<ExitCode, Failure> {
    let report = examine(&Tree::at("/"), &Process::own());
    let shown = if request.json {
        let json = serde_json::to_string_pretty(&report)
            .map_err(|error| Failure::ours(format!("cannot write the findings as JSON ({error})")))?;
        format!("{json}\n")
    } else {
        screen::table(&report)
    };
    places::show(&shown, None)?;
    Ok(if report.verdict == Verdict::Fails { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// What is found below a root and of a process; the library and the trial are those of this machine.
fn examine(tree: &Tree, process: &Process) -> Report {
    let found = Library::find();
    let library = found.as_ref().ok().map(|library| library.path.as_path());
    let seen = library.map(trial::run);
    let expected = Conduct::expected(process);
    let verified = [
        verified::library(&found),
        verified::trial(expected, library, seen.as_ref()),
        verified::settings(process, seen.as_ref()),
    ];
    let items: Vec<Finding> = of_machine(tree, process).into_iter().chain(verified).collect();
    let verdict = items.iter().map(|item| item.verdict).max().unwrap_or(Verdict::Fine);
    let seen = seen.and_then(Result::ok).map(|seen| seen.conduct);
    Report { version: library::OWN_VERSION, verdict, expected, seen, items }
}

/// What can be said without the library.
fn of_machine(tree: &Tree, process: &Process) -> Vec<Finding> {
    let group = cgroup::Group::of(tree, "memory").ok().flatten();
    vec![
        kernel::kernel(process),
        kernel::libc(process),
        slots::rseq(process),
        slots::concurrency_ids(process),
        slots::membarrier(process),
        cpus::cpus(tree, process),
        memory::huge_pages(tree, process),
        memory::overcommit(tree),
        memory::mappings(tree),
        memory::limits(process),
        memory::randomisation(tree, process),
        cgroup::memory(tree),
        cgroup::cpu(tree),
        memory::pressure(tree, group.as_ref().map(cgroup::Group::folder)),
        directory::directory(tree, process),
        loading::privileges(tree, process),
        loading::preloaded(process),
        loading::environment(process),
        measuring::clock(tree),
        measuring::frequency(tree),
        measuring::smt(tree),
    ]
}

/// A number of bytes, as all other figures are shown.
fn bytes(count: u64) -> String {
    metric::for_people(count as f64 / 1024.0, "kB")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sandbox may have neither /proc nor /sys.
    #[test]
    fn an_empty_machine_is_unknown_and_nothing_crashes() {
        let (_folder, tree) = tree::tests::of(&[]);
        let items = of_machine(&tree, &process::tests::on("6.8.0"));
        assert!(items.iter().all(|item| item.verdict != Verdict::Fails), "{items:?}");
        let unknown = items.iter().filter(|item| item.verdict == Verdict::Unknown);
        assert!(unknown.clone().all(|item| item.found.starts_with("unknown: /")), "{items:?}");
        assert_eq!(unknown.count(), 11);
    }

    #[test]
    fn items_have_names_of_their_own() {
        let (_folder, tree) = tree::tests::of(&[]);
        let items = of_machine(&tree, &process::tests::on("6.8.0"));
        let mut names: Vec<&str> = items.iter().map(|item| item.item).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), items.len());
    }
}
