//! Register allocation by linear scan, after Poletto and Sarkar, "Linear scan register allocation" (1999).
//!
//! Instructions have positions in the order of the blocks: one reads at an even position and writes at the odd one
//! after it, so a register that is read for the last time may be written by the same instruction. A virtual register's
//! interval spans from the first to the last position where it may be live; two whose intervals meet never share a
//! location.

use super::ir::{Function, Reg};
use super::liveness::liveness;

/// How many machine registers there are.
pub const REGISTERS: usize = 6;

/// Where a virtual register lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Location {
    Register(usize),
    /// In the stack frame.
    Slot(usize),
}

/// The locations of a function's virtual registers; those that are never used have none.
pub struct Allocation {
    pub locations: Vec<Option<Location>>,
    /// How many slots the stack frame has.
    pub slots: usize,
}

#[derive(Clone, Copy, Debug)]
struct Interval {
    reg: Reg,
    first: usize,
    last: usize,
}

/// Gives each register that is used a location.
pub fn allocate(function: &Function) -> Allocation {
    let mut intervals = intervals(function);
    intervals.sort_by_key(|interval| (interval.first, interval.reg));
    let mut scan = Scan {
        free: (0..REGISTERS).rev().collect(),
        active: Vec::with_capacity(REGISTERS),
        result: Allocation { locations: vec![None; function.registers as usize], slots: 0 },
    };
    intervals.into_iter().for_each(|interval| scan.place(interval));
    scan.result
}

struct Scan {
    free: Vec<usize>,
    /// The intervals that hold a machine register now.
    active: Vec<(Interval, usize)>,
    result: Allocation,
}

impl Scan {
    fn place(&mut self, interval: Interval) {
        for (_, register) in self.active.extract_if(.., |(held, _)| held.last < interval.first) {
            self.free.push(register);
        }
        if let Some(register) = self.free.pop() {
            self.hold(interval, register);
            return;
        }
        // The one that is needed longest goes to the stack.
        let longest = (0..self.active.len()).max_by_key(|at| self.active[*at].0.last).expect("all registers are held");
        if self.active[longest].0.last > interval.last {
            let (spilled, register) = self.active.swap_remove(longest);
            self.spill(spilled.reg);
            self.hold(interval, register);
        } else {
            self.spill(interval.reg);
        }
    }

    fn hold(&mut self, interval: Interval, register: usize) {
        self.active.push((interval, register));
        self.result.locations[interval.reg as usize] = Some(Location::Register(register));
    }

    fn spill(&mut self, reg: Reg) {
        self.result.locations[reg as usize] = Some(Location::Slot(self.result.slots));
        self.result.slots += 1;
    }
}

fn intervals(function: &Function) -> Vec<Interval> {
    let mut spans: Vec<Option<(usize, usize)>> = vec![None; function.registers as usize];
    let mut extend = |reg: Reg, position: usize| {
        let (first, last) = spans[reg as usize].unwrap_or((position, position));
        spans[reg as usize] = Some((first.min(position), last.max(position)));
    };
    let live = liveness(function);
    // Parameters are written where the function begins, each even if it is never read.
    function.parameters.iter().for_each(|reg| extend(*reg, 0));
    let mut position = 2;
    for (block, (entering, leaving)) in function.blocks.iter().zip(live.entering.iter().zip(&live.leaving)) {
        entering.iter().for_each(|reg| extend(reg, position));
        for instruction in &block.instructions {
            instruction.action.reads().for_each(|reg| extend(reg, position));
            extend(instruction.to, position + 1);
            position += 2;
        }
        block.exit.reads().into_iter().for_each(|reg| extend(reg, position));
        leaving.iter().for_each(|reg| extend(reg, position + 1));
        position += 2;
    }
    let spans = spans.into_iter().zip(0..);
    spans.filter_map(|(span, reg)| span.map(|(first, last)| Interval { reg, first, last })).collect()
}

#[cfg(test)]
mod tests {
    use super::super::front_end;
    use super::*;

    fn allocated(text: &str) -> Allocation {
        allocate(&front_end(text).expect("it is well-formed")[0])
    }

    #[test]
    fn a_chain_of_results_shares_one_register() {
        let allocation = allocated("fn f(a) { return ((a + 1) * 2 - 3) * 4; }");
        assert_eq!(allocation.slots, 0);
        let used = allocation.locations.into_iter().flatten();
        assert!(used.into_iter().all(|location| location == Location::Register(0)));
    }

    #[test]
    fn what_is_needed_longest_is_spilled() {
        let allocation = allocated("fn f(a, b, c, d, e, g, h) { let x = b + c + d + e + g + h; return x * a; }");
        assert_eq!(allocation.slots, 1);
        assert_eq!(allocation.locations[0], Some(Location::Slot(0)));
    }
}
