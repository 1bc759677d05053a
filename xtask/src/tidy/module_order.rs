//! The runtime's modules use only those before them, but for tests.

use crate::tokens::{Token, is};
use crate::tree::{File, Tree, Violation};

const FOLDER: &str = "runtime/src/";

/// Each module may use those before it.
const ORDER: [&str; 11] =
    ["percpu", "counter", "observe", "settings", "page", "slab", "sandbox", "rcu", "group", "upkeep", "heap"];

/// What every module may use: the machine, under the name that macros find it by in other crates, and what the crate's root hands in of higher modules.
const ROOT: [&str; 2] = ["machine", "SERVICES"];

/// Finds uses of later modules and of modules in neither table.
pub fn check(tree: &Tree) -> Vec<Violation> {
    tree.rust()
        .filter_map(|file| Some((file, module_of(&file.path)?)))
        .flat_map(|(file, path)| check_file(file, &path))
        .collect()
}

/// The module path of a file in one of the ordered modules: `page/zone.rs` is `["page", "zone"]`.
fn module_of(path: &str) -> Option<Vec<&str>> {
    let path = path.strip_prefix(FOLDER)?.strip_suffix(".rs")?;
    let parts: Vec<&str> = path.split('/').filter(|part| *part != "mod").collect();
    ORDER.contains(parts.first()?).then_some(parts)
}

fn check_file(file: &File, path: &[&str]) -> Vec<Violation> {
    let own = path[0];
    let uses = uses_of_root(&file.tokens(), path.len());
    uses.into_iter().filter_map(|(used, line)| why_not(own, &used).map(|what| file.violation(line, what))).collect()
}

fn why_not(own: &str, used: &str) -> Option<String> {
    let rank = |name: &str| ORDER.iter().position(|other| *other == name);
    if ROOT.contains(&used) {
        return None;
    }
    match rank(used) {
        Some(used_rank) if Some(used_rank) <= rank(own) => None,
        Some(_) => Some(format!("{own} uses {used}, which comes after it; let {used} hand the service in")),
        None => Some(format!(
            "{own} uses crate::{used}, which is in no table of xtask/src/tidy/module_order.rs; name the module that has it"
        )),
    }
}

/// What the tokens name directly below the crate's root, with lines; `depth` is that of the file's module.
fn uses_of_root(tokens: &[Token], depth: usize) -> Vec<(String, usize)> {
    let mut uses = Vec::new();
    let mut braces = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        match token.text.as_str() {
            "{" => braces.push(at >= 2 && is(&tokens[at - 2..], &["mod"])),
            "}" => drop(braces.pop()),
            "crate" | "super" if token.test => {}
            "crate" => collect_names(&tokens[at + 1..], &mut uses),
            "super" if !is(&tokens[at.saturating_sub(2)..], &["super", "::"]) => {
                let inline_modules = braces.iter().filter(|is_module| **is_module).count();
                let supers = (at..tokens.len()).step_by(2).take_while(|next| is(&tokens[*next..], &["super"])).count();
                if supers == depth + inline_modules {
                    collect_names(&tokens[at + 2 * supers - 1..], &mut uses);
                }
            }
            _ => {}
        }
    }
    uses
}

/// The names behind `::`: one, or the first of each path in braces.
fn collect_names(tokens: &[Token], uses: &mut Vec<(String, usize)>) {
    if !is(tokens, &["::"]) || tokens.len() < 2 {
        return;
    }
    if !is(&tokens[1..], &["{"]) {
        uses.push((tokens[1].text.clone(), tokens[1].line));
        return;
    }
    let mut depth = 0;
    for pair in tokens[1..].windows(2) {
        match pair[0].text.as_str() {
            "{" => depth += 1,
            "}" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return;
        }
        if depth == 1 && matches!(pair[0].text.as_str(), "{" | ",") && pair[1].text != "}" {
            uses.push((pair[1].text.clone(), pair[1].line));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the check says of `source` in the file at `path` below the runtime's sources.
    fn said(path: &str, source: &str) -> Vec<String> {
        let path = format!("{FOLDER}{path}");
        check(&Tree::of([(&path, source)])).into_iter().map(|violation| violation.what).collect()
    }

    #[test]
    fn earlier_modules_and_the_root_set_may_be_used() {
        let source = "use crate::percpu::Area; use crate::{page::Zone, machine::vm, slab}; pub(crate) fn f() {}";
        assert!(said("slab/cache.rs", source).is_empty());
        assert!(said("lib.rs", "use crate::heap::Heap;").is_empty());
        assert!(said("page/tests.rs", "#![cfg(test)] use crate::heap::Heap;").is_empty());
        assert!(
            said("page/zone.rs", "use super::slab; mod tests { use super::*; use super::super::list; }").is_empty()
        );
    }

    #[test]
    fn a_later_module_is_found_however_it_is_named() {
        let planted = [
            ("page/zone.rs", "use crate::slab::Cache;"),
            ("page/zone.rs", "use crate::{percpu::Area, slab::{Cache, Depot}};"),
            ("page/zone.rs", "fn f() { crate::slab::g() }"),
            ("page/zone.rs", "use super::super::slab::Cache;"),
            ("page/mod.rs", "use super::slab::Cache;"),
            ("page/mod.rs", "mod tests { use super::super::slab; }"),
            ("page.rs", "use super::slab;"),
        ];
        for (path, source) in planted {
            let said = said(path, source);
            assert_eq!(said.len(), 1, "{source}: {said:?}");
            assert!(said[0].starts_with("page uses slab"), "{said:?}");
        }
    }

    #[test]
    fn a_name_in_no_table_is_found() {
        assert_eq!(said("percpu/mod.rs", "use crate::Everything;").len(), 1);
    }
}
