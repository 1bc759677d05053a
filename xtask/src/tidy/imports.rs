//! Which files of the runtime import which, read from their tokens.
//!
//! A name is an import of the file that defines it, also where a `mod.rs` re-exports it. `mod x;` is no import, nor is
//! the re-export of a child in a `mod.rs`, unless that `mod.rs` uses the name itself. Tests do not count, and neither do
//! `use`s for documentation. A method call names no file: so `tiers` asks that a type's methods stand in one file.

use std::collections::{HashMap, HashSet};

use crate::tokens::{Token, is};
use crate::tree::{File, Tree};

pub const FOLDER: &str = "runtime/src/";

const ITEMS: [&str; 9] = ["fn", "struct", "enum", "union", "trait", "type", "const", "static", "macro_rules"];
const FOR_DOCUMENTATION: [&str; 8] = ["#", "[", "cfg", "(", "doc", ")", "]", "use"];
/// How many re-exports a name may pass through.
const FUEL: u32 = 16;

#[derive(Debug)]
pub struct Import {
    pub from: usize,
    /// The file that defines the name; none if no file of the runtime does.
    pub to: Option<usize>,
    pub line: usize,
    /// From the crate's root, or from the file if it is found there.
    pub name: String,
}

pub struct Imports<'a> {
    pub modules: Vec<Module<'a>>,
    pub all: Vec<Import>,
    by_path: HashMap<Vec<String>, usize>,
}

pub struct Module<'a> {
    pub file: &'a File,
    /// `page/zone.rs` is `["page", "zone"]`.
    pub path: Vec<String>,
    /// Its tokens without tests.
    pub code: Vec<Token>,
    /// What is defined there.
    items: HashSet<String>,
    /// What is named, in `use`s and elsewhere.
    pub names: Vec<Name>,
    /// Types with methods there.
    pub impls: Vec<Name>,
    /// Each word of the code outside `use`, with its first line.
    words: HashMap<String, usize>,
}

/// A path that stands in a file.
#[derive(Clone, Debug)]
pub struct Name {
    /// From the crate's root.
    pub path: Vec<String>,
    /// Where its first part is, if that is looked up in the file and may be another crate's.
    local: Option<usize>,
    /// What a `use` calls it, or `*` if it uses all that is in it; empty elsewhere.
    pub alias: String,
    reexports: bool,
    pub line: usize,
}

/// What a name leads to: the file, and whether it is the file's module as a whole.
#[derive(Clone, Copy)]
pub struct Found {
    pub file: usize,
    pub whole: bool,
}

impl<'a> Imports<'a> {
    pub fn of(tree: &'a Tree) -> Self {
        let modules: Vec<Module> = tree.rust().filter_map(Module::read).collect();
        let by_path = modules.iter().enumerate().map(|(at, module)| (module.path.clone(), at)).collect();
        let mut imports = Self { modules, all: Vec::new(), by_path };
        imports.all = (0..imports.modules.len()).flat_map(|from| imports.imports_of(from)).collect();
        imports
    }

    fn imports_of(&self, from: usize) -> Vec<Import> {
        let module = &self.modules[from];
        let import = |name: &Name| {
            let is_passed_on = name.reexports && module.is_face() && name.path.starts_with(&module.path);
            let line = if is_passed_on { *module.words.get(&name.alias)? } else { name.line };
            let found = self.definer(name);
            let is_import = found.map_or(name.local.is_none(), |to| {
                let is_own_face = to.whole && self.modules[to.file].is_face() && self.tier(to.file) == self.tier(from);
                to.file != from && !is_own_face
            });
            let to = found.map(|to| to.file);
            is_import.then(|| Import { from, to, line, name: name.path[name.local.unwrap_or(0)..].join("::") })
        };
        module.names.iter().filter_map(import).collect()
    }

    /// The folder, or the single file, below the crate's root in which a file lies.
    pub fn tier(&self, module: usize) -> Option<&str> {
        self.modules[module].path.first().map(String::as_str)
    }

    /// The file that defines what `name` names.
    pub fn definer(&self, name: &Name) -> Option<Found> {
        self.resolve(name, FUEL)
    }

    fn resolve(&self, name: &Name, fuel: u32) -> Option<Found> {
        let mut file = *self.by_path.get(&[][..])?;
        for (at, part) in name.path.iter().enumerate() {
            let here = &self.modules[file];
            let child = self.by_path.get(&name.path[..=at]);
            if child.is_none() || at + 1 == name.path.len() {
                if here.items.contains(part) {
                    return Some(Found { file, whole: false });
                }
                let mut passed_on = here.names.iter().filter(|used| used.alias == *part && fuel > 0);
                let found = passed_on.find_map(|used| {
                    let path = [&used.path, &name.path[at + 1..]].concat();
                    self.resolve(&Name { path, ..used.clone() }, fuel - 1)
                });
                if found.is_some() {
                    return found;
                }
            }
            match child {
                Some(child) => file = *child,
                None if here.path.is_empty() || name.local == Some(at) => return None,
                // A macro makes it.
                None => return Some(Found { file, whole: false }),
            }
        }
        Some(Found { file, whole: true })
    }
}

