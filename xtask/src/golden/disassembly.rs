//! Paths through a function, read from what `nm` and `objdump` print.

use std::collections::BTreeMap;
use std::ops::Range;

/// A function that the library exports.
#[derive(Debug, PartialEq)]
pub struct Symbol {
    pub name: String,
    pub code: Range<u64>,
}

/// The functions in the output of `nm -D -S --defined-only`.
pub fn symbols(listing: &str) -> Vec<Symbol> {
    let parse = |line: &str| {
        let mut words = line.split_whitespace();
        let start = u64::from_str_radix(words.next()?, 16).ok()?;
        let bytes = u64::from_str_radix(words.next()?, 16).ok()?;
        let is_code = ["T", "t", "W", "w", "i"].contains(&words.next()?);
        // A versioned symbol reads `name@@VERSION`.
        let name = words.next()?.split('@').next()?.to_owned();
        is_code.then_some(Symbol { name, code: start..start + bytes })
    };
    listing.lines().filter_map(parse).collect()
}

/// All instructions of a library, by address.
pub struct Disassembly(BTreeMap<u64, String>);

impl Disassembly {
    /// Reads the output of `objdump -d --no-show-raw-insn`.
    pub fn parse(listing: &str) -> Self {
        let instruction = |line: &str| {
            let (address, text) = line.split_once(":\t")?;
            let address = u64::from_str_radix(address.trim(), 16).ok()?;
            Some((address, text.trim().to_owned()))
        };
        Self(listing.lines().filter_map(instruction).collect())
    }

    /// The instructions from the function's first one to its return, with no conditional jump taken but those that `taken` numbers, which
    /// are counted from 1 along the path: compilers put what is unlikely behind a taken jump. The path may not call, nor leave the function.
    pub fn fast_path(&self, symbol: &Symbol, taken: &[usize]) -> Result<Vec<String>, String> {
        let name = &symbol.name;
        let mut path = Vec::new();
        let mut address = symbol.code.start;
        let mut jumps = 0;
        // Each instruction has a byte at least, so that a longer path goes in circles.
        while path.len() as u64 <= symbol.code.end - symbol.code.start {
            let text = self.0.get(&address).filter(|_| symbol.code.contains(&address));
            let text = text.ok_or_else(|| stray(name, "runs out of its code", &path))?;
            path.push(format!("{address:8x}:  {text}"));
            match Step::of(text) {
                Step::Return if taken.iter().any(|number| *number > jumps) => {
                    return Err(stray(name, "has fewer conditional jumps than it is to take", &path));
                }
                Step::Return => return Ok(path),
                Step::Stray(why) => return Err(stray(name, why, &path)),
                Step::Jump(target) => address = target,
                Step::Either(target) => {
                    jumps += 1;
                    address = if taken.contains(&jumps) { target } else { self.behind(address, name, &path)? };
                }
                Step::Next => address = self.behind(address, name, &path)?,
            }
        }
        Err(stray(name, "goes in circles", &path))
    }

    /// The address of the next instruction.
    fn behind(&self, address: u64, name: &str, path: &[String]) -> Result<u64, String> {
        let next = self.0.range(address + 1..).next();
        Ok(*next.ok_or_else(|| stray(name, "ends without a return", path))?.0)
    }
}

fn stray(name: &str, why: &str, path: &[String]) -> String {
    format!("the fast path of {name} {why}:\n{}", path.join("\n"))
}

/// Where the fast path goes from an instruction.
enum Step {
    Next,
    Jump(u64),
    /// There, or to the next instruction.
    Either(u64),
    Return,
    Stray(&'static str),
}

impl Step {
    fn of(instruction: &str) -> Self {
        let mut words = instruction.split_whitespace().filter(|word| !["bnd", "notrack", "repz", "rep"].contains(word));
        let operation = words.next().unwrap_or_default();
        let target = words.next().and_then(|word| u64::from_str_radix(word, 16).ok());
        match operation {
            "ret" | "retq" => Self::Return,
            "call" | "callq" => Self::Stray("makes a call"),
            "ud2" | "hlt" | "int3" | "(bad)" => Self::Stray("ends in a trap"),
            "jmp" | "jmpq" => target.map_or(Self::Stray("makes an indirect jump"), Self::Jump),
            conditional if conditional.starts_with('j') => target.map_or(Self::Next, Self::Either),
            _ => Self::Next,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The path through instructions that lie one byte apart from address 0x1000.
    fn path(instructions: &[&str], taken: &[usize]) -> Result<Vec<String>, String> {
        let lines = instructions.iter().enumerate().map(|(index, text)| format!("    {:x}:\t{text}\n", 0x1000 + index));
        let code = Disassembly::parse(&("\n0000000000001000 <malloc>:\n".to_owned() + &lines.collect::<String>()));
        let name = "malloc".to_owned();
        code.fast_path(&Symbol { name, code: 0x1000..0x1000 + instructions.len() as u64 }, taken)
    }

    #[test]
    fn listing_of_symbols_is_read() {
        let listing = "0000000000001000 0000000000000056 T malloc\n0000000000002000 0000000000000010 W free@@V1\n\
                       0000000000003000 0000000000000006 R commensal_version\n";
        let expected = [("malloc", 0x1000..0x1056), ("free", 0x2000..0x2010)];
        let expected = expected.map(|(name, code)| Symbol { name: name.to_owned(), code });
        assert_eq!(symbols(listing), expected);
    }

    #[test]
    fn conditional_jumps_fall_through_and_the_return_ends_the_path() {
        let straight = [
            "endbr64",
            "test   %al,%al",
            "je     1009 <malloc+0x9>",
            "lock add %rax,(%rdi)",
            "repz ret",
            "call   2000 <slow>",
        ];
        assert_eq!(path(&straight, &[]).unwrap().len(), 5);
    }

    #[test]
    fn jump_within_the_function_is_followed() {
        let skipping = ["jmp    1003 <malloc+0x3>", "ud2", "ud2", "bnd ret"];
        assert_eq!(path(&skipping, &[]).unwrap().len(), 2);
    }

    #[test]
    fn conditional_jumps_with_the_given_numbers_are_taken() {
        let branching = ["jne    1002 <malloc+0x2>", "ret", "js     1005 <malloc+0x5>", "nop", "ret", "ret"];
        assert_eq!(path(&branching, &[]).unwrap().len(), 2);
        assert_eq!(path(&branching, &[1]).unwrap().len(), 4);
        assert_eq!(path(&branching, &[1, 2]).unwrap().len(), 3);
        assert!(path(&branching, &[2]).unwrap_err().contains("fewer conditional jumps"));
    }

    #[test]
    fn code_that_is_not_a_fast_path_is_refused() {
        let planted: [(&[&str], &str); 6] = [
            (&["call   2000 <slow>", "ret"], "makes a call"),
            (&["jmp    2000 <slow>", "ret"], "runs out of its code"),
            (&["jmp    *%rax", "ret"], "makes an indirect jump"),
            (&["mov    %rax,%rbx", "jmp    1000 <malloc>"], "goes in circles"),
            (&["mov    %rax,%rbx"], "ends without a return"),
            (&["ud2"], "ends in a trap"),
        ];
        for (code, why) in planted {
            assert!(path(code, &[]).unwrap_err().contains(why), "{code:?}");
        }
    }
}
