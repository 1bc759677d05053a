//! The parser of statements, by recursive descent. Each statement is parsed anew, as for an application that prepares
//! none.

use super::statement::{Expr, Operator, Order, Output, Select, Statement};
use super::token::{Token, tokens};
use super::value::Value;

/// How operators are written, the loosest first; those of one level are joined from left to right.
const LEVELS: [&[(&str, Operator)]; 5] = [
    &[("or", Operator::Or)],
    &[("and", Operator::And)],
    &[
        ("=", Operator::Equal),
        ("<>", Operator::Unequal),
        ("<", Operator::Less),
        ("<=", Operator::LessOrEqual),
        (">", Operator::Greater),
        (">=", Operator::GreaterOrEqual),
        ("like", Operator::Like),
    ],
    &[("+", Operator::Add), ("-", Operator::Subtract), ("||", Operator::Join)],
    &[("*", Operator::Multiply)],
];

/// Parses one statement.
pub fn statement(text: &str) -> Result<Statement, String> {
    let mut parser = Parser { tokens: tokens(text)?, at: 0 };
    let statement = parser.statement()?;
    parser.takes(";");
    if parser.at == parser.tokens.len() { Ok(statement) } else { Err(parser.unexpected("the end")) }
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
}

impl Parser {
    fn statement(&mut self) -> Result<Statement, String> {
        let word = self.word()?;
        match word.as_str() {
            "create" => self.create(),
            "insert" => self.insert(),
            "select" => Ok(Statement::Select(self.select()?)),
            "update" => self.update(),
            "delete" => {
                self.expect("from")?;
                Ok(Statement::Delete { table: self.word()?, condition: self.condition()? })
            }
            _ => Err(format!("`{word}` begins no statement")),
        }
    }

    fn create(&mut self) -> Result<Statement, String> {
        if self.takes("index") {
            self.expect("on")?;
            let table = self.word()?;
            self.expect("(")?;
            let column = self.word()?;
            self.expect(")")?;
            return Ok(Statement::CreateIndex { table, column });
        }
        self.expect("table")?;
        let table = self.word()?;
        self.expect("(")?;
        let columns = self.list(|parser| parser.word())?;
        self.expect(")")?;
        Ok(Statement::CreateTable { table, columns })
    }

    fn insert(&mut self) -> Result<Statement, String> {
        self.expect("into")?;
        let table = self.word()?;
        self.expect("values")?;
        let rows = self.list(|parser| {
            parser.expect("(")?;
            let row = parser.list(|parser| parser.expression(0))?;
            parser.expect(")")?;
            Ok(row)
        })?;
        Ok(Statement::Insert { table, rows })
    }

    fn update(&mut self) -> Result<Statement, String> {
        let table = self.word()?;
        self.expect("set")?;
        let changes = self.list(|parser| {
            let column = parser.word()?;
            parser.expect("=")?;
            Ok((column, parser.expression(0)?))
        })?;
        Ok(Statement::Update { table, changes, condition: self.condition()? })
    }

    fn select(&mut self) -> Result<Select, String> {
        let columns = if self.takes("*") { Vec::new() } else { self.list(Parser::output)? };
        self.expect("from")?;
        let table = self.word()?;
        let condition = self.condition()?;
        let group = self.takes_both("group", "by")?.then(|| self.expression(0)).transpose()?;
        let order = self.takes_both("order", "by")?.then(|| self.order()).transpose()?;
        let limit = if self.takes("limit") { Some(self.limit()?) } else { None };
        Ok(Select { columns, table, condition, group, order, limit })
    }

    fn output(&mut self) -> Result<Output, String> {
        if self.takes("count") {
            ["(", "*", ")"].iter().try_for_each(|symbol| self.expect(symbol))?;
            return Ok(Output::Count);
        }
        if self.takes("sum") {
            self.expect("(")?;
            let summed = self.expression(0)?;
            self.expect(")")?;
            return Ok(Output::Sum(summed));
        }
        Ok(Output::Value(self.expression(0)?))
    }

    fn order(&mut self) -> Result<Order, String> {
        Ok(Order { by: self.output()?, descending: self.takes("desc") })
    }

    fn limit(&mut self) -> Result<usize, String> {
        let Some(Token::Number(number)) = self.tokens.get(self.at) else { return Err(self.unexpected("a number")) };
        self.at += 1;
        Ok(*number as usize)
    }

    fn condition(&mut self) -> Result<Option<Expr>, String> {
        if self.takes("where") { self.expression(0).map(Some) } else { Ok(None) }
    }

    /// An expression of operators of a level and the tighter ones.
    fn expression(&mut self, level: usize) -> Result<Expr, String> {
        let Some(operators) = LEVELS.get(level) else { return self.primary() };
        let mut left = self.expression(level + 1)?;
        while let Some((_, operator)) = operators.iter().find(|(written, _)| self.takes(written)) {
            let right = Box::new(self.expression(level + 1)?);
            left = Expr::Binary { operator: *operator, left: Box::new(left), right };
        }
        Ok(left)
    }

