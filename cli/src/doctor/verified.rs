//! The library: whether it is found, whether it does in a trial what was expected, and what it says of the user's settings.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::finding::{Finding, Verdict};
use super::process::Process;
use super::slots::{Conduct, Kicks, Mode};
use super::trial::{Seen, Unseen};
use crate::conf;
use crate::failure::Failure;
use crate::library::Library;

/// Whether there is a library, and of which version.
pub fn library(found: &Result<Library, Failure>) -> Finding {
    const ITEM: &str = "library";
    match found {
        Ok(library) => {
            let version = library.version();
            let shown = version.as_deref().unwrap_or("unknown");
            let told = format!("{}, version {shown}", library.path.display());
            let facts =
                json!({ "path": library.path, "version": version, "command_version": crate::library::OWN_VERSION });
            match library.version_warning() {
                None => Finding::fine(ITEM, told, "the command's own version").with(facts),
                Some(_) => Finding::fine(ITEM, told, format!("this command has {}", crate::library::OWN_VERSION))
                    .but(Verdict::Less)
                    .advising("build both from one source, or unset COMMENSAL_LIBRARY")
                    .with(facts),
            }
        }
        Err(failure) => {
            let facts = json!({ "path": null, "version": null, "command_version": crate::library::OWN_VERSION });
            Finding::fine(ITEM, format!("none: {failure}"), "nothing can be run under it")
                .but(Verdict::Fails)
                .with(facts)
        }
    }
}

/// What a trial showed, held against what was expected.
pub fn trial(expected: Conduct, library: Option<&Path>, seen: Option<&Result<Seen, Unseen>>) -> Finding {
    const ITEM: &str = "trial";
    let facts = |seen: Option<&Seen>| -> Value {
        json!({
            "expected": expected,
            "seen": seen.map(|it| it.conduct),
            "slots": seen.map(|it| it.slots),
            "kicks": seen.map(|it| it.kicks),
            "malloc": seen.map(|it| &it.malloc),
            "version": seen.and_then(|it| it.version.as_ref()),
        })
    };
    let Some((library, seen)) = library.zip(seen) else {
        return Finding::fine(ITEM, "not made: there is no library", "nothing was verified")
            .but(Verdict::Fails)
            .with(facts(None));
    };
    let seen = match seen {
        Ok(seen) => seen,
        Err(Unseen::NotStarted(why)) => {
            return Finding::fine(
                ITEM,
                format!("unknown: no process could be started ({why})"),
                "nothing was verified",
            )
            .but(Verdict::Unknown)
            .with(facts(None));
        }
        Err(Unseen::Failed(why)) => {
            return Finding::fine(ITEM, format!("failed: {why}"), "programs would fare likewise")
                .but(Verdict::Fails)
                .advising("commensal run --stats -- true shows more")
                .with(facts(None));
        }
    };
    let found = format!("{}, {}", seen.conduct.mode.words(), seen.conduct.kicks.words());
    let is_ours = fs::canonicalize(&seen.malloc).ok() == fs::canonicalize(library).ok();
    if !is_ours {
        return Finding::fine(
            ITEM,
            format!("malloc is that of {}", seen.malloc),
            "the library was loaded, and is not used",
        )
        .but(Verdict::Fails)
        .advising("see what else is preloaded or linked")
        .with(facts(Some(seen)));
    }
    if seen.conduct != expected {
        let meaning = format!(
            "expected {}, {} from the items above: what was seen counts",
            expected.mode.words(),
            expected.kicks.words()
        );
        return Finding::fine(ITEM, found, meaning)
            .but(Verdict::Less)
            .advising("report this: the items above miss something")
            .with(facts(Some(seen)));
    }
    let verdict = if expected.mode == Mode::ConcurrencyIds && expected.kicks == Kicks::Possible {
        Verdict::Fine
    } else {
        Verdict::Less
    };
    let meaning = format!("as expected; slots that two threads used: {}, kicks made: {}", seen.slots, seen.kicks);
    Finding::fine(ITEM, found, meaning).but(verdict).with(facts(Some(seen)))
}

