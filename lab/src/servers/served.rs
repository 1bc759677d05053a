//! The servers that can be measured: what each needs, how it is prepared and started, and who asks it.
//!
//! A server is a shell script with one argument: `prepare` makes what all runs need, `fresh` what one run needs, and `serve`
//! becomes the server. All but the last are outside of the measurement.

use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use super::load::{Load, files, memcached, redis, shop};
use crate::arm::{self, Arm};
use crate::process::{End, Program, Starter};
use crate::suite::{self, Missing};

/// How long a server may take to be prepared, or to show its rate.
const LIMIT: Duration = Duration::from_secs(600);
/// An executable for the Rust server.
const EXAMPLE_VARIABLE: &str = "COMMENSAL_EXAMPLE_SERVER";
const EXAMPLE: &str = "commensal-example-server";

/// A server that can be measured.
pub struct Served {
    pub name: &'static str,
    /// The commands that it needs, the server first, and the Debian packages that bring them; none for this project's own.
    needs: &'static [(&'static str, &'static str)],
    /// What makes it print its version; nothing for one that cannot.
    pub version: &'static [&'static str],
    script: &'static str,
    /// What the script finds in the folder where it prepares.
    files: &'static [(&'static str, &'static str)],
    /// Makes more of it.
    writes: fn(&Path) -> Result<()>,
    pub asked: Asked,
    pub listens_on_port: bool,
}

/// Who asks a server.
pub enum Asked {
    /// Our client, with a load of so many values.
    By(fn(usize) -> Box<dyn Load>),
    ByPgbench,
}

/// Where a server runs.
pub struct Place<'a> {
    /// The folder that all its runs have in common.
    pub prepared: &'a Path,
    /// The run's own.
    pub folder: &'a Path,
    pub socket: &'a str,
    pub port: u16,
}

const SHOP: Asked = Asked::By(|values| Box::new(shop::Shop::new(values / 5)));

/// One that our client asks over a Unix socket.
const fn served(needs: &'static [(&'static str, &'static str)], script: &'static str, asked: Asked) -> Served {
    let (name, version) = (needs[0].0, &["--version"]);
    Served { name, needs, version, script, files: &[], writes: |_| Ok(()), asked, listens_on_port: false }
}

pub const SERVERS: [Served; 7] = [
    Served {
        name: "redis",
        ..served(
            &[("redis-server", "redis-server")],
            include_str!("scripts/redis.sh"),
            Asked::By(|values| Box::new(redis::Redis::new(values))),
        )
    },
    served(
        &[("memcached", "memcached")],
        include_str!("scripts/memcached.sh"),
        Asked::By(|values| Box::new(memcached::Memcached::new(values))),
    ),
    Served {
        name: "postgresql",
        ..served(
            &[("postgres", "postgresql"), ("pgbench", "postgresql")],
            include_str!("scripts/postgresql.sh"),
            Asked::ByPgbench,
        )
    },
    Served {
        version: &["-v"],
        writes: files::Files::write,
        ..served(
            &[("nginx", "nginx-light")],
            include_str!("scripts/nginx.sh"),
            Asked::By(|_| Box::new(files::Files::new())),
        )
    },
    Served {
        files: &[("shop.js", include_str!("scripts/shop.js"))],
        ..served(&[("node", "nodejs")], include_str!("scripts/node.sh"), SHOP)
    },
    Served {
        files: &[("Shop.java", include_str!("scripts/Shop.java"))],
        listens_on_port: true,
        ..served(
            &[("java", "default-jdk-headless"), ("javac", "default-jdk-headless")],
            include_str!("scripts/java.sh"),
            SHOP,
        )
    },
    Served { name: "rust", version: &[], ..served(&[(EXAMPLE, "")], include_str!("scripts/rust.sh"), SHOP) },
];

/// The names of all servers.
pub fn names() -> impl Iterator<Item = &'static str> {
    SERVERS.iter().map(|served| served.name)
}

impl Served {
    pub fn find(name: &str) -> Option<&'static Served> {
        SERVERS.iter().find(|served| served.name == name)
    }

    /// Its executable, if all that it needs is there.
    pub fn file(&self) -> Result<PathBuf, Missing> {
        let absent = self.needs.iter().filter(|(command, _)| found(command).is_none());
        let (commands, packages): (Vec<_>, Vec<_>) = absent.copied().unzip();
        let packages = packages.into_iter().filter(|package| !package.is_empty()).collect();
        let missing = Missing { name: self.name, commands, packages };
        found(self.needs[0].0).filter(|_| missing.commands.is_empty()).ok_or(missing)
    }

    /// Makes what all its runs need.
    pub fn prepare(&self, folder: &Path, starter: &mut Starter) -> Result<()> {
        fs::create_dir(folder)?;
        for (name, text) in self.files {
            fs::write(folder.join(name), text)?;
        }
        (self.writes)(folder)?;
        let place = Place { prepared: folder, folder, socket: "", port: 0 };
        said(&self.script("prepare", &place)?, starter).map(drop)
    }

    /// The rate that it reaches under an arm.
    pub fn rate(&self, mut program: Program, arm: &Arm, starter: &mut Starter) -> Result<f64> {
        arm.apply(&mut program, None);
        arm::hand_on(&mut program);
        let what = || format!("cannot measure {} under {}", self.name, arm.name);
        let said = said(&program, starter).with_context(what)?;
        said.trim().parse().with_context(|| format!("{}: expected a rate, got {said:?}", what()))
    }

    /// Its script with a word.
    pub fn script(&self, word: &str, place: &Place) -> Result<Program> {
        let words = ["sh", "-euc", self.script, "sh", word];
        let mut program = Program { directory: Some(place.folder.to_owned()), ..Program::new("/bin/sh", words) };
        let file = self.file().map_err(|missing| anyhow::anyhow!("{missing}"))?;
        let port = place.port.to_string();
        let variables: [(&str, &OsStr); 5] = [
            ("PROGRAM", file.as_ref()),
            ("PREPARED", place.prepared.as_ref()),
            ("SOCKET", place.socket.as_ref()),
            ("PORT", port.as_ref()),
            ("LC_ALL", "C".as_ref()),
        ];
        program.environment.extend(variables.map(|(name, value)| (name.into(), value.into())));
        arm::take_on(&mut program);
        Ok(program)
    }
}

/// What a program prints that has to succeed.
fn said(program: &Program, starter: &mut Starter) -> Result<String> {
    let Some(run) = starter.run(program, LIMIT)? else { bail!("it was interrupted") };
    let mut errors = String::new();
    starter.printed()?[1].read_to_string(&mut errors)?;
    ensure!(run.end == End::Exited(0), "it {}: {}", run.end, errors.trim());
    starter.text()
}

/// The executable of a command: in PATH, or where Debian has servers.
fn found(command: &str) -> Option<PathBuf> {
    if let Some(file) = std::env::var_os(EXAMPLE_VARIABLE).filter(|_| command == EXAMPLE) {
        return Some(file.into()).filter(|file: &PathBuf| file.is_file());
    }
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut postgres: Vec<PathBuf> = versions.map(|version| version.path().join("bin")).collect();
    // The latest first.
    postgres.sort_unstable_by(|one, other| other.cmp(one));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let all = postgres.into_iter().chain(std::env::split_paths(&path)).chain(["/usr/sbin".into()]);
    suite::find_in(&std::env::join_paths(all).ok()?, command)
}
