//! Measures in fresh systems of Debian: their own programs and servers, with the package as users install it.
//!
//! The command itself tells which packages it misses, so no list here has to follow the suite or a version of Debian.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use serde_json::Value;

use super::{FOLDER, results};
use crate::library::succeeds;
use crate::package::{self, Fresh, said};

/// How much is measured.
#[derive(Clone, Copy)]
pub struct Amount {
    /// Blocks of servers. One takes longer than several of programs, which get more.
    pub blocks: u32,
    pub is_quick: bool,
}

const STEPS: usize = 4;
/// Blocks of kernels and programs for each of servers.
const PROGRAMS_BLOCKS: u32 = 4;
const SERVER: &str = "commensal-example-server";

/// Packages that start servers leave that to us. PostgreSQL wants memory to share, and some programs look at the machine.
const PREPARE: &str = "\
printf '#!/bin/sh\\nexit 101\\n' > /usr/sbin/policy-rc.d
chmod +x /usr/sbin/policy-rc.d
mkdir /proof
apt-get -qq update";
const MOUNTS: &str = "\
mount -t sysfs -o ro sysfs /sys
mount -t tmpfs tmpfs /dev/shm
export PATH=/usr/local/bin:$PATH\n";
/// What the command misses, in the words for its users: programs, allocators and servers. Both fail at once.
const ASK: &str = "(commensal compare --suite --require-programs; commensal lab servers) > /proof/missing 2>&1 || true";
/// How the command begins to name packages.
const INSTALL: &str = "install Debian's ";

