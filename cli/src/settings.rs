//! `commensal conf`: prints the library's table of settings, for people, for programs and for the book.

use std::process::ExitCode;

use clap::Args;
use commensal_runtime::settings::{Setting, TABLE, Values, When};
use lab::sheet::{Sheet, Side};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::places;

const COLUMNS: u16 = 110;

const PAGE: &str = "\
# Settings

<!-- Made by `cargo xtask reference --bless`, which overwrites changes. The table is `runtime/src/settings/table.rs`. -->

The environment variable `COMMENSAL_CONF` has `key:value` pairs, separated by commas. The library reads it once, when
the program starts. It reports pairs that it does not understand on standard error, and ignores them.
`commensal run --conf` takes the same pairs and overrides the variable. It refuses pairs that it does not understand.
`commensal conf` prints this table, and `commensal conf --json` prints it for programs.

In `cache.NAME.…`, NAME is the name of a cache in the slab table, or the beginning of a name and a `*`. If several
rules match a cache, the last one wins.

A program reads each setting by `cm_get` in C or `names::get` in Rust. It changes one that is marked *any time* by
`cm_set` or `names::set`. If the values are words, these functions use the word's position, from 0. If words can be
joined, each is a bit.

| key | effect | values | default | when |
|---|---|---|---|---|
";

/// Print all settings, with their values, defaults and effects
///
/// Set them by `commensal run --conf KEY:VALUE,…`, or by COMMENSAL_CONF in a program's environment.
#[derive(Args)]
pub struct Conf {
    /// Print JSON
    #[arg(long)]
    json: bool,

    /// Print the page of the book
    #[arg(long, hide = true, conflicts_with = "json")]
    markdown: bool,
}

/// Prints them.
pub fn conf(request: &Conf) -> Result<ExitCode, Failure> {
    let text = if request.json {
        format!("{:#}\n", TABLE.iter().map(as_json).collect::<Value>())
    } else if request.markdown {
        page()
    } else {
        sheet().within(COLUMNS).to_string()
    };
    places::show(&text, None)?;
    Ok(ExitCode::SUCCESS)
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
            Some(_) if setting.values != Values::Path => format!("`{}`", setting.default),
            _ => setting.default.to_owned(),
        };
        format!("| `{}` | {} | {} | {default} | {} |\n", setting.key, setting.help, values(setting), when(setting))
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
        Values::OneOf(words) | Values::AnyOf(words) => row["words"] = words.split(' ').collect(),
        Values::Number(least, most) => {
            (row["least"], row["most"], row["unit"]) = (least.into(), most.into(), setting.unit.into());
        }
        Values::Process | Values::Path => {}
    }
    row
}
