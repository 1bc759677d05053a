//! Evaluating expressions on a row.

use super::statement::{Expr, Operator};
use super::value::Value;

/// Replaces the names of columns by their places.
pub fn bind(expr: &mut Expr, columns: &[String]) -> Result<(), String> {
    match expr {
        Expr::Literal(_) | Expr::Place(_) => Ok(()),
        Expr::Not(inner) => bind(inner, columns),
        Expr::Binary { left, right, .. } => {
            bind(left, columns)?;
            bind(right, columns)
        }
        Expr::Column(name) => {
            let place = columns.iter().position(|column| column == name);
            *expr = Expr::Place(place.ok_or_else(|| format!("there is no column `{name}`"))?);
            Ok(())
        }
    }
}

/// The value of an expression whose columns are bound. Texts count as 0 in arithmetic.
pub fn evaluate(expr: &Expr, row: &[Value]) -> Result<Value, String> {
    match expr {
        Expr::Literal(value) => Ok(value.clone()),
        Expr::Place(place) => Ok(row[*place].clone()),
        Expr::Column(name) => Err(format!("`{name}` stands where no row is")),
        Expr::Not(inner) => Ok(truth(!evaluate(inner, row)?.is_true())),
        Expr::Binary { operator: Operator::And, left, right } => {
            Ok(truth(evaluate(left, row)?.is_true() && evaluate(right, row)?.is_true()))
        }
        Expr::Binary { operator: Operator::Or, left, right } => {
            Ok(truth(evaluate(left, row)?.is_true() || evaluate(right, row)?.is_true()))
        }
        Expr::Binary { operator, left, right } => Ok(apply(*operator, &evaluate(left, row)?, &evaluate(right, row)?)),
    }
}

/// Whether a condition holds for a row; none always does.
pub fn holds(condition: Option<&Expr>, row: &[Value]) -> Result<bool, String> {
    condition.map_or(Ok(true), |condition| Ok(evaluate(condition, row)?.is_true()))
}

fn truth(holds: bool) -> Value {
    Value::Integer(i64::from(holds))
}

fn apply(operator: Operator, left: &Value, right: &Value) -> Value {
    use Operator::*;
    let arithmetic = |compute: fn(i64, i64) -> i64| {
        Value::Integer(compute(left.integer().unwrap_or(0), right.integer().unwrap_or(0)))
    };
    match operator {
        Equal => truth(left == right),
        Unequal => truth(left != right),
        Less => truth(left < right),
        LessOrEqual => truth(left <= right),
        Greater => truth(left > right),
        GreaterOrEqual => truth(left >= right),
        And => truth(left.is_true() && right.is_true()),
        Or => truth(left.is_true() || right.is_true()),
        Like => truth(is_like(&left.to_string(), &right.to_string())),
        Join => Value::Text(format!("{left}{right}")),
        Add => arithmetic(i64::wrapping_add),
        Subtract => arithmetic(i64::wrapping_sub),
        Multiply => arithmetic(i64::wrapping_mul),
    }
}

/// Whether a text has the pieces of a pattern in their order, where each `%` stands for anything between two of them.
fn is_like(text: &str, pattern: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('%') else { return text == pattern };
    let (middle, last) = rest.rsplit_once('%').unwrap_or(("", rest));
    let Some(text) = text.strip_prefix(first).and_then(|text| text.strip_suffix(last)) else { return false };
    let mut rest = text;
    middle.split('%').all(|piece| match rest.split_once(piece) {
        Some((_, after)) => {
            rest = after;
            true
        }
        None => false,
    })
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::super::statement::Statement;
    use super::*;

    fn value(text: &str) -> Value {
        let columns = ["n", "t"].map(str::to_owned);
        let row = [Value::Integer(7), Value::Text("seven".to_owned())];
        let Ok(Statement::Insert { mut rows, .. }) = parse::statement(&format!("INSERT INTO x VALUES ({text})")) else {
            panic!("{text} is well-formed");
        };
        bind(&mut rows[0][0], &columns).expect("the columns exist");
        evaluate(&rows[0][0], &row).expect("there is a row")
    }

    #[test]
    fn operators_compute() {
        for (text, expected) in
            [("n * 2 - 4", 10), ("n = 7 and t = 'seven'", 1), ("not n > 3 or n <> 7", 0), ("n >= 7", 1), ("-n + t", -7)]
        {
            assert_eq!(value(text), Value::Integer(expected), "{text}");
        }
        assert_eq!(value("t || '-' || n"), Value::Text("seven-7".to_owned()));
    }

    #[test]
    fn patterns_match_from_end_to_end() {
        for (pattern, expected) in [
            ("seven", true),
            ("seve", false),
            ("s%", true),
            ("%en", true),
            ("%v%", true),
            ("s%e%n", true),
            ("%e%e%", true),
            ("%e%e%e%", false),
            ("seven%seven", false),
            ("%", true),
        ] {
            assert_eq!(value(&format!("t like '{pattern}'")).is_true(), expected, "{pattern}");
        }
    }

    #[test]
    fn unknown_columns_are_named() {
        let mut expr = Expr::Column("size".to_owned());
        assert!(bind(&mut expr, &["n".to_owned()]).expect_err("there is none").contains("`size`"));
    }
}
