//! What a function writes, line by line: the texts of its `write!` and `writeln!`, in their order, with the names of what is put in.

use std::collections::VecDeque;

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Expr, ExprMethodCall, File, ImplItem, Item, Lit, LitStr, Macro, Member};

use crate::tree::Tree;

/// What a `write!` writes.
#[derive(Debug, PartialEq, Eq)]
pub struct Written {
    /// The text, with `{name}` for what is put in.
    pub text: String,
    /// What is put in, as words of the source.
    pub arguments: Vec<Vec<String>>,
}

/// What the function `name` of a file writes. Where it calls another method `self.write_…`, that one's lines follow; a line that
/// another `write!` goes on ends with `…`.
pub fn of(tree: &Tree, path: &str, name: &str) -> Result<Vec<Written>, String> {
    let file =
        tree.file(path).ok_or_else(|| format!("{path} is not there; say in xtask/src/reference where it went"))?;
    let parsed = syn::parse_file(&file.text).map_err(|error| format!("{path} is no Rust: {error}"))?;
    let mut reader = Reader { file: &parsed, path, written: Vec::new(), error: None };
    reader.function(name);
    match reader.error {
        Some(error) => Err(error),
        None if reader.written.is_empty() => Err(format!("{path}: {name} writes nothing")),
        None => Ok(reader.written),
    }
}

struct Reader<'a> {
    file: &'a File,
    path: &'a str,
    written: Vec<Written>,
    error: Option<String>,
}

impl Reader<'_> {
    fn function(&mut self, name: &str) {
        let functions = self.file.items.iter().flat_map(|item| match item {
            Item::Impl(block) => block
                .items
                .iter()
                .filter_map(|item| match item {
                    ImplItem::Fn(function) => Some((&function.sig.ident, &function.block)),
                    _ => None,
                })
                .collect(),
            Item::Fn(function) => vec![(&function.sig.ident, &*function.block)],
            _ => Vec::new(),
        });
        match functions.into_iter().find(|(ident, _)| *ident == name) {
            Some((_, block)) => self.visit_block(block),
            None => self.error = Some(format!("{}: there is no function {name}", self.path)),
        }
    }
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_macro(&mut self, call: &'ast Macro) {
        let goes_on = call.path.is_ident("write");
        if goes_on || call.path.is_ident("writeln") {
            match read(&call.tokens) {
                Ok(Some(Written { text, arguments })) => {
                    let text = if goes_on { text + "…" } else { text };
                    self.written.push(Written { text, arguments });
                }
                Ok(None) => {}
                Err(error) => self.error = Some(format!("{}: a write! cannot be read: {error}", self.path)),
            }
        }
    }

    fn visit_expr_method_call(&mut self, call: &'ast ExprMethodCall) {
        let name = call.method.to_string();
        if name.starts_with("write_") && matches!(&*call.receiver, Expr::Path(path) if path.path.is_ident("self")) {
            self.function(&name);
        }
        visit::visit_expr_method_call(self, call);
    }
}

/// What the tokens of a `write!` say; none if it is only the end of a line.
fn read(tokens: &TokenStream) -> syn::Result<Option<Written>> {
    let mut arguments = between_commas(tokens).into_iter().skip(1);
    let Some(format) = arguments.next() else { return Ok(None) };
    let format: LitStr = syn::parse2(format)?;
    let arguments: Vec<TokenStream> = arguments.collect();
    let mut names = VecDeque::new();
    for argument in &arguments {
        names.push_back(name(&syn::parse2(argument.clone())?));
    }
    let mut text = String::new();
    let format = format.value();
    let mut rest = format.as_str();
    while let Some((before, behind)) = rest.split_once('{') {
        let (inside, after) = behind.split_once('}').unwrap_or((behind, ""));
        let (named, layout) = inside.split_once(':').unwrap_or((inside, ""));
        let put = if named.is_empty() { names.pop_front().unwrap_or_default() } else { format!("{{{named}}}") };
        let width = layout.trim_start_matches(['<', '>']).parse().unwrap_or(0);
        text += before;
        text += &if layout.starts_with('>') { format!("{put:>width$}") } else { format!("{put:<width$}") };
        rest = after;
    }
    let words = arguments.into_iter().map(words).collect();
    Ok(Some(Written { text: text + rest, arguments: words }))
}

