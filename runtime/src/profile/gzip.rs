//! gzip without compression (RFC 1951, 3.2.4; RFC 1952), as profiles are expected to be.

/// Takes bytes; false: they cannot be written.
pub type Sink<'a> = &'a mut dyn FnMut(&[u8]) -> bool;

const BLOCK: usize = 4096;
/// A block's kind and its length, twice.
const HEAD: usize = 5;

/// Packs what is put into it.
pub struct Gzip<'a> {
    to: Sink<'a>,
    block: [u8; HEAD + BLOCK],
    used: usize,
    check: u32,
    length: u32,
    is_whole: bool,
}

impl<'a> Gzip<'a> {
    /// Begins to write to a sink.
    pub fn new(to: Sink<'a>) -> Self {
        /// The format, no name and no time, made on Unix.
        const START: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3];
        let is_whole = to(&START);
        Gzip { to, block: [0; HEAD + BLOCK], used: 0, check: !0, length: 0, is_whole }
    }

    #[inline(never)]
    pub fn put(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(BLOCK) {
            if self.used + part.len() > BLOCK {
                self.flush(false);
            }
            let room = self.block.iter_mut().skip(HEAD + self.used);
            room.zip(part).for_each(|(to, &from)| *to = from);
            self.used += part.len();
        }
        self.check = bytes.iter().fold(self.check, |check, &byte| checked(check, byte));
        self.length = self.length.wrapping_add(bytes.len() as u32);
    }

    #[inline(never)]
    fn flush(&mut self, is_last: bool) {
        let length = self.used as u16;
        self.block[0] = u8::from(is_last);
        self.block[1..3].copy_from_slice(&length.to_le_bytes());
        self.block[3..HEAD].copy_from_slice(&(!length).to_le_bytes());
        self.is_whole = self.is_whole && (self.to)(self.block.get(..HEAD + self.used).unwrap_or(&[]));
        self.used = 0;
    }

    /// Writes the rest. False: something could not be written.
    pub fn finish(mut self) -> bool {
        self.flush(true);
        self.is_whole && (self.to)(&(!self.check).to_le_bytes()) && (self.to)(&self.length.to_le_bytes())
    }
}

/// CRC-32, after one more byte.
fn checked(check: u32, byte: u8) -> u32 {
    const HALVES: [u32; 16] = {
        let mut table = [0; 16];
        let mut half = 0;
        while half < 16 {
            let (mut bits, mut bit) = (half as u32, 0);
            while bit < 4 {
                bits = bits >> 1 ^ if bits & 1 == 1 { 0xedb8_8320 } else { 0 };
                bit += 1;
            }
            table[half] = bits;
            half += 1;
        }
        table
    };
    let half = |check: u32| check >> 4 ^ HALVES[(check & 15) as usize];
    half(half(check ^ u32::from(byte)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn check_is_that_of_the_standard() {
        assert_eq!(!b"123456789".iter().fold(!0, |check, &byte| checked(check, byte)), 0xcbf4_3926);
    }

    /// Unpacks what has only blocks without compression.
    fn unpacked(mut packed: &[u8]) -> Vec<u8> {
        let mut take = |bytes: usize| packed.split_off(..bytes).expect("it is long enough");
        take(10);
        let mut all = Vec::new();
        loop {
            let (is_last, length) = (take(1)[0], u16::from_le_bytes(take(2).try_into().unwrap()));
            assert_eq!(!length, u16::from_le_bytes(take(2).try_into().unwrap()));
            all.extend(take(length.into()));
            if is_last == 1 {
                return all;
            }
        }
    }

    #[test]
    fn blocks_hold_what_was_put() {
        let text = (0..20_000_u32).map(|number| ((number * number) >> 7) as u8).collect::<Vec<_>>();
        for lengths in [&[20_000][..], &[1, 4095, 1, 4096, 4097], &[0], &[3; 3000]] {
            let (mut packed, mut expected) = (Vec::new(), Vec::new());
            let mut sink = |bytes: &[u8]| {
                packed.extend(bytes);
                true
            };
            let mut gzip = Gzip::new(&mut sink);
            for &length in lengths {
                gzip.put(&text[..length]);
                expected.extend(&text[..length]);
            }
            assert!(gzip.finish());
            assert_eq!(unpacked(&packed), expected);
            assert_eq!(packed[packed.len() - 4..], (expected.len() as u32).to_le_bytes());
        }
    }

    #[test]
    fn refusal_is_told() {
        for room in 0..4 {
            let mut left = room;
            let mut sink = |_: &[u8]| {
                left -= 1;
                left >= 0
            };
            let mut gzip = Gzip::new(&mut sink);
            gzip.put(b"text");
            assert!(!gzip.finish(), "{room} writes");
        }
    }
}
