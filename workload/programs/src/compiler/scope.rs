//! The symbol tables: one for each block of the source that is open, the innermost last.

use super::Error;
use super::ir::Reg;
use super::tree::Name;
use crate::map::Map;

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Binding {
    Constant(i64),
    Variable(Reg),
    Function { arity: usize },
}

/// The open scopes.
pub struct Scopes {
    tables: Vec<Map<String, Binding>>,
}

impl Scopes {
    /// The scope of the whole unit.
    pub fn new() -> Scopes {
        Scopes { tables: vec![Map::default()] }
    }

    /// Opens a scope inside the others.
    pub fn enter(&mut self) {
        self.tables.push(Map::default());
    }

    /// Closes the innermost scope: its names are gone.
    pub fn leave(&mut self) {
        self.tables.pop();
    }

    /// Gives a name a meaning in the innermost scope, where it must be new.
    pub fn declare(&mut self, name: &Name, binding: Binding) -> Result<(), Error> {
        let table = self.tables.last_mut().expect("a scope is open");
        match table.insert(name.text.clone(), binding) {
            None => Ok(()),
            Some(_) => Err(Error::new(name.line, format!("`{}` is declared twice in one block", name.text))),
        }
    }

    /// What a name means here.
    pub fn find(&self, name: &Name) -> Result<Binding, Error> {
        let found = self.tables.iter().rev().find_map(|table| table.get(&name.text));
        found.copied().ok_or_else(|| Error::new(name.line, format!("`{}` is not declared", name.text)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inner_names_hide_outer_ones_until_their_scope_ends() {
        let name = Name { text: "x".to_owned(), line: 3 };
        let mut scopes = Scopes::new();
        scopes.declare(&name, Binding::Constant(1)).expect("it is new");
        scopes.enter();
        scopes.declare(&name, Binding::Variable(2)).expect("it is new here");
        assert_eq!(scopes.find(&name).expect("it is declared"), Binding::Variable(2));
        assert_eq!(scopes.declare(&name, Binding::Constant(4)).expect_err("it is not new").line, 3);
        scopes.leave();
        assert_eq!(scopes.find(&name).expect("it is declared"), Binding::Constant(1));
    }
}
