//! Lowering: from the tree to the intermediate representation, one function at a time. Names are resolved on the way.

use super::Error;
use super::ir::{Action, Block, Exit, Function, Instruction, Label, Operand, Reg};
use super::scope::{Binding, Scopes};
use super::tree::{self, Expr, Name, Statement, Unit};

/// Lowers all functions of a unit. Functions may be called before they are defined; constants may not be used so.
pub fn unit(unit: &Unit) -> Result<Vec<Function>, Error> {
    let mut scopes = Scopes::new();
    for (name, value) in &unit.constants {
        let number = constant(value, &scopes, name.line)?;
        scopes.declare(name, Binding::Constant(number))?;
    }
    for function in &unit.functions {
        scopes.declare(&function.name, Binding::Function { arity: function.parameters.len() })?;
    }
    unit.functions.iter().map(|tree| function(tree, &mut scopes)).collect()
}

/// The value of an expression of numbers and constants.
fn constant(expr: &Expr, scopes: &Scopes, line: u32) -> Result<i64, Error> {
    match expr {
        Expr::Number(number) => Ok(*number),
        Expr::Binary { operator, left, right } => {
            Ok(operator.apply(constant(left, scopes, line)?, constant(right, scopes, line)?))
        }
        Expr::Name(name) => match scopes.find(name)? {
            Binding::Constant(number) => Ok(number),
            _ => Err(Error::new(name.line, format!("`{}` is no constant", name.text))),
        },
        Expr::Logical { .. } | Expr::Call { .. } => {
            Err(Error::new(line, "a constant is made of numbers only".to_owned()))
        }
    }
}

fn function(tree: &tree::Function, scopes: &mut Scopes) -> Result<Function, Error> {
    scopes.enter();
    let mut lowering = Lowering { scopes, blocks: Vec::new(), here: 0, registers: 0 };
    lowering.here = lowering.block();
    let mut parameters = Vec::with_capacity(tree.parameters.len());
    for name in &tree.parameters {
        parameters.push(lowering.variable(name)?);
    }
    lowering.statements(&tree.body)?;
    let Lowering { blocks, registers, .. } = lowering;
    scopes.leave();
    Ok(Function { name: tree.name.text.clone(), parameters, registers, blocks })
}

/// A function in the making. A block's exit is "return 0" until it gets another.
struct Lowering<'s> {
    scopes: &'s mut Scopes,
    blocks: Vec<Block>,
    /// The block that is being written.
    here: Label,
    registers: u32,
}

