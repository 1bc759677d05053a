//! The C header, generated from the functions that the library exports, and compared with the committed one.
//!
//! A C programmer has the header without this tool or a Rust compiler, so it is committed. A change of a function or its
//! comment that forgets the header is found here. Each section of the header begins with what is written by hand: its
//! heading, macros and inline functions. The generator adds the constants, types and functions of one file.

use std::fs;
use std::path::Path;

use crate::reference;

/// The header's place, from the root.
pub const FILE: &str = "malloc/include/commensal.h";
/// The header for C++, which is written by hand.
pub const CXX_FILE: &str = "malloc/include/commensal.hpp";
const CONFIGURATION: &str = "malloc/cbindgen.toml";
const BY_HAND: &str = "malloc/header";
const SOURCES: &str = "malloc/src";
/// The sections in their order. Each is a file of SOURCES, and one of BY_HAND.
const SECTIONS: [&str; 13] = [
    "version", "names", "counter", "counters", "cache", "group", "limit", "rcu", "rcu_reader", "locks", "profile",
    "sandbox", "upkeep",
];
const CLOSING: &str = "\n#ifdef __cplusplus\n} /* extern \"C\" */\n#endif\n\n#endif /* COMMENSAL_H */\n";

/// The parts of the version, which all packages share.
const VERSION: [(&str, &str); 3] = [
    ("@MAJOR@", env!("CARGO_PKG_VERSION_MAJOR")),
    ("@MINOR@", env!("CARGO_PKG_VERSION_MINOR")),
    ("@PATCH@", env!("CARGO_PKG_VERSION_PATCH")),
];

pub fn run(root: &Path, bless: bool) -> Result<(), String> {
    reference::settle(root, FILE, &generate(root)?, bless, "header")?;
    println!("header: {FILE} is what {SOURCES} and {BY_HAND} say");
    Ok(())
}

fn generate(root: &Path) -> Result<String, String> {
    let by_hand = |name: &str| {
        let file = root.join(BY_HAND).join(format!("{name}.h"));
        fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))
    };
    let mut text = by_hand("opening")?;
    for name in SECTIONS {
        text += &format!("\n{}\n{}", by_hand(name)?, declarations(root, name)?.trim_start());
    }
    text += CLOSING;
    for (word, part) in VERSION {
        text = text.replace(word, part);
    }
    Ok(text)
}

/// What C programs see of a file.
fn declarations(root: &Path, name: &str) -> Result<String, String> {
    let configuration = cbindgen::Config::from_file(root.join(CONFIGURATION))?;
    let source = root.join(SOURCES).join(format!("{name}.rs"));
    let bindings = cbindgen::Builder::new().with_src(&source).with_config(configuration).generate();
    let mut text = Vec::new();
    bindings.map_err(|error| format!("no header can be made of {}: {error}", source.display()))?.write(&mut text);
    String::from_utf8(text).map(|text| join_attributes(&text)).map_err(|error| error.to_string())
}

/// The generator begins a line with attributes, also where they fit into the line before.
fn join_attributes(text: &str) -> String {
    let mut joined = String::new();
    let mut width = 0;
    for line in text.lines() {
        let begins = if !line.starts_with("CM_NOTHROW") {
            "\n"
        } else if width + 1 + line.len() <= 120 {
            " "
        } else {
            "\n    "
        };
        joined += begins;
        joined += line;
        width = if begins == " " { width + 1 } else { 0 } + line.len();
    }
    joined + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokens;

    #[test]
    fn attributes_stand_behind_their_function_if_they_fit() {
        let long = format!("int b({})", "x".repeat(110));
        let text = format!("int a(void)\nCM_NOTHROW;\n{long}\nCM_NOTHROW CM_CHECKED;\n");
        let joined = format!("\nint a(void) CM_NOTHROW;\n{long}\n    CM_NOTHROW CM_CHECKED;\n");
        assert_eq!(join_attributes(&text), joined);
    }

    /// The generator leaves out what it does not understand.
    #[test]
    fn exported_functions_are_all_in_the_header_with_a_comment() {
        let root = crate::root();
        let header = generate(&root).unwrap();
        let mut functions = 0;
        for name in SECTIONS {
            let source = root.join(SOURCES).join(format!("{name}.rs"));
            let tokens = tokens::of(&fs::read_to_string(source).unwrap());
            for at in tokens::find(&tokens, &["no_mangle"]) {
                let named = tokens[at..].iter().position(|token| token.text == "fn").unwrap();
                let name = &tokens[at + named + 1].text;
                // What is inlined before may declare it, too.
                let declares = |line: &str| !line.starts_with([' ', '/']) && line.contains(&format!("{name}("));
                let declaration = header.lines().enumerate().filter(|(_, line)| declares(line)).last();
                let (line, _) = declaration.unwrap_or_else(|| panic!("{name} is not in the header"));
                let has_comment = header.lines().nth(line - 1).is_some_and(|line| line.starts_with("/// "));
                assert!(has_comment, "{name} has no comment in the header");
                functions += 1;
            }
        }
        assert!(functions > 30, "only {functions} functions were looked for");
    }
}
