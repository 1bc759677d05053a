//! The graph of blocks: jumps to jumps are shortened, a block is joined with its only successor if it is the only
//! predecessor, and what cannot be reached is dropped.

use std::mem;

use super::ir::{Exit, Function, Label};

/// Tidies the graph up; the blocks are numbered in depth-first order then. Whether there are fewer.
pub fn tidy(function: &mut Function) -> bool {
    let before = function.blocks.len();
    shorten(function);
    join(function);
    keep_reachable(function);
    function.blocks.len() < before
}

/// Redirects each edge that leads to an empty block which only jumps.
fn shorten(function: &mut Function) {
    let ends: Vec<Label> = (0..function.blocks.len()).map(|label| end_of_jumps(function, label)).collect();
    for block in &mut function.blocks {
        block.exit.targets_mut().for_each(|target| *target = ends[*target]);
        if let Exit::Branch(_, yes, no) = block.exit
            && yes == no
        {
            block.exit = Exit::Jump(yes);
        }
    }
}

/// Where one arrives from a label without executing anything. An empty loop is left at some block of it.
fn end_of_jumps(function: &Function, start: Label) -> Label {
    let mut label = start;
    for _ in 0..function.blocks.len() {
        match &function.blocks[label] {
            block if !block.instructions.is_empty() => return label,
            block => match block.exit {
                Exit::Jump(next) => label = next,
                _ => return label,
            },
        }
    }
    label
}

fn join(function: &mut Function) {
    let reachable = reachable(function);
    let mut predecessors = vec![0; function.blocks.len()];
    for label in &reachable {
        function.blocks[*label].exit.targets().for_each(|target| predecessors[target] += 1);
    }
    for label in reachable {
        // The entry is never joined to another block, since the function begins there. Any other block that can be reached
        // has a predecessor besides itself, so this ends.
        while let Exit::Jump(next) = function.blocks[label].exit
            && predecessors[next] == 1
            && next != 0
        {
            // It is reached no more once its only predecessor has its instructions.
            predecessors[next] = 0;
            let instructions = mem::take(&mut function.blocks[next].instructions);
            let exit = mem::replace(&mut function.blocks[next].exit, Exit::Jump(next));
            function.blocks[label].instructions.extend(instructions);
            function.blocks[label].exit = exit;
        }
    }
}

fn keep_reachable(function: &mut Function) {
    let order = reachable(function);
    let mut places = vec![None; function.blocks.len()];
    order.iter().enumerate().for_each(|(place, label)| places[*label] = Some(place));
    let mut old: Vec<_> = mem::take(&mut function.blocks).into_iter().map(Some).collect();
    function.blocks = order.iter().map(|label| old[*label].take().expect("each label is met once")).collect();
    for target in function.blocks.iter_mut().flat_map(|block| block.exit.targets_mut()) {
        *target = places[*target].expect("what is reachable leads to what is reachable");
    }
}

/// The labels that can be reached from the entry, which is the first, in depth-first order.
fn reachable(function: &Function) -> Vec<Label> {
    let mut seen = vec![false; function.blocks.len()];
    let mut order = Vec::new();
    let mut pending = vec![0];
    while let Some(label) = pending.pop() {
        if !mem::replace(&mut seen[label], true) {
            order.push(label);
            let targets: Vec<Label> = function.blocks[label].exit.targets().collect();
            pending.extend(targets.into_iter().rev());
        }
    }
    order
}

#[cfg(test)]
mod tests {
    use super::super::front_end;
    use super::*;

    fn blocks(text: &str) -> usize {
        let mut function = front_end(text).expect("it is well-formed").remove(0);
        tidy(&mut function);
        let mut labels = reachable(&function);
        labels.sort_unstable();
        assert_eq!(labels, (0..function.blocks.len()).collect::<Vec<_>>(), "all that is left is reachable");
        function.blocks.len()
    }

    #[test]
    fn straight_code_is_one_block() {
        assert_eq!(blocks("fn f(a) { let b = a + 1; return b; a = 3; return a; }"), 1);
    }

    #[test]
    fn a_branch_has_its_two_sides_and_what_follows() {
        assert_eq!(blocks("fn f(a) { if a { a = 1; } else { a = 2; } return a; }"), 4);
        assert_eq!(blocks("fn f(a) { if a { } else { } return a; }"), 1);
    }

    #[test]
    fn a_loop_keeps_its_head_even_if_it_is_empty() {
        assert_eq!(blocks("fn f(a) { while a { a = a - 1; } return a; }"), 4);
        assert_eq!(blocks("fn f() { while 1 { } return 3; }"), 3);
    }
}
