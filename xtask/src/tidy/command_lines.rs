//! Command lines of `commensal` in the book and in README.md name subcommands, options and settings that there are, by the generated pages of the
//! reference, which `cargo xtask reference` holds against the command itself.
//!
//! Read are blocks of code of `console`, in which commands stand behind `$ `, and of `sh`, in which everything is one; in README.md also those without a name.

use std::collections::HashMap;

use crate::markdown::{Block, take_apart};
use crate::reference::{COMMANDS, CONF};
use crate::tree::{File, Tree, Violation};

const README: &str = "README.md";
/// The commands of which anything may follow: programs that are measured, with arguments of their own.
const ANYTHING: [&str; 1] = ["commensal workload"];

/// Finds what the command would not understand.
pub fn check(tree: &Tree) -> Vec<Violation> {
    let is_read = |file: &&File| file.path == README || (file.path.starts_with("docs/") && file.has_extension(&["md"]));
    let mut violations = Vec::new();
    for file in tree.files.iter().filter(is_read) {
        let known = Known::read(tree, &file.text);
        for block in take_apart(&file.text).0 {
            for (line, text) in commands(&block, file.path == README) {
                let wrong =
                    simple_commands(&text).iter().filter_map(|words| known.why_not(words).err()).collect::<Vec<_>>();
                violations.extend(wrong.into_iter().map(|what| file.violation(line, what)));
            }
        }
    }
    violations
}

/// The command lines of a block, with those that they go on in.
fn commands(block: &Block<'_>, is_readme: bool) -> Vec<(usize, String)> {
    let language = block.info.split([',', ' ']).next().unwrap_or("");
    let is_console = language == "console";
    let is_shell = matches!(language, "sh" | "bash") || (is_readme && language.is_empty());
    if !is_console && !is_shell {
        return Vec::new();
    }
    let mut lines: Vec<(usize, String)> = Vec::new();
    let mut goes_on = false;
    for (at, line) in block.lines.iter().enumerate() {
        let text = line.trim_end();
        let begun = if is_console { text.strip_prefix("$ ").or_else(|| text.strip_prefix("# ")) } else { Some(text) };
        let part = if goes_on { Some(text.strip_prefix("> ").unwrap_or(text)) } else { begun };
        let Some(part) = part else { continue };
        let (part, more) = part.strip_suffix('\\').map_or((part, false), |part| (part, true));
        match lines.last_mut() {
            Some((_, last)) if goes_on => *last += part,
            _ => lines.push((block.line + 1 + at, part.to_owned())),
        }
        goes_on = more;
    }
    lines
}

/// The words of each command of a line: what `;`, `&`, `|` and their like join is taken apart, and comments and what is redirected are left out.
fn simple_commands(line: &str) -> Vec<Vec<String>> {
    let mut commands = vec![Vec::new()];
    let mut word: Option<String> = None;
    let mut quote = None;
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
                commands.last_mut().expect("there is one").extend(word.take());
                // `2>&1` joins nothing.
                if !(letter == '&' && letters.peek().is_some_and(char::is_ascii_digit)) {
                    commands.push(Vec::new());
                }
            }
            (None, _) if letter.is_whitespace() => commands.last_mut().expect("there is one").extend(word.take()),
            (None, _) => word.get_or_insert_default().push(letter),
        }
    }
    commands.last_mut().expect("there is one").extend(word);
    for words in &mut commands {
        if let Some(redirected) =
            words.iter().position(|word| word.trim_start_matches(|c: char| c.is_ascii_digit()).starts_with(['>', '<']))
        {
            words.truncate(redirected);
        }
    }
    commands
}

/// What the reference has.
#[derive(Default)]
struct Known {
    /// By name, with "commensal" first.
    commands: HashMap<String, Described>,
    settings: Vec<String>,
}

/// What follows a command.
#[derive(Default)]
struct Described {
    /// As `--with <NAME=LIB>`, or `-d, --delay <SECONDS>`.
    options: Vec<String>,
    /// As `[CMD] [ARGS]...`, with what is said of it.
    arguments: Vec<(String, String)>,
}

