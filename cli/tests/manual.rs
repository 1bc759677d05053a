//! What the command says of itself: man pages, completions, its version, and colours.

mod common;

use std::fs;
use std::process::{Command, Stdio};

use common::{commensal, skip, succeeds, text};
use regex::Regex;

const ESCAPE: char = '\u{1b}';

#[test]
fn man_pages_are_written_without_a_warning() {
    let place = tempfile::tempdir().unwrap();
    succeeds(commensal().arg("man").arg(place.path()));
    let pages: Vec<_> = fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    for name in ["commensal.1", "commensal-run.1", "commensal-compare.1", "commensal-profile-show.1"] {
        assert!(pages.iter().any(|page| page.ends_with(name)), "{name}: {pages:?}");
    }
    if Command::new("groff").arg("--version").output().is_err() {
        return skip("man_pages_are_written_without_a_warning", "there is no groff");
    }
    for page in pages {
        let done = succeeds(Command::new("groff").args(["-ww", "-man", "-Tutf8", "-Kutf8", "-P-cbou"]).arg(&page));
        assert_eq!(text(&done.stderr), "", "{}", page.display());
        assert!(text(&done.stdout).contains("SYNOPSIS"), "{}", page.display());
    }
}

#[test]
fn commands_and_options_are_completed_in_bash() {
    let place = tempfile::tempdir().unwrap();
    let script = place.path().join("commensal.bash");
    fs::write(&script, succeeds(commensal().args(["completions", "bash"])).stdout).unwrap();
    let complete = r#"source "$1"; COMP_WORDS=(commensal "${@:2}"); COMP_CWORD=$(($# - 1))
        $(complete -p commensal | sed 's/.*-F \([^ ]*\).*/\1/') commensal "${@: -1}" "${COMP_WORDS[COMP_CWORD-1]}"
        echo "${COMPREPLY[@]}""#;
    for (words, expected) in [
        (&["comp"][..], "compare completions"),
        (&["exp"], "exporter"),
        (&["compare", "--fo"], "--format"),
        (&["compare", "--format", ""], "text markdown csv json"),
        (&["profile", "sy"], "symbols"),
    ] {
        let mut bash = Command::new("bash");
        let done = succeeds(bash.args(["--norc", "-c", complete, "bash"]).arg(&script).args(words));
        assert_eq!(text(&done.stdout).trim(), expected, "{words:?}: {}", text(&done.stderr));
    }
    for shell in ["zsh", "fish", "elvish", "powershell"] {
        assert!(text(&succeeds(commensal().args(["completions", shell])).stdout).contains("exporter"), "{shell}");
    }
}

#[test]
fn version_names_the_commit() {
    let version = text(&succeeds(commensal().arg("--version")).stdout);
    let expected = format!(r"^commensal {}( \([0-9a-f]{{12}}\+?\))?\n$", env!("CARGO_PKG_VERSION"));
    assert!(Regex::new(&expected).unwrap().is_match(&version), "{version}");
}

#[test]
fn colours_are_where_they_are_wanted() {
    for (words, variable, expected) in [
        ("--help", "TERM=xterm", false),
        ("--color always --help", "NO_COLOR=1", true),
        ("run --color=always --help", "TERM=xterm", true),
        ("run --help", "CLICOLOR_FORCE=1", true),
        ("run --color never --help", "CLICOLOR_FORCE=1", false),
        ("--color=auto run --help", "CLICOLOR_FORCE=1", true),
    ] {
        let (name, value) = variable.split_once('=').unwrap();
        let mut command = commensal();
        command.args(words.split(' ')).env_remove("NO_COLOR").env_remove("CLICOLOR_FORCE").env(name, value);
        let help = text(&succeeds(&mut command).stdout);
        assert_eq!(help.contains(ESCAPE), expected, "{words} with {variable}: {help}");
    }
}

#[test]
fn output_that_nobody_reads_is_no_crash() {
    let unread = |words: &[&str], errors: bool| {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = commensal();
        command.args(words);
        let command = if errors { command.stdout(Stdio::null()).stderr(writer) } else { command.stdout(writer) };
        command.status().unwrap().code()
    };
    for words in [&["conf"][..], &["conf", "--json"], &["stat"], &["completions", "zsh"], &["lab", "list"], &["--help"]]
    {
        assert_eq!(unread(words, false), Some(0), "{words:?}");
    }
    assert_eq!(unread(&["stat", "999999999"], true), Some(125));
    assert_eq!(unread(&["no-such-command"], true), Some(2));
}

#[test]
fn output_for_which_there_is_no_space_is_an_error() {
    for words in [&["conf"][..], &["completions", "zsh"]] {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let done = commensal().args(words).stdout(full).output().unwrap();
        assert_eq!(done.status.code(), Some(125), "{words:?}");
        assert!(text(&done.stderr).contains("No space left"), "{}", text(&done.stderr));
    }
}
