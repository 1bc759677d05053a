//! The checksum in which every workload's answer ends.
//!
//! Where the order of what is mixed is fixed, [`mix`] makes it count. Where threads decide the order, a workload adds
//! tags instead, with `wrapping_add`.

/// Mixes a word into a checksum.
pub fn mix(sum: u64, word: u64) -> u64 {
    (sum.rotate_left(5) ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// Mixes bytes into a checksum, eight at a time, and their number.
pub fn mix_bytes(sum: u64, bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let sum = words.iter().fold(sum, |sum, word| mix(sum, u64::from_le_bytes(*word)));
    let sum = rest.iter().fold(sum, |sum, &byte| mix(sum, u64::from(byte)));
    mix(sum, bytes.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_counts() {
        assert_ne!(mix(mix(0, 1), 2), mix(mix(0, 2), 1));
    }

    #[test]
    fn every_byte_counts_and_so_does_the_length() {
        let text = b"a text of twenty-two b";
        let whole = mix_bytes(0, text);
        for at in 0..text.len() {
            let mut changed = *text;
            changed[at] ^= 1;
            assert_ne!(mix_bytes(0, &changed), whole, "byte {at}");
        }
        assert_ne!(mix_bytes(0, b"\0"), mix_bytes(0, b""));
    }
}
