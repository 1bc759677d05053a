//! Makes profiles in code, as the library writes them: for tests, and to look at tables without a program.

use std::collections::HashMap;

use crate::proto::{Function, Label, Line, Location, Mapping, Profile, Sample, Strings, ValueType};

/// The kinds of values, and their units.
const KINDS: [[&str; 2]; 6] = [
    ["alloc_objects", "count"],
    ["alloc_space", "bytes"],
    ["inuse_objects", "count"],
    ["inuse_space", "bytes"],
    ["peak_objects", "count"],
    ["peak_space", "bytes"],
];

/// A label's value.
#[derive(Clone, Copy, Debug)]
pub enum Value<'a> {
    /// A word.
    Word(&'a str),
    /// Nanoseconds.
    Nanoseconds(i64),
}

/// A profile that grows.
pub struct Builder {
    profile: Profile,
    strings: Strings,
    locations: HashMap<u64, u64>,
}

impl Builder {
    /// An empty profile with this mean gap in bytes.
    pub fn new(mean_gap_bytes: i64) -> Self {
        let mut profile = Profile::default();
        let strings = Strings::of(&mut profile);
        let mut builder = Self { profile, strings, locations: HashMap::new() };
        builder.profile.sample_type = KINDS.iter().map(|kind| builder.kind(*kind)).collect();
        builder.profile.default_sample_type = builder.string("inuse_space");
        builder.profile.period_type = Some(builder.kind(["space", "bytes"]));
        builder.profile.period = mean_gap_bytes;
        builder
    }

    fn string(&mut self, text: &str) -> i64 {
        self.strings.index(&mut self.profile, text)
    }

    fn kind(&mut self, [kind, unit]: [&str; 2]) -> ValueType {
        ValueType { r#type: self.string(kind), unit: self.string(unit) }
    }

    /// Adds a comment.
    pub fn comment(&mut self, text: &str) -> &mut Self {
        let index = self.string(text);
        self.profile.comment.push(index);
        self
    }

    /// Adds a part of a file at these addresses.
    pub fn mapping(&mut self, addresses: [u64; 2], file_offset: u64, file: &str, build_id: &str) -> &mut Self {
        let [memory_start, memory_limit] = addresses;
        let (id, [filename, build_id]) =
            (self.profile.mapping.len() as u64 + 1, [file, build_id].map(|of| self.string(of)));
        let mapping = Mapping { id, memory_start, memory_limit, file_offset, filename, build_id, ..Mapping::default() };
        self.profile.mapping.push(mapping);
        self
    }

    /// Adds the executable parts of files in the text of a `/proc/PID/maps`, with their build ids.
    pub fn maps(&mut self, text: &str, build_id: impl Fn(&str) -> String) -> &mut Self {
        for line in text.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [addresses, rights, offset, _, _, file] = words[..] else { continue };
            let number = |digits| u64::from_str_radix(digits, 16).ok();
            let Some((start, limit)) = addresses.split_once('-') else { continue };
            let (Some(start), Some(limit), Some(offset)) = (number(start), number(limit), number(offset)) else {
                continue;
            };
            if rights.contains('x') {
                self.mapping([start, limit], offset, file, &build_id(file));
            }
        }
        self
    }

    /// Adds a sample: return addresses, innermost first; blocks and bytes that were allocated, are live, and were live
    /// at the peak; and labels.
    pub fn sample(&mut self, addresses: &[u64], value: [i64; 6], labels: &[(&str, Value<'_>)]) -> &mut Self {
        let location_id = addresses.iter().map(|address| self.location(*address)).collect();
        let label = labels.iter().map(|(key, value)| {
            let key = self.string(key);
            match *value {
                Value::Word(word) => Label { key, str: self.string(word), ..Label::default() },
                Value::Nanoseconds(num) => Label { key, num, num_unit: self.string("nanoseconds"), ..Label::default() },
            }
        });
        let label = label.collect();
        self.profile.sample.push(Sample { location_id, value: value.to_vec(), label });
        self
    }

    /// Names an address: functions, innermost first, with files and lines.
    pub fn name(&mut self, address: u64, lines: &[(&str, &str, i64)]) -> &mut Self {
        let id = self.location(address) as usize;
        for (name, file, line) in lines {
            let function_id = self.profile.function.len() as u64 + 1;
            let [name, filename] = [name, file].map(|text| self.string(text));
            self.profile.function.push(Function { id: function_id, name, filename, ..Function::default() });
            self.profile.location[id - 1].line.push(Line { function_id, line: *line, column: 0 });
        }
        self
    }

    fn location(&mut self, address: u64) -> u64 {
        let profile = &mut self.profile;
        *self.locations.entry(address).or_insert_with(|| {
            let address = address.saturating_sub(1);
            let has = |of: &&Mapping| (of.memory_start..of.memory_limit).contains(&address);
            let mapping_id = profile.mapping.iter().find(has).map_or(0, |of| of.id);
            let id = profile.location.len() as u64 + 1;
            profile.location.push(Location { id, mapping_id, address, ..Location::default() });
            id
        })
    }

    /// The profile.
    pub fn finish(&self) -> Profile {
        self.profile.clone()
    }
}
