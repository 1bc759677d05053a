//! A box and its drop, as functions whose instructions can be counted.

use commensal::Commensal;

#[global_allocator]
static GLOBAL: Commensal = Commensal;

/// The layout is known: the class's index is one load from a constant place of the table.
// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
pub extern "C" fn box_new(value: u64) -> Box<u64> {
    Box::new(value)
}

/// The page map says which class it is.
// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
pub extern "C" fn box_drop(value: Box<u64>) {
    drop(value);
}
