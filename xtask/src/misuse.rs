//! Which allocator stops a program that misuses the heap? `xtask/misuse/programs.cc` has the programs, each for several
//! sizes. They run under glibc, the peers that are there, and our library, as it is and hardened. With `--attacks`, it
//! is attacks on such programs, in `attacks.cc`, and how often the attacker reaches his aim.
//!
//! A run is stopped if a signal ends it, or if it says itself that the allocator refused. One that takes too long ends
//! itself by `SIGALRM`, and is not stopped. Of ours it also counts whether the message names the misuse.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{env, fs, thread};

use toml_edit::DocumentMut;

use crate::library::{self, succeeds};

/// What hardens our library.
const HARDENED: &str = "harden:on";
/// What our library stops at least, with default settings and hardened: CI holds it. It only grows.
const STOPPED: [usize; 2] = [68, 103];

/// How many of the attacks reach their aim at most, in percent: those by overflow and reuse, with default settings.
const OWNED_PERCENT: [usize; 2] = [40, 0];

const FOLDER: &str = "xtask/misuse";
/// As programs.cc and attacks.cc say.
const REFUSED: i32 = 42;
const OWNED: i32 = 43;
const SIGALRM: i32 = 14;
const WORKERS: usize = 2;
/// Runs between two lines that say how many there have been.
const REPORT: usize = 100;
/// Settings of allocators, which children do not inherit.
const SETTINGS: [&str; 5] = ["MALLOC_", "GLIBC_TUNABLES", "LD_PRELOAD", "COMMENSAL_", "MIMALLOC_"];

#[derive(Clone, Debug, Default, clap::Args)]
pub struct Options {
    /// Print the kinds of misuse and what each does, and run nothing
    #[arg(long)]
    list: bool,
    /// Only kinds with this word in their names
    #[arg(long, value_name = "WORD", default_value = "")]
    only: String,
    /// Leave out glibc and the peers
    #[arg(long)]
    ours: bool,
    /// Another library to preload; may be given several times
    #[arg(long, value_name = "FILE")]
    library: Vec<PathBuf>,
    /// An environment variable of all programs, such as GLIBC_TUNABLES=glibc.pthread.rseq=0; may be given several times
    #[arg(long, value_name = "NAME=VALUE")]
    env: Vec<String>,
    /// Fail if our library stops fewer with default settings
    #[arg(long, value_name = "N")]
    min_default: Option<usize>,
    /// Fail if our library stops fewer when it is hardened
    #[arg(long, value_name = "N")]
    min_harden: Option<usize>,
    /// Try each attack so often instead
    #[arg(long, value_name = "TRIES")]
    attacks: Option<usize>,
    /// Print what became of each run under our library
    #[arg(long)]
    verbose: bool,
}

/// Programs that do the same to blocks of several sizes.
struct Kind {
    name: String,
    group: String,
    sizes: Vec<String>,
    /// One of them is in a message that names it.
    words: Vec<String>,
    what: String,
}

/// An allocator that programs run under.
struct Arm {
    name: String,
    library: Option<PathBuf>,
    settings: &'static str,
    /// What lines with figures call it, if it is ours.
    ours: Option<&'static str>,
}

impl Arm {
    fn of(name: impl Into<String>, library: Option<PathBuf>) -> Self {
        Self { name: name.into(), library, settings: "", ours: None }
    }
}

/// What became of a run.
#[derive(Clone, Debug)]
struct Outcome {
    is_stopped: bool,
    is_named: bool,
    /// Whether an attacker reached his aim.
    is_owned: bool,
    ended: String,
    /// The first line on standard error.
    message: String,
}

/// The programs, and who runs them.
struct Catalogue {
    programs: PathBuf,
    kinds: Vec<Kind>,
    env: Vec<(String, String)>,
    /// How often each case runs; none: once, and nothing is attacked.
    attacks: Option<usize>,
}

