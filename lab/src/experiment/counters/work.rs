//! Parts e and f: programs, which are started under the malloc. One does nothing, the others do longer real work.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::{Blocks, EAGER, LAZY, MAIN_CPUS, Measured, Part, at_cpus, library, measured};
use crate::analysis::Analysis;
use crate::arm::{Arm, COMMENSAL, GLIBC};
use crate::blocks::Subject;
use crate::experiment::startup::{self, SYSTEM_TIME};
use crate::experiment::{LAZY_COUNTERS, Setting};
use crate::json::{Compared, Documented};
use crate::metric::{CPU, SYSTEM, USER, WALL};
use crate::parameters::Parameters;
use crate::process::{Program, Run};
use crate::sheet::Sheet;
use crate::{machine, report, suite, table};

const BLOCKS_OF_SPAWN: Blocks = Blocks::of(12, 150);
/// The main number and what the document has besides.
const CPUS_OF_SPAWN: [u64; 3] = [2, 80, MAIN_CPUS];

/// This malloc laid out at the start, for as many CPUs as a row says, and the same with its usual settings. None without the library.
fn eager_and_lazy(setting: &Setting) -> Option<[Arm; 2]> {
    let library = library(setting)?;
    let with = |name: &str, settings: &str| Arm::commensal(name, library, Some(settings.to_owned()));
    Some([with(EAGER, "lazy:off"), with(LAZY, "lazy:on")])
}

/// What a row asks for of both.
fn settings(cpus: u64) -> Option<String> {
    Some(format!("possible_cpus:{cpus}"))
}

/// Part e: fork and exec of a program that does nothing, in a loop on one CPU, as the document has it: under this
/// malloc, lazy, and laid out for all CPUs at the start; under every installed peer; and with nothing preloaded.
pub fn spawn(setting: &Setting) -> Result<Measured> {
    let Some(ours) = eager_and_lazy(setting) else { return Ok(Measured::default()) };
    let others = setting.arms.iter().filter(|arm| arm.name != COMMENSAL).cloned();
    let arms: Vec<Arm> = ours.into_iter().chain(others).collect();
    let subject = |cpus| Subject { parameters: at_cpus(cpus), settings: settings(cpus), ..startup::subject() };
    let analysis = measured(setting, CPUS_OF_SPAWN.map(subject).into(), &arms, BLOCKS_OF_SPAWN, machine::quiet_cpu())?;
    let title = "e. Fork and exec of a program that does nothing, on one CPU".to_owned();
    Ok(Part { title, sheets: sheets(&analysis), analysis, plots: report::usual_plots, document: document_of_spawn }
        .into())
}

/// Wall time, and the parts of processor time.
fn sheets(analysis: &Analysis) -> Vec<Sheet> {
    if analysis.measured.blocks == 0 {
        return Vec::new();
    }
    let metrics = analysis.measured.rows[0].metrics.iter().enumerate();
    let times = metrics.filter(|(_, metric)| metric.unit == "s");
    times.map(|(metric, _)| table::of_subjects(analysis, metric)).collect()
}

fn document_of_spawn(of: &Compared) -> Option<Documented> {
    let is_it = of.baseline.name == EAGER && of.candidate.name == LAZY && *of.metric == startup::SYSTEM;
    let cpus = of.parameters.number("possible_cpus").filter(|_| is_it)?;
    let (_, value) = SYSTEM_TIME.into_iter().find(|(cores, _)| *cores == cpus)?;
    let figure = format!("system time of fork, {cpus} cores");
    Some(Documented { source: LAZY_COUNTERS.to_owned(), figure, value })
}

const BLOCKS: Blocks = Blocks::of(7, 40);
pub const MAKE: &str = "make";
pub const GIT: &str = "git";
/// System time over that of a kernel with eager counters, on 256 cores: kernbench, gitsource.
pub const KERNBENCH: f64 = 1.0 - 0.014;
pub const GITSOURCE: f64 = 1.0 - 0.0312;

/// How much work it is: when it must be quick, and else.
struct Size {
    files: usize,
    commits: usize,
}
const QUICK: Size = Size { files: 4, commits: 3 };
const USUAL: Size = Size { files: 24, commits: 30 };
const FUNCTIONS: usize = 16;

/// One of the two, with the malloc laid out for the main number of CPUs where it is eager.
pub fn of_work(name: &str) -> Parameters {
    Parameters::of_workload(name).with("possible_cpus", MAIN_CPUS)
}

