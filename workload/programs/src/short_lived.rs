//! Short-lived processes, one after the other, as shells, configure scripts and build systems have them: most of what
//! they ask of an allocator is to start.
//!
//! Each child is a small tool that reads a configuration, expands its variables, formats names, sorts them and prints a
//! checksum. The children are this program itself, started again; so the time holds their fork, exec and dynamic
//! linking, which no allocator can spare: half of it is the kernel's, and a tenth that of glibc's malloc and free.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use crate::checksum::{mix, mix_bytes};
use crate::map::Map;
use crate::scale::Scale;

/// What a child is called in the place of a workload's name; a number follows.
pub const CHILD: &str = "short-lived-child";

const CHILDREN: u64 = 250;
const TARGETS: u64 = 300;

type Settings = Map<String, String>;

const CONFIGURATION: &str = "\
# Where things are installed.
prefix = /usr/local
exec_prefix = ${prefix}
bindir = ${exec_prefix}/bin
libdir = ${exec_prefix}/lib
includedir = ${prefix}/include
datadir = ${prefix}/share
mandir = ${datadir}/man
docdir = ${datadir}/doc/${package}

# What is built.
package = example
version = 4.12.1
suffix = .o
flags = -O2 -g -Wall -I${includedir} -DVERSION=${version}
library = lib${package}.so.${version}
compile = cc ${flags} -c
link = cc -shared -L${libdir} -o ${libdir}/${library}
";

/// Runs it: `child` has a child with the given number do its work, and returns its checksum.
///
/// In the real program that is [`spawned`]; a test may call [`tool`] in its own process.
pub fn run(scale: Scale, child: &mut dyn FnMut(u64) -> u64) -> u64 {
    (0..scale.of(CHILDREN)).fold(0, |sum, number| mix(sum, child(number)))
}

/// Starts this program again as a child, `prefix` being the words before the name, and reads its checksum.
pub fn spawned(prefix: &[&str], number: u64) -> u64 {
    // The kernel's name for this program, which stays true if the file is moved or replaced.
    let mut command = Command::new("/proc/self/exe");
    command.args(prefix).arg(CHILD).arg(number.to_string()).stdin(Stdio::null()).stderr(Stdio::inherit());
    let output = command.output().unwrap_or_else(|why| panic!("{command:?} can't be started: {why}"));
    assert!(output.status.success(), "{command:?} ended with {}", output.status);
    let text = String::from_utf8_lossy(&output.stdout);
    u64::from_str_radix(text.trim_end(), 16).unwrap_or_else(|_| panic!("{command:?} printed {text:?}, not a checksum"))
}

/// What a child does: the checksum of its sorted targets.
pub fn tool(number: u64) -> u64 {
    let settings = read(CONFIGURATION);
    let mut targets: Vec<String> = (0..TARGETS).map(|target| recipe(&settings, mix(number, target))).collect();
    targets.sort();
    targets.dedup();
    let by_directory = grouped(&targets);
    by_directory.iter().fold(0, |sum, (directory, files)| {
        let line = format!("{directory}: {}", files.join(" "));
        mix_bytes(sum, line.as_bytes())
    })
}

/// Lines of `name = value`; empty lines and those that begin with `#` say nothing.
fn read(text: &str) -> Settings {
    text.lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once('='))
        .map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned()))
        .collect()
}

/// The path of some target and how it is made.
fn recipe(settings: &Settings, random: u64) -> String {
    const DIRECTORIES: [&str; 5] = ["bindir", "libdir", "includedir", "mandir", "docdir"];
    let directory = DIRECTORIES[(random % 5) as usize];
    let rule = if random.is_multiple_of(2) { "compile" } else { "link" };
    let name = random >> 52;
    expanded(settings, &format!("${{{directory}}}/part-{name:03}${{suffix}} <- ${{{rule}}} part-{name}.c"))
}

/// The text with each `${name}` replaced by its value, which may have such names itself. Unknown names are empty.
fn expanded(settings: &Settings, text: &str) -> String {
    let Some((before, rest)) = text.split_once("${") else {
        return text.to_owned();
    };
    let (name, after) = rest.split_once('}').unwrap_or((rest, ""));
    let value = settings.get(name).map(|value| expanded(settings, value)).unwrap_or_default();
    format!("{before}{value}{}", expanded(settings, after))
}

/// The files of each directory.
fn grouped(targets: &[String]) -> BTreeMap<String, Vec<String>> {
    let mut groups: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for target in targets {
        let path = target.split(' ').next().unwrap_or(target);
        let (directory, file) = path.rsplit_once('/').unwrap_or((".", path));
        groups.entry(directory.to_owned()).or_default().push(file.to_owned());
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_expanded_to_the_end() {
        let settings = read(CONFIGURATION);
        assert_eq!(expanded(&settings, "${docdir}/x"), "/usr/local/share/doc/example/x");
        assert_eq!(expanded(&settings, "a${nothing}b${version}"), "ab4.12.1");
        assert_eq!(expanded(&settings, "plain"), "plain");
    }

    #[test]
    fn every_setting_is_read_and_no_comment() {
        let settings = read(CONFIGURATION);
        assert_eq!(settings.len(), CONFIGURATION.matches(" = ").count());
        assert!(settings.keys().all(|name| !name.contains('#')));
    }

    #[test]
    fn each_child_is_asked_once_in_order() {
        let mut asked = Vec::new();
        let scale = Scale::from_percent(4).expect("it is in range");
        let sum = run(scale, &mut |number| {
            asked.push(number);
            number
        });
        assert!(asked.into_iter().eq(0..scale.of(CHILDREN)));
        assert_ne!(sum, run(scale, &mut |_| 0), "the answers count");
    }

    #[test]
    fn children_differ() {
        assert_ne!(tool(1), tool(2));
    }
}
