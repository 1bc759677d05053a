//! The arms of a comparison: glibc, ours and each installed peer; more libraries by name; or only settings of ours.

use std::path::Path;

use lab::arm::{self, Arm};

use crate::conf;
use crate::failure::Failure;
use crate::library::Library;

/// Splits `NAME=VALUE`; for clap.
pub fn named(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() && !value.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("expected NAME=LIB, such as mine=./libmine.so".to_owned()),
    }
}

/// Splits `NAME=key:value,…`, where the settings may be empty; for clap.
pub fn named_settings(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, "")) if !name.is_empty() => Ok((name.to_owned(), String::new())),
        Some((name, settings)) if !name.is_empty() => Ok((name.to_owned(), conf::parse(settings)?)),
        _ => Err("expected NAME=KEY:VALUE,…, or NAME= for the default settings".to_owned()),
    }
}

/// glibc, this library, and each installed peer; and notes for the user.
pub fn installed() -> Result<(Vec<Arm>, Vec<String>), Failure> {
    chosen(&[], &[])
}

/// The arms, the baseline first; and notes for the user.
pub fn chosen(with: &[(String, String)], settings: &[(String, String)]) -> Result<(Vec<Arm>, Vec<String>), Failure> {
    let library = Library::find()?;
    let mut told: Vec<String> = library.version_warning().into_iter().collect();
    let mut arms = if settings.is_empty() {
        let (peers, absent) = arm::peers().map_err(Failure::of)?;
        // A named library replaces the installed one of that name: it may be a newer version.
        let is_named = |name: &str| with.iter().any(|(with, _)| with == name);
        let absent = absent.iter().filter(|peer| !is_named(peer.name));
        told.extend(absent.map(|peer| {
            format!("{} is not installed; install Debian's package {} to compare it", peer.name, peer.package)
        }));
        let own = [Arm::glibc(), Arm::commensal(arm::COMMENSAL, &library.path, None)];
        own.into_iter().chain(peers.into_iter().filter(|peer| !is_named(&peer.name))).collect()
    } else {
        configured(&library, settings)
    };
    for (name, library) in with {
        arms.push(named_library(name, library)?);
    }
    check_names(&arms)?;
    Ok((arms, told))
}

/// This library with each of the settings. A single configuration is compared with the default.
fn configured(library: &Library, settings: &[(String, String)]) -> Vec<Arm> {
    let default = (settings.len() == 1).then(|| Arm::commensal(arm::COMMENSAL, &library.path, None));
    let of = |(name, settings): &(String, String)| {
        let settings = Some(settings.clone()).filter(|settings| !settings.is_empty());
        Arm::commensal(name, &library.path, settings)
    };
    default.into_iter().chain(settings.iter().map(of)).collect()
}

/// A library that the loader accepts. A library with a peer's name is that peer.
fn named_library(name: &str, library: &str) -> Result<Arm, Failure> {
    // A relative path would name another file after the program changes its directory.
    let path = if library.contains('/') {
        std::fs::canonicalize(library)
            .map_err(|error| Failure::usage(format!("--with {name}={library}: cannot find the library ({error})")))?
    } else {
        library.into()
    };
    let is_peer = arm::PEERS.iter().any(|peer| peer.name == name);
    match arm::loaded(Path::new(&path)).map_err(Failure::of)? {
        Ok(path) => Ok(Arm { is_peer, ..Arm::preloading(name, path) }),
        Err(why) => Err(Failure::usage(format!("--with {name}={library}: the loader cannot preload it ({why})"))),
    }
}

pub fn check_names(arms: &[Arm]) -> Result<(), Failure> {
    for (at, arm) in arms.iter().enumerate() {
        let control = arms[0].again().name;
        if arms[..at].iter().any(|other| other.name == arm.name) || arm.name == control {
            let line = format!("two arms are named {}; rename one of them", arm.name);
            return Err(Failure::usage(line));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_values_are_split_at_the_first_sign() {
        assert_eq!(named("a=/x=y.so").unwrap(), ("a".to_owned(), "/x=y.so".to_owned()));
        assert_eq!(named_settings("a=").unwrap().1, "");
        assert_eq!(named_settings("a=keep:1,huge:avoid").unwrap().1, "keep:1,huge:avoid");
        for wrong in ["a", "=x", "a="] {
            assert!(named(wrong).is_err(), "{wrong}");
        }
        for wrong in ["a", "=", "=keep:1", "a=keep"] {
            assert!(named_settings(wrong).is_err(), "{wrong}");
        }
    }
}
