//! `COMMENSAL_CONF`: `key:value` pairs, separated by commas.
//!
//! Each key is declared once, in [`KEYS`], in `slab::rules::OPTIONS` for single caches, or as a knob of grace periods (`rcu::KNOBS`) or of upkeep
//! (`upkeep::KNOBS`), with its values, the one that it has if nobody says, and what it does. `cargo xtask reference` makes docs/reference/conf.md of that.
//!
//! What is not understood is named with the nearest thing that would be, and the program starts all the same.

use super::statistics::{self, Who};
use super::{locks, report};
use crate::observe::knobs::{self, OutOfRange};
use crate::page::PAGE;
use crate::rcu;
use crate::slab::misuse::Line;
use crate::slab::region::{general, lay_out};
use crate::slab::rules::{self, Keys, NoRule, keys};
use crate::slab::sharing;
use crate::upkeep;
use core::fmt::Write;
use machine::{process, slot};

const KEYS: Keys = keys! {
    /// Whether statistics are printed on standard error when the program exits.
    "stats": "exit or off" = "off",
    /// Whether the slab table is printed on standard error when the program exits, in the columns of the kernel's `/proc/slabinfo`.
    "slabinfo": "exit or off" = "off",
    /// Whether the lock report is printed on standard error when the program exits, in the columns of `perf lock contention` or as JSON.
    "locks": "exit, json or off" = "off",
    /// Only rows of the lock report whose type or caller contains the text.
    "locks.filter": "a text of 1 to 64 bytes" = "all rows",
    /// Who writes a statistics page, which `commensal top` and `commensal stat` read: `on`: each process that has the setting, when it has lived for a twentieth of a
    /// second or holds some MiB; a number: that process at once, and the others as with `on`; `off`: nobody. `commensal run` says the number of the process that it becomes, unless this is said.
    "observe": "on, off, or the number of a process" = "off",
    /// Milliseconds after which the statistics page is written again.
    "observe.interval_ms": "a number from 20 to 60000" = USUAL_INTERVAL_MS,
    /// The page by which `commensal tune` reaches the process. `commensal run` makes it, and says so by this key; it is not for people.
    "control": "a descriptor that `commensal run` made" = "none",
    /// Dirty memory that free runs may keep before it goes back to the system, whether it is idle or not.
    "keep": "a number of MiB" = USUAL_KEPT_MIB,
    /// Whether the heap beyond its first 32 MiB follows the system's huge-page setting, or never has huge pages.
    "huge": "system or avoid" = "system",
    /// Whether memory that nobody uses goes back to the system in the background. `off`: when somebody trims.
    "upkeep": "on or off" = "on",
    /// Whether a thread of the library's own sees to slots where nobody comes along, in processes with threads. `off`: the program does, by `upkeep::tick` in Rust or
    /// `cm_upkeep_tick` in C.
    "shepherd": "on or off" = "on",
    /// Whether per-CPU memory waits for its first use. `off`: all of it is prepared at the start, as others do; for comparison.
    "lazy": "on or off" = "on",
    /// For how many CPUs `lazy:off` prepares it.
    "possible_cpus": "a number from 1 to 1024" = "the machine's",
};

/// What has to be known as a whole before anything is done.
struct Layout {
    is_lazy: bool,
    cpus: usize,
    observe: Who,
}

/// Reads the environment and does what it says. Once, when the program starts; allocates nothing.
pub fn apply_environment() {
    if let Some(conf) = process::environment(c"COMMENSAL_CONF")
        && sharing::enter()
    {
        let cpus = slot::possible().min(slot::MAX);
        let mut layout = Layout { is_lazy: true, cpus, observe: Who::Nobody };
        for pair in conf.to_bytes().split(|&byte| byte == b',').filter(|pair| !pair.is_empty()) {
            apply(core::str::from_utf8(pair).unwrap_or("?"), &mut layout);
        }
        general().begin_debug();
        if !layout.is_lazy && !lay_out(layout.cpus) {
            process::complain(
                b"commensal: COMMENSAL_CONF: no memory for lazy:off; what was not prepared is made when it is used\n",
            );
        }
        if let Err(why) = statistics::begin(layout.observe) {
            statistics::complain(why);
        }
    }
}

