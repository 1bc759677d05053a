//! SQLite's own shell with a database in memory: inserts, an index, grouping, joins and deletes.
//! Parsing and sorting allocate; the pages of the database are a few sizes that live long.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Result, ensure};
use commensal_lab::blocks::Subject;
use commensal_lab::process::Program;

const SINGLE_INSERTS: u32 = 40_000;

/// What runs after the single inserts. It prints a few sums: the answer.
const QUERIES: &str = "
WITH RECURSIVE counter(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counter WHERE n < 200000)
  INSERT INTO sale
  SELECT n + 40000, 'customer ' || (n * 7919 % 5003), n * 31 % 1000,
         printf('note %08x', n * 2654435761 % 4294967296)
  FROM counter;
CREATE INDEX sale_customer ON sale(customer);
CREATE TABLE total AS
  SELECT customer, count(*) AS sales, sum(amount) AS amount,
         group_concat(substr(note, 6, 2), '') AS notes
  FROM sale GROUP BY customer;
SELECT count(*), sum(sales), sum(amount), sum(length(notes)) FROM total;
SELECT sum(total.amount % 97), count(DISTINCT substr(note, 6, 4))
  FROM sale JOIN total USING (customer) WHERE sale.amount < 300;
SELECT note FROM sale ORDER BY note LIMIT 1 OFFSET 100000;
UPDATE sale SET note = note || ' (checked)' WHERE amount % 3 = 0;
DELETE FROM sale WHERE amount % 5 = 0;
SELECT count(*), sum(length(note)), max(customer) FROM sale;
";

/// The shell, which reads a script and prints a few sums.
pub fn prepare(scratch: &Path) -> Result<Subject> {
    let found = Command::new("sh").args(["-c", "command -v sqlite3"]).stdin(Stdio::null()).output()?;
    ensure!(found.status.success(), "no sqlite3 in the path; Debian's package sqlite3 brings it");
    let script = scratch.join("sqlite.sql");
    fs::write(&script, text())?;
    let read = format!(".read {}", script.display());
    let path = String::from_utf8(found.stdout)?;
    Ok(Subject::of_program("sqlite", Program::new(path.trim(), ["sqlite3", "-batch", "-bail", ":memory:", &read])))
}

/// One statement for each of the first rows, as an application without bulk inserts sends them;
/// then the queries.
fn text() -> String {
    let mut text = "BEGIN;
CREATE TABLE sale(id INTEGER PRIMARY KEY, customer TEXT, amount INTEGER, note TEXT);
"
    .to_owned();
    for n in 1..=SINGLE_INSERTS {
        let (customer, amount) = (n * 31 % 5003, n * 17 % 1000);
        text += &format!("INSERT INTO sale VALUES({n}, 'customer {customer}', {amount}, 'note {:08x}');\n", n * 40503);
    }
    text + "COMMIT;\n" + QUERIES
}
