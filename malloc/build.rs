//! How the shared library is linked.

fn main() {
    // Restartable sections leave a pointer to their descriptor behind in each thread: the code must never be unloaded.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libcommensal.so");
    // What the loader relocates and then protects fits one page only if it begins with one.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,separate-loadable-segments");
}
