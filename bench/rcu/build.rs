//! Compiles the C side of liburcu's flavours, where its headers are installed (Debian: liburcu-dev). Readers are inlined there, as liburcu's authors
//! would have it done; without `_LGPL_SOURCE` each would be two calls.

use std::env;
use std::path::Path;
use std::process::{Command, Stdio};

const FLAVOURS: [&str; 3] = ["memb", "bp", "qsbr"];

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=liburcu.c");
    println!("cargo:rustc-check-cfg=cfg(liburcu)");
    if !has_liburcu() {
        println!(
            "cargo:warning=found no liburcu: its flavours are left out; install it (Debian: apt-get install liburcu-dev)"
        );
        return;
    }
    for flavour in FLAVOURS {
        let mut build = cc::Build::new();
        build.file("liburcu.c").opt_level(3).define("HEADER", format!("<urcu/urcu-{flavour}.h>").as_str());
        build.define("NAME(name)", format!("{flavour}_##name").as_str());
        if flavour == "bp" {
            build.define("REGISTERS_ITSELF", None);
        }
        // As in a program, not a library: liburcu's thread-local words are found by one load.
        build.flag("-ftls-model=initial-exec");
        build.compile(&format!("liburcu_{flavour}_side"));
        println!("cargo:rustc-link-lib=dylib=urcu-{flavour}");
    }
    println!("cargo:rustc-link-lib=dylib=urcu-common");
    println!("cargo:rustc-cfg=liburcu");
}

fn has_liburcu() -> bool {
    let compiler = env::var_os("CC").unwrap_or_else(|| "cc".into());
    let mut command = Command::new(compiler);
    let out = env::var_os("OUT_DIR").expect("Cargo sets OUT_DIR");
    command.args(["-E", "-x", "c", "-include", "urcu/urcu-qsbr.h", "/dev/null", "-o"]);
    command.arg(Path::new(&out).join("found")).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}
