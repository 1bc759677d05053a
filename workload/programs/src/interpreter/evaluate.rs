//! Evaluation, without any cleverness: environments are linked frames, looked through from the inside out.

use std::rc::Rc;

use super::read::{Expr, Symbol, Symbols};

/// What an expression evaluates to. `Nil` is also false, anything else true.
#[derive(Clone)]
enum Value<'p> {
    Nil,
    Number(i64),
    Pair(Rc<(Value<'p>, Value<'p>)>),
    Closure(Rc<Closure<'p>>),
    Builtin(Primitive),
}

struct Closure<'p> {
    parameters: &'p [Symbol],
    body: &'p Expr,
    environment: Environment<'p>,
}

/// The innermost frame; none is the global environment.
type Environment<'p> = Option<Rc<Frame<'p>>>;

struct Frame<'p> {
    names: &'p [Symbol],
    values: Vec<Value<'p>>,
    outer: Environment<'p>,
}

#[derive(Clone, Copy)]
enum Primitive {
    Add,
    Subtract,
    Multiply,
    Modulo,
    Less,
    Equal,
    Cons,
    Head,
    Tail,
}

const PRIMITIVES: [(&str, Primitive); 9] = [
    ("+", Primitive::Add),
    ("-", Primitive::Subtract),
    ("*", Primitive::Multiply),
    ("mod", Primitive::Modulo),
    ("<", Primitive::Less),
    ("=", Primitive::Equal),
    ("cons", Primitive::Cons),
    ("car", Primitive::Head),
    ("cdr", Primitive::Tail),
];

/// The global environment.
pub struct Interpreter<'p> {
    globals: Vec<Value<'p>>,
}

impl<'p> Interpreter<'p> {
    /// One that knows the primitives, as far as the program names them.
    pub fn new(symbols: &Symbols) -> Interpreter<'p> {
        let mut globals = vec![Value::Nil; symbols.len()];
        for (name, primitive) in PRIMITIVES {
            if let Some(symbol) = symbols.get(name) {
                globals[symbol] = Value::Builtin(primitive);
            }
        }
        Interpreter { globals }
    }

    /// Evaluates one expression of the outermost level: its number, if it has one.
    pub fn run(&mut self, expression: &'p Expr) -> Option<i64> {
        if let Expr::Define { name, value } = expression {
            self.globals[*name] = self.eval(value, &None);
            return None;
        }
        match self.eval(expression, &None) {
            Value::Number(number) => Some(number),
            _ => None,
        }
    }

    fn eval(&self, expression: &'p Expr, environment: &Environment<'p>) -> Value<'p> {
        match expression {
            Expr::Number(number) => Value::Number(*number),
            Expr::Name(name) => self.lookup(*name, environment),
            Expr::If(parts) => {
                let [condition, yes, no] = &**parts;
                let branch = if matches!(self.eval(condition, environment), Value::Nil) { no } else { yes };
                self.eval(branch, environment)
            }
            Expr::Lambda { parameters, body } => {
                let environment = environment.clone();
                Value::Closure(Rc::new(Closure { parameters, body, environment }))
            }
            Expr::Define { .. } => panic!("definitions stand at the outermost level"),
            Expr::Call { function, arguments } => {
                let function = self.eval(function, environment);
                let values = arguments.iter().map(|argument| self.eval(argument, environment)).collect();
                self.apply(function, values)
            }
        }
    }

    fn lookup(&self, name: Symbol, mut environment: &Environment<'p>) -> Value<'p> {
        while let Some(frame) = environment {
            if let Some(place) = frame.names.iter().position(|&known| known == name) {
                return frame.values[place].clone();
            }
            environment = &frame.outer;
        }
        self.globals[name].clone()
    }

    fn apply(&self, function: Value<'p>, values: Vec<Value<'p>>) -> Value<'p> {
        match function {
            Value::Closure(closure) => {
                let outer = closure.environment.clone();
                let frame = Frame { names: closure.parameters, values, outer };
                self.eval(closure.body, &Some(Rc::new(frame)))
            }
            Value::Builtin(primitive) => call_primitive(primitive, values),
            _ => panic!("only functions can be called"),
        }
    }
}

fn call_primitive<'p>(primitive: Primitive, values: Vec<Value<'p>>) -> Value<'p> {
    use Primitive::*;
    use Value::*;
    let mut values = values.into_iter();
    let first = values.next().expect("a primitive has an argument");
    match (primitive, first, values.next()) {
        (Add, Number(a), Some(Number(b))) => Number(a.wrapping_add(b)),
        (Subtract, Number(a), Some(Number(b))) => Number(a.wrapping_sub(b)),
        (Multiply, Number(a), Some(Number(b))) => Number(a.wrapping_mul(b)),
        (Modulo, Number(a), Some(Number(b))) => Number(a.rem_euclid(b)),
        (Less, Number(a), Some(Number(b))) => truth(a < b),
        (Equal, Number(a), Some(Number(b))) => truth(a == b),
        (Cons, a, Some(b)) => Pair(Rc::new((a, b))),
        (Head, Pair(pair), None) => pair.0.clone(),
        (Tail, Pair(pair), None) => pair.1.clone(),
        _ => panic!("a primitive was called with the wrong arguments"),
    }
}

fn truth<'p>(holds: bool) -> Value<'p> {
    if holds { Value::Number(1) } else { Value::Nil }
}
