//! Settings: one table of all settings, their values in this process, and the parser of `COMMENSAL_CONF`.
//!
//! ```text
//!   TABLE ──▶ ROWS       keys and values as words, which the library keeps
//!     │        │ read, set
//!     │        ▼
//!     │      the values, at the end of the root's domain: 0, or a value plus one
//!     ▼        ▲ get
//!   Key::of ───┘         at compile time: an unknown key does not compile
//! ```
//!
//! `COMMENSAL_CONF` has `key:value` pairs, separated by commas. A pair that is not understood changes nothing; a
//! message names it with the expected values or the nearest key. A mechanism reads its values when it needs them;
//! `heap::conf` applies those that act once, at the start. Settings of single caches (`cache.NAME.…`, where NAME may
//! end with `*`) are read from the environment when a cache is created.
//!
//! Any thread reads and sets at any time: each value is an atomic word of its own.

pub(crate) mod by_key;
mod table;

pub use by_key::Refusal;
pub use table::{Setting, TABLE, Values, When};

use crate::observe::Word;
use core::ffi::CStr;
use core::fmt;
use machine::sync::{AtomicU32, Ordering};
use machine::{process, root};

impl Values {
    /// The value of a text.
    pub const fn parse(&self, text: &str) -> Option<u64> {
        match (self, text.as_bytes()) {
            (Values::OneOf(words), text) => place(words.as_str(), text),
            (Values::AnyOf(_) | Values::Process, b"off") => Some(0),
            (Values::Process, b"on") => Some(ALL_PROCESSES),
            (Values::AnyOf(words), b"all") => Some((1 << count(words.as_str())) - 1),
            (Values::AnyOf(words), text) => bits(words.as_str(), text),
            (Values::Number(least, most), _) => number(text, *least, *most),
            (Values::Path, text) => {
                if text.is_empty() || text.len() > LONGEST_PATH {
                    None
                } else {
                    Some(1)
                }
            }
            (Values::Process, _) => number(text, 1, u32::MAX - 2),
        }
    }

    fn has(&self, value: u32) -> bool {
        match self {
            Values::OneOf(words) => value < count(words),
            Values::Number(least, most) => (*least..=*most).contains(&value),
            _ => false,
        }
    }
}

impl fmt::Display for Values {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Values::OneOf(words) => {
                let last = count(words) as usize - 1;
                words.split(' ').enumerate().try_for_each(|(place, word)| match place {
                    0 => write!(out, "{word}"),
                    _ if place == last => write!(out, " or {word}"),
                    _ => write!(out, ", {word}"),
                })
            }
            Values::AnyOf(words) => {
                write!(out, "off, all, or some of ")?;
                words.split(' ').try_for_each(|word| write!(out, "{word}, "))?;
                write!(out, "joined by '+'")
            }
            Values::Number(least, most) => write!(out, "a number from {least} to {most}"),
            Values::Process => write!(out, "on, off, or the number of a process"),
            Values::Path => write!(out, "a path of at most {LONGEST_PATH} bytes, without commas"),
        }
    }
}

/// The value of `on` where a process may be named.
pub(crate) const ALL_PROCESSES: u64 = u32::MAX as u64 - 1;
/// Most bytes of a path.
pub const LONGEST_PATH: usize = 512;

const fn number(text: &str, least: u32, most: u32) -> Option<u64> {
    match u32::from_str_radix(text, 10) {
        Ok(number) if number >= least && number <= most => Some(number as u64),
        _ => None,
    }
}

const fn cut(text: &[u8], end: u8) -> (&[u8], Option<&[u8]>) {
    let mut at = 0;
    while at < text.len() {
        if text[at] == end {
            let (first, rest) = text.split_at(at);
            return (first, Some(rest.split_at(1).1));
        }
        at += 1;
    }
    (text, None)
}

pub(crate) const fn is_same(one: &[u8], other: &[u8]) -> bool {
    let mut at = 0;
    while at < one.len() && at < other.len() && one[at] == other[at] {
        at += 1;
    }
    at == one.len() && at == other.len()
}

pub(crate) const fn place(words: &str, wanted: &[u8]) -> Option<u64> {
    let (mut rest, mut place) = (Some(words.as_bytes()), 0);
    while let Some(words) = rest {
        let (word, behind) = cut(words, b' ');
        if is_same(word, wanted) {
            return Some(place);
        }
        (rest, place) = (behind, place + 1);
    }
    None
}

const fn count(words: &str) -> u32 {
    let (mut rest, mut count) = (Some(words.as_bytes()), 0);
    while let Some(words) = rest {
        (rest, count) = (cut(words, b' ').1, count + 1);
    }
    count
}

const fn bits(words: &str, text: &[u8]) -> Option<u64> {
    let (mut rest, mut bits) = (Some(text), 0);
    while let Some(text) = rest {
        let (word, behind) = cut(text, b'+');
        match place(words, word) {
            Some(place) => bits |= 1 << place,
            None => return None,
        }
        rest = behind;
    }
    Some(bits)
}

