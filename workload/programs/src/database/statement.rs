//! Statements and expressions, as the parser makes them.

use super::value::Value;

/// A statement. Names are text; the table that they belong to knows what they mean.
#[derive(Debug, PartialEq)]
pub enum Statement {
    /// `CREATE TABLE name (column, ...)`; the first column is the key, an integer.
    CreateTable {
        table: String,
        columns: Vec<String>,
    },
    /// `CREATE INDEX ON name (column)`
    CreateIndex {
        table: String,
        column: String,
    },
    /// `INSERT INTO name VALUES (value, ...), ...`
    Insert {
        table: String,
        rows: Vec<Vec<Expr>>,
    },
    Select(Select),
    /// `UPDATE name SET column = value, ... WHERE condition`
    Update {
        table: String,
        changes: Vec<(String, Expr)>,
        condition: Option<Expr>,
    },
    /// `DELETE FROM name WHERE condition`
    Delete {
        table: String,
        condition: Option<Expr>,
    },
}

/// `SELECT columns FROM name WHERE condition GROUP BY group ORDER BY order [DESC] LIMIT limit`
#[derive(Debug, PartialEq)]
pub struct Select {
    /// Empty for `*`.
    pub columns: Vec<Output>,
    pub table: String,
    pub condition: Option<Expr>,
    pub group: Option<Expr>,
    pub order: Option<Order>,
    pub limit: Option<usize>,
}

/// What a query gives for each row or, if there is a group, for each group.
#[derive(Debug, PartialEq)]
pub enum Output {
    /// Of a group, its first row's.
    Value(Expr),
    Sum(Expr),
    Count,
}

/// By which output, and in which direction.
#[derive(Debug, PartialEq)]
pub struct Order {
    pub by: Output,
    pub descending: bool,
}

/// An expression of one row's columns.
#[derive(Debug, PartialEq)]
pub enum Expr {
    Literal(Value),
    Column(String),
    /// A column's place in the row, instead of its name.
    Place(usize),
    Not(Box<Expr>),
    Binary {
        operator: Operator,
        left: Box<Expr>,
        right: Box<Expr>,
    },
}

/// An operator with two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    Or,
    And,
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    /// `%` stands for any text.
    Like,
    Join,
    Add,
    Subtract,
    Multiply,
}