impl<'a> Module<'a> {
    fn read(file: &'a File) -> Option<Self> {
        let path = file.path.strip_prefix(FOLDER)?.strip_suffix(".rs")?;
        let path = path.split('/').filter(|part| !matches!(*part, "mod" | "lib")).map(str::to_owned).collect();
        let (items, words) = (HashSet::new(), HashMap::new());
        let mut module = Self { file, path, code: vec![], items, names: vec![], impls: vec![], words };
        let is_code = |token: &Token| !token.test && !file.path.ends_with("/tests.rs");
        let code: Vec<Token> = file.tokens().into_iter().filter(is_code).collect();
        module.read_code(&code);
        module.code = code;
        Some(module)
    }

    fn is_face(&self) -> bool {
        self.file.path.ends_with("/mod.rs")
    }

    fn read_code(&mut self, code: &[Token]) {
        // For each open brace, whether it is a module's.
        let mut braces: Vec<bool> = Vec::new();
        let mut at = 0;
        while at < code.len() {
            let before = |count: usize| at.checked_sub(count).map_or("", |at| code[at].text.as_str());
            let after = |count: usize| code.get(at + count).map_or("", |token| token.text.as_str());
            let inline = braces.iter().filter(|is_module| **is_module).count();
            match code[at].text.as_str() {
                _ if code[at].literal => {}
                "{" => braces.push(before(2) == "mod"),
                "}" => drop(braces.pop()),
                "use" if after(1) != "<" => {
                    let reexports = matches!(before(1), "pub" | ")");
                    let is_code = at < 7 || !is(&code[at - 7..], &FOR_DOCUMENTATION);
                    let mut used = Vec::new();
                    at += 1;
                    read_use(code, &mut at, &[], &mut used);
                    for (parts, alias, line) in used.into_iter().filter(|_| is_code) {
                        self.names.push(Name { alias, reexports, ..self.name(&parts, inline, line) });
                    }
                    continue;
                }
                "impl" if inline == braces.len() => {
                    let of = type_of_impl(&code[at + 1..]);
                    self.impls.extend(of.map(|parts| self.name(&parts, inline, code[at].line)));
                }
                word if ITEMS.contains(&word) && inline == braces.len() => {
                    self.items.insert(after(1 + usize::from(after(1) == "!" || after(1) == "mut")).to_owned());
                }
                word if !matches!(before(1), "::" | "." | "fn" | "mod") && after(1) != ":" => {
                    self.words.entry(word.to_owned()).or_insert(code[at].line);
                    let parts = parts_of(&code[at..]);
                    if parts.len() > 1 && !(before(1) == "in" && before(2) == "(") {
                        self.names.push(self.name(&parts, inline, code[at].line));
                    }
                }
                _ => {}
            }
            at += 1;
        }
    }

    /// The name of `parts`, in so many modules inside of the file.
    fn name(&self, parts: &[String], inline: usize, line: usize) -> Name {
        let ups = parts.iter().take_while(|part| *part == "super").count();
        let (base, skipped, is_local) = match parts[0].as_str() {
            "crate" => (0, 1, false),
            "self" => (self.path.len(), 1, false),
            "super" => ((self.path.len() + inline).saturating_sub(ups).min(self.path.len()), ups, false),
            _ => (self.path.len(), 0, true),
        };
        let path = [&self.path[..base], &parts[skipped..]].concat();
        Name { path, local: is_local.then_some(base), alias: String::new(), reexports: false, line }
    }
}

/// The parts of the path that `code` begins with.
fn parts_of(code: &[Token]) -> Vec<String> {
    let is_part = |token: &&Token| token.text.starts_with(|c: char| c.is_alphabetic() || c == '_') && !token.literal;
    let parts = (0..code.len()).step_by(2).take_while(|at| *at == 0 || code[at - 1].text == "::");
    parts.map_while(|at| code.get(at).filter(is_part)).map(|token| token.text.clone()).collect()
}

/// The type whose methods an `impl` has; none if it implements a trait.
fn type_of_impl(code: &[Token]) -> Option<Vec<String>> {
    let (mut depth, mut named) = (0, None);
    for (at, token) in code.iter().enumerate() {
        match token.text.as_str() {
            "<" => depth += 1,
            ">" => depth -= 1,
            "{" | "where" => break,
            "for" if depth == 0 => return None,
            _ if depth == 0 && named.is_none() => named = Some(parts_of(&code[at..])).filter(|parts| !parts.is_empty()),
            _ => {}
        }
    }
    named
}

/// Reads one tree of a `use` from `at` on: each path in it, what it is called, and its line.
fn read_use(code: &[Token], at: &mut usize, prefix: &[String], named: &mut Vec<(Vec<String>, String, usize)>) {
    let mut parts = prefix.to_vec();
    while let Some(token) = code.get(*at) {
        *at += 1;
        let is_next = |at: usize, text: &str| code.get(at).is_some_and(|next| next.text == text);
        match token.text.as_str() {
            "::" => continue,
            "{" => {
                while *at < code.len() && !is_next(*at, "}") {
                    read_use(code, at, &parts, named);
                    *at += usize::from(is_next(*at, ","));
                }
                *at += 1;
                return;
            }
            "*" => return named.push((parts, "*".to_owned(), token.line)),
            "self" if !parts.is_empty() => {}
            part => parts.push(part.to_owned()),
        }
        if !is_next(*at, "::") {
            let renamed = is_next(*at, "as");
            *at += 2 * usize::from(renamed);
            let alias = if renamed { code.get(*at - 1).map(|token| &token.text) } else { parts.last() };
            return named.push((parts.clone(), alias.cloned().unwrap_or_default(), token.line));
        }
    }
}
