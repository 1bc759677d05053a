//! Each row is read, set and refused as the table says; each bad pair is reported.

use super::*;
use std::borrow::ToOwned;
use std::collections::HashSet;
use std::format;
use std::string::{String, ToString};
use std::vec;
use std::vec::Vec;

/// Values that a row takes, as texts of the environment and as numbers.
fn examples(values: Values) -> Vec<(String, u64)> {
    match values {
        Values::OneOf(words) => words.split(' ').map(str::to_owned).zip(0..).collect(),
        Values::AnyOf(words) => {
            let each = words.split(' ').enumerate().map(|(place, word)| (word.to_owned(), 1 << place));
            let all = (1 << words.split(' ').count()) - 1;
            each.chain([("off".to_owned(), 0), ("all".to_owned(), all), (words.replace(' ', "+"), all)]).collect()
        }
        Values::Number(least, most) => [least, most].map(|number| (number.to_string(), number.into())).to_vec(),
        Values::Process => {
            [("off", 0), ("on", ALL_PROCESSES), ("17", 17)].map(|(text, value)| (text.into(), value)).into()
        }
        Values::Path => ["heap.%p.pb.gz", "/a:b"].map(|path| (path.into(), 1)).into(),
    }
}

fn mistakes(values: Values) -> Vec<String> {
    let mut wrong: Vec<String> = ["", "perhaps+", "of", "0x10", "-1", "99999999999"].map(str::to_owned).to_vec();
    match values {
        Values::Number(least, most) => {
            wrong.extend([u64::from(most) + 1, u64::from(least).wrapping_sub(1)].map(|number| number.to_string()));
        }
        Values::AnyOf(words) => wrong.push(format!("{} all", words.as_str())),
        Values::Process => wrong.extend([0, u32::MAX - 1].map(|number| number.to_string())),
        Values::Path => return vec![String::new(), "x".repeat(LONGEST_PATH + 1)],
        Values::OneOf(_) => {}
    }
    wrong
}

fn complaints(conf: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    read(conf.as_bytes(), |why| complaints.push(why.to_string()));
    complaints
}

#[test]
fn settings_rows_have_unique_keys_and_valid_defaults() {
    let keys: HashSet<&str> = TABLE.iter().map(|row| row.key).collect();
    assert_eq!(keys.len(), TABLE.len());
    for row in TABLE {
        let is_said_in_words = ["control", "possible_cpus"].contains(&row.key);
        assert!(is_said_in_words || row.values.parse(row.default).is_some(), "{} is not {}", row.key, row.default);
        assert!(row.help.ends_with('.') && !row.help.contains("  "), "{}: {}", row.key, row.help);
        assert_eq!(Some(Key::of(row.key).default), row.values.parse(row.default).or(Some(0)), "{}", row.key);
    }
}

#[test]
fn settings_parser_understands_each_value_of_each_row() {
    for (place, row) in TABLE.iter().enumerate() {
        for (text, value) in examples(row.values) {
            assert_eq!(understand(row.key, &text), Ok((place, value)), "{}:{text}", row.key);
        }
    }
}

#[test]
fn bad_value_of_any_row_is_told_with_what_was_expected() {
    for row in TABLE {
        for wrong in mistakes(row.values) {
            let found = if wrong.is_empty() { "has no value".to_owned() } else { format!("cannot be '{wrong}'") };
            let expected = format!("{} {found}: expected {}", row.key, row.values);
            assert_eq!(complaints(&format!("{}:{wrong}", row.key)), [expected]);
        }
    }
}

#[test]
fn expected_values_are_told_in_words() {
    let of = |key| ROWS[Key::of(key).place].values.to_string();
    assert_eq!(of("locks"), "off, exit or json");
    assert_eq!(of("lazy"), "off or on");
    assert_eq!(of("observe.interval_ms"), "a number from 20 to 60000");
    assert_eq!(of("cache.NAME.debug"), "off, all, or some of redzone, poison, track, quarantine, joined by '+'");
}

