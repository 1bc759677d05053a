//! Local reuse: within a block, a copy's readers read what was copied, and what was computed before is not computed
//! again.

use std::collections::BTreeMap;

use super::ir::{Action, Block, Function, Operand, Reg};
use super::operator::Operator;

/// Rewrites every block. Whether anything changed.
pub fn reuse(function: &mut Function) -> bool {
    function.blocks.iter_mut().fold(false, |changed, block| rewrite(block) | changed)
}

/// What the registers hold at one place of a block.
#[derive(Default)]
struct Held {
    copies: BTreeMap<Reg, Operand>,
    results: BTreeMap<(Operator, Operand, Operand), Reg>,
}

fn rewrite(block: &mut Block) -> bool {
    let mut held = Held::default();
    let mut changed = false;
    for instruction in &mut block.instructions {
        instruction.action.for_each_operand(|operand| changed |= held.replace(operand));
        if let Some(earlier) = held.result(&instruction.action) {
            instruction.action = Action::Copy(Operand::Reg(earlier));
            changed = true;
        }
        held.forget(instruction.to);
        held.learn(instruction.to, &instruction.action);
    }
    if let Some(operand) = block.exit.operand_mut() {
        changed |= held.replace(operand);
    }
    changed
}

impl Held {
    fn replace(&self, operand: &mut Operand) -> bool {
        let original = operand.reg().and_then(|reg| self.copies.get(&reg));
        if let Some(original) = original {
            *operand = *original;
        }
        original.is_some()
    }

    fn result(&self, action: &Action) -> Option<Reg> {
        match *action {
            Action::Binary { operator, left, right } => self.results.get(&(operator, left, right)).copied(),
            _ => None,
        }
    }

    /// The register is about to be written: what was known of it or through it holds no longer.
    fn forget(&mut self, reg: Reg) {
        let gone = Operand::Reg(reg);
        self.copies.remove(&reg);
        self.copies.retain(|_, original| *original != gone);
        self.results.retain(|(_, left, right), result| *left != gone && *right != gone && *result != reg);
    }

    fn learn(&mut self, to: Reg, action: &Action) {
        match *action {
            Action::Copy(from) if from != Operand::Reg(to) => {
                self.copies.insert(to, from);
            }
            Action::Binary { operator, left, right } if ![left, right].contains(&Operand::Reg(to)) => {
                self.results.insert((operator, left, right), to);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::front_end;
    use super::*;

    fn binaries(text: &str) -> usize {
        let mut function = front_end(text).expect("it is well-formed").remove(0);
        reuse(&mut function);
        let instructions = function.blocks.iter().flat_map(|block| &block.instructions);
        instructions.filter(|instruction| matches!(instruction.action, Action::Binary { .. })).count()
    }

    #[test]
    fn a_result_is_computed_once() {
        assert_eq!(binaries("fn f(a, b) { let x = a * b; let y = a * b; return x + y; }"), 2);
    }

    #[test]
    fn a_written_operand_makes_it_another_result() {
        assert_eq!(binaries("fn f(a, b) { let x = a * b; a = 1; let y = a * b; return x + y; }"), 3);
    }

    #[test]
    fn a_copy_is_read_through_until_either_is_written() {
        assert_eq!(binaries("fn f(a, b) { let c = a; let x = a * b; let y = c * b; return x + y; }"), 2);
        assert_eq!(binaries("fn f(a, b) { let c = a; a = b; let x = a * b; let y = c * b; return x + y; }"), 3);
    }
}