/// Part f: longer real work, as kernbench and gitsource were: a C project is compiled by `make -j2`, and a shell does
/// what a test suite does with git. Both are made here, so that every machine does the same.
pub fn work(setting: &Setting) -> Result<Measured> {
    let mut done = Measured::default();
    let Some(ours) = eager_and_lazy(setting) else { return Ok(done) };
    let size = if setting.quick { QUICK } else { USUAL };
    let mut subjects = Vec::new();
    for (name, needs, packages, prepare) in [
        (MAKE, &["make", "cc", "sh"][..], "gcc and make", make as fn(&Path, &Size) -> Result<Program>),
        (GIT, &["git", "sh"], "git", git),
    ] {
        if let Some(missing) = needs.iter().find(|program| suite::find(program).is_none()) {
            done.missing
                .push(format!("Not measured: f. {name}. {missing} is not installed; install Debian's {packages}."));
            continue;
        }
        let program = prepare(&setting.scratch.path().join(name), &size)?;
        let subject = Subject { settings: settings(MAIN_CPUS), read: costs, ..Subject::of_program("", program) };
        subjects.push(Subject { parameters: of_work(name), metrics: vec![CPU, SYSTEM, USER, WALL], ..subject });
    }
    if !subjects.is_empty() {
        let none = setting.arms.iter().filter(|arm| arm.name == GLIBC).cloned();
        let arms: Vec<Arm> = ours.into_iter().chain(none).collect();
        let analysis = measured(setting, subjects, &arms, BLOCKS, None)?;
        let title = "f. Longer work: make -j2 of a C project, and a script of git commands".to_owned();
        let sheets = match analysis.measured.blocks {
            0 => Vec::new(),
            _ => (0..4).map(|metric| table::of_subjects(&analysis, metric)).collect(),
        };
        done.parts.push(Part { title, sheets, analysis, plots: report::usual_plots, document });
    }
    Ok(done)
}

fn costs(run: &Run, _: &str) -> Option<Vec<f64>> {
    let cost = run.cost;
    Some(vec![cost.user_s + cost.system_s, cost.system_s, cost.user_s, cost.wall_s])
}

fn document(of: &Compared) -> Option<Documented> {
    let is_it = of.baseline.name == EAGER && of.candidate.name == LAZY && *of.metric == SYSTEM;
    let known = [(MAKE, "kernbench", KERNBENCH), (GIT, "gitsource", GITSOURCE)];
    let (_, name, value) = known.into_iter().find(|(name, ..)| is_it && *of.parameters == of_work(name))?;
    let figure = format!("system time of {name}, {MAIN_CPUS} cores");
    Some(Documented { source: LAZY_COUNTERS.to_owned(), figure, value })
}

/// Nothing of the user's but the path: git would read its settings, make its flags.
fn environment(place: &Path) -> BTreeMap<OsString, OsString> {
    let plain = [
        ("LC_ALL", "C"),
        ("GIT_CONFIG_NOSYSTEM", "1"),
        ("GIT_CONFIG_GLOBAL", "/dev/null"),
        ("GIT_AUTHOR_NAME", "Guest"),
        ("GIT_AUTHOR_EMAIL", "guest@example.org"),
        ("GIT_AUTHOR_DATE", "2026-01-01T00:00:00Z"),
        ("GIT_COMMITTER_NAME", "Guest"),
        ("GIT_COMMITTER_EMAIL", "guest@example.org"),
        ("GIT_COMMITTER_DATE", "2026-01-01T00:00:00Z"),
    ];
    let ours = [("HOME".into(), place.as_os_str().to_owned())];
    let path = std::env::var_os("PATH").map(|path| ("PATH".into(), path));
    plain.map(|(name, value)| (name.into(), value.into())).into_iter().chain(ours).chain(path).collect()
}

fn in_shell(place: &Path, script: &str) -> Result<Program> {
    fs::create_dir_all(place).with_context(|| format!("cannot make {}", place.display()))?;
    let shell = suite::find("sh").context("sh is not in PATH")?;
    let program = Program::new(shell, ["sh", "-ec", script]);
    Ok(Program { environment: environment(place), directory: Some(place.to_owned()), ..program })
}

/// Writes the project; each run compiles all of it anew.
fn make(place: &Path, size: &Size) -> Result<Program> {
    let program = in_shell(place, "make -B -s -j2")?;
    let write =
        |name: &str, text: &str| fs::write(place.join(name), text).with_context(|| format!("cannot write {name}"));
    let objects: Vec<String> = (0..size.files).map(|file| format!("part{file}.o")).collect();
    let list = objects.join(" ");
    write("Makefile", &format!("guests: {list}\n\tcc -o $@ {list}\n%.o: %.c\n\tcc -O1 -c -o $@ $<\n"))?;
    for file in 0..size.files {
        write(&format!("part{file}.c"), &source(file, size.files))?;
    }
    Ok(program)
}