impl Known {
    /// For a page that shows how a setting is refused, that setting, too.
    fn read(tree: &Tree, page: &str) -> Self {
        let mut known = Known::default();
        let mut name = String::new();
        for line in tree.file(COMMANDS).map_or("", |file| &file.text).lines() {
            if let Some(heading) = line.strip_prefix("## ") {
                name = heading.to_owned();
                known.commands.entry(name.clone()).or_default();
            } else if let Some((cell, says)) = line.strip_prefix("| `").and_then(|rest| rest.split_once("` | ")) {
                let described = known.commands.entry(name.clone()).or_default();
                match cell.chars().next() {
                    Some('-') => described.options.push(cell.to_owned()),
                    Some('<' | '[') => described.arguments.push((cell.to_owned(), says.to_owned())),
                    _ => {}
                }
            }
        }
        let rows = tree.file(CONF).map_or("", |file| &file.text).lines();
        known.settings =
            rows.filter_map(|line| Some(line.strip_prefix("| `")?.split_once('`')?.0.to_owned())).collect();
        let refused = page.split("COMMENSAL_CONF: unknown key '").skip(1).filter_map(|rest| rest.split('\'').next());
        known.settings.extend(refused.map(str::to_owned));
        known
    }

    /// Why a command line would not be understood, if it is one of ours.
    fn why_not(&self, words: &[String]) -> Result<(), String> {
        let assigned =
            words.iter().take_while(|word| word.split_once('=').is_some_and(|(name, _)| is_name(name))).count();
        for word in &words[..assigned] {
            word.strip_prefix("COMMENSAL_CONF=").map_or(Ok(()), |conf| self.conf(conf))?;
        }
        let words = &words[assigned..];
        let by_cargo = ["cargo", "run", "--release", "--"];
        if words.iter().take(4).eq(by_cargo) {
            return self.arguments(&words[4..]);
        }
        match words.split_first() {
            Some((first, rest)) if first.rsplit('/').next() == Some("commensal") => self.arguments(rest),
            // Whoever runs what follows.
            Some((first, rest)) if ["sudo", "exec", "time", "env"].contains(&first.as_str()) => self.why_not(rest),
            _ => Ok(()),
        }
    }

    /// Whether the command understands these words.
    fn arguments(&self, words: &[String]) -> Result<(), String> {
        let mut name = "commensal".to_owned();
        let mut rest = words;
        while let Some((first, behind)) = rest.split_first() {
            let longer = format!("{name} {first}");
            if !self.commands.contains_key(&longer) {
                break;
            }
            (name, rest) = (longer, behind);
        }
        let described = self
            .commands
            .get(&name)
            .ok_or_else(|| format!("names `{name}`, and {COMMANDS} has no commands; cargo xtask reference --bless"))?;
        if ANYTHING.contains(&name.as_str()) {
            return Ok(());
        }
        if name == "commensal" && rest.first().is_some_and(|word| !word.starts_with('-')) {
            return Err(format!(
                "names `commensal {}`, which is no command; {COMMANDS} has those that there are",
                rest[0]
            ));
        }
        self.rest(&name, described, rest)
    }

    fn rest(&self, name: &str, described: &Described, words: &[String]) -> Result<(), String> {
        let takes_command = described.arguments.iter().any(|(argument, _)| argument.contains("[ARGS]..."));
        let mut words = words.iter();
        let mut is_first = true;
        while let Some(word) = words.next() {
            if word == "--" {
                return self.why_not(words.as_slice());
            }
            if !word.starts_with('-') || word == "-" {
                if takes_command {
                    return self.why_not(&[std::slice::from_ref(word), words.as_slice()].concat());
                }
                if is_first {
                    described.allows(name, word)?;
                }
                is_first = false;
                continue;
            }
            let (option, value) =
                word.split_once('=').map_or((word.as_str(), None), |(option, value)| (option, Some(value)));
            let known = described.option(option);
            let known =
                known.ok_or_else(|| format!("gives {option} to `{name}`, which has no such option; see {COMMANDS}"))?;
            let wants_value = known.contains(" <") && value.is_none();
            let value = if wants_value { words.next().map(String::as_str) } else { value };
            if let Some(value) = value.filter(|_| matches!(option, "--conf" | "--arm")) {
                self.conf(value.split_once('=').filter(|_| option == "--arm").map_or(value, |(_, conf)| conf))?;
            }
        }
        Ok(())
    }

    /// Whether there are such settings.
    fn conf(&self, text: &str) -> Result<(), String> {
        let unknown = text.split(',').filter_map(|pair| pair.split_once(':')).find(|(key, _)| !self.has_setting(key));
        unknown
            .map_or(Ok(()), |(key, _)| Err(format!("sets {key}, which is no setting; {CONF} has those that there are")))
    }

    fn has_setting(&self, key: &str) -> bool {
        let option = key.strip_prefix("cache.").and_then(|rest| rest.rsplit_once('.'));
        let generic = option.map(|(_, option)| format!("cache.NAME.{option}"));
        self.settings.iter().any(|known| known == key || Some(known) == generic.as_ref())
    }
}

