//! A machine's own operations, for profiles.

use super::super::workload::primitives::{Primitive, primitive_ns};
use super::{Machine, named};

/// Measures what the words say: the figures, or what is wrong with the words.
pub fn measure(words: &[&str], machine: &impl Machine) -> Result<Vec<f64>, String> {
    let [word] = *words else { return Err(format!("the arguments are {words:?}; expected the name of a primitive")) };
    let primitive = named(word, &Primitive::ALL, Primitive::word)?;
    let threads = machine.threads(primitive.threads())?;
    let taken = primitive_ns(primitive, &threads).ok_or("there is no memory for it, or the machine refuses")?;
    Ok(vec![taken])
}