/// One file: functions that call each other and the next file's first one; the first file has `main`.
fn source(file: usize, files: usize) -> String {
    let mut text = "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n".to_owned();
    let next = (file + 1) % files;
    let _ = writeln!(text, "long part{next}_0(long guests, long seats);");
    for function in 0..FUNCTIONS {
        let deeper =
            if function + 1 < FUNCTIONS { format!("part{file}_{}", function + 1) } else { format!("part{next}_0") };
        let later =
            if function + 1 < FUNCTIONS { format!("long {deeper}(long guests, long seats);\n") } else { String::new() };
        let _ = write!(
            text,
            "{later}long part{file}_{function}(long guests, long seats) {{\n    \
             char line[64];\n    long sum = {function};\n    \
             for (long guest = 0; guest < guests; guest++) {{\n        \
             if (guest % (seats + 1) == {function}) sum += snprintf(line, sizeof line, \"%ld of %ld\", guest, seats);\n        \
             else sum ^= guest << ({function} % 7);\n    }}\n    \
             return guests > {file} ? sum + {deeper}(guests / 2, seats + 1) : sum;\n}}\n"
        );
    }
    if file == 0 {
        text += "int main(void) { return part0_0(1000, 3) == 0; }\n";
    }
    text
}

/// Each run makes a repository, commits, branches, merges and looks around in it, and leaves nothing.
fn git(place: &Path, size: &Size) -> Result<Program> {
    let script = format!(
        "rm -rf work; git init -q -b main work; cd work; git config gc.auto 0; git config maintenance.auto false\n\
         for number in $(seq {commits}); do\n  \
         seq $number $((number * 40)) > file$((number % 5)); git add .; git commit -q -m \"guest $number\"\n  \
         git status --short; git diff HEAD~1 > ../seen || true\n\
         done\n\
         git checkout -q -b side HEAD~2; echo side > side; git add side; git commit -q -m side\n\
         git checkout -q main; git merge -q -m both side; git log --stat > ../seen; git rev-list --all --count; git fsck --no-progress\n",
        commits = size.commits,
    );
    in_shell(place, &script)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Output};

    #[test]
    fn document_of_spawn_has_figures_for_two_machines() {
        let [eager, lazy] = ["eager", "lazy"].map(|name| Arm::commensal(name, "/l.so", None));
        let said = |baseline, candidate, metric, cpus| {
            document_of_spawn(&Compared { baseline, candidate, metric, parameters: &at_cpus(cpus) })
                .map(|said| said.value)
        };
        assert_eq!(said(&eager, &lazy, &startup::SYSTEM, 80), Some(0.94));
        assert_eq!(said(&eager, &lazy, &startup::SYSTEM, 256), Some(0.89));
        assert_eq!(said(&eager, &lazy, &startup::SYSTEM, 2), None);
        assert_eq!(said(&lazy, &eager, &startup::SYSTEM, 80), None);
        assert_eq!(said(&eager, &lazy, &WALL, 80), None);
    }

    const SMALL: Size = Size { files: 2, commits: 3 };

    fn run(program: &Program) -> Output {
        let mut command = Command::new(&program.path);
        command.args(&program.arguments[1..]).env_clear().envs(&program.environment);
        let output = command.current_dir(program.directory.as_ref().unwrap()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        output
    }

    /// Whether all of them are there; what needs them is skipped otherwise, and says so.
    fn are_there(programs: &[&str]) -> bool {
        let missing = programs.iter().find(|program| suite::find(program).is_none());
        missing.inspect(|program| eprintln!("skipped: there is no {program}")).is_none()
    }

    /// It prints the same each time, which is what it is held to under every arm; so does the next.
    #[test]
    fn generated_project_compiles() {
        if !are_there(&["cc", "make"]) {
            return;
        }
        let place = tempfile::tempdir().unwrap();
        let make = make(&place.path().join(MAKE), &SMALL).unwrap();
        assert_eq!(run(&make).stdout, b"");
        assert!(Command::new(place.path().join("make/guests")).status().unwrap().success());
    }

    #[test]
    fn generated_repository_gives_the_same_output_twice() {
        if !are_there(&["git"]) {
            return;
        }
        let place = tempfile::tempdir().unwrap();
        let git = git(&place.path().join(GIT), &SMALL).unwrap();
        let first = run(&git);
        assert_eq!(first.stdout, run(&git).stdout);
        let commits = String::from_utf8_lossy(&first.stdout);
        assert_eq!(commits.trim(), "5", "three commits, one beside, one that has both");
    }

    #[test]
    fn missing_program_is_not_found() {
        assert!(suite::find("sh").is_some_and(|shell| shell.is_absolute()));
        assert_eq!(suite::find("no-such-program"), None);
    }

    #[test]
    fn document_of_work_has_figures_for_two_programs() {
        let [eager, lazy] = ["eager", "lazy"].map(|name| Arm::commensal(name, "/l.so", None));
        let said = |metric, parameters: &Parameters| {
            document(&Compared { baseline: &eager, candidate: &lazy, metric, parameters }).map(|said| said.value)
        };
        assert_eq!((said(&SYSTEM, &of_work(MAKE)), said(&SYSTEM, &of_work(GIT))), (Some(KERNBENCH), Some(GITSOURCE)));
        assert_eq!((said(&WALL, &of_work(GIT)), said(&SYSTEM, &Parameters::of_workload(GIT))), (None, None));
    }
}
