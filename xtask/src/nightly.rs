//! What takes longer than CI may: one step after the other, whatever becomes of those before, and a page that says what came of each.
//!
//! A step is a command. What it says goes to `target/nightly/STEP.log`; its figures are read off there. The page, `docs/nightly.md`, has a row for each step,
//! with the commit at which it ran last. Its minutes are by what the next night tells how long it still takes.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use crate::tree;

pub const PAGE: &str = "docs/nightly.md";
const LOGS: &str = "target/nightly";
/// Between two lines that say how long it still takes.
const REPORT: Duration = Duration::from_secs(60);
const GLANCE: Duration = Duration::from_millis(200);
/// Lines of a step that failed which are shown.
const SHOWN: usize = 30;

/// How much is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// All of it: a night.
    Full,
    /// A little of each step, to try it.
    Quick,
}

struct Step {
    name: &'static str,
    /// Its words, of which `xtask` is this program; of a quick night after those of a full one.
    words: [&'static str; 2],
    /// What its output comes to.
    figures: fn(&str) -> String,
    /// What it takes, as long as no page says so, in minutes.
    minutes: [f64; 2],
}

const fn step(name: &'static str, words: [&'static str; 2], figures: fn(&str) -> String, minutes: [f64; 2]) -> Step {
    Step { name, words, figures, minutes }
}

const STEPS: [Step; 17] = [
    step("explore", ["xtask explore --minutes 60", "xtask explore --minutes 1"], explored, [62.0, 3.0]),
    step(
        "mutants",
        ["xtask mutants", "xtask mutants --rotating 2"],
        |said| last_with(said, "mutations found"),
        [60.0, 3.0],
    ),
    step("torture", ["xtask torture --minutes 30", "xtask torture --minutes 0.5"], tortured, [32.0, 3.0]),
    step("soak", ["xtask soak 60", "xtask soak 3"], |said| last_with(said, "drift: "), [62.0, 4.0]),
    step("valgrind", ["xtask valgrind"; 2], tests, [10.0; 2]),
    step(
        "tests",
        [
            // For CI nothing is skipped without its being listed.
            "env COMMENSAL_TEST_EFFORT=20 CI=true cargo test --workspace --no-fail-fast",
            "cargo test --package exploration",
        ],
        tests,
        [60.0, 3.0],
    ),
    // All experiments as one page.
    step(
        "lab",
        [
            "cargo run --quiet --release -- lab all --quick --report target/nightly/lab",
            "cargo run --quiet --release -- lab all --quick --blocks 1 --report target/nightly/lab",
        ],
        |_| "target/nightly/lab".to_owned(),
        [5.0, 1.0],
    ),
    step(
        "suite",
        [
            "cargo run --quiet --release -- compare --suite --require-programs",
            "cargo run --quiet --release -- compare --suite --quick --blocks 2",
        ],
        means,
        [60.0, 5.0],
    ),
    step(
        "targets",
        ["xtask targets --markdown", "xtask targets --markdown --quick"],
        |said| format!("{} rows, below", table(said).count().saturating_sub(2)),
        [60.0, 10.0],
    ),
    step("equal-arms", ["xtask equal-arms", "xtask equal-arms 10"], |said| last_with(said, "in all "), [2.0, 1.0]),
    step("alone", ["xtask alone"; 2], |said| last_with(said, "is the same"), [2.0; 2]),
    step("fuzz", ["xtask fuzz --minutes 60", "xtask fuzz --minutes 1"], fuzzed, [66.0, 5.0]),
    step(
        "packages",
        ["xtask package --twice --try bookworm --try sid", "xtask package --try bookworm"],
        |said| last_with(said, "without a trace"),
        [15.0, 7.0],
    ),
    step("installed", ["xtask installed"; 2], |said| last_with(said, "installed: "), [3.0; 2]),
    step("portable", ["xtask portable"; 2], |said| last_with(said, "portable: "), [4.0; 2]),
    step("semver", ["xtask semver"; 2], |said| last_with(said, "semver: "), [5.0; 2]),
    step("deny", ["xtask deny"; 2], |said| last_with(said, "deny: "), [1.0; 2]),
];

