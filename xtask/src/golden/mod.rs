//! How many instructions the fast paths of exported functions take, held against reviewed counts.
//!
//! Counted from the disassembly of the release library and of a Rust program's boxes, since no simulator of instructions knows restartable sequences.
//! `xtask/golden/fast_path.txt` has a line for each path: name, count, limit. A count that differs from the file is a change to be
//! reviewed and blessed; a count above the limit is never accepted. A function whose work depends on a state has a path for each: the line
//! then says which conditional jump leads off the straight one, and has a name of its own behind the function's.

mod disassembly;

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::library;
use disassembly::{Disassembly, Symbol};

const FILE: &str = "xtask/golden/fast_path.txt";
const HEADER: &str = "\
# Instructions on fast paths, from the first to the return, counted by `cargo xtask golden`.
# name count limit
# Straight on past all conditional jumps; or a path with a name: name/path count limit taking N…, where those with these numbers are
# taken, counted from 1 along the path.
";

const TAKING: &str = " taking ";

#[derive(Clone, Debug, PartialEq)]
struct Golden {
    /// The function's, and behind a slash that of the path, if it is not the straight one.
    name: String,
    count: usize,
    limit: usize,
    /// The conditional jumps that are taken.
    taken: Vec<usize>,
}

/// The functions that a library exports, and its code.
struct Exports {
    symbols: Vec<Symbol>,
    code: Disassembly,
}

impl Exports {
    fn of(library: &Path) -> Result<Self, String> {
        Ok(Exports {
            symbols: disassembly::symbols(&tool("nm", &["-D", "-S", "--defined-only"], library)?),
            code: Disassembly::parse(&tool("objdump", &["-d", "--no-show-raw-insn"], library)?),
        })
    }

    fn symbol(&self, name: &str) -> Option<&Symbol> {
        self.symbols.iter().find(|symbol| symbol.name == name)
    }
}

pub fn run(root: &Path, bless: bool) -> Result<(), String> {
    let libraries = [Exports::of(&library::build(root)?.shared)?, Exports::of(&library::boxes(root)?)?];
    let file = root.join(FILE);
    let text = fs::read_to_string(&file).map_err(|error| format!("{FILE} cannot be read: {error}"))?;
    let golden = parse(&text)?;
    let counted = golden.iter().map(|line| count(line, &libraries)).collect::<Result<Vec<_>, _>>()?;
    if bless {
        fs::write(&file, render(&counted)).map_err(|error| format!("{FILE} cannot be written: {error}"))?;
    } else {
        compare(&golden, &counted, &libraries)?;
    }
    for line in counted {
        println!("golden: {} takes {} instructions, at most {} are allowed", line.name, line.count, line.limit);
    }
    Ok(())
}

/// The same line with the present count; an error if the path cannot be followed or is too long.
fn count(line: &Golden, libraries: &[Exports]) -> Result<Golden, String> {
    let path = follow(line, libraries)?;
    if path.len() > line.limit {
        let (name, count, limit) = (&line.name, path.len(), line.limit);
        return Err(format!(
            "the fast path of {name} has {count} instructions and at most {limit} are allowed:\n{}",
            path.join("\n")
        ));
    }
    Ok(Golden { count: path.len(), ..line.clone() })
}

fn follow(line: &Golden, libraries: &[Exports]) -> Result<Vec<String>, String> {
    let function = line.name.split('/').next().unwrap_or_default();
    let found = libraries.iter().find_map(|library| Some((library, library.symbol(function)?)));
    let (library, symbol) = found.ok_or_else(|| format!("no library exports {function}"))?;
    library.code.fast_path(symbol, &line.taken)
}

fn compare(golden: &[Golden], counted: &[Golden], libraries: &[Exports]) -> Result<(), String> {
    let mut report = String::new();
    for (expected, present) in golden.iter().zip(counted).filter(|(expected, present)| expected != present) {
        let path = follow(present, libraries)?.join("\n");
        let (name, was, is) = (&present.name, expected.count, present.count);
        let _ = write!(report, "{name} took {was} instructions and now takes {is}:\n{path}\n");
    }
    if report.is_empty() {
        return Ok(());
    }
    Err(format!("{report}If that is meant to be so: cargo xtask golden --bless, and say why in the commit"))
}

fn parse(text: &str) -> Result<Vec<Golden>, String> {
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let expected = "name count limit, or name/path count limit taking N…";
    lines.map(|line| parse_line(line).ok_or_else(|| format!("{FILE}: {line:?} is not: {expected}"))).collect()
}

