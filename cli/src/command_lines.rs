//! Checks that the command itself understands the command lines in README.md and in the book.
//!
//! Command lines are all lines of `sh` blocks and, in README.md, of blocks without a language.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Parser;
use clap::error::ErrorKind;

use crate::{Action, Cli, hackbench};

/// The command lines of a page; continued lines are joined.
fn lines(page: &str, is_readme: bool) -> Vec<String> {
    let blocks = page.split("```").skip(1).step_by(2).filter_map(|block| block.split_once('\n'));
    let of_shell = blocks.filter(|(language, _)| *language == "sh" || is_readme && language.is_empty());
    of_shell.flat_map(|(_, lines)| lines.replace("\\\n", " ").lines().map(unquoted).collect::<Vec<_>>()).collect()
}

/// What is in quotes becomes one word.
fn unquoted(line: &str) -> String {
    let one_word = |part: &str| part.replace([' ', '#', ';', '&', '|', '(', ')', '<', '>'], "_");
    let parts = line.split(['\'', '"']).enumerate();
    parts.map(|(at, part)| if at % 2 == 0 { part.to_owned() } else { one_word(part) }).collect()
}

/// The words of each command of a line.
fn simple_commands(line: &str) -> impl Iterator<Item = Vec<&str>> {
    line.split(" #")
        .take(1)
        .flat_map(|line| line.split([';', '&', '|', '(', ')']))
        .map(|command| command.split_whitespace().take_while(|word| !word.contains(['>', '<'])).collect())
}

/// An error if the command line is one of ours and is wrong. Settings may be wrong if the page shows how they are refused.
fn why_not(words: &[&str], page: &str) -> Result<(), String> {
    match words {
        [assigned, rest @ ..] if assigned.contains('=') => {
            assigned.strip_prefix("COMMENSAL_CONF=").map_or(Ok(()), |conf| settings(conf, page))?;
            why_not(rest, page)
        }
        ["sudo" | "exec" | "time" | "env", rest @ ..] => why_not(rest, page),
        ["cargo", "run", "--release", "--", rest @ ..] => arguments(rest, page),
        [first, rest @ ..] if first.rsplit('/').next() == Some("commensal") => arguments(rest, page),
        _ => Ok(()),
    }
}

fn arguments(words: &[&str], page: &str) -> Result<(), String> {
    if words.first() == Some(&crate::WORKLOAD) || words.starts_with(&hackbench::WORDS) {
        return Ok(());
    }
    // Placeholders mostly stand for the number of a process.
    let stands_for = |word: &str| word.starts_with('$') || word.chars().all(|c| c.is_ascii_uppercase());
    let words = words.iter().map(|word| if stands_for(word) { "1" } else { word });
    let action = match Cli::try_parse_from(["commensal"].into_iter().chain(words)) {
        Ok(cli) => cli.action,
        Err(error) => {
            let line = crate::usage::line(&error);
            let is_refused = line.split('\'').nth(1).is_some_and(|key| shown(page, key));
            let is_wrong = match error.kind() {
                ErrorKind::UnknownArgument | ErrorKind::InvalidSubcommand => true,
                ErrorKind::InvalidValue => !line.contains("'1'"),
                ErrorKind::ValueValidation => !(is_refused || line.contains('…') || line.contains(" 1:")),
                _ => false,
            };
            return if is_wrong { Err(line) } else { Ok(()) };
        }
    };
    let (confs, command) = match action {
        Some(Action::Run(run)) => (run.conf, run.command),
        Some(Action::Compare(compare)) => (compare.arm.into_iter().map(|(_, conf)| conf).collect(), compare.command),
        _ => (Vec::new(), Vec::new()),
    };
    confs.iter().try_for_each(|conf| settings(conf, page))?;
    why_not(&command.iter().filter_map(|word| word.to_str()).collect::<Vec<_>>(), page)
}

fn settings(conf: &str, page: &str) -> Result<(), String> {
    conf.split(',').filter_map(|pair| pair.split_once(':')).try_for_each(|(key, value)| {
        let is_refused = shown(page, key) || format!("{key}{value}").contains('…');
        if is_refused { Ok(()) } else { commensal_runtime::settings::check(key, value).map_err(|why| why.to_string()) }
    })
}

/// Whether a page shows how a key is refused.
fn shown(page: &str, key: &str) -> bool {
    page.contains(&format!("unknown key '{key}'"))
}

/// The wrong command lines of a page, with the errors.
fn found(page: &str, is_readme: bool) -> Vec<String> {
    let mut wrong = Vec::new();
    for line in lines(page, is_readme) {
        let errors = simple_commands(&line).filter_map(|words| why_not(&words, page).err());
        wrong.extend(errors.map(|why| format!("{line}\n    {why}")));
    }
    wrong
}

fn pages(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { pages(&path) } else { vec![path] }).collect()
}

#[test]
fn command_lines_of_the_book_are_understood() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let readme = root.join("README.md");
    let mut wrong = Vec::new();
    for path in
        pages(&root.join("docs")).iter().chain([&readme]).filter(|path| path.extension().is_some_and(|it| it == "md"))
    {
        let lines = found(&fs::read_to_string(path).unwrap(), *path == readme);
        wrong.extend(lines.iter().map(|line| format!("{}: {line}", path.display())));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn command_line_is_refused_if_it_is_not_understood() {
    for (line, is_wrong) in [
        ("commensal", false),
        ("commensal run --conf keep:1,cache.malloc-*.debug:all --locks -- ./server --port 1", false),
        ("commensal compare --prepare 'rm -f x; commensal gone' -- true", false),
        ("COMMENSAL_CONF=keep:1 ./server --gone & commensal top $! -d 2 # --gone", false),
        ("cargo run --release -- compare --arm 'lean=keep:1' --arm own= -- commensal lab hackbench -pipe 20", false),
        ("./target/release/commensal lab kicks --quick > gone.txt 2>&1 | grep --gone x", false),
        ("commensal lab EXPERIMENT --quick && commensal workload larson 5", false),
        ("commensal top PID --delay=2; gone commensal --gone", false),
        ("commensal gone", true),
        ("sudo commensal top --gone", true),
        ("A=b commensal run -- commensal top --gone 1", true),
        ("true && commensal lab kicks --gone", true),
        ("cargo run --release -- gone", true),
        ("COMMENSAL_CONF=lazy:of ./server", true),
        ("commensal run --conf cache.x.gone:1 -- ./server", true),
        ("commensal compare --arm a=gone:1", true),
        ("commensal top \\\n  --gone", true),
    ] {
        assert_eq!(found(&format!("```sh\n{line}\n```\n"), false).len(), usize::from(is_wrong), "{line}");
        assert_eq!(found(&format!("```\n{line}\n```\n"), true).len(), usize::from(is_wrong), "{line}");
        assert_eq!(found(&format!("```text\n{line}\n```\n"), true), [""; 0], "{line}");
    }
    let refused = "```text\ncommensal: COMMENSAL_CONF: unknown key 'gone' (did you mean 'keep'?); ignored\n```\n";
    assert_eq!(found(&format!("```sh\ncommensal run --conf gone:1 -- true\n```\n{refused}"), false), [""; 0]);
}