impl Lowering<'_> {
    fn statements(&mut self, statements: &[Statement]) -> Result<(), Error> {
        self.scopes.enter();
        for statement in statements {
            self.statement(statement)?;
        }
        self.scopes.leave();
        Ok(())
    }

    fn statement(&mut self, statement: &Statement) -> Result<(), Error> {
        match statement {
            Statement::Let { name, value } => {
                let value = self.value(value)?;
                let to = self.variable(name)?;
                self.push(to, Action::Copy(value));
            }
            Statement::Assign { name, value } => {
                let Binding::Variable(to) = self.scopes.find(name)? else {
                    return Err(Error::new(name.line, format!("`{}` is no variable", name.text)));
                };
                let value = self.value(value)?;
                self.push(to, Action::Copy(value));
            }
            Statement::Return(value) => {
                let value = self.value(value)?;
                self.blocks[self.here].exit = Exit::Return(value);
                // What follows is lowered, and found to be unreachable later.
                self.here = self.block();
            }
            Statement::If { condition, yes, no } => self.branch(condition, yes, no)?,
            Statement::While { condition, body } => self.repeat(condition, body)?,
        }
        Ok(())
    }

    fn branch(&mut self, condition: &Expr, yes: &[Statement], no: &[Statement]) -> Result<(), Error> {
        let (begin_yes, begin_no, after) = (self.block(), self.block(), self.block());
        self.condition(condition, begin_yes, begin_no)?;
        for (begin, statements) in [(begin_yes, yes), (begin_no, no)] {
            self.here = begin;
            self.statements(statements)?;
            self.blocks[self.here].exit = Exit::Jump(after);
        }
        self.here = after;
        Ok(())
    }

    fn repeat(&mut self, condition: &Expr, body: &[Statement]) -> Result<(), Error> {
        let (head, begin, after) = (self.block(), self.block(), self.block());
        self.blocks[self.here].exit = Exit::Jump(head);
        self.here = head;
        self.condition(condition, begin, after)?;
        self.here = begin;
        self.statements(body)?;
        self.blocks[self.here].exit = Exit::Jump(head);
        self.here = after;
        Ok(())
    }

    /// Ends the block with a branch on an expression's truth.
    fn condition(&mut self, expr: &Expr, yes: Label, no: Label) -> Result<(), Error> {
        if let Expr::Logical { stops_at, left, right } = expr {
            let second = self.block();
            let (if_left, unless_left) = if *stops_at { (yes, second) } else { (second, no) };
            self.condition(left, if_left, unless_left)?;
            self.here = second;
            return self.condition(right, yes, no);
        }
        let value = self.value(expr)?;
        self.blocks[self.here].exit = Exit::Branch(value, yes, no);
        Ok(())
    }

    fn value(&mut self, expr: &Expr) -> Result<Operand, Error> {
        let action = match expr {
            Expr::Number(number) => return Ok(Operand::Number(*number)),
            Expr::Name(name) => return self.read(name),
            Expr::Logical { .. } => return self.truth(expr),
            Expr::Binary { operator, left, right } => {
                let left = self.value(left)?;
                Action::Binary { operator: *operator, left, right: self.value(right)? }
            }
            Expr::Call { function, arguments } => {
                self.check_call(function, arguments.len())?;
                let arguments = arguments.iter().map(|argument| self.value(argument)).collect::<Result<_, _>>()?;
                Action::Call { function: function.text.clone(), arguments }
            }
        };
        let to = self.register();
        self.push(to, action);
        Ok(Operand::Reg(to))
    }

    /// A logical expression as a number: 1 or 0, written on two paths.
    fn truth(&mut self, expr: &Expr) -> Result<Operand, Error> {
        let (yes, no, after) = (self.block(), self.block(), self.block());
        self.condition(expr, yes, no)?;
        let to = self.register();
        for (label, number) in [(yes, 1), (no, 0)] {
            self.here = label;
            self.push(to, Action::Copy(Operand::Number(number)));
            self.blocks[label].exit = Exit::Jump(after);
        }
        self.here = after;
        Ok(Operand::Reg(to))
    }

    fn read(&self, name: &Name) -> Result<Operand, Error> {
        match self.scopes.find(name)? {
            Binding::Constant(number) => Ok(Operand::Number(number)),
            Binding::Variable(reg) => Ok(Operand::Reg(reg)),
            Binding::Function { .. } => Err(Error::new(name.line, format!("`{}` is a function; call it", name.text))),
        }
    }

    fn check_call(&self, name: &Name, given: usize) -> Result<(), Error> {
        match self.scopes.find(name)? {
            Binding::Function { arity } if arity == given => Ok(()),
            Binding::Function { arity } => {
                Err(Error::new(name.line, format!("`{}` gets {given} arguments; it has {arity} parameters", name.text)))
            }
            _ => Err(Error::new(name.line, format!("`{}` is no function", name.text))),
        }
    }

    fn variable(&mut self, name: &Name) -> Result<Reg, Error> {
        let reg = self.register();
        self.scopes.declare(name, Binding::Variable(reg))?;
        Ok(reg)
    }

    fn register(&mut self) -> Reg {
        self.registers += 1;
        self.registers - 1
    }

    fn block(&mut self) -> Label {
        self.blocks.push(Block { instructions: Vec::new(), exit: Exit::Return(Operand::Number(0)) });
        self.blocks.len() - 1
    }

    fn push(&mut self, to: Reg, action: Action) {
        self.blocks[self.here].instructions.push(Instruction { to, action });
    }
}

#[cfg(test)]
mod tests {
    use super::super::interpret::Program;
    use super::super::{Error, front_end};

    fn value(text: &str, arguments: &[i64]) -> i64 {
        let functions = front_end(text).expect("it is well-formed");
        Program::new(&functions).call("f", arguments, 10_000).expect("it ends")
    }

    fn error(text: &str) -> Error {
        front_end(text).expect_err("it is wrong")
    }

    #[test]
    fn programs_mean_what_they_say() {
        assert_eq!(value("fn f(a) { let s = 0; while 0 < a { s = s + a; a = a - 1; } return s; }", &[10]), 55);
        assert_eq!(value("fn f(a, b) { if a < b { return 1; } else { return 2; } return 3; }", &[4, 3]), 2);
        assert_eq!(value("const N = 6; const M = N * 7; fn f() { return M; }", &[]), 42);
        assert_eq!(
            value("fn f(n) { if n < 2 { return n; } return f(n - 1) + g(n); } fn g(n) { return f(n - 2); }", &[10]),
            55
        );
        assert_eq!(value("fn f() { let x = 1; if x { let x = 5; x = 6; } return x; }", &[]), 1);
    }

    #[test]
    fn logic_stops_early() {
        // A second side that were evaluated would not end.
        let endless = "fn g() { while 1 { } }";
        assert_eq!(value(&format!("{endless} fn f(a) {{ return a && g(); }}"), &[0]), 0);
        assert_eq!(value(&format!("{endless} fn f(a) {{ if a || g() {{ return 7; }} }}"), &[3]), 7);
        assert_eq!(value("fn f(a, b) { return (a || b) + (a && b) * 10; }", &[4, 0]), 1);
    }

    #[test]
    fn mistakes_are_named() {
        for (text, expected) in [
            ("fn f() { return x; }", "not declared"),
            ("fn f(a, a) { }", "twice"),
            ("fn f(a) { return f(); }", "1 parameters"),
            ("const C = 1; fn f() { C = 2; }", "no variable"),
            ("fn f() { return f; }", "call it"),
            ("fn f(a) { return a(1); }", "no function"),
            ("const C = f(); fn f() { }", "numbers only"),
        ] {
            assert!(error(text).what.contains(expected), "{text}: {}", error(text).what);
        }
    }
}