/// A path has a name of its own just if it takes jumps.
fn parse_line(line: &str) -> Option<Golden> {
    let (counts, taken) = line.split_once(TAKING).unwrap_or((line, ""));
    let number = |word: &str| word.parse().ok().filter(|number| *number > 0);
    let taken = taken.split_whitespace().map(number).collect::<Option<Vec<usize>>>()?;
    let mut words = counts.split_whitespace();
    let name = words.next()?.to_owned();
    let count = words.next()?.parse().ok()?;
    let limit = words.next()?.parse().ok()?;
    let is_sound = words.next().is_none() && name.contains('/') != taken.is_empty();
    is_sound.then_some(Golden { name, count, limit, taken })
}

fn render(lines: &[Golden]) -> String {
    lines.iter().fold(HEADER.to_owned(), |mut text, line| {
        let numbers: Vec<String> = line.taken.iter().map(usize::to_string).collect();
        let taking = if numbers.is_empty() { String::new() } else { format!("{TAKING}{}", numbers.join(" ")) };
        let _ = writeln!(text, "{} {} {}{taking}", line.name, line.count, line.limit);
        text
    })
}

/// What one of the binutils prints about the library.
fn tool(name: &str, options: &[&str], library: &Path) -> Result<String, String> {
    let output = Command::new(name).args(options).arg(library).output();
    let output = output.map_err(|error| format!("{name} cannot be started ({error}); install binutils"))?;
    if !output.status.success() {
        return Err(format!("{name} ended with {}: {}", output.status, String::from_utf8_lossy(&output.stderr)));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODE: &str = "\n\
        0000000000001000 <malloc>:\n\
        \x20   1000:\tmov    (%rdi),%rax\n\
        \x20   1003:\tret\n\
        0000000000002000 <add>:\n\
        \x20   2000:\tjne    2003 <add+0x3>\n\
        \x20   2002:\tret\n\
        \x20   2003:\tadd    %rsi,(%rdi)\n\
        \x20   2006:\tret\n";

    /// One exports malloc, and another one add.
    fn libraries() -> [Exports; 2] {
        ["0000000000001000 0000000000000004 T malloc\n", "0000000000002000 0000000000000007 T add\n"]
            .map(|symbols| Exports { symbols: disassembly::symbols(symbols), code: Disassembly::parse(CODE) })
    }

    fn golden(count: usize, limit: usize) -> Golden {
        Golden { name: "malloc".to_owned(), count, limit, taken: Vec::new() }
    }

    fn other_path(count: usize) -> Golden {
        Golden { name: "add/shared".to_owned(), count, limit: 9, taken: vec![1] }
    }

    #[test]
    fn named_path_is_followed_over_its_jumps() {
        let libraries = libraries();
        assert_eq!(count(&other_path(8), &libraries).unwrap(), other_path(3));
        let straight = Golden { name: "add".to_owned(), taken: Vec::new(), ..other_path(8) };
        assert_eq!(count(&straight, &libraries).unwrap().count, 2);
    }

    #[test]
    fn changed_count_is_found_with_its_path() {
        let libraries = libraries();
        let present = [count(&golden(3, 22), &libraries).unwrap()];
        assert_eq!(present, [golden(2, 22)]);
        assert!(compare(&present, &present, &libraries).is_ok());
        let said = compare(&[golden(3, 22)], &present, &libraries).unwrap_err();
        assert!(said.contains("took 3 instructions and now takes 2"), "{said}");
        assert!(said.contains("mov    (%rdi),%rax") && said.contains("--bless"), "{said}");
    }

    #[test]
    fn count_above_the_limit_is_refused_even_when_blessing() {
        let libraries = libraries();
        assert!(count(&golden(2, 1), &libraries).unwrap_err().contains("at most 1"));
    }

    #[test]
    fn golden_file_is_read_as_it_is_written() {
        let both = Golden { taken: vec![1, 3], ..other_path(7) };
        let lines = [golden(20, 22), other_path(8), both];
        assert_eq!(parse(&render(&lines)).unwrap(), lines);
        for planted in
            ["malloc 22", "add/shared 8 9", "add 8 9 taking 1", "add/shared 8 9 taking 0", "add/shared 8 9 taking x"]
        {
            assert!(parse(planted).unwrap_err().contains("is not: name count limit"), "{planted}");
        }
    }
}
