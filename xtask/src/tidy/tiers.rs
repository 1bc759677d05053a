//! The runtime's files use only tiers below their own, no files use each other in a circle, and nothing goes around that.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use super::excuse;
use super::imports::{FOLDER, Import, Imports};
use crate::tokens::Token;
use crate::tree::{Tree, Violation};

/// From the bottom to the top: a tier may use itself and those before it.
const TIERS: [&str; 18] = [
    "upcalls", "layout", "percpu", "observe", "counter", "settings", "misuse", "page_heap", "central", "depot",
    "cpu_cache", "caches", "sandbox", "profile", "rcu", "group", "upkeep", "heap",
];

/// Files above all tiers.
const TOP: [&str; 3] = ["lib.rs", "global.rs", "allocator.rs"];

/// What each tier may use of the crate's root: the machine, as macros name it, and the table of calls upward.
const ROOT: [&str; 2] = ["machine", "UPCALLS"];

type Rule = fn(&Imports<'_>) -> Vec<Violation>;

/// What is checked, and below which folders it is excused for now. These tables only shrink.
const RULES: [(Rule, &[&str]); 3] = [(upward, &[]), (circles, &[]), (hidden, &[])];

/// What hides a use of another file from this check, or an access from the simulated machine; and what to do instead.
const HIDING: [(&str, &str); 6] = [
    ("transmute", "let the type say what it is; calls upward go through crate::UPCALLS"),
    ("transmute_copy", "let the type say what it is; calls upward go through crate::UPCALLS"),
    ("read_volatile", "load a relaxed atomic, which the simulated machine sees"),
    ("write_volatile", "store to a relaxed atomic, which the simulated machine sees"),
    ("union", "use an enum, or two fields"),
    ("AtomicPtr", "name the type that it points to, which is of this tier or of one below"),
];

/// What an `AtomicPtr` must not point to, by the last token.
const UNTYPED: [&str; 3] = ["u8", ")", "c_void"];

/// Finds uses of later tiers, circles, and what goes around both.
pub fn check(tree: &Tree) -> Vec<Violation> {
    let imports = Imports::of(tree);
    RULES.iter().flat_map(|(rule, places)| excuse(tree, rule(&imports), FOLDER, places, file!())).collect()
}

pub fn print(root: &Path) -> Result<(), String> {
    let tree = Tree::read(root)?;
    let imports = Imports::of(&tree);
    let mut arrows: BTreeMap<(Option<usize>, Option<usize>), Vec<&Import>> = BTreeMap::new();
    for import in imports.between_tiers() {
        let to = import.to.and_then(|to| imports.rank(to));
        arrows.entry((imports.rank(import.from), to)).or_default().push(import);
    }
    println!("What each tier uses of others, from the bottom to the top:");
    for ((from, to), all) in arrows.iter().filter(|((from, to), _)| from != to) {
        let name = |rank: &Option<usize>| rank.map_or("", |rank| TIERS[rank]);
        let way = if to > from { " UPWARD" } else { "" };
        println!("  {} -> {}{way}: {} imports, such as {}", name(from), name(to), all.len(), imports.arrow(all[0]));
    }
    for knot in imports.knots() {
        println!("Circles of {} files:", knot.len());
        imports.arrows_within(&knot).iter().for_each(|import| println!("  {}", imports.arrow(import)));
    }
    println!("What `cargo xtask tidy` finds, and excuses by a table:");
    RULES.iter().flat_map(|(rule, _)| rule(&imports)).for_each(|violation| println!("  {violation}"));
    Ok(())
}

/// Files and uses that are in no tier, uses of a tier above, and methods of another tier's types.
fn upward(imports: &Imports<'_>) -> Vec<Violation> {
    let homeless = (0..imports.modules.len()).filter(|file| imports.rank(*file).is_none());
    let homeless = homeless.filter(|file| !TOP.contains(&imports.name(*file)));
    let homeless = homeless.map(|file| (file, 1, format!("is in no tier; put it into one of {}", TIERS.join(", "))));
    let uses = imports.all.iter().filter_map(|import| {
        let (own, name) = (imports.rank(import.from)?, &import.name);
        let what = match import.to.and_then(|to| imports.rank(to)) {
            Some(rank) if rank <= own => return None,
            Some(rank) => {
                let used = TIERS[rank];
                format!("uses {name} of {used}, a tier above; move it down, or let {used} hand it in")
            }
            None if name.split("::").next().is_some_and(|part| ROOT.contains(&part)) => return None,
            None => format!("uses crate::{name}, which is in no tier; name the file that defines it"),
        };
        Some((import.from, import.line, what))
    });
    let violations = homeless.chain(uses);
    let violations = violations.map(|(file, line, what)| imports.modules[file].file.violation(line, what));
    let methods = imports.methods_elsewhere().filter(|(in_tier, _)| !in_tier).map(|(_, violation)| violation);
    violations.chain(methods).collect()
}

/// The shortest circle of each knot.
fn circles(imports: &Imports<'_>) -> Vec<Violation> {
    let circle = |start: usize| {
        let needed = imports.needs(start);
        let mut way = vec![needed[&start]];
        while way[0].from != start {
            way.insert(0, needed[&way[0].from]);
        }
        way
    };
    let shortest = |knot: Vec<usize>| {
        let way = knot.iter().map(|file| circle(*file)).min_by_key(Vec::len)?;
        let arrows: Vec<String> = way.iter().map(|import| imports.arrow(import)).collect();
        let what = format!(
            "is in a circle: {}; move what both need into a file below ({} files hang together, see `cargo xtask tiers`)",
            arrows.join(", "),
            knot.len()
        );
        Some(imports.modules[way[0].from].file.violation(way[0].line, what))
    };
    imports.knots().into_iter().filter_map(shortest).collect()
}

/// What hides a use or an access.
fn hidden(imports: &Imports<'_>) -> Vec<Violation> {
    let mut violations = Vec::new();
    for module in &imports.modules {
        for (at, token) in module.code.iter().enumerate().filter(|(_, token)| !token.literal) {
            let hiding = HIDING.iter().find(|(word, _)| *word == token.text);
            let kind = pointed_to(&module.code[at..]);
            if let Some((word, advice)) = hiding.filter(|(word, _)| *word != "AtomicPtr" || UNTYPED.contains(&kind)) {
                let what = format!("has {}; {advice}", [word, kind].join(" ").trim_end());
                violations.push(module.file.violation(token.line, what));
            }
        }
        let all = module.names.iter().filter(|name| name.alias == "*");
        let all = all.filter(|name| imports.definer(name).is_some_and(|found| found.whole));
        violations.extend(all.map(|name| module.file.violation(name.line, "uses all of a module; name what it uses")));
    }
    violations
}

impl Imports<'_> {
    fn name(&self, file: usize) -> &str {
        &self.modules[file].file.path[FOLDER.len()..]
    }

    fn rank(&self, file: usize) -> Option<usize> {
        TIERS.iter().position(|tier| Some(*tier) == self.tier(file))
    }

    fn arrow(&self, import: &Import) -> String {
        let to = import.to.map_or("nothing", |to| self.name(to));
        format!("{}:{} -> {to} ({})", self.name(import.from), import.line, import.name)
    }

    /// Methods that stand elsewhere than their type, and whether it is in its tier.
    fn methods_elsewhere(&self) -> impl Iterator<Item = (bool, Violation)> {
        let impls =
            self.modules.iter().enumerate().flat_map(|(at, module)| module.impls.iter().map(move |name| (at, name)));
        let impls = impls.filter_map(|(at, name)| Some((at, name, self.definer(name)?.file)));
        impls.filter(|(at, _, to)| at != to).map(|(at, name, definer)| {
            let (kind, to) = (name.path.last().map_or("", String::as_str), self.name(definer));
            let what = format!("has methods of {kind}, which {to} defines; make them functions, or move them there");
            (self.tier(at) == self.tier(definer), self.modules[at].file.violation(name.line, what))
        })
    }

    /// One import for each arrow between these files.
    fn arrows_within(&self, knot: &[usize]) -> Vec<&Import> {
        let mut arrows = BTreeMap::new();
        for import in self.between_tiers().filter(|import| knot.contains(&import.from)) {
            if let Some(to) = import.to.filter(|to| knot.contains(to)) {
                arrows.entry((import.from, to)).or_insert(import);
            }
        }
        arrows.into_values().collect()
    }

    fn between_tiers(&self) -> impl Iterator<Item = &Import> {
        let is_in_tier = |file: &usize| self.rank(*file).is_some();
        self.all.iter().filter(move |import| is_in_tier(&import.from) && import.to.as_ref().is_some_and(is_in_tier))
    }

    /// All files that `start` needs, each with the last import on the shortest way there.
    fn needs(&self, start: usize) -> HashMap<usize, &Import> {
        let (mut needed, mut files) = (HashMap::new(), vec![start]);
        while !files.is_empty() {
            let imports = self.between_tiers().filter(|import| files.contains(&import.from));
            let mut next = Vec::new();
            for (to, import) in imports.filter_map(|import| Some((import.to?, import))) {
                needed.entry(to).or_insert_with(|| {
                    next.push(to);
                    import
                });
            }
            files = next;
        }
        needed
    }

    /// Files each of which needs all others.
    fn knots(&self) -> Vec<Vec<usize>> {
        let needs: Vec<HashMap<usize, &Import>> = (0..self.modules.len()).map(|file| self.needs(file)).collect();
        let need_each_other = |a: usize, b: usize| needs[a].contains_key(&b) && needs[b].contains_key(&a);
        let files = || 0..needs.len();
        let knots = files().map(|file| files().filter(|other| need_each_other(file, *other)).collect::<Vec<usize>>());
        knots.enumerate().filter(|(file, knot)| knot.first() == Some(file)).map(|(_, knot)| knot).collect()
    }
}

