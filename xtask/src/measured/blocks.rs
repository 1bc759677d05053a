//! Marked blocks in a text: what stands between two marks is made anew, all else is left as it is.

const BEGIN: &str = "<!-- measured ";
const CLOSE: &str = " -->";
const END: &str = "<!-- end of measured -->";

/// The text with each block filled by what is made of its request.
pub fn fill(text: &str, mut make: impl FnMut(&str) -> Result<String, String>) -> Result<String, String> {
    let mut out = String::new();
    let mut open: Option<(usize, &str)> = None;
    for (index, line) in text.lines().enumerate() {
        let at = index + 1;
        let begins = line.strip_prefix(BEGIN).and_then(|rest| rest.strip_suffix(CLOSE));
        match (begins, open) {
            (Some(_), Some((from, _))) => {
                return Err(format!("line {at}: found another block in that of line {from}; expected `{END}` first"));
            }
            (Some(request), None) => {
                open = Some((at, request));
                out.push_str(line);
                out.push('\n');
            }
            (None, Some((from, request))) if line == END => {
                let made = make(request).map_err(|why| format!("line {from}, `{request}`: {why}"))?;
                out.push_str(&format!("\n{}\n\n{END}\n", made.trim()));
                open = None;
            }
            (None, None) if line == END => {
                return Err(format!("line {at}: found the end of a block; expected `{BEGIN}NAME{CLOSE}` before it"));
            }
            (None, Some(_)) => {}
            (None, None) => {
                out.push_str(line);
                out.push('\n');
            }
        }
    }
    match open {
        Some((from, _)) => {
            Err(format!("line {from}: found a block without an end; expected `{END}` on a line of its own"))
        }
        None => Ok(out),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "before\n<!-- measured a; b -->\nold\n<!-- end of measured -->\nafter\n";

    #[test]
    fn what_is_between_marks_is_made_anew() {
        let filled = fill(TEXT, |request| Ok(format!("<{request}>\n"))).unwrap();
        assert_eq!(filled, "before\n<!-- measured a; b -->\n\n<a; b>\n\n<!-- end of measured -->\nafter\n");
        assert_eq!(fill(&filled, |request| Ok(format!("<{request}>"))).unwrap(), filled);
        assert_eq!(fill("no block\n", |_| Err("not asked".to_owned())).unwrap(), "no block\n");
    }

    #[test]
    fn marks_that_do_not_fit_are_told_with_their_line() {
        let why = |text: &str| fill(text, |_| Ok(String::new())).unwrap_err();
        assert!(why("x\n<!-- measured a -->\ny\n").starts_with("line 2:"));
        assert!(why("<!-- end of measured -->\n").starts_with("line 1:"));
        assert!(why("<!-- measured a -->\n<!-- measured b -->\n<!-- end of measured -->\n").starts_with("line 2:"));
        let why = fill(TEXT, |_| Err("no file".to_owned())).unwrap_err();
        assert_eq!(why, "line 2, `a; b`: no file");
    }
}
