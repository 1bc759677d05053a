//! A table: its rows in one tree, by key, and for each index another tree, whose keys are the indexed value and then
//! the row's key.

use super::evaluate::holds;
use super::statement::{Expr, Operator};
use super::tree::Tree;
use super::value::{Value, decode_row, encode_row, key, last_integer};

/// A row's values, the first of which is its key.
pub type Row = Vec<Value>;

/// A table.
pub struct Table {
    pub columns: Vec<String>,
    rows: Tree,
    indexes: Vec<Index>,
}

struct Index {
    column: usize,
    entries: Tree,
}

impl Table {
    /// A table without rows.
    pub fn new(columns: Vec<String>) -> Table {
        Table { columns, rows: Tree::new(), indexes: Vec::new() }
    }

    /// Indexes a column, of rows that are there and that will be.
    pub fn add_index(&mut self, column: usize) -> Result<(), String> {
        let mut index = Index { column, entries: Tree::new() };
        for (_, bytes) in self.rows.from(b"") {
            let entry = index.key(&decode_row(bytes));
            check_size(&entry, &[])?;
            index.entries.insert(&entry, &[]);
        }
        self.indexes.push(index);
        Ok(())
    }

    /// Inserts a row whose key is new.
    pub fn insert(&mut self, row: &[Value]) -> Result<(), String> {
        let (key, bytes) = (key_of(row)?, encode_row(row));
        if row.len() != self.columns.len() {
            return Err(format!("a row has {} values; the table has {} columns", row.len(), self.columns.len()));
        }
        if self.rows.get(&key).is_some() {
            return Err(format!("there is a row with the key {}", row[0]));
        }
        // Nothing is inserted anywhere unless all of it can be.
        let entries: Vec<Vec<u8>> = self.indexes.iter().map(|index| index.key(row)).collect();
        check_size(&key, &bytes)?;
        entries.iter().try_for_each(|entry| check_size(entry, &[]))?;
        self.rows.insert(&key, &bytes);
        for (index, entry) in self.indexes.iter_mut().zip(&entries) {
            index.entries.insert(entry, &[]);
        }
        Ok(())
    }

    /// Removes a row that is there.
    pub fn remove(&mut self, row: &[Value]) -> Result<(), String> {
        self.rows.remove(&key_of(row)?);
        for index in &mut self.indexes {
            index.entries.remove(&index.key(row));
        }
        Ok(())
    }

    /// The rows that a bound condition holds for, in the order of the way to them: by key, or by an index.
    pub fn matching(&self, condition: Option<&Expr>) -> Result<Vec<Row>, String> {
        let mut matching = Vec::new();
        for row in self.candidates(condition) {
            if holds(condition, &row)? {
                matching.push(row);
            }
        }
        Ok(matching)
    }

    /// Few rows among which are all that a condition holds for.
    fn candidates(&self, condition: Option<&Expr>) -> Box<dyn Iterator<Item = Row> + '_> {
        if let Some((index, value)) =
            self.indexes.iter().find_map(|index| Some((index, equal_to(condition?, index.column)?)))
        {
            return Box::new(index.keys_of(value).filter_map(|key| self.rows.get(&key).map(decode_row)));
        }
        let (first, last) = range_of_keys(condition);
        let (start, end) = (key(&[&Value::Integer(first)]), key(&[&Value::Integer(last)]));
        Box::new(
            self.rows.from(&start).take_while(move |(key, _)| *key <= &end[..]).map(|(_, bytes)| decode_row(bytes)),
        )
    }
}

impl Index {
    fn key(&self, row: &[Value]) -> Vec<u8> {
        key(&[&row[self.column], &row[0]])
    }

    /// The keys of the rows that have a value in the indexed column.
    fn keys_of<'t>(&'t self, value: &Value) -> impl Iterator<Item = Vec<u8>> + use<'t> {
        let start = key(&[value]);
        let entries = self.entries.from(&start).take_while(move |(entry, _)| entry.starts_with(&start));
        entries.map(|(entry, _)| key(&[&Value::Integer(last_integer(entry))]))
    }
}

fn check_size(key: &[u8], rest: &[u8]) -> Result<(), String> {
    if Tree::fits(key, rest) { Ok(()) } else { Err(format!("{} bytes fit into no page", key.len() + rest.len())) }
}

fn key_of(row: &[Value]) -> Result<Vec<u8>, String> {
    match row.first() {
        Some(first @ Value::Integer(_)) => Ok(key(&[first])),
        _ => Err("a row's first value is its key, an integer".into()),
    }
}

/// The comparisons that must all hold for a condition to hold: a column, how it compares, and with what.
fn comparisons<'e>(condition: &'e Expr, found: &mut Vec<(usize, Operator, &'e Value)>) {
    let Expr::Binary { operator, left, right } = condition else { return };
    match (operator, &**left, &**right) {
        (Operator::And, left, right) => {
            comparisons(left, found);
            comparisons(right, found);
        }
        (operator, Expr::Place(column), Expr::Literal(value)) => found.push((*column, *operator, value)),
        _ => {}
    }
}