/// The last token of the type that the `AtomicPtr` at the beginning points to.
fn pointed_to(code: &[Token]) -> &str {
    let behind = code.iter().skip(1).skip_while(|token| token.text == "::");
    let mut kind = behind.take_while(|token| token.text != ">");
    let opens = kind.next().is_some_and(|token| token.text == "<");
    kind.last().filter(|_| opens).map_or("", |token| &token.text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::File;

    fn said(rule: fn(&Imports<'_>) -> Vec<Violation>, files: &[&str]) -> Vec<String> {
        let root = ["lib.rs const UPCALLS: u8 = 0; pub use global::Commensal;", "page_heap.rs "];
        let file = |file: &&str| file.split_once(' ').map(|(path, text)| (format!("{FOLDER}{path}"), text.to_owned()));
        let mut tree = Tree::of([]);
        tree.files.extend(root.iter().chain(files).filter_map(file).map(|(path, text)| File { path, text }));
        rule(&Imports::of(&tree)).iter().map(Violation::to_string).collect()
    }

    const BELOW: [&str; 4] = [
        "page_heap/mod.rs pub use zone::Zone; pub const PAGE: usize = 1;",
        "page_heap/zone.rs pub struct Zone; impl Zone { fn page(&self) {} }",
        "caches/mod.rs mod cache; pub use cache::{Cache, self as c};",
        "caches/cache.rs use super::super::page_heap::{self, Zone}; pub struct Cache(Zone); fn f() { page_heap::g() }",
    ];

    fn said_of(rule: fn(&Imports<'_>) -> Vec<Violation>, source: &str) -> Vec<String> {
        said(rule, &[&BELOW[..], &[&format!("page_heap/list.rs {source}")]].concat())
    }

    #[test]
    fn tiers_below_and_the_set_of_calls_upward_may_be_used() {
        let allowed = [
            "heap/mod.rs use crate::{page_heap::Zone, machine::vm, caches}; pub(in crate::heap) fn f() { crate::UPCALLS.g() }",
            "page_heap/tests.rs #![cfg(test)] use crate::heap::Heap;",
            "page_heap/list.rs #[cfg(test)] mod tests { use crate::caches::Cache; } mod m { use super::super::zone; }",
            "global.rs use crate::heap;",
        ];
        assert_eq!(said(upward, &[&BELOW[..], &allowed[..]].concat()), Vec::<String>::new());
    }

    #[test]
    fn import_of_a_tier_above_is_found_however_it_is_named() {
        let planted = [
            "use crate::caches::Cache;",
            "use crate::{page_heap::{Zone}, caches::{c}};",
            "use super::super::caches::cache;",
            "fn f() { crate::caches::g() }",
            "mod m { fn f() { super::super::super::caches::Cache::new() } }",
            "macro_rules! m { () => { $crate::caches::Cache } }",
            "use crate as all; fn f() { all::caches::Cache::new() }",
            "pub use crate::caches::*;",
        ];
        for source in planted {
            let said = said_of(upward, source);
            let is_it = |what: &&String| what.contains("list.rs:1: uses") && what.contains(" of caches, a tier above");
            assert_eq!(said.iter().filter(is_it).count(), 1, "{source}: {said:?}");
        }
        let face = [BELOW[1], BELOW[2], BELOW[3], "page_heap/mod.rs pub use crate::caches::Cache;"];
        assert_eq!(said(upward, &face).len(), 1);
    }

    #[test]
    fn module_or_use_outside_all_tiers_is_found() {
        assert_eq!(said_of(upward, "use crate::Everything;").len(), 1);
        assert_eq!(said(upward, &["page_heap/zone.rs use crate::Commensal;", "global.rs "]).len(), 1);
        assert_eq!(said(upward, &["elsewhere/mod.rs "]).len(), 1);
    }

    #[test]
    fn circles_are_found_through_re_exports_and_parents() {
        let planted: [&[&str]; 4] = [
            &[
                "page_heap/mod.rs pub use list::List; pub use zone::Zone;",
                "page_heap/list.rs struct List; fn f(z: super::zone::Zone) {}",
                "page_heap/zone.rs use super::List; pub struct Zone;",
            ],
            &[
                "page_heap/mod.rs mod zone; const PAGE: u8 = 0; fn f() { zone::g() }",
                "page_heap/zone.rs use super::PAGE;",
            ],
            &["page_heap/mod.rs pub use zone::Zone; fn f(_: Zone) {}", "page_heap/zone.rs use super::f; struct Zone;"],
            &[
                "page_heap/a.rs use super::b::B;",
                "page_heap/b.rs use super::c::C; struct B;",
                "page_heap/c.rs use super::a;",
            ],
        ];
        for files in planted {
            assert_eq!(said(circles, files).len(), 1, "{files:?}");
        }
        assert!(
            said(circles, planted[3])[0]
                .contains("page_heap/b.rs:1 -> page_heap/c.rs (page_heap::c::C), page_heap/c.rs:1 ->")
        );
    }

    #[test]
    fn re_exports_and_modules_are_no_circles() {
        let face =
            "page_heap/mod.rs mod zone; mod list; pub use zone::Zone; pub const PAGE: u8 = 0; fn f(x: T) { x.Zone() }";
        let child = "page_heap/zone.rs use super::{PAGE, list}; pub struct Zone; fn f() { list::g() }";
        assert_eq!(said(circles, &[child, face, "page_heap/list.rs use crate::page_heap;"]).len(), 0);
    }

    #[test]
    fn code_that_hides_a_use_is_found_except_in_tests() {
        let planted = [
            "struct S { a: AtomicPtr<u8> }",
            "fn f() { AtomicPtr::<()>::new(p) }",
            "type A = AtomicPtr<core::ffi::c_void>;",
            "fn f() { core::mem::transmute(g) }",
            "fn f() { p.read_volatile() }",
            "fn f() { p.write_volatile(0) }",
            "union U { a: u8 }",
            "use super::zone::*;",
        ];
        for source in planted {
            assert_eq!(said_of(hidden, source).len(), 1, "{source}");
            assert_eq!(said_of(hidden, &format!("#[cfg(test)] {source}")).len(), 0);
        }
        let allowed = "// union\nstruct S { a: AtomicPtr<Zone> } fn f() -> Option<u8> { AtomicPtr::new(p) }";
        assert_eq!(said_of(hidden, allowed).len(), 0);
    }

    #[test]
    fn methods_of_a_type_in_another_tier_are_found() {
        let planted = "caches/list.rs use crate::page_heap::Zone; impl Zone { fn f() {} }";
        assert_eq!(said(upward, &[&BELOW[..], &[planted]].concat()).len(), 1);
        let allowed = "use super::Zone; impl Zone { } impl Drop for Zone {} impl<T> Own<T> {} struct Own<T>(T);";
        assert_eq!(said_of(upward, allowed).len(), 0);
    }
}
