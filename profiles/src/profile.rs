//! A profile as samples: stacks of frames, and bytes and blocks of each.

use std::collections::HashMap;
use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign};
use std::sync::Arc;

use anyhow::{Result, bail};

use crate::names;
use crate::proto::{self, Location, Mapping};

/// Which memory is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Measure {
    /// Blocks that were live when the profile was taken.
    Live,
    /// Blocks that were live at the peak.
    Peak,
    /// All blocks since sampling began.
    Allocated,
}

impl Measure {
    /// All of them, in the order in which they are preferred.
    pub const ALL: [Self; 3] = [Self::Live, Self::Peak, Self::Allocated];

    /// A word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Peak => "live at the peak",
            Self::Allocated => "allocated",
        }
    }

    /// What profilers call its bytes, and what they call its blocks.
    fn kinds(self) -> [&'static [&'static str]; 2] {
        match self {
            Self::Live => [&["inuse_space", "space"], &["inuse_objects", "objects"]],
            Self::Peak => [&["peak_space"], &["peak_objects"]],
            Self::Allocated => [&["alloc_space"], &["alloc_objects"]],
        }
    }
}

/// Bytes, and the blocks that they are in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Amount {
    /// Bytes.
    pub bytes: u64,
    /// Blocks; 0 in profiles that do not count them.
    pub blocks: u64,
}

impl Add for Amount {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        let [bytes, blocks] =
            [(self.bytes, other.bytes), (self.blocks, other.blocks)].map(|(a, b)| a.saturating_add(b));
        Self { bytes, blocks }
    }
}

impl AddAssign for Amount {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sum for Amount {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), Self::add)
    }
}

/// A function in a stack, and the line of its call.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Frame {
    /// The function; a file and an offset if its name is unknown.
    pub function: String,
    /// The path of the source; empty if unknown.
    pub file: String,
    /// The line, or 0.
    pub line: i64,
    /// The path of the program or library; empty if unknown.
    pub module: String,
}

impl Frame {
    /// The source's name without most of its folders, and the line; empty if unknown.
    pub fn place(&self) -> String {
        let mut parts = self.file.rsplit('/');
        let short = match (parts.next().unwrap_or_default(), parts.next()) {
            ("", _) => return String::new(),
            (file, None | Some("" | ".")) => file.to_owned(),
            (file, Some(folder)) => format!("{folder}/{file}"),
        };
        if self.line > 0 { format!("{short}:{}", self.line) } else { short }
    }
}

impl fmt::Display for Frame {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = self.place();
        if place.is_empty() { out.write_str(&self.function) } else { write!(out, "{} ({place})", self.function) }
    }
}

/// A stack, innermost first.
pub type Stack = Vec<Arc<Frame>>;

/// What was sampled at one stack, of one thread, group, region and lifetime.
#[derive(Clone, Debug)]
pub struct Sample {
    /// The stack, innermost first.
    pub stack: Stack,
    /// The thread's name.
    pub thread: Option<String>,
    /// The memory group's name.
    pub group: Option<String>,
    /// The region's name.
    pub region: Option<String>,
    /// The most nanoseconds that the blocks lived; of blocks that were freed.
    pub lifetime_ns: Option<u64>,
    amounts: [Amount; 3],
}

impl Sample {
    /// Its bytes and blocks.
    pub fn amount(&self, measure: Measure) -> Amount {
        self.amounts[measure as usize]
    }
}

/// A profile.
#[derive(Clone, Debug)]
pub struct Profile {
    /// Its samples.
    pub samples: Vec<Sample>,
    /// The measures that it has.
    pub measures: Vec<Measure>,
    /// The one to show first, as the profiler says.
    pub first: Option<Measure>,
    /// The mean gap between sampled bytes, or 0.
    pub mean_gap_bytes: u64,
    /// How many samples the profiler had no room for.
    pub lost_samples: u64,
    /// How long it was collected, or 0.
    pub duration_ns: u64,
    /// Free text of the profiler.
    pub comments: Vec<String>,
    /// The program's path, as far as it is known.
    pub program: String,
    /// The build ids of its files.
    pub builds: HashMap<String, String>,
}

/// The comment that says how many samples were lost.
const LOST: &str = "lost samples: ";

