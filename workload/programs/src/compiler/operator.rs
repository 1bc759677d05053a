//! The operators, from source to assembly, and what they compute.
//!
//! [`Operator::apply`] is the only definition of their meaning: the optimizer folds with it, and the tests interpret
//! with it.

/// An operator with two operands, each a 64-bit integer. Comparisons give 1 or 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Less,
    LessOrEqual,
    Equal,
    Unequal,
}

use Operator::*;

/// How an operator is written, how tightly it binds, and its instruction.
const TABLE: [(Operator, &str, u8, &str); 9] = [
    (Multiply, "*", 5, "imul"),
    (Divide, "/", 5, "idiv"),
    (Remainder, "%", 5, "irem"),
    (Add, "+", 4, "add"),
    (Subtract, "-", 4, "sub"),
    (Less, "<", 3, "setl"),
    (LessOrEqual, "<=", 3, "setle"),
    (Equal, "==", 2, "sete"),
    (Unequal, "!=", 2, "setne"),
];

impl Operator {
    /// The operator written so, and how tightly it binds.
    pub fn from_symbol(symbol: &str) -> Option<(Operator, u8)> {
        let row = TABLE.iter().find(|(_, written, ..)| *written == symbol)?;
        Some((row.0, row.2))
    }

    /// Its name in assembly.
    pub fn mnemonic(self) -> &'static str {
        TABLE.iter().find(|row| row.0 == self).expect("every operator has a row").3
    }

    /// Its result. Arithmetic wraps around, and dividing by zero gives zero, so that every program has a meaning.
    pub fn apply(self, left: i64, right: i64) -> i64 {
        match self {
            Add => left.wrapping_add(right),
            Subtract => left.wrapping_sub(right),
            Multiply => left.wrapping_mul(right),
            Divide if right == 0 => 0,
            Divide => left.wrapping_div(right),
            Remainder if right == 0 => 0,
            Remainder => left.wrapping_rem(right),
            Less => i64::from(left < right),
            LessOrEqual => i64::from(left <= right),
            Equal => i64::from(left == right),
            Unequal => i64::from(left != right),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operator_has_one_row() {
        for operator in [Add, Subtract, Multiply, Divide, Remainder, Less, LessOrEqual, Equal, Unequal] {
            assert_eq!(TABLE.iter().filter(|row| row.0 == operator).count(), 1, "{operator:?}");
            assert!(!operator.mnemonic().is_empty());
        }
    }

    #[test]
    fn nothing_overflows_or_traps() {
        assert_eq!(Divide.apply(7, 0), 0);
        assert_eq!(Remainder.apply(7, 0), 0);
        assert_eq!(Divide.apply(i64::MIN, -1), i64::MIN);
        assert_eq!(Remainder.apply(i64::MIN, -1), 0);
        assert_eq!(Add.apply(i64::MAX, 1), i64::MIN);
    }
}
