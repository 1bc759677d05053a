//! A hash map that is the same in every run.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, DefaultHasher};

/// std's map with std's hasher, but without the random keys: every run does the same work. Its order is still nobody's
/// business, since another version of std may have another.
pub type Map<K, V> = HashMap<K, V, BuildHasherDefault<DefaultHasher>>;
