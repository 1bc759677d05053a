//! Merging `--conf`, `--stats` and `--slabinfo` into COMMENSAL_CONF.
//!
//! The syntax is `key:value,key:value`. Only the shape is checked here: which keys exist, and which one comes nearest to a
//! misspelt one, is the library's knowledge and its message.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// The environment variable that the library reads.
pub const VARIABLE: &str = "COMMENSAL_CONF";

/// The setting behind `--stats`: the library prints its statistics at exit.
pub const STATS_AT_EXIT: &str = "stats:exit";
/// The setting behind `--slabinfo`: the library prints its slab table at exit.
pub const SLABINFO_AT_EXIT: &str = "slabinfo:exit";

/// Accepts `key:value,…`; for clap.
pub fn parse(text: &str) -> Result<String, String> {
    for item in text.split(',') {
        match item.split_once(':') {
            Some((key, value)) if !key.is_empty() && !value.is_empty() => {}
            _ => return Err(format!("{item:?} is not KEY:VALUE")),
        }
    }
    Ok(text.to_owned())
}

/// What COMMENSAL_CONF becomes: the inherited settings, less those that `given` names again, then `given`.
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
    fn the_last_one_given_wins() {
        assert_eq!(merged("", &["stats:off,a:1", STATS_AT_EXIT]), "a:1,stats:exit");
    }

    #[test]
    fn nothing_stays_nothing() {
        assert_eq!(merge(None, &[]), None);
    }

    #[test]
    fn a_setting_without_key_or_value_is_named() {
        assert!(parse("a:1,b:2").is_ok());
        for wrong in ["", "a", "a:", ":1", "a:1,"] {
            assert!(parse(wrong).unwrap_err().contains("is not KEY:VALUE"), "{wrong}");
        }
    }
}
