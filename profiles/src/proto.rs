//! The format of profiles: `profile.proto` of google/pprof, and its table of strings.
//!
//! A field that names a string is an index into the table, whose entry 0 is empty. Locations, functions and mappings
//! have ids, which are not 0. A location's lines begin with the innermost inlined function.

use std::collections::HashMap;

use prost::Message;

/// A whole profile.
#[derive(Clone, PartialEq, Message)]
pub struct Profile {
    /// The kind and unit of each of a sample's values.
    #[prost(message, repeated, tag = "1")]
    pub sample_type: Vec<ValueType>,
    /// The samples.
    #[prost(message, repeated, tag = "2")]
    pub sample: Vec<Sample>,
    /// Parts of files that were mapped.
    #[prost(message, repeated, tag = "3")]
    pub mapping: Vec<Mapping>,
    /// Places in the program.
    #[prost(message, repeated, tag = "4")]
    pub location: Vec<Location>,
    /// Functions, if it has names.
    #[prost(message, repeated, tag = "5")]
    pub function: Vec<Function>,
    /// All strings. They may be of any encoding, as names of files and threads are.
    #[prost(bytes = "vec", repeated, tag = "6")]
    pub string_table: Vec<Vec<u8>>,
    /// A pattern of functions: pprof drops their frames, and those that they call.
    #[prost(int64, tag = "7")]
    pub drop_frames: i64,
    /// Exceptions from `drop_frames`.
    #[prost(int64, tag = "8")]
    pub keep_frames: i64,
    /// The time of the profile, in nanoseconds since 1970.
    #[prost(int64, tag = "9")]
    pub time_nanos: i64,
    /// How long it was collected.
    #[prost(int64, tag = "10")]
    pub duration_nanos: i64,
    /// The kind and unit of the mean gap.
    #[prost(message, optional, tag = "11")]
    pub period_type: Option<ValueType>,
    /// The mean gap between samples.
    #[prost(int64, tag = "12")]
    pub period: i64,
    /// Free text.
    #[prost(int64, repeated, tag = "13")]
    pub comment: Vec<i64>,
    /// The kind of value that is shown first.
    #[prost(int64, tag = "14")]
    pub default_sample_type: i64,
    /// An address of documentation.
    #[prost(int64, tag = "15")]
    pub doc_url: i64,
}

/// A kind of value, such as `inuse_space`, and its unit.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct ValueType {
    /// The kind.
    #[prost(int64, tag = "1")]
    pub r#type: i64,
    /// The unit.
    #[prost(int64, tag = "2")]
    pub unit: i64,
}

/// Values of one stack and one set of labels.
#[derive(Clone, PartialEq, Message)]
pub struct Sample {
    /// The stack, innermost first.
    #[prost(uint64, repeated, tag = "1")]
    pub location_id: Vec<u64>,
    /// As many values as the profile has kinds.
    #[prost(int64, repeated, tag = "2")]
    pub value: Vec<i64>,
    /// What else is known.
    #[prost(message, repeated, tag = "3")]
    pub label: Vec<Label>,
}

/// A word or a number about a sample.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Label {
    /// Its name.
    #[prost(int64, tag = "1")]
    pub key: i64,
    /// The word, or 0.
    #[prost(int64, tag = "2")]
    pub str: i64,
    /// The number.
    #[prost(int64, tag = "3")]
    pub num: i64,
    /// The number's unit.
    #[prost(int64, tag = "4")]
    pub num_unit: i64,
}

/// A part of a file in memory.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Mapping {
    /// Its id.
    #[prost(uint64, tag = "1")]
    pub id: u64,
    /// Its first address.
    #[prost(uint64, tag = "2")]
    pub memory_start: u64,
    /// The address behind its last.
    #[prost(uint64, tag = "3")]
    pub memory_limit: u64,
    /// Where in the file it begins.
    #[prost(uint64, tag = "4")]
    pub file_offset: u64,
    /// The file.
    #[prost(int64, tag = "5")]
    pub filename: i64,
    /// The file's build id, in hexadecimal digits.
    #[prost(int64, tag = "6")]
    pub build_id: i64,
    /// Whether its locations have functions.
    #[prost(bool, tag = "7")]
    pub has_functions: bool,
    /// Whether its functions have files.
    #[prost(bool, tag = "8")]
    pub has_filenames: bool,
    /// Whether its lines have numbers.
    #[prost(bool, tag = "9")]
    pub has_line_numbers: bool,
    /// Whether inlined functions are among its lines.
    #[prost(bool, tag = "10")]
    pub has_inline_frames: bool,
}

/// A place in the program.
#[derive(Clone, PartialEq, Message)]
pub struct Location {
    /// Its id.
    #[prost(uint64, tag = "1")]
    pub id: u64,
    /// Its mapping, or 0.
    #[prost(uint64, tag = "2")]
    pub mapping_id: u64,
    /// An address within the call.
    #[prost(uint64, tag = "3")]
    pub address: u64,
    /// The functions there, the innermost inlined one first.
    #[prost(message, repeated, tag = "4")]
    pub line: Vec<Line>,
    /// Whether several functions were made one.
    #[prost(bool, tag = "5")]
    pub is_folded: bool,
}

/// A function and a line in it.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Line {
    /// The function.
    #[prost(uint64, tag = "1")]
    pub function_id: u64,
    /// The line in its file, or 0.
    #[prost(int64, tag = "2")]
    pub line: i64,
    /// The column, or 0.
    #[prost(int64, tag = "3")]
    pub column: i64,
}

/// A function.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Function {
    /// Its id.
    #[prost(uint64, tag = "1")]
    pub id: u64,
    /// Its name for people.
    #[prost(int64, tag = "2")]
    pub name: i64,
    /// Its name for the linker.
    #[prost(int64, tag = "3")]
    pub system_name: i64,
    /// The file with its source.
    #[prost(int64, tag = "4")]
    pub filename: i64,
    /// The line where it begins, or 0.
    #[prost(int64, tag = "5")]
    pub start_line: i64,
}

impl Profile {
    /// The string at an index; empty if there is none.
    pub fn string(&self, index: i64) -> String {
        let bytes = usize::try_from(index).ok().and_then(|index| self.string_table.get(index));
        bytes.map(|bytes| String::from_utf8_lossy(bytes).into_owned()).unwrap_or_default()
    }
}

/// Adds strings to a profile's table, each once.
pub struct Strings(HashMap<Vec<u8>, i64>);

impl Strings {
    /// The strings that the profile has.
    pub fn of(profile: &mut Profile) -> Self {
        if profile.string_table.is_empty() {
            profile.string_table.push(Vec::new());
        }
        Self(profile.string_table.iter().cloned().zip(0..).collect())
    }

    /// The index of this string.
    pub fn index(&mut self, profile: &mut Profile, text: &str) -> i64 {
        *self.0.entry(text.as_bytes().to_vec()).or_insert_with(|| {
            profile.string_table.push(text.as_bytes().to_vec());
            profile.string_table.len() as i64 - 1
        })
    }
}
