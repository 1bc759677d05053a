//! Rust's tokens in a flat list, with their lines.
//!
//! Comments are gone, so that words in them cannot be mistaken for code; documentation comments have become
//! `#[doc = "…"]`. `::` is one token, and so is a lifetime.

use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};

#[derive(Clone, Debug)]
pub struct Token {
    /// As it stands in the source; for a literal with its quotes.
    pub text: String,
    /// Counts from 1.
    pub line: usize,
    /// Whether it is a string, a character or a number.
    pub literal: bool,
    /// Whether it belongs to an item that only tests compile.
    pub test: bool,
}

/// The tokens of a source text; none if it is not Rust, which the compiler will say better.
pub fn of(source: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    if let Ok(stream) = source.parse() {
        flatten(stream, &mut tokens);
    }
    mark_tests(&mut tokens);
    tokens
}

/// Where `pattern` begins in `tokens`; literals match nothing.
pub fn find<'a>(tokens: &'a [Token], pattern: &'a [&str]) -> impl Iterator<Item = usize> + 'a {
    let starts = tokens.windows(pattern.len()).enumerate();
    starts.filter(|(_, window)| is(window, pattern)).map(|(start, _)| start)
}

/// Whether `tokens` begins with `pattern`.
pub fn is(tokens: &[Token], pattern: &[&str]) -> bool {
    tokens.len() >= pattern.len()
        && tokens.iter().zip(pattern).all(|(token, text)| !token.literal && token.text == *text)
}

fn flatten(stream: TokenStream, tokens: &mut Vec<Token>) {
    let mut glued = String::new();
    for tree in stream {
        let line = tree.span().start().line;
        let mut push = |text: String, literal| {
            tokens.push(Token { text, line, literal, test: false });
        };
        match tree {
            TokenTree::Group(group) => {
                let (open, close) = brackets(group.delimiter());
                push(open.to_owned(), false);
                let end = group.span_close().start().line;
                flatten(group.stream(), tokens);
                tokens.push(Token { text: close.to_owned(), line: end, literal: false, test: false });
            }
            TokenTree::Punct(punct) => {
                glued.push(punct.as_char());
                let opens = punct.spacing() == Spacing::Joint && (glued == ":" || glued == "'");
                if !opens {
                    push(std::mem::take(&mut glued), false);
                }
            }
            TokenTree::Ident(ident) => push(std::mem::take(&mut glued) + &ident.to_string(), false),
            TokenTree::Literal(literal) => push(literal.to_string(), true),
        }
    }
}

fn brackets(delimiter: Delimiter) -> (&'static str, &'static str) {
    match delimiter {
        Delimiter::Parenthesis => ("(", ")"),
        Delimiter::Brace => ("{", "}"),
        Delimiter::Bracket => ("[", "]"),
        Delimiter::None => ("", ""),
    }
}

/// Marks each item behind `#[cfg(test)]`, up to its closing brace or semicolon, and all of a file that says so of itself.
fn mark_tests(tokens: &mut [Token]) {
    if find(tokens, &["#", "!", "[", "cfg", "(", "test", ")", "]"]).next().is_some() {
        tokens.iter_mut().for_each(|token| token.test = true);
        return;
    }
    let starts: Vec<usize> = find(tokens, &["#", "[", "cfg", "(", "test", ")", "]"]).collect();
    for start in starts {
        let mut depth = 0;
        for token in &mut tokens[start..] {
            token.test = true;
            match token.text.as_str() {
                "{" | "(" | "[" if !token.literal => depth += 1,
                "}" | ")" | "]" if !token.literal => depth -= 1,
                _ => {}
            }
            if depth == 0 && matches!(token.text.as_str(), "}" | ";") {
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(source: &str) -> Vec<String> {
        of(source).into_iter().map(|token| token.text).collect()
    }

    #[test]
    fn comments_vanish_and_paths_and_lifetimes_are_whole() {
        let source = "// std::x\nfn f<'a>(x: &'static str) { a::b(\"std::y\") /* z */ }";
        assert_eq!(texts(source).join(" "), "fn f < 'a > ( x : & 'static str ) { a :: b ( \"std::y\" ) }");
    }

    #[test]
    fn lines_count_from_one() {
        let lines: Vec<usize> = of("a\n{\n b\n}").iter().map(|token| token.line).collect();
        assert_eq!(lines, [1, 2, 3, 4]);
    }

    #[test]
    fn items_for_tests_are_marked_to_their_end() {
        let source = "#[cfg(test)] extern crate std; fn a() {} #[cfg(test)] mod tests { fn b() {} } fn c() {}";
        let free: Vec<String> = of(source).into_iter().filter(|token| !token.test).map(|token| token.text).collect();
        assert_eq!(free.join(" "), "fn a ( ) { } fn c ( ) { }");
        assert!(of("#![cfg(test)] use std::vec::Vec;").iter().all(|token| token.test));
    }
}
