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
    use serde_json::{Deserializer, Value};
    use std::collections::BTreeMap;
    use std::io::Write;
    use std::process::{Command, Stdio};

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
        // The first column of the page's table has what names begin with.
        let page = fs::read_to_string(root.join("docs/reference/c.md")).unwrap();
        let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split('|').next());
        let begins: Vec<&str> =
            rows.flat_map(|row| row.split(['`', ',', ' '])).filter(|word| !word.is_empty()).collect();
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
                let above: Vec<_> = header.lines().take(line).collect();
                let comment: String = above.into_iter().rev().take_while(|line| line.starts_with("///")).collect();
                assert!(!comment.is_empty(), "{name} has no comment in the header");
                // The heading of sets refers to single counters.
                let may_fail = comment.contains("Returns 0, or -1") && !name.starts_with("cm_counters_");
                assert!(!may_fail || comment.contains("errno:"), "{name} does not tell its errno");
                assert!(begins.iter().any(|word| name.starts_with(word)), "{name} is in no row of docs/reference/c.md");
                functions += 1;
            }
        }
        assert!(functions > 30, "only {functions} functions were looked for");
    }

    /// What users see and has no comment, as Clang understands the text: functions, types, and what is public in these.
    /// Looks at names with this in them.
    fn undocumented(language: &str, named: &str, text: &str) -> Vec<String> {
        /// Notes names, and whether one of their declarations has a comment.
        fn look(at: &Value, path: &str, known: &mut BTreeMap<String, bool>) {
            let word = |of: &Value, key: &str| of[key].as_str().unwrap_or_default().to_owned();
            let parts = |of: &Value| of["inner"].as_array().cloned().unwrap_or_default();
            let mut is_public = word(at, "tagUsed") != "class";
            for part in parts(at) {
                let (kind, name) = (word(&part, "kind"), word(&part, "name"));
                match kind.as_str() {
                    "AccessSpecDecl" => is_public = word(&part, "access") == "public",
                    "NamespaceDecl" | "LinkageSpecDecl" | "ClassTemplateDecl" => look(&part, path, known),
                    _ => {}
                }
                let is_seen = is_public && kind.ends_with("Decl") && !kind.contains("Parm") && kind != "VarDecl";
                let is_given = part["isImplicit"] == true || part["explicitlyDeleted"] == true;
                if is_seen && !is_given && kind != "NamespaceDecl" && !name.is_empty() && !name.starts_with('_') {
                    let full = format!("{path}{name}");
                    *known.entry(full.clone()).or_default() |=
                        parts(&part).iter().any(|part| word(part, "kind") == "FullComment");
                    if kind.ends_with("RecordDecl") {
                        look(&part, &format!("{full}::"), known);
                    }
                }
            }
        }

        let mut clang = Command::new("clang");
        let standard = if language == "c" { "-std=c11" } else { "-std=c++17" };
        clang.args(["-x", language, standard, "-fsyntax-only", "-fparse-all-comments", "-Xclang", "-ast-dump=json"]);
        clang.args(["-Xclang", &format!("-ast-dump-filter={named}"), "-I", "malloc/include", "-"]);
        clang.current_dir(crate::root()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = clang.spawn().expect("clang is there: dropin/install.sh installs it");
        child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        let dumped = child.wait_with_output().unwrap();
        assert!(dumped.status.success(), "clang understands the text");
        let mut known = BTreeMap::new();
        for one in Deserializer::from_slice(&dumped.stdout).into_iter::<Value>() {
            look(&serde_json::json!({ "inner": [one.unwrap()] }), "", &mut known);
        }
        assert!(!known.is_empty(), "nothing is named {named}");
        known.into_iter().filter(|(_, has_comment)| !has_comment).map(|(name, _)| name).collect()
    }

    #[test]
    fn headers_have_a_comment_for_all_that_users_see() {
        assert_eq!(undocumented("c", "cm_", "#include <commensal.h>"), [""; 0]);
        assert_eq!(undocumented("c++", "commensal::", "#include <commensal.hpp>"), [""; 0]);
    }

    #[test]
    fn name_without_a_comment_is_found() {
        let c = "/* A type. */ struct cm_a { int cm_b; int _c; };\n/* One. */ int cm_d(int e);\nint cm_f(void);";
        assert_eq!(undocumented("c", "cm_", c), ["cm_a::cm_b", "cm_f"]);
        let cxx = "namespace own {\n/* A class. */\nclass a { int b; public: a();\n/* C. */\nint c(); int d(); }; }";
        assert_eq!(undocumented("c++", "own::", cxx), ["a::a", "a::d"]);
    }
}
