//! The environment under which the loader puts the library into a program.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::Command;

use crate::conf;

/// The environment variable that the loader reads.
pub const VARIABLE: &str = "LD_PRELOAD";

/// Lets `command`, and whatever it starts, run under `library` with the settings `given` on top of the inherited ones.
pub fn apply(command: &mut Command, library: &Path, given: &[&str]) {
    let inherited = std::env::var_os(VARIABLE);
    command.env(VARIABLE, prepended(library, inherited.as_deref()));
    let settings = std::env::var_os(conf::VARIABLE);
    if let Some(settings) = conf::merge(settings.as_deref(), given) {
        command.env(conf::VARIABLE, settings);
    }
}

/// Lets `command` run with the default settings under `library`, or under none, whatever the user's environment says:
/// what is compared must differ in the library alone.
pub fn apply_alone(command: &mut Command, library: Option<&Path>) {
    command.env_remove(conf::VARIABLE);
    match library {
        Some(library) => command.env(VARIABLE, library),
        None => command.env_remove(VARIABLE),
    };
}

/// The library first: of two allocators that are preloaded, the loader binds the first.
fn prepended(library: &Path, inherited: Option<&OsStr>) -> OsString {
    let mut list = library.as_os_str().to_owned();
    if let Some(others) = inherited.filter(|others| !others.is_empty()) {
        list.push(":");
        list.push(others);
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_preloads_stay_behind_the_library() {
        let library = Path::new("/lib/c.so");
        assert_eq!(prepended(library, None), "/lib/c.so");
        assert_eq!(prepended(library, Some(OsStr::new(""))), "/lib/c.so");
        assert_eq!(prepended(library, Some(OsStr::new("a.so b.so"))), "/lib/c.so:a.so b.so");
    }
}
