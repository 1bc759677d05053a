//! Generated files that are committed, so that whoever reads them needs no tool; and held against what would be generated now.

use std::fs;
use std::path::Path;

/// Compares a committed file with its text of now, or, blessed, writes it before. `task` is the one of xtask that does this.
pub fn settle(root: &Path, file: &str, generated: &str, bless: bool, task: &str) -> Result<(), String> {
    let path = root.join(file);
    if bless {
        let written = path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(&path, generated));
        written.map_err(|error| format!("{file} cannot be written: {error}"))?;
    }
    let committed = fs::read_to_string(&path)
        .map_err(|error| format!("{file} cannot be read: {error}; to write it: cargo xtask {task} --bless"))?;
    compare(file, &committed, generated, task)
}

/// An error that names the first line that differs.
pub fn compare(file: &str, committed: &str, generated: &str, task: &str) -> Result<(), String> {
    if committed == generated {
        return Ok(());
    }
    let same =
        committed.lines().zip(generated.lines()).take_while(|(committed, generated)| committed == generated).count();
    let [found, expected] = [committed, generated].map(|text| text.lines().nth(same).unwrap_or("the end of the file"));
    let line = same + 1;
    Err(format!("{file}:{line}: found {found:?}, expected {expected:?}; to accept that: cargo xtask {task} --bless"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_differs_is_found_with_the_line() {
        let text = "int a(void);\nint b(void);\n";
        assert!(compare("x.h", text, text, "header").is_ok());
        let said = compare("x.h", "int a(void);\nint c(void);\n", text, "header").unwrap_err();
        assert!(said.contains("x.h:2: found \"int c(void);\", expected \"int b(void);\""), "{said}");
        assert!(said.ends_with("cargo xtask header --bless"), "{said}");
        let shorter = compare("x.h", "int a(void);\n", text, "header").unwrap_err();
        assert!(shorter.contains("found \"the end of the file\""), "{shorter}");
    }
}
