//! A small optimizing compiler, whose objects have the many sizes and lifetimes of a real one's: text and tokens die
//! early, trees and tables later, the graph of blocks is rewritten again and again, and the assembly stays.
//!
//! ```text
//!   generate ─▶ token ─▶ parse ─▶ tree ─▶ lower, scope ─▶ ir ─▶ constants, reuse, graph, dead ─▶ allocate ─▶ emit
//!                                                              └───── until nothing changes ────┘
//! ```
//!
//! A unit is compiled as a whole: each stage has all of its functions in memory. The language has 64-bit integers,
//! functions, `let`, `if`, `while` and constants; `interpret` says what a program means, and the tests hold each pass
//! to it. It stands for gcc. glibc's malloc and free take a fifth of its time. The scale is that of the units: at a
//! tenth, each has a tenth of its functions.

mod allocate;
mod constants;
mod dead;
mod emit;
mod generate;
mod graph;
#[cfg(test)]
mod interpret;
mod ir;
mod liveness;
mod lower;
mod operator;
mod parse;
mod reuse;
mod scope;
mod token;
mod tree;

use crate::checksum::mix_bytes;
use crate::scale::Scale;

const UNITS: u64 = 2;
const FUNCTIONS: u64 = 600;
/// A function that still changes after so many rounds of all passes is left as it is.
const MAX_ROUNDS: u32 = 5;

/// Rewrites a function and tells whether that changed anything.
type Pass = fn(&mut ir::Function) -> bool;

/// The passes in the order of a round.
const PASSES: [(&str, Pass); 4] =
    [("constants", constants::propagate), ("reuse", reuse::reuse), ("graph", graph::tidy), ("dead", dead::eliminate)];

/// Runs it: the assembly of all units.
pub fn run(scale: Scale) -> u64 {
    // Kept to the end, as for a linker.
    let assembly: Vec<String> = (0..UNITS)
        .map(|seed| compile(&generate::unit(seed, scale.of(FUNCTIONS))))
        .collect::<Result<_, _>>()
        .unwrap_or_else(|Error { line, what }| panic!("line {line} of what was generated: {what}"));
    assembly.iter().fold(0, |sum, text| mix_bytes(sum, text.as_bytes()))
}

/// What is wrong with a source text, and where.
#[derive(Debug)]
struct Error {
    line: u32,
    what: String,
}

impl Error {
    fn new(line: u32, what: String) -> Error {
        Error { line, what }
    }
}

/// From a source text to assembly.
fn compile(text: &str) -> Result<String, Error> {
    let mut functions = front_end(text)?;
    functions.iter_mut().for_each(optimize);
    let mut assembly = String::new();
    for function in &functions {
        emit::function(function, &allocate::allocate(function), &mut assembly);
    }
    Ok(assembly)
}

/// From a source text to its functions, unoptimized.
fn front_end(text: &str) -> Result<Vec<ir::Function>, Error> {
    let tree = parse::unit(token::tokens(text)?)?;
    lower::unit(&tree)
}

fn optimize(function: &mut ir::Function) {
    for _ in 0..MAX_ROUNDS {
        // Each pass runs, whether or not one before it changed anything.
        if !PASSES.iter().fold(false, |changed, (_, pass)| pass(function) | changed) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::interpret::Program;
    use super::ir::Function;
    use super::*;

    const MAX_STEPS: u64 = 20_000;

    fn instructions(functions: &[Function]) -> usize {
        functions.iter().flat_map(|function| &function.blocks).map(|block| block.instructions.len()).sum()
    }

    /// Compares what two programs compute, for all functions and some arguments. How many calls ended.
    fn compare(plain: &Program<'_>, changed: &Program<'_>, functions: &[Function], what: &str) -> usize {
        let mut ended = 0;
        for function in functions {
            for arguments in [[0, 0, 0, 0], [1, 2, 3, 4], [-5, 1000, 7, -1]] {
                // What takes too long says nothing; optimized, it might be faster.
                if let Some(expected) = plain.call(&function.name, &arguments, MAX_STEPS) {
                    let found = changed.call(&function.name, &arguments, MAX_STEPS);
                    assert_eq!(found, Some(expected), "{what}: {}{arguments:?}", function.name);
                    ended += 1;
                }
            }
        }
        ended
    }

    #[test]
    fn every_pass_keeps_the_meaning() {
        for seed in 0..4 {
            let plain = front_end(&generate::unit(seed, 12)).expect("it is well-formed");
            for (name, pass) in PASSES {
                let mut changed = plain.clone();
                let changes = changed.iter_mut().filter_map(|function| pass(function).then_some(())).count();
                assert_ne!(changes, 0, "{name} finds something to do");
                let ended = compare(&Program::new(&plain), &Program::new(&changed), &plain, name);
                assert!(ended > plain.len(), "only {ended} calls ended");
            }
        }
    }

    #[test]
    fn all_passes_together_keep_the_meaning_and_shrink_the_code() {
        for seed in 0..4 {
            let plain = front_end(&generate::unit(seed, 12)).expect("it is well-formed");
            let mut optimized = plain.clone();
            optimized.iter_mut().for_each(optimize);
            compare(&Program::new(&plain), &Program::new(&optimized), &plain, "optimized");
            let (before, after) = (instructions(&plain), instructions(&optimized));
            assert!(after * 10 < before * 9, "{before} instructions became {after}");
        }
    }

    #[test]
    fn allocated_registers_do_not_clobber_each_other() {
        for seed in 0..4 {
            let plain = front_end(&generate::unit(seed, 12)).expect("it is well-formed");
            let mut optimized = plain.clone();
            optimized.iter_mut().for_each(optimize);
            for functions in [&plain, &optimized] {
                let allocations: Vec<_> = functions.iter().map(allocate::allocate).collect();
                assert!(allocations.iter().any(|allocation| allocation.slots > 0), "something is spilled");
                let ended =
                    compare(&Program::new(&plain), &Program::allocated(functions, &allocations), &plain, "allocated");
                assert!(ended > plain.len(), "only {ended} calls ended");
            }
        }
    }

    #[test]
    fn the_same_text_gives_the_same_assembly() {
        let text = generate::unit(1, 10);
        assert_eq!(compile(&text).expect("it is well-formed"), compile(&text).expect("it is well-formed"));
        assert_ne!(text, generate::unit(2, 10));
    }
}
