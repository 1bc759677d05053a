//! Reads and writes files. A file may hold anything: reading one never panics, and an error says what was found.

use std::collections::HashSet;
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail, ensure};
use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use prost::Message;

use crate::proto::Profile;

/// How many bytes a profile may have, uncompressed. Real ones have some megabytes.
const MOST_BYTES: u64 = 1 << 30;

/// The first bytes of a file in gzip's format.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// How other profilers begin their texts.
const TEXTS: [(&str, &str); 3] = [
    ("heap_v2/", "jemalloc's own format; jemalloc's jeprof converts it: jeprof --raw"),
    ("heap profile:", "gperftools' own format; pprof converts it: go tool pprof -proto"),
    ("--- ", "a text with symbols, as jeprof --raw writes; pprof converts it: go tool pprof -proto"),
];

/// Reads the profile in a file.
pub fn file(path: &Path) -> Result<Profile> {
    let bytes = match fs::read(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => bail!("{}: there is no such file", path.display()),
        read => read.with_context(|| format!("{}: cannot read the file", path.display()))?,
    };
    profile(&bytes).with_context(|| path.display().to_string())
}

/// Reads a profile, gzipped or plain.
pub fn profile(bytes: &[u8]) -> Result<Profile> {
    ensure!(!bytes.is_empty(), "the file is empty; expected a heap profile");
    let profile = if bytes.starts_with(&GZIP) { decode(&unzip(bytes)?)? } else { decode(bytes)? };
    check(&profile)?;
    Ok(profile)
}

fn unzip(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut plain = Vec::new();
    match MultiGzDecoder::new(bytes).take(MOST_BYTES + 1).read_to_end(&mut plain) {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
            bail!("the file is truncated: its {} bytes end within the gzip stream; copy it again", bytes.len())
        }
        done => done.context("the gzip stream is damaged; copy the file again")?,
    };
    ensure!(
        plain.len() as u64 <= MOST_BYTES,
        "has more than {MOST_BYTES} bytes, uncompressed; expected a heap profile"
    );
    Ok(plain)
}

fn decode(plain: &[u8]) -> Result<Profile> {
    if let Some((_, found)) = TEXTS.iter().find(|(start, _)| plain.starts_with(start.as_bytes())) {
        bail!("found {found}; expected pprof's format");
    }
    // The decoder's words are about its own format, which this mostly is not.
    Profile::decode(plain)
        .map_err(|_| anyhow!("is no profile, or a truncated one; expected pprof's format, gzipped or plain"))
}

/// Whether all that it refers to is there.
fn check(profile: &Profile) -> Result<()> {
    let kinds = profile.sample_type.len();
    ensure!(kinds > 0, "is no profile: it has no types of values; expected pprof's format");
    let strings = profile.string_table.len();
    ensure!(profile.string_table.first().is_some_and(Vec::is_empty), "the table of strings is damaged");
    let is_string = |index: i64| usize::try_from(index).is_ok_and(|index| index < strings);
    let mut named: Vec<i64> = profile.sample_type.iter().flat_map(|of| [of.r#type, of.unit]).collect();
    named.extend(profile.mapping.iter().flat_map(|of| [of.filename, of.build_id]));
    named.extend(profile.function.iter().flat_map(|of| [of.name, of.system_name, of.filename]));
    named.extend(&profile.comment);
    named.extend(profile.sample.iter().flat_map(|of| &of.label).flat_map(|of| [of.key, of.str, of.num_unit]));
    if let Some(index) = named.into_iter().find(|index| !is_string(*index)) {
        bail!("the profile is damaged: it names string {index} of {strings}");
    }
    let ids = |ids: &mut dyn Iterator<Item = u64>| ids.collect::<HashSet<u64>>();
    let locations = ids(&mut profile.location.iter().map(|of| of.id));
    let functions = ids(&mut profile.function.iter().map(|of| of.id));
    let mappings = ids(&mut profile.mapping.iter().map(|of| of.id).chain([0]));
    for (number, sample) in profile.sample.iter().enumerate() {
        let values = sample.value.len();
        ensure!(values == kinds, "the profile is damaged: sample {number} has {values} values, expected {kinds}");
        if let Some(id) = sample.location_id.iter().find(|id| !locations.contains(id)) {
            bail!("the profile is damaged: sample {number} names location {id}, which it does not have");
        }
    }
    for location in &profile.location {
        let is_whole = mappings.contains(&location.mapping_id)
            && location.line.iter().all(|line| functions.contains(&line.function_id));
        ensure!(is_whole, "the profile is damaged: location {} names what it does not have", location.id);
    }
    Ok(())
}

/// The bytes of a file with this profile.
pub fn gzipped(profile: &Profile) -> Vec<u8> {
    let mut out = GzEncoder::new(Vec::new(), Compression::default());
    let written = out.write_all(&profile.encode_to_vec());
    written.and_then(|()| out.finish()).expect("a vector takes all that is written")
}
