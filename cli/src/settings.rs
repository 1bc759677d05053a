//! `commensal conf`: all settings, by the table that the library itself reads: for people, for programs, and for the book.

use std::process::ExitCode;

use clap::Args;
use commensal::settings::{Setting, TABLE, Values, When};
use lab::sheet::{Sheet, Side};
use serde_json::{Value, json};

const COLUMNS: u16 = 110;

const PAGE: &str = "\
# Settings

<!-- Made by `cargo xtask reference --bless`, which overwrites changes. The table is `runtime/src/settings/table.rs`. -->

`COMMENSAL_CONF` in a program's environment has `key:value` pairs, separated by commas. `commensal run --conf` takes the same, and wins. The library reads \
it once, when the program starts. It names what it does not understand on standard error, with what it expected or the nearest key, and starts the \
program all the same. `commensal conf` prints this table, `commensal conf --json` for programs.

In `cache.NAME.…`, NAME is a cache as the slab table names it, or the beginning of such names and a `*`. If several fit, the last one holds. What has *any \
time* below, a program can also set while it runs. `cm_rcu_set` in C and `rcu::set_knob` in Rust take a name behind `rcu.`, `cm_upkeep_set` and \
`upkeep::set_knob` one behind `upkeep.`, or `on` for `upkeep` itself. Of words they take the place, from 0 on.

| key | values | default | when | effect |
|---|---|---|---|---|
";

/// Print all settings: keys, values, defaults and what they do
///
/// Give them to a program by `commensal run --conf KEY:VALUE,…`, or by COMMENSAL_CONF in its environment.
#[derive(Args)]
pub struct Conf {
    /// As JSON
    #[arg(long)]
    json: bool,

    /// As the page of the book
    #[arg(long, hide = true, conflicts_with = "json")]
    markdown: bool,
}

/// Prints them.
pub fn conf(request: &Conf) -> ExitCode {
    if request.json {
        println!("{:#}", TABLE.iter().map(as_json).collect::<Value>());
    } else if request.markdown {
        print!("{}", page());
    } else {
        print!("{}", sheet().within(COLUMNS));
    }
    ExitCode::SUCCESS
}

fn values(setting: &Setting) -> String {
    match setting.values {
        Values::Number(least, most) => format!("{least} to {most} {}", setting.unit).trim_end().to_owned(),
        values => values.to_string(),
    }
}

fn when(setting: &Setting) -> &'static str {
    match setting.when {
        When::AtStart => "start",
        When::AnyTime => "any time",
    }
}

fn sheet() -> Sheet {
    let mut sheet = Sheet::new(["key", "values", "default", "effect"].map(|heading| (heading, Side::Left)));
    for setting in TABLE {
        let effect = setting.help.replace(['`', '*'], "");
        sheet.add([setting.key.to_owned(), values(setting), setting.default.to_owned(), effect]);
    }
    sheet
}

fn page() -> String {
    let rows = TABLE.iter().map(|setting| {
        let default = match setting.values.parse(setting.default) {
            Some(_) if !matches!(setting.values, Values::Text(_)) => format!("`{}`", setting.default),
            _ => setting.default.to_owned(),
        };
        format!("| `{}` | {} | {default} | {} | {} |\n", setting.key, values(setting), when(setting), setting.help)
    });
    PAGE.to_owned() + &rows.collect::<String>()
}

fn as_json(setting: &Setting) -> Value {
    let mut row = json!({
        "key": setting.key,
        "values": setting.values.to_string(),
        "default": setting.default,
        "when": when(setting),
        "effect": setting.help,
    });
    match setting.values {
        Values::Words(words) | Values::AnyOf(words) => row["words"] = words.split(' ').collect(),
        Values::Number(least, most) => {
            (row["least"], row["most"], row["unit"]) = (least.into(), most.into(), setting.unit.into());
        }
        Values::Process | Values::Text(_) => {}
    }
    row
}
