//! Reading and setting a setting by its key while the program runs.
//!
//! In a key `cache.NAME.…`, NAME is that of a cache. The value is then the one that a new cache of this name would get.

use super::{ALL_PROCESSES, Key, OF_CACHE, ROWS, Values, When, candidates, rule, text_of};
use core::fmt;

/// A setting or a figure cannot be read or set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// There is none of this name.
    Unknown,
    /// It is a text, and no number.
    Text,
    /// It has no value: it was not set, and there is no default.
    NoValue,
    /// The number is out of its range.
    OutOfRange,
    /// It is a setting that only `COMMENSAL_CONF` can set.
    AtStart,
    /// It is a figure, which is only read.
    Figure,
}

impl fmt::Display for Refusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Refusal::Unknown => "there is no setting or figure of this name: `commensal conf` lists the settings",
            Refusal::Text => "the setting is a text, and no number: show it",
            Refusal::NoValue => "the setting has no value: it was not set, and there is no default",
            Refusal::OutOfRange => "the number is out of the setting's range: see `commensal conf`",
            Refusal::AtStart => "the setting is read when the program starts: its name cannot set it later",
            Refusal::Figure => "the name is that of a figure, which is only read",
        })
    }
}

impl core::error::Error for Refusal {}

fn place_of(key: &str) -> Option<usize> {
    let (word, mut known) = candidates(key);
    known.find(|&(_, candidate)| candidate == word).map(|(place, _)| place)
}

/// Its value in this process; the words of a table by their position, or as bits.
pub(crate) fn number(key: &str) -> Result<u64, Refusal> {
    let place = place_of(key).ok_or(Refusal::Unknown)?;
    let row = ROWS.get(place).ok_or(Refusal::Unknown)?;
    if row.values == Values::Path {
        return Err(Refusal::Text);
    }
    let default = row.values.parse(&row.default);
    match rule(key).filter(|_| row.key.starts_with(OF_CACHE)) {
        Some((name, _)) => Ok(Key { place, default: default.unwrap_or(0) }.of_cache(name.as_bytes())),
        None => Key { place, default: 0 }.said().or(default).ok_or(Refusal::NoValue),
    }
}

/// Calls `show` with the parts of its value as `COMMENSAL_CONF` would say it.
pub(crate) fn show(key: &str, show: &mut impl FnMut(&str)) -> Result<(), Refusal> {
    let row = place_of(key).and_then(|place| ROWS.get(place)).ok_or(Refusal::Unknown)?;
    let value = match number(key) {
        Ok(value) => value,
        Err(Refusal::Text | Refusal::NoValue) => {
            show(text_of(key).unwrap_or(&row.default));
            return Ok(());
        }
        Err(why) => return Err(why),
    };
    match row.values {
        Values::OneOf(words) => show(words.split(' ').nth(value as usize).unwrap_or_default()),
        Values::AnyOf(_) | Values::Process if value == 0 => show("off"),
        Values::AnyOf(words) => {
            let chosen = words.split(' ').enumerate().filter(|&(place, _)| value >> place & 1 != 0);
            chosen.enumerate().for_each(|(number, (_, word))| {
                if number > 0 {
                    show("+");
                }
                show(word);
            });
        }
        Values::Process if value == ALL_PROCESSES => show("on"),
        Values::Number(..) | Values::Process | Values::Path => show_number(value, show),
    }
    Ok(())
}

/// Calls `show` with a number in decimal digits.
pub(crate) fn show_number(mut number: u64, show: &mut impl FnMut(&str)) {
    let (mut digits, mut used) = ([0; 20], 0);
    for digit in digits.iter_mut().rev() {
        (*digit, used) = (b'0' + (number % 10) as u8, used + 1);
        number /= 10;
        if number == 0 {
            break;
        }
    }
    let text = digits.get(digits.len() - used..).unwrap_or_default();
    show(core::str::from_utf8(text).unwrap_or_default());
}

/// Sets it.
pub(crate) fn set_number(key: &str, value: u64) -> Result<(), Refusal> {
    let place = place_of(key).ok_or(Refusal::Unknown)?;
    let row = ROWS.get(place).ok_or(Refusal::Unknown)?;
    if row.when == When::AtStart {
        return Err(Refusal::AtStart);
    }
    let is_in_range = u32::try_from(value).is_ok_and(|value| row.values.has(value));
    if !is_in_range {
        return Err(Refusal::OutOfRange);
    }
    Key { place, default: 0 }.put(value);
    Ok(())
}

/// The key of a row, and whether it can be set while the program runs.
pub(crate) fn row(number: usize) -> Option<(&'static str, bool)> {
    ROWS.get(number).map(|row| (row.key.as_str(), row.when == When::AnyTime))
}

/// Number of rows.
pub(crate) const COUNT: usize = ROWS.len();
