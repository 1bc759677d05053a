//! Real programs, where they are installed. Each is a subject whose figures are time and peak memory.

mod gcc;
pub mod redis;
mod sqlite;

use std::path::Path;

use anyhow::Result;
use commensal_lab::blocks::Subject;

/// Makes a subject; its files go to the folder. An error says what is missing, and what brings it.
type Prepare = fn(&Path) -> Result<Subject>;

/// All of them, by name.
pub const ALL: [(&str, Prepare); 3] = [("gcc", gcc::prepare), ("sqlite", sqlite::prepare), ("redis", redis::prepare)];
