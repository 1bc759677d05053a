//! The parser: from tokens to a tree, by recursive descent; operators by how tightly they bind.

use super::Error;
use super::operator::Operator;
use super::token::{Kind, Token};
use super::tree::{Expr, Function, Name, Statement, Unit};

/// Operators that bind more loosely than those of [`Operator`].
const LOGICAL: [(&str, u8, bool); 2] = [("&&", 1, false), ("||", 0, true)];

/// Parses a whole unit.
pub fn unit(tokens: Vec<Token>) -> Result<Unit, Error> {
    let mut parser = Parser { tokens, at: 0 };
    let mut unit = Unit { constants: Vec::new(), functions: Vec::new() };
    while *parser.peek() != Kind::End {
        if parser.takes_word("const") {
            let name = parser.name()?;
            unit.constants.push((name, parser.assigned()?));
        } else if parser.takes_word("fn") {
            unit.functions.push(parser.function()?);
        } else {
            return Err(parser.unexpected("const or fn"));
        }
    }
    Ok(unit)
}

/// The tokens, the last of which is the end, and the place of the next.
struct Parser {
    tokens: Vec<Token>,
    at: usize,
}

impl Parser {
    fn function(&mut self) -> Result<Function, Error> {
        let name = self.name()?;
        self.expect("(")?;
        let mut parameters = Vec::new();
        while !self.takes(")") {
            parameters.push(self.name()?);
            self.separator()?;
        }
        Ok(Function { name, parameters, body: self.block()? })
    }

    fn block(&mut self) -> Result<Vec<Statement>, Error> {
        self.expect("{")?;
        let mut statements = Vec::new();
        while !self.takes("}") {
            statements.push(self.statement()?);
        }
        Ok(statements)
    }

    fn statement(&mut self) -> Result<Statement, Error> {
        if self.takes_word("let") {
            let name = self.name()?;
            return Ok(Statement::Let { name, value: self.assigned()? });
        }
        if self.takes_word("if") {
            let condition = self.expression(0)?;
            let yes = self.block()?;
            let no = if self.takes_word("else") { self.block()? } else { Vec::new() };
            return Ok(Statement::If { condition, yes, no });
        }
        if self.takes_word("while") {
            let condition = self.expression(0)?;
            return Ok(Statement::While { condition, body: self.block()? });
        }
        if self.takes_word("return") {
            let value = self.expression(0)?;
            self.expect(";")?;
            return Ok(Statement::Return(value));
        }
        let name = self.name()?;
        Ok(Statement::Assign { name, value: self.assigned()? })
    }

    /// `= value;`
    fn assigned(&mut self) -> Result<Expr, Error> {
        self.expect("=")?;
        let value = self.expression(0)?;
        self.expect(";")?;
        Ok(value)
    }

    /// An expression of operators that bind at least as tightly as `min`.
    fn expression(&mut self, min: u8) -> Result<Expr, Error> {
        let mut left = self.primary()?;
        loop {
            let Kind::Symbol(symbol) = *self.peek() else { return Ok(left) };
            if let Some((operator, binding)) = Operator::from_symbol(symbol).filter(|(_, binding)| *binding >= min) {
                self.at += 1;
                let right = Box::new(self.expression(binding + 1)?);
                left = Expr::Binary { operator, left: Box::new(left), right };
            } else if let Some((_, binding, stops_at)) =
                LOGICAL.into_iter().find(|(written, binding, _)| *written == symbol && *binding >= min)
            {
                self.at += 1;
                let right = Box::new(self.expression(binding + 1)?);
                left = Expr::Logical { stops_at, left: Box::new(left), right };
            } else {
                return Ok(left);
            }
        }
    }

    fn primary(&mut self) -> Result<Expr, Error> {
        if let Kind::Number(number) = *self.peek() {
            self.at += 1;
            return Ok(Expr::Number(number));
        }
        if self.takes("(") {
            let inner = self.expression(0)?;
            self.expect(")")?;
            return Ok(inner);
        }
        if self.takes("-") {
            let right = Box::new(self.primary()?);
            return Ok(Expr::Binary { operator: Operator::Subtract, left: Box::new(Expr::Number(0)), right });
        }
        let name = self.name()?;
        if self.takes("(") { self.call(name) } else { Ok(Expr::Name(name)) }
    }