/// The part of a row that the library keeps. A table of texts would need relocation in each process; see [`Word`].
#[derive(Clone, Copy, Debug)]
struct Row {
    key: Word,
    values: Values,
    default: Word,
    when: When,
}

impl Row {
    const fn of(&Setting { key, values, default, when, .. }: &Setting) -> Self {
        Row { key: Word::new(key), values, default: Word::new(default), when }
    }
}

static ROWS: [Row; TABLE.len()] = {
    let mut rows = [Row::of(&TABLE[0]); TABLE.len()];
    let mut place = 0;
    while place < rows.len() {
        rows[place] = Row::of(&TABLE[place]);
        place += 1;
    }
    rows
};

/// Bytes of the values, at the start of the root's domain: a small process writes only near there.
pub const BYTES: usize = size_of::<[AtomicU32; TABLE.len()]>().next_multiple_of(64);

/// The values that were set, by row.
fn values() -> &'static [AtomicU32; TABLE.len()] {
    // SAFETY: these bytes are only used here, aligned to 64, and zeroes are valid.
    unsafe { &*root::domain().cast() }
}

/// A setting, as its reader names it.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    place: usize,
    default: u64,
}

impl Key {
    /// The setting of this name. For constants: an unknown name does not compile there.
    pub const fn of(key: &str) -> Self {
        let mut place = 0;
        while !is_same(TABLE[place].key.as_bytes(), key.as_bytes()) {
            place += 1;
        }
        let default = match TABLE[place].values.parse(TABLE[place].default) {
            Some(default) => default,
            None => 0,
        };
        Key { place, default }
    }

    /// Its value. If it was not set, the default, or 0 if that is no value.
    #[inline]
    pub fn get(self) -> u64 {
        self.said().unwrap_or(self.default)
    }

    /// Its value, if it was set.
    #[inline]
    pub fn said(self) -> Option<u64> {
        // Relaxed: each value stands alone.
        values()[self.place].load(Ordering::Relaxed).checked_sub(1).map(u64::from)
    }

    /// Whether it is `on`.
    #[inline]
    pub fn is_on(self) -> bool {
        self.get() == 1
    }

    /// Whether it is set to this word.
    pub fn is(self, word: &str) -> bool {
        self.parse(word) == Some(self.get())
    }

    /// Sets it, without a check of its range.
    pub(crate) fn put(self, value: u64) {
        values()[self.place].store(value as u32 + 1, Ordering::Relaxed);
    }

    /// The value of a text.
    pub(crate) fn parse(self, text: &str) -> Option<u64> {
        ROWS[self.place].values.parse(text)
    }

    /// The environment's value for a cache, by the last rule whose NAME fits, or the default.
    pub(crate) fn of_cache(self, name: &[u8]) -> u64 {
        self.in_rules(environment(), name)
    }

    fn in_rules(self, conf: &[u8], name: &[u8]) -> u64 {
        let fits = |pattern: &str| match pattern.as_bytes().strip_suffix(b"*") {
            Some(beginning) => name.starts_with(beginning),
            None => pattern.as_bytes() == name,
        };
        let rules = pairs(conf).filter_map(|(key, text)| {
            let (pattern, option) = rule(key)?;
            let is_this = ROWS[self.place].key.strip_prefix(OF_CACHE) == Some(option);
            (is_this && fits(pattern)).then(|| self.parse(text)).flatten()
        });
        rules.last().unwrap_or(self.default)
    }
}

const OF_CACHE: &str = "cache.NAME.";

/// The pattern of names and the option in a rule's key.
fn rule(key: &str) -> Option<(&str, &str)> {
    key.strip_prefix("cache.")?.rsplit_once('.')
}

/// The keys to compare a key with, less their common prefix, and the rest of the key.
fn candidates(key: &str) -> (&str, impl Iterator<Item = (usize, &'static str)>) {
    let (prefix, word) = rule(key).map_or(("", key), |(_, option)| (OF_CACHE, option));
    let rows = ROWS.iter().enumerate();
    (word, rows.filter_map(move |(place, row)| Some((place, row.key.as_str().strip_prefix(prefix)?))))
}

fn pairs(conf: &[u8]) -> impl Iterator<Item = (&str, &str)> {
    let pairs = conf.split(|&byte| byte == b',').filter(|pair| !pair.is_empty());
    pairs.map(|pair| {
        let pair = core::str::from_utf8(pair).unwrap_or("?");
        pair.split_once(':').unwrap_or((pair, ""))
    })
}

fn environment() -> &'static [u8] {
    process::environment(c"COMMENSAL_CONF").map_or(b"", CStr::to_bytes)
}

pub(crate) fn is_environment_empty() -> bool {
    environment().is_empty()
}

