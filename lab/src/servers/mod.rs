//! `commensal lab servers`: allocators under real servers. Time, tails, memory under load and memory when idle.
//!
//! A run starts a server in a folder of its own, fills it, and drives it twice. A *closed loop* tells what a request costs. An
//! *open loop*, at half the rate that the baseline reaches, tells latencies. Then it reads the memory, now and after some idle
//! seconds. `drive` is such a run, which the command does in a process of its own; `client` sends requests over sockets,
//! `load` says which, `protocol` reads the answers, and `pgbench` drives PostgreSQL. `process` is the server itself. Here
//! are the table of servers and what makes a [`Subject`] of each; `tables` show what came out.
//!
//! A server is a shell script with one argument: `prepare` makes what all runs need, `fresh` what one run needs, and `serve`
//! becomes the server. All but the last are outside of the measurement.

mod client;
mod drive;
mod load;
mod pgbench;
mod process;
mod protocol;
pub mod tables;

use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde::Serialize;

pub use client::CONNECTIONS;
pub use drive::drive;

use crate::arm::{self, Arm};
use crate::blocks::Subject;
use crate::metric::{FASTER, LESS, Metric};
use crate::process::{End, Interrupt, Program, Run, Starter};
use crate::progress::Progress;
use crate::suite::{self, Missing};
use load::{Load, files, memcached, redis, shop};

/// What the command calls such a run, before the words of [`drive`].
pub const WORDS: [&str; 2] = ["workload", "server"];

/// What is read off each run, in its order.
pub const METRICS: [Metric; 8] = [
    Metric::new("request_ns", "ns", "time per request", FASTER, 1.0),
    Metric::new("cpu_ns", "ns", "CPU time per request", LESS, 1.0),
    Metric::new("p50_ns", "ns", "median latency", FASTER, 1.0),
    Metric::new("p99_ns", "ns", "99 % latency", FASTER, 1.0),
    Metric::new("p999_ns", "ns", "99.9 % latency", FASTER, 1.0),
    Metric::new("loaded_kb", "kB", "memory under load", LESS, 1.0),
    Metric::new("idle_kb", "kB", "memory when idle", LESS, 1.0),
    Metric::new("start_s", "s", "start", FASTER, 1e-6),
];
/// The parts of all requests that the latencies among the metrics are of.
const LATENCIES: [f64; 3] = [0.5, 0.99, 0.999];
/// The open loop's part of the rate that the baseline reaches.
const OPEN_PART: f64 = 0.5;
/// How long a loop is by which the rate is found.
const RATE_S: f64 = 2.0;
/// How long a server may take to be prepared, or to show its rate.
const LIMIT: Duration = Duration::from_secs(600);
/// An executable for the Rust server.
const EXAMPLE_VARIABLE: &str = "COMMENSAL_EXAMPLE_SERVER";
const EXAMPLE: &str = "commensal-example-server";

/// How long runs are.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Lengths {
    /// Values that a server is filled with; a web shop has a fifth of them.
    pub values: usize,
    /// Of the closed loop, under the baseline; its requests are as many as fit.
    pub closed_s: f64,
    /// Of the open loop.
    pub open_s: f64,
    /// Between the two readings of memory.
    pub idle_s: f64,
}

impl Lengths {
    /// Some 12 seconds for a run.
    pub const USUAL: Lengths = Lengths { values: 100_000, closed_s: 2.5, open_s: 3.0, idle_s: 5.0 };
    /// Some 3 seconds.
    pub const QUICK: Lengths = Lengths { values: 10_000, closed_s: 0.3, open_s: 0.5, idle_s: 1.5 };
}

/// A server that can be measured.
struct Served {
    name: &'static str,
    /// The commands that it needs, the server first, and the Debian packages that bring them; none for this project's own.
    needs: &'static [(&'static str, &'static str)],
    /// What makes it print its version; nothing for one that cannot.
    version: &'static [&'static str],
    script: &'static str,
    /// What the script finds in the folder where it prepares.
    files: &'static [(&'static str, &'static str)],
    /// Makes more of it.
    writes: fn(&Path) -> Result<()>,
    asked: Asked,
    listens_on_port: bool,
}

