//! Values as people read them.

use commensal_runtime::observe::Shown;
use commensal_runtime::observe::figures::Unit;

/// What a program calls something: a terminal must not do what is in it.
pub fn word(text: &str) -> String {
    text.replace(char::is_control, "?")
}

/// A number of bytes.
pub fn bytes(value: u64) -> String {
    self::value(Unit::Bytes, value, 0)
}

/// A number of nanoseconds.
pub fn duration(ns: u64) -> String {
    value(Unit::Nanoseconds, ns, 0)
}

/// A value in some unit; `now_ns` is the time on the machine's monotonic clock.
pub fn value(unit: Unit, value: u64, now_ns: u64) -> String {
    Shown { unit, value, now_ns }.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_in_a_name_are_not_printed() {
        assert_eq!(word("größe \u{1b}[2Jx\n"), "größe ?[2Jx?");
    }
}
