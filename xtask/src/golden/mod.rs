//! How many instructions malloc and free take when all goes well, held against reviewed counts.
//!
//! Counted from the disassembly of the release library, since no simulator of instructions knows restartable sequences.
//! `xtask/golden/fast_path.txt` has a line for each function: name, count, limit. A count that differs from the file is a
//! change to be reviewed and blessed; a count above the limit is never accepted.

mod disassembly;

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use disassembly::{Disassembly, Symbol};

const FILE: &str = "xtask/golden/fast_path.txt";
const HEADER: &str = "\
# Instructions on the straight-line fast path, from the first to the return, counted by `cargo xtask golden`.
# name count limit
";

/// A line of the golden file.
#[derive(Debug, PartialEq)]
struct Golden {
    name: String,
    count: usize,
    limit: usize,
}

/// Builds the library, counts, and compares or accepts.
pub fn run(root: &Path, bless: bool) -> Result<(), String> {
    let library = build_library(root)?;
    let symbols = disassembly::symbols(&tool("nm", &["-D", "-S", "--defined-only"], &library)?);
    let code = Disassembly::parse(&tool("objdump", &["-d", "--no-show-raw-insn"], &library)?);
    let file = root.join(FILE);
    let text = fs::read_to_string(&file).map_err(|error| format!("{FILE} cannot be read: {error}"))?;
    let golden = parse(&text)?;
    let counted = golden.iter().map(|line| count(line, &symbols, &code)).collect::<Result<Vec<_>, _>>()?;
    if bless {
        fs::write(&file, render(&counted)).map_err(|error| format!("{FILE} cannot be written: {error}"))?;
    } else {
        compare(&golden, &counted, &symbols, &code)?;
    }
    for line in counted {
        println!("golden: {} takes {} instructions, at most {} are allowed", line.name, line.count, line.limit);
    }
    Ok(())
}

/// The same line with the present count; an error if the path cannot be followed or is too long.
fn count(line: &Golden, symbols: &[Symbol], code: &Disassembly) -> Result<Golden, String> {
    let path = follow(line, symbols, code)?;
    if path.len() > line.limit {
        let (name, count, limit) = (&line.name, path.len(), line.limit);
        return Err(format!(
            "the fast path of {name} has {count} instructions and at most {limit} are allowed:\n{}",
            path.join("\n")
        ));
    }
    Ok(Golden { name: line.name.clone(), count: path.len(), limit: line.limit })
}

fn follow(line: &Golden, symbols: &[Symbol], code: &Disassembly) -> Result<Vec<String>, String> {
    let symbol = symbols.iter().find(|symbol| symbol.name == line.name);
    let symbol = symbol.ok_or_else(|| format!("the library exports no {}", line.name))?;
    code.fast_path(symbol)
}

fn compare(golden: &[Golden], counted: &[Golden], symbols: &[Symbol], code: &Disassembly) -> Result<(), String> {
    let mut report = String::new();
    for (expected, present) in golden.iter().zip(counted).filter(|(expected, present)| expected != present) {
        let path = follow(present, symbols, code)?.join("\n");
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
    let parse_line = |line: &str| {
        let mut words = line.split_whitespace();
        let name = words.next()?.to_owned();
        let count = words.next()?.parse().ok()?;
        let limit = words.next()?.parse().ok()?;
        words.next().is_none().then_some(Golden { name, count, limit })
    };
    lines.map(|line| parse_line(line).ok_or_else(|| format!("{FILE}: {line:?} is not: name count limit"))).collect()
}

fn render(lines: &[Golden]) -> String {
    lines.iter().fold(HEADER.to_owned(), |mut text, line| {
        let _ = writeln!(text, "{} {} {}", line.name, line.count, line.limit);
        text
    })
}

/// Builds the release library in the target directory that this program lies in.
fn build_library(root: &Path) -> Result<PathBuf, String> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let target = own.ancestors().nth(2).ok_or("xtask does not lie in a target directory")?;
    let status = Command::new(env!("CARGO"))
        .args(["build", "--release", "--package", "commensal-malloc", "--target-dir"])
        .arg(target)
        .current_dir(root)
        .status()
        .map_err(|error| format!("cargo cannot be started: {error}"))?;
    let library = target.join("release/libcommensal.so");
    if status.success() { Ok(library) } else { Err(format!("cargo build ended with {status}")) }
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
        \x20   1003:\tret\n";

    fn library() -> (Vec<Symbol>, Disassembly) {
        (disassembly::symbols("0000000000001000 0000000000000004 T malloc\n"), Disassembly::parse(CODE))
    }

    fn golden(count: usize, limit: usize) -> Golden {
        Golden { name: "malloc".to_owned(), count, limit }
    }

    #[test]
    fn a_changed_count_is_found_with_its_path() {
        let (symbols, code) = library();
        let present = [count(&golden(3, 22), &symbols, &code).unwrap()];
        assert_eq!(present, [golden(2, 22)]);
        assert!(compare(&present, &present, &symbols, &code).is_ok());
        let said = compare(&[golden(3, 22)], &present, &symbols, &code).unwrap_err();
        assert!(said.contains("took 3 instructions and now takes 2"), "{said}");
        assert!(said.contains("mov    (%rdi),%rax") && said.contains("--bless"), "{said}");
    }

    #[test]
    fn a_count_above_the_limit_is_refused_even_when_blessing() {
        let (symbols, code) = library();
        assert!(count(&golden(2, 1), &symbols, &code).unwrap_err().contains("at most 1"));
    }

    #[test]
    fn the_file_is_read_as_it_is_written() {
        let lines = [golden(20, 22)];
        assert_eq!(parse(&render(&lines)).unwrap(), lines);
        assert!(parse("malloc 22").unwrap_err().contains("is not: name count limit"));
    }
}
