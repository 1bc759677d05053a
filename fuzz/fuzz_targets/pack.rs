//! A pack with any values and keys changed: it is refused, or the page has a heading and a table of it, and no more.
//!
//! Planted bugs that were seen here, each within a minute: text that may begin a line of the page; an experiment whose
//! name may have any characters.

#![no_main]

use std::sync::LazyLock;

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use serde_json::{Map, Value};

#[path = "../../xtask/src/packs/page.rs"]
mod page;

#[derive(Arbitrary, Debug)]
enum Change {
    Null,
    Flag(bool),
    Number(f64),
    Text(String),
    List,
    Fields,
    /// In place of the first key.
    Key(String),
    Gone(u8),
}

static SCHEMA: LazyLock<page::Schema> = LazyLock::new(|| {
    let document = serde_json::from_str(include_str!("../../lab/pack.schema.json")).expect("JSON");
    page::Schema::of(document).expect("a schema")
});
/// A machine's, with the first values of each list alone, and comparisons that the page shows.
static WHOLE: LazyLock<Value> = LazyLock::new(|| {
    let text = include_str!("../../docs/packs/epyc-2-cpus-virtual.json");
    let mut pack: Value = serde_json::from_str(text).expect("JSON");
    for result in pack["results"].as_object_mut().expect("by name").values_mut() {
        let compared = result["comparisons"].as_array_mut().expect("a list");
        compared.sort_by_key(|compared| compared["document"].is_null());
        shorten(result);
    }
    SCHEMA.check(&pack).expect("a pack");
    pack
});

static VALUES: LazyLock<usize> = LazyLock::new(|| count(&WHOLE));

fn count(value: &Value) -> usize {
    1 + match value {
        Value::Array(values) => values.iter().map(count).sum(),
        Value::Object(fields) => fields.values().map(count).sum(),
        _ => 0,
    }
}

fn shorten(value: &mut Value) {
    match value {
        Value::Array(values) => {
            values.truncate(2);
            values.iter_mut().for_each(shorten);
        }
        Value::Object(fields) => fields.values_mut().for_each(shorten),
        _ => {}
    }
}

/// The value at this place in the order of the text, if there are so many.
fn at<'a>(value: &'a mut Value, place: &mut usize) -> Option<&'a mut Value> {
    if *place == 0 {
        return Some(value);
    }
    *place -= 1;
    match value {
        Value::Array(values) => values.iter_mut().find_map(|value| at(value, place)),
        Value::Object(fields) => fields.values_mut().find_map(|value| at(value, place)),
        _ => None,
    }
}

fn apply(change: Change, value: &mut Value) {
    match (change, value) {
        (Change::Key(key), Value::Object(fields)) => {
            let first = fields.keys().next().cloned();
            let moved = first.and_then(|first| fields.remove(&first));
            fields.extend(moved.map(|moved| (key, moved)));
        }
        (Change::Gone(number), Value::Object(fields)) => {
            let key = fields.keys().nth(number.into()).cloned();
            key.and_then(|key| fields.remove(&key));
        }
        (Change::Gone(number), Value::Array(values)) => {
            let _ = (usize::from(number) < values.len()).then(|| values.remove(number.into()));
        }
        (Change::Key(text) | Change::Text(text), value) => *value = text.into(),
        (Change::Null | Change::Gone(_), value) => *value = Value::Null,
        (Change::Flag(flag), value) => *value = flag.into(),
        (Change::Number(number), value) => *value = number.into(),
        (Change::List, value) => *value = Vec::<Value>::new().into(),
        (Change::Fields, value) => *value = Map::new().into(),
    }
}

fuzz_target!(|changes: Vec<(u16, Change)>| {
    let mut pack = WHOLE.clone();
    for (place, change) in changes {
        if let Some(value) = at(&mut pack, &mut (usize::from(place) % *VALUES)) {
            apply(change, value);
        }
    }
    if SCHEMA.check(&pack).is_err() {
        return;
    }
    let text = page::of(&[pack]);
    let added = text.strip_prefix(page::OPENING).expect("the page begins as always");
    assert!(!added.contains(|of: char| of == '<' || of.is_control() && of != '\n'), "{added:?}");
    let lines: Vec<&str> = added.lines().collect();
    let [before, heading, between, machine, after, rows @ ..] = &lines[..] else { panic!("{added:?}") };
    assert!([before, between, after].iter().all(|line| line.is_empty()), "{added:?}");
    assert!(heading.starts_with("## ") && machine.starts_with("Linux "), "{added:?}");
    let is_row = |row: &&str| row.starts_with('|') && row.ends_with('|') && row.matches('|').count() == 7;
    assert!(rows.len() >= 2 && rows.iter().all(is_row), "{added:?}");
});