/// Only this test and that of `set` change values here, and of different rows.
#[test]
fn last_pair_of_a_key_holds_and_a_bad_one_changes_nothing() {
    let [keep, lazy, stats, locks] = ["keep", "lazy", "stats", "locks"].map(Key::of);
    assert!(!is_said_of("keep") && lazy.is_on() && keep.get() == 1);
    let told = complaints(",keep:5,,keep:x,lazy:off,keep:7,stats,locks:json,keep:-1");
    assert_eq!(
        told,
        [
            "keep cannot be 'x': expected a number from 0 to 4294967294",
            "stats has no value: expected off or exit",
            "keep cannot be '-1': expected a number from 0 to 4294967294",
        ]
    );
    assert_eq!((keep.get(), lazy.get(), stats.said(), locks.get()), (7, 0, None, 2));
    assert!(!lazy.is_on() && lazy.is("off") && locks.is("json") && Key::of("huge").is("system"));
    assert!(is_said_of("keep") && !is_said_of("possible"));
}

#[test]
fn unknown_key_is_told_with_the_nearest() {
    for (key, near) in [
        ("stat", "stats"),
        ("kep", "keep"),
        ("hugepages", "huge"),
        ("possible-cpu", "possible_cpus"),
        ("rcu.stal_ms", "rcu.stall_ms"),
        ("cache.some/long.name-*.debog", "cache.NAME.debug"),
        ("cache.debug", "cache.NAME.debug"),
    ] {
        assert_eq!(complaints(&format!("{key}:1")), [format!("unknown key '{key}' (did you mean '{near}'?)")]);
    }
    assert_eq!(complaints("dinner:1"), ["unknown key 'dinner' (`commensal conf` lists all)"]);
    assert_eq!([distance(b"abc", b"abc"), distance(b"", b"abc"), distance(b"kitten", b"sitting")], [0, 3, 3]);
}

#[test]
fn pair_with_an_equals_sign_is_told_with_the_colon() {
    for (wrong, right) in [("keep=64", "keep:64"), ("cache.a*.debug=all", "cache.a*.debug:all"), ("kep=", "kep:")] {
        assert_eq!(complaints(wrong), [format!("'{wrong}' has '=' instead of ':': write {right}")]);
    }
}

#[test]
fn set_takes_what_may_change_in_its_range_only() {
    for row in TABLE.iter().filter(|row| row.when == When::AnyTime) {
        let (part, name) = row.key.split_once('.').unwrap_or((row.key, "on"));
        let key = Key::of(row.key);
        for (_, value) in examples(row.values) {
            assert_eq!((set(part, name, value as u32), key.get()), (Ok(()), value), "{}", row.key);
        }
        let before = key.get();
        assert_eq!((set(part, name, u32::MAX), key.get()), (Err(Refused), before), "{}", row.key);
        set(part, name, key.default as u32).expect("the default is in range");
    }
    for (part, name) in
        [("rcu", "policy"), ("rcu", "on"), ("rcu", "stal_ms"), ("upkeep", ""), ("observe", "interval_ms")]
    {
        assert_eq!(set(part, name, 30), Err(Refused), "{part} {name}");
    }
}

#[test]
fn last_rule_that_fits_a_cache_holds() {
    let dedicated =
        |conf: &str, name: &str| Key::of("cache.NAME.dedicated").in_rules(conf.as_bytes(), name.as_bytes()) == 1;
    assert!(dedicated("", "context"));
    assert!(!dedicated("cache.context.dedicated:off", "context"));
    assert!(dedicated("cache.context.dedicated:off", "contexts"));
    assert!(!dedicated("stats:exit,cache.net/*.dedicated:off", "net/tcp.v4"));
    assert!(!dedicated("cache.net/tcp.v4.dedicated:off", "net/tcp.v4"));
    assert!(dedicated("cache.*.dedicated:off,cache.context.dedicated:on", "context"));
    assert!(dedicated("cache.context.dedicated:perhaps,cache.context.didicated:off", "context"));
    let debug = |conf: &str| Key::of("cache.NAME.debug").in_rules(conf.as_bytes(), b"context");
    assert_eq!(
        ["cache.context.debug:all", "cache.con*.debug:poison+track", "cache.*.dedicated:off"].map(debug),
        [15, 6, 0]
    );
}
