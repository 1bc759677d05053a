//! The kernel's count of a process's resident memory, divided among our figures: one line that adds up.
//!
//! Objects in use, cached objects and dirty runs were touched, mostly: they count as resident. Of free memory in spans
//! and of metadata we know only the address space. So both belong to the rest, and the line says their upper bounds.
//! If the kernel counts less than what should be resident, the line says by how much.

use super::Shown;
use super::figures::{Figures, Unit};
use core::fmt;

/// The parts of the line.
#[derive(Clone, Copy, Debug)]
pub struct Resident<'a> {
    /// Bytes, as the kernel counts them.
    pub bytes: u64,
    /// The figures of the process.
    pub figures: &'a Figures,
}

impl Resident<'_> {
    /// The number of kernel's pages that a process has in memory, from its `/proc/PID/statm`.
    pub fn pages_in(statm: &str) -> Option<u64> {
        statm.split_ascii_whitespace().nth(1)?.parse().ok()
    }
}

impl fmt::Display for Resident<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Figures { in_use_bytes, cached_bytes, free_bytes, dirty_bytes, metadata_bytes, .. } = *self.figures;
        let shown = |value| Shown { unit: Unit::Bytes, value, now_ns: 0 };
        let [resident, in_use, cached, dirty] = [self.bytes, in_use_bytes, cached_bytes, dirty_bytes].map(shown);
        write!(out, "resident {resident} = in use {in_use} + cached {cached} + dirty {dirty} ")?;
        let touched = in_use_bytes + cached_bytes + dirty_bytes;
        let Some(rest) = self.bytes.checked_sub(touched) else {
            return write!(out, "- at least {} of that never touched or swapped out", shown(touched - self.bytes));
        };
        let [rest, free, metadata] = [rest, free_bytes, metadata_bytes].map(shown);
        write!(out, "+ rest {rest} (free in spans, up to {free}; metadata, up to {metadata}; the program's own)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    const MIB: u64 = 1 << 20;
    const FIGURES: Figures = Figures {
        in_use_bytes: 60 * MIB,
        cached_bytes: 2 * MIB,
        free_bytes: 5 * MIB,
        dirty_bytes: 8 * MIB,
        metadata_bytes: 100 * MIB,
        ..Figures::NONE
    };

    #[test]
    fn resident_memory_is_the_sum_of_its_parts() {
        let line = |mib| Resident { bytes: mib * MIB, figures: &FIGURES }.to_string();
        let parts = "in use 60.0 MiB + cached 2.00 MiB + dirty 8.00 MiB";
        let rest = "(free in spans, up to 5.00 MiB; metadata, up to 100 MiB; the program's own)";
        assert_eq!(line(80), std::format!("resident 80.0 MiB = {parts} + rest 10.0 MiB {rest}"));
        assert_eq!(line(70), std::format!("resident 70.0 MiB = {parts} + rest 0 B {rest}"));
        let less = "at least 60.0 MiB of that never touched or swapped out";
        assert_eq!(line(10), std::format!("resident 10.0 MiB = {parts} - {less}"));
    }

    #[test]
    fn second_number_of_statm_is_the_resident_pages() {
        assert_eq!(Resident::pages_in("9000 321 200 1 0 50 0\n"), Some(321));
        assert_eq!(["", "9000", "a b"].map(Resident::pages_in), [None; 3]);
    }
}
