//! How large release artefacts may be: they are stripped, and a new dependency of the command should be noticed.

use std::fs;
use std::path::Path;

use crate::library;

/// What `cargo build --release` makes, and how many bytes it may have.
const LIMITS: [(&str, u64); 2] = [("libcommensal.so", 600_000), ("commensal", 10_000_000)];

/// Builds the library and the command, and holds them against the limits.
pub fn run(root: &Path) -> Result<(), String> {
    let command = library::command(root)?;
    for (name, limit) in LIMITS {
        let path = command.with_file_name(name);
        let file = fs::metadata(&path).map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
        println!("size: {}", judge(name, file.len(), limit)?);
    }
    Ok(())
}

fn judge(name: &str, bytes: u64, limit: u64) -> Result<String, String> {
    let said = format!("{name} has {bytes} bytes, at most {limit} are allowed");
    if bytes <= limit { Ok(said) } else { Err(said) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn artefact_above_its_limit_is_refused() {
        assert!(judge("libcommensal.so", 600_000, 600_000).is_ok());
        assert!(judge("libcommensal.so", 600_001, 600_000).unwrap_err().contains("600001 bytes"));
    }
}
