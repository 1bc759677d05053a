//! Usage errors as one line each: what was found, what was expected, and what to write instead.

use std::error::Error as _;

use clap::error::{ContextKind, ErrorKind};
use clap::{CommandFactory, Error};

use crate::Cli;

/// The line for an error of the parser.
pub fn line(error: &Error) -> String {
    let of = |kind| error.get(kind).map(ToString::to_string).filter(|text| !text.is_empty());
    let arg = of(ContextKind::InvalidArg).unwrap_or_default();
    let option = arg.split(['[', ' ', '=']).next().filter(|name| name.starts_with('-')).unwrap_or(&arg);
    let usage = of(ContextKind::Usage).unwrap_or_default();
    let usage = usage.trim_start_matches("Usage: ").lines().next().unwrap_or_default();
    let command: Vec<&str> = usage.split(' ').take_while(|word| word.starts_with(char::is_lowercase)).collect();
    let command = if command.is_empty() { "commensal".to_owned() } else { command.join(" ") };
    let help = format!("see {command} --help");
    let or_near = |near: Option<String>| near.map_or_else(|| help.clone(), |near| format!("did you mean '{near}'?"));
    match (error.kind(), of(ContextKind::InvalidValue)) {
        (ErrorKind::InvalidSubcommand, _) => {
            let name = of(ContextKind::InvalidSubcommand).unwrap_or_default();
            let near = of(ContextKind::SuggestedSubcommand).or_else(|| with_the_letters(&name));
            format!("unknown command '{name}'; {}", or_near(near))
        }
        (ErrorKind::UnknownArgument, _) if arg.starts_with('-') => {
            format!("unknown option '{arg}'; {}", or_near(of(ContextKind::SuggestedArg)))
        }
        (ErrorKind::MissingRequiredArgument, _) if arg.starts_with("<CMD>") => match command.as_str() {
            "commensal compare" => {
                "compare: no command given; write commensal compare -- CMD ARGS… to compare a program \
                                    of yours, or commensal compare --suite, or name two commands by --command"
                    .to_owned()
            }
            _ => "run: no command given; write commensal run -- CMD ARGS…".to_owned(),
        },
        (ErrorKind::MissingRequiredArgument, _) => format!("missing {arg}; usage: {usage}"),
        (ErrorKind::InvalidValue, Some(value)) => {
            let near = of(ContextKind::SuggestedValue).map(|near| format!("did you mean '{near}'?"));
            let valid = || format!("expected one of {}", of(ContextKind::ValidValue).unwrap_or_default());
            format!("invalid {option} '{value}'; {}", near.unwrap_or_else(valid))
        }
        (ErrorKind::InvalidValue, None) => format!("{option} needs a value; {help}"),
        (ErrorKind::ValueValidation, Some(value)) => {
            let why = error.source().map(ToString::to_string).unwrap_or_default();
            format!("{option} {value}: {}", of_number(&why).unwrap_or(why))
        }
        _ => {
            let message = error.to_string();
            let end = message.find("Usage:").or(message.find("For more information")).unwrap_or(message.len());
            let words: Vec<&str> = message[..end].split_whitespace().collect();
            format!("{}; {help}", words.join(" ").trim_start_matches("error: "))
        }
    }
}

/// The command with the letters of a misspelt one: "rnu" is too short for the parser to suggest "run".
fn with_the_letters(name: &str) -> Option<String> {
    let sorted = |name: &str| {
        let mut letters: Vec<char> = name.chars().collect();
        letters.sort_unstable();
        letters
    };
    let known = Cli::command();
    known.get_subcommands().map(clap::Command::get_name).find(|known| sorted(known) == sorted(name)).map(str::to_owned)
}

/// What a number should have been, from the words of Rust and of clap.
fn of_number(why: &str) -> Option<String> {
    if why.starts_with("invalid digit") {
        return Some("expected a whole number".to_owned());
    }
    let (least, most) = why.split_once(" is not in ")?.1.split_once("..=")?;
    Some(format!("expected {least} to {most}"))
}
