//! Any bytes may be a profile: they are read or refused. A profile that was read is shown, compared and drawn.
//!
//! Planted bug that was seen here, within a minute: a sample that may have too few values.

#![no_main]

use std::io::Write;
use std::sync::LazyLock;

use flate2::Compression;
use flate2::write::GzEncoder;
use libfuzzer_sys::fuzz_target;
use profiles::builder::{Builder, Value};
use profiles::{diff, flame, profile::Measure, table};
use prost::Message;

/// A profile as the library writes it. No mutation would find its words.
static WHOLE: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut builder = Builder::new(1 << 19);
    builder.comment("lost samples: 3").mapping([0x1000, 0x9000], 0, "/no/such/program", "ab");
    builder.sample(&[0x1234, 0x2345], [1, 64, 1, 64, 1, 64], &[("thread", Value::Word("main"))]);
    builder.sample(&[0x3456, 0x2345], [2, 32, 0, 0, 1, 16], &[("lifetime", Value::Nanoseconds(1000))]);
    builder.name(0x1234, &[("inlined", "a.c", 7), ("caller", "b.c", 8)]);
    builder.finish().encode_to_vec()
});

fuzz_target!(|input: (Vec<(u16, u8)>, &[u8])| {
    let (changes, bytes) = input;
    let mut changed = WHOLE.clone();
    for (at, value) in changes {
        let at = usize::from(at) % changed.len();
        changed[at] = value;
    }
    // As they are, and as what lies in a gzip file: no mutation would find its checksum.
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(bytes).expect("memory takes all");
    for bytes in [&changed, bytes, &packed.finish().expect("memory takes all")] {
        let Ok(opened) = profiles::of_bytes(bytes) else { continue };
        let Ok(profile) = opened.profile() else { continue };
        let measure = profile.fullest().unwrap_or(Measure::ALL[0]);
        table::rows(&profile, measure, table::By::Site(4));
        assert!(diff::changes(&profile, &profile, measure, 4).iter().all(|change| change.growth() == 0));
        let _ = flame::write(&profile, measure, "title", "subtitle", Vec::new());
    }
});
