//! What comes between a program and the library: other libraries that are preloaded, other mallocs, rights, and variables that mean another malloc.

use std::path::Path;

use commensal_lab::arm;
use serde_json::{Value, json};

use super::finding::{Finding, Verdict};
use super::process::Process;
use super::tree::Tree;
use crate::{elf, preload};

/// Variables that set up glibc's malloc or another one.
const OTHERS: [&str; 3] = ["MALLOC_", "MIMALLOC_", "TCMALLOC_"];
const TUNABLES: &str = "GLIBC_TUNABLES";
const TUNABLES_OF_MALLOC: &str = "glibc.malloc.";

/// A library that is preloaded already.
#[derive(Debug)]
struct Preloaded {
    name: String,
    /// None: the loader does not find it.
    brings_malloc: Option<bool>,
}

/// What LD_PRELOAD has already.
pub fn preloaded(process: &Process) -> Finding {
    let list = process.variable(preload::VARIABLE).unwrap_or_default();
    // As the loader splits it.
    let names = list.split([' ', ':']).filter(|name| !name.is_empty());
    judge_preloaded(&names.map(looked_at).collect::<Vec<_>>())
}

fn looked_at(name: &str) -> Preloaded {
    let path = arm::loaded(Path::new(name)).ok().and_then(Result::ok);
    Preloaded { name: name.to_owned(), brings_malloc: path.map(|path| elf::exports(&path, "malloc")) }
}

fn judge_preloaded(libraries: &[Preloaded]) -> Finding {
    const ITEM: &str = "preload";
    let named = |which: Option<bool>| -> Vec<&str> {
        libraries.iter().filter(|it| it.brings_malloc == which).map(|it| it.name.as_str()).collect()
    };
    let (mallocs, missing) = (named(Some(true)), named(None));
    let all: Vec<&str> = libraries.iter().map(|it| it.name.as_str()).collect();
    let facts = json!({ "libraries": all, "mallocs": mallocs, "missing": missing });
    if libraries.is_empty() {
        return Finding::fine(ITEM, "nothing in LD_PRELOAD", "`run` puts the library there").with(facts);
    }
    let found = format!("LD_PRELOAD has {}", all.join(", "));
    let finding = |meaning: String| Finding::fine(ITEM, &found, meaning).with(facts.clone());
    if !mallocs.is_empty() {
        let meaning = format!(
            "{} brings a malloc too; `run` puts the library first, and the first one counts",
            mallocs.join(", ")
        );
        return finding(meaning).but(Verdict::Less).advising("take it out of LD_PRELOAD; `compare` finds it without");
    }
    if !missing.is_empty() {
        let meaning = format!("the loader does not find {}, and says so in each program", missing.join(", "));
        return finding(meaning).advising("take it out of LD_PRELOAD");
    }
    finding("none of them brings a malloc; `run` puts the library before them".to_owned())
}

/// Variables that other mallocs read.
pub fn environment(process: &Process) -> Finding {
    const ITEM: &str = "environment";
    let mut names: Vec<String> = process
        .environment
        .iter()
        .map(|(name, _)| name.to_string_lossy().into_owned())
        .filter(|name| OTHERS.iter().any(|start| name.starts_with(start)))
        .collect();
    names.sort();
    if process.variable(TUNABLES).is_some_and(|it| it.split(':').any(|one| one.starts_with(TUNABLES_OF_MALLOC))) {
        names.push(format!("{TUNABLES_OF_MALLOC}… in {TUNABLES}"));
    }
    let facts = json!({ "variables": names });
    if names.is_empty() {
        return Finding::fine(ITEM, "no settings of other mallocs", "nothing is lost").with(facts);
    }
    let meaning = "settings of another malloc: the library does not read them";
    Finding::fine(ITEM, names.join(", "), meaning)
        .advising("COMMENSAL_CONF has settings of the library's own; the README lists them")
        .with(facts)
}

