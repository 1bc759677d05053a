//! Constant propagation: what is known to be one number on every path is replaced by it, and branches on numbers become
//! jumps.
//!
//! A forward analysis finds what each block knows when it is entered; edges that a known condition never takes bring
//! nothing. What a block knows only shrinks while the analysis goes on, so it ends.

use std::collections::{BTreeMap, BTreeSet};

use super::ir::{Action, Block, Exit, Function, Instruction, Label, Operand, Reg};
use super::operator::Operator;

/// The registers that hold a known number.
type Known = BTreeMap<Reg, i64>;

/// Replaces what is known. Whether anything changed.
pub fn propagate(function: &mut Function) -> bool {
    let entries = entries(function);
    let mut changed = false;
    for (block, entry) in function.blocks.iter_mut().zip(entries) {
        if let Some(known) = entry {
            changed |= rewrite(block, known);
        }
    }
    changed
}

/// What each block knows when it is entered; nothing at all if it never is.
fn entries(function: &Function) -> Vec<Option<Known>> {
    let mut entries: Vec<Option<Known>> = vec![None; function.blocks.len()];
    entries[0] = Some(Known::new());
    let mut pending = BTreeSet::from([0]);
    while let Some(label) = pending.pop_first() {
        let block = &function.blocks[label];
        let mut known = entries[label].clone().expect("only entered blocks are pending");
        for instruction in &block.instructions {
            learn(instruction, &mut known);
        }
        for target in taken(&block.exit, &known) {
            if meet(&mut entries[target], &known) {
                pending.insert(target);
            }
        }
    }
    entries
}

fn learn(instruction: &Instruction, known: &mut Known) {
    let number = |operand: &Operand| match operand {
        Operand::Number(number) => Some(*number),
        Operand::Reg(reg) => known.get(reg).copied(),
    };
    let result = match &instruction.action {
        Action::Copy(from) => number(from),
        Action::Binary { operator, left, right } => {
            number(left).zip(number(right)).map(|(left, right)| operator.apply(left, right))
        }
        Action::Call { .. } => None,
    };
    match result {
        Some(number) => known.insert(instruction.to, number),
        None => known.remove(&instruction.to),
    };
}

/// Where a block may go, given what it knows at its end.
fn taken(exit: &Exit, known: &Known) -> Vec<Label> {
    match exit {
        Exit::Branch(Operand::Reg(reg), yes, no) if known.contains_key(reg) => {
            vec![if known[reg] != 0 { *yes } else { *no }]
        }
        Exit::Branch(Operand::Number(number), yes, no) => vec![if *number != 0 { *yes } else { *no }],
        _ => exit.targets().collect(),
    }
}

/// Brings what one predecessor knows to an entry: only what all agree on stays. Whether the entry changed.
fn meet(entry: &mut Option<Known>, known: &Known) -> bool {
    match entry {
        None => {
            *entry = Some(known.clone());
            true
        }
        Some(agreed) => {
            let before = agreed.len();
            agreed.retain(|reg, number| known.get(reg) == Some(number));
            agreed.len() < before
        }
    }
}

fn rewrite(block: &mut Block, mut known: Known) -> bool {
    let mut changed = false;
    let mut replace = |operand: &mut Operand, known: &Known| {
        if let Some(number) = operand.reg().and_then(|reg| known.get(&reg)) {
            *operand = Operand::Number(*number);
            changed = true;
        }
    };
    for instruction in &mut block.instructions {
        instruction.action.for_each_operand(|operand| replace(operand, &known));
        learn(instruction, &mut known);
    }
    if let Some(operand) = block.exit.operand_mut() {
        replace(operand, &known);
    }
    for instruction in &mut block.instructions {
        if let Some(simpler) = simpler(&instruction.action) {
            instruction.action = Action::Copy(simpler);
            changed = true;
        }
    }
    if let Exit::Branch(Operand::Number(number), yes, no) = block.exit {
        block.exit = Exit::Jump(if number != 0 { yes } else { no });
        changed = true;
    }
    changed
}

/// The operand that an action's result equals, if there is one.
fn simpler(action: &Action) -> Option<Operand> {
    use Operand::Number;
    use Operator::{Add, Divide, Equal, Less, LessOrEqual, Multiply, Subtract, Unequal};
    let Action::Binary { operator, left, right } = *action else { return None };
    match (operator, left, right) {
        (operator, Number(left), Number(right)) => Some(Number(operator.apply(left, right))),
        (Add | Subtract, same, Number(0)) | (Add, Number(0), same) => Some(same),
        (Multiply | Divide, same, Number(1)) | (Multiply, Number(1), same) => Some(same),
        (Multiply, _, Number(0)) | (Multiply, Number(0), _) => Some(Number(0)),
        (Subtract | Less | Unequal, left, right) if left == right => Some(Number(0)),
        (Equal | LessOrEqual, left, right) if left == right => Some(Number(1)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::front_end;
    use super::*;

    fn propagated(text: &str) -> Function {
        let mut function = front_end(text).expect("it is well-formed").remove(0);
        propagate(&mut function);
        function
    }

    #[test]
    fn what_both_paths_agree_on_is_known_behind_them() {
        let function = propagated("fn f(a) { let x = 1; if a { x = 2; } else { x = 1 + 1; } return x * 3; }");
        assert!(function.blocks.iter().any(|block| block.exit == Exit::Return(Operand::Number(6))));
    }

    #[test]
    fn what_they_disagree_on_is_not() {
        let function = propagated("fn f(a) { let x = 1; if a { x = 2; } return x; }");
        assert!(function.blocks.iter().any(|block| matches!(block.exit, Exit::Return(Operand::Reg(_)))));
    }

    #[test]
    fn what_is_overwritten_is_known_no_longer() {
        for text in ["fn f(a) { let x = 1; x = a; return x; }", "fn f(a) { let x = 1; x = f(x); return x; }"] {
            let function = propagated(text);
            assert!(matches!(function.blocks[0].exit, Exit::Return(Operand::Reg(_))), "{text}");
        }
    }

    #[test]
    fn edges_that_are_never_taken_bring_nothing() {
        let function =
            propagated("const N = 3; fn f(a) { let x = 1; if N < 2 { x = a; } while N < 1 { x = a; } return x; }");
        assert!(function.blocks.iter().any(|block| block.exit == Exit::Return(Operand::Number(1))));
    }

    #[test]
    fn identities_hold_for_any_number() {
        for operator in ["+", "-", "*", "/", "<", "<=", "==", "!="] {
            for (left, right) in [("a", "0"), ("0", "a"), ("a", "1"), ("1", "a"), ("a", "a")] {
                let text = format!("fn f(a) {{ return {left} {operator} {right}; }}");
                let plain = front_end(&text).expect("it is well-formed");
                let simplified = [propagated(&text)];
                for number in [-7, 0, 1, 2, i64::MIN] {
                    let call = |functions: &[Function]| {
                        super::super::interpret::Program::new(functions).call("f", &[number], 100)
                    };
                    assert_eq!(call(&simplified), call(&plain), "{text} with {number}");
                }
            }
        }
    }
}
