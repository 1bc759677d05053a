//! `commensal tour`: what the library does on this machine, in about a minute.
//!
//! Everything that is printed was measured in this run, by the lab's rules: `parts` has what is measured, `figures` makes
//! a table of each part, and the closing lists from the verdicts of all. The report goes to standard output, progress
//! to standard error.

/// Prints a line; leaves if nobody reads it any more.
macro_rules! say {
    ($($words:tt)*) => { $crate::places::say(&format!($($words)*))? };
}

mod figures;
mod parts;

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use lab::analysis::Analysis;
use lab::arm::Arm;
use lab::blocks::{self, Budget, Length, Plan, Subject};
use lab::machine::Machine;
use lab::process::Interrupt;
use lab::table;
use tempfile::TempDir;

use crate::failure::Failure;
use crate::library::Library;
use crate::{arms, conf, places};

const INTRODUCTION: &str = "\
Commensal is a malloc for Linux programs. In about a minute, this tour measures what it does well and what it
costs, on this machine, beside glibc's malloc and the other allocators that are installed.

In all tables smaller is better. ▼ is less than glibc, ▲ is more, and no sign means that this run shows no
difference. The column \"glibc again\" is a control: it shows how far two equal programs differ here.";

/// What all parts of the tour need.
struct Tour {
    /// glibc, this library, and every peer that is installed.
    arms: Vec<Arm>,
    scratch: TempDir,
    interrupt: Interrupt,
    seed: u64,
}

impl Tour {
    /// An error if Ctrl-C came, so that `?` leaves through every destructor; nobody reads its text.
    fn check(&self) -> Result<(), Failure> {
        if self.interrupt.seen() { Err(Failure::ours("interrupted")) } else { Ok(()) }
    }

    /// Measures in shuffled blocks, everything on one CPU if one is named.
    fn measure(
        &self, subjects: Vec<Subject>, arms: &[Arm], budget: Budget, cpu: Option<usize>,
    ) -> Result<Analysis, Failure> {
        let plan = Plan { cpu, ..Plan::of(Length::Fitting(budget), self.seed) };
        let measured = blocks::measure(subjects, arms, plan, &self.interrupt).map_err(Failure::of)?;
        Ok(Analysis::of(measured))
    }
}

/// Shows the tour; status 1 if a program behaves differently under the library.
pub fn tour() -> Result<ExitCode, Failure> {
    let interrupt = Interrupt::register().map_err(|error| trouble("watch for Ctrl-C", &error))?;
    let outcome = walk(interrupt.clone());
    // Only now is the temporary directory gone.
    interrupt.obey();
    outcome
}

fn walk(interrupt: Interrupt) -> Result<ExitCode, Failure> {
    let start = Instant::now();
    say!("{INTRODUCTION}\n\n{}", Machine::host());
    let library = Library::find()?;
    check_loaded(&library)?;
    let (arms, told) = arms::installed()?;
    told.iter().try_for_each(|line| places::say(line))?;
    let tour = Tour { arms, scratch: places::scratch("commensal-tour-")?, interrupt, seed: lab::any_seed() };

    let (mut told, mut is_same) = (Vec::new(), true);
    for part in &parts::PARTS {
        say!("\n{}\n{}", part.title, part.about);
        let mut analysis = (part.measure)(&tour)?;
        tour.check()?;
        let shown = format!("{}{}", figures::table(&analysis), table::notes(&analysis));
        say!("{}", shown.trim_end());
        told.extend(figures::compared(&mut analysis));
        is_same &= !figures::has_fault(&analysis);
    }
    say!("\nAll programs print the same under Commensal as under glibc: {}\n", if is_same { "yes" } else { "NO" });
    say!("{}", figures::summary(&told));
    say!("{}", what_next(&library.path));
    say!("\nThe tour took {:.0} s.", start.elapsed().as_secs_f64());
    Ok(if is_same { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Comparing programs would prove nothing if the loader did not put the library into them.
fn check_loaded(library: &Library) -> Result<(), Failure> {
    let mut command = Command::new("cat");
    command.arg("/proc/self/maps").stdin(Stdio::null()).env_remove(conf::VARIABLE).env(conf::PRELOAD, &library.path);
    let output = command.output().map_err(|error| trouble("run cat", &error))?;
    let maps = String::from_utf8_lossy(&output.stdout);
    if output.status.success() && maps.contains(&*library.path.to_string_lossy()) {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let line = format!(
        "cat /proc/self/maps under {} does not show the library ({}; it said {:?}); is cat static here?",
        library.path.display(),
        output.status,
        said.lines().next().unwrap_or_default()
    );
    Err(Failure::ours(line))
}

fn what_next(library: &Path) -> String {
    let own = own_name();
    format!(
        "What to type next\n\
         \x20   {own} run -- CMD ARGS…            your own program under the library\n\
         \x20   {own} run --stats -- CMD ARGS…    and what it did with its memory, at exit\n\
         \x20   {own} compare -- CMD ARGS…        your program under every malloc that is installed: which is faster?\n\
         \x20   {own} --help                      all commands\n\
         \x20   LD_PRELOAD={} CMD ARGS…    the same as run, without this command",
        library.display()
    )
}

/// The command as the user typed it, or as Cargo did.
fn own_name() -> String {
    let typed = std::env::args_os().next().unwrap_or_else(|| OsString::from("commensal"));
    typed.display().to_string()
}

/// The tour cannot go on because of an error that has nothing to do with the library.
fn trouble(what: &str, error: &io::Error) -> Failure {
    Failure::ours(format!("the tour cannot {what} ({error}); mend that and start it again"))
}
