//! The database: its tables by name, and what statements do to them.
//!
//! There are no transactions: a statement that fails in the middle leaves what it did.

use super::evaluate::{bind, evaluate};
use super::parse;
use super::statement::{Expr, Output, Select, Statement};
use super::table::{Row, Table};
use super::value::Value;
use crate::map::Map;

/// Tables by name.
#[derive(Default)]
pub struct Database {
    tables: Map<String, Table>,
}

impl Database {
    /// Parses a statement and executes it. A query gives its rows, any other statement one row: how many rows it was
    /// about.
    pub fn execute(&mut self, text: &str) -> Result<Vec<Row>, String> {
        let count = match parse::statement(text)? {
            Statement::Select(query) => return self.select(query),
            Statement::CreateTable { table, columns } => self.create_table(table, columns)?,
            Statement::CreateIndex { table, column } => self.create_index(&table, &column)?,
            Statement::Insert { table, rows } => self.insert(&table, &rows)?,
            Statement::Update { table, changes, condition } => self.update(&table, changes, condition)?,
            Statement::Delete { table, condition } => self.delete(&table, condition)?,
        };
        Ok(vec![vec![Value::Integer(count as i64)]])
    }

    fn create_table(&mut self, name: String, columns: Vec<String>) -> Result<usize, String> {
        if self.tables.contains_key(&name) {
            return Err(format!("there is a table `{name}`"));
        }
        self.tables.insert(name, Table::new(columns));
        Ok(0)
    }

    fn create_index(&mut self, table: &str, column: &str) -> Result<usize, String> {
        let table = self.table_mut(table)?;
        let place = table.columns.iter().position(|known| known == column);
        table.add_index(place.ok_or_else(|| format!("there is no column `{column}`"))?)?;
        Ok(0)
    }

    fn insert(&mut self, table: &str, rows: &[Vec<Expr>]) -> Result<usize, String> {
        let table = self.table_mut(table)?;
        for row in rows {
            let row: Row = row.iter().map(|value| evaluate(value, &[])).collect::<Result<_, _>>()?;
            table.insert(&row)?;
        }
        Ok(rows.len())
    }

    fn update(
        &mut self,
        table: &str,
        changes: Vec<(String, Expr)>,
        mut condition: Option<Expr>,
    ) -> Result<usize, String> {
        let table = self.table_mut(table)?;
        let mut bound = Vec::with_capacity(changes.len());
        for (name, mut value) in changes {
            let mut column = Expr::Column(name);
            bind(&mut column, &table.columns)?;
            bind(&mut value, &table.columns)?;
            bound.push((column, value));
        }
        bind_all(condition.iter_mut(), table)?;
        let matching = table.matching(condition.as_ref())?;
        for old in &matching {
            let mut new = old.clone();
            for (column, value) in &bound {
                if let Expr::Place(place) = column {
                    new[*place] = evaluate(value, old)?;
                }
            }
            replace(table, old, &new)?;
        }
        Ok(matching.len())
    }

    fn delete(&mut self, table: &str, mut condition: Option<Expr>) -> Result<usize, String> {
        let table = self.table_mut(table)?;
        bind_all(condition.iter_mut(), table)?;
        let matching = table.matching(condition.as_ref())?;
        matching.iter().try_for_each(|row| table.remove(row))?;
        Ok(matching.len())
    }

    fn select(&mut self, mut query: Select) -> Result<Vec<Row>, String> {
        let table = self.table_mut(&query.table)?;
        if query.columns.is_empty() {
            query.columns = (0..table.columns.len()).map(|place| Output::Value(Expr::Place(place))).collect();
        }
        let outputs = query.columns.iter_mut().chain(query.order.as_mut().map(|order| &mut order.by));
        let in_outputs = outputs.filter_map(|output| match output {
            Output::Value(expr) | Output::Sum(expr) => Some(expr),
            Output::Count => None,
        });
        bind_all(in_outputs.chain(&mut query.condition).chain(&mut query.group), table)?;
        let mut rows = table.matching(query.condition.as_ref())?;
        let mut groups = grouped(&mut rows, &query)?;
        if let Some(order) = &query.order {
            groups = sorted(groups, &order.by)?;
            if order.descending {
                groups.reverse();
            }
        }
        groups.truncate(query.limit.unwrap_or(usize::MAX));
        let outputs = |group: &&[Row]| query.columns.iter().map(|column| output(column, group)).collect();
        groups.iter().map(outputs).collect()
    }

    fn table_mut(&mut self, name: &str) -> Result<&mut Table, String> {
        self.tables.get_mut(name).ok_or_else(|| format!("there is no table `{name}`"))
    }
}

fn bind_all<'e>(mut exprs: impl Iterator<Item = &'e mut Expr>, table: &Table) -> Result<(), String> {
    exprs.try_for_each(|expr| bind(expr, &table.columns))
}

/// Puts a row in the place of another, which stays if the new one is refused.
fn replace(table: &mut Table, old: &[Value], new: &[Value]) -> Result<(), String> {
    table.remove(old)?;
    table.insert(new).or_else(|why| {
        table.insert(old)?;
        Err(why)
    })
}

/// The rows by what the query groups them by; each alone if it computes no sums, all together if it does.
fn grouped<'r>(rows: &'r mut [Row], query: &Select) -> Result<Vec<&'r [Row]>, String> {
    if let Some(by) = &query.group {
        let mut keys: Vec<(Value, Row)> = Vec::with_capacity(rows.len());
        for row in rows.iter_mut() {
            keys.push((evaluate(by, row)?, std::mem::take(row)));
        }
        keys.sort_by(|one, other| one.0.cmp(&other.0));
        let lengths: Vec<usize> = keys.chunk_by(|one, other| one.0 == other.0).map(<[_]>::len).collect();
        rows.iter_mut().zip(keys).for_each(|(row, (_, sorted))| *row = sorted);
        let mut rest = &*rows;
        return Ok(lengths
            .into_iter()
            .map(|length| rest.split_off(..length).expect("the groups are all rows"))
            .collect());
    }
    let sums = query.columns.iter().any(|column| matches!(column, Output::Sum(_) | Output::Count));
    Ok(if sums { vec![rows] } else { rows.iter().map(std::slice::from_ref).collect() })
}

