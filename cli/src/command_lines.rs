//! Checks that the command itself understands the command lines in README.md and in the book.
//!
//! Command lines are all lines of `sh` blocks, and the lines of `console` blocks that begin with `$ `. In README.md, blocks
//! without a language count as `sh`.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Parser;
use clap::error::ErrorKind;

use crate::{Action, Cli, hackbench};

/// Programs that run the rest of their line.
const RUNNERS: [&str; 4] = ["sudo", "exec", "time", "env"];

/// The command lines of a page; continued lines are joined.
fn lines(page: &str, is_readme: bool) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let (mut language, mut goes_on) = (None, false);
    for line in page.lines() {
        if let Some(info) = line.trim_start().strip_prefix("```") {
            language = if language.is_some() { None } else { Some(info.split([',', ' ']).next().unwrap_or("")) };
            continue;
        }
        let begun = match language {
            Some("console") => line.strip_prefix("$ ").or(goes_on.then(|| line.strip_prefix("> ").unwrap_or(line))),
            Some("sh" | "bash") => Some(line),
            Some("") if is_readme => Some(line),
            _ => None,
        };
        let Some(part) = begun else { continue };
        let (part, more) = part.trim_end().strip_suffix('\\').map_or((part, false), |part| (part, true));
        match lines.last_mut() {
            Some(last) if goes_on => *last += part,
            _ => lines.push(part.to_owned()),
        }
        goes_on = more;
    }
    lines
}

/// The words of each command of a line. Splits at `;`, `&`, `|` and parentheses, and drops comments and redirections.
fn simple_commands(line: &str) -> Vec<Vec<String>> {
    let (mut commands, mut word, mut quote) = (vec![Vec::new()], None::<String>, None);
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (Some(open), _) if letter == open => quote = None,
            (Some(_), _) => word.get_or_insert_default().push(letter),
            (None, '\'' | '"') => {
                word.get_or_insert_default();
                quote = Some(letter);
            }
            (None, '#') if word.is_none() => break,
            (None, ';' | '&' | '|' | '(' | ')') => {
                commands.last_mut().unwrap().extend(word.take());
                // `2>&1` does not end a command.
                if !(letter == '&' && letters.peek().is_some_and(char::is_ascii_digit)) {
                    commands.push(Vec::new());
                }
            }
            (None, _) if letter.is_whitespace() => commands.last_mut().unwrap().extend(word.take()),
            (None, _) => word.get_or_insert_default().push(letter),
        }
    }
    commands.last_mut().unwrap().extend(word);
    let is_redirection = |word: &String| word.trim_start_matches(|c: char| c.is_ascii_digit()).starts_with(['>', '<']);
    for words in &mut commands {
        words.truncate(words.iter().position(is_redirection).unwrap_or(words.len()));
    }
    commands
}

/// An error if the command line is one of ours and is wrong. Settings may be wrong if the page shows how they are refused.
fn why_not(words: &[String], page: &str) -> Result<(), String> {
    let is_name = |name: &str| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let is_assigned = |word: &&String| word.split_once('=').is_some_and(|(name, _)| is_name(name));
    let (assigned, words) = words.split_at(words.iter().take_while(is_assigned).count());
    for conf in assigned.iter().filter_map(|word| word.strip_prefix("COMMENSAL_CONF=")) {
        settings(conf, page)?;
    }
    match words {
        [cargo, run, release, dashes, rest @ ..]
            if [cargo, run, release, dashes].map(|word| &**word) == ["cargo", "run", "--release", "--"] =>
        {
            arguments(rest, page)
        }
        [first, rest @ ..] if first.rsplit('/').next() == Some("commensal") => arguments(rest, page),
        [first, rest @ ..] if RUNNERS.contains(&&**first) => why_not(rest, page),
        _ => Ok(()),
    }
}