/// What people call the value of an expression: a literal is itself.
fn name(expression: &Expr) -> String {
    match expression {
        Expr::Lit(literal) => match &literal.lit {
            Lit::Str(text) => text.value(),
            Lit::Int(number) => number.base10_digits().to_owned(),
            _ => String::new(),
        },
        Expr::If(choice) => {
            let branch = |block: &syn::Block| {
                block.stmts.iter().find_map(|statement| match statement {
                    syn::Stmt::Expr(expression, _) => Some(name(expression)),
                    _ => None,
                })
            };
            let other = choice.else_branch.as_ref().and_then(|(_, other)| match &**other {
                Expr::Block(block) => branch(&block.block),
                _ => None,
            });
            format!("({}|{})", branch(&choice.then_branch).unwrap_or_default(), other.unwrap_or_default())
        }
        other => format!("{{{}}}", last_name(other).trim_end_matches("_bytes").trim_end_matches("_ns")),
    }
}

/// The name that an expression ends with, below conversions of its value.
fn last_name(expression: &Expr) -> String {
    match expression {
        Expr::MethodCall(call) => call.method.to_string(),
        Expr::Field(field) => match &field.member {
            Member::Named(name) => name.to_string(),
            Member::Unnamed(_) => last_name(&field.base),
        },
        Expr::Path(path) => path.path.segments.last().map_or_else(String::new, |last| last.ident.to_string()),
        Expr::Binary(binary) => last_name(&binary.left),
        Expr::Call(call) => {
            let function = last_name(&call.func);
            let converts = function.starts_with(char::is_uppercase);
            call.args.first().filter(|_| converts).map_or(function, last_name)
        }
        Expr::Reference(reference) => last_name(&reference.expr),
        Expr::Cast(cast) => last_name(&cast.expr),
        Expr::Paren(paren) => last_name(&paren.expr),
        _ => String::new(),
    }
}

/// Tokens, taken apart at their outer commas.
fn between_commas(tokens: &TokenStream) -> Vec<TokenStream> {
    let mut parts = vec![Vec::new()];
    for token in tokens.clone() {
        match &token {
            TokenTree::Punct(punct) if punct.as_char() == ',' => parts.push(Vec::new()),
            _ => parts.last_mut().expect("there is one").push(token),
        }
    }
    parts.into_iter().filter(|part| !part.is_empty()).map(|part| part.into_iter().collect()).collect()
}

/// The identifiers and literals of an expression.
fn words(tokens: TokenStream) -> Vec<String> {
    let mut all = Vec::new();
    for token in tokens {
        match token {
            TokenTree::Group(group) => all.extend(words(group.stream())),
            TokenTree::Ident(ident) => all.push(ident.to_string()),
            TokenTree::Literal(literal) => all.push(literal.to_string()),
            TokenTree::Punct(_) => {}
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "impl Report {
        fn write_text(&self, out: &mut impl Write) {
            writeln!(out, \"  in use {} (peak {})\", Bytes(self.in_use_bytes()), self.peak / 1000)?;
            self.write_mode(out)?;
            writeln!(out, \"{:>6} {:<4}{}|\", \"size\", row.spans, if self.is_on { \"yes\" } else { \"no\" })
        }
        fn write_mode(&self, out: &mut impl Write) {
            write!(out, \"kicks {}\", self.kicks.0)?;
            writeln!(out)
        }
    }";

    fn said(name: &str) -> Result<Vec<Written>, String> {
        of(&Tree::of([("a.rs", SOURCE)]), "a.rs", name)
    }

    #[test]
    fn lines_are_in_order_with_the_names_of_what_is_put_in() {
        let written = said("write_text").unwrap();
        let texts: Vec<&str> = written.iter().map(|written| written.text.as_str()).collect();
        assert_eq!(texts, ["  in use {in_use} (peak {peak})", "kicks {kicks}…", "  size {spans}(yes|no)|"]);
        assert_eq!(written[0].arguments[1], ["self", "peak", "1000"]);
    }

    #[test]
    fn functions_that_are_gone_are_named() {
        assert!(said("write_more").unwrap_err().contains("a.rs: there is no function write_more"));
    }
}
