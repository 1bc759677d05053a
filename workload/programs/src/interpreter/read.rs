//! From text to a tree of boxed expressions. Names become numbers on the way.

use std::collections::HashMap;

/// A name, as its place in [`Symbols`].
pub type Symbol = usize;

/// A node of the program.
pub enum Expr {
    Number(i64),
    Name(Symbol),
    If(Box<[Expr; 3]>),
    Lambda { parameters: Vec<Symbol>, body: Box<Expr> },
    Define { name: Symbol, value: Box<Expr> },
    Call { function: Box<Expr>, arguments: Vec<Expr> },
}

/// The names met so far.
#[derive(Default)]
pub struct Symbols {
    numbers: HashMap<String, Symbol>,
}

impl Symbols {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.numbers.len()
    }

    /// The symbol of a name that was met.
    pub fn get(&self, name: &str) -> Option<Symbol> {
        self.numbers.get(name).copied()
    }

    fn intern(&mut self, name: &str) -> Symbol {
        let next = self.numbers.len();
        *self.numbers.entry(name.to_owned()).or_insert(next)
    }
}

/// Reads a whole program, which we wrote: a mistake in it panics.
pub fn program(text: &str) -> (Vec<Expr>, Symbols) {
    let spaced = text.replace('(', " ( ").replace(')', " ) ");
    let mut tokens = spaced.split_whitespace().peekable();
    let mut symbols = Symbols::default();
    let mut expressions = Vec::new();
    while tokens.peek().is_some() {
        expressions.push(expression(datum(&mut tokens), &mut symbols));
    }
    (expressions, symbols)
}

/// Nested lists of words.
enum Datum {
    Word(String),
    List(Vec<Datum>),
}

fn datum<'a>(tokens: &mut std::iter::Peekable<impl Iterator<Item = &'a str>>) -> Datum {
    match tokens.next().expect("no list is left open") {
        "(" => {
            let mut items = Vec::new();
            while *tokens.peek().expect("every list is closed") != ")" {
                items.push(datum(tokens));
            }
            tokens.next();
            Datum::List(items)
        }
        word => Datum::Word(word.to_owned()),
    }
}

fn expression(datum: Datum, symbols: &mut Symbols) -> Expr {
    match datum {
        Datum::Word(word) => match word.parse() {
            Ok(number) => Expr::Number(number),
            Err(_) => Expr::Name(symbols.intern(&word)),
        },
        Datum::List(items) => list(items, symbols),
    }
}

fn list(items: Vec<Datum>, symbols: &mut Symbols) -> Expr {
    let mut items = items.into_iter();
    let head = items.next().expect("the program has no empty list");
    let Datum::Word(word) = &head else {
        return call(head, items, symbols);
    };
    match word.as_str() {
        "if" => {
            let mut part = || expression(items.next().expect("if has three parts"), symbols);
            Expr::If(Box::new([part(), part(), part()]))
        }
        "lambda" => {
            let parameters = names(items.next(), symbols);
            lambda(parameters, items.next(), symbols)
        }
        "define" => {
            let mut heading = names(items.next(), symbols).into_iter();
            let name = heading.next().expect("a definition has a name");
            let value = Box::new(lambda(heading.collect(), items.next(), symbols));
            Expr::Define { name, value }
        }
        _ => call(head, items, symbols),
    }
}

fn lambda(parameters: Vec<Symbol>, body: Option<Datum>, symbols: &mut Symbols) -> Expr {
    let body = Box::new(expression(body.expect("a function has a body"), symbols));
    Expr::Lambda { parameters, body }
}

fn names(list: Option<Datum>, symbols: &mut Symbols) -> Vec<Symbol> {
    let Some(Datum::List(words)) = list else { panic!("a list of names was expected") };
    words
        .into_iter()
        .map(|word| match word {
            Datum::Word(word) => symbols.intern(&word),
            Datum::List(_) => panic!("a name was expected"),
        })
        .collect()
}

fn call(function: Datum, arguments: impl Iterator<Item = Datum>, symbols: &mut Symbols) -> Expr {
    let function = Box::new(expression(function, symbols));
    Expr::Call { function, arguments: arguments.map(|argument| expression(argument, symbols)).collect() }
}
