//! The lexer: from text to words, numbers and symbols, each with its line.

use super::Error;

/// Longer symbols stand before their beginnings.
const SYMBOLS: [&str; 18] =
    ["==", "!=", "<=", "&&", "||", "(", ")", "{", "}", ",", ";", "=", "<", "+", "-", "*", "/", "%"];

/// A token and where it stands.
#[derive(Debug)]
pub struct Token {
    pub kind: Kind,
    pub line: u32,
}

/// What a token is.
#[derive(Debug, PartialEq)]
pub enum Kind {
    Number(i64),
    /// A name or a keyword; the parser knows which.
    Word(String),
    Symbol(&'static str),
    End,
}

/// Splits a text into tokens, the last of which is [`Kind::End`]. Comments go from `#` to the end of the line.
pub fn tokens(text: &str) -> Result<Vec<Token>, Error> {
    let mut tokens = Vec::new();
    let mut last_line = 0;
    for (line, number) in text.lines().zip(1..) {
        last_line = number;
        let mut rest = line.split('#').next().unwrap_or("").trim_start();
        while !rest.is_empty() {
            let (kind, length) =
                first(rest).ok_or_else(|| Error::new(number, format!("no token begins with `{rest}`")))?;
            tokens.push(Token { kind, line: number });
            rest = rest[length..].trim_start();
        }
    }
    tokens.push(Token { kind: Kind::End, line: last_line });
    Ok(tokens)
}

/// The token that a text begins with, and its length in bytes.
fn first(text: &str) -> Option<(Kind, usize)> {
    let word = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
    if text.starts_with(|c: char| c.is_ascii_digit()) {
        return Some((Kind::Number(text[..word].parse().ok()?), word));
    }
    if word > 0 {
        return Some((Kind::Word(text[..word].to_owned()), word));
    }
    let symbol = SYMBOLS.iter().find(|symbol| text.starts_with(**symbol))?;
    Some((Kind::Symbol(symbol), symbol.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<Kind> {
        tokens(text).expect("it is well-formed").into_iter().map(|token| token.kind).collect()
    }

    #[test]
    fn symbols_are_as_long_as_they_can_be() {
        use Kind::{End, Number, Symbol, Word};
        let expected = [Word("a_1".to_owned()), Symbol("<="), Number(12), Symbol("="), Symbol("<"), End];
        assert_eq!(kinds("a_1<=12 = <# and the rest"), expected);
    }

    #[test]
    fn lines_are_counted() {
        let tokens = tokens("let\n\n# nothing\nx").expect("it is well-formed");
        assert_eq!(tokens.iter().map(|token| token.line).collect::<Vec<_>>(), [1, 4, 4]);
    }

    #[test]
    fn what_is_no_token_is_refused_with_its_line() {
        for (text, line) in [("let a\n = $3", 2), ("12ab", 1), ("99999999999999999999", 1)] {
            assert_eq!(tokens(text).expect_err("it is wrong").line, line);
        }
    }
}
