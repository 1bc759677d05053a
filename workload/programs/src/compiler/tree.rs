//! The syntax tree: what the parser makes and lowering reads. Names are text still.

use super::operator::Operator;

/// A source text as a whole.
#[derive(Debug)]
pub struct Unit {
    pub constants: Vec<(Name, Expr)>,
    pub functions: Vec<Function>,
}

/// `fn name(parameters) { body }`.
#[derive(Debug)]
pub struct Function {
    pub name: Name,
    pub parameters: Vec<Name>,
    pub body: Vec<Statement>,
}

/// A name where it stands.
#[derive(Debug)]
pub struct Name {
    pub text: String,
    pub line: u32,
}

#[derive(Debug)]
pub enum Statement {
    /// `let name = value;`
    Let { name: Name, value: Expr },
    /// `name = value;`
    Assign { name: Name, value: Expr },
    /// `if condition { yes } else { no }`
    If { condition: Expr, yes: Vec<Statement>, no: Vec<Statement> },
    /// `while condition { body }`
    While { condition: Expr, body: Vec<Statement> },
    /// `return value;`
    Return(Expr),
}

#[derive(Debug)]
pub enum Expr {
    Number(i64),
    Name(Name),
    Binary {
        operator: Operator,
        left: Box<Expr>,
        right: Box<Expr>,
    },
    /// `&&`, or `||` if `stops_at`: the right side counts unless the left one's truth is `stops_at`.
    Logical {
        stops_at: bool,
        left: Box<Expr>,
        right: Box<Expr>,
    },
    Call {
        function: Name,
        arguments: Vec<Expr>,
    },
}
