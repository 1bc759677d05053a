//! A tree-walking interpreter of a small Lisp: every call makes an environment, every `cons` a
//! pair, every `lambda` a closure, all counted by reference and freed one by one.
//!
//! It reads program.lisp, evaluates each of its expressions and mixes the results into the answer.

mod eval;
mod read;

use programs::{answer, mix};

fn main() {
    let (expressions, symbols) = read::program(include_str!("program.lisp"));
    let mut interpreter = eval::Interpreter::new(&symbols);
    let mut sum = 0;
    for expression in &expressions {
        if let Some(number) = interpreter.run(expression) {
            sum = mix(sum, number as u64);
        }
    }
    answer(sum);
}