fn sorted<'r>(groups: Vec<&'r [Row]>, by: &Output) -> Result<Vec<&'r [Row]>, String> {
    let mut keyed = Vec::with_capacity(groups.len());
    for group in groups {
        keyed.push((output(by, group)?, group));
    }
    keyed.sort_by(|one, other| one.0.cmp(&other.0));
    Ok(keyed.into_iter().map(|(_, group)| group).collect())
}

fn output(output: &Output, group: &[Row]) -> Result<Value, String> {
    match output {
        Output::Value(expr) => evaluate(expr, group.first().ok_or("there is no row to take a value from")?),
        Output::Count => Ok(Value::Integer(group.len() as i64)),
        Output::Sum(expr) => group
            .iter()
            .try_fold(0i64, |sum, row| Ok(sum.wrapping_add(evaluate(expr, row)?.integer().unwrap_or(0))))
            .map(Value::Integer),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rows of a query, each as one text.
    fn shown(database: &mut Database, text: &str) -> Vec<String> {
        let rows = database.execute(text).unwrap_or_else(|why| panic!("{text}: {why}"));
        rows.iter().map(|row| row.iter().map(Value::to_string).collect::<Vec<_>>().join(" ")).collect()
    }

    fn filled() -> Database {
        let mut database = Database::default();
        for text in [
            "CREATE TABLE fruit (id, name, color, stock)",
            "INSERT INTO fruit VALUES (1, 'apple', 'red', 5), (2, 'pear', 'green', 7), (3, 'cherry', 'red', 40)",
            "CREATE INDEX ON fruit (color)",
            "INSERT INTO fruit VALUES (4, 'lime', 'green', 2), (5, 'plum', 'blue', 9)",
        ] {
            shown(&mut database, text);
        }
        database
    }

    #[test]
    fn queries_select_sort_and_limit() {
        let mut database = filled();
        for (text, expected) in [
            ("SELECT * FROM fruit WHERE id = 2", &["2 pear green 7"][..]),
            ("SELECT name FROM fruit WHERE color = 'green' ORDER BY name", &["lime", "pear"]),
            ("SELECT name || '!', stock * 2 FROM fruit ORDER BY stock DESC LIMIT 2", &["cherry! 80", "plum! 18"]),
            ("SELECT id FROM fruit WHERE name LIKE '%p%' AND NOT color = 'red'", &["2", "5"]),
            ("SELECT id FROM fruit WHERE id > 9", &[]),
        ] {
            assert_eq!(shown(&mut database, text), expected, "{text}");
        }
    }

    #[test]
    fn queries_group_and_sum() {
        let mut database = filled();
        for (text, expected) in [
            (
                "SELECT color, COUNT(*), SUM(stock) FROM fruit GROUP BY color",
                &["blue 1 9", "green 2 9", "red 2 45"][..],
            ),
            ("SELECT color FROM fruit GROUP BY color ORDER BY SUM(stock) DESC LIMIT 1", &["red"]),
            ("SELECT COUNT(*), SUM(stock) FROM fruit WHERE id <= 3", &["3 52"]),
            ("SELECT COUNT(*) FROM fruit WHERE id > 9", &["0"]),
            ("SELECT color, COUNT(*) FROM fruit WHERE id > 9 GROUP BY color", &[]),
        ] {
            assert_eq!(shown(&mut database, text), expected, "{text}");
        }
    }

    #[test]
    fn rows_are_changed_and_removed() {
        let mut database = filled();
        for (text, expected) in [
            ("UPDATE fruit SET stock = stock + 1, color = 'dark ' || color WHERE color = 'red'", &["2"][..]),
            ("SELECT name, stock FROM fruit WHERE color = 'dark red'", &["apple 6", "cherry 41"]),
            ("SELECT COUNT(*) FROM fruit WHERE color = 'red'", &["0"]),
            ("UPDATE fruit SET id = id + 10 WHERE id = 1", &["1"]),
            ("SELECT id FROM fruit", &["2", "3", "4", "5", "11"]),
            ("DELETE FROM fruit WHERE stock < 9", &["3"]),
            ("SELECT name FROM fruit", &["cherry", "plum"]),
            ("DELETE FROM fruit", &["2"]),
        ] {
            assert_eq!(shown(&mut database, text), expected, "{text}");
        }
    }

    #[test]
    fn mistakes_are_explained_and_change_nothing() {
        let mut database = filled();
        for (text, expected) in [
            ("SELECT * FROM tree", "no table `tree`"),
            ("SELECT size FROM fruit", "no column `size`"),
            ("UPDATE fruit SET size = 1", "no column `size`"),
            ("UPDATE fruit SET id = 2 WHERE id = 1", "the key 2"),
            ("INSERT INTO fruit VALUES (6, 'fig', 'blue')", "3 values"),
            ("INSERT INTO fruit VALUES (6, name, 'blue', 1)", "no row"),
            ("CREATE TABLE fruit (id)", "there is a table"),
        ] {
            let why = database.execute(text).expect_err(text);
            assert!(why.contains(expected), "{text}: {why}");
        }
        assert_eq!(shown(&mut database, "SELECT SUM(id), SUM(stock) FROM fruit"), ["15 63"]);
    }
}