pub fn run(root: &Path, options: &Options) -> Result<(), String> {
    let mut catalogue = Catalogue::compile(root, options.attacks, &options.env)?;
    catalogue.kinds.retain(|kind| kind.name.contains(&options.only));
    if catalogue.kinds.is_empty() {
        return Err(format!("found no kind with '{}' in its name; --list prints all", options.only));
    }
    if options.list {
        catalogue.list();
        return Ok(());
    }
    let arms = arms(root, options, &catalogue)?;
    measure(&catalogue, &arms, options)
}

/// Our library stops at least what it did, and attacks succeed no more often.
pub fn check(root: &Path) -> Result<(), String> {
    let [default, harden] = STOPPED.map(Some);
    run(root, &Options { ours: true, min_default: default, min_harden: harden, ..Options::default() })?;
    run(root, &Options { ours: true, attacks: Some(3), ..Options::default() })
}

fn measure(catalogue: &Catalogue, arms: &[Arm], options: &Options) -> Result<(), String> {
    let outcomes = catalogue.run(arms)?;
    if options.verbose {
        catalogue.tell_each(arms, &outcomes);
    }
    let groups = catalogue.count(&outcomes);
    let [title, second] = if options.attacks.is_some() { ["attack", "stopped"] } else { ["misuse", "named"] };
    print!("{}\n{}", table(arms, &groups, title, second), figures(arms, &groups));
    match options.attacks {
        Some(_) => judge_attacks(arms, &groups),
        None => judge(arms, &groups, [options.min_default, options.min_harden]),
    }
}

/// glibc, peers, what the caller names, and ours.
fn arms(root: &Path, options: &Options, catalogue: &Catalogue) -> Result<Vec<Arm>, String> {
    let mut arms = Vec::new();
    if !options.ours {
        arms.push(Arm::of("glibc", None));
        arms.extend(peers(root)?);
    }
    arms.extend(options.library.iter().map(|file| {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let name = name.split(".so").next().unwrap_or_default();
        Arm::of(name.trim_start_matches("lib"), Some(file.clone()))
    }));
    arms.retain(|arm| match catalogue.check_sound(arm) {
        Ok(()) => true,
        Err(why) => {
            eprintln!("misuse: skips {why}; `cargo xtask targets` builds peers");
            false
        }
    });
    let library = library::build(root)?.shared;
    for (name, settings, ours) in [("commensal", "", "default"), ("hardened", HARDENED, "hardened")] {
        let arm = Arm { settings, ours: Some(ours), ..Arm::of(name, Some(library.clone())) };
        catalogue.check_sound(&arm)?;
        arms.push(arm);
    }
    Ok(arms)
}

/// The allocators in targets.toml, whether they are there or not.
fn peers(root: &Path) -> Result<Vec<Arm>, String> {
    let path = root.join("targets.toml");
    let text = fs::read_to_string(&path).map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
    let file: DocumentMut = text.parse().map_err(|error| format!("targets.toml is not TOML: {error}"))?;
    let peers = file["peer"].as_table().ok_or("targets.toml has no peers")?;
    let allocators = peers.iter().filter(|(_, peer)| peer.get("is_no_allocator").is_none());
    let arm = |(name, peer): (&str, &toml_edit::Item)| {
        let file = peer["file"].as_str()?;
        let is_built = peer.get("build").is_some();
        // The loader searches for a name without a slash.
        let file = if is_built { root.join("target/peers").join(name).join(file) } else { PathBuf::from(file) };
        Some(Arm::of(name, Some(file)))
    };
    Ok(allocators.filter_map(arm).collect())
}

