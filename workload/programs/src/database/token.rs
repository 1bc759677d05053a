//! The lexer of statements: words, numbers, texts in quotes and symbols.

/// Longer symbols stand before their beginnings.
const SYMBOLS: [&str; 15] = ["<>", "<=", ">=", "||", "=", "<", ">", "+", "-", "*", "(", ")", ",", ";", "."];

/// A token.
#[derive(Debug, PartialEq)]
pub enum Token {
    /// A name or a keyword, in lower case.
    Word(String),
    Number(i64),
    /// What stands between quotes, where two quotes are one.
    Text(String),
    Symbol(&'static str),
}

/// Splits a statement into tokens.
pub fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let mut tokens = Vec::with_capacity(text.len() / 4);
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let (token, length) = match first {
            '\'' => quoted(rest)?,
            '0'..='9' => number(rest)?,
            'a'..='z' | 'A'..='Z' | '_' => word(rest),
            _ => symbol(rest)?,
        };
        tokens.push(token);
        rest = rest[length..].trim_start();
    }
    Ok(tokens)
}

fn quoted(rest: &str) -> Result<(Token, usize), String> {
    let mut text = String::new();
    let mut at = 1;
    while let Some(length) = rest[at..].find('\'') {
        text.push_str(&rest[at..at + length]);
        at += length + 1;
        if !rest[at..].starts_with('\'') {
            return Ok((Token::Text(text), at));
        }
        text.push('\'');
        at += 1;
    }
    Err(format!("the text {rest} has no end"))
}

fn number(rest: &str) -> Result<(Token, usize), String> {
    let length = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let number = rest[..length].parse().map_err(|_| format!("the number {} is too large", &rest[..length]))?;
    Ok((Token::Number(number), length))
}

fn word(rest: &str) -> (Token, usize) {
    let length = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
    (Token::Word(rest[..length].to_ascii_lowercase()), length)
}

fn symbol(rest: &str) -> Result<(Token, usize), String> {
    let symbol = SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol));
    let symbol = symbol.ok_or_else(|| format!("no token begins with {rest}"))?;
    Ok((Token::Symbol(symbol), symbol.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_keep_their_quotes_and_their_case() {
        let expected =
            [Token::Word("a".to_owned()), Token::Symbol("<>"), Token::Text("It's ''".to_owned()), Token::Number(42)];
        assert_eq!(tokens(" A<>'It''s ''''' 42").expect("it is well-formed"), expected);
        assert_eq!(tokens("''").expect("it is well-formed"), [Token::Text(String::new())]);
    }

    #[test]
    fn what_is_no_token_is_refused() {
        for text in ["'open", "'open''", "a ? b", "99999999999999999999"] {
            assert!(tokens(text).is_err(), "{text}");
        }
    }
}
