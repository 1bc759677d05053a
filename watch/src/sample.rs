//! Processes for tests, with pages that are written as programs write them.

use std::fs;
use std::path::{Path, PathBuf};

use commensal::observe::figures::{Cache, Figures, Group, Lock, Row, Slot};
use commensal::observe::page::{Room, Text, Writer};

use crate::namespaces::Namespaces;
use crate::page::Copied;
use crate::process::{Kernel, Process, State, now_ns};

/// So old that a test takes no time beside it.
pub const AGE_NS: u64 = 3_600_000_000_000;

const ROOM: Room = Room { caches: 4, slots: 2, groups: 2, locks: 2 };

/// A number that no process has: the kernel gives none beyond 4194304.
pub const NOBODY: u32 = 5_000_000;
/// A user without rights, there on every Linux.
pub const OTHER_USER: u32 = 65534;

/// What the page of a process of this namespace is called.
pub fn name(pid: u32) -> String {
    Namespaces::now().name(pid).to_string()
}

/// Writes the page of a process into a folder.
pub fn write(folder: &Path, pid: u32, made_at_ns: u64, at_ns: u64) -> PathBuf {
    let path = folder.join(name(pid));
    fs::write(&path, page_made_at(made_at_ns, pid, at_ns, 0)).unwrap();
    path
}

/// Bytes of a page that was finished at a time; `round` makes later figures larger.
pub fn page(pid: u32, at_ns: u64, round: u64) -> Vec<u8> {
    page_made_at(7, pid, at_ns, round)
}

/// Likewise, of one that was made at a time.
pub fn page_made_at(made_at_ns: u64, pid: u32, at_ns: u64, round: u64) -> Vec<u8> {
    let mut memory = vec![0_u64; ROOM.bytes().div_ceil(8)];
    let mut writer = Writer::default();
    // SAFETY: it is long enough, and outlives the writer.
    unsafe { writer.begin(memory.as_mut_ptr().cast(), ROOM, pid, Text::of("sample"), made_at_ns) };
    writer.start(at_ns - 1000);
    let figures = Figures {
        in_use_bytes: (round + 1) * 10_000_000,
        peak_bytes: 50_000_000,
        run_bytes: 60_000_000,
        released_bytes: round * 1_000_000,
        kicks: 5 + round,
        kicks_upkeep: 5 + round,
        upkeep_on: 1,
        ..Figures::NONE
    };
    *writer.row(0).expect("there is room") = figures;
    for (number, (name, object_bytes, spans)) in
        [("malloc-64", 64, 3), ("empty", 32, 0), ("requests", 200, 9)].into_iter().enumerate()
    {
        let (in_use, objects, refills) = (spans * 100, spans * 300, round * 40);
        let row = Cache {
            name: Text::of(name),
            object_bytes,
            in_use,
            objects,
            spans,
            span_bytes: spans << 16,
            limit: 120,
            batch: 60,
            refills,
            ..Cache::NONE
        };
        *writer.row(number).expect("there is room") = row;
    }
    for number in 0..2 {
        let row = Slot { arrays: 4, cached_objects: 100 * number, refills: 7, ..Slot::NONE };
        *writer.push().expect("there is room") = row;
    }
    let group = Group { name: Text::of("tenant \"one\"\\"), limit_bytes: u64::MAX, charged_bytes: 4096, ..Group::NONE };
    *writer.push().expect("there is room") = group;
    writer.lose::<Group>(3);
    let lock = Lock {
        class: Text::of("page heap"),
        caller: Text::of("page_heap::runs::PageHeap::allocate"),
        contended: 17 + round,
        total_wait_ns: 1_500_000,
        max_wait_ns: 900,
    };
    *writer.push().expect("there is room") = lock;
    writer.finish(at_ns);
    memory.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

/// Bytes of a page of a process that has nothing but groups: names, what is charged, and limits.
pub fn page_of_groups(groups: &[(&str, u64, u64)]) -> Vec<u8> {
    let row = |&(name, charged_bytes, limit_bytes): &(&str, u64, u64)| {
        let name = Text::of(name);
        Group { name, charged_bytes, limit_bytes, ..Group::NONE }
    };
    page_of("sample", now_ns(), groups.iter().map(row))
}

/// Bytes of a page that was finished at a time, of a process that has nothing but groups: names, and what limits refused.
pub fn page_of_refused(at_ns: u64, groups: &[(&str, u64)]) -> Vec<u8> {
    let row = |&(name, refused): &(&str, u64)| Group { name: Text::of(name), refused, ..Group::NONE };
    page_of("sample", at_ns, groups.iter().map(row))
}

/// Bytes of a page of a process, of such a name, that has nothing but caches.
pub fn page_of_caches(program: &str, names: &[&str]) -> Vec<u8> {
    let row = |name: &&str| Cache { name: Text::of(name), spans: 1, ..Cache::NONE };
    page_of(program, now_ns(), names.iter().map(row))
}

/// Bytes of a page of a process, of such a name, that has nothing but such rows.
pub fn page_of<R: Row>(program: &str, at_ns: u64, rows: impl ExactSizeIterator<Item = R>) -> Vec<u8> {
    let room = Room { caches: rows.len(), groups: rows.len(), locks: rows.len(), ..ROOM };
    let mut memory = vec![0_u64; room.bytes().div_ceil(8)];
    let mut writer = Writer::default();
    // SAFETY: it is long enough, and outlives the writer.
    unsafe { writer.begin(memory.as_mut_ptr().cast(), room, 1, Text::of(program), 7) };
    writer.start(at_ns);
    for row in rows {
        *writer.push().expect("there is room") = row;
    }
    writer.finish(at_ns);
    memory.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

/// A process that has said something an hour ago, and seconds after that in later rounds.
pub fn process(pid: u32, round: u64) -> Process {
    let at_ns = now_ns() - AGE_NS + round * 2_000_000_000;
    let kernel = Kernel { resident_bytes: 80_000_000, threads: 3, command: "sample --of=a program".to_owned() };
    let said = Copied::from_bytes(page(pid, at_ns, round));
    Process { pid, state: State::Running, said, path: PathBuf::from("page"), kernel: Some(kernel) }
}