impl Catalogue {
    fn compile(root: &Path, attacks: Option<usize>, env: &[String]) -> Result<Self, String> {
        let (folder, name) = (root.join("target/misuse"), if attacks.is_some() { "attacks" } else { "programs" });
        fs::create_dir_all(&folder).map_err(|error| format!("{} cannot be made: {error}", folder.display()))?;
        let programs = folder.join(name);
        // Two that compile at the same time must not see half a program.
        let fresh = folder.join(format!("{name}.{}.{:?}", std::process::id(), thread::current().id()));
        let mut compiler = Command::new("g++");
        let source = root.join(FOLDER).join(name).with_extension("cc");
        compiler.args(["-O0", "-w", "-fno-builtin", "-pthread"]).arg(source).arg("-o").arg(&fresh);
        succeeds(&mut compiler)?;
        fs::rename(&fresh, &programs).map_err(|error| format!("{} cannot be renamed: {error}", fresh.display()))?;
        let pair = |text: &String| {
            let pair = text.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
            pair.ok_or_else(|| format!("found --env {text}; expected NAME=VALUE"))
        };
        let env = env.iter().map(pair).collect::<Result<_, _>>()?;
        let mut catalogue = Self { programs, kinds: Vec::new(), env, attacks };
        let output = catalogue.start(&Arm::of("glibc", None), &[])?;
        catalogue.kinds = String::from_utf8_lossy(&output.stdout).lines().map(kind).collect::<Result<_, _>>()?;
        Ok(catalogue)
    }

    /// Runs the programs with these words under an arm.
    fn start(&self, arm: &Arm, words: &[&str]) -> Result<Output, String> {
        let mut command = Command::new(&self.programs);
        command.args(words).stdin(Stdio::null());
        for (name, _) in env::vars_os().filter(|(name, _)| is_setting(name)) {
            command.env_remove(name);
        }
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        if let Some(library) = &arm.library {
            command.env("LD_PRELOAD", library);
        }
        if !arm.settings.is_empty() {
            command.env("COMMENSAL_CONF", arm.settings);
        }
        command.output().map_err(|error| format!("{} cannot be started: {error}", self.programs.display()))
    }

    /// A library that is not there, or that ends every program, does not stop misuse.
    fn check_sound(&self, arm: &Arm) -> Result<(), String> {
        for size in ["40", "5000", "200000"] {
            let output = self.start(arm, &["sound", size])?;
            if !output.status.success() || !output.stderr.is_empty() {
                let said = String::from_utf8_lossy(&output.stderr);
                let said = said.lines().next().unwrap_or("");
                return Err(format!("{}: `sound {size}` ended with {}: {said}", arm.name, output.status));
            }
        }
        Ok(())
    }

    fn list(&self) {
        for kind in &self.kinds {
            println!("{:24} {:25} {:14} {}", kind.name, kind.group, kind.sizes.join(" "), kind.what);
        }
    }

    /// Each kind with each of its sizes, in order.
    fn cases(&self) -> Vec<(&Kind, &str)> {
        let cases = self.kinds.iter().flat_map(|kind| kind.sizes.iter().map(move |size| (kind, size.as_str())));
        cases.flat_map(|case| std::iter::repeat_n(case, self.attacks.unwrap_or(1))).collect()
    }

