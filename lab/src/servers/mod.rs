//! `commensal lab servers`: allocators under real servers. Time, tails, memory under load and memory when idle.
//!
//! A run starts a server in a folder of its own, fills it, and drives it twice. A *closed loop* tells what a request costs. An
//! *open loop*, at half the rate that the baseline reaches, tells latencies. Then it reads the memory, now and after some idle
//! seconds. `drive` is such a run, which the command does in a process of its own; `client` sends requests over sockets,
//! `load` says which, `protocol` reads the answers, and `pgbench` drives PostgreSQL. `served` are the servers by name, and
//! `process` is one that runs. Here is what makes a [`Subject`] of each; `tables` show what came out.

mod client;
mod drive;
mod driver;
mod load;
mod pgbench;
mod process;
mod protocol;
mod served;
pub mod tables;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;

pub use drive::{METRICS, drive};
pub use driver::CONNECTIONS;
pub use served::names;

use crate::arm::Arm;
use crate::blocks::Subject;
use crate::process::{Interrupt, Program, Run, Starter};
use crate::progress::Progress;
use crate::suite::{self, Missing};
use served::{SERVERS, Served};

/// What the command calls such a run, before the words of [`drive`].
pub const WORDS: [&str; 2] = ["workload", "server"];

/// The open loop's part of the rate that the baseline reaches.
const OPEN_PART: f64 = 0.5;
/// How long a loop is by which the rate is found.
const RATE_S: f64 = 2.0;

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
