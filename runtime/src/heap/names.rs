//! Settings and the process's figures by their names: reading any, setting those that may change, and listing all.
//!
//! The names are those of the tables `settings::TABLE` and `observe::figures`; no figure has the name of a setting.

use super::report;
use crate::observe::figures::Figures;
pub use crate::settings::Refusal;
use crate::settings::by_key;
use crate::upkeep;

/// A name, and what may be done with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Described {
    /// The name.
    pub name: &'static str,
    /// Whether it is a figure; otherwise it is a setting.
    pub is_figure: bool,
    /// Whether [`set`] sets it.
    pub can_be_set: bool,
}

/// The value of a setting, or of a figure of the process as it is now. A word is a number: its position. Of words that
/// are joined, each is a bit.
///
/// A setting takes constant time. A figure takes as long as [`report::process`], which reads all.
///
/// ```
/// use commensal::names;
///
/// names::set("upkeep.interval_ms", 250).expect("milliseconds, from 1");
/// assert_eq!(names::get("upkeep.interval_ms"), Ok(250));
/// assert_eq!(names::get("upkeep.interval"), Err(names::Refusal::Unknown));
/// ```
///
/// # Errors
/// There is no such name, the setting is a text, or it has no value.
pub fn get(name: &str) -> Result<u64, Refusal> {
    match by_key::number(name) {
        Err(Refusal::Unknown) => figure(name),
        known => known,
    }
}

/// Calls `show` with the parts of the value as a text: of a setting as `COMMENSAL_CONF` would say it, of a figure in
/// decimal digits.
///
/// # Errors
/// There is no such name.
pub fn show(name: &str, mut show: impl FnMut(&str)) -> Result<(), Refusal> {
    match by_key::show(name, &mut show) {
        Err(Refusal::Unknown) => figure(name).map(|value| by_key::show_number(value, &mut show)),
        known => known,
    }
}

/// Sets a setting that may change while the program runs.
///
/// # Errors
/// There is no such name, the value is out of its range, or only `COMMENSAL_CONF` sets it. Nothing has changed.
pub fn set(name: &str, value: u64) -> Result<(), Refusal> {
    match by_key::set_number(name, value) {
        Ok(()) => {
            if name.starts_with("upkeep") {
                upkeep::look_again();
            }
            Ok(())
        }
        Err(Refusal::Unknown) if find(&Figures::NONE, &Wanted::Name(name)).is_some() => Err(Refusal::Figure),
        refused => refused,
    }
}

/// The name of a number from 0 on; none behind the last.
pub fn describe(number: usize) -> Option<Described> {
    match by_key::row(number) {
        Some((name, can_be_set)) => Some(Described { name, is_figure: false, can_be_set }),
        None => find(&Figures::NONE, &Wanted::Number(number.checked_sub(by_key::COUNT)?)).map(|(name, _)| Described {
            name,
            is_figure: true,
            can_be_set: false,
        }),
    }
}

fn figure(name: &str) -> Result<u64, Refusal> {
    let wanted = Wanted::Name(name);
    find(&Figures::NONE, &wanted).ok_or(Refusal::Unknown)?;
    // Before the first allocation, each figure is 0.
    let figures = report::process().unwrap_or(Figures::NONE);
    find(&figures, &wanted).map(|(_, value)| value).ok_or(Refusal::Unknown)
}

enum Wanted<'a> {
    Name(&'a str),
    Number(usize),
}

/// The name and the value of a figure. One function for all, because the code for all names is some KiB.
#[inline(never)]
fn find(figures: &Figures, wanted: &Wanted<'_>) -> Option<(&'static str, u64)> {
    let (mut number, mut found) = (0, None);
    figures.for_each(|_, name, _, value| {
        let is_this = match wanted {
            Wanted::Name(wanted) => *wanted == name,
            Wanted::Number(wanted) => *wanted == number,
        };
        if is_this {
            found = Some((name, value));
        }
        number += 1;
    });
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::figures::TABLES;
    use crate::settings::{TABLE, When};
    use std::vec::Vec;

    #[test]
    fn described_names_are_those_of_both_tables_and_none_is_in_both() {
        let described: Vec<Described> = (0..).map_while(describe).collect();
        let settings = TABLE.iter().map(|setting| (setting.key, false, setting.when == When::AnyTime));
        let figures = TABLES[0].figures.iter().map(|figure| (figure.name, true, false));
        let expected: Vec<_> = settings.chain(figures).collect();
        let found = described.iter().map(|it| (it.name, it.is_figure, it.can_be_set));
        assert!(found.eq(expected.iter().copied()), "{described:?}");
        assert!(TABLES[0].figures.iter().all(|figure| by_key::number(figure.name) == Err(Refusal::Unknown)));
    }
}
