//! Any bytes may be a profile: they are read or refused. A profile that was read is shown, compared and drawn.

#![no_main]

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use libfuzzer_sys::fuzz_target;
use profiles::{diff, flame, profile::Measure, table};

fuzz_target!(|bytes: &[u8]| {
    // As it is, and as what lies in a gzip file: no mutation would find its checksum.
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(bytes).expect("memory takes all");
    for bytes in [bytes, &packed.finish().expect("memory takes all")] {
        let Ok(opened) = profiles::of_bytes(bytes) else { continue };
        let Ok(profile) = opened.profile() else { continue };
        let measure = profile.fullest().unwrap_or(Measure::ALL[0]);
        table::rows(&profile, measure, table::By::Site(4));
        assert!(diff::changes(&profile, &profile, measure, 4).iter().all(|change| change.growth() == 0));
        let _ = flame::write(&profile, measure, "title", "subtitle", Vec::new());
    }
});
