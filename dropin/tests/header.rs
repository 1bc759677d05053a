//! `commensal.h` and `commensal.hpp` as compilers see them: no warning in any standard, and a warning about each mistake that its attributes
//! let them find; the version that it and the library tell.

use dropin::linked::holds;
use dropin::run::{End, Run};
use dropin::skips::has_tools;
use dropin::subject::{Library, Linkage, Mode};
use dropin::{empty_folder, in_both_modes};
use std::process::Command;

in_both_modes! {
    version_of_the_header_is_that_of_the_library: |mode| holds(mode, "version same");
}

const STRICT: [&str; 4] = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"];
const INCLUDE: &str = concat!("-I", env!("CARGO_MANIFEST_DIR"), "/../malloc/include");

/// What a compiler says of a source, which it compiles with optimisation, and whether it accepts it.
fn said(compiler: &str, flags: &[&str], extension: &str, source: &str) -> (bool, String) {
    let folder = empty_folder();
    let file = folder.join("a").with_extension(extension);
    std::fs::write(&file, source).expect("a file can be written");
    let mut command = Command::new(compiler);
    command.args(["-O2", "-c", INCLUDE, "-o"]).arg(folder.join("a.o")).args(flags).arg(file);
    let output = command.output().unwrap_or_else(|error| panic!("cannot run {compiler}: {error}"));
    (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Uses each macro, and many functions as they are meant.
const GOOD: &str = r#"
#include <commensal.h>
#include <stdlib.h>
#if CM_VERSION < 1000 || CM_VERSION != CM_VERSION_MAJOR * 1000000 + CM_VERSION_MINOR * 1000 + CM_VERSION_PATCH
#error "the version"
#endif
struct item { int number; cm_rcu_list part; };
static cm_rcu_list list = CM_RCU_LIST_INIT(list);
static cm_counter counter = CM_COUNTER_INIT;
static CM_COUNTERS(2) counters = CM_COUNTERS_INIT(2);
int good(cm_group *group, cm_cache *cache, cm_rcu_reader *reader, cm_rcu_list *member);
int good(cm_group *group, cm_cache *cache, cm_rcu_reader *reader, cm_rcu_list *member) {
    int sum = 0;
    char *text = (char *)cm_group_alloc(group, 8);
    void *object = cm_cache_alloc(cache), *other = cm_cache_alloc(cache);
    if (text != NULL)
        text[7] = 1;
    free(text);
    cm_cache_free(cache, object);
    free(other); /* This is allowed. */
    cm_cache_free(cache, NULL);
    cm_rcu_list_add(member, &list);
    cm_rcu_section section = cm_rcu_read_lock();
    CM_RCU_LIST_FOR_EACH(struct item, found, part, &list)
        sum += found->number;
    cm_rcu_read_unlock(section);
    cm_rcu_list_remove(member);
    cm_rcu_checkpoint(reader);
    cm_counter_add(&counter, 1);
    cm_counters_add(&counters.set, 1, 1);
    return sum;
}
"#;

const IN_C: [(&str, &[&str]); 2] = [("gcc", &["c99", "c11", "c17", "c2x"]), ("clang", &["c99", "c11", "c17", "c2x"])];
const IN_CXX: [(&str, &[&str]); 2] = [
    ("g++", &["c++11", "c++14", "c++17", "c++20", "c++2b"]),
    ("clang++", &["c++11", "c++14", "c++17", "c++20", "c++2b"]),
];

fn no_warning_in(compilers: &[(&str, &[&str])], extension: &str, more: &[&str], source: &str) {
    for (compiler, standards) in compilers {
        if !has_tools("commensal.h", &[compiler]) {
            continue;
        }
        for standard in *standards {
            let standard = format!("-std={standard}");
            let flags = [&STRICT[..], &[standard.as_str()], more].concat();
            let (is_accepted, text) = said(compiler, &flags, extension, source);
            assert!(is_accepted, "{compiler} {standard} {more:?}:\n{text}");
        }
    }
}

#[test]
fn header_in_any_standard_of_c_has_no_warning() {
    no_warning_in(&IN_C, "c", &[], GOOD);
}

#[test]
fn header_in_any_standard_of_cxx_has_no_warning() {
    no_warning_in(&IN_CXX, "cc", &[], GOOD);
}

const FROM_CXX17: [(&str, &[&str]); 2] =
    [("g++", &["c++17", "c++20", "c++2b"]), ("clang++", &["c++17", "c++20", "c++2b"])];
const BESIDE: &str = concat!("-I", env!("CARGO_MANIFEST_DIR"), "/c");

#[test]
fn cxx_header_in_any_standard_has_no_warning() {
    let more = ["-D_GNU_SOURCE", "-pthread", BESIDE];
    no_warning_in(&FROM_CXX17, "cc", &more, include_str!("../c/cxx_header.cc"));
}

/// Other tests run what GCC makes of it.
#[test]
fn cxx_header_does_the_same_when_clang_compiles_it() {
    if !has_tools("commensal.hpp", &["clang++"]) {
        return;
    }
    let program = empty_folder().join("cxx_header");
    let mut command = Command::new("clang++");
    command.args(["-std=c++17", "-O1", "-D_GNU_SOURCE", "-pthread", INCLUDE, "-o"]).arg(&program);
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/c/cxx_header.cc")).args(Linkage::Shared.flags());
    assert!(command.status().is_ok_and(|status| status.success()), "{command:?}");
    for check in ["containers", "resources", "scopes", "caches", "sections"] {
        let outcome = Run::new(&program).args([check]).with(&Library::none(), Mode::Normal);
        outcome.ending(End::Exited(0)).unwrap_or_else(|report| panic!("{check}: {report}"));
    }
}

/// The C library's larger headers cannot do without that name, so they are left out.
#[test]
fn header_for_a_compiler_that_is_unlike_gcc_has_no_warning() {
    let source = GOOD.replace("#include <stdlib.h>", "void free(void *block);");
    no_warning_in(&IN_C, "c", &["-U__GNUC__"], &source);
}

/// Planted bugs that were seen here: `nonnull` of all or of one argument, `warn_unused_result`, `alloc_size` or the
/// function that frees was left away.
#[test]
fn mistakes_that_attributes_tell_are_warned_about() {
    if !has_tools("commensal.h", &["gcc"]) {
        return;
    }
    for (mistake, warning) in [
        ("cm_group_alloc(group, 8);", "unused-result"),
        ("cm_group_enter(group, &entry);", "unused-result"),
        ("cm_counter_limited_add(&counter, 1, 2);", "unused-result"),
        ("cm_counter_add(NULL, 1);", "nonnull"),
        ("cm_cache_free(NULL, NULL);", "nonnull"),
        ("return cm_group_create(NULL, NULL, 0);", "nonnull"),
        ("char *text = cm_group_alloc(group, 8); memset(text, 0, 9); return text;", "array-bounds"),
        ("char *text = cm_group_aligned_alloc(group, 64, 8); text[8] = 1; return text;", "array-bounds"),
        ("return cm_group_alloc(group, SIZE_MAX);", "alloc-size-larger-than="),
        ("cm_cache_free(cache, strdup(\"a\"));", "mismatched-dealloc"),
        ("cm_cache_free(cache, malloc(8));", "mismatched-dealloc"),
        ("cm_cache_free(cache, (char *)cm_cache_alloc(cache) + 8);", "free-nonheap-object"),
    ] {
        let source = format!(
            "#include <commensal.h>\n#include <stdlib.h>\n#include <string.h>\n
            void *bad(cm_group *group, cm_cache *cache) {{
                cm_group_entry entry; cm_counter counter = CM_COUNTER_INIT;
                (void)group; (void)cache; (void)entry; (void)counter;
                {mistake}
                return NULL;
            }}\n"
        );
        let (is_accepted, text) = said("gcc", &["-std=gnu11", "-Wall", "-Wextra"], "c", &source);
        assert!(is_accepted && text.contains(&format!("[-W{warning}")), "{mistake} has no -W{warning}:\n{text}");
    }
}

/// The compiler sees no way out of the functions, so it makes no code for one.
#[test]
fn functions_in_cxx_do_not_throw() {
    if has_tools("commensal.h", &["g++"]) {
        let source = "#include <commensal.h>\nstatic_assert(noexcept(cm_counter_sum(nullptr)), \"\");
            static_assert(noexcept(cm_version()), \"\");\n";
        let (is_accepted, text) = said("g++", &["-std=c++11", "-Wno-nonnull"], "cc", source);
        assert!(is_accepted, "{text}");
    }
}
