//! What a row of the table of settings says.

/// A row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// As `COMMENSAL_CONF` names it; in `cache.NAME.…`, NAME stands for that of a cache.
    pub key: &'static str,
    /// What it may be set to.
    pub values: Values<&'static str>,
    /// What it is if nobody sets it; other words than values say how it is then.
    pub default: &'static str,
    /// Of numbers.
    pub unit: &'static str,
    /// When it may be set.
    pub when: When,
    /// What it does, as Markdown on one line.
    pub help: &'static str,
}

/// The values that a setting may have; `T` is how texts are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values<T> {
    /// One of these, which blanks separate; its value is the place.
    Words(T),
    /// Some of these, joined by `+`, or `all`, or `off`; each is a bit.
    AnyOf(T),
    /// From the one to the other.
    Number(u32, u32),
    /// `on`, `off`, or the number of a process.
    Process,
    /// A text of one byte up to so many.
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