fn arguments(words: &[String], page: &str) -> Result<(), String> {
    if words.first().is_some_and(|word| word == crate::WORKLOAD) {
        return Ok(());
    }
    // Placeholders mostly stand for the number of a process.
    let stands_for = |word: &str| word.starts_with('$') || word.chars().all(|c| c.is_ascii_uppercase());
    let words: Vec<&str> = words.iter().map(|word| if stands_for(word) { "1" } else { word }).collect();
    let said = |error: clap::Error| match error.kind() {
        ErrorKind::UnknownArgument | ErrorKind::InvalidSubcommand => Err(error.to_string()),
        ErrorKind::InvalidValue if !error.to_string().contains("'1'") => Err(error.to_string()),
        ErrorKind::ValueValidation => {
            let line = crate::usage::line(&error);
            let is_shown = line.split('\'').nth(1).is_some_and(|key| shown(page, key));
            if is_shown || line.contains('…') || line.contains(" 1:") { Ok(None) } else { Err(line) }
        }
        _ => Ok(None),
    };
    if words.starts_with(&hackbench::WORDS) {
        return hackbench::check(words[2..].iter().map(|word| (*word).to_owned()))
            .or_else(|error| said(error).map(|_| ()));
    }
    let parsed = Cli::try_parse_from(["commensal"].into_iter().chain(words.iter().copied())).map(Some).or_else(said)?;
    let (confs, command) = match parsed.and_then(|cli| cli.action) {
        Some(Action::Run(run)) => (run.conf, run.command),
        Some(Action::Compare(compare)) => (compare.arm.into_iter().map(|(_, conf)| conf).collect(), compare.command),
        _ => (Vec::new(), Vec::new()),
    };
    confs.iter().try_for_each(|conf| settings(conf, page))?;
    let command: Vec<String> = command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    why_not(&command, page)
}

fn settings(conf: &str, page: &str) -> Result<(), String> {
    conf.split(',').filter_map(|pair| pair.split_once(':')).try_for_each(|(key, value)| {
        let is_refused = shown(page, key) || format!("{key}{value}").contains('…');
        if is_refused { Ok(()) } else { commensal::settings::check(key, value).map_err(|why| why.to_string()) }
    })
}

/// Whether a page shows how a key is refused.
fn shown(page: &str, key: &str) -> bool {
    page.contains(&format!("unknown key '{key}'"))
}

/// The wrong command lines of a page, with the errors.
fn found(page: &str, is_readme: bool) -> Vec<String> {
    let lines = lines(page, is_readme).into_iter();
    lines
        .flat_map(|line| {
            let wrong = simple_commands(&line).into_iter().filter_map(|words| why_not(&words, page).err());
            wrong.map(|why| format!("{line}\n    {why}")).collect::<Vec<_>>()
        })
        .collect()
}

fn pages(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { pages(&path) } else { vec![path] }).collect()
}

#[test]
fn command_lines_of_the_book_are_understood() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut all = pages(&root.join("docs"));
    all.push(root.join("README.md"));
    let mut wrong = Vec::new();
    for path in all.iter().filter(|path| path.extension().is_some_and(|extension| extension == "md")) {
        let page = fs::read_to_string(path).unwrap();
        wrong
            .extend(found(&page, path.ends_with("README.md")).iter().map(|line| format!("{}: {line}", path.display())));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn command_line_that_is_understood_is_accepted() {
    for line in [
        "commensal",
        "commensal --version",
        "commensal run --conf keep:1,cache.malloc-*.debug:all --locks=zone -- ./server --port 1",
        "COMMENSAL_CONF=keep:1 ./server --gone & commensal top $! -d 2 # --gone",
        "cargo run --release -- compare --arm 'lean=keep:1' --arm own= -- commensal lab hackbench -pipe 20 process 40",
        "./target/release/commensal lab kicks --quick > gone.txt 2>&1 | grep --gone x",
        "commensal lab EXPERIMENT --quick && commensal workload larson 5",
        "commensal top PID --delay=2; gone commensal --gone",
    ] {
        assert_eq!(found(&format!("```console\n$ {line}\ncommensal gone\n```\n"), false), [""; 0], "{line}");
    }
}

#[test]
fn command_line_that_is_not_understood_is_found() {
    for line in [
        "commensal gone",
        "commensal --gone",
        "sudo commensal top --gone",
        "A=b commensal run -- commensal top --gone 1",
        "commensal run commensal lab gone",
        "commensal lab hackbench --gone",
        "true && commensal lab kicks --gone",
        "cargo run --release -- gone",
        "COMMENSAL_CONF=gone:1 ./server",
        "COMMENSAL_CONF=lazy:of ./server",
        "commensal run --conf cache.x.gone:1 -- ./server",
        "commensal compare --arm a=gone:1",
        "commensal top \\\n  --gone",
    ] {
        assert_eq!(found(&format!("```sh\n{line}\n```\n"), false).len(), 1, "{line}");
        assert_eq!(found(&format!("```\n{line}\n```\n"), true).len(), 1, "{line}");
        assert_eq!(found(&format!("```text\n{line}\n```\n"), true), [""; 0], "{line}");
    }
    let refused = "```text\ncommensal: COMMENSAL_CONF: unknown key 'gone' (did you mean 'keep'?); ignored\n```\n";
    assert_eq!(found(&format!("```sh\ncommensal run --conf gone:1 -- true\n```\n{refused}"), false), [""; 0]);
}
