//! What a pack must be, and how the page shows it. Packs come from other people: what they say is text and nothing else.
//!
//! A fuzz target has this file too, so it uses nothing of the program.

use std::fmt::Write;

use boon::{Compiler, SchemaIndex, Schemas};
use serde_json::Value;

pub const SCHEMA: &str = "lab/pack.schema.json";
pub const OPENING: &str = "\
# Other machines

<!-- Made of docs/packs by `cargo xtask packs --bless`, which overwrites changes. -->

Have you a machine that is not here, above all one with many CPUs? `commensal lab pack` measures it in five to ten
minutes and writes one file. Let it be idle meanwhile, and send the file in an issue. It has the figures, the processor's name and the
versions of the kernel and of the C library, and nothing else of the machine. `lab/pack.schema.json` describes it.

Figures are ratios: the second arm over the first, with the 95 % interval. Less than 1 is better for the second.
";

/// What each pack must be.
pub struct Schema {
    schemas: Schemas,
    of_packs: SchemaIndex,
}

impl Schema {
    /// By the document in [`SCHEMA`].
    pub fn of(document: Value) -> Result<Self, String> {
        let (mut schemas, mut compiler) = (Schemas::new(), Compiler::new());
        compiler.add_resource(SCHEMA, document).map_err(|error| format!("{SCHEMA}: {error:#}"))?;
        let of_packs = compiler.compile(SCHEMA, &mut schemas).map_err(|error| format!("{SCHEMA}: {error:#}"))?;
        Ok(Self { schemas, of_packs })
    }

    pub fn check(&self, pack: &Value) -> Result<(), String> {
        let checked = self.schemas.validate(pack, self.of_packs);
        checked.map_err(|error| format!("expected what {SCHEMA} describes: {error:#}"))
    }
}

/// The page of packs that were checked.
pub fn of(packs: &[Value]) -> String {
    let mut text = OPENING.to_owned();
    for pack in packs {
        let machine = &pack["machine"];
        let word = |key: &str| machine[key].as_str().map(plain).unwrap_or_default();
        let below = if machine["is_virtual"] == true { ", virtual" } else { "" };
        let _ = write!(
            text,
            "\n## {}, {} CPUs\n\nLinux {}, {}{below}. Made on {} at commit {}.\n\n\
             | experiment | second over first | row | figure | ratio | published |\n|---|---|---|---|---|---|\n",
            word("model"),
            machine["cpus"],
            word("kernel"),
            word("libc"),
            pack["made"].as_str().unwrap_or_default(),
            pack["commit"].as_str().unwrap_or_default(),
        );
        for (name, result) in pack["results"].as_object().into_iter().flatten() {
            let of_all = result["comparisons"].as_array().into_iter().flatten();
            of_all.filter(|compared| is_shown(compared)).for_each(|compared| text += &row(name, compared));
        }
    }
    text
}

/// What a document tells, too, and the mean time and memory of several programs.
fn is_shown(compared: &Value) -> bool {
    let is_main = ["wall_s", "peak_kb"].iter().any(|metric| compared["metric"] == *metric);
    let is_mean = |value: &Value| value.as_str().is_some_and(|word| word.starts_with("geometric mean"));
    let mut parameters = compared["parameters"].as_object().into_iter().flatten();
    !compared["document"].is_null() || is_main && parameters.any(|(_, value)| is_mean(value))
}

fn row(name: &str, compared: &Value) -> String {
    let word = |key: &str| compared[key].as_str().map(plain).unwrap_or_default();
    let parameter = |(key, value): (&String, &Value)| match value {
        Value::String(word) => plain(word),
        value => format!("{} {value}", plain(key)),
    };
    let parameters = compared["parameters"].as_object().into_iter().flatten().map(parameter);
    let number = |value: &Value| value.as_f64().map_or_else(|| "–".to_owned(), |ratio| format!("{ratio:.2}"));
    let (low, high) = (number(&compared["ci95"][0]), number(&compared["ci95"][1]));
    format!(
        "| {} | {} over {} | {} | {} | {} ({low} to {high}) | {} |\n",
        plain(name),
        word("candidate"),
        word("baseline"),
        parameters.collect::<Vec<_>>().join(", "),
        word("metric").replace('_', " "),
        number(&compared["ratio"]),
        number(&compared["document"]["value"]),
    )
}

/// A text that stays in its cell and on its line, and is no HTML.
fn plain(text: &str) -> String {
    text.replace(char::is_control, " ").replace('|', "/").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pack() -> Value {
        let compared = |parameters: Value, document: Value| {
            json!({
                "metric": "wall_s", "parameters": parameters, "baseline": "glibc", "candidate": "ours", "ratio": 0.5,
                "ci95": [0.4, 0.625], "p": 0.01, "mde": null, "verdict": "faster", "document": document,
            })
        };
        let document = json!({"source": "a patch", "figure": "a table", "value": 0.45});
        let result = json!({
            "experiment": "cache", "seed": 1, "blocks": 5, "interrupted": false, "arms": [], "findings": [],
            "comparisons": [
                compared(json!({"cpus": 8}), document), compared(json!({"cpus": 9}), Value::Null),
                compared(json!({"workload": "geometric mean of 3"}), Value::Null),
            ],
        });
        json!({
            "format": "commensal-pack", "version": 1, "made": "2026-11-29", "commit": "0123456789ab",
            "machine": {
                "kind": "host", "cpus": 8, "model": "A CPU", "kernel": "6.1", "libc": "glibc 2.36", "is_virtual": true,
            },
            "results": {"cache": result},
        })
    }

    #[test]
    fn page_shows_published_comparisons_and_means() {
        let text = of(&[pack()]);
        assert!(text.contains("\n## A CPU, 8 CPUs\n\nLinux 6.1, glibc 2.36, virtual. Made on 2026-11-29"), "{text}");
        assert!(
            text.contains("| cache | ours over glibc | cpus 8 | wall s | 0.50 (0.40 to 0.62) | 0.45 |\n"),
            "{text}"
        );
        assert!(text.contains("| geometric mean of 3 | wall s | 0.50 (0.40 to 0.62) | – |\n"), "{text}");
        assert!(!text.contains("cpus 9"), "{text}");
    }

    #[test]
    fn page_shows_marks_of_tables_and_html_as_text() {
        let mut odd = pack();
        odd["machine"]["model"] = json!("A\n## B <b>");
        odd["results"] = json!({"a|b": odd["results"]["cache"]});
        odd["results"]["a|b"]["comparisons"][0]["parameters"] = json!({"x": "c|d", "y|z": 1});
        let text = of(&[odd]);
        assert!(text.contains("\n## A ## B &lt;b>, 8 CPUs\n"), "{text}");
        assert!(text.contains("\n| a/b | ours over glibc | c/d, y/z 1 | wall s |"), "{text}");
    }

    #[test]
    fn pack_that_the_schema_does_not_describe_is_refused() {
        let schema = crate::packs::schema();
        assert_eq!(schema.check(&pack()), Ok(()));
        let changes: [fn(&mut Value); 4] = [
            |pack| pack["version"] = json!(2),
            |pack| pack["machine"]["hostname"] = json!("secret"),
            |pack| pack["results"]["cache"]["comparisons"][0]["ratio"] = json!("0.5"),
            |pack| pack["results"]["cache"]["interrupted"] = json!(true),
        ];
        for change in changes {
            let mut wrong = pack();
            change(&mut wrong);
            let why = schema.check(&wrong).unwrap_err();
            assert!(why.contains("expected what lab/pack.schema.json describes"), "{why}");
        }
    }
}
