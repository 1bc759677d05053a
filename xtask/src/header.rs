//! The C header, generated from the functions that the library exports, and held against the committed one.
//!
//! Whoever builds a C program has the header without this tool or a Rust compiler, so it is committed; and a change of a function or its
//! comment that forgets the header is found here. `malloc/cbindgen.toml` says what the header has besides the functions.

use std::fs;
use std::path::Path;

/// The header's place, from the root.
pub const FILE: &str = "malloc/include/commensal.h";
const CONFIGURATION: &str = "malloc/cbindgen.toml";
/// In the order in which their functions appear.
const SOURCES: [&str; 8] = [
    "malloc/src/counter.rs",
    "malloc/src/counters.rs",
    "malloc/src/cache.rs",
    "malloc/src/group.rs",
    "malloc/src/rcu.rs",
    "malloc/src/rcu_reader.rs",
    "malloc/src/locks.rs",
    "malloc/src/upkeep.rs",
];

/// Generates the header, and compares it with the committed one or writes it.
pub fn run(root: &Path, bless: bool) -> Result<(), String> {
    let generated = generate(root)?;
    let file = root.join(FILE);
    if bless {
        fs::create_dir_all(file.parent().expect("the header is in a folder")).map_err(|error| error.to_string())?;
        fs::write(&file, &generated).map_err(|error| format!("{FILE} cannot be written: {error}"))?;
    }
    let committed = fs::read_to_string(&file).map_err(|error| format!("{FILE} cannot be read: {error}"))?;
    compare(&committed, &generated)?;
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

fn compare(committed: &str, generated: &str) -> Result<(), String> {
    if committed == generated {
        return Ok(());
    }
    let same =
        committed.lines().zip(generated.lines()).take_while(|(committed, generated)| committed == generated).count();
    let [found, expected] = [committed, generated].map(|text| text.lines().nth(same).unwrap_or("the end of the file"));
    let line = same + 1;
    Err(format!("{FILE}:{line}: found {found:?}, expected {expected:?}; to accept that: cargo xtask header --bless"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokens;

    #[test]
    fn a_header_that_differs_is_found_with_the_line() {
        let header = "int a(void);\nint b(void);\n";
        assert!(compare(header, header).is_ok());
        let said = compare("int a(void);\nint c(void);\n", header).unwrap_err();
        assert!(said.contains("commensal.h:2: found \"int c(void);\", expected \"int b(void);\""), "{said}");
        assert!(compare("int a(void);\n", header).unwrap_err().contains("found \"the end of the file\""));
    }

    /// The generator leaves out what it does not understand.
    #[test]
    fn every_exported_function_is_in_the_header_with_its_comment() {
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