impl Profile {
    /// The samples of a profile that was read.
    pub fn new(raw: &proto::Profile) -> Result<Self> {
        let columns = Measure::ALL.map(|measure| measure.kinds().map(|kinds| column(raw, kinds)));
        let columns = or_single(raw, columns)?;
        let stacks = Frames::new(raw);
        let sample = |of: &proto::Sample| {
            let value = |column: Option<usize>| column.map_or(0, |at| of.value[at].max(0) as u64);
            let amounts = columns.map(|[bytes, blocks]| Amount { bytes: value(bytes), blocks: value(blocks) });
            let label = |key: &str| of.label.iter().find(|label| raw.string(label.key) == key);
            let word = |key| label(key).map(|label| raw.string(label.str)).filter(|word| !word.is_empty());
            let number = |key| label(key).map(|label| label.num);
            Sample {
                stack: of.location_id.iter().flat_map(|id| stacks.of(*id)).cloned().collect(),
                thread: word("thread"),
                group: word("group"),
                region: word("region"),
                lifetime_ns: number("lifetime").map(|ns| ns.max(0) as u64),
                amounts,
            }
        };
        let comments: Vec<String> = raw.comment.iter().map(|index| raw.string(*index)).collect();
        let lost = comments.iter().filter_map(|text| text.strip_prefix(LOST)?.trim().parse::<u64>().ok());
        let is_in_bytes = raw.period_type.is_some_and(|of| raw.string(of.unit) == "bytes");
        Ok(Self {
            samples: raw.sample.iter().map(sample).collect(),
            measures: Measure::ALL.into_iter().filter(|of| columns[*of as usize][0].is_some()).collect(),
            first: first(raw),
            mean_gap_bytes: if is_in_bytes { raw.period.max(0) as u64 } else { 0 },
            lost_samples: lost.fold(0, u64::saturating_add),
            duration_ns: raw.duration_nanos.max(0) as u64,
            comments,
            program: raw.mapping.first().map(|of| raw.string(of.filename)).unwrap_or_default(),
            builds: raw.mapping.iter().map(|of| (raw.string(of.filename), raw.string(of.build_id))).collect(),
        })
    }

    /// The sum of all samples.
    pub fn total(&self, measure: Measure) -> Amount {
        self.samples.iter().map(|sample| sample.amount(measure)).sum()
    }

    /// The first measure of which there is something.
    pub fn fullest(&self) -> Option<Measure> {
        self.measures.iter().copied().find(|measure| self.total(*measure).bytes > 0)
    }
}

fn first(raw: &proto::Profile) -> Option<Measure> {
    let said = raw.string(raw.default_sample_type);
    Measure::ALL.into_iter().find(|measure| measure.kinds()[0].contains(&said.as_str()))
}

fn column(raw: &proto::Profile, kinds: &[&str]) -> Option<usize> {
    kinds.iter().find_map(|kind| raw.sample_type.iter().position(|of| raw.string(of.r#type) == *kind))
}

/// The columns of each measure. A profile with a single type of bytes has them under any name.
fn or_single(raw: &proto::Profile, mut columns: [[Option<usize>; 2]; 3]) -> Result<[[Option<usize>; 2]; 3]> {
    if columns.iter().any(|[bytes, _]| bytes.is_some()) {
        return Ok(columns);
    }
    let mut kinds = raw.sample_type.iter().map(|of| (raw.string(of.r#type), raw.string(of.unit)));
    if raw.sample_type.len() == 1 && kinds.all(|(_, unit)| unit == "bytes") {
        columns[Measure::Live as usize][0] = Some(0);
        return Ok(columns);
    }
    let found: Vec<String> = raw.sample_type.iter().map(|of| raw.string(of.r#type)).collect();
    bail!("is no heap profile: its types of values are {}; expected inuse_space or alloc_space", found.join(", "))
}

/// The frames of each location.
struct Frames(HashMap<u64, Vec<Arc<Frame>>>);

impl Frames {
    fn new(raw: &proto::Profile) -> Self {
        let mappings: HashMap<u64, &Mapping> = raw.mapping.iter().map(|of| (of.id, of)).collect();
        let functions: HashMap<u64, &proto::Function> = raw.function.iter().map(|of| (of.id, of)).collect();
        let frames = |location: &Location| {
            let mapping = mappings.get(&location.mapping_id);
            let module = mapping.map(|of| raw.string(of.filename)).unwrap_or_default();
            if location.line.is_empty() {
                let function = unnamed(location, mapping.copied(), &module);
                return vec![Arc::new(Frame { function, module, ..Frame::default() })];
            }
            let lines = location.line.iter().filter_map(|line| {
                let function = functions.get(&line.function_id)?;
                let [function, file] = [function.name, function.filename].map(|index| raw.string(index));
                Some(Arc::new(Frame { function, file, line: line.line, module: module.clone() }))
            });
            lines.collect()
        };
        Self(raw.location.iter().map(|location| (location.id, frames(location))).collect())
    }

    fn of(&self, id: u64) -> &[Arc<Frame>] {
        self.0.get(&id).map_or(&[], Vec::as_slice)
    }
}

/// A function without a name: its file and the call's offset there, which are the same in each run.
fn unnamed(location: &Location, mapping: Option<&Mapping>, module: &str) -> String {
    let offset = mapping.and_then(|mapping| names::offset(mapping, location.address));
    match (offset, module.rsplit('/').next().unwrap_or_default()) {
        (Some(offset), name) if !name.is_empty() => format!("{name}+{offset:#x}"),
        _ => format!("{:#x}", location.address),
    }
}
