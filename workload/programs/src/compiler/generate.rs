//! Source texts to compile: functions that nobody would write, but with the proportions of those that somebody would.
//!
//! A text is decided by its seed. Every name in it is declared, every call has its arguments, and every loop counts
//! upwards to a small number, so the functions end.

use std::fmt::Write;

use fastrand::Rng;

const OPERATORS: [&str; 9] = ["+", "-", "*", "/", "%", "<", "<=", "==", "!="];
const ADJECTIVES: [&str; 8] = ["old", "new", "next", "last", "total", "inner", "first_free", "remaining"];
const NOUNS: [&str; 8] = ["size", "count", "index", "offset", "width", "value", "line_number", "state"];
const CONSTANTS: u32 = 24;
const MAX_DEPTH: u32 = 3;
const LAYERS: usize = 4;

/// A text of so many functions.
pub fn unit(seed: u64, functions: u64) -> String {
    let mut writer = Writer {
        rng: Rng::with_seed(seed),
        text: String::new(),
        variables: Vec::new(),
        layers: Default::default(),
        layer: 0,
        names: 0,
    };
    writer.constants();
    for number in 0..functions {
        writer.function(number);
    }
    writer.text
}

struct Writer {
    rng: Rng,
    text: String,
    /// The variables in scope, and whether they may be assigned: a loop's counter may not.
    variables: Vec<(String, bool)>,
    /// The functions so far in their layers, and how many parameters they have. Only those of lower layers are called,
    /// so nothing recurs, and no chain of calls is long.
    layers: [Vec<(String, usize)>; LAYERS],
    /// The layer of the function that is being written.
    layer: usize,
    names: u32,
}

impl Writer {
    fn constants(&mut self) {
        for number in 0..CONSTANTS {
            let (value, unit) = (self.rng.u32(0..50), self.rng.u32(1..9));
            self.line(0, &format!("const LIMIT_{number} = {value} * {unit};"));
        }
    }

    fn function(&mut self, number: u64) {
        self.layer = number as usize % LAYERS;
        let parameters: Vec<String> = (0..self.rng.usize(1..5)).map(|_| self.new_name()).collect();
        let name = format!("{}_{number}", self.phrase());
        self.variables = parameters.iter().map(|name| (name.clone(), true)).collect();
        self.line(0, "");
        let found = self.phrase().replace('_', " ");
        self.line(0, &format!("# Finds the {found} of {}.", parameters.join(" and ")));
        self.line(0, &format!("fn {name}({}) {{", parameters.join(", ")));
        self.statements(1);
        let result = self.expression(3);
        self.line(1, &format!("return {result};"));
        self.line(0, "}");
        self.layers[self.layer].push((name, parameters.len()));
    }

    /// A block's statements, at a depth that is also the indentation. Its variables end with it.
    fn block(&mut self, depth: u32) {
        let outer = self.variables.len();
        self.statements(depth);
        self.variables.truncate(outer);
    }

    fn statements(&mut self, depth: u32) {
        for _ in 0..self.rng.u32(3..9) {
            match self.rng.u32(0..10) {
                0..4 => self.declaration(depth),
                4..7 => self.assignment(depth),
                7..9 if depth < MAX_DEPTH => self.branch(depth),
                9 if depth < MAX_DEPTH => self.repetition(depth),
                _ => self.assignment(depth),
            }
        }
    }

    fn declaration(&mut self, depth: u32) {
        let (value, name) = (self.expression(3), self.new_name());
        self.line(depth, &format!("let {name} = {value};"));
        self.variables.push((name, true));
    }

    fn assignment(&mut self, depth: u32) {
        let assignable: Vec<&String> = self.variables.iter().filter(|(_, may)| *may).map(|(name, _)| name).collect();
        let name = assignable[self.rng.usize(0..assignable.len())].clone();
        let value = self.expression(3);
        self.line(depth, &format!("{name} = {value};"));
    }

    fn branch(&mut self, depth: u32) {
        let condition = self.condition();
        self.line(depth, &format!("if {condition} {{"));
        self.block(depth + 1);
        if self.rng.u32(0..4) == 0 {
            let value = self.expression(1);
            self.line(depth + 1, &format!("return {value};"));
        }
        if self.rng.bool() {
            self.line(depth, "} else {");
            self.block(depth + 1);
        }
        self.line(depth, "}");
    }

    fn repetition(&mut self, depth: u32) {
        let counter = self.new_name();
        let turns = self.rng.u32(2..6);
        self.line(depth, &format!("let {counter} = 0;"));
        self.line(depth, &format!("while {counter} < {turns} {{"));
        self.variables.push((counter.clone(), false));
        self.block(depth + 1);
        self.line(depth + 1, &format!("{counter} = {counter} + 1;"));
        self.line(depth, "}");
    }

    fn condition(&mut self) -> String {
        let (left, right) = (self.expression(1), self.expression(1));
        let comparison = format!("{left} {} {right}", OPERATORS[self.rng.usize(5..9)]);
        match self.rng.u32(0..6) {
            0 => format!("LIMIT_{} < {}", self.rng.u32(0..CONSTANTS), self.rng.u32(0..200)),
            1 => format!("({comparison}) && {}", self.expression(1)),
            2 => format!("({comparison}) || {}", self.expression(1)),
            _ => comparison,
        }
    }

    fn expression(&mut self, depth: u32) -> String {
        if depth == 0 || self.rng.u32(0..5) == 0 {
            return self.leaf();
        }
        if self.rng.u32(0..12) == 0 && self.layer > 0 {
            return self.call(depth);
        }
        let (left, right) = (self.expression(depth - 1), self.expression(depth - 1));
        let likely = if self.rng.bool() { 3 } else { OPERATORS.len() };
        format!("({left} {} {right})", OPERATORS[self.rng.usize(0..likely)])
    }

    fn leaf(&mut self) -> String {
        match self.rng.u32(0..8) {
            0..5 => self.variables[self.rng.usize(0..self.variables.len())].0.clone(),
            5 => format!("LIMIT_{}", self.rng.u32(0..CONSTANTS)),
            _ => self.rng.u32(0..1000).to_string(),
        }
    }

    /// A call of a function in a lower layer.
    fn call(&mut self, depth: u32) -> String {
        let below = &self.layers[self.rng.usize(0..self.layer)];
        let (name, arity) = below[self.rng.usize(0..below.len())].clone();
        let arguments: Vec<String> = (0..arity).map(|_| self.expression(depth - 1)).collect();
        format!("{name}({})", arguments.join(", "))
    }

    fn new_name(&mut self) -> String {
        self.names += 1;
        format!("{}_{}", self.phrase(), self.names)
    }

    fn phrase(&mut self) -> String {
        let (adjective, noun) = (self.rng.usize(0..ADJECTIVES.len()), self.rng.usize(0..NOUNS.len()));
        format!("{}_{}", ADJECTIVES[adjective], NOUNS[noun])
    }

    fn line(&mut self, depth: u32, text: &str) {
        // Writing to a string never fails.
        _ = writeln!(self.text, "{:indent$}{text}", "", indent = 4 * depth as usize);
    }
}
