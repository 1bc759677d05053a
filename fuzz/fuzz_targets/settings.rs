//! Any text may be a setting: it is understood, or the error names what was found and stays one line.

#![no_main]

use commensal_runtime::settings::check;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    for pair in text.split(',') {
        let (key, value) = pair.split_once(':').unwrap_or((pair, ""));
        let Err(why) = check(key, value) else { continue };
        let said = why.to_string();
        assert!(said.contains(key.split('=').next().unwrap_or_default()), "{said:?} does not name {key:?}");
        assert!(said.lines().count() <= 1 || pair.contains(['\n', '\r']), "{said:?} has several lines");
    }
});
