//! Caches that watch their users: each misuse is found by the option that is there for it, and the report leads to the lines that did it.

use dropin::in_both_modes;
use dropin::linked::{self, ended};
use dropin::run::{End, Outcome};
use dropin::subject::Mode;
use std::process::Command;

const ALL: &str = "cache.watched*.debug:all,cache.malloc-*.debug:all";

in_both_modes! {
    nothing_is_wrong: super::nothing_is_wrong;
    behind: |mode| finds(mode, "behind", "redzone", "was written to behind its end: byte 100 is 0x41, expected 0xbb; found when it was freed");
    before: |mode| finds(mode, "before", "redzone", "before its beginning: byte -1 is 0x41, expected 0xbb; found when it was freed");
    far_before: |mode| finds(mode, "far_before", "redzone+poison", "has its record overwritten; found when it was freed");
    twice: |mode| finds(mode, "twice", "track", "was freed twice; found when it was freed");
    raced: |mode| finds(mode, "raced", "quarantine", "was freed twice");
    used_again: |mode| finds(mode, "used_again", "poison", "after it was freed: byte 7 is 0x41, expected 0x6b; found before it was used again");
    quarantined: |mode| finds(mode, "quarantined", "poison+quarantine", "after it was freed: byte 7 is 0x41, expected 0x6b; found when it left quarantine");
    left: |mode| finds(mode, "left", "poison", "after it was freed: byte 7 is 0x41, expected 0x6b; found when the program exited");
    leaked: |mode| finds(mode, "leaked", "redzone", "behind its end: byte 103 is 0x41, expected 0xbb; found when the program exited");
    run_over: |mode| finds(mode, "run_over", "track", "has its record overwritten; found when it was freed");
    interior: |mode| finds(mode, "interior", "track", "16 bytes off");
    stranger: |mode| finds(mode, "stranger", "track", "which is no object of it, but of cache watched");
    mixed_up: |mode| finds(mode, "mixed_up", "track", "was given back to another cache");
    sites_of_a_double_free: |mode| leads_to(mode, "twice", &[("now", "drop_again"), ("allocated", "make_one"), ("freed", "drop_one")]);
    sites_of_a_late_write: |mode| leads_to(mode, "left", &[("allocated", "make_one"), ("freed", "drop_one")]);
    sites_of_an_overrun: |mode| leads_to(mode, "behind", &[("now", "drop_one"), ("allocated", "make_one")]);
    sites_of_a_neighbour: |mode| leads_to(mode, "run_over", &[("now", "drop_one"), ("allocated", "make_one")]);
    sites_of_a_stranger: |mode| leads_to(mode, "stranger", &[("now", "drop_one")]);
    blocks_of_malloc: super::blocks_of_malloc;
}

/// What the program of this check says, and how it ends, with the cache's `debug` set so.
fn outcomes(mode: Mode, check: &str, conf: &str) -> Vec<Outcome> {
    linked::outcomes(mode, &format!("debug {check}"), conf)
}

/// The check ends by a report whose first line says this; without the option, by none.
fn finds(mode: Mode, check: &str, options: &str, text: &str) {
    let misuse = format!("misuse {check}");
    for outcome in outcomes(mode, &misuse, &format!("cache.watched*.debug:{options}")) {
        let first = first_line(&outcome);
        assert!(first.starts_with("commensal: cache watched"), "{}", outcome.report("the cache is not named"));
        assert!(first.contains(text), "{}", outcome.report(&format!("expected {text:?}")));
    }
    for outcome in outcomes(mode, &misuse, &format!("cache.watched*.debug:{options},misuse:report")) {
        let outcome = outcome.ending(End::Exited(0)).unwrap_or_else(|report| panic!("it did not go on: {report}"));
        let told = outcome.stderr.lines().filter(|line| line.starts_with("commensal: ")).collect::<Vec<_>>();
        let is_told_once = told.len() == 1 && told[0].contains(text);
        assert!(is_told_once, "{}", outcome.report(&format!("expected {text:?} once, found {told:?}")));
    }
    // What the general heap finds by itself, sooner or later, would be no proof of the opposite.
    if matches!(options, "redzone" | "poison") {
        let other = if options == "redzone" { "poison" } else { "redzone" };
        for outcome in outcomes(mode, &misuse, &format!("cache.watched*.debug:{other}")) {
            outcome.ending(End::Exited(0)).unwrap_or_else(|report| panic!("found by {other} alone: {report}"));
        }
    }
}

fn first_line(outcome: &Outcome) -> &str {
    const ABORTED: End = End::Signalled(6);
    assert_eq!(outcome.end, ABORTED, "{}", outcome.report("it did not abort"));
    outcome.stderr.lines().next().unwrap_or_else(|| panic!("{}", outcome.report("nothing was said")))
}

/// Each section of the report leads first to this function.
fn leads_to(mode: Mode, check: &str, sections: &[(&str, &str)]) {
    for outcome in outcomes(mode, &format!("misuse {check}"), ALL) {
        first_line(&outcome);
        for &(section, expected) in sections {
            let found = first_function(&outcome, section);
            assert_eq!(found, expected, "{}", outcome.report(&format!("'{section}' leads elsewhere")));
        }
    }
}

/// The function that the first place of a section lies in.
fn first_function(outcome: &Outcome, section: &str) -> String {
    let mut lines = outcome.stderr.lines().skip_while(|line| !line.starts_with(&format!("  {section}")));
    let place = lines.nth(1).unwrap_or_else(|| panic!("{}", outcome.report(&format!("no section '{section}'"))));
    let (file, offset) = place.trim().rsplit_once('+').unwrap_or_else(|| panic!("no place: {place:?}"));
    let resolved = Command::new("addr2line").args(["-fe", file, offset]).output();
    let resolved = resolved.expect("addr2line, which comes with the linker");
    String::from_utf8_lossy(&resolved.stdout).lines().next().unwrap_or_default().to_owned()
}

fn nothing_is_wrong(mode: Mode) {
    for options in ["redzone", "poison", "quarantine", "redzone+poison+track+quarantine"] {
        let conf = format!("cache.watched*.debug:{options},cache.malloc-*.debug:{options}");
        for outcome in ended(mode, "debug sound", &conf) {
            assert_eq!(outcome.stderr, "", "{}", outcome.report(options));
        }
    }
}

fn blocks_of_malloc(mode: Mode) {
    for how in ["malloc", "calloc", "realloc", "aligned", "posix"] {
        for (bytes, class) in [(13, "malloc-"), (1000, "malloc-1024"), (32768, "malloc-32768")] {
            for outcome in outcomes(mode, &format!("malloc {bytes} {how}"), ALL) {
                let first = first_line(&outcome);
                let expected =
                    format!("of {bytes} bytes was written to behind its end: byte {bytes} is 0x41, expected");
                let is_told = first.starts_with(&format!("commensal: cache {class}")) && first.contains(&expected);
                assert!(is_told, "{}", outcome.report(&format!("{how}, {bytes} bytes")));
                assert_eq!(first_function(&outcome, "now"), "drop_block", "{}", outcome.report(how));
                // In a program that the library is a part of, so are the functions that calloc and its kin consist of.
                if how == "malloc" || outcome.stderr.contains("_shared+") {
                    assert_eq!(first_function(&outcome, "allocated"), "make_block", "{}", outcome.report(how));
                }
            }
        }
    }
}