fn apply(pair: &str, layout: &mut Layout) {
    let (key, value) = pair.split_once(':').unwrap_or((pair, ""));
    let zone = &general().state().zone;
    match (key, value) {
        ("stats", "exit") => report::print_at_exit(),
        ("slabinfo", "exit") => report::print_slabinfo_at_exit(),
        ("locks", "exit") => locks::print_at_exit(),
        ("locks", "json") => locks::print_json_at_exit(),
        ("locks.filter", text) if !text.is_empty() && locks::set_filter(text) => {}
        ("stats" | "slabinfo" | "locks", "off") | ("huge", "system") => {}
        ("lazy", "on") => layout.is_lazy = true,
        ("lazy", "off") => layout.is_lazy = false,
        ("possible_cpus", number) if number.parse().is_ok_and(|cpus| (1..=slot::MAX).contains(&cpus)) => {
            layout.cpus = number.parse().unwrap_or(layout.cpus);
        }
        ("control", descriptor) if descriptor.parse::<u16>().is_ok() => {
            // Another process's: what it started inherits the setting.
            general().begin_control(descriptor.parse::<u16>().unwrap_or(0).into());
        }
        ("observe", "off") => layout.observe = Who::Nobody,
        ("observe", "on") => layout.observe = Who::All,
        ("observe", process) if process.parse::<u32>().is_ok_and(|process| (1..u32::MAX).contains(&process)) => {
            layout.observe = Who::First(process.parse().unwrap_or(1));
        }
        ("observe.interval_ms", ms) if ms.parse::<u32>().is_ok_and(|ms| (20..=60_000).contains(&ms)) => {
            statistics::set_interval_ms(ms.parse().unwrap_or(0));
        }
        ("huge", "avoid") => zone.set_avoid_huge(),
        ("keep", mib) if mib.parse::<u32>().is_ok() => {
            zone.set_kept_dirty(mib.parse::<u64>().unwrap_or(0) * ((1 << 20) / PAGE as u64));
        }
        ("upkeep", "on" | "off") => set_knob(("upkeep", "on"), switched(value), upkeep::set_knob),
        ("shepherd", "on" | "off") => set_knob(("upkeep", "shepherd"), switched(value), upkeep::set_knob),
        _ => apply_knob(key, value),
    }
}

fn switched(value: &str) -> &'static str {
    if value == "on" { "1" } else { "0" }
}

/// A key of two parts, or none that is known.
fn apply_knob(key: &str, value: &str) {
    match key.split_once('.') {
        Some(("rcu", name)) => set_knob(("rcu", name), value, rcu::set_knob),
        Some(("upkeep", name)) => set_knob(("upkeep", name), value, upkeep::set_knob),
        _ => match rules::check(key, value) {
            Some(Ok(())) => {}
            Some(Err(why)) => complain_of_rule(key, value, why),
            None => complain(key, value),
        },
    }
}

/// Sets a number of a part.
fn set_knob<K: knobs::Knob>((part, name): (&str, &str), value: &str, set: fn(K, u32) -> Result<(), OutOfRange>) {
    let known = K::ALL.iter().find(|known| known.name.as_str() == name);
    if let Some(known) = known
        && value.parse().is_ok_and(|value| set(known.knob, value).is_ok())
    {
        return;
    }
    let mut line = Line::new();
    let _ = match known {
        Some(known) => writeln!(
            line,
            "commensal: COMMENSAL_CONF: {part}.{name} cannot be '{value}': expected a number from {} to {}; ignored",
            known.least, known.most
        ),
        None => writeln!(
            line,
            "commensal: COMMENSAL_CONF: {part} has no knob '{name}': did you mean '{}'? ignored",
            nearest(name, K::ALL.iter().map(|known| known.name.as_str()))
        ),
    };
    process::complain(line.as_bytes());
}

#[cold]
fn complain_of_rule(key: &str, value: &str, why: NoRule<'_>) {
    let mut line = Line::new();
    let _ = match why {
        NoRule::Value(option) => {
            let values = rules::OPTIONS.values_of(option).unwrap_or("");
            writeln!(line, "commensal: COMMENSAL_CONF: {key} cannot be '{value}': expected {values}; ignored")
        }
        NoRule::Option(option) => {
            let likely = nearest(option, rules::OPTIONS.iter());
            writeln!(
                line,
                "commensal: COMMENSAL_CONF: caches have no option '{option}': did you mean '{likely}'? ignored"
            )
        }
    };
    process::complain(line.as_bytes());
}

#[cold]
fn complain(key: &str, value: &str) {
    let mut line = Line::new();
    let _ = match KEYS.values_of(key) {
        Some(values) => {
            writeln!(line, "commensal: COMMENSAL_CONF: {key} cannot be '{value}': expected {values}; ignored")
        }
        None => writeln!(
            line,
            "commensal: COMMENSAL_CONF: unknown key '{key}': did you mean '{}'? ignored",
            nearest(key, KEYS.iter())
        ),
    };
    process::complain(line.as_bytes());
}

/// The candidate that takes the fewest insertions, deletions and replacements to become `word`.
fn nearest<'a>(word: &str, candidates: impl Iterator<Item = &'a str>) -> &'a str {
    candidates.min_by_key(|candidate| distance(word.as_bytes(), candidate.as_bytes())).unwrap_or("")
}

/// Levenshtein's distance, of words up to 31 bytes; longer ones are cut.
fn distance(a: &[u8], b: &[u8]) -> usize {
    let b = &b[..b.len().min(31)];
    let mut row = [0; 32];
    for (column, cell) in row.iter_mut().enumerate() {
        *cell = column;
    }
    for (line, &x) in a.iter().take(31).enumerate() {
        let mut diagonal = row[0];
        row[0] = line + 1;
        for (column, &y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(row[column] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_key_is_found() {
        let keys = || KEYS.iter();
        assert_eq!(nearest("stat", keys()), "stats");
        assert_eq!(nearest("kep", keys()), "keep");
        assert_eq!(nearest("hugepages", keys()), "huge");
        assert_eq!(nearest("possible-cpu", keys()), "possible_cpus");
        assert_eq!([distance(b"abc", b"abc"), distance(b"", b"abc"), distance(b"kitten", b"sitting")], [0, 3, 3]);
    }
}
