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
