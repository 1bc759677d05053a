//! The commands that the client sends: what a web application keeps in a store, in proportions that leave every kind of
//! value as large, on average, as it was.

use fastrand::Rng;

use super::protocol::write_command;
use crate::block::mixed_size;

/// What makes a batch full. Its bytes fit into any socket's buffer.
const MAX_COMMANDS: usize = 200;
const MAX_BYTES: usize = 32 << 10;

const PAGES: u32 = 150_000;
const COUNTERS: u32 = 1000;
const QUEUES: u32 = 400;
const USERS: u32 = 2000;
const RANKINGS: u32 = 300;

/// The largest page of most, and of one in 32.
const MAX_SMALL_PAGE: usize = 1024;
const MAX_PAGE: usize = 8192;

/// Composes batches at random.
pub struct Composer {
    rng: Rng,
    /// Random bytes, of which values are pieces.
    filler: Vec<u8>,
}

/// Commands as bytes.
pub struct Batch {
    pub bytes: Vec<u8>,
    /// How many there are.
    pub commands: usize,
}

impl Composer {
    /// One that composes the same batches every time.
    pub fn new() -> Composer {
        let mut rng = Rng::with_seed(11);
        let mut filler = vec![0; 2 * MAX_PAGE];
        rng.fill(&mut filler);
        Composer { rng, filler }
    }

    /// The next batch.
    pub fn batch(&mut self) -> Batch {
        let mut batch = Batch { bytes: Vec::with_capacity(MAX_BYTES), commands: 0 };
        while batch.commands < MAX_COMMANDS && batch.bytes.len() < MAX_BYTES - 2 * MAX_PAGE {
            self.command(&mut batch);
        }
        batch
    }

    fn command(&mut self, batch: &mut Batch) {
        match self.rng.u32(0..100) {
            0..55 => self.page(batch),
            55..60 => self.counter(batch),
            60..75 => self.queue(batch),
            75..90 => self.user(batch),
            _ => self.ranking(batch),
        }
    }

    /// Pages are texts that are replaced, read, appended to, and expire.
    fn page(&mut self, batch: &mut Batch) {
        let key = format!("page:{}", self.rng.u32(0..PAGES));
        match self.rng.u32(0..20) {
            0..11 => {
                let max = if self.rng.u32(0..32) == 0 { MAX_PAGE } else { MAX_SMALL_PAGE };
                batch.add(&[b"SET", key.as_bytes(), self.value(max)]);
            }
            11..16 => batch.add(&[b"GET", key.as_bytes()]),
            16 => batch.add(&[b"APPEND", key.as_bytes(), self.value(256)]),
            17 => batch.add(&[b"DEL", key.as_bytes()]),
            _ => {
                let after = self.rng.u32(1..50_000).to_string();
                batch.add(&[b"EXPIRE", key.as_bytes(), after.as_bytes()]);
            }
        }
    }

    fn counter(&mut self, batch: &mut Batch) {
        let key = format!("visits:{}", self.rng.u32(0..COUNTERS));
        batch.add(&[b"INCRBY", key.as_bytes(), self.rng.i32(-5..100).to_string().as_bytes()]);
    }

    /// Queues are lists of jobs, which come as often as they go.
    fn queue(&mut self, batch: &mut Batch) {
        let key = format!("queue:{}", self.rng.u32(0..QUEUES));
        match self.rng.u32(0..10) {
            0..5 => batch.add(&[b"RPUSH", key.as_bytes(), self.value(1024)]),
            5..9 => batch.add(&[b"LPOP", key.as_bytes()]),
            _ => batch.add(&[b"LRANGE", key.as_bytes(), b"0", b"4"]),
        }
    }

    /// Users are hashes of some fields.
    fn user(&mut self, batch: &mut Batch) {
        let key = format!("user:{}", self.rng.u32(0..USERS));
        let field = format!("field-{}", self.rng.u32(0..30));
        match self.rng.u32(0..10) {
            0..5 => batch.add(&[b"HSET", key.as_bytes(), field.as_bytes(), self.value(128)]),
            5..8 => batch.add(&[b"HGET", key.as_bytes(), field.as_bytes()]),
            8 => batch.add(&[b"HDEL", key.as_bytes(), field.as_bytes()]),
            _ => batch.add(&[b"HLEN", key.as_bytes()]),
        }
    }

    /// Rankings are sorted sets of players.
    fn ranking(&mut self, batch: &mut Batch) {
        let key = format!("ranking:{}", self.rng.u32(0..RANKINGS));
        let player = format!("player-{}", self.rng.u32(0..400));
        match self.rng.u32(0..10) {
            0..6 => {
                let score = self.rng.u32(0..1_000_000).to_string();
                batch.add(&[b"ZADD", key.as_bytes(), score.as_bytes(), player.as_bytes()]);
            }
            6 => batch.add(&[b"ZREM", key.as_bytes(), player.as_bytes()]),
            7 => batch.add(&[b"ZSCORE", key.as_bytes(), player.as_bytes()]),
            _ => batch.add(&[b"ZRANGE", key.as_bytes(), b"0", b"9"]),
        }
    }

    /// Up to `max` bytes.
    fn value(&mut self, max: usize) -> &[u8] {
        let size = mixed_size(&mut self.rng, 16, max);
        let start = self.rng.usize(0..self.filler.len() - size);
        &self.filler[start..start + size]
    }
}

impl Batch {
    fn add(&mut self, words: &[&[u8]]) {
        write_command(&mut self.bytes, words);
        self.commands += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_are_as_small_as_promised() {
        let mut composer = Composer::new();
        for _ in 0..100 {
            let batch = composer.batch();
            assert!((1..=MAX_COMMANDS).contains(&batch.commands));
            assert!(batch.bytes.len() <= MAX_BYTES, "{} bytes", batch.bytes.len());
        }
    }
}