/// What decides whether the loader may put a library into a program.
pub fn privileges(tree: &Tree, process: &Process) -> Finding {
    const ITEM: &str = "privileges";
    let ptrace = tree.number("/proc/sys/kernel/yama/ptrace_scope").ok();
    let facts: Value = json!({
        "secure": process.is_secure,
        "no_new_privs": process.no_new_privs,
        "filtered": process.is_filtered,
        "ptrace_scope": ptrace,
    });
    let not = |is: bool| if is { "" } else { "not " };
    let filter = process.is_filtered.map_or(String::new(), |is| format!(", system calls {}filtered", not(is)));
    let yama = ptrace.map_or(String::new(), |scope| format!(", ptrace_scope {scope} (of no account)"));
    let found = format!("no_new_privs {}set{filter}{yama}", not(process.no_new_privs));
    let finding = |meaning| Finding::fine(ITEM, &found, meaning).with(facts.clone());
    if process.is_secure {
        return finding("this command has more rights than its user, and the loader ignores LD_PRELOAD then")
            .but(Verdict::Fails)
            .advising("take the set-user-ID bit or the file capabilities from the command");
    }
    if process.no_new_privs {
        finding("no program gains rights here, so the library is loaded into set-user-ID programs too")
    } else {
        finding("the loader leaves the library out of programs that gain rights (set-user-ID); `run` says so")
    }
}

#[cfg(test)]
mod tests {
    use super::super::process::tests::{on, with};
    use super::super::tree::tests::of;
    use super::*;

    fn preloading(name: &str, brings_malloc: Option<bool>) -> Preloaded {
        Preloaded { name: name.to_owned(), brings_malloc }
    }

    #[test]
    fn another_malloc_is_told() {
        assert_eq!(judge_preloaded(&[]).verdict, Verdict::Fine);
        let other = judge_preloaded(&[preloading("a.so", Some(false)), preloading("b.so", Some(true))]);
        assert!(other.verdict == Verdict::Less && other.meaning.starts_with("b.so brings"), "{other:?}");
        let gone = judge_preloaded(&[preloading("a.so", None)]);
        assert!(gone.verdict == Verdict::Fine && gone.meaning.contains("does not find a.so"), "{gone:?}");
        assert_eq!(judge_preloaded(&[preloading("a.so", Some(false))]).advice, None);
    }

    #[test]
    fn what_the_loader_finds_is_looked_into() {
        assert_eq!(looked_at("libc.so.6").brings_malloc, Some(true));
        assert_eq!(looked_at("libm.so.6").brings_malloc, Some(false));
        assert_eq!(looked_at("libno-such-library.so").brings_malloc, None);
    }

    #[test]
    fn settings_of_other_mallocs_are_named() {
        assert_eq!(environment(&on("6.8.0")).advice, None);
        for (variable, value) in
            [("MALLOC_ARENA_MAX", "1"), ("MIMALLOC_VERBOSE", "1"), (TUNABLES, "glibc.malloc.check=1")]
        {
            let found = environment(&with(variable, value));
            assert!(found.advice.is_some() && found.found.contains(variable), "{found:?}");
        }
        assert_eq!(environment(&with(TUNABLES, "glibc.pthread.rseq=0")).advice, None);
    }

    #[test]
    fn a_command_with_more_rights_than_its_user_cannot_preload() {
        let (_folder, tree) = of(&[("/proc/sys/kernel/yama/ptrace_scope", "1\n")]);
        let secure = privileges(&tree, &Process { is_secure: true, ..on("6.8.0") });
        assert_eq!((secure.verdict, &secure.facts["ptrace_scope"]), (Verdict::Fails, &json!(1)));
        let (_folder, empty) = of(&[]);
        let usual = privileges(&empty, &Process { no_new_privs: true, is_filtered: None, ..on("6.8.0") });
        assert_eq!((usual.verdict, &*usual.found), (Verdict::Fine, "no_new_privs set"));
    }
}
