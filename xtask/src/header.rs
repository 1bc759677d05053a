//! The C header, generated from the functions that the library exports, and held against the committed one.
//!
//! Whoever builds a C program has the header without this tool or a Rust compiler, so it is committed; and a change of a function or its
//! comment that forgets the header is found here. `malloc/cbindgen.toml` says what the header has besides the functions.

use std::path::Path;

use crate::reference;

/// The header's place, from the root.
pub const FILE: &str = "malloc/include/commensal.h";
const CONFIGURATION: &str = "malloc/cbindgen.toml";
/// In the order in which their functions appear.
const SOURCES: [&str; 9] = [
    "malloc/src/counter.rs",
    "malloc/src/counters.rs",
    "malloc/src/cache.rs",
    "malloc/src/group.rs",
    "malloc/src/rcu.rs",
    "malloc/src/rcu_reader.rs",
    "malloc/src/locks.rs",
    "malloc/src/sandbox.rs",
    "malloc/src/upkeep.rs",
];

pub fn run(root: &Path, bless: bool) -> Result<(), String> {
    reference::settle(root, FILE, &generate(root)?, bless, "header")?;
    println!("header: {FILE} is what {} say", SOURCES.join(" and "));
    Ok(())
}

fn generate(root: &Path) -> Result<String, String> {
    let configuration = cbindgen::Config::from_file(root.join(CONFIGURATION))?;
    let builder = SOURCES.iter().fold(cbindgen::Builder::new(), |builder, source| builder.with_src(root.join(source)));
    let bindings = builder.with_config(configuration).generate();
    let mut text = Vec::new();
    bindings.map_err(|error| format!("no header can be made of {SOURCES:?}: {error}"))?.write(&mut text);
    String::from_utf8(text).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokens;
    use std::fs;

    /// The generator leaves out what it does not understand.
    #[test]
    fn exported_functions_are_all_in_the_header_with_a_comment() {
        let root = crate::root();
        let header = generate(&root).unwrap();
        let mut functions = 0;
        for source in SOURCES {
            let tokens = tokens::of(&fs::read_to_string(root.join(source)).unwrap());
            for at in tokens::find(&tokens, &["no_mangle"]) {
                let named = tokens[at..].iter().position(|token| token.text == "fn").unwrap();
                let name = &tokens[at + named + 1].text;
                // What is inlined before may declare it, too.
                let declares = |line: &str| !line.starts_with(' ') && line.contains(&format!("{name}("));
                let declaration = header.lines().enumerate().filter(|(_, line)| declares(line)).last();
                let (line, _) = declaration.unwrap_or_else(|| panic!("{name} is not in the header"));
                assert_eq!(header.lines().nth(line - 1), Some(" */"), "{name} has no comment in the header");
                functions += 1;
            }
        }
        assert!(functions > 30, "only {functions} functions were looked for");
    }
}
