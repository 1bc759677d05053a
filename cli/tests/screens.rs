//! What the command prints, word by word. After a change that is meant: `TRYCMD=overwrite cargo test -p cli --test screens`.

mod common;

#[test]
fn screens_are_as_they_were() {
    let cases = trycmd::TestCases::new();
    cases.env("COMMENSAL_LIBRARY", common::library().to_string_lossy());
    // Words are wrapped at the terminal's width if there is one.
    cases.env("COLUMNS", "100");
    cases.case("tests/screens/*.trycmd");
}
