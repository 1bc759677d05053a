//! An interpreter of the intermediate representation, for the tests: what a function computes must be the same before
//! and after every pass, and with its registers in the locations that they were given.

use std::cell::Cell;

use super::allocate::{Allocation, Location, REGISTERS};
use super::ir::{Action, Exit, Function, Operand, Reg};

/// Functions that can be called.
pub struct Program<'p> {
    functions: &'p [Function],
    /// Where each function's registers are; each has a place of its own if there are none.
    allocations: Option<&'p [Allocation]>,
    steps_left: Cell<u64>,
}

impl<'p> Program<'p> {
    /// With as many registers as the functions name.
    pub fn new(functions: &'p [Function]) -> Self {
        Program { functions, allocations: None, steps_left: Cell::new(0) }
    }

    /// With the locations that the functions' registers were given.
    pub fn allocated(functions: &'p [Function], allocations: &'p [Allocation]) -> Self {
        Program { functions, allocations: Some(allocations), steps_left: Cell::new(0) }
    }

    /// What a function returns, unless that takes too many steps.
    pub fn call(&self, name: &str, arguments: &[i64], max_steps: u64) -> Option<i64> {
        self.steps_left.set(max_steps);
        self.run(name, arguments)
    }

    fn run(&self, name: &str, arguments: &[i64]) -> Option<i64> {
        let index = self.functions.iter().position(|function| function.name == name).expect("the function exists");
        let function = &self.functions[index];
        // What was never written reads as a number that no test expects.
        let mut memory = Memory {
            words: vec![-77_777; REGISTERS + function.registers as usize],
            allocation: self.allocations.map(|all| &all[index]),
        };
        for (reg, value) in function.parameters.iter().zip(arguments) {
            memory.write(*reg, *value);
        }
        let mut block = &function.blocks[0];
        loop {
            self.steps_left.set(self.steps_left.get().checked_sub(1 + block.instructions.len() as u64)?);
            for instruction in &block.instructions {
                let result = self.act(&instruction.action, &memory)?;
                memory.write(instruction.to, result);
            }
            block = match block.exit {
                Exit::Return(value) => return Some(memory.read(value)),
                Exit::Jump(to) => &function.blocks[to],
                Exit::Branch(condition, yes, no) => {
                    &function.blocks[if memory.read(condition) != 0 { yes } else { no }]
                }
            };
        }
    }

    fn act(&self, action: &Action, memory: &Memory<'_>) -> Option<i64> {
        match action {
            Action::Copy(from) => Some(memory.read(*from)),
            Action::Binary { operator, left, right } => Some(operator.apply(memory.read(*left), memory.read(*right))),
            Action::Call { function, arguments } => {
                let arguments: Vec<i64> = arguments.iter().map(|argument| memory.read(*argument)).collect();
                self.run(function, &arguments)
            }
        }
    }
}

/// What the registers of one call hold.
struct Memory<'p> {
    words: Vec<i64>,
    allocation: Option<&'p Allocation>,
}

impl Memory<'_> {
    fn read(&self, operand: Operand) -> i64 {
        match operand {
            Operand::Number(number) => number,
            Operand::Reg(reg) => self.words[self.place(reg)],
        }
    }

    fn write(&mut self, reg: Reg, value: i64) {
        let place = self.place(reg);
        self.words[place] = value;
    }

    fn place(&self, reg: Reg) -> usize {
        let Some(allocation) = self.allocation else { return reg as usize };
        match allocation.locations[reg as usize].expect("what is used has a location") {
            Location::Register(register) => register,
            Location::Slot(slot) => REGISTERS + slot,
        }
    }
}
