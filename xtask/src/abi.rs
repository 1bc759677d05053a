//! The library's binary interface, compared with the committed one: a program that was linked with an older library of
//! the same soname must run with this one.
//!
//! The file has a line for each exported symbol with its version, and for each function, constant, structure and field
//! of the header. An added line is accepted by `--bless`. A line that is removed or changed is refused until the soname
//! in malloc/build.rs changes. Before the first release, the file may also be deleted and blessed.
//!
//! libabigail finds no C types here: the library's debug information is Rust's. So `readelf` tells the symbols, and a C
//! program that includes the header tells sizes and offsets.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::{header, library};

const FILE: &str = "malloc/abi.txt";
const SONAME: &str = "soname ";

pub fn run(root: &Path, bless: bool) -> Result<(), String> {
    let built = library::build(root)?.shared;
    let current = lines(root, &built)?;
    let path = root.join(FILE);
    if bless && !path.exists() {
        write(&path, &current)?;
    }
    let committed = fs::read_to_string(&path).map_err(|error| format!("{FILE} cannot be read: {error}"))?;
    let committed: Vec<String> = committed.lines().map(str::to_owned).collect();
    match judge(&committed, &current) {
        Verdict::Same => {}
        Verdict::Compatible(_) if bless => write(&path, &current)?,
        Verdict::Compatible(added) => {
            return Err(format!("{added}\n{FILE} does not have that; to accept it: cargo xtask abi --bless"));
        }
        Verdict::Broken(gone) => {
            return Err(format!(
                "{gone}\n{FILE} has that, and the library no more: programs that are linked with it would not run. \
                 Restore it, or raise the number in the soname in malloc/build.rs, and then: cargo xtask abi --bless"
            ));
        }
    }
    println!("abi: {FILE} has the {} lines of the library and its header", current.len());
    Ok(())
}

fn write(path: &Path, lines: &[String]) -> Result<(), String> {
    fs::write(path, lines.join("\n") + "\n").map_err(|error| format!("{FILE} cannot be written: {error}"))
}

#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Same,
    /// These lines are new, or the soname is.
    Compatible(String),
    /// These lines are gone.
    Broken(String),
}

fn judge(committed: &[String], current: &[String]) -> Verdict {
    let [old, new] = [committed, current].map(|lines| lines.iter().map(String::as_str).collect::<BTreeSet<_>>());
    let said = |lines: BTreeSet<&str>| lines.into_iter().collect::<Vec<_>>().join("\n");
    let gone = &old - &new;
    let is_renamed = gone.iter().any(|line| line.starts_with(SONAME));
    if committed == current {
        Verdict::Same
    } else if gone.is_empty() || is_renamed {
        Verdict::Compatible(said(&new - &old))
    } else {
        Verdict::Broken(said(gone))
    }
}

/// All that programs may rely on.
fn lines(root: &Path, built: &Path) -> Result<Vec<String>, String> {
    let text = fs::read_to_string(root.join(header::FILE))
        .map_err(|error| format!("{} cannot be read: {error}", header::FILE))?;
    let declared = Declared::of(&text);
    let symbols = symbols(built)?;
    let exported: BTreeSet<&str> = symbols
        .iter()
        .filter_map(|line| line.split([' ', '@']).nth(1))
        .filter(|name| name.starts_with("cm_"))
        .collect();
    let functions: BTreeSet<&str> = declared.functions.iter().map(|function| name_of(function)).collect();
    if let Some(name) = exported.symmetric_difference(&functions).next() {
        return Err(format!("{name} is exported by the library or declared in its header, but not both"));
    }
    let mut lines = vec![format!("{SONAME}{}", library::soname(built)?)];
    lines.extend(symbols);
    lines.extend(declared.functions.iter().map(|function| format!("function {function}")));
    lines.extend(declared.constants.iter().map(|constant| format!("constant {constant}")));
    lines.extend(layout(root, built, &declared.structures)?);
    Ok(lines)
}

