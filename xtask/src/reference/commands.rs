//! The page of the commands: the command's own help, and that of each of its subcommands.

use std::path::Path;
use std::process::Command;

use super::opening;
use crate::markdown::{plain, table};

const ABOUT: &str = "\
What `--help` says of each command.

";
/// Commands that the command line is not asked for, as nothing of it may be in their figures; they are programs that are measured.
const MEASURED: [&[&str]; 1] = [&["lab", "hackbench"]];
const WORKLOAD: &str = "\
## commensal workload

The kernels, the probes and the arms of the lab's experiments, each in a process of its own: `commensal workload NAME …`. `compare --suite` and `lab` start them; a name that \
there is not is answered with those that there are.
";

/// Makes the page by asking the release command.
pub fn page(command: &Path) -> Result<String, String> {
    let mut text = opening("Commands", "what `commensal --help` and its like say") + ABOUT;
    let measured = MEASURED.iter().rev().map(|words| words.iter().map(|word| (*word).to_owned()).collect());
    // The last is read next.
    let mut waiting: Vec<Vec<String>> = measured.chain([Vec::new()]).collect();
    while let Some(words) = waiting.pop() {
        let help = Help::read(&asked(command, &words)?)
            .map_err(|why| format!("commensal {} --help: {why}", words.join(" ")))?;
        let below = help.commands.iter().rev().filter(|(name, _)| name != "help");
        waiting.extend(below.map(|(name, _)| [words.clone(), vec![name.clone()]].concat()));
        text += &help.page(&words);
    }
    Ok(text + WORKLOAD)
}

fn asked(command: &Path, words: &[String]) -> Result<String, String> {
    let answer = Command::new(command).args(words).arg("--help").output();
    let answer = answer.map_err(|error| format!("{} cannot be started: {error}", command.display()))?;
    if !answer.status.success() {
        return Err(format!("commensal {} --help ended with {}", words.join(" "), answer.status));
    }
    String::from_utf8(answer.stdout).map_err(|error| error.to_string())
}

/// A help text, taken apart.
#[derive(Debug, Default)]
struct Help {
    about: Vec<String>,
    usage: String,
    commands: Vec<(String, String)>,
    arguments: Vec<(String, String)>,
    options: Vec<(String, String)>,
    /// What stands below all of them.
    after: Vec<String>,
}

impl Help {
    /// Reads what clap prints: sections have a head without indentation that ends with a colon; entries are indented, and what they mean stands behind two
    /// blanks or more, or below, indented by ten.
    fn read(text: &str) -> Result<Self, String> {
        let mut help = Help::default();
        let mut section = "";
        for line in text.lines() {
            let (trimmed, indentation) = (line.trim(), line.len() - line.trim_start().len());
            if indentation == 0 {
                if let Some(usage) = line.strip_prefix("Usage: ") {
                    (help.usage, section) = (usage.to_owned(), "usage");
                } else if matches!(line, "Commands:" | "Arguments:" | "Options:") {
                    section = line;
                } else if section.is_empty() {
                    help.about.push(line.to_owned());
                } else if !line.is_empty() || !help.after.is_empty() {
                    help.after.push(line.to_owned());
                }
                continue;
            }
            let entries = match section {
                "Commands:" => &mut help.commands,
                "Arguments:" => &mut help.arguments,
                "Options:" => &mut help.options,
                _ => return Err(format!("{line:?} stands where no section is")),
            };
            if indentation < 10 {
                let (name, says) = trimmed.split_once("  ").unwrap_or((trimmed, ""));
                entries.push((name.to_owned(), says.trim().to_owned()));
            } else {
                let last = entries.last_mut().ok_or_else(|| format!("{line:?} explains nothing"))?;
                last.1 = format!("{} {trimmed}", last.1).trim().to_owned();
            }
        }
        if help.usage.is_empty() {
            return Err("it has no usage".to_owned());
        }
        let all = help.commands.iter().chain(&help.arguments).chain(&help.options);
        match all.into_iter().find(|(_, says)| says.is_empty()) {
            Some((name, _)) => {
                Err(format!("`{name}` has no description; write what it does as a comment `///` above it in cli/src"))
            }
            None => Ok(help),
        }
    }

    fn page(&self, words: &[String]) -> String {
        let name = std::iter::once("commensal").chain(words.iter().map(String::as_str)).collect::<Vec<_>>().join(" ");
        let mut text =
            format!("## {name}\n\n{}\n\n```text\n{}\n```\n", plain(self.about.join("\n").trim()), self.usage);
        let described = |entries: &[(String, String)]| {
            entries.iter().map(|(name, says)| vec![format!("`{name}`"), plain(says)]).collect::<Vec<_>>()
        };
        for (head, entries) in [("command", &self.commands), ("argument", &self.arguments), ("option", &self.options)] {
            if !entries.is_empty() {
                text += "\n";
                text += &table(&[head, "what"], described(entries));
            }
        }
        if !self.after.is_empty() {
            text += &format!("\n{}\n", plain(self.after.join("\n").trim()));
        }
        text + "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: &str = "Compare allocators

Runs <it> often.

Usage: commensal compare [OPTIONS] [CMD]

Arguments:
  [CMD]
          The program

Options:
      --with <NAME=LIB>
          One more arm

      --warm-ups <N>
          Blocks that come first
          
          [default: 1]

  -h, --help
          Print help
";
    const SHORT: &str = "A malloc.\n\nUsage: commensal [COMMAND]\n\nCommands:\n  run   Run a program\n  help  Print this\n\n\
                         Options:\n  -h, --help  Print help\n\nExit status: that\nof the program.\n";

    #[test]
    fn both_shapes_of_help_are_read() {
        let help = Help::read(LONG).unwrap();
        let of = |name: &str, says: &str| (name.to_owned(), says.to_owned());
        assert_eq!(help.arguments, [of("[CMD]", "The program")]);
        let options = [
            of("--with <NAME=LIB>", "One more arm"),
            of("--warm-ups <N>", "Blocks that come first [default: 1]"),
            of("-h, --help", "Print help"),
        ];
        assert_eq!(help.options, options);
        let help = Help::read(SHORT).unwrap();
        assert_eq!(help.commands, [of("run", "Run a program"), of("help", "Print this")]);
        assert_eq!(help.after, ["Exit status: that", "of the program."]);
    }

    #[test]
    fn the_page_shows_what_is_said() {
        let page = Help::read(LONG).unwrap().page(&["compare".to_owned()]);
        assert!(page.starts_with("## commensal compare\n\nCompare allocators\n\nRuns \\<it\\> often.\n"), "{page}");
        assert!(page.contains("| `--with <NAME=LIB>` | One more arm |\n"), "{page}");
    }

    #[test]
    fn an_option_without_description_is_found() {
        let error = Help::read(&LONG.replace("          One more arm\n", "")).unwrap_err();
        assert!(error.contains("`--with <NAME=LIB>` has no description"), "{error}");
        assert!(Help::read("Nothing\n").unwrap_err().contains("no usage"));
    }
}