/// The value that a column must equal for a condition to hold.
fn equal_to(condition: &Expr, column: usize) -> Option<&Value> {
    let mut found = Vec::new();
    comparisons(condition, &mut found);
    found.into_iter().find(|(other, operator, _)| (*other, *operator) == (column, Operator::Equal)).map(|found| found.2)
}

/// The first and the last key for which a condition may hold.
fn range_of_keys(condition: Option<&Expr>) -> (i64, i64) {
    let mut found = Vec::new();
    if let Some(condition) = condition {
        comparisons(condition, &mut found);
    }
    let (mut first, mut last) = (i64::MIN, i64::MAX);
    for (column, operator, value) in found {
        let (0, Value::Integer(number)) = (column, value) else { continue };
        match operator {
            Operator::Equal => (first, last) = (first.max(*number), last.min(*number)),
            Operator::Greater | Operator::GreaterOrEqual => first = first.max(*number),
            Operator::Less | Operator::LessOrEqual => last = last.min(*number),
            _ => {}
        }
    }
    (first, last)
}

#[cfg(test)]
mod tests {
    use super::super::evaluate::bind;
    use super::super::parse;
    use super::super::statement::Statement;
    use super::*;
    use fastrand::Rng;

    fn row(id: i64, group: i64, name: &str) -> Row {
        vec![Value::Integer(id), Value::Integer(group), Value::Text(name.to_owned())]
    }

    fn condition(text: &str, table: &Table) -> Expr {
        let Ok(Statement::Delete { condition: Some(mut condition), .. }) =
            parse::statement(&format!("DELETE FROM t WHERE {text}"))
        else {
            panic!("{text} is well-formed");
        };
        bind(&mut condition, &table.columns).expect("the columns exist");
        condition
    }

    fn filled() -> Table {
        let mut table = Table::new(["id", "kind", "name"].map(str::to_owned).to_vec());
        table.add_index(1).expect("there are no rows");
        for id in 0..500 {
            table.insert(&row(id * 2, id % 7, &format!("name {}", id % 13))).expect("the key is new");
        }
        table.add_index(2).expect("the names are short");
        table
    }

    #[test]
    fn every_way_to_the_rows_finds_all_and_no_others() {
        let table = filled();
        let all: Vec<Row> = table.matching(None).expect("nothing is asked");
        assert_eq!(all.len(), 500);
        for (text, ways) in [
            ("id = 40", 1),
            ("id >= 100 and 3 < 4 and id < 200", 51),
            ("kind = 3", 72),
            ("kind = 3 and id > 500", 72),
            ("name = 'name 5' and kind = 2", 72),
            ("name like '%5' or kind = 2", 500),
            ("id > 10 and id < 5", 0),
        ] {
            let condition = condition(text, &table);
            let mut found = table.matching(Some(&condition)).expect("it can be evaluated");
            found.sort();
            let expected: Vec<Row> =
                all.iter().filter(|row| holds(Some(&condition), row) == Ok(true)).cloned().collect();
            assert_eq!(found, expected, "{text}");
            assert!(table.candidates(Some(&condition)).count() <= ways, "{text} looks at few rows");
        }
    }

    #[test]
    fn indexes_follow_the_rows() {
        let mut rng = Rng::with_seed(1);
        let mut table = filled();
        for _ in 0..2000 {
            let id = rng.i64(0..1000);
            let same_key = condition(&format!("id = {id}"), &table);
            match table.matching(Some(&same_key)).expect("it can be evaluated").pop() {
                Some(old) => table.remove(&old).expect("it has a key"),
                None => table.insert(&row(id, rng.i64(0..7), "x")).expect("the key is new"),
            }
        }
        let all = table.matching(None).expect("nothing is asked");
        for index in &table.indexes {
            let entries: Vec<Vec<u8>> = index.entries.from(b"").map(|(key, _)| key.to_vec()).collect();
            let mut expected: Vec<Vec<u8>> = all.iter().map(|row| index.key(row)).collect();
            expected.sort();
            assert_eq!(entries, expected);
        }
    }

    #[test]
    fn rows_that_cannot_be_are_refused() {
        let mut table = filled();
        for (bad, expected) in [
            (row(4, 1, "again"), "the key 4"),
            (row(1, 1, "")[..2].to_vec(), "2 values"),
            (row(1, 1, &"long".repeat(300)), "no page"),
            (vec![Value::Text("a".to_owned())], "an integer"),
        ] {
            let why = table.insert(&bad).expect_err("it is bad");
            assert!(why.contains(expected), "{why}");
        }
        assert_eq!(table.matching(None).map(|rows| rows.len()), Ok(500));
    }
}
