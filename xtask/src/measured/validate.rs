//! How far the simulated machine is off, from what `commensal lab validate --json` wrote.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::table::{for_people, markdown, short};

/// By more than such a part no row may be off that the model is held to; as in lab/src/forecast/validate.rs.
const LIMIT: f64 = 0.35;

/// The table of what was held against this machine, or of the published curves.
pub fn table(path: &Path, what: &str) -> Result<String, String> {
    let file = path.display();
    let wanted = "expected what `commensal lab validate --json FILE` writes";
    let text = fs::read_to_string(path).map_err(|error| format!("{file} cannot be read ({error}); {wanted}"))?;
    let value: Value = serde_json::from_str(&text).map_err(|error| format!("{file} is no JSON ({error}); {wanted}"))?;
    of(&value, what).map_err(|why| format!("{file}: {why}; {wanted}"))
}

fn of(value: &Value, what: &str) -> Result<String, String> {
    let list = |name: &str| value[name].as_array().ok_or_else(|| format!("found no list `{name}`"));
    match what {
        "here" => here(list("here")?),
        "curves" => curves(list("curves")?),
        _ => Err(format!("found `{what}`; expected here or curves")),
    }
}

fn here(all: &[Value]) -> Result<String, String> {
    let headings = [
        "with two CPUs",
        "measured here",
        "from the least run to the most",
        "simulated",
        "with the least and most costs",
        "error",
        "35 %",
    ];
    let mut lines = vec![headings.map(str::to_owned)];
    for one in all {
        let runs: Vec<f64> = one["runs"].as_array().into_iter().flatten().filter_map(Value::as_f64).collect();
        let usual = number(one, "usual")?;
        let (Some(least), Some(most)) = (runs.first().copied(), runs.last().copied()) else {
            return Err("found a row without runs".to_owned());
        };
        let simulated = number(one, "simulated")?;
        let ends = [0, 1].map(|end| one["band"][end].as_f64());
        let [Some(low), Some(high)] = ends else { return Err("found a row without a band".to_owned()) };
        let error = simulated / usual - 1.0;
        let says = match text(one, "role")? {
            "fitted" => "fitted",
            "held" if error.abs() <= LIMIT => "kept",
            "held" => "**missed**",
            "told" => "not asked for",
            other => return Err(format!("found the role `{other}`")),
        };
        let ns = |value: f64| for_people(value, "ns");
        let [runs, band] = [[least, most], [low, high]].map(|ends| ends.map(ns).join(" to "));
        let name = text(one, "what")?.to_owned();
        lines.push([name, ns(usual), runs, ns(simulated), band, percent(error), says.to_owned()]);
    }
    Ok(markdown(&lines))
}

fn curves(all: &[Value]) -> Result<String, String> {
    let mut lines =
        vec![["published curve", "costs fitted to", "points held out", "median error", "worst"].map(str::to_owned)];
    for one in all {
        let profile = text(one, "profile")?;
        let operation = match text(one, "operation")? {
            "atomic-increment" => "additions to one word",
            "per-cpu-increment" => "additions to words of their own",
            other => return Err(format!("found the operation `{other}`")),
        };
        let fitted = one["fitted"].as_array().ok_or("found a curve without `fitted`")?;
        let threads: Vec<String> = fitted.iter().filter_map(|cost| Some(cost.get(1)?.as_u64()?.to_string())).collect();
        let fitted = if threads.is_empty() { "nothing".to_owned() } else { format!("{} threads", threads.join(", ")) };
        let points = one["points"].as_array().map_or(0, Vec::len);
        let errors = [format!("{} %", short(100.0 * number(one, "median")?)), percent(number(one, "worst")?)];
        let [median, worst] = if one["unfit"].is_null() { errors } else { ["impossible", "–"].map(str::to_owned) };
        lines.push([format!("`{profile}`: {operation}"), fitted, points.to_string(), median, worst]);
    }
    Ok(markdown(&lines))
}

fn percent(part: f64) -> String {
    format!("{:+.0} %", 100.0 * part).replace('-', "−").replace(' ', "\u{a0}")
}

fn text<'a>(value: &'a Value, name: &str) -> Result<&'a str, String> {
    value[name].as_str().ok_or_else(|| format!("found a row without `{name}`"))
}

fn number(value: &Value, name: &str) -> Result<f64, String> {
    value[name].as_f64().ok_or_else(|| format!("found a row without the number `{name}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Value {
        serde_json::json!({
            "here": [{ "what": "malloc and free", "role": "held", "usual": 2.0, "runs": [2.0, 4.0], "simulated": 1.5, "band": [1.0, 3.0] }],
            "curves": [{ "profile": "milan-160", "operation": "atomic-increment", "fitted": [["turn", 160, 135.0], ["x", 2, 1.0]],
                         "unfit": null, "points": [1, 2, 3], "median": 0.034, "worst": -0.41 }],
        })
    }

    #[test]
    fn errors_stand_beside_what_was_measured() {
        let here = of(&example(), "here").unwrap();
        let here = here.replace('\u{a0}', " ");
        assert!(
            here.contains("| malloc and free | 2 ns | 2 ns to 4 ns | 1.5 ns | 1 ns to 3 ns | −25 % | kept |"),
            "{here}"
        );
        let mut missed = example();
        missed["here"][0]["simulated"] = 1.2.into();
        assert!(of(&missed, "here").unwrap().replace('\u{a0}', " ").contains("| −40 % | **missed**"));
        let curves = of(&example(), "curves").unwrap();
        let curves = curves.replace('\u{a0}', " ");
        assert!(
            curves.contains("| `milan-160`: additions to one word | 160, 2 threads | 3 | 3.4 % | −41 % |"),
            "{curves}"
        );
    }

    #[test]
    fn another_form_is_refused() {
        let spoilt = |from: &str, to: &str, what: &str| {
            let text = example().to_string();
            assert!(text.contains(from), "{from}");
            of(&serde_json::from_str(&text.replace(from, to)).unwrap(), what).unwrap_err()
        };
        assert!(of(&example(), "there").unwrap_err().contains("`there`"));
        assert!(spoilt("\"here\"", "\"there\"", "here").contains("`here`"));
        assert!(spoilt("\"usual\"", "\"mean\"", "here").contains("`usual`"));
        assert!(spoilt("[2.0,4.0]", "[]", "here").contains("runs"));
        assert!(spoilt("\"held\"", "\"hold\"", "here").contains("`hold`"));
        assert!(spoilt("atomic-increment", "other", "curves").contains("`other`"));
        assert!(spoilt("\"median\"", "\"mean\"", "curves").contains("`median`"));
    }
}
