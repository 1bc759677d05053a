//! Objects of one type that are allocated and freed all the time.

use commensal::caches::{Cache, Constructed};

struct Context {
    path: [u8; 256],
    depth: u32,
}

/// Each use begins with a new value.
static CONTEXTS: Cache<Context> = Cache::new("context");
/// Each use begins with what the last one left: a buffer keeps its memory.
static LINES: Cache<Vec<u8>, Constructed> = Cache::constructed("line", || Vec::with_capacity(4096));

fn main() {
    for depth in 0..1000 {
        let context = CONTEXTS.alloc(Context { path: [b'/'; 256], depth }).expect("there is memory");
        let mut line = LINES.get().expect("there is memory");
        line.clear();
        line.extend_from_slice(&context.path);
        line.extend_from_slice(&context.depth.to_le_bytes());
        assert_eq!(line.capacity(), 4096);
    }
    assert_eq!(CONTEXTS.alive() + LINES.alive(), 0);
    println!("1000 contexts and lines");
}
