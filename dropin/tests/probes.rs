//! The probes for tracers, `otel_memory:alloc` and `otel_memory:free`: what the files say, and what a debugger sees.

use dropin::run::{End, Run};
use dropin::subject::{self, Library, Linkage, Mode};
use dropin::{compile, in_both_modes, scratch, skips};
use std::path::{Path, PathBuf};
use std::time::Duration;

in_both_modes! {
    debugger_sees_blocks_of_one_thread: |mode| traced(mode, "");
    debugger_sees_blocks_of_two_threads: |mode| traced(mode, "threads");
    debugger_sees_blocks_of_an_archive: super::traced_with_archive;
}

/// A probe, as `readelf --notes` shows it.
#[derive(Debug)]
struct Probe {
    provider: String,
    name: String,
    location: u64,
    base: u64,
    semaphore: u64,
    arguments: String,
}

/// A section, as `readelf --sections` shows it.
#[derive(Debug)]
struct Section {
    name: String,
    kind: String,
    address: u64,
    offset: u64,
    bytes: u64,
    flags: String,
}

fn readelf(option: &str, file: &Path) -> String {
    let arguments = [option.as_ref(), "--wide".as_ref(), file.as_os_str()];
    let outcome = Run::new("readelf").args(arguments).with(&Library::none(), Mode::Without).ending(End::Exited(0));
    outcome.unwrap_or_else(|report| panic!("{report}")).stdout
}

fn number(hex: &str) -> u64 {
    u64::from_str_radix(hex.trim_start_matches("0x"), 16).unwrap_or_else(|_| panic!("{hex:?} is no hex number"))
}

fn probes(notes: &str) -> Vec<Probe> {
    let after = |text: &str, key: &str| {
        let rest = text.split_once(key).unwrap_or_else(|| panic!("no {key:?} in {text}")).1;
        rest.lines().next().unwrap_or_default().trim().to_owned()
    };
    let address = |text: &str, key| number(after(text, key).split(',').next().unwrap_or_default());
    let parts = notes.split("NT_STAPSDT").skip(1);
    let probe = |text: &str| Probe {
        provider: after(text, "Provider:"),
        name: after(text, "Name:"),
        location: address(text, "Location: "),
        base: address(text, "Base: "),
        semaphore: address(text, "Semaphore: "),
        arguments: after(text, "Arguments:"),
    };
    parts.map(probe).filter(|probe| probe.provider == "otel_memory").collect()
}

fn sections(table: &str) -> Vec<Section> {
    let rows = table.lines().filter_map(|line| line.trim_start().strip_prefix('[')?.split_once(']'));
    let numbered = rows.filter(|(index, _)| index.trim().parse::<u32>().is_ok_and(|index| index > 0));
    let fields = numbered.map(|(_, row)| row.split_whitespace().collect::<Vec<_>>());
    let section = |fields: Vec<&str>| Section {
        name: fields[0].to_owned(),
        kind: fields[1].to_owned(),
        address: number(fields[2]),
        offset: number(fields[3]),
        bytes: number(fields[4]),
        // Without flags, the next field is a number.
        flags: fields[6].to_owned(),
    };
    fields.map(section).collect()
}

/// Planted bugs: another name or register; no semaphore; notes that the linker drops, or a base or function that it
/// drops below them.
fn check_notes(file: &Path) {
    const NOP: u8 = 0x90;
    let (found, sections) = (probes(&readelf("--notes", file)), sections(&readelf("--sections", file)));
    let bytes = std::fs::read(file).expect("the file can be read");
    let holds = |section: &&Section, address| (section.address..section.address + section.bytes).contains(&address);
    let section_of = |address: u64| {
        let loaded = sections.iter().filter(|section| section.flags.contains('A') && section.kind == "PROGBITS");
        loaded.clone().find(|section| holds(section, address)).unwrap_or_else(|| panic!("{address:#x}: {sections:?}"))
    };
    let mut expected = [("alloc", "8@%rdi 8@%rsi 8@%rdx"), ("free", "8@%rdi")].to_vec();
    for probe in &found {
        let place = expected.iter().position(|known| *known == (&probe.name, &probe.arguments));
        expected.remove(place.unwrap_or_else(|| panic!("one copy each of alloc and free, not {probe:?} in {found:?}")));
        let code = section_of(probe.location);
        assert_eq!(code.name, ".text", "{probe:?}");
        assert_eq!(bytes[(code.offset + probe.location - code.address) as usize], NOP, "{probe:?}");
        let base = section_of(probe.base);
        assert_eq!((base.name.as_str(), base.address), (".stapsdt.base", probe.base), "{probe:?}");
        // The kernel finds a semaphore by its place in the file, and perf by the section's name.
        let words = section_of(probe.semaphore);
        assert!(words.name == ".probes" && words.flags.contains('W'), "{probe:?}: {words:?}");
        assert!(holds(&words, probe.semaphore + 1) && probe.semaphore % 2 == 0, "{probe:?}: {words:?}");
        let at = (words.offset + probe.semaphore - words.address) as usize;
        assert_eq!(bytes[at..at + 2], [0; 2], "{probe:?} has a tracer in the file");
    }
    assert!(expected.is_empty(), "{expected:?} are missing from {found:?} in {}", file.display());
    assert_ne!(found[0].semaphore, found[1].semaphore, "{found:?}");
}