    fn primary(&mut self) -> Result<Expr, String> {
        if self.takes("not") {
            return Ok(Expr::Not(Box::new(self.expression(2)?)));
        }
        if self.takes("(") {
            let inner = self.expression(0)?;
            self.expect(")")?;
            return Ok(inner);
        }
        if self.takes("-") {
            let (left, right) = (Box::new(Expr::Literal(Value::Integer(0))), Box::new(self.primary()?));
            return Ok(Expr::Binary { operator: Operator::Subtract, left, right });
        }
        let expr = match self.tokens.get_mut(self.at) {
            Some(Token::Number(number)) => Expr::Literal(Value::Integer(*number)),
            // Nobody looks back.
            Some(Token::Text(text)) => Expr::Literal(Value::Text(std::mem::take(text))),
            Some(Token::Word(word)) => Expr::Column(std::mem::take(word)),
            _ => return Err(self.unexpected("an expression")),
        };
        self.at += 1;
        Ok(expr)
    }

    /// One or more of something, with commas between them.
    fn list<T>(&mut self, mut item: impl FnMut(&mut Parser) -> Result<T, String>) -> Result<Vec<T>, String> {
        let mut items = vec![item(self)?];
        while self.takes(",") {
            items.push(item(self)?);
        }
        Ok(items)
    }

    fn word(&mut self) -> Result<String, String> {
        let Some(Token::Word(word)) = self.tokens.get_mut(self.at) else { return Err(self.unexpected("a name")) };
        self.at += 1;
        Ok(std::mem::take(word))
    }

    /// Takes a keyword or a symbol, if it is the next token.
    fn takes(&mut self, expected: &str) -> bool {
        let found = match self.tokens.get(self.at) {
            Some(Token::Word(word)) => word == expected,
            Some(Token::Symbol(symbol)) => *symbol == expected,
            _ => false,
        };
        self.at += usize::from(found);
        found
    }

    /// Takes two keywords, the second of which must follow the first.
    fn takes_both(&mut self, first: &str, second: &str) -> Result<bool, String> {
        let found = self.takes(first);
        if found {
            self.expect(second)?;
        }
        Ok(found)
    }

    fn expect(&mut self, expected: &str) -> Result<(), String> {
        if self.takes(expected) { Ok(()) } else { Err(self.unexpected(expected)) }
    }

    fn unexpected(&self, expected: &str) -> String {
        match self.tokens.get(self.at) {
            Some(token) => format!("found {token:?}; expected {expected}"),
            None => format!("the statement ends; expected {expected}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn literal(number: i64) -> Expr {
        Expr::Literal(Value::Integer(number))
    }

    fn column(name: &str) -> Expr {
        Expr::Column(name.to_owned())
    }

    fn binary(operator: Operator, left: Expr, right: Expr) -> Expr {
        Expr::Binary { operator, left: Box::new(left), right: Box::new(right) }
    }

    #[test]
    fn operators_bind_as_usual() {
        let Ok(Statement::Delete { condition, .. }) = statement("DELETE FROM t WHERE a + 2 * 3 < b AND NOT c = 1 OR d")
        else {
            panic!("it is well-formed");
        };
        let sum = binary(Operator::Add, column("a"), binary(Operator::Multiply, literal(2), literal(3)));
        let not = Expr::Not(Box::new(binary(Operator::Equal, column("c"), literal(1))));
        let and = binary(Operator::And, binary(Operator::Less, sum, column("b")), not);
        assert_eq!(condition, Some(binary(Operator::Or, and, column("d"))));
    }

    #[test]
    fn a_query_has_all_its_parts() {
        let text = "select a, sum(b), count(*) from t where a > 1 group by a order by sum(b) desc limit 5;";
        let expected = Select {
            columns: vec![Output::Value(column("a")), Output::Sum(column("b")), Output::Count],
            table: "t".to_owned(),
            condition: Some(binary(Operator::Greater, column("a"), literal(1))),
            group: Some(column("a")),
            order: Some(Order { by: Output::Sum(column("b")), descending: true }),
            limit: Some(5),
        };
        assert_eq!(statement(text), Ok(Statement::Select(expected)));
    }

    #[test]
    fn lists_of_rows_and_changes() {
        let rows = vec![vec![literal(1), literal(2)], vec![literal(3), literal(4)]];
        let insert = Statement::Insert { table: "t".to_owned(), rows };
        assert_eq!(statement("INSERT INTO t VALUES (1, 2), (3, 4)"), Ok(insert));
        let Ok(Statement::Update { changes, condition: None, .. }) = statement("UPDATE t SET a = 1, b = a") else {
            panic!("it is well-formed");
        };
        assert_eq!(changes, [("a".to_owned(), literal(1)), ("b".to_owned(), column("a"))]);
    }

    #[test]
    fn mistakes_are_named() {
        for (text, expected) in [
            ("DROP TABLE t", "begins no statement"),
            ("SELECT * t", "expected from"),
            ("DELETE FROM t WHERE", "expected an expression"),
            ("INSERT INTO t VALUES (1", "expected )"),
            ("UPDATE t SET a = 1 b", "expected the end"),
        ] {
            let why = statement(text).expect_err("it is wrong");
            assert!(why.contains(expected), "{text}: {why}");
        }
    }
}
