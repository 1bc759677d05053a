//! Processes for tests, with pages that are written as programs write them.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use commensal_runtime::observe::figures::{Cache, Figures, Group, Lock, Row, Slot};
use commensal_runtime::observe::page::{Room, Text, Writer};

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

/// Writes a page that was changed by hand into a folder, as if it were written at a time.
pub fn write_changed(folder: &Path, pid: u32, written: SystemTime, change: impl FnOnce(&mut Vec<u8>)) -> PathBuf {
    let path = folder.join(name(pid));
    let mut bytes = page(pid, 1000, 0);
    change(&mut bytes);
    fs::write(&path, bytes).unwrap();
    fs::File::options().write(true).open(&path).unwrap().set_modified(written).unwrap();
    path
}

/// A change that makes a page one of another version.
pub fn of_version(version: u32) -> impl Fn(&mut Vec<u8>) {
    move |page| page[8..12].copy_from_slice(&version.to_ne_bytes())
}

/// Bytes of a page that was finished at a time; `round` makes later figures larger.
pub fn page(pid: u32, at_ns: u64, round: u64) -> Vec<u8> {
    page_made_at(7, pid, at_ns, round)
}

/// Likewise, of one that was made at a time.
pub fn page_made_at(made_at_ns: u64, pid: u32, at_ns: u64, round: u64) -> Vec<u8> {
    written(ROOM, "sample", [u64::from(pid), made_at_ns, at_ns], |writer| fill(writer, round))
}

/// Bytes of a page with such room: of a process of this name, number, time when it was made, and time when it was finished.
fn written(room: Room, program: &str, [pid, made_at_ns, at_ns]: [u64; 3], fill: impl FnOnce(&mut Writer)) -> Vec<u8> {
    let mut memory = vec![0_u64; room.bytes().div_ceil(8)];
    let mut writer = Writer::default();
    // SAFETY: it is long enough, and outlives the writer.
    unsafe { writer.begin(memory.as_mut_ptr().cast(), room, pid as u32, Text::of(program), made_at_ns) };
    writer.start(at_ns - 1000);
    fill(&mut writer);
    writer.finish(at_ns);
    memory.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

fn fill(writer: &mut Writer, round: u64) {
    let mut figures = Figures::NONE;
    figures.in_use_bytes = (round + 1) * 10_000_000;
    figures.peak_bytes = 50_000_000;
    figures.run_bytes = 60_000_000;
    figures.released_bytes = round * 1_000_000;
    (figures.kicks, figures.kicks_upkeep) = (5 + round, 5 + round);
    figures.upkeep_on = 1;
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
        max_hold_ns: 40,
    };
    *writer.push().expect("there is room") = lock;
}

/// A process of such a name that has nothing but such rows, as of a time.
pub fn process_of<R: Row>(program: &str, at_ns: u64, rows: impl ExactSizeIterator<Item = R>) -> Process {
    let room = Room { caches: rows.len(), groups: rows.len(), locks: rows.len(), ..ROOM };
    let page = written(room, program, [1, 7, at_ns], |writer| {
        rows.for_each(|row| *writer.push().expect("there is room") = row);
    });
    Process { said: Copied::from_bytes(page), ..process(101, 0) }
}

/// A process that has said something an hour ago, and seconds after that in later rounds.
pub fn process(pid: u32, round: u64) -> Process {
    let at_ns = now_ns() - AGE_NS + round * 2_000_000_000;
    let kernel = Kernel { resident_bytes: 80_000_000, threads: 3, command: "sample --of=a program".to_owned() };
    let said = Copied::from_bytes(page(pid, at_ns, round));
    Process { pid, state: State::Running, said, path: PathBuf::from("page"), kernel: Some(kernel) }
}
