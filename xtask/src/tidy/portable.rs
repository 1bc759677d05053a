//! The runtime and the workloads name no operating system and hold no mutable state of their own.
//!
//! Both are compiled for every machine, and a simulation starts from nothing a thousand times in one process. Neither has std nor any crate of a
//! system, so that the compiler finds what names those.

use crate::tokens::{Token, find};
use crate::tree::{File, Tree, Violation};

const FOLDERS: [&str; 2] = ["runtime/src/", "workload/src/"];

/// What must not stand there, and where to look instead.
const FORBIDDEN: [(&[&str], &str); 6] = [
    (&["syscall"], "ask `machine` for it"),
    (&["asm", "!"], "make it an operation of `machine`"),
    (&["global_asm", "!"], "make it an operation of `machine`"),
    (&["naked_asm", "!"], "make it an operation of `machine`"),
    (&["target_os"], "let Cargo.toml choose the machine"),
    (&["static", "mut"], "hang it from the Runtime"),
];

/// Symbols for C belong to malloc/.
const ONLY_RUNTIME: [(&[&str], &str); 2] =
    [(&["no_mangle"], "C's names live in malloc/"), (&["export_name"], "C's names live in malloc/")];

/// Words in the type of a static that make it mutable.
const MUTABLE: [&str; 7] = ["Atomic", "Cell", "Lock", "Mutex", "Once", "Lazy", "Condvar"];

/// Finds operating systems and mutable statics.
pub fn check(tree: &Tree) -> Vec<Violation> {
    let portable = |file: &&File| FOLDERS.iter().any(|folder| file.path.starts_with(folder));
    tree.rust().filter(portable).flat_map(check_file).collect()
}

fn check_file(file: &File) -> Vec<Violation> {
    let tokens = file.tokens();
    let mut violations = Vec::new();
    let mut table = FORBIDDEN.to_vec();
    if file.path.starts_with("runtime/src/") {
        table.extend(ONLY_RUNTIME);
    }
    for (pattern, advice) in table {
        violations.extend(
            find(&tokens, pattern)
                .map(|at| file.violation(tokens[at].line, format!("names `{}`; {advice}", pattern.concat()))),
        );
    }
    let code: Vec<Token> = tokens.into_iter().filter(|token| !token.test).collect();
    violations.extend(
        mutable_statics(&code).map(|at| file.violation(code[at].line, "is a mutable static; hang it from the Runtime")),
    );
    violations
}

/// Where `static NAME: TYPE` has a type that changes behind a shared reference.
fn mutable_statics(code: &[Token]) -> impl Iterator<Item = usize> {
    find(code, &["static"]).filter(|at| {
        let declared = code[*at..].iter().take_while(|token| token.text != "=" && token.text != ";");
        let mut kind = declared.skip(3);
        kind.any(|token| MUTABLE.iter().any(|word| token.text.contains(word)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, source: &str) -> usize {
        check(&Tree::of([(path, source)])).len()
    }

    #[test]
    fn forbidden_code_is_found_in_both_folders() {
        let planted = [
            "fn f() { syscall(1) }",
            "fn f() { unsafe { core::arch::asm!(\"nop\") } }",
            "#[cfg(target_os = \"linux\")] fn f() {}",
            "static mut X: u8 = 0;",
            "static X: AtomicU64 = AtomicU64::new(0);",
            "pub static X: &Wrapper<UnsafeCell<u8>> = &W;",
        ];
        for source in planted {
            assert_eq!(found("runtime/src/heap/mod.rs", source), 1, "{source}");
            assert_eq!(found("workload/src/lib.rs", source), 1, "{source}");
            assert_eq!(found("machine/host/src/vm.rs", source), 0, "{source}");
        }
        assert_eq!(found("runtime/src/heap/mod.rs", "#[unsafe(no_mangle)] extern \"C\" fn malloc() {}"), 1);
    }

    #[test]
    fn constant_statics_comments_and_tests_are_left_alone() {
        let allowed = [
            "// syscall(1)\nfn f() {}",
            "static EMPTY: [u8; 4] = [0; 4]; fn f(x: &'static Cell<u8>) {}",
            "#[cfg(test)] mod tests { static X: AtomicU64 = AtomicU64::new(0); }",
        ];
        for source in allowed {
            assert_eq!(found("runtime/src/heap/mod.rs", source), 0, "{source}");
        }
    }
}