impl Described {
    /// The option that a word is: in full, or one letter and what it has to say.
    fn option(&self, word: &str) -> Option<&String> {
        self.options.iter().find(|option| {
            let mut names = option.split([' ', ',', '[', '<']).filter(|name| name.starts_with('-'));
            names.any(|name| name == word || (name.len() == 2 && !word.starts_with("--") && word.starts_with(name)))
        })
    }

    /// Whether the first argument may be this word; one in capitals stands for others.
    fn allows(&self, name: &str, word: &str) -> Result<(), String> {
        let stands_for_others = word.chars().all(|c| !c.is_lowercase());
        let possible = self.arguments.first().and_then(|(_, says)| says.split_once("[possible values: "));
        let possible = possible.and_then(|(_, rest)| rest.split_once(']')).map(|(values, _)| values);
        match possible {
            Some(values) if !stands_for_others && !values.split(", ").any(|value| value == word) => {
                Err(format!("gives `{word}` to `{name}`, which takes {values}"))
            }
            _ => Ok(()),
        }
    }
}

fn is_name(word: &str) -> bool {
    !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    const REFERENCE: &str = "## commensal\n| `-V, --version` | Version |\n\
        ## commensal run\n| `<CMD> [ARGS]...` | The program |\n| `--conf <KEY:VALUE,…>` | Settings |\n| `--locks[=<FILTER>]` | Locks |\n\
        ## commensal top\n| `[PID]` | The process |\n| `-d, --delay <SECONDS>` | How long |\n\
        ## commensal compare\n| `[CMD] [ARGS]...` | The program |\n| `--arm <NAME=CONF>` | One |\n\
        ## commensal lab\n| `<NAME>` | One [possible values: list, kicks] |\n| `--quick` | Soon |\n\
        ## commensal lab hackbench\n| `[GROUPS]` | Groups |\n| `-p, --pipe` | Pipes |\n\
        ## commensal workload\n";
    const SETTINGS: &str = "| `keep` | MiB | `1` | x |\n| `cache.NAME.debug` | all | `off` | x |\n";

    fn found(path: &str, text: &str) -> Vec<String> {
        let tree = Tree::of([(COMMANDS, REFERENCE), (CONF, SETTINGS), (path, text)]);
        check(&tree).into_iter().map(|violation| violation.to_string()).collect()
    }

    #[test]
    fn what_the_command_understands_is_accepted() {
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
            assert_eq!(
                found("docs/a.md", &format!("```console\n$ {line}\ncommensal gone\n```\n")),
                Vec::<String>::new(),
                "{line}"
            );
        }
    }

    #[test]
    fn what_it_does_not_is_found() {
        for (line, what) in [
            ("commensal gone", "names `commensal gone`"),
            ("commensal --gone", "gives --gone to `commensal`"),
            ("sudo commensal top --gone", "gives --gone to `commensal top`"),
            ("A=b commensal run -- commensal top --gone 1", "gives --gone to `commensal top`"),
            ("commensal run commensal lab gone", "gives `gone` to `commensal lab`"),
            ("true && commensal lab kicks --gone", "gives --gone"),
            ("cargo run --release -- gone", "names `commensal gone`"),
            ("COMMENSAL_CONF=gone:1 ./server", "sets gone"),
            ("commensal run --conf cache.x.gone:1 -- ./server", "sets cache.x.gone"),
            ("commensal compare --arm a=gone:1", "sets gone"),
        ] {
            for block in [format!("```console\n$ {line}\n```\n"), format!("```sh\n{line}\n```\n")] {
                let found = found("docs/a.md", &block);
                assert!(
                    found.len() == 1 && found[0].starts_with("docs/a.md:2: ") && found[0].contains(what),
                    "{line}: {found:?}"
                );
            }
            assert_eq!(found(README, &format!("```\n{line}\n```\n")).len(), 1, "{line}");
            assert_eq!(found("docs/a.md", &format!("```text\n{line}\n```\n")).len(), 0, "{line}");
        }
        let refused = "```text\ncommensal: COMMENSAL_CONF: unknown key 'gone': did you mean 'keep'? ignored\n```\n";
        assert_eq!(found("docs/a.md", &format!("```sh\ncommensal run --conf gone:1 -- true\n```\n{refused}")).len(), 0);
        assert!(found("docs/a.md", "```sh\ncommensal top \\\n  --gone\n```\n")[0].contains("a.md:2: gives --gone"));
    }
}
