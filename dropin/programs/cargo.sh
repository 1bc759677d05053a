# cargo: a small package without dependencies is built, tested, run and reported on when it is wrong.
# Its folder holds the matching rustc, too.
export PATH="$(dirname "$CARGO"):/usr/local/bin:/usr/bin:/bin"
export HOME="$PWD" CARGO_HOME="$PWD/cargo-home" CARGO_TARGET_DIR="$PWD/target" CARGO_TERM_COLOR=never CARGO_NET_OFFLINE=true
unset RUSTFLAGS || true

mkdir -p small/src
cat > small/Cargo.toml <<'END'
[package]
name = "small"
version = "0.1.0"
edition = "2021"

[workspace]
END
cat > small/src/main.rs <<'END'
use std::collections::BTreeMap;

fn work(seed: u64) -> usize {
    let mut state = seed;
    let mut map = BTreeMap::new();
    for i in 0..50_000u64 {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        map.insert(state >> 50, vec![i; (state >> 56) as usize]);
    }
    map.values().map(Vec::len).sum()
}

fn main() {
    let threads: Vec<_> = (1..=6).map(|seed| std::thread::spawn(move || work(seed))).collect();
    for thread in threads {
        println!("{}", thread.join().unwrap());
    }
}

#[test]
fn repeats() {
    assert_eq!(work(1), work(1));
}
END
cd small
cargo build --quiet --release
cargo run --quiet --release
cargo test --quiet 2>&1 | sed 's/finished in .*/finished/'
echo 'fn broken() { let x: u32 = "text"; }' >> src/main.rs
cargo check --quiet > wrong.txt 2>&1 || echo "wrong: $?"
cat wrong.txt
