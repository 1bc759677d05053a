//! How the shared library is linked.

use std::env;
use std::process::{Command, Stdio};

/// The number rises when programs that are linked with the library would not run with it any more. `cargo xtask abi`
/// tells when that is so.
const SONAME: &str = "libcommensal.so.0";

fn main() {
    let folder = env!("CARGO_MANIFEST_DIR");
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    let link = |argument: &str| println!("cargo::rustc-cdylib-link-arg={argument}");
    // Restartable sections leave a pointer to their descriptor behind in each thread: the code must never be unloaded.
    link("-Wl,-z,nodelete");
    link(&format!("-Wl,-soname,{SONAME}"));
    // The compiler's start files would run code of theirs at exit, for libraries that are unloaded, and have names looked
    // up in vain at the start.
    link("-nostartfiles");
    // What the loader relocates and then protects fits one page only if it begins with one.
    link("-Wl,-z,separate-loadable-segments");
    for file in ["text.ld", "versions.ld", "versions.sh"] {
        println!("cargo::rerun-if-changed={file}");
    }
    // mold cannot read an order of sections, and links well without it.
    if !flags.contains("mold") {
        link(&format!("-Wl,-T,{folder}/text.ld"));
    }
    // GCC runs the linker by another command, whichever linker that is. Clang cannot.
    let wrapper = format!("sh,{folder}/versions.sh");
    let compiler = flags.split("linker=").nth(1).and_then(|rest| rest.split('\x1f').next());
    let compiler = compiler.map(Into::into).or_else(|| env::var("RUSTC_LINKER").ok()).unwrap_or("cc".into());
    let mut probe = Command::new(&compiler);
    probe.args(["-wrapper", &wrapper, "-E", "-x", "c", "/dev/null"]).stdout(Stdio::null()).stderr(Stdio::null());
    if probe.status().is_ok_and(|status| status.success()) {
        link("-wrapper");
        link(&wrapper);
    } else {
        println!("cargo::warning=the library's names get no versions: {compiler}, which links it, is not GCC");
    }
}
