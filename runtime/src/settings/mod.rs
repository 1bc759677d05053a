//! Settings: one table of all that can be set, its values in this process, and what `COMMENSAL_CONF` says of them.
//!
//! ```text
//!   TABLE ──▶ ROWS       keys and values as words, which the library keeps
//!     │        │ read, set
//!     │        ▼
//!     │      the values, at the end of the root's domain: 0, or a value plus one
//!     ▼        ▲ get
//!   Key::of ───┘         at compile time: a key that there is not does not compile
//! ```
//!
//! `COMMENSAL_CONF` has `key:value` pairs, separated by commas. A pair that is not understood changes nothing; a
//! message names it with the expected values or the nearest key. A mechanism asks for its values when it needs them;
//! `heap::conf` applies what must be done once at the start. Settings of single caches (`cache.NAME.…`, where NAME may
//! end with `*`) are read from the environment when a cache is created.
//!
//! Runs at the same time: anybody reads and sets. Each value is a number of its own.

mod setting;
mod table;

pub use setting::{Setting, Values, When};
pub use table::TABLE;

use crate::observe::{Inline, Word};
use core::ffi::CStr;
use core::fmt;
use machine::sync::{AtomicU64, Ordering};
use machine::{process, root};
use table::MOVED;

impl Values<&str> {
    /// The value that a text stands for; of a text, its length.
    pub const fn parse(self, text: &str) -> Option<u64> {
        match (self, text.as_bytes()) {
            (Values::Words(words), text) => place(words, text),
            (Values::AnyOf(_), b"off") | (Values::Process, b"off") => Some(0),
            (Values::Process, b"on") => Some(ALL_PROCESSES),
            (Values::AnyOf(words), b"all") => Some((1 << count(words)) - 1),
            (Values::AnyOf(words), text) => bits(words, text),
            (Values::Number(least, most), _) => number(text, least, most),
            (Values::Process, _) => number(text, 1, u32::MAX - 1),
            (Values::Text(most), text) if !text.is_empty() && text.len() <= most => Some(text.len() as u64),
            (Values::Text(_), _) => None,
        }
    }

    /// Whether a number is a value.
    fn has(self, value: u32) -> bool {
        match self {
            Values::Words(words) => value < count(words),
            Values::Number(least, most) => (least..=most).contains(&value),
            _ => false,
        }
    }
}

/// What is expected.
impl fmt::Display for Values<&str> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Values::Words(words) => {
                let last = count(words) as usize - 1;
                words.split(' ').enumerate().try_for_each(|(place, word)| {
                    let joint = if place == 0 {
                        ""
                    } else if place == last {
                        " or "
                    } else {
                        ", "
                    };
                    write!(out, "{joint}{word}")
                })
            }
            Values::AnyOf(words) => {
                write!(out, "off, all, or some of ")?;
                words.split(' ').try_for_each(|word| write!(out, "{word}, "))?;
                write!(out, "joined by '+'")
            }
            Values::Number(least, most) => write!(out, "a number from {least} to {most}"),
            Values::Process => write!(out, "on, off, or the number of a process"),
            Values::Text(most) => write!(out, "a text of 1 to {most} bytes"),
        }
    }
}

/// The value of `observe:on`.
pub const ALL_PROCESSES: u64 = u32::MAX as u64;

const fn number(text: &str, least: u32, most: u32) -> Option<u64> {
    match u32::from_str_radix(text, 10) {
        Ok(number) if number >= least && number <= most => Some(number as u64),
        _ => None,
    }
}

/// Cuts a text at the first `end`.
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

const fn is_same(one: &[u8], other: &[u8]) -> bool {
    let mut at = 0;
    while at < one.len() && at < other.len() && one[at] == other[at] {
        at += 1;
    }
    at == one.len() && at == other.len()
}

const fn place(words: &str, wanted: &[u8]) -> Option<u64> {
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

/// What the library keeps of a row. The loader would have to write a table of texts in each process; see [`Word`].
#[derive(Clone, Copy, Debug)]
struct Row {
    key: Word,
    values: Values<Inline<31>>,
    when: When,
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

impl Row {
    const fn of(setting: &Setting) -> Self {
        let values = match setting.values {
            Values::Words(words) => Values::Words(Inline::new(words)),
            Values::AnyOf(words) => Values::AnyOf(Inline::new(words)),
            Values::Number(least, most) => Values::Number(least, most),
            Values::Process => Values::Process,
            Values::Text(most) => Values::Text(most),
        };
        Row { key: Word::new(setting.key), values, when: setting.when }
    }

    fn values(&self) -> Values<&str> {
        match &self.values {
            Values::Words(words) => Values::Words(words.as_str()),
            Values::AnyOf(words) => Values::AnyOf(words.as_str()),
            Values::Number(least, most) => Values::Number(*least, *most),
            Values::Process => Values::Process,
            Values::Text(most) => Values::Text(*most),
        }
    }
}

/// Bytes of the root's domain that the values take, at its end.
pub const BYTES: usize = size_of::<[AtomicU64; TABLE.len()]>().next_multiple_of(64);

/// What was set, by the rows' places.
fn values() -> &'static [AtomicU64; TABLE.len()] {
    // SAFETY: these bytes are nobody else's, aligned to 64, and zeroes are valid.
    unsafe { &*root::domain().add(root::DOMAIN_BYTES - BYTES).cast() }
}

/// A setting, for those who need its value.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    place: usize,
    default: u64,
}

impl Key {
    /// The setting of this name; for constants: without such a row it does not compile there.
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

