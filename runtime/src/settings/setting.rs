//! The type of a row in the table of settings.

/// A row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Its name in `COMMENSAL_CONF`; in `cache.NAME.…`, NAME stands for the name of a cache.
    pub key: &'static str,
    /// The possible values.
    pub values: Values<&'static str>,
    /// The value if it is not set, or words that describe the behaviour then.
    pub default: &'static str,
    /// Unit of a number.
    pub unit: &'static str,
    /// When it may be set.
    pub when: When,
    /// Its effect, as Markdown on one line.
    pub help: &'static str,
}

/// The values that a setting may have; `T` is the type of texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values<T> {
    /// One of these words, separated by blanks; the value is its position.
    Words(T),
    /// Some of these words, joined by `+`, or `all`, or `off`; each word is a bit.
    AnyOf(T),
    /// A number in this closed range.
    Number(u32, u32),
    /// `on`, `off`, or the number of a process.
    Process,
    /// A text of one byte up to this many.
    Text(usize),
}

/// When a setting may be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// By `COMMENSAL_CONF`, which is read once.
    AtStart,
    /// Also while the program runs.
    AnyTime,
}
