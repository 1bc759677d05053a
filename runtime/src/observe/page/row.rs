//! Rows of any table, for readers.

use super::text;
use crate::observe::figures::Table;

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
            text::as_str(text)
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
