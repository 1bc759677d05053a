//! `targets.toml`, the table of what has to be reached: rows with their musts and goals, and the peers that they are held against.
//!
//! The file's first lines explain its fields. What is wrong in it is an error that names the line.

use std::collections::{BTreeMap, HashSet};

use anyhow::{Context, Result, anyhow, ensure};
use serde::Deserialize;
use toml::Spanned;

/// How many numbers a probe may print.
pub const MOST_WORDS: usize = 24;
/// Stands for the allocator that does best in a row, without ours.
pub const BEST_PEER: &str = "best peer";
/// Our library without the row's settings.
pub const DEFAULTS: &str = "default settings";
/// Before the settings of our library in the other arm.
const OTHER_SETTINGS: &str = "settings ";

/// All rows and all peers.
#[derive(Debug)]
pub struct Targets {
    /// In the order of the file.
    pub rows: Vec<Row>,
    /// Likewise.
    pub peers: Vec<Peer>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    peer: BTreeMap<String, Spanned<Peer>>,
    part: BTreeMap<String, BTreeMap<String, Spanned<Row>>>,
}

/// Another allocator, or what other programs do in place of something of ours.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Peer {
    /// What tables call it.
    #[serde(skip)]
    pub name: String,
    /// The version of the peer itself.
    pub version: String,
    /// The crate that carries its source.
    #[serde(rename = "crate")]
    pub carrier: Option<String>,
    /// The Debian package that brings it.
    pub package: Option<String>,
    /// A shell script that builds it in the directory where it is started; `$SOURCE` is the crate's folder, `$ROOT` ours.
    pub build: Option<String>,
    /// What was built, or the name by which the loader knows an installed library.
    #[serde(default)]
    pub file: String,
    /// Whether it is something else than an allocator to preload.
    #[serde(default)]
    pub is_no_allocator: bool,
    /// Why it cannot be had. Then nobody looks for it.
    pub unavailable: Option<String>,
}

/// One figure that has to be reached.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// A word that no other row has.
    #[serde(skip)]
    pub name: String,
    /// The part of the project's plan that has to reach it.
    #[serde(skip)]
    pub part: u8,
    /// What is measured, for people.
    pub what: String,
    /// What has to be reached.
    pub must: Limit,
    /// The must on processors with this word in their names, where it is another one.
    #[serde(default)]
    pub must_on: BTreeMap<String, Limit>,
    /// What is hoped for.
    pub goal: Option<Limit>,
    /// It takes minutes, and is left out of quick runs.
    #[serde(default)]
    pub long: bool,
    /// Why the must is what it is.
    #[allow(dead_code, reason = "for readers of the file")]
    pub why: Option<String>,
    /// What is missing to measure it.
    pub unmeasured: Option<String>,
    /// A shell script that runs once, in the root.
    pub command: Option<String>,
    /// What is run before the command, without being timed.
    pub prepare: Option<String>,
    /// A program that runs under each arm in each block.
    pub probe: Option<String>,
    /// Which figure of a run counts.
    #[serde(default)]
    pub figure: Figure,
    /// Another figure, whose ratio is shown beside.
    pub beside: Option<Figure>,
    /// How often the program runs for one measurement.
    pub times: Option<u32>,
    /// Whether it has to stay on one CPU.
    #[serde(default)]
    pub one_cpu: bool,
    /// Words, one of which ends the program's arguments; without them the arms are allocators.
    pub arms: Option<Vec<String>>,
    /// The arm whose figure it is.
    #[serde(default = "ours")]
    pub arm: String,
    /// The arm that it is divided by.
    pub over: Option<String>,
    /// The arm that is subtracted.
    pub minus: Option<String>,
    /// Of several programs, the worst instead of their mean.
    #[serde(default)]
    pub worst: bool,
    /// What ends the arguments where our library is preloaded, and elsewhere.
    pub words: Option<[String; 2]>,
    /// Settings of our library.
    pub settings: Option<String>,
    /// Variables of all arms.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
}

fn ours() -> String {
    lab::arm::COMMENSAL.to_owned()
}

