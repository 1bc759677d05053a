//! Rust sources, read: items, their documentation, and where what is missing should stand.

use syn::spanned::Spanned;
use syn::{Attribute, Expr, Item, Lit};

use crate::tree::{File, Tree};

/// A source and what is in it.
pub struct Source<'a> {
    file: &'a File,
    items: Vec<Item>,
}

impl<'a> Source<'a> {
    /// Reads the file at `path`.
    pub fn read(tree: &'a Tree, path: &str) -> Result<Self, String> {
        let file =
            tree.file(path).ok_or_else(|| format!("{path} is not there; say in xtask/src/reference where it went"))?;
        let parsed = syn::parse_file(&file.text).map_err(|error| format!("{path} is no Rust: {error}"))?;
        Ok(Source { file, items: parsed.items })
    }

    /// An error about something in the file.
    pub fn error(&self, at: &impl Spanned, what: impl std::fmt::Display) -> String {
        format!("{}:{}: {what}", self.file.path, at.span().start().line)
    }

    /// What `look` finds first among the items.
    pub fn find<'s, T>(&'s self, what: &str, look: impl Fn(&'s Item) -> Option<T>) -> Result<T, String> {
        let found = self.items.iter().find_map(look);
        found.ok_or_else(|| format!("{} has no {what}; say in xtask/src/reference where it went", self.file.path))
    }

    /// The variants of an enumeration, with what each means.
    pub fn variants(&self, name: &str) -> Result<Vec<(String, String)>, String> {
        let enumeration = self.find(&format!("enumeration {name}"), |item| match item {
            Item::Enum(enumeration) if enumeration.ident == name => Some(enumeration),
            _ => None,
        })?;
        let described = enumeration.variants.iter().map(|variant| {
            let name = variant.ident.to_string();
            let says = self.described(variant, &variant.attrs, &format!("`{name}`"))?;
            Ok((name, says))
        });
        described.collect()
    }

    /// The documentation of something; an error if it has none.
    pub fn described(&self, at: &impl Spanned, attributes: &[Attribute], what: &str) -> Result<String, String> {
        match documentation(attributes) {
            says if says.is_empty() => {
                Err(self
                    .error(at, format!("{what} has no description; write what it does as a comment `///` above it")))
            }
            says => Ok(says),
        }
    }
}

/// What `///` says above something, on one line.
pub fn documentation(attributes: &[Attribute]) -> String {
    let lines = attributes.iter().filter_map(|attribute| {
        let pair = attribute.meta.require_name_value().ok().filter(|pair| pair.path.is_ident("doc"))?;
        literal_text(&pair.value)
    });
    lines.collect::<Vec<_>>().join("\n").split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The text of a literal, or of a number without the dashes between its digits.
pub fn literal_text(expression: &Expr) -> Option<String> {
    match expression {
        Expr::Lit(literal) => match &literal.lit {
            Lit::Str(text) => Some(text.value()),
            Lit::Int(number) => Some(number.base10_digits().to_owned()),
            _ => None,
        },
        _ => None,
    }
}

/// Links of rustdoc, ``[`Name`]`` and ``[`name`](path)``, as what they name, by the name that `rename` gives it.
pub fn without_links(text: &str, rename: impl Fn(&str) -> Option<String>) -> String {
    let mut said = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("[`") {
        let Some((name, behind)) = after.split_once("`]") else { break };
        said += before;
        said += &format!("`{}`", rename(name).unwrap_or_else(|| name.to_owned()));
        rest = behind.strip_prefix('(').map_or(behind, behind_parenthesis);
    }
    said + rest
}

/// What follows the parenthesis that ends the one in which the text begins.
fn behind_parenthesis(text: &str) -> &str {
    let mut depth = 1;
    let end = text.find(|character| {
        match character {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        depth == 0
    });
    end.map_or("", |end| &text[end + 1..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_become_names() {
        let rename = |name: &str| (name == "Knob::A").then(|| "rcu.a".to_owned());
        assert_eq!(
            without_links("as [`Knob::A`] says, and [`t`](super::t()) too", rename),
            "as `rcu.a` says, and `t` too"
        );
    }

    #[test]
    fn what_has_no_description_is_named_with_its_place() {
        let tree = Tree::of([("a.rs", "enum E {\n/// Good,\n/// and long.\nX,\nY }")]);
        let said = Source::read(&tree, "a.rs").unwrap().variants("E").unwrap_err();
        assert!(said.starts_with("a.rs:5: `Y` has no description"), "{said}");
    }
}