/// Runs the steps, or those that are named, and writes the page.
pub fn run(root: &Path, only: &[String], amount: Amount) -> Result<(), String> {
    let chosen = choose(only)?;
    let old = fs::read_to_string(root.join(PAGE)).unwrap_or_default();
    let logs = root.join(LOGS);
    fs::create_dir_all(&logs).map_err(|error| format!("{LOGS} cannot be made: {error}"))?;
    let estimate = |step: &Step| match (amount, minutes_of(&old, step.name)) {
        (Amount::Full, Some((minutes, false))) | (Amount::Quick, Some((minutes, true))) => minutes,
        _ => step.minutes[amount as usize],
    };
    let mut page = Page::read(&old);
    let mut failed = Vec::new();
    for (number, step) in chosen.iter().enumerate() {
        let after: f64 = chosen[number + 1..].iter().map(|step| estimate(step)).sum();
        let title = format!("nightly {}/{} {}", number + 1, chosen.len(), step.name);
        let log = logs.join(format!("{}.log", step.name));
        println!("{title}: {}; about {:.0} min left", step.words[amount as usize], estimate(step) + after);
        let (passed, said, took) = make(root, step, amount, &log, &title, estimate(step), after)?;
        if !passed {
            failed.push(step.name);
            let lines: Vec<&str> = said.lines().collect();
            println!("{}", lines[lines.len().saturating_sub(SHOWN)..].join("\n"));
        }
        println!("{title}: {} after {:.1} min; {}", word(passed), minutes(took), log.display());
        page.put(Row {
            step: step.name.to_owned(),
            result: word(passed).to_owned(),
            figures: (step.figures)(&said),
            minutes: format!("{:.1}{}", minutes(took), if amount == Amount::Quick { " (quick)" } else { "" }),
            date: today(),
            commit: tree::state(root),
        });
        if step.name == "targets" {
            page.targets = table(&said).map(|line| format!("{line}\n")).collect();
        }
        // After each: a night that is interrupted has its page, too.
        let text = page.text(&machine());
        fs::write(root.join(PAGE), &text).map_err(|error| format!("{PAGE} cannot be written: {error}"))?;
    }
    print!("\n{}", page.text(&machine()));
    if failed.is_empty() { Ok(()) } else { Err(format!("failed: {}", failed.join(", "))) }
}

fn choose(only: &[String]) -> Result<Vec<&'static Step>, String> {
    let names = || STEPS.iter().map(|step| step.name).collect::<Vec<_>>().join(", ");
    let find = |name: &String| {
        let found = STEPS.iter().find(|step| step.name == name);
        found.ok_or_else(|| format!("found no step '{name}'; expected some of: {}", names()))
    };
    if only.is_empty() { Ok(STEPS.iter().collect()) } else { only.iter().map(find).collect() }
}

/// Makes a step: whether it passed, what it said, and how long it took.
fn make(
    root: &Path, step: &Step, amount: Amount, log: &Path, title: &str, expected: f64, after: f64,
) -> Result<(bool, String, Duration), String> {
    let cannot = |error| format!("{}: {error}", log.display());
    let output = File::create(log).map_err(cannot)?;
    let mut command = command(step.words[amount as usize])?;
    command.current_dir(root);
    command.stdout(output.try_clone().map_err(cannot)?).stderr(output);
    let start = Instant::now();
    let status = watch(&mut command, |time| {
        let passed = minutes(time);
        let left = (expected - passed).max(0.0) + after;
        println!("{title}: {passed:.0} of about {expected:.0} min; about {left:.0} min left");
    })?;
    let said = fs::read(log).map_err(cannot)?;
    Ok((status.success(), String::from_utf8_lossy(&said).into_owned(), start.elapsed()))
}

/// Runs a command, and says every minute for how long it has run.
pub fn watch(command: &mut Command, mut say: impl FnMut(Duration)) -> Result<ExitStatus, String> {
    let (start, mut reported) = (Instant::now(), Instant::now());
    let mut child = command.spawn().map_err(|error| format!("{command:?} cannot be started: {error}"))?;
    loop {
        if let Some(status) = child.try_wait().map_err(|error| format!("{command:?} is lost: {error}"))? {
            return Ok(status);
        }
        if reported.elapsed() >= REPORT {
            reported = Instant::now();
            say(start.elapsed());
        }
        thread::sleep(GLANCE);
    }
}