/// Sets the values from the environment, and calls `complain` for each pair that is not understood.
pub(crate) fn read_environment(complain: impl FnMut(&Misunderstood<'_>)) {
    read(environment(), complain);
}

fn read(conf: &[u8], mut complain: impl FnMut(&Misunderstood<'_>)) {
    for (key, text) in pairs(conf) {
        match understand(key, text) {
            Ok((place, value)) => Key { place, default: 0 }.put(value),
            Err(why) => complain(&why),
        }
    }
}

/// The text that the environment gives for a key, as it is now.
pub(crate) fn text_of(key: &str) -> Option<&'static str> {
    pairs(environment()).filter(|pair| pair.0 == key).last().map(|pair| pair.1)
}

/// Checks a pair of `COMMENSAL_CONF`. A pair without a colon is a key without a text.
///
/// # Errors
/// The pair has no meaning: there is no such key, or the text does not fit.
pub fn check<'a>(key: &'a str, text: &'a str) -> Result<(), Misunderstood<'a>> {
    understand(key, text).map(|_| ())
}

/// The place and the value of a pair.
fn understand<'a>(key: &'a str, text: &'a str) -> Result<(usize, u64), Misunderstood<'a>> {
    let (word, mut known) = candidates(key);
    let (place, _) = known.find(|&(_, candidate)| candidate == word).ok_or(Misunderstood::Key(key))?;
    let values = ROWS[place].values;
    let value = values.parse(text).ok_or(Misunderstood::Value { key, text, values })?;
    Ok((place, value))
}

/// A pair that is not understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misunderstood<'a> {
    /// An unknown key.
    Key(&'a str),
    /// A value that the key cannot have.
    Value {
        /// The key.
        key: &'a str,
        /// The value.
        text: &'a str,
        /// The expected values.
        values: Values,
    },
}

impl fmt::Display for Misunderstood<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Misunderstood::Value { key, text: "", values } => write!(out, "{key} has no value: expected {values}"),
            Misunderstood::Value { key, text, values } => write!(out, "{key} cannot be '{text}': expected {values}"),
            Misunderstood::Key(key) => match (key.split_once('='), nearest(key)) {
                (Some((key, text)), _) => write!(out, "'{key}={text}' has '=' instead of ':': write {key}:{text}"),
                (None, Some(near)) => write!(out, "unknown key '{key}' (did you mean '{near}'?)"),
                (None, None) => write!(out, "unknown key '{key}' (`commensal conf` lists all)"),
            },
        }
    }
}

impl core::error::Error for Misunderstood<'_> {}

/// The key of the least distance, if at most half of the letters differ.
fn nearest(key: &str) -> Option<&'static str> {
    let (word, candidates) = candidates(key);
    let nearest = candidates.map(|(place, candidate)| (distance(word.as_bytes(), candidate.as_bytes()), place)).min();
    let (_, place) = nearest.filter(|(distance, _)| *distance <= word.len().div_ceil(2))?;
    ROWS.get(place).map(|row| row.key.as_str())
}

/// Levenshtein distance of words up to 31 bytes; longer ones are cut.
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

/// A setting was not set: none of this name can change while the program runs, or the value is out of range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused;

impl fmt::Display for Refused {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("no setting of this name changes at run time, or the value is out of range: see `commensal conf`")
    }
}

impl core::error::Error for Refused {}

/// Sets a part's setting while the program runs, by its key after the part's name; `on` is the part's own key.
pub(crate) fn set(part: &str, name: &str, value: u32) -> Result<(), Refused> {
    let is_wanted = |row: &Row| {
        let rest = row.key.strip_prefix(part);
        row.when == When::AnyTime && rest.is_some_and(|rest| rest.strip_prefix('.').unwrap_or("on") == name)
    };
    let place = ROWS.iter().position(is_wanted).filter(|&place| ROWS[place].values.has(value)).ok_or(Refused)?;
    Key { place, default: 0 }.put(value.into());
    Ok(())
}

/// Whether a process may begin without a heap: there are no settings, or only such that are read when they are needed.
/// Settings that were not read yet may be others.
pub(crate) fn allow_no_heap() -> bool {
    const READ_LATER: &str = "profile guard huge keep misuse syscalls";
    let mut said = ROWS.iter().zip(values()).filter(|(_, value)| value.load(Ordering::Relaxed) != 0).peekable();
    let are_read = said.peek().is_some();
    let is_later = |(row, _): (&Row, _)| place(READ_LATER, cut(row.key.as_str().as_bytes(), b'.').0).is_some();
    is_environment_empty() || are_read && said.all(is_later)
}

/// Whether any setting of a part was set.
pub(crate) fn is_said_of(part: &str) -> bool {
    let mut all = ROWS.iter().zip(values());
    all.any(|(row, value)| row.key.starts_with(part) && value.load(Ordering::Relaxed) != 0)
}

#[cfg(test)]
mod tests;