/// A figure that is allowed, with its unit: `≤ 5 ns`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(try_from = "String")]
pub struct Limit {
    /// Whether more is better.
    pub at_least: bool,
    pub value: f64,
    pub unit: String,
}

impl Limit {
    /// Whether a figure is as good.
    pub fn is_reached_by(&self, figure: f64) -> bool {
        if self.at_least { figure >= self.value } else { figure <= self.value }
    }
}

impl TryFrom<String> for Limit {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let mut words = text.splitn(3, ' ');
        let at_least = match words.next() {
            Some("≤") => Some(false),
            Some("≥") => Some(true),
            _ => None,
        };
        let value = words.next().and_then(|word| word.parse().ok());
        let limit = at_least.zip(value).zip(words.next());
        let limit = limit.map(|((at_least, value), unit)| Limit { at_least, value, unit: unit.to_owned() });
        limit.ok_or_else(|| format!("found the limit `{text}`; expected ≤ or ≥, a number and its unit"))
    }
}

/// A figure of a run.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(try_from = "String")]
pub enum Figure {
    /// Seconds that it took.
    Wall,
    /// The same of a command, in minutes.
    Minutes,
    /// Page faults.
    Faults,
    /// Its peak memory, in kB.
    Peak,
    /// A word that it printed, counted from 1.
    Word(usize),
    /// The first less the second.
    Difference(usize, usize),
    /// The first over the second.
    Quotient(usize, usize),
    /// The number that a command printed behind these words.
    After(String),
}

impl Default for Figure {
    fn default() -> Self {
        Figure::Word(1)
    }
}

impl TryFrom<String> for Figure {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let number = |word: &str| word.parse().ok().filter(|number| (1..=MOST_WORDS).contains(number));
        let pair = |sign| text.split_once(sign).and_then(|(one, other)| Some((number(one)?, number(other)?)));
        let named =
            [("wall", Figure::Wall), ("minutes", Figure::Minutes), ("faults", Figure::Faults), ("peak", Figure::Peak)];
        if let Some((_, figure)) = named.into_iter().find(|(name, _)| *name == text) {
            return Ok(figure);
        }
        if let Some(words) = text.strip_prefix("after ") {
            return Ok(Figure::After(words.to_owned()));
        }
        let of_words = number(&text).map(Figure::Word);
        let of_words = of_words.or_else(|| pair('-').map(|(one, other)| Figure::Difference(one, other)));
        of_words.or_else(|| pair('/').map(|(one, other)| Figure::Quotient(one, other))).ok_or_else(|| {
            format!("found the figure `{text}`; expected wall, minutes, faults, peak, N, N-M, N/M or after WORDS, with N and M from 1 to {MOST_WORDS}")
        })
    }
}

impl Row {
    /// What is wrong with it.
    fn check(&self) -> Result<()> {
        let ways = [&self.command, &self.probe, &self.unmeasured].into_iter().flatten().count();
        ensure!(ways == 1, "found {ways} of command, probe and unmeasured; expected one of them");
        if let Some(goal) = &self.goal {
            let is_alike = goal.at_least == self.must.at_least && goal.unit == self.must.unit;
            ensure!(is_alike, "the goal has another sign or unit than the must");
            ensure!(self.must.is_reached_by(goal.value), "the goal is worse than the must");
        }
        ensure!(self.beside.is_none() || self.over.is_some(), "found beside without over; expected both");
        ensure!(self.over.is_none() || self.minus.is_none(), "found over and minus; expected one of them at most");
        let is_of_command = matches!(self.figure, Figure::After(_) | Figure::Minutes);
        ensure!(
            self.command.is_some() || !is_of_command,
            "found the figure {:?} of something else than a command",
            self.figure
        );
        ensure!(
            self.probe.is_some() || self.other_arm().is_none(),
            "a row without a probe has no arms to be held against"
        );
        ensure!(
            self.over_settings().is_none() || self.settings.is_some(),
            "found a row over other settings; expected settings of its own"
        );
        if let Some(arms) = &self.arms {
            let named = [Some(&*self.arm), self.other_arm()];
            let unknown =
                named.into_iter().flatten().find(|name| !arms.is_empty() && arms.iter().all(|arm| arm != name));
            ensure!(unknown.is_none(), "found the arm {:?}; expected one of {arms:?}", unknown.expect("it is some"));
        }
        Ok(())
    }
}

