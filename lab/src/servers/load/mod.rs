//! What servers are asked, and what they must answer.
//!
//! A load keeps books of what the server holds, so it knows the right answer to each request. Each connection has keys of its
//! own: no answer depends on the order in which the server served two connections. Each connection also draws from a generator
//! of its own with a fixed seed, so all runs ask the same.

pub mod files;
pub mod memcached;
pub mod redis;
pub mod shop;

use anyhow::{Result, ensure};
use fastrand::Rng;

use super::driver::CONNECTIONS;
use super::protocol::shown;

/// What one kind of server is asked.
pub trait Load {
    /// Writes the request that shows whether the server works.
    fn greet(&mut self, connection: usize, out: &mut Vec<u8>);
    /// Writes the next request that fills the server with data. Whether there is one.
    fn fill(&mut self, connection: usize, out: &mut Vec<u8>) -> bool;
    /// Writes a request of the load.
    fn request(&mut self, connection: usize, out: &mut Vec<u8>);
    /// The length of the answer to the connection's request; none if it is not complete; an error if it is wrong.
    fn answer(&mut self, connection: usize, received: &[u8]) -> Result<Option<usize>>;
}

/// Values have 16 bytes to this many, and small ones are as likely as in half of all doublings: 16 to 32 as 2048 to 4096.
const LARGEST_BYTES: f64 = 4096.0;
const SMALLEST_BYTES: f64 = 16.0;
/// Texts begin somewhere in the first bytes of the source.
const STARTS: usize = 4096;
/// A file's size.
const LONGEST_BYTES: usize = 1 << 16;

/// Texts by number and size, so that the right value of a key is known without keeping it.
pub struct Texts(Vec<u8>);

impl Texts {
    /// Words of letters, from a fixed seed: they can be compressed, and need no escapes in JSON.
    pub fn new() -> Self {
        let mut rng = Rng::with_seed(1);
        let letter = |_| if rng.u8(..6) == 0 { b' ' } else { rng.u8(b'a'..=b'p') };
        Self((0..STARTS + LONGEST_BYTES).map(letter).collect())
    }

    /// The text of this number with so many bytes.
    pub fn of(&self, number: usize, size: usize) -> &[u8] {
        let start = (number * 31 + size * 7) % STARTS;
        &self.0[start..start + size]
    }
}

/// A size of a value: each doubling is as likely as any other.
pub fn any_size(rng: &mut Rng) -> usize {
    (SMALLEST_BYTES * (LARGEST_BYTES / SMALLEST_BYTES).powf(rng.f64())) as usize
}

/// What each connection needs, made from its number.
pub fn for_connections<T>(make: impl FnMut(usize) -> T) -> Vec<T> {
    (0..CONNECTIONS).map(make).collect()
}

/// A generator for a connection.
pub fn generator(connection: usize) -> Rng {
    Rng::with_seed(connection as u64 + 1)
}

/// Holds an answer against the expected one.
pub fn check(what: &str, answer: &[u8], expected: &[u8]) -> Result<()> {
    ensure!(answer == expected, "{what}: expected {}, got {}", shown(expected), shown(answer));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fills one connection's part, and returns how many values that are. Answers are right, and errors are refused.
    fn filled(load: &mut dyn Load, answer: impl Fn(&str) -> Vec<u8>) -> usize {
        let (mut checked, mut request) = (0, Vec::new());
        while load.fill(3, &mut request) {
            let answer = answer(&String::from_utf8_lossy(&request));
            assert_eq!(load.answer(3, &answer).unwrap(), Some(answer.len()));
            assert!(load.answer(3, b"-ERR SERVER_ERROR\r\n\r\n").is_err());
            request.clear();
            checked += 1;
        }
        checked
    }

    #[test]
    fn load_fills_each_connection_with_its_part_and_refuses_errors() {
        let of_redis = |request: &str| if request.contains("HSET") { b":1\r\n".to_vec() } else { b"+OK\r\n".to_vec() };
        assert_eq!(filled(&mut redis::Redis::new(1600), of_redis), 100);
        assert_eq!(filled(&mut memcached::Memcached::new(1600), |_| b"STORED\r\n".to_vec()), 100);
        let stored = |_: &str| b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nstored".to_vec();
        assert_eq!(filled(&mut shop::Shop::new(1600), stored), 100);
    }

    /// Each connection draws the same in each run.
    #[test]
    fn load_is_the_same_in_each_run() {
        let makes: [fn() -> Box<dyn Load>; 4] = [
            || Box::new(redis::Redis::new(1600)),
            || Box::new(memcached::Memcached::new(1600)),
            || Box::new(shop::Shop::new(1600)),
            || Box::new(files::Files::new()),
        ];
        for make in makes {
            let requests = |connection| {
                let (mut load, mut out) = (make(), Vec::new());
                (0..100).for_each(|_| load.request(connection, &mut out));
                out
            };
            assert!(requests(3) == requests(3) && requests(3) != requests(4));
        }
    }

    /// Whatever was asked before: at last a value is set and read, and only its own bytes are right.
    #[test]
    fn value_of_other_bytes_is_refused() {
        let (mut load, mut request, mut value) = (memcached::Memcached::new(16), Vec::new(), Vec::new());
        while !request.starts_with(b"get") || value.is_empty() {
            request.clear();
            load.request(0, &mut request);
            match &request {
                set if set.starts_with(b"set") => {
                    let start = set.iter().position(|byte| *byte == b'\n').unwrap() + 1;
                    value = set[start..set.len() - 2].to_vec();
                }
                delete if delete.starts_with(b"delete") => value.clear(),
                _ => {}
            }
        }
        let answer =
            |value: &[u8]| [format!("VALUE k 0 {}\r\n", value.len()).as_bytes(), value, b"\r\nEND\r\n"].concat();
        assert_eq!(load.answer(0, &answer(&value)).unwrap(), Some(answer(&value).len()));
        value[7] ^= 1;
        assert!(load.answer(0, &answer(&value)).is_err());
        assert!(load.answer(0, b"END\r\n").is_err());
    }
}
