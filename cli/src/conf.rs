//! The environment under which the loader puts the library into a program: LD_PRELOAD, and COMMENSAL_CONF, into which
//! `--conf`, `--stats`, `--slabinfo` and `--locks` are merged.
//!
//! The syntax of the latter is `key:value,key:value`. What is typed on the command line is checked by the library's own
//! table. What is inherited is passed on: the preloaded library reports and ignores what it does not know.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::process::Command;

use commensal_runtime::settings;

/// The environment variable that the library reads.
pub const VARIABLE: &str = "COMMENSAL_CONF";
/// The one that the loader reads.
pub const PRELOAD: &str = "LD_PRELOAD";

/// The setting by which the program that replaces this process writes a statistics page at once, and its children later.
/// None if the user's settings say whether there is a page.
pub fn observe_this_process(inherited: Option<&OsStr>, given: &[String]) -> Option<String> {
    let inherited = inherited.map_or(&b""[..], OsStrExt::as_bytes);
    let mut all = given.iter().map(|text| text.as_bytes()).chain([inherited]).flat_map(items);
    let is_said = all.any(|item| matches!(item, b"observe:on" | b"observe:off"));
    (!is_said).then(|| format!("observe:{}", std::process::id()))
}

/// Accepts `key:value,…` if the library's table has each key with such a value; for clap.
pub fn parse(text: &str) -> Result<String, String> {
    for item in text.split(',') {
        match item.split_once(':').unwrap_or((item, "")) {
            ("", _) => return Err(format!("expected KEY:VALUE, found '{item}'")),
            (key, value) => settings::check(key, value).map_err(|why| why.to_string())?,
        }
    }
    Ok(text.to_owned())
}

/// The new COMMENSAL_CONF: the inherited settings without those that `given` sets, then `given`. The last value of a key wins.
fn merge(inherited: Option<&OsStr>, given: &[String]) -> OsString {
    let given: Vec<&[u8]> = given.iter().flat_map(|text| items(text.as_bytes())).collect();
    let inherited = items(inherited.map_or(&b""[..], OsStrExt::as_bytes));
    let kept = inherited.filter(|item| !given.iter().any(|other| key(other) == key(item)));
    OsString::from_vec(kept.chain(given.iter().copied()).collect::<Vec<_>>().join(&b','))
}

fn items(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|&byte| byte == b',').filter(|item| !item.is_empty())
}

fn key(item: &[u8]) -> &[u8] {
    item.split(|&byte| byte == b':').next().unwrap_or(item)
}

/// Makes `command` and its children run under `library`, with the settings `given` on top of the inherited ones. The library
/// comes first: of two allocators that are preloaded, the loader binds the first.
pub fn preload(command: &mut Command, library: &Path, given: &[String]) {
    let mut list = library.as_os_str().to_owned();
    if let Some(others) = std::env::var_os(PRELOAD).filter(|others| !others.is_empty()) {
        list.push(":");
        list.push(others);
    }
    command.env(PRELOAD, list).env(VARIABLE, merge(std::env::var_os(VARIABLE).as_deref(), given));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_is_observed_unless_settings_say_otherwise() {
        let own = format!("observe:{}", std::process::id());
        for (inherited, given, is_observed) in [
            ("", "", true),
            // A number is another run's, around this one.
            ("observe:17,keep:1", "", true),
            ("", "keep:1,observe.interval_ms:20", true),
            ("observe:off", "", false),
            ("keep:1,observe:on", "", false),
            ("observe:17", "keep:1,observe:off", false),
        ] {
            let set = observe_this_process(Some(OsStr::new(inherited)), &[given.to_owned()]);
            assert_eq!(set.as_ref(), is_observed.then_some(&own), "{inherited} {given}");
        }
    }
}
