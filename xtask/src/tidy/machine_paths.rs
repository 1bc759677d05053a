//! No file names a directory of the machine on which it was written.

use crate::tree::{File, Tree, Violation};

/// Top directories that exist on somebody's machine only.
const TOPS: [&str; 3] = ["farm", "root", "work"];

/// Finds absolute paths below TOPS.
pub fn check(tree: &Tree) -> Vec<Violation> {
    tree.files.iter().flat_map(check_file).collect()
}

fn check_file(file: &File) -> Vec<Violation> {
    let lines = file.text.lines().enumerate();
    lines
        .filter_map(|(index, line)| {
            let top = named_top(line)?;
            Some(file.violation(index + 1, format!("names a path in `{top}` of one machine; make it relative")))
        })
        .collect()
}

/// The top directory that the line names, if an absolute path starts there and not the rest of a longer one.
fn named_top(line: &str) -> Option<&'static str> {
    let is_word = |character: char| character.is_alphanumeric() || "_-.".contains(character);
    let continues = |character: char| is_word(character) || "/}~)*".contains(character);
    line.match_indices('/').find_map(|(at, _)| {
        let starts_path = !line[..at].ends_with(continues);
        let rest = &line[at + 1..];
        let top = TOPS.into_iter().find(|top| rest.strip_prefix(top).is_some_and(|rest| !rest.starts_with(is_word)));
        top.filter(|_| starts_path)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_one_machine_are_found() {
        for top in TOPS {
            for line in [format!("cd /{top}/x"), format!("\"/{top}\""), format!("A=/{top}/y"), format!("/{top}")] {
                assert_eq!(check(&Tree::of([("a.sh", &line)])).len(), 1, "{line}");
            }
            for line in [format!("x/{top}/y"), format!("/{top}let"), format!("/usr/{top}"), format!("${{x}}/{top}")] {
                assert_eq!(check(&Tree::of([("a.sh", &line)])).len(), 0, "{line}");
            }
        }
    }
}
