//! Values formatted for people.

use super::Word;
use super::figures::Unit;
use core::fmt::{self, Write};

/// A value formatted for people: with three digits, in the largest unit of which there is one.
#[derive(Clone, Copy, Debug)]
pub struct Shown {
    /// The unit.
    pub unit: Unit,
    /// The value.
    pub value: u64,
    /// The time on the machine's monotonic clock.
    pub now_ns: u64,
}

impl fmt::Display for Shown {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shown { unit, value, now_ns } = *self;
        match unit {
            Unit::Bytes if value == u64::MAX => out.write_str("none"),
            Unit::Bytes => write_bytes(out, value),
            Unit::Nanoseconds => write_duration(out, value),
            Unit::Count => write_count(out, value),
            Unit::YesOrNo => out.write_str(if value == 0 { "no" } else { "yes" }),
            Unit::Moment if value == 0 => out.write_str("never"),
            Unit::Moment if value > now_ns => {
                out.write_str("in ")?;
                write_duration(out, value - now_ns)
            }
            Unit::Moment => {
                write_duration(out, now_ns - value)?;
                out.write_str(" ago")
            }
        }
    }
}

fn write_bytes(out: &mut impl Write, value: u64) -> fmt::Result {
    match value {
        0..1024 => write!(out, "{value} B"),
        _ => {
            let power = ((63 - value.leading_zeros()) / 10).min(4);
            write_scaled(out, value, 1 << (10 * power))?;
            write!(out, " {}iB", ['K', 'M', 'G', 'T'][power as usize - 1])
        }
    }
}

fn write_duration(out: &mut impl Write, ns: u64) -> fmt::Result {
    const SECOND: u64 = 1_000_000_000;
    let (unit, name) = match ns {
        0 => return out.write_str("0"),
        1..1000 => return write!(out, "{ns} ns"),
        1000..1_000_000 => (1000, Word::new("us")),
        1_000_000..SECOND => (1_000_000, Word::new("ms")),
        SECOND..60_000_000_000 => (SECOND, Word::new("s")),
        60_000_000_000..3_600_000_000_000 => (60 * SECOND, Word::new("min")),
        _ => (3600 * SECOND, Word::new("h")),
    };
    write_scaled(out, ns, unit)?;
    write!(out, " {}", name.as_str())
}

/// Short numbers stay exact.
fn write_count(out: &mut impl Write, value: u64) -> fmt::Result {
    let (unit, letter) = match value {
        0..100_000 => return write!(out, "{value}"),
        100_000..1_000_000 => (1000, 'k'),
        1_000_000..1_000_000_000 => (1_000_000, 'M'),
        _ => (1_000_000_000, 'G'),
    };
    write_scaled(out, value, unit)?;
    write!(out, " {letter}")
}

fn write_scaled(out: &mut impl Write, value: u64, unit: u64) -> fmt::Result {
    let rounded = |parts: u128| (u128::from(value) * parts * 2 + u128::from(unit)) / (2 * u128::from(unit));
    let (hundredths, tenths) = (rounded(100), rounded(10));
    match (hundredths, tenths) {
        (..1000, _) => write!(out, "{}.{:02}", hundredths / 100, hundredths % 100),
        (_, ..1000) => write!(out, "{}.{}", tenths / 10, tenths % 10),
        _ => write!(out, "{}", rounded(1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::{String, ToString};
    use std::vec::Vec;

    #[test]
    fn values_are_shown_with_three_digits_in_their_unit() {
        const S: u64 = 1_000_000_000;
        let shown = |unit, values: &[u64]| -> Vec<String> {
            values.iter().map(|&value| Shown { unit, value, now_ns: 10 * S }.to_string()).collect()
        };
        assert_eq!(
            shown(
                Unit::Bytes,
                &[0, 1, 1023, 1024, 1536, 10 << 10, (100 << 10) - 1, 123 << 20, 5 << 30, 1 << 50, u64::MAX]
            ),
            [
                "0 B", "1 B", "1023 B", "1.00 KiB", "1.50 KiB", "10.0 KiB", "100 KiB", "123 MiB", "5.00 GiB",
                "1024 TiB", "none"
            ]
        );
        assert_eq!(
            shown(Unit::Count, &[0, 7, 99_999, 100_000, 12_345_678, u64::MAX]),
            ["0", "7", "99999", "100 k", "12.3 M", "18446744074 G"]
        );
        assert_eq!(
            shown(Unit::Nanoseconds, &[0, 999, 1500, 2_000_000, 90 * S, 7200 * S, u64::MAX]),
            ["0", "999 ns", "1.50 us", "2.00 ms", "1.50 min", "2.00 h", "5124096 h"]
        );
        assert_eq!(shown(Unit::YesOrNo, &[0, 1, 2]), ["no", "yes", "yes"]);
        assert_eq!(shown(Unit::Moment, &[0, 10 * S, 9 * S, 12 * S]), ["never", "0 ago", "1.00 s ago", "in 2.00 s"]);
    }
}
