//! Values as people read them.

use runtime::observe::page::{Field, Unit};

const NS_UNITS: &[(u64, &str)] =
    &[(3600 * S, "h"), (60 * S, "min"), (S, "s"), (1_000_000, "ms"), (1000, "us"), (1, "ns")];
const S: u64 = 1_000_000_000;
const BYTE_UNITS: &[(u64, &str)] = &[(1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"), (1, "B")];
const COUNT_UNITS: &[(u64, &str)] = &[(1_000_000_000, "G"), (1_000_000, "M"), (1000, "k"), (1, "")];

/// Numbers from here on are told in a larger unit: exact ones are of more use as long as they are short.
const LONG: u64 = 100_000;

/// What a program calls something: a terminal must not do what is in it.
pub fn word(text: &str) -> String {
    text.replace(char::is_control, "?")
}

/// A number of bytes.
pub fn bytes(value: u64) -> String {
    scaled(value, BYTE_UNITS, " ")
}

/// A number of nanoseconds.
pub fn duration(ns: u64) -> String {
    if ns == 0 { "0".to_owned() } else { scaled(ns, NS_UNITS, " ") }
}

/// A number of things.
pub fn count(value: u64) -> String {
    if value < LONG { value.to_string() } else { scaled(value, COUNT_UNITS, " ") }
}

/// A value of a field; `now_ns` is the time on the machine's monotonic clock.
pub fn value(field: &Field, value: u64, now_ns: u64) -> String {
    match field.unit {
        Unit::Bytes if value == u64::MAX => "none".to_owned(),
        Unit::Bytes => bytes(value),
        Unit::Nanoseconds => duration(value),
        Unit::Count => count(value),
        Unit::YesOrNo => if value == 0 { "no" } else { "yes" }.to_owned(),
        Unit::Moment if value == 0 => "never".to_owned(),
        Unit::Moment if value > now_ns => format!("in {}", duration(value - now_ns)),
        Unit::Moment => format!("{} ago", duration(now_ns - value)),
    }
}

/// With three figures, in the largest unit of which there is one.
fn scaled(value: u64, units: &[(u64, &str)], gap: &str) -> String {
    let &(unit, name) = units.iter().find(|&&(unit, _)| value >= unit).unwrap_or(&units[units.len() - 1]);
    let scaled = value as f64 / unit as f64;
    let digits = if unit == 1 || scaled >= 99.95 {
        0
    } else if scaled >= 9.995 {
        1
    } else {
        2
    };
    format!("{scaled:.digits$}{gap}{name}").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use runtime::observe::page::Kind;

    #[test]
    fn numbers_have_three_figures() {
        let read = [0, 1, 1023, 1024, 1536, 10 << 10, (100 << 10) - 1, 123 << 20, 5 << 30].map(bytes);
        assert_eq!(
            read,
            ["0 B", "1 B", "1023 B", "1.00 KiB", "1.50 KiB", "10.0 KiB", "100 KiB", "123 MiB", "5.00 GiB"]
        );
        assert_eq!([0, 7, 99_999, 100_000, 12_345_678].map(count), ["0", "7", "99999", "100 k", "12.3 M"]);
        assert_eq!(
            [0, 999, 1500, 2_000_000, 90 * S, 7200 * S].map(duration),
            ["0", "999 ns", "1.50 us", "2.00 ms", "1.50 min", "2.00 h"]
        );
    }

    #[test]
    fn a_value_is_told_in_its_unit() {
        let told = |unit, value_of: u64| {
            let field = Field { name: "x", kind: Kind::Gauge, unit, says: "" };
            value(&field, value_of, 10 * S)
        };
        assert_eq!([0, 2048, u64::MAX].map(|bytes| told(Unit::Bytes, bytes)), ["0 B", "2.00 KiB", "none"]);
        assert_eq!(told(Unit::Nanoseconds, u64::MAX), "5124096 h");
        assert_eq!([1, u64::MAX].map(|count| told(Unit::Count, count)), ["1", "18446744074 G"]);
        assert_eq!([0, 1, 2].map(|said| told(Unit::YesOrNo, said)), ["no", "yes", "yes"]);
        let moments = [0, 10 * S, 9 * S, 12 * S].map(|moment| told(Unit::Moment, moment));
        assert_eq!(moments, ["never", "0 ago", "1.00 s ago", "in 2.00 s"]);
    }

    #[test]
    fn a_terminal_does_nothing_that_is_in_a_name() {
        assert_eq!(word("größe \u{1b}[2Jx\n"), "größe ?[2Jx?");
    }
}
