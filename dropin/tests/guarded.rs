//! Guarded blocks: each misuse is told with the block, the distance, and the lines that did it; nothing else changes.
//!
//! Planted bugs that were seen here: a page that stays open after the free; a rest of the page that no free looks at; in a
//! guard, the block that is farther away; a handler of the program that is called once only.

use dropin::check::check;
use dropin::in_both_modes;
use dropin::run::{End, Outcome};
use dropin::subject::{self, Mode};
use std::process::Command;

const ABORT: End = End::Signalled(6);
const FAULT: End = End::Signalled(11);
const MADE: (&str, &str) = ("allocated by thread", "make_block");
const DROPPED: (&str, &str) = ("freed by thread", "drop_block");
const DROPS: (&str, &str) = ("now, by thread", "drop_block");
const READS: (&str, &str) = ("now, by thread", "read_byte");
const WRITES: (&str, &str) = ("now, by thread", "write_byte");

in_both_modes! {
    overflow_beside_the_block: |mode| found(mode, "overflow 9", FAULT, "overflow: write of", "9 bytes behind the last byte of", &[MADE, WRITES]);
    overflow_further_behind: |mode| found(mode, "overflow 25", FAULT, "overflow: write of", "25 bytes behind the last byte of", &[MADE, WRITES]);
    underflow: |mode| found(mode, "underflow 1", FAULT, "underflow: read of", "1 byte before the first byte of", &[MADE, READS]);
    underflow_further_before: |mode| found(mode, "underflow 17", FAULT, "underflow: read of", "17 bytes before the first byte of", &[MADE, READS]);
    read_after_free: |mode| found(mode, "read_after_free 7", FAULT, "use after free: read of", "7 bytes into", &[MADE, DROPPED, READS]);
    write_after_free: |mode| found(mode, "write_after_free 7", FAULT, "use after free: write of", "7 bytes into", &[MADE, DROPPED, WRITES]);
    double_free: |mode| found(mode, "double_free", ABORT, "double free of", "", &[MADE, DROPPED, DROPS]);
    free_of_the_middle: |mode| found(mode, "interior", ABORT, "free of a pointer into an object", "16 bytes into", &[MADE, DROPS]);
    realloc_of_a_freed_block: |mode| found(mode, "realloc_freed", ABORT, "realloc of", "which is freed already", &[MADE, DROPPED]);
    overflow_in_the_page: |mode| found(mode, "slack", ABORT, "overflow: a byte was written", "4 bytes behind the last byte of", &[MADE, DROPS]);
    underflow_in_the_page: |mode| found(mode, "slack_before", ABORT, "underflow: a byte was written", "2 bytes before the first byte of", &[MADE, DROPS]);
    overflow_on_a_signal_stack: |mode| found(mode, "overflow_in_thread 9", FAULT, "overflow: write of", "9 bytes behind", &[MADE, WRITES]);
    block_freed_by_another_thread: |mode| found(mode, "freed_by_thread", FAULT, "use after free: read of", "0 bytes into", &[MADE, DROPPED, READS]);
    child_uses_a_block_that_it_freed: |mode| found(mode, "child_misuses", FAULT, "use after free: read of", "0 bytes into", &[MADE, DROPPED, READS]);
    program_goes_on_after_a_wrong_free: super::program_goes_on_after_a_wrong_free;
    handler_of_the_program_gets_all_faults: super::handler_of_the_program_gets_all_faults;
    faults_of_others_end_the_program_without_a_word: super::faults_of_others_end_the_program_without_a_word;
    handler_exists_only_with_guard: super::handler_exists_only_with_guard;
    blocks_of_all_kinds_hold_their_data: |mode| both_kernels("sound", |line| _ = outcome(mode, line, "guard:1", End::Exited(0)));
    profile_and_guard_at_once: |mode| _ = outcome(mode, "sound", "guard:1,profile:on,profile.gap_kib:1", End::Exited(0));
}

