//! Functions, lines and inlined frames of programs that are compiled here, by addresses that they print.

use std::fs;
use std::path::Path;
use std::process::Command;

use dropin::skips::has_tools;
use object::{Object, ReadCache};
use profiles::builder::Builder;
use profiles::profile::{Frame, Profile};
use profiles::{names, read};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests");

fn succeeds(command: &mut Command) -> String {
    let done = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(done.status.success(), "{command:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

fn build_id(path: &str) -> String {
    let Ok(file) = fs::File::open(path) else { return String::new() };
    let data = ReadCache::new(file);
    let file = object::File::parse(&data).unwrap();
    file.build_id().unwrap().unwrap_or_default().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A program and its library in a folder, compiled with these flags.
fn compile(folder: &Path, flags: &[&str]) {
    let compile = |source: &str, more: &[&str]| {
        let mut gcc = Command::new("gcc");
        gcc.args(["-O1", "-Wl,--build-id"]).args(flags).arg(format!("{FOLDER}/{source}")).current_dir(folder);
        succeeds(gcc.args(more));
    };
    compile("library.c", &["-shared", "-fPIC", "-o", "libcall.so"]);
    compile("program.c", &["-o", "program", "-L.", "-lcall", "-Wl,-rpath,$ORIGIN"]);
}

/// The stack that a program prints, as a profile of one sample.
fn profile_of(program: &Path, build_id: impl Fn(&str) -> String) -> profiles::proto::Profile {
    let printed = succeeds(&mut Command::new(program));
    let (stack, maps) = printed.split_once('\n').unwrap();
    let number = |word: &str| u64::from_str_radix(word.trim_start_matches("0x"), 16).unwrap();
    let stack: Vec<u64> = stack.split_whitespace().map(number).collect();
    let mut builder = Builder::new(512 << 10);
    builder.maps(maps, build_id).sample(&stack, [1, 10, 1, 10, 1, 10], &[]);
    read::profile(&read::gzipped(&builder.finish())).unwrap()
}

/// The named stack, innermost first, and the warnings.
fn named(program: &Path, build_id: impl Fn(&str) -> String) -> (Vec<Frame>, Vec<String>) {
    let mut raw = profile_of(program, build_id);
    let warnings = names::add(&mut raw, Path::new(names::DEBUG_FILES));
    let stack = Profile::new(&raw).unwrap().samples.remove(0).stack;
    (stack.into_iter().map(|frame| frame.as_ref().clone()).collect(), warnings)
}

/// Functions with lines.
fn shown(stack: &[Frame]) -> Vec<String> {
    stack.iter().map(Frame::to_string).collect()
}

#[test]
fn c_program_with_debug_information_has_functions_lines_and_inlined_frames() {
    let folder = tempfile::tempdir().unwrap();
    for flags in [&["-g", "-pie", "-fPIE"][..], &["-g", "-no-pie"], &["-g", "-gz=zlib"], &["-g", "-gsplit-dwarf"]] {
        compile(folder.path(), flags);
        let (stack, warnings) = named(&folder.path().join("program"), build_id);
        let expected = [
            "hidden (tests/library.c:3)",
            "through_library (tests/library.c:8)",
            "inlined (tests/program.c:16)",
            "outer (tests/program.c:21)",
            "main (tests/program.c:26)",
        ];
        assert_eq!(shown(&stack)[..5], expected, "{flags:?}");
        assert!(warnings.is_empty(), "{warnings:?}");
    }
}

#[test]
fn stripped_library_has_only_the_names_it_exports() {
    let folder = tempfile::tempdir().unwrap();
    compile(folder.path(), &[]);
    succeeds(Command::new("strip").arg(folder.path().join("libcall.so")));
    let (stack, _) = named(&folder.path().join("program"), build_id);
    let functions: Vec<&str> = stack.iter().map(|frame| frame.function.as_str()).collect();
    assert!(functions[0].starts_with("libcall.so+0x"), "{functions:?}");
    // Without debug information, nothing is known to be inlined.
    assert_eq!(functions[1..4], ["through_library", "outer", "main"]);
}

#[test]
fn file_of_another_build_gives_a_warning_and_no_names() {
    let folder = tempfile::tempdir().unwrap();
    compile(folder.path(), &["-g"]);
    let other = |file: &str| if file.ends_with("libcall.so") { "0123abcd".to_owned() } else { build_id(file) };
    let (stack, warnings) = named(&folder.path().join("program"), other);
    assert!(stack[0].function.starts_with("libcall.so+0x") && stack[1].function.starts_with("libcall.so+0x"));
    assert_eq!(stack[2].function, "inlined");
    assert_eq!(warnings.len(), 1);
    let said = &warnings[0];
    assert!(said.contains("libcall.so: is another build") && said.contains("expected 0123abcd"), "{said}");
}

#[test]
fn missing_and_broken_files_give_a_warning_each() {
    let folder = tempfile::tempdir().unwrap();
    compile(folder.path(), &["-g"]);
    let program = folder.path().join("program");
    let mut raw = profile_of(&program, build_id);
    fs::remove_file(folder.path().join("libcall.so")).unwrap();
    // The ELF header stays.
    let mut bytes = fs::read(&program).unwrap();
    bytes.truncate(bytes.len() / 2);
    fs::write(&program, bytes).unwrap();
    let warnings = names::add(&mut raw, Path::new(names::DEBUG_FILES));
    assert!(warnings.iter().any(|said| said.contains("libcall.so: cannot be read")), "{warnings:?}");
    assert!(warnings.iter().any(|said| said.contains("program: ")), "{warnings:?}");
}

#[test]
fn debug_file_of_its_own_is_found_by_build_id() {
    let folder = tempfile::tempdir().unwrap();
    compile(folder.path(), &["-g"]);
    let library = folder.path().join("libcall.so");
    let id = build_id(library.to_str().unwrap());
    let debug = folder.path().join(&id[..2]);
    fs::create_dir(&debug).unwrap();
    let debug = debug.join(format!("{}.debug", &id[2..]));
    succeeds(Command::new("objcopy").arg("--only-keep-debug").args([&library, &debug]));
    succeeds(Command::new("strip").arg(&library));
    let mut raw = profile_of(&folder.path().join("program"), build_id);
    names::add(&mut raw, folder.path());
    let stack = &Profile::new(&raw).unwrap().samples[0].stack;
    assert_eq!(stack[0].to_string(), "hidden (tests/library.c:3)");
}

#[test]
fn names_of_cpp_and_rust_are_read() {
    if !has_tools("names_of_cpp_and_rust_are_read", &["g++"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let [cpp, rust] = ["cpp", "rust"].map(|name| folder.path().join(name));
    succeeds(Command::new("g++").args(["-O1", "-g", "-o"]).arg(&cpp).arg(format!("{FOLDER}/program.cc")));
    let of = |program| shown(&named(program, build_id).0);
    assert_eq!(of(&cpp)[..2], ["capture<int> (tests/program.cc:8)", "cache::Store::insert (tests/program.cc:17)"]);
    // The second has no names of modules in its debug information.
    for debug in ["-Cdebuginfo=2", "-Cdebuginfo=line-tables-only"] {
        let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        let options = ["--edition=2024", "-Copt-level=1", debug, "-o"];
        succeeds(Command::new(rustc).args(options).arg(&rust).arg(format!("{FOLDER}/program.rs")));
        assert_eq!(of(&rust)[0], "program::cache::Store<T>::insert (tests/program.rs:13)", "{debug}");
    }
}