/// The symbols that the library defines: `symbol NAME@@VERSION KIND`.
fn symbols(built: &Path) -> Result<Vec<String>, String> {
    let output = Command::new("readelf").args(["--dyn-syms", "--wide"]).arg(built).output();
    let output = output.map_err(|error| format!("readelf, of binutils, cannot be started: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    // Number, value, size, kind, binding, visibility, section, name. GNU ld makes an absolute symbol of each version.
    let rows = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let defined = rows.filter(|row| row.len() == 8 && !["Ndx", "UND", "ABS"].contains(&row[6]));
    let all: BTreeSet<String> = defined.map(|row| format!("symbol {} {}", row[7], row[3])).collect();
    if all.is_empty() { Err(format!("{} defines nothing", built.display())) } else { Ok(all.into_iter().collect()) }
}

/// What a header declares.
#[derive(Debug, Default, PartialEq, Eq)]
struct Declared {
    /// Prototypes without attributes and without the names of arguments.
    functions: BTreeSet<String>,
    /// Names and numbers of macros.
    constants: Vec<String>,
    /// Names of structures, with their fields.
    structures: Vec<(String, Vec<String>)>,
}

impl Declared {
    fn of(header: &str) -> Declared {
        let mut declared = Declared::default();
        let text = without_comments(header);
        let (mut statement, mut depth, mut is_macro) = (String::new(), 0, false);
        for line in text.lines() {
            if is_macro || line.starts_with('#') {
                is_macro = line.ends_with('\\');
                declared.add_constant(line);
                continue;
            }
            for letter in line.chars() {
                statement.push(letter);
                depth += i32::from(letter == '{') - i32::from(letter == '}');
                let is_body = letter == '}' && depth == 0 && statement.trim_start().starts_with("static ");
                if is_body || letter == ';' && depth == 0 || statement.trim() == "extern \"C\" {" {
                    depth = 0;
                    declared.add_statement(&std::mem::take(&mut statement));
                }
            }
            statement.push(' ');
        }
        declared
    }

    fn add_constant(&mut self, line: &str) {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let ["#define", name, value] = words[..]
            && value.parse::<u64>().is_ok()
            && !name.starts_with("CM_VERSION")
        {
            self.constants.push(format!("{name} {value}"));
        }
    }

    fn add_statement(&mut self, statement: &str) {
        let statement = statement.split_whitespace().collect::<Vec<_>>().join(" ");
        if let Some((head, body)) = statement.strip_prefix("typedef struct ").and_then(|rest| rest.split_once('{')) {
            let body = body.rsplit_once('}').map_or(body, |(body, _)| body);
            let fields = body.split(';').flat_map(|declaration| match declaration.split_once("(*") {
                Some((_, rest)) => vec![rest.split(')').next().unwrap_or(rest)],
                None => declaration.split(',').map(field_of).collect(),
            });
            let fields = fields.filter(|name| !name.is_empty()).map(str::to_owned).collect();
            self.structures.push((head.trim().to_owned(), fields));
        } else if statement.contains('(') && !statement.starts_with("static ") && !statement.starts_with("typedef ") {
            let prototype = statement.split(" CM_NOTHROW").next().unwrap_or(&statement);
            self.functions.insert(without_names(prototype.trim_end_matches(';')));
        }
    }
}

fn without_comments(text: &str) -> String {
    let mut parts = text.split("/*");
    let first = parts.next().unwrap_or_default().to_owned();
    let text = parts.fold(first, |text, part| text + part.split_once("*/").map_or("", |(_, rest)| rest));
    text.lines().map(|line| line.split("//").next().unwrap_or(line)).collect::<Vec<_>>().join("\n")
}

/// The name in a declaration such as `char type[16]` or `*previous`.
fn field_of(declaration: &str) -> &str {
    let name = declaration.split('[').next().unwrap_or(declaration).trim_end();
    name.rsplit(|letter: char| !letter.is_alphanumeric() && letter != '_').next().unwrap_or(name)
}

fn without_names(prototype: &str) -> String {
    let Some((head, arguments)) = prototype.split_once('(') else { return prototype.to_owned() };
    let arguments = arguments.trim_end_matches(')').split(',').map(|argument| match argument.trim() {
        // The name of a function is part of its type, and here it stays.
        argument if argument.contains("(*") => argument.to_owned() + ")",
        "void" => "void".to_owned(),
        argument => argument.trim_end_matches(field_of(argument)).trim_end().to_owned(),
    });
    format!("{head}({})", arguments.collect::<Vec<_>>().join(", "))
}

fn name_of(function: &str) -> &str {
    field_of(function.split('(').next().unwrap_or(function))
}

/// Sizes and offsets, as a C compiler sees them.
fn layout(root: &Path, built: &Path, structures: &[(String, Vec<String>)]) -> Result<Vec<String>, String> {
    let mut source = "#include <commensal.h>\n#include <stdio.h>\nint main(void) {\n".to_owned();
    for (name, fields) in structures {
        source += &format!(
            "printf(\"struct {name} %zu bytes, aligned to %zu\\n\", sizeof({name}), (size_t)_Alignof({name}));\n"
        );
        for field in fields {
            source += &format!(
                "printf(\"field {name}.{field} at %zu, %zu bytes\\n\", offsetof({name}, {field}), \
                 sizeof((({name} *)0)->{field}));\n"
            );
        }
    }
    source += "return 0;\n}\n";
    let program = built.with_file_name("abi-layout");
    let file = program.with_extension("c");
    fs::write(&file, source).map_err(|error| format!("{} cannot be written: {error}", file.display()))?;
    let mut compile = Command::new("cc");
    compile.args(["-std=c11", "-o"]).arg(&program).arg("-I").arg(root.join("malloc/include")).arg(&file);
    library::succeeds(&mut compile)?;
    let output = Command::new(&program).output().map_err(|error| format!("{}: {error}", program.display()))?;
    Ok(String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn as_lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    const OLD: &str = "soname a.so.0\nsymbol a@@V FUNC\nfield s.x at 0, 8 bytes";

    #[test]
    fn added_symbol_asks_to_be_accepted() {
        let new = format!("{OLD}\nsymbol b@@V FUNC");
        assert_eq!(judge(&as_lines(OLD), &as_lines(OLD)), Verdict::Same);
        assert_eq!(judge(&as_lines(OLD), &as_lines(&new)), Verdict::Compatible("symbol b@@V FUNC".into()));
    }

    #[test]
    fn removed_symbol_or_moved_field_is_refused_until_the_soname_changes() {
        for (from, to, gone) in [
            ("symbol a@@V FUNC\n", "", "symbol a@@V FUNC"),
            ("a@@V", "a@@W", "symbol a@@V FUNC"),
            ("at 0, 8", "at 4, 8", "field s.x at 0, 8 bytes"),
        ] {
            let new = OLD.replace(from, to);
            assert_eq!(judge(&as_lines(OLD), &as_lines(&new)), Verdict::Broken(gone.into()));
            let renamed = new.replace("a.so.0", "a.so.1");
            assert!(matches!(judge(&as_lines(OLD), &as_lines(&renamed)), Verdict::Compatible(_)), "{renamed}");
        }
    }

    #[test]
    fn header_is_read_by_declarations() {
        const HEADER: &str = "/* int no(void); */\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n\
            #define CM_MOST 260\n#define CM_LONG(n) \\\n    struct { int x; }\n#define CM_VERSION_MAJOR 0\n\
            typedef struct cm_a cm_a;\ntypedef void (*cm_hook)(void *object);\n\
            typedef struct cm_b {\n    /// A comment; with one.\n    struct cm_b *next, *last;\n    char text[16];\n\
            void (*end)(void *);\n} cm_b;\n\
            static inline void cm_in(cm_b *b) {\n    if (b) {\n        b->next = b;\n    }\n}\n\
            int cm_f(cm_b *b,\n         cm_hook hook) CM_NOTHROW CM_NONNULL;\nint cm_g(void);\n";
        let declared = Declared::of(HEADER);
        assert!(declared.functions.iter().eq(["int cm_f(cm_b *, cm_hook)", "int cm_g(void)"]), "{declared:?}");
        assert_eq!(declared.constants, ["CM_MOST 260"]);
        assert_eq!(declared.structures, [("cm_b".into(), ["next", "last", "text", "end"].map(String::from).to_vec())]);
        assert_eq!(name_of("void *cm_f(cm_b *)"), "cm_f");
        let deferred = "void cm_c(cm_b *b, void (*f)(cm_b *b))";
        assert_eq!(without_names(deferred), "void cm_c(cm_b *, void (*f)(cm_b *b))");
    }
}