fn outcome(mode: Mode, line: &str, conf: &str, end: End) -> Outcome {
    let outcome = check(&format!("guarded {line}")).env("COMMENSAL_CONF", conf).outcome(subject::library(), mode);
    outcome.ending(end).unwrap_or_else(|report| panic!("`{line}` with {conf}: {report}"))
}

/// By guard marks, if the kernel has them, and without access.
fn both_kernels(line: &str, work: impl Fn(&str)) {
    work(line);
    work(&format!("old {line}"));
}

/// The misuse is told in one report: its first line, and the functions that its sections lead to.
fn found(mode: Mode, line: &str, end: End, kind: &str, distance: &str, sections: &[(&str, &str)]) {
    both_kernels(line, |line| {
        let outcome = outcome(mode, line, "guard:1", end);
        let told: Vec<_> = outcome.stderr.lines().filter(|line| line.starts_with("commensal: ")).collect();
        let is_told = told.len() == 1
            && told[0].starts_with(&format!("commensal: {kind}"))
            && [distance, "a guarded block of 40 bytes"].iter().all(|part| told[0].contains(part));
        assert!(is_told, "{}", outcome.report(&format!("expected {kind:?}, {distance:?}")));
        for (section, function) in sections {
            assert_eq!(first_function(&outcome, section), *function, "{}", outcome.report(section));
        }
        let freed = outcome.stderr.contains(DROPPED.0);
        assert_eq!(freed, sections.contains(&DROPPED), "{}", outcome.report("it is wrong whether it was freed"));
    });
}

/// The function that the first call of a section lies in.
fn first_function(outcome: &Outcome, section: &str) -> String {
    let mut lines = outcome.stderr.lines().skip_while(|line| !line.trim_start().starts_with(section));
    let call = lines.nth(1).unwrap_or_else(|| panic!("{}", outcome.report(&format!("no section {section:?}"))));
    let place = call.trim().strip_prefix("#0 0x").and_then(|rest| rest.split_once(' '));
    let (file, offset) = place.and_then(|(_, place)| place.rsplit_once('+')).unwrap_or_else(|| panic!("{call:?}"));
    let resolved = Command::new("addr2line").args(["-fe", file, offset]).output();
    let resolved = resolved.expect("addr2line, which comes with the linker");
    String::from_utf8_lossy(&resolved.stdout).lines().next().unwrap_or_default().to_owned()
}

fn program_goes_on_after_a_wrong_free(mode: Mode) {
    for (case, text) in [("double_free", "double free"), ("interior", "pointer into"), ("slack", "overflow")] {
        let outcome = outcome(mode, case, "guard:1,misuse:report", End::Exited(0));
        let told = outcome.stderr.lines().filter(|line| line.starts_with("commensal: ") && line.contains(text)).count();
        assert!(told == 1 && outcome.stdout.contains("not found"), "{}", outcome.report(case));
    }
}

fn handler_of_the_program_gets_all_faults(mode: Mode) {
    for (case, said, is_told) in [
        ("own_fault", "own fault\n", false),
        ("sent", "own fault\n", false),
        ("mended_faults", "mended\n", false),
        ("overflow 9", "fault of a block\n", true),
        ("read_after_free", "own fault\n", true),
    ] {
        let outcome = outcome(mode, &format!("early {case}"), "guard:1", End::Exited(0));
        let is_right = outcome.stdout == said && outcome.stderr.contains("commensal: ") == is_told;
        assert!(is_right, "{}", outcome.report(&format!("expected {said:?} of its handler")));
    }
}

fn faults_of_others_end_the_program_without_a_word(mode: Mode) {
    for case in ["own_fault", "sent"] {
        let outcome = outcome(mode, case, "guard:1", FAULT);
        assert_eq!((&*outcome.stdout, &*outcome.stderr), ("", ""), "{}", outcome.report(case));
    }
}

fn handler_exists_only_with_guard(mode: Mode) {
    for (conf, said) in [("", "not handled\n"), ("guard:0", "not handled\n"), ("guard:1", "handled\n")] {
        assert_eq!(outcome(mode, "handles", conf, End::Exited(0)).stdout, said, "with '{conf}'");
    }
}
