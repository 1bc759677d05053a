//! The page of the settings: every key of COMMENSAL_CONF.

use super::{keys, knobs, opening};
use crate::markdown::table;
use crate::tree::Tree;

const KEYS: &str = "runtime/src/heap/conf.rs";
const OPTIONS: &str = "runtime/src/slab/rules.rs";
const OF_RCU: &str = "runtime/src/rcu/knobs.rs";
const OF_UPKEEP: &str = "runtime/src/upkeep/knobs.rs";
const HEADS: [&str; 4] = ["key", "values", "default", "effect"];

const ABOUT: &str = "\
`COMMENSAL_CONF` in a program's environment has `key:value` pairs, separated by commas; `commensal run --conf` takes the same, and wins. It is read \
once, when the program starts. What is not understood is named on standard error, with the nearest thing that would be, and the program starts all the same.

";
const ABOUT_OPTIONS: &str = "\
In `cache.NAME.…`, NAME is that of a cache, as the slab table has it, or its beginning and a `*`. Of several that fit, the last one holds.

";
const ABOUT_RCU: &str = "\
A program can set these also while it runs, by the names behind the dot: by `cm_rcu_set` in C, and `rcu::set_knob` in Rust.

";
const ABOUT_UPKEEP: &str = "\
A program can set these also while it runs: by `cm_upkeep_set` in C, and `upkeep::set_knob` in Rust.

";

/// Makes the page.
pub fn page(tree: &Tree) -> Result<String, String> {
    let sources = format!("{KEYS}, {OPTIONS}, {OF_RCU} and {OF_UPKEEP}");
    let keys = |prefix: &str, path, name| -> Result<String, String> {
        let rows = keys::of(tree, path, name)?.into_iter().map(|key| {
            let usual = if key.usual.contains(' ') { key.usual } else { format!("`{}`", key.usual) };
            vec![format!("`{prefix}{}`", key.name), key.values, usual, key.effect]
        });
        Ok(table(&HEADS, rows))
    };
    let knobs = |part: &str, path| -> Result<String, String> {
        let rows = knobs::of(tree, path, part)?.into_iter().map(|knob| {
            let values = format!("a number from {} to {}", knob.least, knob.most);
            vec![format!("`{part}.{}`", knob.name), values, format!("`{}`", knob.usual), knob.effect]
        });
        Ok(table(&HEADS, rows))
    };
    let mut text = opening("Settings", &sources) + ABOUT;
    text += &keys("", KEYS, "KEYS")?;
    text += &format!("\n## Single caches\n\n{ABOUT_OPTIONS}{}", keys("cache.NAME.", OPTIONS, "OPTIONS")?);
    text += &format!("\n## Grace periods\n\n{ABOUT_RCU}{}", knobs("rcu", OF_RCU)?);
    text += &format!("\n## Upkeep\n\n{ABOUT_UPKEEP}{}", knobs("upkeep", OF_UPKEEP)?);
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_keys_of_all_four_kinds() {
        let page = page(&Tree::read(&crate::root())).unwrap();
        for row in [
            "| `keep` | a number of MiB | `1` | ",
            "| `possible_cpus` | a number from 1 to 1024 | the machine's | ",
            "| `cache.NAME.dedicated` | on or off | `on` | ",
            "| `rcu.bulk` | a number from 1 to 125 | `125` | ",
            "| `upkeep.interval_ms` | a number from 1 to 86400000 | `1000` | ",
        ] {
            assert!(page.lines().any(|line| line.starts_with(row)), "{row} in\n{page}");
        }
        assert!(!page.contains("[`") && !page.contains("Knob::"), "links of rustdoc are none in the book");
    }
}
