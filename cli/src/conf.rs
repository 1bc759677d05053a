//! The environment under which the loader puts the library into a program: LD_PRELOAD, and COMMENSAL_CONF, into which
//! `--conf`, `--stats`, `--slabinfo` and `--locks` are merged.
//!
//! The syntax of the latter is `key:value,key:value`. What is typed on the command line is checked by the library's own
//! table. What is inherited is passed on: the preloaded library reports and ignores what it does not know.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::process::Command;

use commensal::settings::{self, Key};

/// The environment variable that the library reads.
pub const VARIABLE: &str = "COMMENSAL_CONF";

/// The setting behind `--stats`: the library prints its statistics at exit.
pub const STATS_AT_EXIT: &str = "stats:exit";
/// The setting behind `--slabinfo`: the library prints its slab table at exit.
pub const SLABINFO_AT_EXIT: &str = "slabinfo:exit";

/// The setting behind `--locks`: the library prints its lock report at exit.
pub const LOCKS_AT_EXIT: &str = "locks:exit";
/// The setting behind `--locks-json`: the same as JSON.
pub const LOCKS_JSON_AT_EXIT: &str = "locks:json";

/// The setting behind the filter of `--locks`. None for an empty filter: then that of the environment holds.
pub fn lock_filter(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| format!("locks.filter:{text}"))
}

/// Accepts a filter for `--locks`, which cannot have a comma because settings end there. For clap.
pub fn parse_filter(text: &str) -> Result<String, String> {
    const FILTER: Key = Key::of("locks.filter");
    if text.contains(',') {
        return Err("a filter cannot have a comma; give a part of one name".to_owned());
    }
    if !text.is_empty() && FILTER.parse(text).is_none() {
        return Err(format!("expected {}, found {}", FILTER.values(), text.len()));
    }
    Ok(text.to_owned())
}

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

/// The new COMMENSAL_CONF: the inherited settings without those that `given` sets, then `given`, of which the last wins.
pub fn merge(inherited: Option<&OsStr>, given: &[&str]) -> Option<OsString> {
    let given: Vec<&[u8]> = given.iter().flat_map(|text| items(text.as_bytes())).collect();
    let inherited = inherited.map_or(&b""[..], OsStrExt::as_bytes);
    let mut merged: Vec<&[u8]> =
        items(inherited).filter(|item| !given.iter().any(|other| key(other) == key(item))).collect();
    merged.extend(given.iter().enumerate().filter_map(|(i, item)| {
        let said_again = given[i + 1..].iter().any(|later| key(later) == key(item));
        (!said_again).then_some(*item)
    }));
    (!merged.is_empty()).then(|| OsString::from_vec(merged.join(&b',')))
}

fn items(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|&byte| byte == b',').filter(|item| !item.is_empty())
}

fn key(item: &[u8]) -> &[u8] {
    item.split(|&byte| byte == b':').next().unwrap_or(item)
}

/// The environment variable that the loader reads.
pub const PRELOAD: &str = "LD_PRELOAD";

/// Makes `command` and its children run under `library`, with the settings `given` on top of the inherited ones.
pub fn preload(command: &mut Command, library: &Path, given: &[&str]) {
    let inherited = std::env::var_os(PRELOAD);
    command.env(PRELOAD, prepended(library, inherited.as_deref()));
    let settings = std::env::var_os(VARIABLE);
    if let Some(settings) = merge(settings.as_deref(), given) {
        command.env(VARIABLE, settings);
    }
}

/// Makes `command` run under `library`, or under none, with default settings. It drops the user's settings, because
/// programs that are compared must differ in the library alone.
pub fn preload_alone(command: &mut Command, library: Option<&Path>) {
    command.env_remove(VARIABLE);
    match library {
        Some(library) => command.env(PRELOAD, library),
        None => command.env_remove(PRELOAD),
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

    fn merged(inherited: &str, given: &[&str]) -> String {
        let result = merge(Some(OsStr::new(inherited)), given).unwrap_or_default();
        result.into_string().unwrap()
    }

    #[test]
    fn given_settings_win_and_others_stay() {
        assert_eq!(merged("a:1,b:2", &["b:3,c:4"]), "a:1,b:3,c:4");
        assert_eq!(merged("stats:off,a:1", &[STATS_AT_EXIT]), "a:1,stats:exit");
        assert_eq!(merged("a:1,,", &[]), "a:1");
    }

    #[test]
    fn setting_given_twice_takes_the_last_value() {
        assert_eq!(merged("", &["stats:off,a:1", STATS_AT_EXIT]), "a:1,stats:exit");
    }

    #[test]
    fn nothing_stays_nothing() {
        assert_eq!(merge(None, &[]), None);
    }

    #[test]
    fn program_is_observed_unless_settings_say_otherwise() {
        let own = format!("observe:{}", std::process::id());
        let set = |inherited: &str, given: &[&str]| {
            let given: Vec<String> = given.iter().map(|text| (*text).to_owned()).collect();
            observe_this_process(Some(OsStr::new(inherited)), &given)
        };
        // A number is another run's, around this one.
        for (inherited, given) in [("", &[][..]), ("observe:17,keep:1", &[]), ("", &["keep:1,observe.interval_ms:20"])]
        {
            assert_eq!(set(inherited, given).as_ref(), Some(&own), "{inherited} {given:?}");
        }
        for (inherited, given) in
            [("observe:off", &[][..]), ("keep:1,observe:on", &[]), ("observe:17", &["keep:1,observe:off"])]
        {
            assert_eq!(set(inherited, given), None, "{inherited} {given:?}");
        }
    }

    #[test]
    fn lock_filter_with_a_comma_or_too_long_is_refused() {
        assert_eq!(parse_filter("runs::PageHeap::free").as_deref(), Ok("runs::PageHeap::free"));
        assert!(parse_filter("zone,drain").unwrap_err().contains("cannot have a comma"));
        assert!(parse_filter(&"z".repeat(64)).is_ok());
        assert_eq!(parse_filter(&"z".repeat(65)).unwrap_err(), "expected a text of 1 to 64 bytes, found 65");
        assert_eq!(lock_filter("page heap").as_deref(), Some("locks.filter:page heap"));
        assert_eq!(lock_filter(""), None);
    }

    #[test]
    fn wrong_setting_is_told_with_what_is_right() {
        assert!(parse("keep:64,stats:exit").is_ok());
        for (wrong, told) in [
            ("", "expected KEY:VALUE, found ''"),
            ("keep:1,", "expected KEY:VALUE, found ''"),
            (":1", "expected KEY:VALUE, found ':1'"),
            ("keep", "keep has no value: expected a number from 0 to 4294967295"),
            ("keep=64", "'keep=64' has '=' instead of ':': write keep:64"),
            ("stats:exit,keeep:64", "unknown key 'keeep' (did you mean 'keep'?)"),
        ] {
            assert_eq!(parse(wrong).unwrap_err(), told);
        }
    }

    #[test]
    fn other_preloads_stay_behind_the_library() {
        let library = Path::new("/lib/c.so");
        assert_eq!(prepended(library, None), "/lib/c.so");
        assert_eq!(prepended(library, Some(OsStr::new(""))), "/lib/c.so");
        assert_eq!(prepended(library, Some(OsStr::new("a.so b.so"))), "/lib/c.so:a.so b.so");
    }
}