/// Who asks a server.
enum Asked {
    /// Our client, with a load of so many values.
    By(fn(usize) -> Box<dyn Load>),
    ByPgbench,
}

/// Where a server runs.
struct Place<'a> {
    /// The folder that all its runs have in common.
    prepared: &'a Path,
    /// The run's own.
    folder: &'a Path,
    socket: &'a str,
    port: u16,
}

const SHOP: Asked = Asked::By(|values| Box::new(shop::Shop::new(values / 5)));

/// One that our client asks over a Unix socket.
const fn served(needs: &'static [(&'static str, &'static str)], script: &'static str, asked: Asked) -> Served {
    let (name, version) = (needs[0].0, &["--version"]);
    Served { name, needs, version, script, files: &[], writes: |_| Ok(()), asked, listens_on_port: false }
}

const SERVERS: [Served; 7] = [
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

/// The servers of a machine.
#[derive(Default)]
pub struct Servers {
    /// Those that are installed.
    pub subjects: Vec<Subject>,
    /// What they are, and how they are asked.
    pub about: Vec<About>,
    /// Those that are not.
    pub missing: Vec<Missing>,
}

/// What a server is, and how it is asked.
#[derive(Clone, Debug, Serialize)]
pub struct About {
    /// Its name.
    pub name: &'static str,
    /// What it says of its version.
    pub version: String,
    /// How many connections it has.
    pub connections: usize,
    /// Requests of the closed loop.
    pub requests: u64,
    /// Requests in a second of the open loop.
    pub rate_per_s: f64,
    /// How long a run is.
    #[serde(flatten)]
    pub lengths: Lengths,
}

impl Servers {
    /// Prepares the servers of these names. Their files go to the folder, which has to stay while they are measured; the
    /// command runs them. The rate of each is found under the baseline.
    pub fn prepare(
        names: &[String], command: &Path, folder: &Path, lengths: Lengths, baseline: &Arm, interrupt: &Interrupt,
    ) -> Result<Self> {
        let mut this = Self::default();
        let mut starter = Starter::new(None, interrupt.clone())?;
        // Some servers run as another user, who has to get at their files.
        fs::set_permissions(folder, fs::Permissions::from_mode(0o711))?;
        let chosen: Vec<&Served> = SERVERS.iter().filter(|of| names.iter().any(|name| name == of.name)).collect();
        let progress = Progress::new();
        for (at, served) in chosen.iter().enumerate() {
            progress.part(at as f64 / chosen.len() as f64, &format!("preparing {}", served.name));
            match served.file().and_then(|file| suite::fit(served.name, file)) {
                Ok(file) => {
                    let folder = folder.join(served.name);
                    served.prepare(&folder, &mut starter).with_context(|| format!("cannot prepare {}", served.name))?;
                    let words = |task: &[String]| {
                        let given = [served.name, &folder.display().to_string(), &lengths.values.to_string()]
                            .map(str::to_owned);
                        let all = ["commensal"].iter().chain(&WORDS).map(|word| (*word).to_owned());
                        Program::new(command, all.chain(given).chain(task.iter().cloned()))
                    };
                    let rate = served.rate(words(&["rate".to_owned(), RATE_S.to_string()]), baseline, &mut starter)?;
                    let requests = ((rate * lengths.closed_s) as u64).max(1);
                    let rate_per_s = (rate * OPEN_PART).max(1.0).round();
                    let task =
                        [requests as f64, rate_per_s, lengths.open_s, lengths.idle_s].map(|number| number.to_string());
                    this.subjects.push(subject(
                        served.name,
                        requests,
                        words(&[&["run".to_owned()], &task[..]].concat()),
                    ));
                    let (name, version) = (served.name, suite::version_of(&file, served.version));
                    this.about.push(About { name, version, connections: CONNECTIONS, requests, rate_per_s, lengths });
                }
                Err(missing) => this.missing.push(missing),
            }
        }
        progress.finish();
        Ok(this)
    }
}

fn subject(name: &str, requests: u64, program: Program) -> Subject {
    let read = |_: &Run, text: &str| text.split_whitespace().map(|figure| figure.parse().ok()).collect();
    let mut metrics = METRICS.to_vec();
    // The kernel gives it in ticks, for all requests together.
    metrics[1].resolution = 1e9 / procfs::ticks_per_second() as f64 / requests as f64;
    Subject { metrics, read, prints_the_same: false, hands_on: true, ..Subject::of_program(name, program) }
}

impl Served {
    fn find(name: &str) -> Option<&'static Served> {
        SERVERS.iter().find(|served| served.name == name)
    }

    /// Its executable, if all that it needs is there.
    fn file(&self) -> Result<PathBuf, Missing> {
        let absent = self.needs.iter().filter(|(command, _)| found(command).is_none());
        let (commands, packages): (Vec<_>, Vec<_>) = absent.copied().unzip();
        let packages = packages.into_iter().filter(|package| !package.is_empty()).collect();
        let missing = Missing { name: self.name, commands, packages };
        found(self.needs[0].0).filter(|_| missing.commands.is_empty()).ok_or(missing)
    }

    /// Makes what all its runs need.
    fn prepare(&self, folder: &Path, starter: &mut Starter) -> Result<()> {
        fs::create_dir(folder)?;
        for (name, text) in self.files {
            fs::write(folder.join(name), text)?;
        }
        (self.writes)(folder)?;
        let place = Place { prepared: folder, folder, socket: "", port: 0 };
        said(&self.script("prepare", &place)?, starter).map(drop)
    }

    /// The rate that it reaches under an arm.
    fn rate(&self, mut program: Program, arm: &Arm, starter: &mut Starter) -> Result<f64> {
        arm.apply(&mut program, None);
        arm::hand_on(&mut program);
        let what = || format!("cannot measure {} under {}", self.name, arm.name);
        let said = said(&program, starter).with_context(what)?;
        said.trim().parse().with_context(|| format!("{}: expected a rate, got {said:?}", what()))
    }

    /// Its script with a word.
    fn script(&self, word: &str, place: &Place) -> Result<Program> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blocks::{Length, Plan, measure};
    use crate::metric;

    #[test]
    fn program_that_hands_its_arm_on_has_to_succeed_and_says_why_not() {
        let of = |name: &str, script: &str| {
            let program = Program::new("/bin/sh", ["sh", "-c", script]);
            let read = |_: &Run, _: &str| Some(vec![1.0]);
            Subject { read, metrics: vec![metric::WALL], hands_on: true, ..Subject::of_program(name, program) }
        };
        let aside = "[ -z \"${LD_PRELOAD:-}${COMMENSAL_CONF:-}\" ] && [ \"${LAB_CONF:-none}\" != keep:1 ] || { env >&2; exit 3; }";
        let subjects = vec![of("broken", "echo out of luck >&2; exit 2"), of("aside", aside)];
        let arms = [Arm::glibc(), Arm { settings: Some("keep:1".to_owned()), name: "kept".to_owned(), ..Arm::glibc() }];
        let plan = Plan::of(Length::Blocks(1), 1);
        let rows = measure(subjects, &arms, plan, &Interrupt::never().unwrap()).unwrap().rows;
        let broken = &rows[0].findings[0];
        assert!(
            broken.is_fault && broken.what.contains("exit status 2") && broken.detail == "out of luck",
            "{broken:?}"
        );
        // The second one fails where it finds the settings that were put aside for it, and nowhere else.
        let [ref aside] = rows[1].findings[..] else { panic!("{:?}", rows[1].findings) };
        assert_eq!((aside.arm.as_str(), rows[1].values(0, 0)), ("kept", Some(vec![1.0])));
    }
}