#[test]
fn notes_of_the_library_name_probes_and_semaphores() {
    if skips::has_tools("notes_of_the_library_name_probes_and_semaphores", &["readelf"]) {
        check_notes(subject::library().path().expect("Commensal is a file"));
    }
}

#[test]
fn notes_of_a_program_with_the_archive_name_probes_and_semaphores() {
    if skips::has_tools("notes_of_a_program_with_the_archive_name_probes_and_semaphores", &["readelf"]) {
        check_notes(&with_archive());
        let flags = Linkage::Static.flags();
        let flags: Vec<&str> = flags.iter().map(String::as_str).chain(["-Wl,--gc-sections"]).collect();
        check_notes(&compile::variant("probed", "probed_with_collected_archive", &flags));
    }
}

fn with_archive() -> PathBuf {
    let flags = Linkage::Static.flags();
    compile::variant("probed", "probed_with_archive", &flags.iter().map(String::as_str).collect::<Vec<_>>())
}

/// A mean gap at which about every fourth block of the program is sampled.
const SETTINGS: &str = "profile.gap_kib:4";

fn traced(mode: Mode, threads: &str) {
    let library = subject::library().path().expect("Commensal is a file");
    let preload = format!("set environment LD_PRELOAD {}\n", library.display());
    trace(mode, &compile::program("probed"), threads, &preload);
}

fn traced_with_archive(mode: Mode) {
    trace(mode, &with_archive(), "", "");
}

/// Runs the program under gdb, which counts itself in the semaphores of probes at which it has breakpoints. The settings
/// do not turn the profile on, so samples begin for the debugger.
///
/// Planted bugs: no look at semaphores; the weight in place of the size; a free that is told after the block is gone.
fn trace(mode: Mode, program: &Path, threads: &str, preload: &str) {
    if !skips::has_tools("debuggers see blocks", &["gdb"]) {
        return;
    }
    let script = format!(
        r#"set pagination off
set confirm off
set startup-with-shell off
set disable-randomization off
set environment COMMENSAL_CONF {SETTINGS}
{preload}break main
run forever {threads}
delete
break -probe-stap otel_memory:alloc
continue
set $left = 1000
while $_probe_arg1 != 1000 && $left-- > 0
    continue
end
set $block = $_probe_arg0
printf "allocated %d %lu %lu\n", $_probe_argc, $_probe_arg1, $_probe_arg2
delete
break -probe-stap otel_memory:free
continue
set $left = 1000
while $_probe_arg0 != $block && $left-- > 0
    continue
end
printf "freed %d %d %d\n", $_probe_argc, *(unsigned char *)$block, *(unsigned char *)($block + 999)
delete
break -probe-stap otel_memory:alloc
continue
set $left = 1000
while $_probe_arg1 != 3000 && $left-- > 0
    continue
end
printf "moved %d %lu %lu\n", $_probe_argc, $_probe_arg1, $_probe_arg2
kill
"#
    );
    let file = scratch("gdb").join(format!("{}_{mode:?}{threads}.gdb", program.file_name().unwrap().display()));
    std::fs::write(&file, script).expect("a script can be written");
    let run = Run::new("gdb").args(["-nx", "-nh", "-batch", "-x"]).args([&file]).args([program]);
    // The program gives up before.
    let outcome = run.limit(Duration::from_secs(120)).with(&Library::none(), mode);
    let said = |what: &str| -> [u64; 3] {
        let line = outcome.stdout.lines().find_map(|line| line.strip_prefix(what));
        let numbers = line.map(|line| line.split_whitespace().flat_map(str::parse).collect::<Vec<_>>());
        let wrong = format!("gdb did not say `{what} NUMBER NUMBER NUMBER`, but:\n{}", outcome.stdout);
        numbers.and_then(|numbers| numbers.try_into().ok()).unwrap_or_else(|| panic!("{}", outcome.report(&wrong)))
    };
    assert_eq!(said("freed"), [1, 0x5a, 0x5a], "{}", outcome.stdout);
    // One of `1 / (1 - exp(-bytes / gap))` is sampled, by the bytes of the size class.
    for (what, size, weights) in [("allocated", 1000, 4000..=5000), ("moved", 3000, 5000..=6000)] {
        let [arguments, bytes, weight] = said(what);
        assert_eq!((arguments, bytes), (3, size), "{}", outcome.stdout);
        assert!(weights.contains(&weight), "{weight} is not in {weights:?}:\n{}", outcome.stdout);
    }
}
