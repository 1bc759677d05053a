//! The lock report, as C programs use it and as it is printed at exit: linked with the shared library and with the archive, in both modes.

use dropin::in_both_modes;
use dropin::linked::{ended, holds};
use dropin::subject::Mode;

in_both_modes! {
    none: |mode| holds(mode, "locks none");
    known: |mode| holds(mode, "locks known");
    busy: |mode| holds(mode, "locks busy");
    forks: |mode| holds(mode, "locks forks");
    text_at_exit: super::text_at_exit;
    json_at_exit: super::json_at_exit;
    filters: super::filters;
    wrong_settings: super::wrong_settings;
}

const HEAD: &str = " contended   total wait     max wait     avg wait         type   caller";
const NOBODY: &str = "commensal: no lock was contended";

/// What a program that ends well says on standard error.
fn said(mode: Mode, line: &str, conf: &str) -> Vec<String> {
    ended(mode, line, conf).iter().map(|outcome| outcome.stderr.to_string()).collect()
}

/// Three waits of 10 to 30 ms each, by one caller.
fn text_at_exit(mode: Mode) {
    for said in said(mode, "locks known", "locks:exit") {
        let lines: Vec<&str> = said.lines().collect();
        assert_eq!(lines[..2], [HEAD, ""], "{said}");
        let row = lines
            .iter()
            .find(|line| line.ends_with("drain   cpu_cache::tier::CpuCaches::drain_all"))
            .expect("a row of who trimmed");
        let words: Vec<&str> = row.split_whitespace().collect();
        let ms = |index: usize| words[index].parse::<f64>().unwrap_or_else(|_| panic!("column {index}: {row}"));
        assert_eq!((words[0], words[2], words[4], words[6]), ("3", "ms", "ms", "ms"), "{row}");
        let (total, max, avg) = (ms(1), ms(3), ms(5));
        assert!((15.0..=total).contains(&max) && (total / 3.0 - avg).abs() < 0.02, "{row}");
    }
    assert!(said(mode, "locks none", "locks:exit").iter().all(|said| said.trim_end() == NOBODY));
}

fn json_at_exit(mode: Mode) {
    for said in said(mode, "locks known", "locks:json") {
        let is_whole = said.starts_with("{ \"locks\": [\n  { \"contended\": 3, \"total_wait_ns\": ")
            && said.contains("\"type\": \"drain\", \"caller\": \"cpu_cache::tier::CpuCaches::drain_all\" }")
            && said.ends_with("], \"lost\": { \"contended\": 0, \"total_wait_ns\": 0 } }\n");
        assert!(is_whole, "{said}");
    }
    let nothing = "{ \"locks\": [ ], \"lost\": { \"contended\": 0, \"total_wait_ns\": 0 } }\n";
    assert!(said(mode, "locks none", "locks:json").iter().all(|said| said == nothing));
}

fn filters(mode: Mode) {
    for (filter, is_shown) in [("drain", true), ("CpuCaches::drain_a", true), ("quarantine", false)] {
        for said in said(mode, "locks known", &format!("locks:exit,locks.filter:{filter}")) {
            let rows = said.lines().skip(2).count();
            let expected = format!("{NOBODY} whose type or caller contains '{filter}'");
            assert!(if is_shown { rows == 1 } else { said.trim_end() == expected }, "{filter}: {said}");
        }
    }
}

/// They are named, with what would be right, and the program runs as without them.
fn wrong_settings(mode: Mode) {
    let long = "z".repeat(65);
    for said in said(mode, "locks none", &format!("locks:perhaps,locks.filter:{long},lockz:exit,locks:off")) {
        let expected = [
            "locks cannot be 'perhaps': expected off, exit or json; ignored".to_owned(),
            format!("locks.filter cannot be '{long}': expected a text of 1 to 64 bytes; ignored"),
            "unknown key 'lockz': did you mean 'locks'? ignored".to_owned(),
        ];
        let found: Vec<&str> =
            said.lines().map(|line| line.trim_start_matches("commensal: COMMENSAL_CONF: ")).collect();
        assert_eq!(found, expected);
    }
}