    /// The outcomes of all cases, arm by arm.
    fn run(&self, arms: &[Arm]) -> Result<Vec<Vec<Outcome>>, String> {
        let cases = self.cases();
        let (next, total) = (AtomicUsize::new(0), arms.len() * cases.len());
        let work = || -> Result<Vec<(usize, Outcome)>, String> {
            let mut done = Vec::new();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let Some(arm) = arms.get(number / cases.len()) else { return Ok(done) };
                let (kind, size) = cases[number % cases.len()];
                let output = self.start(arm, &[&kind.name, size])?;
                done.push((number, outcome(kind, &output)));
                if (number + 1).is_multiple_of(REPORT) {
                    eprintln!("misuse: {} of {total} runs", number + 1);
                }
            }
        };
        let done: Result<Vec<_>, String> = thread::scope(|scope| {
            let workers: Vec<_> = (0..WORKERS).map(|_| scope.spawn(work)).collect();
            workers.into_iter().map(|worker| worker.join().expect("a worker does not panic")).collect()
        });
        let mut done = done?.concat();
        done.sort_by_key(|(number, _)| *number);
        let outcomes: Vec<Outcome> = done.into_iter().map(|(_, outcome)| outcome).collect();
        Ok(outcomes.chunks(cases.len()).map(<[_]>::to_vec).collect())
    }

    fn tell_each(&self, arms: &[Arm], outcomes: &[Vec<Outcome>]) {
        for (arm, outcomes) in arms.iter().zip(outcomes).filter(|(arm, _)| arm.ours.is_some()) {
            for ((kind, size), Outcome { ended, message, .. }) in self.cases().into_iter().zip(outcomes) {
                println!("{:9} {:24} {size:>6}  {ended:13} {message}", arm.name, kind.name);
            }
        }
    }

    /// Of each group, and of all, how many runs there are, and what each arm made of them.
    fn count(&self, outcomes: &[Vec<Outcome>]) -> Vec<Group> {
        let empty = |name: &str| Group { name: name.to_owned(), runs: 0, arms: vec![Count::default(); outcomes.len()] };
        let (mut groups, mut all) = (Vec::<Group>::new(), empty("all"));
        for (at, (kind, _)) in self.cases().iter().enumerate() {
            if groups.last().is_none_or(|group| group.name != kind.group) {
                groups.push(empty(&kind.group));
            }
            for group in [groups.last_mut().expect("there is one"), &mut all] {
                group.runs += 1;
                for (count, outcomes) in group.arms.iter_mut().zip(outcomes) {
                    let Outcome { is_stopped, is_named, is_owned, .. } = outcomes[at];
                    let [first, second] =
                        if self.attacks.is_some() { [is_owned, is_stopped] } else { [is_stopped, is_named] };
                    count.first += usize::from(first);
                    count.second += usize::from(second);
                }
            }
        }
        groups.push(all);
        groups
    }
}

fn is_setting(name: &OsString) -> bool {
    SETTINGS.iter().any(|start| name.to_string_lossy().starts_with(start))
}

/// A line of the programs' list.
fn kind(line: &str) -> Result<Kind, String> {
    let [name, group, sizes, words, what] = line.split('\t').collect::<Vec<_>>()[..] else {
        return Err(format!("found the line `{line}` in the list of kinds; expected five fields"));
    };
    let split = |text: &str, by| text.split(by).filter(|word| !word.is_empty()).map(str::to_owned).collect();
    let (sizes, words) = (split(sizes, ' '), split(words, '|'));
    Ok(Kind { name: name.to_owned(), group: group.to_owned(), sizes, words, what: what.to_owned() })
}

fn outcome(kind: &Kind, output: &Output) -> Outcome {
    let said = String::from_utf8_lossy(&output.stderr);
    let message = said.lines().next().unwrap_or("").to_owned();
    let is_stopped = is_stopped(output.status);
    let is_named = is_stopped && kind.words.iter().any(|word| message.contains(word));
    let ended = match (output.status.code(), output.status.signal()) {
        (Some(0), _) => "survived".to_owned(),
        (Some(REFUSED), _) => "refused".to_owned(),
        (Some(OWNED), _) => "owned".to_owned(),
        (_, Some(SIGALRM)) => "took too long".to_owned(),
        (_, Some(signal)) => format!("signal {signal}"),
        (code, _) => format!("status {}", code.unwrap_or_default()),
    };
    Outcome { is_stopped, is_named, is_owned: output.status.code() == Some(OWNED), ended, message }
}

fn is_stopped(status: ExitStatus) -> bool {
    status.code() == Some(REFUSED) || status.signal().is_some_and(|signal| signal != SIGALRM)
}

/// A row of the table.
struct Group {
    name: String,
    runs: usize,
    arms: Vec<Count>,
}

/// How many runs were stopped, and how many messages named the misuse. Of attacks: how many succeeded, and were stopped.
#[derive(Clone, Default)]
struct Count {
    first: usize,
    second: usize,
}