/// Measures in a fresh system of each suite, and writes a file of figures for each below `place`. A suite that fails is
/// no reason to leave out the others.
pub fn run(root: &Path, place: &Path, suites: &[String], amount: Amount) -> Result<(), String> {
    println!("proof: building the package and the web server in Rust");
    let made = package::make(root)?;
    let server = build_server(root)?;
    let mut failed = Vec::new();
    for suite in suites {
        let start = Instant::now();
        let measured = in_suite(root, suite, &made, &server, amount);
        let path = place.join(FOLDER).join(format!("{suite}.json"));
        match measured.and_then(|results| package::put(&path, results::lines(&results).as_bytes())) {
            Ok(()) => println!("proof: {suite}: wrote {} after {} min", path.display(), start.elapsed().as_secs() / 60),
            Err(why) => failed.push(format!("{suite}: {why}")),
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(failed.join("\n")) }
}

/// The web server in Rust, which Debian has not.
fn build_server(root: &Path) -> Result<PathBuf, String> {
    let target = root.join("target/proof/server");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--release", "--quiet", "--locked", "--target-dir"]).arg(&target);
    succeeds(cargo.current_dir(root.join("examples/server")))?;
    Ok(target.join("release").join(SERVER))
}

fn in_suite(root: &Path, suite: &str, made: &[PathBuf], server: &Path, amount: Amount) -> Result<Value, String> {
    let step = |number: usize, what: &str| println!("proof: {suite}: step {number} of {STEPS}: {what}");
    let place = root.join("target/proof").join(suite);
    step(1, "a fresh system, with the package");
    let fresh = Fresh::make(&place, suite)?;
    let shell = |script: &str| fresh.shell(&format!("{MOUNTS}{script}"));
    succeeds(&mut shell(PREPARE))?;
    fresh.install(made)?;
    step(2, "the programs, servers and allocators of the suite");
    succeeds(&mut shell(ASK))?;
    let asked = read(&place.join("proof/missing"))?;
    succeeds(&mut shell(&install(&missing(&asked))))?;
    let installed = place.join("usr/local/bin").join(SERVER);
    fs::copy(server, &installed).map_err(|error| format!("{}: {error}", installed.display()))?;

    let measure = |words: &str, blocks: u32, file: &str| {
        // A program that fails under one allocator is a finding, which the file has.
        let script = format!("commensal {words} --blocks {blocks} --json /proof/{file} || test -s /proof/{file}");
        succeeds(&mut shell(&script))?;
        let text = read(&place.join("proof").join(file))?;
        serde_json::from_str::<Value>(&text).map_err(|error| format!("{words}: found no JSON: {error}"))
    };
    let of_programs = amount.blocks * PROGRAMS_BLOCKS;
    step(3, &format!("kernels and programs, {of_programs} blocks"));
    let programs = measure("compare --suite --quick --require-programs", of_programs, "programs.json")?;
    step(4, &format!("servers, {} blocks", amount.blocks));
    let words = if amount.is_quick { "lab servers --quick" } else { "lab servers" };
    let servers = measure(words, amount.blocks, "servers.json")?;
    let versions = said(&mut shell(&ask_versions(&programs)))?;
    results::of(suite, &programs, &servers, &versions)
}

/// The packages that a text names, and for each the ones to take if there is no such package.
fn missing(said: &str) -> Vec<Vec<&str>> {
    let lists = said.split(INSTALL).skip(1).filter_map(|rest| rest.split([';', '\n']).next());
    let lists = lists.map(|list| list.trim_start_matches("package ").split(" to ").next().unwrap_or_default());
    let mut all: Vec<Vec<&str>> = Vec::new();
    for list in lists {
        match list.split_once(" or ") {
            Some(_) => all.push(list.split(" or ").collect()),
            None => all.extend(list.split_whitespace().map(|name| vec![name])),
        }
    }
    all.sort();
    all.dedup();
    all
}

/// A script that installs one of each. A name that apt does not show may still be one that others provide.
fn install(missing: &[Vec<&str>]) -> String {
    let chosen: Vec<String> = missing.iter().map(|names| format!("$(choose {})", names.join(" "))).collect();
    format!(
        "set +x\nchoose() {{ for it; do if apt-cache show $it > /dev/null 2>&1; then echo $it; return; fi; done; echo $1; }}\n\
         packages=\"{}\"\nset -x\napt-get -qq install --no-install-recommends $packages > /proof/installed",
        chosen.join(" ")
    )
}

/// A script that prints a line for each allocator: its name, and its package's version.
fn ask_versions(programs: &Value) -> String {
    let arms = programs["arms"].as_array().into_iter().flatten();
    let arms = arms.filter_map(|arm| Some((arm["name"].as_str()?, arm["origin"].as_str()?)));
    let mut libraries: Vec<_> = arms.filter(|(_, origin)| origin.starts_with('/')).collect();
    libraries.sort_unstable();
    libraries.dedup();
    let line =
        |name: &str, package: &str| format!("echo {name} $(dpkg-query --show --showformat '${{Version}}' {package})\n");
    let of_libraries = libraries
        .into_iter()
        .map(|(name, library)| line(name, &format!("$(dpkg-query --search $(realpath {library}) | cut -d: -f1)")));
    of_libraries.chain([line(results::GLIBC, "libc6")]).collect()
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn packages_are_those_that_the_command_names() {
        let said = "commensal: jemalloc is not installed; install Debian's package libjemalloc2 to compare it\n\
                    commensal: m is not installed; install Debian's package libm3 or libm2.0 to compare it\n\
                    commensal: --require-programs: gcc: gcc and g++ not in PATH; install Debian's gcc g++; \
                    git: git not in PATH; install Debian's git\nnote: not measured: gcc: install Debian's gcc\n";
        let expected: [&[&str]; 5] = [&["g++"], &["gcc"], &["git"], &["libjemalloc2"], &["libm3", "libm2.0"]];
        assert_eq!(missing(said), expected);
        assert!(missing("cargo install --path examples/server").is_empty());
    }

    #[test]
    fn version_is_asked_once_for_each_library() {
        let arm = |name: &str, origin: &str| json!({"name": name, "origin": origin});
        let arms = [arm("glibc", "nothing preloaded"), arm("jemalloc", "/l/j.so"), arm("jemalloc", "/l/j.so")];
        let script = ask_versions(&json!({"arms": arms}));
        assert_eq!(script.lines().count(), 2, "{script}");
        let glibc = "\necho glibc $(dpkg-query --show --showformat '${Version}' libc6)\n";
        assert!(script.starts_with("echo jemalloc $(") && script.ends_with(glibc), "{script}");
        assert!(script.contains("$(dpkg-query --search $(realpath /l/j.so) | cut -d: -f1)"), "{script}");
    }
}