fn command(words: &str) -> Result<Command, String> {
    let mut words = words.split(' ');
    let program = match words.next() {
        Some("xtask") => std::env::current_exe().map_err(|error| error.to_string())?,
        program => program.unwrap_or_default().into(),
    };
    let mut command = Command::new(program);
    command.args(words);
    Ok(command)
}

fn word(passed: bool) -> &'static str {
    if passed { "passed" } else { "**failed**" }
}

fn minutes(time: Duration) -> f64 {
    time.as_secs_f64() / 60.0
}

// -- Figures --

/// The last line that has these words in it.
fn last_with(said: &str, words: &str) -> String {
    said.lines().rfind(|line| line.contains(words)).unwrap_or("").trim().to_owned()
}

/// How many lines have a number before each of these words, and the sums of these.
fn sums(said: &str, words: [&str; 2]) -> (u64, [u64; 2]) {
    let number = |line: &str, word: &str| -> Option<u64> {
        line.split_once(word)?.0.split_whitespace().next_back()?.parse().ok()
    };
    let rows = said.lines().filter_map(|line| Some((number(line, words[0])?, number(line, words[1])?)));
    rows.fold((0, [0, 0]), |(lines, sums), row| (lines + 1, [sums[0] + row.0, sums[1] + row.1]))
}

/// What the explorer says of each protocol: so many runs and steps.
fn explored(said: &str) -> String {
    let (protocols, [runs, steps]) = sums(said, [" runs,", " million steps"]);
    format!("{protocols} protocols, {runs} runs, {steps} million steps")
}

/// What the fuzzer says of each target.
fn fuzzed(said: &str) -> String {
    let (targets, [runs, inputs]) = sums(said, [" runs,", " inputs reached"]);
    format!("{targets} targets, {runs} runs, {inputs} inputs")
}

/// What torture says of each mode: sections and grace periods.
fn tortured(said: &str) -> String {
    let (modes, [sections, periods]) = sums(said, [" sections, of age", " grace periods"]);
    format!("{modes} modes, {sections} sections, {periods} grace periods")
}

/// The sums of what test programs say at their ends.
fn tests(said: &str) -> String {
    let (_, [passed, failed]) = sums(said, [" passed;", " failed;"]);
    format!("{passed} tests passed, {failed} failed")
}

/// The suite's means.
fn means(said: &str) -> String {
    let lines = said.lines().map(str::trim).filter(|line| line.contains("geometric mean"));
    lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect::<Vec<_>>().join("; ")
}

/// The lines of a table.
fn table(said: &str) -> impl Iterator<Item = &str> {
    said.lines().filter(|line| line.starts_with('|'))
}

// -- The page --

/// What is known of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Row {
    step: String,
    result: String,
    figures: String,
    minutes: String,
    date: String,
    commit: String,
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Page {
    rows: Vec<Row>,
    /// The table of targets.
    targets: String,
}

const TARGETS: &str = "\n## Targets\n\n";

impl Page {
    /// What a page says.
    fn read(text: &str) -> Self {
        let (steps, targets) = text.split_once(TARGETS).unwrap_or((text, ""));
        let row = |line: &str| {
            let cells: Vec<String> = line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect();
            let [step, result, figures, minutes, date, commit] = cells.try_into().ok()?;
            let is_step = STEPS.iter().any(|known| known.name == step);
            is_step.then_some(Row { step, result, figures, minutes, date, commit })
        };
        Page { rows: table(steps).filter_map(row).collect(), targets: targets.to_owned() }
    }

    /// In place of what was known of the step.
    fn put(&mut self, row: Row) {
        let row = Row { figures: row.figures.replace('|', "/"), ..row };
        self.rows.retain(|other| other.step != row.step);
        self.rows.push(row);
        self.rows.sort_by_key(|row| STEPS.iter().position(|step| step.name == row.step));
    }

    fn text(&self, machine: &str) -> String {
        let mut text = format!(
            "# The last night\n\n\
             `cargo xtask nightly` wrote this page. It runs what takes longer than CI may. Each row says when the step ran last, and at which commit.\n\n\
             Machine: {machine}.\n\n\
             | step | result | figures | minutes | date | commit |\n|---|---|---|---|---|---|\n"
        );
        for Row { step, result, figures, minutes, date, commit } in &self.rows {
            text += &format!("| {step} | {result} | {figures} | {minutes} | {date} | {commit} |\n");
        }
        if !self.targets.is_empty() {
            text += TARGETS;
            text += &self.targets;
        }
        text
    }
}

