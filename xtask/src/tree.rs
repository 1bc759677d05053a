//! The texts of the project, what checks find wrong in them, which commit they are, and copies of the tree, to be
//! changed and built.

use std::path::Path;
use std::process::Command;
use std::{fmt, fs, io};

use crate::tokens::{self, Token};

pub struct File {
    pub path: String,
    pub text: String,
}

impl File {
    pub fn is_rust(&self) -> bool {
        self.has_extension(&["rs"])
    }

    /// Whether the path ends with one of these extensions.
    pub fn has_extension(&self, extensions: &[&str]) -> bool {
        self.path.rsplit_once('.').is_some_and(|(_, extension)| extensions.contains(&extension))
    }

    pub fn tokens(&self) -> Vec<Token> {
        tokens::of(&self.text)
    }

    /// Something wrong in this file; lines count from 1.
    pub fn violation(&self, line: usize, what: impl Into<String>) -> Violation {
        Violation { path: self.path.clone(), line, what: what.into() }
    }
}

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

    pub fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    pub fn has(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        let mut paths = self.files.iter().map(|file| &file.path).chain(&self.others);
        paths.any(|other| other.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')))
    }

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
    let listed = git(root, &["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
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

pub fn commit(root: &Path) -> Result<String, String> {
    git(root, &["rev-parse", "HEAD"]).ok_or_else(|| "found no commit; expected a git repository".into())
}

/// The commit's first digits, and whether the sources were changed since.
pub fn state(root: &Path) -> String {
    let commit = git(root, &["rev-parse", "--short", "HEAD"]).unwrap_or_else(|| "unknown".into());
    let changed = git(root, &["status", "--porcelain", "--untracked-files=no"]).is_some_and(|lines| !lines.is_empty());
    if changed { format!("{commit}, changed") } else { commit }
}

/// What git says; none if it fails.
fn git(root: &Path, arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).current_dir(root).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Copies the tree as git sees it, but for hidden files. What is there already and the same keeps its time, so that cargo builds only
/// what changed; what the tree no longer has goes.
pub fn copy(root: &Path, to: &Path) -> Result<(), String> {
    let cannot = |error| format!("{} cannot be made a copy: {error}", to.display());
    fs::create_dir_all(to).and_then(|()| remove_left_over(root, to)).map_err(cannot)?;
    let is_hidden = |path: &String| path.split('/').any(|part| part.starts_with('.'));
    for path in paths(root)?.iter().filter(|path| !is_hidden(path)) {
        let (source, place) = (root.join(path), to.join(path));
        if fs::read(&place).ok() != fs::read(&source).ok() {
            let folder = place.parent().map_or(Ok(()), fs::create_dir_all);
            folder
                .and_then(|()| fs::copy(&source, &place))
                .map_err(|error| format!("{path} cannot be copied: {error}"))?;
        }
    }
    Ok(())
}

/// Removes the files of a folder that another one has not.
fn remove_left_over(other: &Path, folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let twin = other.join(path.file_name().unwrap_or_default());
        if path.is_dir() {
            remove_left_over(&twin, &path)?;
        } else if !twin.exists() {
            fs::remove_file(path)?;
        }
    }
    Ok(())
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
    fn tree_is_read_without_build_products() {
        let tree = Tree::read(&crate::root()).unwrap();
        assert!(tree.has("xtask/src/tree.rs") && tree.has(".cargo/config.toml"));
        assert!(!tree.has("target") && !tree.has(".git/HEAD"));
    }

    /// Objects of the last class but one, which is the last one then, by two threads, and back.
    const PROGRAM: &str = r#"
        use commensal_runtime::{central::size_class::CLASSES, heap};

        fn main() {
            const BYTES: usize = 7 << 19;
            assert_eq!((CLASSES, heap::check::check_valid(|_| ()).objects), (127, 0));
            // Middle classes begin.
            (0..100).for_each(|_| unsafe { heap::free(heap::allocate(100_000)) });
            let work = || {
                let blocks: Vec<_> = (0..20u8).map(|index| (heap::allocate(BYTES - 4000 + usize::from(index)), index)).collect();
                for &(block, index) in &blocks {
                    assert_eq!(unsafe { heap::usable_bytes(block) }, BYTES);
                    unsafe { block.write_bytes(index, BYTES) };
                }
                for (block, index) in blocks {
                    assert!((0..BYTES).all(|at| unsafe { block.add(at).read() } == index));
                    unsafe { heap::free(block) };
                }
            };
            for _ in 0..3 {
                [(); 2].map(|()| std::thread::spawn(work)).map(|thread| thread.join().expect("no thread fails"));
            }
            assert_eq!(heap::check::check_valid(|_| ()).objects, 0);
        }
    "#;

    /// One number says how many size classes there are.
    #[test]
    fn copy_with_one_size_class_less_serves_the_others() -> Result<(), String> {
        let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/added-class");
        let tree = place.join("tree");
        copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join(".."), &tree)?;
        let write =
            |path: &str, text: &str| fs::write(tree.join(path), text).map_err(|error| format!("{path}: {error}"));
        let layout = fs::read_to_string(tree.join("runtime/src/layout.rs")).map_err(|error| error.to_string())?;
        let changed = layout.replace("pub const IDS: usize = 128;", "pub const IDS: usize = 127;");
        assert_ne!(layout, changed, "the number is where it was");
        write("runtime/src/layout.rs", &changed)?;
        fs::create_dir_all(tree.join("added/src")).map_err(|error| error.to_string())?;
        write("added/src/main.rs", PROGRAM)?;
        let manifest = "[package]\nname = \"added\"\nedition = \"2024\"\n[dependencies]\ncommensal-runtime.path = \"../runtime\"\n[workspace]\n";
        write("added/Cargo.toml", manifest)?;
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["run", "--offline", "--manifest-path"]).arg(tree.join("added/Cargo.toml"));
        let output = cargo.arg("--target-dir").arg(place.join("target")).output().map_err(|error| error.to_string())?;
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    }
}