    /// Its value; if nobody set it, the default, and 0 where that is no value.
    #[inline]
    pub fn get(self) -> u64 {
        self.said().unwrap_or(self.default)
    }

    /// Its value, if somebody set it.
    #[inline]
    pub fn said(self) -> Option<u64> {
        // Relaxed: each is a number of its own.
        values()[self.place].load(Ordering::Relaxed).checked_sub(1)
    }

    /// Whether it is on, if it is `off` or `on`.
    #[inline]
    pub fn is_on(self) -> bool {
        self.get() == 1
    }

    /// Whether it is set to this word.
    pub fn is(self, word: &str) -> bool {
        self.parse(word) == Some(self.get())
    }

    /// Sets it, to what need not be in its range.
    pub(crate) fn put(self, value: u64) {
        values()[self.place].store(value + 1, Ordering::Relaxed);
    }

    /// What it may be set to.
    pub fn values(self) -> Values<&'static str> {
        ROWS[self.place].values()
    }

    /// The value that a text stands for.
    pub fn parse(self, text: &str) -> Option<u64> {
        self.values().parse(text)
    }

    /// What the environment says, where that is a text.
    pub fn text(self) -> Option<&'static str> {
        let row = &ROWS[self.place];
        let said = pairs(environment()).filter(|&(key, text)| key == &*row.key && self.parse(text).is_some());
        said.last().map(|(_, text)| text)
    }

    /// What the environment says of a cache, by the last rule whose NAME fits; or else the default.
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

/// The pattern of names and the option of a rule's key.
fn rule(key: &str) -> Option<(&str, &str)> {
    key.strip_prefix("cache.")?.rsplit_once('.')
}

/// The keys that a key can be one of, without what they all begin with, and what is left of it then.
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

/// What `COMMENSAL_CONF` is; empty if there is none.
fn environment() -> &'static [u8] {
    process::environment(c"COMMENSAL_CONF").map_or(b"", CStr::to_bytes)
}

/// Whether the environment says nothing.
pub(crate) fn is_environment_empty() -> bool {
    environment().is_empty()
}

/// Sets what the environment says, and hands over what it does not understand.
pub(crate) fn read_environment(complain: impl FnMut(&Misunderstood<'_>)) {
    read(environment(), complain);
}

fn read(conf: &[u8], mut complain: impl FnMut(&Misunderstood<'_>)) {
    for (key, text) in pairs(conf) {
        match understand(key, text) {
            Ok((_, Values::Text(_), _)) => {}
            Ok((place, _, value)) => Key { place, default: 0 }.put(value),
            Err(why) => complain(&why),
        }
    }
}

/// Whether a pair of `COMMENSAL_CONF` would be understood.
pub fn check<'a>(key: &'a str, text: &'a str) -> Result<(), Misunderstood<'a>> {
    understand(key, text).map(|_| ())
}

/// The place, the values and the value that a pair stands for.
fn understand<'a>(key: &'a str, text: &'a str) -> Result<(usize, Values<&'static str>, u64), Misunderstood<'a>> {
    let (word, mut known) = candidates(key);
    let Some((place, _)) = known.find(|&(_, candidate)| candidate == word) else {
        return Err(Misunderstood::Key(key));
    };
    let values = ROWS[place].values();
    values.parse(text).map(|value| (place, values, value)).ok_or(Misunderstood::Value { key, text, values })
}

/// What is not understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misunderstood<'a> {
    /// There is no such key.
    Key(&'a str),
    /// The key, which there is, cannot have this value.
    Value {
        /// The key.
        key: &'a str,
        /// The value.
        text: &'a str,
        /// What was expected.
        values: Values<&'static str>,
    },
}

impl fmt::Display for Misunderstood<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Misunderstood::Value { key, text, values } => write!(out, "{key} cannot be '{text}': expected {values};"),
            Misunderstood::Key(key) => {
                let moved = MOVED.iter().find(|(old, _)| old.as_str() == key);
                match moved {
                    Some((_, new)) => write!(out, "there is no key '{key}' any more: it is '{}' now;", new.as_str()),
                    None => write!(out, "unknown key '{key}': did you mean '{}'?", nearest(key)),
                }
            }
        }
    }
}

/// The key that takes the fewest insertions, deletions and replacements.
fn nearest(key: &str) -> &'static str {
    let (word, candidates) = candidates(key);
    let nearest = candidates.min_by_key(|(_, candidate)| distance(word.as_bytes(), candidate.as_bytes()));
    nearest.map_or("", |(place, _)| ROWS[place].key.as_str())
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

/// A setting was not set: no setting of this name can change while the program runs, or it does not take this value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused;

/// Sets a part's setting while the program runs, by its key after the part's name; `on` is the part's own key.
pub(crate) fn set(part: &str, name: &str, value: u32) -> Result<(), Refused> {
    let is_wanted = |row: &Row| {
        let rest = row.key.strip_prefix(part);
        row.when == When::AnyTime && rest.is_some_and(|rest| rest.strip_prefix('.').unwrap_or("on") == name)
    };
    let place = ROWS.iter().position(is_wanted).filter(|&place| ROWS[place].values().has(value)).ok_or(Refused)?;
    Key { place, default: 0 }.put(value.into());
    Ok(())
}

/// Whether anybody set anything of a part.
pub(crate) fn is_said_of(part: &str) -> bool {
    let mut all = ROWS.iter().zip(values());
    all.any(|(row, value)| row.key.starts_with(part) && value.load(Ordering::Relaxed) != 0)
}

#[cfg(test)]
mod tests;