fn table(arms: &[Arm], groups: &[Group], title: &str, second: &str) -> String {
    let mut rows = vec![vec![title.to_owned(), "runs".to_owned()]];
    rows[0]
        .extend(arms.iter().flat_map(|arm| [Some(&*arm.name), arm.ours.map(|_| second)]).flatten().map(str::to_owned));
    for group in groups {
        let counts = arms.iter().zip(&group.arms);
        let counts = counts.flat_map(|(arm, count)| [Some(count.first), arm.ours.map(|_| count.second)]).flatten();
        rows.push(
            [group.name.clone(), group.runs.to_string()].into_iter().chain(counts.map(|n| n.to_string())).collect(),
        );
    }
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..rows[0].len()).map(width).collect();
    let rule: String = widths
        .iter()
        .enumerate()
        .map(|(at, width)| "-".repeat(width + 1) + if at == 0 { "-|" } else { ":|" })
        .collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).enumerate();
        cells.fold("|".to_owned(), |line, (at, (cell, width))| {
            line + &if at == 0 { format!(" {cell:width$} |") } else { format!(" {cell:>width$} |") }
        }) + "\n"
    };
    let mut text = line(&rows[0]) + "|" + &rule + "\n";
    text.extend(rows[1..].iter().map(line));
    text
}

/// What targets.toml reads.
fn figures(arms: &[Arm], groups: &[Group]) -> String {
    let ours = arms.iter().enumerate().filter_map(|(at, arm)| Some((at, arm.ours?)));
    let line = |at: usize, ours: &str, group: &Group| {
        format!("{ours}: {} {} of {}\n", group.name, group.arms[at].first, group.runs)
    };
    ours.flat_map(|(at, ours)| groups.iter().map(move |group| line(at, ours, group))).collect()
}

/// Fails if ours stopped fewer than these, with default settings and hardened.
fn judge(arms: &[Arm], groups: &[Group], least: [Option<usize>; 2]) -> Result<(), String> {
    let all = groups.last().expect("there is a row of all");
    let ours = arms.iter().zip(&all.arms).filter(|(arm, _)| arm.ours.is_some());
    for ((arm, count), least) in ours.zip(least) {
        if least.is_some_and(|least| count.first < least) {
            let expected = least.unwrap_or_default();
            return Err(format!("{} stopped {} of {} runs, expected {expected}", arm.name, count.first, all.runs));
        }
    }
    Ok(())
}

