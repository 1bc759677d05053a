//! Numbers that can be set while a program runs: the enumeration `Knob` of a part of the runtime, which says what each does, and the table `KNOBS`
//! beside it, which has the name, the default and the range of each.

use std::collections::HashMap;

use syn::{Expr, ExprStruct, Item, Member};

use super::source::{Source, literal_text, without_links};
use crate::tree::Tree;

/// A knob, described.
pub struct Knob {
    pub name: String,
    pub usual: String,
    pub least: String,
    pub most: String,
    pub effect: String,
}

/// The knobs of the part that is called `part` in settings.
pub fn of(tree: &Tree, path: &str, part: &str) -> Result<Vec<Knob>, String> {
    let source = Source::read(tree, path)?;
    let rows = source.find("table KNOBS", |item| match item {
        Item::Const(constant) if constant.ident == "KNOBS" => match &*constant.expr {
            Expr::Array(array) => Some(&array.elems),
            _ => None,
        },
        _ => None,
    })?;
    let mut effects: HashMap<String, String> = source.variants("Knob")?.into_iter().collect();
    let read: Vec<(String, Knob)> = rows
        .iter()
        .map(|row| {
            let Expr::Struct(row) = row else {
                return Err(source.error(row, "a row of KNOBS is no Description { … }"));
            };
            let field = |name: &str| {
                field(row, name).ok_or_else(|| source.error(row, format!("a row of KNOBS has no plain `{name}`")))
            };
            let variant = field("knob")?;
            let effect = effects.remove(&variant).unwrap_or_default();
            let knob = Knob {
                name: field("name")?,
                usual: field("usual")?,
                least: field("least")?,
                most: field("most")?,
                effect,
            };
            Ok((variant, knob))
        })
        .collect::<Result<_, String>>()?;
    if let Some(variant) = effects.keys().min() {
        return Err(format!("{path}: `{variant}` has no row in KNOBS"));
    }
    let names: HashMap<String, String> =
        read.iter().map(|(variant, knob)| (format!("Knob::{variant}"), format!("{part}.{}", knob.name))).collect();
    let renamed = read.into_iter().map(|(_, knob)| {
        let effect = without_links(&knob.effect, |name| names.get(name).cloned());
        Knob { effect, ..knob }
    });
    Ok(renamed.collect())
}

/// What a field of a row is: a literal, the last part of a path, or what `Word::new` is given.
fn field(row: &ExprStruct, name: &str) -> Option<String> {
    let found = row.fields.iter().find(|field| matches!(&field.member, Member::Named(member) if member == name))?;
    match &found.expr {
        Expr::Path(path) => path.path.segments.last().map(|last| last.ident.to_string()),
        Expr::Call(call) => call.args.first().and_then(literal_text),
        other => literal_text(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATH: &str = "runtime/src/rcu/knobs.rs";
    const SOURCE: &str = "enum Knob {
        /// Objects; see [`Knob::B`].
        A,
        /// KiB.
        B,
    }
    const KNOBS: [Description<Knob>; 2] = [
        Description { knob: Knob::A, name: Word::new(\"a_limit\"), usual: 20_000, least: 1, most: 100 },
        Description { knob: Knob::B, name: Word::new(\"b_kib\"), usual: 0, least: 0, most: 5 },
    ];";

    fn said(source: &str) -> Result<Vec<Knob>, String> {
        of(&Tree::of([(PATH, source)]), PATH, "rcu")
    }

    #[test]
    fn knobs_have_what_table_and_enumeration_say() {
        let knobs = said(SOURCE).unwrap();
        let first = &knobs[0];
        let told = [&first.name, &first.usual, &first.least, &first.most, &first.effect];
        assert_eq!(told, ["a_limit", "20000", "1", "100", "Objects; see `rcu.b_kib`."]);
        assert_eq!(knobs.len(), 2);
    }

    #[test]
    fn what_is_missing_is_found() {
        let refused = |from: &str, to: &str| said(&SOURCE.replace(from, to)).err().unwrap();
        assert!(refused("/// KiB.", "").contains("knobs.rs:5: `B` has no description"), "{}", refused("/// KiB.", ""));
        assert!(refused("usual: 0,", "").contains("no plain `usual`"));
        assert!(refused("B,\n", "B,\n/// More.\nC,\n").contains("`C` has no row in KNOBS"));
    }
}
