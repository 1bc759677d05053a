//! Everything as JSON.

use commensal_runtime::observe::figures::{TABLES, Table};
use commensal_runtime::observe::page::AnyRow;
use serde_json::{Map, Value, json};

use crate::process::Process;

/// A process, whole.
pub fn of(process: &Process) -> Value {
    let (page, snapshot) = (process.said.page(), process.said.snapshot());
    let kernel = process.kernel.as_ref();
    let mut whole = json!({
        "pid": process.pid,
        "program": page.program().as_str(),
        "library": page.library().as_str(),
        "state": process.state.word(),
        "command": kernel.map(|kernel| &kernel.command),
        "threads": kernel.map(|kernel| kernel.threads),
        "resident_bytes": kernel.map(|kernel| kernel.resident_bytes),
        "age_ns": process.age_ns(),
        "page_made_at_ns": page.made_at_ns(),
        "began_ns": snapshot.began_ns(),
        "ended_ns": snapshot.ended_ns(),
        "cost_ns": snapshot.cost_ns(),
    });
    let mut lost = Map::new();
    for (number, table) in TABLES.iter().enumerate() {
        let mut rows = process.rows(number).map(|row| self::row(table, row));
        // There is one process.
        whole[table.name] = if number == 0 { rows.next().unwrap_or_default() } else { rows.collect() };
        if number > 0 {
            lost.insert(table.name.to_owned(), json!(snapshot.lost_in(number)));
        }
    }
    whole["lost"] = Value::Object(lost);
    whole
}

/// All that could be read, and why others could not.
pub fn all(processes: &[Process], unreadable: &[anyhow::Error]) -> Value {
    json!({
        "processes": processes.iter().map(of).collect::<Value>(),
        "unreadable": unreadable.iter().map(|error| json!(format!("{error:#}"))).collect::<Value>(),
    })
}

/// A row, by the names of its texts and values.
fn row(table: &Table, row: AnyRow<'_>) -> Value {
    let texts = table.labels.iter().zip(row.texts()).map(|(label, text)| (label.name.to_owned(), json!(text)));
    let values = table.figures.iter().zip(row.values()).map(|(figure, value)| (figure.name.to_owned(), json!(value)));
    Value::Object(texts.chain(values).collect::<Map<_, _>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn json_has_each_label_and_figure_once_in_order() {
        let value = of(&sample::process(101, 1));
        for (number, table) in TABLES.iter().enumerate() {
            let row = if number == 0 { &value[table.name] } else { &value[table.name][0] };
            let row = row.as_object().unwrap_or_else(|| panic!("{}: {value}", table.name));
            let labels = table.labels.iter().map(|label| (label.name, true));
            let expected = labels.chain(table.figures.iter().map(|figure| (figure.name, false)));
            let told = row.iter().map(|(key, value)| (key.as_str(), value.is_string()));
            assert!(told.eq(expected), "{}: {row:?}", table.name);
        }
    }

    #[test]
    fn process_has_all_its_figures_in_json() {
        let value = of(&sample::process(101, 1));
        let of_process =
            ["pid", "program", "state", "command", "threads", "resident_bytes"].map(|key| value[key].clone());
        let expected = [
            json!(101),
            json!("sample"),
            json!("running"),
            json!("sample --of=a program"),
            json!(3),
            json!(80_000_000),
        ];
        assert_eq!(of_process, expected);
        assert_eq!(value["process"]["in_use_bytes"], 20_000_000);
        // A cache without spans that nobody used is not there.
        let names: Vec<&Value> = value["caches"].as_array().unwrap().iter().map(|cache| &cache["name"]).collect();
        assert_eq!(names, ["malloc-64", "requests"]);
        assert_eq!(
            (&value["groups"][0]["name"], &value["groups"][0]["limit_bytes"]),
            (&json!("tenant \"one\"\\"), &json!(u64::MAX))
        );
        assert_eq!(value["lost"], json!({ "caches": 0, "slots": 0, "groups": 3, "locks": 0 }));
        let (began, ended) = (value["began_ns"].as_u64().unwrap(), value["ended_ns"].as_u64().unwrap());
        assert_eq!((ended - began, &value["page_made_at_ns"]), (1000, &json!(7)));
        assert!(value["age_ns"].as_u64().unwrap() >= sample::AGE_NS - 2_000_000_000);
    }
}
