//! The texts of the project, and what checks find wrong in them.

use std::fmt;
use std::fs;
use std::path::Path;

use crate::commit;
use crate::tokens::{self, Token};

/// One text file; the path is relative to the root, with slashes.
pub struct File {
    pub path: String,
    pub text: String,
}

impl File {
    /// Whether it is Rust source.
    pub fn is_rust(&self) -> bool {
        self.has_extension(&["rs"])
    }

    /// Whether the path ends with one of these extensions.
    pub fn has_extension(&self, extensions: &[&str]) -> bool {
        self.path.rsplit_once('.').is_some_and(|(_, extension)| extensions.contains(&extension))
    }

    /// The tokens of a Rust file.
    pub fn tokens(&self) -> Vec<Token> {
        tokens::of(&self.text)
    }

    /// Something wrong in this file; lines count from 1.
    pub fn violation(&self, line: usize, what: impl Into<String>) -> Violation {
        Violation { path: self.path.clone(), line, what: what.into() }
    }
}

/// All texts of the project, in the order of their paths.
pub struct Tree {
    pub files: Vec<File>,
    /// The paths of what is no text.
    others: Vec<String>,
}

impl Tree {
    /// Reads what git would track below `root`.
    pub fn read(root: &Path) -> Result<Self, String> {
        let mut tree = Self { files: Vec::new(), others: Vec::new() };
        for path in paths(root)? {
            match fs::read_to_string(root.join(&path)) {
                Ok(text) => tree.files.push(File { path, text }),
                Err(_) => tree.others.push(path),
            }
        }
        Ok(tree)
    }

    /// The file at `path`.
    pub fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// Whether there is such a file or folder.
    pub fn has(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        let mut paths = self.files.iter().map(|file| &file.path).chain(&self.others);
        paths.any(|other| other.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')))
    }

    /// The Rust files.
    pub fn rust(&self) -> impl Iterator<Item = &File> {
        self.files.iter().filter(|file| file.is_rust())
    }

    /// A tree of these paths and texts.
    #[cfg(test)]
    pub fn of<const N: usize>(files: [(&str, &str); N]) -> Self {
        let file = |(path, text): (&str, &str)| File { path: path.to_owned(), text: text.to_owned() };
        Self { files: files.map(file).into(), others: Vec::new() }
    }
}

/// The files that git tracks or would track below `root`, from there, in their order.
pub fn paths(root: &Path) -> Result<Vec<String>, String> {
    let listed = commit::git(root, &["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let listed = listed.ok_or("git lists no files; expected a git repository")?;
    // Some may be tracked and deleted.
    let there = listed.split('\0').filter(|path| !path.is_empty() && root.join(path).is_file());
    let mut paths: Vec<String> = there.map(str::to_owned).collect();
    paths.sort();
    paths.dedup();
    Ok(paths)
}

/// Something that a check does not accept.
#[derive(Debug)]
pub struct Violation {
    pub path: String,
    pub line: usize,
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}: {}", self.path, self.line, self.what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_folders_are_found() {
        let tree = Tree::of([("a/b.rs", "")]);
        assert!(tree.has("a/b.rs") && tree.has("a") && tree.has("a/"));
        assert!(!tree.has("b.rs") && !tree.has("a/b"));
    }

    #[test]
    fn the_project_is_read_without_its_build_products() {
        let tree = Tree::read(&crate::root()).unwrap();
        assert!(tree.has("xtask/src/tree.rs") && tree.has(".cargo/config.toml"));
        assert!(!tree.has("target") && !tree.has(".git/HEAD"));
    }
}
