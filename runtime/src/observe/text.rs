//! Short texts without a heap: words of tables, and texts of a fixed length that are padded with zeroes.

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
    /// A word for a constant.
    ///
    /// # Panics
    /// The text is too long.
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

/// A text of up to `N` bytes. Any bytes are a valid one.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub struct Text<const N: usize>([u8; N]);

impl<const N: usize> Text<N> {
    /// An empty text.
    pub const NONE: Self = Text([0; N]);

    /// The output of `what`, cut if it is too long.
    pub fn of(what: impl fmt::Display) -> Self {
        let mut text = [0; N];
        let _ = fmt::Write::write_fmt(&mut Writer { text: &mut text, len: 0 }, format_args!("{what}"));
        Text(text)
    }

    /// The text: up to the first zero or the first byte that is not UTF-8.
    pub fn as_str(&self) -> &str {
        as_str(&self.0)
    }
}

pub(super) fn as_str(bytes: &[u8]) -> &str {
    let len = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    bytes[..len].utf8_chunks().next().map_or("", |chunk| chunk.valid())
}

impl<const N: usize> fmt::Debug for Text<N> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(out)
    }
}

/// One type for all lengths, because the loader has to relocate a table of addresses for each type that writes.
struct Writer<'a> {
    text: &'a mut [u8],
    len: usize,
}

impl fmt::Write for Writer<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = self.text.len() - self.len;
        let mut fitting = text.len().min(room);
        while !text.is_char_boundary(fitting) {
            fitting -= 1;
        }
        self.text[self.len..self.len + fitting].copy_from_slice(&text.as_bytes()[..fitting]);
        self.len += fitting;
        // Ends the output after a cut.
        if fitting < text.len() { Err(fmt::Error) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_between_letters() {
        assert_eq!(Text::<8>::of("abc").as_str(), "abc");
        assert_eq!(Text::<8>::of("abcdefghij").as_str(), "abcdefgh");
        assert_eq!(Text::<4>::of("abcäö").as_str(), "abc");
        assert_eq!(Text([b'a', 0xff, b'b']).as_str(), "a");
    }
}