/// What a step took by a page, in minutes, and whether only a little was done.
fn minutes_of(page: &str, step: &str) -> Option<(f64, bool)> {
    let row = Page::read(page).rows.into_iter().find(|row| row.step == step)?;
    let is_quick = row.minutes.ends_with("(quick)");
    Some((row.minutes.split(' ').next()?.parse().ok()?, is_quick))
}

/// CPUs and kernel.
fn machine() -> String {
    let file = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    let info = file("/proc/cpuinfo");
    let model = info.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or("");
    let kernel = file("/proc/sys/kernel/osrelease");
    format!("{cpus} CPUs, {}, Linux {}", model.trim_start_matches(['\t', ' ', ':']), kernel.trim())
}

/// The date, of Greenwich.
fn today() -> String {
    let output = Command::new("date").args(["-u", "+%F"]).output();
    output.map_or_else(|_| "?".into(), |output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_sums_of_what_steps_say() {
        let said = "heap upgrade                   12 runs,      3 million steps, nothing found\n\
                    fork                            8 runs,      1 million steps, nothing found\n";
        assert_eq!(explored(said), "2 protocols, 20 runs, 4 million steps");
        let said = "ConcurrencyId: 90 sections, of age [80, 10]; 28 grace periods; 4 children, 6 of handlers\n\
                    found: 3 sections were not waited for\nPerThread: 10 sections, of age [9, 1]; 2 grace periods; x\n";
        assert_eq!(tortured(said), "2 modes, 100 sections, 30 grace periods");
        let said =
            "test result: ok. 4 passed; 0 failed; 0 ignored\ntest result: FAILED. 2 passed; 1 failed; 0 ignored\n";
        assert_eq!(tests(said), "6 tests passed, 1 failed");
        assert_eq!(means("x\n geometric mean   1.02 \ny\n"), "geometric mean 1.02");
        assert_eq!(
            last_with("1 of 3 mutations found\n3 of 3 mutations found\n", "mutations found"),
            "3 of 3 mutations found"
        );
    }

    #[test]
    fn nightly_page_keeps_the_rows_of_other_steps() {
        let row = |step: &str, minutes: &str| Row {
            step: step.into(),
            result: "passed".into(),
            figures: "1 | 2".into(),
            minutes: minutes.into(),
            date: "2026-01-02".into(),
            commit: "abc, changed".into(),
        };
        let mut page = Page::default();
        page.put(row("torture", "30.0"));
        page.put(row("explore", "1.0 (quick)"));
        page.targets = "| a |\n|---|\n".into();
        let text = page.text("2 CPUs");
        assert_eq!(Page::read(&text), page);
        assert_eq!(
            (minutes_of(&text, "torture"), minutes_of(&text, "explore")),
            (Some((30.0, false)), Some((1.0, true)))
        );
        assert_eq!(minutes_of(&text, "mutants"), None);
        page.put(row("torture", "31.0"));
        assert_eq!(page.rows.iter().map(|row| &*row.step).collect::<Vec<_>>(), ["explore", "torture"]);
        assert_eq!(minutes_of(&page.text(""), "torture"), Some((31.0, false)));
    }

    #[test]
    fn failed_step_is_told_and_has_its_log() {
        let step = step("fails", ["cargo no-such-command"; 2], tests, [0.0; 2]);
        let log = std::env::temp_dir().join(format!("commensal-xtask-nightly-{}", std::process::id()));
        let (passed, said, _) = make(&crate::root(), &step, Amount::Quick, &log, "", 0.0, 0.0).unwrap();
        assert!(!passed && said.contains("no-such-command"), "{said}");
        fs::remove_file(log).unwrap();
    }

    #[test]
    fn steps_are_chosen_by_name_and_run_commands_that_there_are() {
        assert_eq!(choose(&[]).unwrap().len(), STEPS.len());
        assert_eq!(choose(&["torture".into()]).unwrap()[0].name, "torture");
        assert!(choose(&["tortur".into()]).is_err_and(|why| why.contains("explore, mutants, torture")));
    }
}
