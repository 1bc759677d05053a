//! The linker flags of the empty library, which are to be the real library's own: a difference
//! between them would be counted as start-up cost of the real one, or hide some.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    for flag in ["-z,now", "-z,relro", "-z,nodelete", "--hash-style=gnu"] {
        println!("cargo:rustc-cdylib-link-arg=-Wl,{flag}");
    }
}
