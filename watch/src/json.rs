//! Everything as JSON.

use runtime::observe::page::{Cache, Group, Lock, Row, Slot};
use serde_json::{Map, Value, json};

use crate::process::Process;

/// A process, whole.
pub fn of(process: &Process) -> Value {
    let (page, snapshot) = (process.said.page(), process.said.snapshot());
    let kernel = process.kernel.as_ref();
    json!({
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
        "process": row(&snapshot.figures()),
        "caches": snapshot.rows::<Cache>().filter(|cache| cache.spans > 0 || cache.peak > 0).map(|cache| row(&cache)).collect::<Value>(),
        "slots": snapshot.rows::<Slot>().map(|slot| row(&slot)).collect::<Value>(),
        "groups": snapshot.rows::<Group>().map(|group| row(&group)).collect::<Value>(),
        "locks": snapshot.rows::<Lock>().map(|lock| row(&lock)).collect::<Value>(),
        "lost": {
            "caches": snapshot.lost::<Cache>(),
            "slots": snapshot.lost::<Slot>(),
            "groups": snapshot.lost::<Group>(),
            "locks": snapshot.lost::<Lock>(),
        },
    })
}

/// All that could be read, and why others could not.
pub fn all(processes: &[Process], unreadable: &[anyhow::Error]) -> Value {
    json!({
        "processes": processes.iter().map(of).collect::<Value>(),
        "unreadable": unreadable.iter().map(|error| json!(format!("{error:#}"))).collect::<Value>(),
    })
}

/// A row, by the names of its texts and values.
fn row<R: Row>(row: &R) -> Value {
    let texts = R::TEXTS.iter().zip(row.texts()).map(|(name, text)| ((*name).to_owned(), json!(text)));
    let values = R::FIELDS.iter().zip(row.values()).map(|(field, value)| (field.name.to_owned(), json!(value)));
    Value::Object(texts.chain(values).collect::<Map<_, _>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::State;
    use crate::sample;
    use runtime::observe::page::for_each_table;

    #[test]
    fn all_that_a_page_declares_is_there_by_its_name() {
        let value = of(&sample::process(101, 1));
        for_each_table(|table, texts, fields| {
            let row = if table == "process" { &value[table] } else { &value[table][0] };
            let keys: Vec<&str> =
                row.as_object().unwrap_or_else(|| panic!("{table}: {value}")).keys().map(String::as_str).collect();
            let expected: Vec<&str> = texts.iter().copied().chain(fields.iter().map(|field| field.name)).collect();
            assert_eq!(keys, expected, "{table}");
            assert!(
                texts.iter().all(|text| row[text].is_string()) && fields.iter().all(|field| row[field.name].is_u64())
            );
        });
    }

    #[test]
    fn a_process_is_told_as_it_is() {
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

    #[test]
    fn of_one_that_is_no_more_the_kernel_knows_nothing() {
        let gone = Process { state: State::Gone, kernel: None, ..sample::process(7, 0) };
        let value = all(&[gone], &[anyhow::anyhow!("cut off").context("/run/3")]);
        let of_kernel = ["command", "threads", "resident_bytes"].map(|key| value["processes"][0][key].clone());
        assert_eq!(
            (of_kernel, &value["processes"][0]["state"]),
            ([Value::Null, Value::Null, Value::Null], &json!("gone"))
        );
        assert_eq!(value["unreadable"], json!(["/run/3: cut off"]));
    }
}
