//! A tree-walking interpreter of a small Lisp: every call makes an environment, every `cons` a pair, every `lambda` a
//! closure, all counted by reference and freed one by one.
//!
//! It reads program.lisp once, then evaluates it as often as the scale says, each time with new globals. It stands for
//! the interpreters of scripting languages that count references. glibc's malloc and free take two fifths of its time.

mod evaluate;
mod read;

use crate::checksum::mix;
use crate::scale::Scale;

use evaluate::Interpreter;
use read::{Expr, Symbols};

const PROGRAM: &str = include_str!("program.lisp");
const TIMES: u64 = 35;

/// Runs it: the numbers that the program's outermost expressions have.
pub fn run(scale: Scale) -> u64 {
    let (expressions, symbols) = read::program(PROGRAM);
    (0..scale.of(TIMES))
        .fold(0, |sum, _| numbers(&expressions, &symbols).fold(sum, |sum, number| mix(sum, number as u64)))
}

/// Evaluates a program from its beginning.
fn numbers<'p>(expressions: &'p [Expr], symbols: &Symbols) -> impl Iterator<Item = i64> + use<'p> {
    let mut interpreter = Interpreter::new(symbols);
    expressions.iter().filter_map(move |expression| interpreter.run(expression))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evaluated(text: &str) -> Vec<i64> {
        let (expressions, symbols) = read::program(text);
        numbers(&expressions, &symbols).collect()
    }

    #[test]
    fn primitives_and_branches() {
        assert_eq!(evaluated("(+ 2 (* 3 4)) (mod (- 3 10) 5) (if (< 1 2) 10 20) (if (= 1 2) 10 20)"), [14, 3, 10, 20]);
        assert_eq!(evaluated("(car (cdr (cons 1 (cons 2 (cons 3 4)))))"), [2]);
    }

    #[test]
    fn functions_recurse_and_closures_remember() {
        assert_eq!(evaluated("(define (f n) (if (< n 2) 1 (* n (f (- n 1))))) (f 10)"), [3_628_800]);
        assert_eq!(evaluated("(define (adder n) (lambda (x) (+ x n))) ((adder 5) 37)"), [42]);
    }

    #[test]
    fn inner_names_hide_outer_ones() {
        assert_eq!(evaluated("(define (f x) ((lambda (x) (* x 2)) (+ x 1))) (f 3)"), [8]);
    }

    /// The answers that can be known without the interpreter.
    #[test]
    fn the_program_is_right() {
        let numbers = evaluated(PROGRAM);
        assert_eq!(numbers[0], 6765, "the 20th Fibonacci number");
        assert_eq!(*numbers.last().expect("there are answers"), 4, "the solutions of six queens");
    }
}