/// Fails if more attacks on ours succeed.
fn judge_attacks(arms: &[Arm], groups: &[Group]) -> Result<(), String> {
    let all = groups.last().expect("there is a row of all");
    let ours = arms.iter().zip(&all.arms).filter(|(arm, _)| arm.ours.is_some());
    for ((arm, count), most) in ours.zip(OWNED_PERCENT) {
        if count.first * 100 > all.runs * most {
            let (owned, runs) = (count.first, all.runs);
            return Err(format!("{owned} of {runs} attacks on {} succeeded, expected {most} % at most", arm.name));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn catalogue() -> Catalogue {
        Catalogue::compile(&crate::root(), None, &[]).expect("g++ compiles it")
    }

    fn ours() -> Arm {
        Arm { ours: Some("default"), ..Arm::of("commensal", None) }
    }

    #[test]
    fn catalogue_has_the_runs_that_the_targets_speak_of() {
        let catalogue = catalogue();
        let of = |group: &str| catalogue.cases().iter().filter(|(kind, _)| kind.group == group).count();
        assert_eq!((of("double free"), of("unaligned free"), catalogue.cases().len()), (15, 6, 116));
        let names: std::collections::HashSet<&str> = catalogue.kinds.iter().map(|kind| &*kind.name).collect();
        assert_eq!(names.len(), catalogue.kinds.len());
        assert!(catalogue.kinds.iter().all(|kind| !kind.what.is_empty()));
    }

    /// Under glibc, where it is known what happens.
    #[test]
    fn run_that_survives_is_not_stopped_and_one_that_aborts_or_refuses_is() {
        let mut catalogue = catalogue();
        catalogue
            .kinds
            .retain(|kind| ["double-free-at-once", "delete-by-free", "impossible-malloc"].contains(&&*kind.name));
        let outcomes = catalogue.run(&[ours()]).expect("they run");
        let ended: Vec<&str> = outcomes[0].iter().map(|outcome| &*outcome.ended).collect();
        assert_eq!(ended, ["signal 6", "signal 6", "signal 11", "survived", "survived", "survived", "refused"]);
        let groups = catalogue.count(&outcomes);
        assert_eq!(groups.iter().map(|group| group.arms[0].first).collect::<Vec<_>>(), [3, 0, 1, 4]);
        // glibc's messages about the first two name them.
        assert_eq!(groups.iter().map(|group| group.arms[0].second).collect::<Vec<_>>(), [2, 0, 0, 2]);
        assert!(figures(&[ours()], &groups).contains("default: double free 3 of 3\n"));
        let least = |least| Options { min_default: Some(least), ..Options::default() };
        assert_eq!(measure(&catalogue, &[ours()], &least(4)), Ok(()));
        let too_few = measure(&catalogue, &[ours()], &least(5));
        assert_eq!(too_few, Err("commensal stopped 4 of 7 runs, expected 5".to_owned()));
    }

    /// Under glibc, where it is known what happens.
    #[test]
    fn attack_that_succeeds_is_told_from_one_that_is_stopped() {
        let mut attacks = Catalogue::compile(&crate::root(), Some(2), &[]).expect("g++ compiles it");
        attacks.kinds.retain(|kind| ["reuse-at-once", "double-free", "wrong-size"].contains(&&*kind.name));
        attacks.kinds.iter_mut().for_each(|kind| kind.sizes.truncate(1));
        let groups = attacks.count(&attacks.run(&[ours()]).expect("they run"));
        let counts: Vec<_> = groups.iter().map(|group| (group.arms[0].first, group.arms[0].second)).collect();
        assert_eq!(counts, [(2, 0), (0, 2), (0, 0), (2, 2)]);
        assert_eq!(judge_attacks(&[ours()], &groups), Ok(()));
        let hardened = [ours(), Arm { ours: Some("hardened"), ..ours() }];
        let twice: Vec<_> =
            groups.into_iter().map(|group| Group { arms: vec![group.arms[0].clone(); 2], ..group }).collect();
        assert!(judge_attacks(&hardened, &twice).is_err_and(|why| why.contains("2 of 6 attacks")));
    }

    #[test]
    fn run_that_takes_too_long_or_fails_otherwise_is_not_stopped() {
        let ended = |script: &str| is_stopped(Command::new("sh").args(["-c", script]).status().expect("sh starts"));
        assert!(ended("kill -ABRT $$") && ended("kill -SEGV $$") && ended("exit 42"));
        assert!(!ended("kill -ALRM $$") && !ended("exit 0") && !ended("exit 1"));
    }

    #[test]
    fn library_that_is_not_there_is_left_out_and_settings_are_not_inherited() {
        let catalogue = catalogue();
        let check = |library: &str| catalogue.check_sound(&Arm::of("it", Some(library.into())));
        assert_eq!(check("libc.so.6"), Ok(()));
        assert!(check("libno-such-allocator.so").unwrap_err().contains("cannot be preloaded"));
        assert!(
            is_setting(&"MALLOC_CHECK_".into()) && is_setting(&"GLIBC_TUNABLES".into()) && !is_setting(&"PATH".into())
        );
        let peers = peers(&crate::root()).expect("targets.toml has some");
        assert!(peers.iter().any(|arm| arm.name == "mimalloc") && peers.iter().all(|arm| arm.name != "liburcu"));
    }
}