impl Row {
    /// The arm that it is held against.
    pub fn other_arm(&self) -> Option<&str> {
        self.over.as_deref().or(self.minus.as_deref())
    }

    /// If both arms are our library, the other arm's settings: none for the defaults.
    pub fn over_settings(&self) -> Option<Option<&str>> {
        let over = self.other_arm()?;
        if over == DEFAULTS { Some(None) } else { over.strip_prefix(OTHER_SETTINGS).map(Some) }
    }
}

impl Targets {
    /// Reads the file's text, for the processor of this name.
    pub fn parse(text: &str, processor: &str) -> Result<Self> {
        let file: File = toml::from_str(text)?;
        let line = |at: usize| text[..at].matches('\n').count() + 1;
        let (mut rows, mut names) = (Vec::new(), HashSet::new());
        for (part, (name, row)) in file.part.iter().flat_map(|(part, rows)| rows.iter().map(move |row| (part, row))) {
            let told = |why: String| format!("targets.toml, line {}, row {name}: {why}", line(row.span().start));
            let number = part.parse().ok().filter(|number| (1..=8).contains(number));
            let part = number.with_context(|| told(format!("found part {part}; expected 1 to 8")))?;
            let (start, row) = (row.span().start, row.get_ref());
            let here = row.must_on.iter().find(|(word, _)| processor.contains(*word));
            let must = here.map_or(&row.must, |(_, must)| must).clone();
            let row = Row { part, name: name.clone(), must, ..row.clone() };
            row.check().map_err(|why| anyhow!(told(why.to_string())))?;
            ensure!(names.insert(name), told("another row has this name".to_owned()));
            rows.push((start, row));
        }
        rows.sort_by_key(|(start, _)| *start);
        let peer = |(name, peer): (&String, &Spanned<Peer>)| {
            let of = Peer { name: name.clone(), ..peer.get_ref().clone() };
            ensure!(
                of.unavailable.is_some() == of.file.is_empty(),
                "targets.toml, line {}, peer {name}: expected either a file or why it is unavailable",
                line(peer.span().start)
            );
            Ok(of)
        };
        let peers = file.peer.iter().map(peer).collect::<Result<_>>()?;
        Ok(Targets { rows: rows.into_iter().map(|(_, row)| row).collect(), peers })
    }

