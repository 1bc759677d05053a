//! Short texts for tables.

use core::fmt;
use core::ops::Deref;

/// A short text of at most this many bytes, stored in the table itself. A table of references would need relocation in
/// each process with the library, even if unused. A table of words stays on disk until it is read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Inline<const MOST: usize> {
    len: u8,
    text: [u8; MOST],
}

/// The size that most tables use.
pub type Word = Inline<23>;

impl<const MOST: usize> Inline<MOST> {
    /// A word for a constant; a longer text does not compile there.
    pub const fn new(text: &str) -> Self {
        assert!(text.len() <= MOST, "the word is too long");
        let mut word = Inline { len: text.len() as u8, text: [0; MOST] };
        word.text.split_at_mut(text.len()).0.copy_from_slice(text.as_bytes());
        word
    }

    /// The text.
    pub const fn as_str(&self) -> &str {
        match core::str::from_utf8(self.text.split_at(self.len as usize).0) {
            Ok(text) => text,
            Err(_) => "?",
        }
    }
}

impl<const MOST: usize> Deref for Inline<MOST> {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl<const MOST: usize> fmt::Debug for Inline<MOST> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(out)
    }
}
