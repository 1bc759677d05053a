//! Any text may be a setting: it is understood as the table says, or the error names what was found and stays one line.
//!
//! Planted bug that was seen here, within a minute: a range without its first number.

#![no_main]

use commensal_runtime::settings::{TABLE, Values, check};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u8, &str)| {
    let (row, text) = input;
    let setting = &TABLE[usize::from(row) % TABLE.len()];
    let value = setting.values.parse(text);
    match setting.values {
        Values::Number(least, most) => {
            let number = text.parse().ok().filter(|number| (least..=most).contains(number));
            assert_eq!(value, number.map(u64::from), "{} of {text:?}", setting.key);
        }
        Values::OneOf(words) => {
            let place = words.split(' ').position(|word| word == text);
            assert_eq!(value, place.map(|place| place as u64), "{} of {text:?}", setting.key);
        }
        Values::AnyOf(_) | Values::Process | Values::Path => {}
    }
    assert_eq!(check(setting.key, text).is_ok(), value.is_some(), "{}:{text:?}", setting.key);
    for pair in text.split(',') {
        let (key, value) = pair.split_once(':').unwrap_or((pair, ""));
        let Err(why) = check(key, value) else { continue };
        let said = why.to_string();
        assert!(said.contains(key.split('=').next().unwrap_or_default()), "{said:?} does not name {key:?}");
        assert!(said.lines().count() <= 1 || pair.contains(['\n', '\r']), "{said:?} has several lines");
    }
});
