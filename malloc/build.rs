//! How the shared library is linked.

fn main() {
    // Restartable sections leave a pointer to their descriptor behind in each thread: the code must never be unloaded.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libcommensal.so");
    // The compiler's start files would run code of theirs at exit, for libraries that are unloaded, and have names looked up in vain at the start.
    println!("cargo::rustc-cdylib-link-arg=-nostartfiles");
    // What the loader relocates and then protects fits one page only if it begins with one.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,separate-loadable-segments");
    // mold cannot read an order of sections, and links well without it.
    println!("cargo::rerun-if-changed=text.ld");
    if !std::env::var("CARGO_ENCODED_RUSTFLAGS").is_ok_and(|flags| flags.contains("mold")) {
        println!("cargo::rustc-cdylib-link-arg=-Wl,-T,{}/text.ld", env!("CARGO_MANIFEST_DIR"));
    }
}
