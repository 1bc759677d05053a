//! `commensal` without arguments: what the library does on this machine, in under 90 seconds.
//!
//! Everything that is printed was measured in this run, by the lab's rules: `compared` runs programs with and without
//! the library, compares what they print, and times one malloc and one free; the experiment `startup` measures what the
//! library costs a program that does nothing, and one `run --stats` shows the statistics. The report goes to standard
//! output, progress to standard error.

/// Prints a line; leaves if nobody reads it any more.
macro_rules! say {
    ($($words:tt)*) => { $crate::places::say(&format!($($words)*))? };
}

mod compared;

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use lab::answers::Answers;
use lab::arm::Arm;
use lab::experiment::{Experiment, Setting, Startup};
use lab::machine::Machine;
use lab::process::Interrupt;
use lab::table;
use tempfile::TempDir;

use crate::elf;
use crate::failure::{Failure, Status};
use crate::library::Library;
use crate::{arms, conf, places, program};

const INTRODUCTION: &str = "\
Commensal is a malloc for Linux programs: a table for one, and for every CPU once a second thread comes.
This tour takes less than 90 seconds: programs with and without it, what it costs at start-up, malloc and free, statistics.
A table has the first column's own figures, and the ratios of the others to them; \"again\" is the first once more, as a control.";

/// What may show the statistics: programs that leave by `exit` with standard error open, as not all do.
const EXAMPLES: [[&str; 3]; 2] = [
    ["python3", "-c", "print(sum(len(str(i)) for i in range(10**6)))"],
    ["perl", "-le", "@seats = map { qq(guest $_) } 1 .. 300_000; print scalar @seats"],
];

/// What all parts of the tour need.
struct Tour {
    library: Library,
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
}

const STARTUP_BLOCKS: usize = 40;

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
    say!("{INTRODUCTION}\n{}\n", Machine::host());
    let tour = prepare(interrupt)?;
    let same = compared::jobs(&tour)?;
    show_startup(&tour)?;
    compared::pair(&tour)?;
    show_statistics(&tour)?;
    say!("{}", what_next(&tour.library.path));
    say!("\nThe tour took {:.0} s.", start.elapsed().as_secs_f64());
    Ok(if same { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn prepare(interrupt: Interrupt) -> Result<Tour, Failure> {
    let library = Library::find()?;
    if let Some(warning) = library.version_warning() {
        eprintln!("commensal: {warning}");
    }
    check_loaded(&library)?;
    let scratch = places::scratch("commensal-tour-")?;
    let (arms, _) = arms::installed()?;
    Ok(Tour { library, arms, scratch, interrupt, seed: lab::any_seed() })
}

/// What the library costs a program that does nothing.
fn show_startup(tour: &Tour) -> Result<(), Failure> {
    let setting = Setting {
        quick: true,
        blocks: Some(STARTUP_BLOCKS),
        seed: tour.seed,
        machine: Machine::host(),
        arms: tour.arms.clone(),
        command: places::own()?,
        scratch: places::scratch("commensal-tour-")?.into(),
        interrupt: tour.interrupt.clone(),
        answers: Answers::default(),
    };
    let outcome = Startup.measure(&setting).map_err(Failure::of)?;
    tour.check()?;
    say!("Start-up of a program that does nothing, on one CPU");
    let analysis = &outcome.parts[0].analysis;
    say!("{}{}", table::of_metric(analysis, &analysis.rows[0][0], 0), table::notes(analysis));
    Ok(())
}

/// Comparing programs would prove nothing if the loader did not put the library into them.
fn check_loaded(library: &Library) -> Result<(), Failure> {
    let mut command = Command::new("cat");
    command.arg("/proc/self/maps").stdin(Stdio::null());
    conf::preload_alone(&mut command, Some(&library.path));
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
    Err(Failure::new(Status::Ours, line))
}

fn show_statistics(tour: &Tour) -> Result<(), Failure> {
    let Some(words) = EXAMPLES.iter().find(|words| is_no_script(words[0])) else {
        return Ok(());
    };
    let output = std::env::current_exe()
        .and_then(|own| {
            let mut command = Command::new(own);
            command.args(["run", "--stats", "--"]).args(words);
            command.stdin(Stdio::null()).output()
        })
        .map_err(|error| trouble("run itself", &error))?;
    let lines = [output.stdout, output.stderr].concat();
    say!("{} run --stats -- {} {} '{}'", own_name(), words[0], words[1], words[2]);
    for line in String::from_utf8_lossy(&lines).lines() {
        say!("    {line}");
    }
    say!("");
    tour.check()
}

/// Whether the name means a program itself: a script in its place, such as a version manager's, would show the statistics
/// of its helpers as well.
fn is_no_script(name: &str) -> bool {
    let path = program::resolve(name.as_ref());
    path.is_ok_and(|path| elf::read(&path).is_ok_and(|elf| elf.is_some()))
}

fn what_next(library: &Path) -> String {
    let own = own_name();
    format!(
        "What to type next\n\
         \x20   {own} run -- CMD ARGS…            your own program under the library\n\
         \x20   {own} run --stats -- CMD ARGS…    and what it did with its memory, at exit\n\
         \x20   {own} compare -- CMD ARGS…        under every malloc that is installed: which one is faster?\n\
         \x20   {own} lab list                    experiments of the lab\n\
         \x20   LD_PRELOAD={} CMD ARGS…    the same without this command",
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
