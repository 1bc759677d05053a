//! Copies of the tree, to be changed and built.

use std::fs;
use std::path::Path;

use ignore::WalkBuilder;

/// Copies the tree as git sees it. What is there already and the same keeps its time, so that cargo builds only what changed; what the tree
/// no longer has goes.
pub fn tree(root: &Path, to: &Path) -> Result<(), String> {
    fs::create_dir_all(to).map_err(|error| format!("{} cannot be created: {error}", to.display()))?;
    for entry in WalkBuilder::new(to).standard_filters(false).build() {
        let entry = entry.map_err(|error| error.to_string())?;
        let path = entry.path();
        let source = root.join(path.strip_prefix(to).map_err(|error| error.to_string())?);
        if path.is_file() && !source.exists() {
            fs::remove_file(path).map_err(|error| format!("{} cannot be removed: {error}", path.display()))?;
        }
    }
    for entry in WalkBuilder::new(root).hidden(true).build() {
        let entry = entry.map_err(|error| error.to_string())?;
        let path = entry.path();
        let cannot = |error| format!("{} cannot be copied: {error}", path.display());
        let place = to.join(path.strip_prefix(root).map_err(|error| error.to_string())?);
        if path.is_dir() {
            fs::create_dir_all(&place).map_err(cannot)?;
        } else if fs::read(&place).ok() != fs::read(path).ok() {
            fs::copy(path, &place).map_err(cannot)?;
        }
    }
    Ok(())
}
