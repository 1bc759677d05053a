//! Which arms are compared: glibc, ours and every peer that is installed; more libraries by name; or only settings of ours.

use std::path::Path;

use lab::arm::{self, Arm};

use crate::conf;
use crate::failure::Failure;
use crate::library::Library;

/// Splits `NAME=VALUE`; for clap.
pub fn named(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() && !value.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("expected a name, = and a library".to_owned()),
    }
}

/// Splits `NAME=key:value,…`, where there may be no settings at all; for clap.
pub fn named_settings(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, "")) if !name.is_empty() => Ok((name.to_owned(), String::new())),
        Some((name, settings)) if !name.is_empty() => Ok((name.to_owned(), conf::parse(settings)?)),
        _ => Err("expected a name, = and settings, which may be none".to_owned()),
    }
}

/// glibc, this library, and every peer that is installed; and what the user should be told about them.
pub fn installed() -> Result<(Vec<Arm>, Vec<String>), Failure> {
    chosen(&[], &[])
}

/// The arms, the baseline first; and what the user should be told about them.
pub fn chosen(with: &[(String, String)], settings: &[(String, String)]) -> Result<(Vec<Arm>, Vec<String>), Failure> {
    let library = Library::find()?;
    let mut told: Vec<String> = library.version_warning().into_iter().collect();
    let mut arms = if settings.is_empty() {
        let (peers, absent) = arm::peers().map_err(Failure::of)?;
        // A library that was named wins over the installed one of that name: it may be a newer version.
        let is_named = |name: &str| with.iter().any(|(with, _)| with == name);
        let absent = absent.iter().filter(|peer| !is_named(peer.name));
        told.extend(
            absent.map(|peer| format!("{} is not installed; Debian's package {} brings it", peer.name, peer.package)),
        );
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

/// This library with each of the settings; one configuration alone is held against the default.
fn configured(library: &Library, settings: &[(String, String)]) -> Vec<Arm> {
    let default = (settings.len() == 1).then(|| Arm::commensal(arm::COMMENSAL, &library.path, None));
    let of = |(name, settings): &(String, String)| {
        let settings = Some(settings.clone()).filter(|settings| !settings.is_empty());
        Arm::commensal(name, &library.path, settings)
    };
    default.into_iter().chain(settings.iter().map(of)).collect()
}

/// A library that the loader takes. One that has a peer's name is that peer.
fn named_library(name: &str, library: &str) -> Result<Arm, Failure> {
    // A relative path would mean another file wherever the program changes its directory.
    let path = if library.contains('/') {
        std::fs::canonicalize(library).map_err(|error| {
            Failure::usage(format!("--with {name}: {library} cannot be found ({error}); expected a shared library"))
        })?
    } else {
        library.into()
    };
    let is_peer = arm::PEERS.iter().any(|peer| peer.name == name);
    match arm::loaded(Path::new(&path)).map_err(Failure::of)? {
        Ok(path) => Ok(Arm { is_peer, ..Arm::preloading(name, path) }),
        Err(why) => Err(Failure::usage(format!("--with {name}: the loader does not take {library} ({why})"))),
    }
}

fn check_names(arms: &[Arm]) -> Result<(), Failure> {
    for (at, arm) in arms.iter().enumerate() {
        let control = arms[0].again().name;
        if arms[..at].iter().any(|other| other.name == arm.name) || arm.name == control {
            let line = format!("there are two arms with the name {}; give one of them another name", arm.name);
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

    #[test]
    fn arm_names_given_twice_are_refused() {
        let arms = |names: &[&str]| names.iter().map(|name| Arm::preloading(*name, "/l.so")).collect::<Vec<_>>();
        assert!(check_names(&arms(&["a", "b"])).is_ok());
        assert!(check_names(&arms(&["a", "b", "a"])).is_err());
        assert!(check_names(&arms(&["a", "a again"])).is_err());
    }
}
