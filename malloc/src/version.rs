//! The C function of `commensal.h` that tells the library's version.

/// Returns CM_VERSION of the library that runs, which may be another than that of the header that the program was
/// compiled with.
#[unsafe(no_mangle)]
pub extern "C" fn cm_version() -> u32 {
    const VERSION: u32 = 1_000_000 * part(env!("CARGO_PKG_VERSION_MAJOR"))
        + 1000 * part(env!("CARGO_PKG_VERSION_MINOR"))
        + part(env!("CARGO_PKG_VERSION_PATCH"));
    VERSION
}

const fn part(text: &str) -> u32 {
    match u32::from_str_radix(text, 10) {
        Ok(number) => number,
        Err(_) => panic!("a part of the version is no number"),
    }
}