    fn call(&mut self, function: Name) -> Result<Expr, Error> {
        let mut arguments = Vec::new();
        while !self.takes(")") {
            arguments.push(self.expression(0)?);
            self.separator()?;
        }
        Ok(Expr::Call { function, arguments })
    }

    /// A comma, unless the list ends here.
    fn separator(&mut self) -> Result<(), Error> {
        if *self.peek() == Kind::Symbol(")") { Ok(()) } else { self.expect(",") }
    }

    fn name(&mut self) -> Result<Name, Error> {
        let Token { kind, line } = &mut self.tokens[self.at];
        let Kind::Word(word) = kind else { return Err(self.unexpected("a name")) };
        // Nobody looks back.
        let name = Name { text: std::mem::take(word), line: *line };
        self.at += 1;
        Ok(name)
    }

    fn peek(&self) -> &Kind {
        &self.tokens[self.at].kind
    }

    fn takes(&mut self, symbol: &str) -> bool {
        let found = matches!(self.peek(), Kind::Symbol(found) if *found == symbol);
        self.at += usize::from(found);
        found
    }

    fn takes_word(&mut self, word: &str) -> bool {
        let found = matches!(self.peek(), Kind::Word(found) if found == word);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, symbol: &str) -> Result<(), Error> {
        if self.takes(symbol) { Ok(()) } else { Err(self.unexpected(symbol)) }
    }

    fn unexpected(&self, expected: &str) -> Error {
        let Token { kind, line } = &self.tokens[self.at];
        Error::new(*line, format!("found {kind:?}; expected {expected}"))
    }
}

#[cfg(test)]
mod tests {
    use super::super::token::tokens;
    use super::*;

    fn parsed(text: &str) -> Result<Unit, Error> {
        unit(tokens(text).expect("the tokens are well-formed"))
    }

    /// An expression with all its parentheses.
    fn shown(expr: &Expr) -> String {
        match expr {
            Expr::Number(number) => number.to_string(),
            Expr::Name(name) => name.text.clone(),
            Expr::Binary { operator, left, right } => {
                format!("({} {} {})", operator.mnemonic(), shown(left), shown(right))
            }
            Expr::Logical { stops_at, left, right } => {
                format!("({} {} {})", if *stops_at { "or" } else { "and" }, shown(left), shown(right))
            }
            Expr::Call { function, arguments } => {
                let arguments: Vec<String> = arguments.iter().map(shown).collect();
                format!("{}({})", function.text, arguments.join(", "))
            }
        }
    }

    #[test]
    fn operators_bind_as_usual() {
        let cases = [
            ("1 + 2 * 3 - 4", "(sub (add 1 (imul 2 3)) 4)"),
            ("(1 + 2) * -x", "(imul (add 1 2) (sub 0 x))"),
            ("a < b + 1 == c && d || e", "(or (and (sete (setl a (add b 1)) c) d) e)"),
            ("f(1, g(), x) % 2", "(irem f(1, g(), x) 2)"),
        ];
        for (text, expected) in cases {
            let unit = parsed(&format!("const c = {text};")).expect("it is well-formed");
            assert_eq!(shown(&unit.constants[0].1), expected);
        }
    }

    #[test]
    fn statements_nest() {
        let unit =
            parsed("fn f(a, b) { let x = 1; while x < a { if b { x = x + 1; } else { return x; } } }").expect("it is");
        let [Statement::Let { .. }, Statement::While { body, .. }] = &unit.functions[0].body[..] else {
            panic!("{unit:?}");
        };
        assert!(matches!(&body[0], Statement::If { yes, no, .. } if yes.len() == 1 && no.len() == 1));
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        for (text, line, expected) in [
            ("fn f() {\nlet = 3; }", 2, "a name"),
            ("let", 1, "const or fn"),
            ("fn f(a b) {}", 1, ","),
            ("fn f() {", 1, "a name"),
        ] {
            let error = parsed(text).expect_err("it is wrong");
            assert_eq!(error.line, line);
            assert!(error.what.ends_with(&format!("expected {expected}")), "{}", error.what);
        }
    }
}
