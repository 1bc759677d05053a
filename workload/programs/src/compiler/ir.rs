//! The intermediate representation: functions of basic blocks of three-address instructions.
//!
//! ```text
//!   function ── blocks[0] (the entry)
//!                 instructions: r3 = r1 add 4; r5 = call f(r3, 2)
//!                 exit: branch r5 → blocks[1], blocks[2]
//! ```
//!
//! Registers are virtual and there are as many as needed: one for each variable, which may be written more than once,
//! and one for each intermediate result. Every register is written before it is read, on every path.

use super::operator::Operator;

/// A virtual register.
pub type Reg = u32;

/// A block, as its place in [`Function::blocks`].
pub type Label = usize;

#[derive(Clone, Debug)]
pub struct Function {
    pub name: String,
    pub parameters: Vec<Reg>,
    /// How many registers there are.
    pub registers: u32,
    pub blocks: Vec<Block>,
}

#[derive(Clone, Debug)]
pub struct Block {
    pub instructions: Vec<Instruction>,
    pub exit: Exit,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Instruction {
    /// The register that gets the result.
    pub to: Reg,
    pub action: Action,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    Copy(Operand),
    Binary { operator: Operator, left: Operand, right: Operand },
    Call { function: String, arguments: Vec<Operand> },
}

/// How a block ends.
#[derive(Clone, Debug, PartialEq)]
pub enum Exit {
    Jump(Label),
    /// To the first label unless the operand is zero.
    Branch(Operand, Label, Label),
    Return(Operand),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operand {
    Reg(Reg),
    Number(i64),
}

impl Action {
    /// Hands out what it reads, to be replaced.
    pub fn for_each_operand(&mut self, mut replace: impl FnMut(&mut Operand)) {
        match self {
            Action::Copy(from) => replace(from),
            Action::Binary { left, right, .. } => {
                replace(left);
                replace(right);
            }
            Action::Call { arguments, .. } => arguments.iter_mut().for_each(replace),
        }
    }

    /// The registers that it reads.
    pub fn reads(&self) -> impl Iterator<Item = Reg> {
        let (pair, arguments): ([Option<&Operand>; 2], &[Operand]) = match self {
            Action::Copy(from) => ([Some(from), None], &[]),
            Action::Binary { left, right, .. } => ([Some(left), Some(right)], &[]),
            Action::Call { arguments, .. } => ([None; 2], arguments),
        };
        pair.into_iter().flatten().chain(arguments).filter_map(Operand::reg)
    }
}

impl Exit {
    /// The operand that it reads.
    pub fn operand_mut(&mut self) -> Option<&mut Operand> {
        match self {
            Exit::Jump(_) => None,
            Exit::Branch(operand, ..) | Exit::Return(operand) => Some(operand),
        }
    }

    /// The register that it reads.
    pub fn reads(&self) -> Option<Reg> {
        match self {
            Exit::Jump(_) => None,
            Exit::Branch(operand, ..) | Exit::Return(operand) => operand.reg(),
        }
    }

    /// Where it may go.
    pub fn targets(&self) -> impl Iterator<Item = Label> + use<> {
        let targets = match *self {
            Exit::Jump(to) => [Some(to), None],
            Exit::Branch(_, yes, no) => [Some(yes), Some(no)],
            Exit::Return(_) => [None; 2],
        };
        targets.into_iter().flatten()
    }

    /// The same, to replace.
    pub fn targets_mut(&mut self) -> impl Iterator<Item = &mut Label> {
        let targets = match self {
            Exit::Jump(to) => [Some(to), None],
            Exit::Branch(_, yes, no) => [Some(yes), Some(no)],
            Exit::Return(_) => [None, None],
        };
        targets.into_iter().flatten()
    }
}

impl Operand {
    /// The register, if it is one.
    pub fn reg(&self) -> Option<Reg> {
        match *self {
            Operand::Reg(reg) => Some(reg),
            Operand::Number(_) => None,
        }
    }
}
