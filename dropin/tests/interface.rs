//! The C and C++ interface: every function and operator, their results at the edges, and what is exported.

use dropin::check::check;
use dropin::run::{End, Outcome, Run};
use dropin::subject::{self, Library, Linkage, Mode};
use dropin::{compile, in_both_modes, skips};

in_both_modes! {
    names: "abi names {library}";
    zero_sizes: "abi zero";
    huge_sizes: "abi huge";
    errno: "abi errno";
    sizes_to_70000: "abi sizes";
    alignments: "abi alignments";
    realloc: "abi realloc";
    sized_free: "abi sized";
    information: super::information;

    operators: "cxx operators";
    replaced_operators: "replaced forms";
    replaced_operator_of_arrays: "replaced_arrays forms";
    sizes_in_operators: "cxx sizes";
    bad_alloc: "cxx bad_alloc";
    new_handler: "cxx new_handler";

    program_with_its_own_malloc: |mode| check("own_malloc").ends(mode, 0, &["own malloc served"]);
    linked_statically: |mode| linked(mode, "abi_with_archive", Linkage::Static);
    linked_dynamically: |mode| linked(mode, "abi_with_library", Linkage::Shared);
}

fn information(mode: Mode) {
    let outcome =
        check("abi information").verdict(subject::library(), mode).unwrap_or_else(|report| panic!("{report}"));
    assert!(!outcome.stderr.is_empty(), "{}", outcome.report("malloc_stats printed nothing"));
}

/// A program that was linked with the library, so nothing is preloaded.
fn linked(mode: Mode, output: &str, linkage: Linkage) {
    let flags = linkage.flags();
    let program = compile::variant("abi", output, &flags.iter().map(String::as_str).collect::<Vec<_>>());
    for name in ["zero", "huge", "realloc"] {
        let outcome = Run::new(&program).args([name]).with(&Library::none(), mode).ending(End::Exited(0));
        outcome.unwrap_or_else(|report| panic!("{output} {name} failed: {report}"));
    }
}

/// What readelf says of the library, where it can be asked.
fn readelf(option: &str) -> Option<Outcome> {
    if !skips::has_tools("readelf", &["readelf"]) {
        return None;
    }
    let path = subject::library().path().expect("Commensal is a file");
    let arguments = [option.as_ref(), "--wide".as_ref(), path.as_os_str()];
    Some(Run::new("readelf").args(arguments).with(&Library::none(), Mode::Without))
}

/// Anything more would be loaded into every program, before it and without being asked.
#[test]
fn needs_libc_and_the_loader_only() {
    let Some(outcome) = readelf("--dynamic") else { return };
    let needed = outcome.stdout.lines().filter(|line| line.contains("(NEEDED)"));
    for line in needed {
        let known = line.contains("[libc.so.6]") || line.contains("[ld-linux-x86-64.so.2]");
        assert!(known, "{}", outcome.report(&format!("the library needs more than libc: {line}")));
    }
}

/// The loader writes addresses into what it protects afterwards: each page of it is one that every process pays for when it starts. (Tables of texts,
/// which are addresses, had once made it two.)
#[test]
fn relocated_and_protected_data_is_one_page() {
    let Some(outcome) = readelf("--segments") else { return };
    // Type, offset, virtual and physical address, size in the file and in memory.
    let fields = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let protected =
        outcome.stdout.lines().map(fields).find(|fields| fields.first().is_some_and(|it| it == "GNU_RELRO"));
    let in_file = protected.as_ref().and_then(|fields| fields.get(4)?.strip_prefix("0x"));
    let bytes = in_file.and_then(|hex| u32::from_str_radix(hex, 16).ok());
    assert!(bytes.is_some_and(|bytes| bytes <= 4096), "{}", outcome.report(&format!("it is {bytes:?} bytes")));
}

/// Whatever else had a name would take the place of the program's own thing of that name. (The function that unwinds Rust's stacks
/// did once, and every compiler error ended in an abort.)
#[test]
fn has_names_of_memory_functions_and_its_own_only() {
    const NAMES: &str = "malloc free calloc realloc reallocarray posix_memalign aligned_alloc memalign valloc pvalloc \
        malloc_usable_size malloc_trim mallopt mallinfo mallinfo2 malloc_stats malloc_info free_sized free_aligned_sized \
        __libc_malloc __libc_free __libc_calloc __libc_realloc __libc_memalign __libc_valloc __libc_pvalloc prctl setns unshare vfork _exit _Exit commensal_version";
    let Some(outcome) = readelf("--dyn-syms") else { return };
    let defined: Vec<&str> =
        defined(&outcome).into_iter().map(|name| name.split_once('@').map_or(name, |(name, _)| name)).collect();
    let missing: Vec<&str> = NAMES.split_whitespace().filter(|name| !defined.contains(name)).collect();
    assert!(missing.is_empty(), "{}", outcome.report(&format!("not among the library's names: {missing:?}")));
    // The operators new and delete, and what commensal.h declares.
    let families = ["_Znw", "_Zna", "_Zdl", "_Zda", "cm_"];
    let known =
        |name: &str| NAMES.split_whitespace().any(|it| it == name) || families.iter().any(|it| name.starts_with(it));
    let unknown: Vec<&str> = defined.into_iter().filter(|name| !known(name)).collect();
    assert!(unknown.is_empty(), "{}", outcome.report(&format!("the library should not define {unknown:?}")));
}

/// What it defines, with versions.
fn defined(symbols: &Outcome) -> Vec<&str> {
    // Number, value, size, type, binding, visibility, section, name; the section of what others define is UND. GNU ld
    // makes an absolute symbol of each version's name.
    let symbols = symbols.stdout.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    symbols.filter(|f| f.len() == 8 && !["Ndx", "UND", "ABS"].contains(&f[6])).map(|fields| fields[7]).collect()
}

/// A program asks for `malloc` with a version of the C library, and the loader gives it one without any.
#[test]
fn own_names_have_a_version_and_names_of_other_libraries_none() {
    let Some(outcome) = readelf("--dyn-syms") else { return };
    for name in defined(&outcome) {
        let is_own = ["cm_", "commensal_"].iter().any(|it| name.starts_with(it));
        let version = name.split_once("@@").map(|(_, version)| version);
        let expected = is_own.then_some("COMMENSAL_0.1");
        assert_eq!(version, expected, "{}", outcome.report(&format!("the version of {name}")));
        assert!(is_own || !name.contains('@'), "{name}");
    }
}

/// Programs remember the soname, and a number in it keeps them from loading a library that does not fit.
#[test]
fn program_that_is_linked_asks_for_a_numbered_library_and_versions() {
    if !skips::has_tools("readelf", &["readelf"]) {
        return;
    }
    let flags = Linkage::Shared.flags();
    let program = compile::with_commensal_header("upkeep", "upkeep_versions", &flags);
    let arguments = ["--dynamic".as_ref(), "--version-info".as_ref(), "--wide".as_ref(), program.as_os_str()];
    let outcome = Run::new("readelf").args(arguments).with(&Library::none(), Mode::Without);
    for expected in ["[libcommensal.so.0]", "COMMENSAL_0.1"] {
        assert!(outcome.stdout.contains(expected), "{}", outcome.report(&format!("expected {expected}")));
    }
}
