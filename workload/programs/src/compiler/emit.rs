//! Assembly text, in the manner of x86-64. Two machine registers, `rax` and `rcx`, are kept for operands that live in
//! the stack frame.

use std::fmt::Write;

use super::allocate::{Allocation, Location, REGISTERS};
use super::ir::{Action, Block, Exit, Function, Instruction, Label, Operand, Reg};

const NAMES: [&str; REGISTERS] = ["rbx", "rsi", "rdi", "r8", "r9", "r10"];

/// Writes one function's text at the end of `out`.
pub fn function(function: &Function, allocation: &Allocation, out: &mut String) {
    let mut emitter = Emitter { name: &function.name, allocation, out };
    emitter.prologue(&function.parameters);
    for (label, block) in function.blocks.iter().enumerate() {
        emitter.block(label, block);
    }
}

struct Emitter<'e> {
    name: &'e str,
    allocation: &'e Allocation,
    out: &'e mut String,
}

impl Emitter<'_> {
    fn line(&mut self, operation: &str, operands: &[&str]) {
        let text = format!("{operation:7} {}", operands.join(", "));
        // Writing to a string never fails.
        _ = writeln!(self.out, "    {}", text.trim_end());
    }

    fn prologue(&mut self, parameters: &[Reg]) {
        _ = writeln!(self.out, "{}:", self.name);
        self.line("enter", &[&(8 * self.allocation.slots).to_string()]);
        for (place, reg) in parameters.iter().enumerate() {
            let to = self.location(*reg);
            self.line("mov", &[&to, &format!("[rbp+{}]", 16 + 8 * place)]);
        }
    }

    fn block(&mut self, label: Label, block: &Block) {
        _ = writeln!(self.out, "{}:", self.label(label));
        for instruction in &block.instructions {
            self.instruction(instruction);
        }
        match block.exit {
            Exit::Jump(to) if to == label + 1 => {}
            Exit::Jump(to) => self.line("jmp", &[&self.label(to)]),
            Exit::Branch(condition, yes, no) => {
                let condition = self.operand(condition);
                self.line("mov", &["rax", &condition]);
                self.line("test", &["rax", "rax"]);
                self.line("jnz", &[&self.label(yes)]);
                if no != label + 1 {
                    self.line("jmp", &[&self.label(no)]);
                }
            }
            Exit::Return(value) => {
                let value = self.operand(value);
                self.line("mov", &["rax", &value]);
                self.line("leave", &[]);
                self.line("ret", &[]);
            }
        }
    }

    fn instruction(&mut self, instruction: &Instruction) {
        let to = self.location(instruction.to);
        match &instruction.action {
            Action::Copy(from) => {
                let from = self.operand(*from);
                self.load_and_store(&to, &from);
            }
            Action::Binary { operator, left, right } => {
                let (left, right) = (self.operand(*left), self.operand(*right));
                self.line("mov", &["rax", &left]);
                self.line("mov", &["rcx", &right]);
                self.line(operator.mnemonic(), &["rax", "rcx"]);
                self.line("mov", &[&to, "rax"]);
            }
            Action::Call { function, arguments } => {
                for argument in arguments.iter().rev() {
                    let argument = self.operand(*argument);
                    self.line("push", &[&argument]);
                }
                self.line("call", &[function]);
                self.line("add", &["rsp", &(8 * arguments.len()).to_string()]);
                self.line("mov", &[&to, "rax"]);
            }
        }
    }

    /// A move, by way of `rax` if both are in memory.
    fn load_and_store(&mut self, to: &str, from: &str) {
        if to == from {
            return;
        }
        if to.starts_with('[') && from.starts_with('[') {
            self.line("mov", &["rax", from]);
            self.line("mov", &[to, "rax"]);
        } else {
            self.line("mov", &[to, from]);
        }
    }

    fn operand(&self, operand: Operand) -> String {
        match operand {
            Operand::Number(number) => number.to_string(),
            Operand::Reg(reg) => self.location(reg),
        }
    }

    fn location(&self, reg: Reg) -> String {
        match self.allocation.locations[reg as usize].expect("what is used has a location") {
            Location::Register(register) => NAMES[register].to_owned(),
            Location::Slot(slot) => format!("[rbp-{}]", 8 * (slot + 1)),
        }
    }

    fn label(&self, label: Label) -> String {
        format!(".{}_{label}", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::super::compile;

    #[test]
    fn a_function_reads_as_it_should() {
        let text = compile(
            "const N = 2 * 3;
             fn f(a) { let unused = a; if N < 4 { return 0; } return g(a * N); }
             fn g(a) { return a; }",
        );
        let expected = "\
f:
    enter   0
    mov     rbx, [rbp+16]
.f_0:
    mov     rax, rbx
    mov     rcx, 6
    imul    rax, rcx
    mov     rbx, rax
    push    rbx
    call    g
    add     rsp, 8
    mov     rbx, rax
    mov     rax, rbx
    leave
    ret
";
        let text = text.expect("it is well-formed");
        let first = text.split("g:\n").next().expect("there is a text");
        assert_eq!(first, expected);
    }
}
