//! Liveness: the registers whose values are still read later, at the ends of each block.

use super::ir::{Block, Function, Reg};

/// A set of registers, as bits.
#[derive(Clone, PartialEq)]
pub struct Set(Box<[u64]>);

/// What is live where each block begins and where it ends.
pub struct Liveness {
    pub entering: Vec<Set>,
    pub leaving: Vec<Set>,
}

impl Set {
    fn new(registers: u32) -> Set {
        Set(vec![0; registers.div_ceil(64) as usize].into())
    }

    /// Whether the register is in it.
    pub fn contains(&self, reg: Reg) -> bool {
        self.0[reg as usize / 64] >> (reg % 64) & 1 == 1
    }

    /// Adds a register.
    pub fn insert(&mut self, reg: Reg) {
        self.0[reg as usize / 64] |= 1 << (reg % 64);
    }

    /// Takes a register out.
    pub fn remove(&mut self, reg: Reg) {
        self.0[reg as usize / 64] &= !(1 << (reg % 64));
    }

    /// All of it, in rising order.
    pub fn iter(&self) -> impl Iterator<Item = Reg> {
        (0..self.0.len() as u32 * 64).filter(|reg| self.contains(*reg))
    }

    fn extend(&mut self, other: &Set) {
        self.0.iter_mut().zip(&other.0).for_each(|(word, more)| *word |= more);
    }
}

/// Finds what is live, from the ends of the blocks to their beginnings until nothing changes.
pub fn liveness(function: &Function) -> Liveness {
    let none = vec![Set::new(function.registers); function.blocks.len()];
    let mut live = Liveness { entering: none.clone(), leaving: none };
    let mut changed = true;
    while changed {
        changed = false;
        for (label, block) in function.blocks.iter().enumerate().rev() {
            let mut leaving = Set::new(function.registers);
            block.exit.targets().for_each(|target| leaving.extend(&live.entering[target]));
            let entering = before(block, &leaving);
            changed |= entering != live.entering[label];
            live.entering[label] = entering;
            live.leaving[label] = leaving;
        }
    }
    live
}

/// What is live before a block, given what is live after it.
fn before(block: &Block, after: &Set) -> Set {
    let mut live = after.clone();
    block.exit.reads().into_iter().for_each(|reg| live.insert(reg));
    for instruction in block.instructions.iter().rev() {
        live.remove(instruction.to);
        instruction.action.reads().for_each(|reg| live.insert(reg));
    }
    live
}

#[cfg(test)]
mod tests {
    use super::super::front_end;
    use super::*;

    #[test]
    fn a_loop_keeps_alive_what_its_next_turn_reads() {
        let function =
            front_end("fn f(a, b, c) { while a { a = a - b; } return c; }").expect("it is well-formed").remove(0);
        let live = liveness(&function);
        let [a, b, c] = function.parameters[..] else { panic!("there are three parameters") };
        let body = (0..function.blocks.len()).find(|label| !function.blocks[*label].instructions.is_empty());
        let body = body.expect("the loop has a body");
        for reg in [a, b, c] {
            assert!(live.entering[0].contains(reg));
            assert!(live.leaving[body].contains(reg), "r{reg}");
        }
        let end = function.blocks.iter().position(|block| block.exit.reads() == Some(c)).expect("it returns c");
        assert_eq!(live.entering[end].iter().collect::<Vec<_>>(), [c]);
    }
}
