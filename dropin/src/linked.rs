//! Checks of what programs are linked with: the functions of `commensal.h`, from the shared library and from the archive.

use crate::compile;
use crate::run::{End, Outcome, Run};
use crate::subject::{Library, Linkage, Mode};

/// The outcomes of a line (a program of `c/`, the check's name in it and its arguments) with settings for the library, by linkage.
pub fn outcomes(mode: Mode, line: &str, conf: &str) -> Vec<Outcome> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let outcome = |linkage: Linkage| {
        let output = format!("{}_{linkage:?}", words[0]).to_lowercase();
        let program = compile::with_commensal_header(words[0], &output, &linkage.flags());
        Run::new(program).args(&words[1..]).env("COMMENSAL_CONF", conf).with(&Library::none(), mode)
    };
    [Linkage::Shared, Linkage::Static].map(outcome).into()
}

/// The same; the check must end well.
pub fn ended(mode: Mode, line: &str, conf: &str) -> Vec<Outcome> {
    let all = outcomes(mode, line, conf).into_iter().map(|outcome| outcome.ending(End::Exited(0)));
    all.collect::<Result<_, _>>().unwrap_or_else(|report| panic!("`{line}` with '{conf}' failed: {report}"))
}

/// The check must end well, without settings.
pub fn holds(mode: Mode, line: &str) {
    ended(mode, line, "");
}

/// The check must end by a line that contains `text`.
pub fn ends_with(mode: Mode, line: &str, text: &str) {
    for outcome in outcomes(mode, line, "") {
        let words = outcome.last_words().unwrap_or_else(|report| panic!("`{line}` failed: {report}"));
        assert!(words.contains(text), "`{line}`: found {words:?}, expected {text:?} in it");
    }
}
