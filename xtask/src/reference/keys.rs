//! Keys of settings, as the runtime's `keys!` declares them; and whether the function that applies them knows the same ones.

use std::collections::BTreeSet;

use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{Attribute, Expr, Item, LitStr, Token};

use super::source::{Source, literal_text};
use crate::tokens::{self, Token as Word};
use crate::tree::Tree;

/// A key, described.
pub struct Key {
    pub name: String,
    pub values: String,
    pub usual: String,
    pub effect: String,
}

struct Declared {
    attributes: Vec<Attribute>,
    name: LitStr,
    values: LitStr,
    usual: Expr,
}

impl Parse for Declared {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let attributes = input.call(Attribute::parse_outer)?;
        let name = input.parse()?;
        input.parse::<Token![:]>()?;
        let values = input.parse()?;
        input.parse::<Token![=]>()?;
        Ok(Declared { attributes, name, values, usual: input.parse()? })
    }
}

/// The keys that the constant `name` of a file declares; the function `apply` there must know these and no others.
pub fn of(tree: &Tree, path: &str, name: &str) -> Result<Vec<Key>, String> {
    let source = Source::read(tree, path)?;
    let tokens = source.find(&format!("constant {name} by keys!"), |item| match item {
        Item::Const(constant) if constant.ident == name => match &*constant.expr {
            Expr::Macro(call) if call.mac.path.is_ident("keys") => Some(&call.mac),
            _ => None,
        },
        _ => None,
    })?;
    let declared = tokens.parse_body_with(Punctuated::<Declared, Token![,]>::parse_terminated);
    let declared = declared.map_err(|error| format!("{path}: keys of {name} cannot be read: {error}"))?;
    let described = declared.iter().map(|key| {
        let name = key.name.value();
        let effect = source.described(&key.name, &key.attributes, &format!("the key `{name}`"))?;
        let usual = usual(tree, &key.usual).map_err(|why| source.error(&key.usual, why))?;
        Ok(Key { name, values: key.values.value(), usual, effect })
    });
    let keys: Vec<Key> = described.collect::<Result<_, String>>()?;
    hold_against_applied(tree, path, &keys)?;
    Ok(keys)
}

/// What a key has if nobody says: a literal, or a constant of the runtime, which has one.
fn usual(tree: &Tree, expression: &Expr) -> Result<String, String> {
    if let Some(text) = literal_text(expression) {
        return Ok(text);
    }
    let name = match expression {
        Expr::Path(path) => path.path.segments.last().map(|last| last.ident.to_string()),
        _ => None,
    };
    let name = name.ok_or("the default is neither a literal nor a constant")?;
    let sources = tree.rust().filter(|file| file.path.starts_with("runtime/src/"));
    let found = sources.filter(|file| file.text.contains(&name)).find_map(|file| {
        let tokens = file.tokens();
        let at = tokens::find(&tokens, &["const", &name, ":"]).next()?;
        let value = tokens[at..].iter().skip_while(|token| token.text != "=").nth(1)?;
        value.literal.then(|| value.text.replace('_', ""))
    });
    found.ok_or_else(|| format!("the default {name} is no constant of the runtime that is a number"))
}

/// The keys that are declared are those that `apply` has arms for.
fn hold_against_applied(tree: &Tree, path: &str, keys: &[Key]) -> Result<(), String> {
    let tokens = tree.file(path).map(|file| file.tokens()).unwrap_or_default();
    let applied = applied(&tokens);
    let declared: BTreeSet<String> = keys.iter().map(|key| key.name.clone()).collect();
    if let Some(key) = applied.difference(&declared).next() {
        return Err(format!(
            "{path}: `apply` knows the key `{key}`, which is not declared; declare it in keys!, with what it does"
        ));
    }
    match declared.difference(&applied).next() {
        Some(key) => Err(format!("{path}: the key `{key}` is declared, and `apply` does not know it")),
        None => Ok(()),
    }
}

/// The keys in `("a" | "b", …)` within the function `apply`.
fn applied(tokens: &[Word]) -> BTreeSet<String> {
    let Some(start) = tokens::find(tokens, &["fn", "apply"]).next() else { return BTreeSet::new() };
    let mut depth = 0;
    let opened = tokens[start..].iter().skip_while(|token| token.text != "{");
    let body: Vec<&Word> = opened
        .take_while(|token| {
            depth += i32::from(token.text == "{") - i32::from(token.text == "}");
            depth > 0
        })
        .collect();
    let mut keys = BTreeSet::new();
    for (at, _) in body.iter().enumerate().filter(|(_, token)| token.text == "(") {
        let pattern: Vec<&&Word> =
            body[at + 1..].iter().take_while(|token| token.literal || token.text == "|").collect();
        if body.get(at + 1 + pattern.len()).is_some_and(|token| token.text == ",") {
            keys.extend(
                pattern.iter().filter(|token| token.literal).map(|token| token.text.trim_matches('"').to_owned()),
            );
        }
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATH: &str = "runtime/src/heap/conf.rs";
    const SOURCE: &str = "const KEYS: Keys = keys! {
        /// How much.
        \"keep\": \"MiB\" = USUAL_KEEP,
        /// Whether.
        \"on\": \"yes or no\" = \"no\",
    };
    fn apply(pair: &str) {
        match pair {
            (\"keep\", number) if f(number, \"x\") => {}
            (\"on\", \"yes\" | \"no\") => {}
        }
    }";

    fn said(source: &str, usual: &str) -> Result<Vec<Key>, String> {
        of(&Tree::of([(PATH, source), ("runtime/src/page/x.rs", usual)]), PATH, "KEYS")
    }

    #[test]
    fn keys_have_values_a_default_and_what_they_do() {
        let keys = said(SOURCE, "const USUAL_KEEP: u64 = 1_024;").unwrap();
        let told: Vec<[&str; 4]> =
            keys.iter().map(|key| [&*key.name, &*key.values, &*key.usual, &*key.effect]).collect();
        assert_eq!(told, [["keep", "MiB", "1024", "How much."], ["on", "yes or no", "no", "Whether."]]);
    }

    #[test]
    fn what_is_missing_is_found() {
        let refused =
            |from: &str, to: &str| said(&SOURCE.replace(from, to), "const USUAL_KEEP: u64 = 1;").err().unwrap();
        let error = refused("/// Whether.", "");
        assert!(error.starts_with("runtime/src/heap/conf.rs:5: the key `on` has no description"), "{error}");
        assert!(refused("(\"on\", \"yes\"", "(\"off\" | \"on\", \"yes\"").contains("knows the key `off`"));
        assert!(refused("(\"on\", \"yes\" | \"no\") => {}", "").contains("`on` is declared, and `apply` does not"));
        assert!(refused("USUAL_KEEP", "USUAL_KEPT").contains("USUAL_KEPT is no constant"));
        assert!(refused("keys!", "values!").contains("no constant KEYS by keys!"));
    }
}
