//! A statistics page with any bytes changed: it is shown, as text and as JSON that others can read, or refused.
//!
//! Planted bug that was seen here, within a minute: a table that may end behind the page.

#![no_main]

use std::alloc::{Layout, alloc_zeroed};
use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use arbitrary::Arbitrary;
use commensal_runtime::observe::figures::{Cache, Group, Lock, Slot};
use commensal_runtime::observe::page::{Room, Text, Writer};
use libfuzzer_sys::fuzz_target;
use watch::page::Copied;
use watch::process::{Process, State};
use watch::series::Series;
use watch::{json, openmetrics, text};

const ROOM: Room = Room { caches: 3, slots: 2, groups: 2, locks: 2 };

/// A page as programs write it.
static WHOLE: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let bytes = ROOM.bytes();
    let layout = Layout::from_size_align(bytes, 4096).expect("a layout");
    // SAFETY: not empty.
    let memory = unsafe { alloc_zeroed(layout) };
    let mut writer = Writer::default();
    // SAFETY: never freed, aligned to a page, and this writer's alone.
    unsafe { writer.begin(memory, ROOM, 7, Text::of("fuzzed"), 1) };
    for turn in 1..=3 {
        writer.start(turn);
        writer.push::<Cache>();
        writer.push::<Cache>();
        writer.push::<Slot>();
        writer.push::<Group>();
        writer.push::<Lock>();
        writer.finish(turn + 1);
    }
    // SAFETY: as long as it was made.
    unsafe { std::slice::from_raw_parts(memory, bytes) }.to_vec()
});

/// Of every width that a field has: a wider one would change its neighbours, too.
#[derive(Arbitrary, Debug)]
enum Change {
    Byte(u8),
    Half(u32),
    Whole(u64),
}

fuzz_target!(|changes: Vec<(u16, Change)>| {
    let mut bytes = WHOLE.clone();
    for (place, change) in changes {
        let mut put = |value: &[u8]| {
            let at = usize::from(place) * value.len() % bytes.len();
            bytes[at..][..value.len()].copy_from_slice(value);
        };
        match change {
            Change::Byte(value) => put(&[value]),
            Change::Half(value) => put(&value.to_ne_bytes()),
            Change::Whole(value) => put(&value.to_ne_bytes()),
        }
    }
    let path = PathBuf::from(format!("/dev/shm/commensal-fuzz-{}", std::process::id()));
    fs::write(&path, &bytes).expect("there is shared memory");
    let read = Copied::of(&path, false);
    fs::remove_file(&path).expect("it is ours");
    let Ok(said) = read else { return };
    let process = Process { pid: 7, state: State::Running, said, path, kernel: None };
    text::of(&process);
    text::slabinfo(&process);
    let written = json::of(&process).to_string();
    let again: serde_json::Value = serde_json::from_str(&written).expect("JSON that others can read");
    assert_eq!(again["pid"], 7, "{written}");
    let line = Series::default().json(&process);
    assert!(serde_json::from_str::<serde_json::Value>(&line).is_ok_and(|line| line.is_object()), "{line}");
    openmetrics::text(openmetrics::Scrape { processes: vec![process], ..Default::default() });
});
