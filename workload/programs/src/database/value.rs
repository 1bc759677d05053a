//! Values, and their two forms as bytes: rows are compact, keys sort as the values do.
//!
//! ```text
//!   row   for each value a tag; 8 bytes of an integer, or 2 of a length and the text
//!   key   for each value a tag; an integer from its highest byte, its sign turned around, or the text, where a zero
//!         is followed by 255, and two zeroes: no text's key is the beginning of another's
//! ```

use std::fmt;

/// A value. Integers sort before texts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Value {
    Integer(i64),
    Text(String),
}

const INTEGER: u8 = 1;
const TEXT: u8 = 2;
const SIGN: u64 = 1 << 63;

impl Value {
    /// Whether a condition with this value holds.
    pub fn is_true(&self) -> bool {
        *self != Value::Integer(0)
    }

    /// The integer, if it is one.
    pub fn integer(&self) -> Option<i64> {
        if let Value::Integer(number) = self { Some(*number) } else { None }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Integer(number) => write!(out, "{number}"),
            Value::Text(text) => out.write_str(text),
        }
    }
}

/// A row as bytes.
pub fn encode_row(row: &[Value]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for value in row {
        match value {
            Value::Integer(number) => {
                bytes.push(INTEGER);
                bytes.extend_from_slice(&number.to_le_bytes());
            }
            Value::Text(text) => {
                bytes.push(TEXT);
                bytes.extend_from_slice(&(text.len() as u16).to_le_bytes());
                bytes.extend_from_slice(text.as_bytes());
            }
        }
    }
    bytes
}

/// The row that [`encode_row`] made these bytes of.
pub fn decode_row(mut bytes: &[u8]) -> Vec<Value> {
    let mut row = Vec::with_capacity(4);
    while let Some((tag, rest)) = bytes.split_first() {
        bytes = rest;
        row.push(match *tag {
            INTEGER => Value::Integer(i64::from_le_bytes(take(&mut bytes))),
            _ => {
                let length = usize::from(u16::from_le_bytes(take(&mut bytes)));
                let (text, rest) = bytes.split_at(length);
                bytes = rest;
                Value::Text(str::from_utf8(text).expect("only texts are encoded").to_owned())
            }
        });
    }
    row
}

fn take<const N: usize>(bytes: &mut &[u8]) -> [u8; N] {
    let (first, rest) = bytes.split_first_chunk().expect("a row ends with a value");
    *bytes = rest;
    *first
}

/// The key of some values. The keys of two values that are equal so far sort by what follows.
pub fn key(values: &[&Value]) -> Vec<u8> {
    let mut key = Vec::new();
    for value in values {
        match value {
            Value::Integer(number) => {
                key.push(INTEGER);
                key.extend_from_slice(&(*number as u64 ^ SIGN).to_be_bytes());
            }
            Value::Text(text) => {
                key.push(TEXT);
                for byte in text.bytes() {
                    key.push(byte);
                    if byte == 0 {
                        key.push(255);
                    }
                }
                key.extend_from_slice(&[0, 0]);
            }
        }
    }
    key
}

/// The integer whose key stands at the end of a key.
pub fn last_integer(key: &[u8]) -> i64 {
    let bytes = key.last_chunk().expect("an integer's key has eight bytes");
    (u64::from_be_bytes(*bytes) ^ SIGN) as i64
}

#[cfg(test)]
mod tests {
    use super::*;
    use fastrand::Rng;

    fn random(rng: &mut Rng) -> Value {
        match rng.u32(0..3) {
            0 => Value::Integer(rng.i64(-300..300)),
            1 => Value::Integer(rng.i64(..)),
            _ => Value::Text((0..rng.usize(0..4)).map(|_| ['\0', '\u{1}', 'a', 'z', 'é'][rng.usize(0..5)]).collect()),
        }
    }

    #[test]
    fn rows_come_back() {
        let mut rng = Rng::with_seed(1);
        for _ in 0..500 {
            let row: Vec<Value> = (0..rng.usize(0..6)).map(|_| random(&mut rng)).collect();
            assert_eq!(decode_row(&encode_row(&row)), row);
        }
    }

    #[test]
    fn keys_sort_as_values_do() {
        let mut rng = Rng::with_seed(2);
        for _ in 0..5000 {
            let [one, other] = [0; 2].map(|_| [random(&mut rng), random(&mut rng)]);
            let keys = [&one, &other].map(|pair| key(&[&pair[0], &pair[1]]));
            assert_eq!(keys[0].cmp(&keys[1]), one.cmp(&other), "{one:?} {other:?}");
        }
    }

    #[test]
    fn the_last_integer_of_a_key_is_found() {
        for number in [0, -1, 7, i64::MIN, i64::MAX] {
            assert_eq!(last_integer(&key(&[&Value::Text("x".to_owned()), &Value::Integer(number)])), number);
        }
    }
}
