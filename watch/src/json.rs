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
