//! Dead code elimination: instructions whose result nobody reads are dropped. Calls stay, whatever becomes of their
//! result.

use super::ir::{Action, Block, Function, Instruction, Operand};
use super::liveness::{Set, liveness};

/// Drops what is dead. Whether anything was.
pub fn eliminate(function: &mut Function) -> bool {
    let leaving = liveness(function).leaving;
    let blocks = function.blocks.iter_mut().zip(leaving);
    blocks.fold(false, |changed, (block, live)| sweep(block, live) | changed)
}

fn sweep(block: &mut Block, mut live: Set) -> bool {
    let before = block.instructions.len();
    block.exit.reads().into_iter().for_each(|reg| live.insert(reg));
    let mut kept: Vec<Instruction> = Vec::with_capacity(before);
    for instruction in block.instructions.drain(..).rev() {
        if is_needed(&instruction, &live) {
            live.remove(instruction.to);
            instruction.action.reads().for_each(|reg| live.insert(reg));
            kept.push(instruction);
        }
    }
    kept.reverse();
    block.instructions = kept;
    block.instructions.len() < before
}

fn is_needed(instruction: &Instruction, live: &Set) -> bool {
    match instruction.action {
        Action::Call { .. } => true,
        Action::Copy(Operand::Reg(from)) if from == instruction.to => false,
        _ => live.contains(instruction.to),
    }
}

#[cfg(test)]
mod tests {
    use super::super::front_end;
    use super::*;

    fn left(text: &str) -> usize {
        let mut function = front_end(text).expect("it is well-formed").remove(0);
        eliminate(&mut function);
        function.blocks.iter().map(|block| block.instructions.len()).sum()
    }

    #[test]
    fn chains_of_unread_results_go_at_once() {
        assert_eq!(left("fn f(a) { let b = a + 1; let c = b * 2; let d = c - b; return a; }"), 0);
    }

    #[test]
    fn calls_and_what_they_read_stay() {
        // The sum, its copy in `b`, and the call, but not the copy of its result.
        assert_eq!(left("fn f(a) { let b = a + 1; let c = f(b); return a; }"), 3);
    }

    #[test]
    fn a_value_that_is_overwritten_unread_goes() {
        assert_eq!(left("fn f(a) { let b = 5; b = a; return b; }"), 1);
    }
}