/// What is set by COMMENSAL_CONF, and what the library said of it.
pub fn settings(process: &Process, seen: Option<&Result<Seen, Unseen>>) -> Finding {
    const ITEM: &str = "settings";
    let Some(text) = process.variable(conf::VARIABLE) else {
        let facts = json!({ "settings": [], "complaints": [] });
        return Finding::fine(ITEM, "COMMENSAL_CONF is not set", "everything is as usual").with(facts);
    };
    let settings: Vec<&str> = text.split(',').filter(|item| !item.is_empty()).collect();
    let wrong: Vec<String> = settings.iter().filter_map(|item| conf::parse(item).err()).collect();
    let found = format!("COMMENSAL_CONF={text}");
    let complaints = match seen {
        Some(Ok(seen)) => seen.complaints.clone(),
        _ => {
            let why = if wrong.is_empty() { String::new() } else { format!("; {}", wrong.join("; ")) };
            return Finding::fine(
                ITEM,
                found,
                format!("unknown: the library was not there to say which it knows{why}"),
            )
            .but(Verdict::Unknown)
            .with(json!({ "settings": settings, "complaints": wrong }));
        }
    };
    let facts = json!({ "settings": settings, "complaints": complaints });
    if complaints.is_empty() {
        return Finding::fine(ITEM, found, "the library knows all of it").with(facts);
    }
    Finding::fine(ITEM, found, format!("the library says: {}", complaints.join("; ")))
        .but(Verdict::Less)
        .advising("mend these settings; commensal run --conf takes the same")
        .with(facts)
}

#[cfg(test)]
mod tests {
    use super::super::process::tests::{on, with};
    use super::*;

    const USUAL: Conduct = Conduct { mode: Mode::ConcurrencyIds, kicks: Kicks::Possible };
    const REFUSED: Conduct = Conduct { kicks: Kicks::Refused, ..USUAL };

    fn seen(malloc: &str, conduct: Conduct, complaints: &[&str]) -> Result<Seen, Unseen> {
        let complaints = complaints.iter().map(|&it| it.to_owned()).collect();
        Ok(Seen { malloc: malloc.to_owned(), version: None, conduct, slots: 2, kicks: 1, complaints })
    }

    #[test]
    fn what_was_seen_is_held_against_what_was_expected() {
        let library = tempfile::NamedTempFile::new().unwrap();
        let path = library.path();
        let own = |conduct| seen(path.to_str().unwrap(), conduct, &[]);
        assert_eq!(trial(USUAL, Some(path), Some(&own(USUAL))).verdict, Verdict::Fine);
        let less = trial(REFUSED, Some(path), Some(&own(REFUSED)));
        assert!(less.verdict == Verdict::Less && less.meaning.starts_with("as expected"), "{less:?}");
        for (expected, conduct) in [(USUAL, REFUSED), (REFUSED, USUAL)] {
            let differs = trial(expected, Some(path), Some(&own(conduct)));
            assert!(differs.verdict == Verdict::Less && differs.meaning.starts_with("expected"), "{differs:?}");
            assert_ne!(differs.facts["expected"], differs.facts["seen"]);
        }
        let foreign = trial(USUAL, Some(path), Some(&seen("/etc/passwd", USUAL, &[])));
        assert_eq!(foreign.verdict, Verdict::Fails);
        let crashed = trial(USUAL, Some(path), Some(&Err(Unseen::Failed("it crashed".to_owned()))));
        assert!(crashed.verdict == Verdict::Fails && crashed.found.contains("it crashed"), "{crashed:?}");
        let unseen = trial(USUAL, Some(path), Some(&Err(Unseen::NotStarted("no processes left".to_owned()))));
        assert_eq!((unseen.verdict, &unseen.facts["seen"]), (Verdict::Unknown, &Value::Null));
        assert_eq!(trial(USUAL, None, None).verdict, Verdict::Fails);
    }

    #[test]
    fn settings_that_the_library_does_not_know_are_told() {
        let process = with(conf::VARIABLE, "keep:2,stat:exit");
        let known = settings(&process, Some(&seen("", USUAL, &[])));
        assert_eq!((known.verdict, &known.facts["settings"]), (Verdict::Fine, &json!(["keep:2", "stat:exit"])));
        let unknown = settings(&process, Some(&seen("", USUAL, &["unknown key 'stat'"])));
        assert!(unknown.verdict == Verdict::Less && unknown.meaning.contains("'stat'"), "{unknown:?}");
        assert_eq!(settings(&process, None).verdict, Verdict::Unknown);
        assert_eq!(settings(&on("6.8.0"), None).verdict, Verdict::Fine);
        let shapeless = settings(&with(conf::VARIABLE, "keep"), None);
        assert!(shapeless.meaning.contains("is not KEY:VALUE"), "{shapeless:?}");
    }
}
