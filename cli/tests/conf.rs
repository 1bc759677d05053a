//! `commensal conf`: each setting is there, in each form.

mod common;

use commensal_runtime::settings::TABLE;
use common::{commensal_does, text};
use serde_json::Value;

#[test]
fn conf_as_json_has_every_key() {
    let printed: Value = serde_json::from_slice(&commensal_does(&["conf", "--json"]).stdout).expect("it is JSON");
    let keys: Vec<&str> = printed.as_array().into_iter().flatten().filter_map(|row| row["key"].as_str()).collect();
    assert_eq!(keys, TABLE.iter().map(|setting| setting.key).collect::<Vec<_>>());
    let of = |key: &str| &printed[keys.iter().position(|known| *known == key).expect("the key is there")];
    assert_eq!((&of("keep")["most"], &of("keep")["unit"]), (&(u32::MAX - 1).into(), &"MiB".into()));
    assert_eq!((&of("locks")["words"][2], &of("locks")["default"]), (&"json".into(), &"off".into()));
}

#[test]
fn conf_for_people_has_every_key_with_its_default() {
    let printed = text(&commensal_does(&["conf"]).stdout);
    let line = |key: &str| printed.lines().find(|line| line.split_whitespace().next() == Some(key));
    for setting in TABLE {
        let line = line(setting.key).unwrap_or_else(|| panic!("{} is not in\n{printed}", setting.key));
        let first = setting.default.split(' ').next().expect("a word");
        assert!(line.contains(first), "{first} is not in {line}");
    }
    assert!(printed.lines().all(|line| line.chars().count() <= 110), "{printed}");
}
