//! A statistics page with any bytes changed: it is shown, as text and as JSON that others can read, or refused.

#![no_main]

use std::alloc::{Layout, alloc_zeroed};
use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use commensal_runtime::observe::figures::{Cache, Group, Lock, Slot};
use commensal_runtime::observe::page::{Room, Text, Writer};
use libfuzzer_sys::fuzz_target;
use watch::page::Copied;
use watch::process::{Process, State};
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

fuzz_target!(|changes: Vec<(u16, u64)>| {
    let mut bytes = WHOLE.clone();
    for (at, value) in changes {
        let at = usize::from(at) * 8 % (bytes.len() - 8);
        bytes[at..at + 8].copy_from_slice(&value.to_ne_bytes());
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
    openmetrics::text(openmetrics::Scrape { processes: vec![process], ..Default::default() });
});
