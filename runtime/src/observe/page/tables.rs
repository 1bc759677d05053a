//! Derived from the table of figures: the version of the layout, and rows of any table, for readers.

use crate::observe::figures::{TABLES, Table};
use crate::observe::text::as_str;

/// The version of the page's layout: a hash of the table of figures, so that each layout has a version of its own.
pub const VERSION: u32 = {
    // FNV-1a. Raise the first number when the header, a copy or the meaning of a value changes.
    let mut hash = hashed(0x811c_9dc5, &[4]);
    let mut number = 0;
    while number < TABLES.len() {
        let table = &TABLES[number];
        hash = hashed(hash, table.name.as_bytes());
        let mut label = 0;
        while label < table.labels.len() {
            hash = hashed(hashed(hash, table.labels[label].name.as_bytes()), &[table.labels[label].bytes as u8]);
            label += 1;
        }
        let mut figure = 0;
        while figure < table.figures.len() {
            let known = &table.figures[figure];
            hash = hashed(hashed(hash, known.name.as_bytes()), &[known.kind as u8, known.unit as u8]);
            figure += 1;
        }
        number += 1;
    }
    hash
};

const fn hashed(mut hash: u32, bytes: &[u8]) -> u32 {
    let mut at = 0;
    while at < bytes.len() {
        hash = (hash ^ bytes[at] as u32).wrapping_mul(0x0100_0193);
        at += 1;
    }
    hash
}

/// A row of some table.
#[derive(Clone, Copy, Debug)]
pub struct AnyRow<'a> {
    pub(super) table: &'static Table,
    pub(super) bytes: &'a [u8],
}

impl<'a> AnyRow<'a> {
    /// The texts, in order.
    pub fn texts(self) -> impl Iterator<Item = &'a str> {
        let mut rest = self.bytes;
        self.table.labels.iter().map(move |label| {
            let (text, others) = rest.split_at(label.bytes);
            rest = others;
            as_str(text)
        })
    }

    /// The values, in order.
    pub fn values(self) -> impl Iterator<Item = u64> + use<'a> {
        let texts = self.table.row_bytes - 8 * self.table.figures.len();
        self.bytes[texts..].as_chunks().0.iter().map(|&value| u64::from_ne_bytes(value))
    }

    /// The value of the figure of this name, if the table has one.
    pub fn get(self, name: &str) -> Option<u64> {
        self.table.figures.iter().zip(self.values()).find(|(figure, _)| figure.name == name).map(|(_, value)| value)
    }
}
