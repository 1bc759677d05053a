//! Copies of the tree, to be changed and built.

use std::path::Path;
use std::{fs, io};

use crate::tree;

/// Copies the tree as git sees it, but for hidden files. What is there already and the same keeps its time, so that cargo builds only
/// what changed; what the tree no longer has goes.
pub fn tree(root: &Path, to: &Path) -> Result<(), String> {
    let cannot = |error| format!("{} cannot be made a copy: {error}", to.display());
    fs::create_dir_all(to).and_then(|()| remove_left_over(root, to)).map_err(cannot)?;
    let is_hidden = |path: &String| path.split('/').any(|part| part.starts_with('.'));
    for path in tree::paths(root)?.iter().filter(|path| !is_hidden(path)) {
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
    use std::process::Command;

    use super::*;

    /// Whole spans of objects of the next class after those that there are, by two threads, and back.
    const PROGRAM: &str = r#"
        use commensal::{central::size_class::CLASSES, heap};

        fn main() {
            const BYTES: usize = 36 << 10;
            assert_eq!((CLASSES, heap::check::check_valid(|_| ()).objects), (74, 0));
            let work = || {
                let blocks: Vec<_> = (0..250u8).map(|index| (heap::allocate(BYTES - 4000 + usize::from(index)), index)).collect();
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
    fn copy_with_one_more_size_class_serves_it() -> Result<(), String> {
        let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/added-class");
        let copy = place.join("tree");
        tree(&Path::new(env!("CARGO_MANIFEST_DIR")).join(".."), &copy)?;
        let write =
            |path: &str, text: &str| fs::write(copy.join(path), text).map_err(|error| format!("{path}: {error}"));
        let layout = fs::read_to_string(copy.join("runtime/src/layout.rs")).map_err(|error| error.to_string())?;
        let changed = layout.replace("pub const IDS: usize = 73;", "pub const IDS: usize = 74;");
        assert_ne!(layout, changed, "the number is where it was");
        write("runtime/src/layout.rs", &changed)?;
        fs::create_dir_all(copy.join("added/src")).map_err(|error| error.to_string())?;
        write("added/src/main.rs", PROGRAM)?;
        let manifest = "[package]\nname = \"added\"\nedition = \"2024\"\n[dependencies]\nruntime.path = \"../runtime\"\n[workspace]\n";
        write("added/Cargo.toml", manifest)?;
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["run", "--offline", "--manifest-path"]).arg(copy.join("added/Cargo.toml"));
        let output = cargo.arg("--target-dir").arg(place.join("target")).output().map_err(|error| error.to_string())?;
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    }
}
