//! Names of Rust and C++ as in their sources.

use cpp_demangle::{DemangleOptions, Symbol};

/// The name in the source. Rust's has no hash, C++'s has no parameters; others are as they are.
pub fn readable(name: &str) -> String {
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        return format!("{rust:#}");
    }
    // Compilers append what they did to a function, as in `work.constprop.0`.
    let plain = name.split_once('.').map_or(name, |(plain, _)| plain);
    let plain = if plain.is_empty() { name } else { plain };
    if !plain.starts_with("_Z") {
        return plain.to_owned();
    }
    let options = DemangleOptions::new().no_params().no_return_type();
    let demangled = Symbol::new(plain).ok().and_then(|symbol| symbol.demangle_with_options(&options).ok());
    demangled.unwrap_or_else(|| plain.to_owned())
}

/// Whether the name is the linker's, of C++ or Rust.
pub fn is_mangled(name: &str) -> bool {
    name.starts_with("_Z") || name.starts_with("_R")
}

/// Whether the linker's name is that of the same function as this short one, and says more.
pub fn is_longer(mangled: &str, short: &str) -> bool {
    let base = short.split_once('<').map_or(short, |(base, _)| base);
    is_mangled(mangled) && !base.is_empty() && readable(mangled).contains(base)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_by_their_language() {
        let read = |name, expected: &str| assert_eq!(readable(name), expected);
        read("_ZN4core3fmt5write17h0123456789abcdefE", "core::fmt::write");
        read("_RNvCskwGfYPst2Cb_3foo16example_function", "foo::example_function");
        read("_ZN5Store6insertEi", "Store::insert");
        read("_Z4growIiEvT_", "grow<int>");
        read("_ZN5Store6insertEi.cold", "Store::insert");
        read("work.constprop.0", "work");
        read("_Znwm", "operator new");
        read("_Z", "_Z");
        read(".L12", ".L12");
    }

    #[test]
    fn short_name_is_that_of_the_same_function() {
        assert!(
            is_longer("_ZN5Store6insertEi", "insert")
                && is_longer("_ZN4core3fmt5write17h0123456789abcdefE", "write<T>")
        );
        assert!(!is_longer("_ZN5Store6insertEi", "remove") && !is_longer("insert", "insert"));
    }
}
