//! A magazine that lies in two shards would give each object to two threads.

use commensal_runtime::depot::{Held, Magazine};

fn push(shard: &Held, magazine: Magazine) {
    shard.push_full(magazine);
    shard.push_full(magazine);
}

fn main() {}