    /// Keeps the rows of a part, and those that have a word in their names.
    pub fn choose(&mut self, part: Option<u8>, only: &[String]) -> Result<()> {
        self.rows.retain(|row| {
            part.is_none_or(|part| row.part == part)
                && (only.is_empty() || only.iter().any(|only| row.name.contains(only)))
        });
        ensure!(!self.rows.is_empty(), "targets.toml has no such row");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROW: &str = "[part.1.a]\nwhat = \"a\"\nmust = \"≤ 5 ns\"\ncommand = \"true\"\n";

    fn told(text: &str) -> String {
        format!("{:#}", Targets::parse(text, "").expect_err("it is wrong"))
    }

    #[test]
    fn committed_table_is_read_and_each_part_of_it_can_be_chosen() {
        let targets = || Targets::parse(include_str!("../../targets.toml"), "").expect("it is sound");
        let all = targets().rows.len();
        let parts: usize = (1..=8)
            .map(|part| {
                let mut targets = targets();
                targets.choose(Some(part), &[]).map_or(0, |()| targets.rows.len())
            })
            .sum();
        assert_eq!(parts, all);
        let mut some = targets();
        some.choose(Some(1), &["rcu-".to_owned()]).expect("there are some");
        assert!(some.rows.iter().all(|row| row.part == 1 && row.name.contains("rcu-")));
        assert!(targets().choose(None, &["dinner".to_owned()]).is_err());
    }

    #[test]
    fn mistake_is_told_with_its_line() {
        let with = |more: &str| told(&format!("{}\n{ROW}{more}", ROW.replace("1.a", "2.b")));
        assert!(told(&format!("{}\n{ROW}", ROW.replace("1.a", "2.a"))).contains("another row has this name"));
        let worse = with("goal = \"≤ 6 ns\"\n");
        assert!(worse.contains("line 6, row a: the goal is worse"), "{worse}");
        assert!(with("goal = \"≤ 4 µs\"\n").contains("another sign or unit"));
        assert!(with("probe = \"true\"\n").contains("found 2 of command"));
        assert!(with("over = \"glibc\"\n").contains("no arms"));
        assert!(with("beside = \"2\"\n").contains("beside without over"));
        assert!(with("figure = \"0\"\n").contains("found the figure `0`"));
        let unknown = with("dinner = 1\n");
        assert!(unknown.contains("line 10") && unknown.contains("dinner"), "{unknown}");
        assert!(told(&format!("{ROW}{ROW}")).contains("line 5"), "a table that is there twice");
        assert!(told(&ROW.replace("part.1", "part.9")).contains("line 1, row a: found part 9"));
        assert!(told(&ROW.replace("must = \"≤ 5 ns\"\n", "")).contains("must"));
        assert!(told(&ROW.replace("≤ 5 ns", "5 ns")).contains("found the limit `5 ns`"));
    }

    #[test]
    fn must_is_that_of_the_processor() {
        let row = format!("{ROW}goal = \"≤ 4 ns\"\nmust_on.Intel = \"≤ 7 ns\"\n");
        let must = |processor| Targets::parse(&row, processor).expect("it is sound").rows[0].must.value;
        assert_eq!(["AMD EPYC", "Intel(R) Xeon(R)", ""].map(must), [5.0, 7.0, 5.0]);
        let worse = row.replace("≤ 7 ns", "≤ 3 ns");
        assert!(format!("{:#}", Targets::parse(&worse, "Intel").expect_err("it is wrong")).contains("goal is worse"));
    }

    #[test]
    fn arm_that_the_row_does_not_have_is_told() {
        let row = ROW.replace("command", "arms = [\"one\", \"two\"]\narm = \"one\"\nover = \"three\"\nprobe");
        assert!(told(&row).contains("found the arm \"three\""));
    }

    #[test]
    fn row_over_other_settings_has_settings() {
        let row = format!("{}over = \"default settings\"\n", ROW.replace("command", "probe"));
        assert!(told(&row).contains("expected settings of its own"), "{}", told(&row));
        assert!(Targets::parse(&format!("{row}settings = \"harden:on\"\n"), "").is_ok());
        let row = row.replace("default settings", "settings upkeep:off");
        assert!(told(&row).contains("expected settings of its own"), "{}", told(&row));
        let targets = Targets::parse(&format!("{row}settings = \"harden:on\"\n"), "").expect("it is sound");
        assert_eq!(targets.rows[0].over_settings(), Some(Some("upkeep:off")));
        let row = row.replace("over =", "minus =");
        assert!(told(&row).contains("expected settings of its own"), "{}", told(&row));
    }

    #[test]
    fn peer_without_a_file_needs_a_reason() {
        assert!(told(&format!("[peer.p]\nversion = \"1\"\n{ROW}")).contains("line 1, peer p"));
        assert!(Targets::parse(&format!("[peer.p]\nversion = \"1\"\nunavailable = \"gone\"\n{ROW}"), "").is_ok());
    }

    #[test]
    fn figures_are_read_as_they_are_written() {
        let of = |text: &str| Figure::try_from(text.to_owned());
        assert_eq!(of("faults"), Ok(Figure::Faults));
        assert_eq!(of("3-2"), Ok(Figure::Difference(3, 2)));
        assert_eq!(of("23/22"), Ok(Figure::Quotient(23, 22)));
        assert_eq!(of("after malloc takes"), Ok(Figure::After("malloc takes".to_owned())));
        assert!(of("25").is_err() && of("3+2").is_err() && of("").is_err());
    }
}
