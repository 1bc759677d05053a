//! The table of the programs: the suite that allocators are compared by, and the probes that are run one by one.

use crate::scale::Scale;
use crate::{
    compiler, cubes, database, handover, interpreter, large, larson, lifo, pair, random, server, short_lived, store,
    stress, strings, threads,
};

/// One bundled program.
pub struct Workload {
    /// Its name on the command line, in kebab-case.
    pub name: &'static str,
    /// What it does with memory, as a short phrase for a table.
    pub about: &'static str,
    /// The well-known program or benchmark that it stands for.
    pub stands_for: &'static str,
    run: Run,
}

/// How a workload is run.
enum Run {
    /// In this process.
    Alone(fn(Scale) -> u64),
    /// With child processes, whose checksums come from the function that is handed in.
    WithChildren(fn(Scale, &mut dyn FnMut(u64) -> u64) -> u64),
}

impl Workload {
    /// Does the work, and returns the checksum. `child` has a child process do its part; most workloads have none.
    pub(crate) fn run(&self, scale: Scale, child: &mut dyn FnMut(u64) -> u64) -> u64 {
        match self.run {
            Run::Alone(run) => run(scale),
            Run::WithChildren(run) => run(scale, child),
        }
    }
}

/// A program that measures one thing and prints figures instead of a checksum. It is no part of the suite.
pub struct Probe {
    /// Its name on the command line, in kebab-case.
    pub name: &'static str,
    /// What it measures, and its arguments.
    pub about: &'static str,
    /// Runs it with its arguments, or says what is wrong with them.
    pub(crate) run: fn(&[String]) -> Result<(), String>,
}

/// The suite, in table order: blocks alone first, whole programs last.
pub const ALL: &[Workload] = &[
    Workload {
        name: "lifo",
        about: "a stack of blocks that grows and shrinks",
        stands_for: "obstacks",
        run: Run::Alone(lifo::run),
    },
    Workload {
        name: "random",
        about: "random blocks of a big table are replaced",
        stands_for: "object caches",
        run: Run::Alone(random::run),
    },
    Workload {
        name: "large",
        about: "buffers of 32 KiB to 4 MiB, some growing",
        stands_for: "image and file buffers",
        run: Run::Alone(large::run),
    },
    Workload {
        name: "larson",
        about: "threads inherit the blocks of threads that ended",
        stands_for: "larson",
        run: Run::Alone(larson::run),
    },
    Workload {
        name: "producer-consumer",
        about: "one thread allocates, another frees",
        stands_for: "xmalloc-test",
        run: Run::Alone(handover::run_pair),
    },
    Workload {
        name: "crowd",
        about: "four threads allocate, four others free",
        stands_for: "xmalloc-test with more threads than CPUs",
        run: Run::Alone(handover::run_crowd),
    },
    Workload {
        name: "stress",
        about: "linked structures that outlive threads and change hands",
        stands_for: "mstress",
        run: Run::Alone(stress::run),
    },
    Workload {
        name: "threads",
        about: "thousands of threads come, allocate and go",
        stands_for: "servers with a thread a connection",
        run: Run::Alone(threads::run),
    },
    Workload {
        name: "short-lived",
        about: "processes that start, read a configuration and end",
        stands_for: "configure scripts",
        run: Run::WithChildren(short_lived::run),
    },
    Workload {
        name: "cubes",
        about: "lists of small bit sets, made and dropped in a recursion",
        stands_for: "espresso",
        run: Run::Alone(cubes::run),
    },
    Workload {
        name: "strings",
        about: "a hash map from words to growing lists",
        stands_for: "text indexes",
        run: Run::Alone(strings::run),
    },
    Workload {
        name: "interpreter",
        about: "frames, pairs and closures, counted by reference",
        stands_for: "scripting languages",
        run: Run::Alone(interpreter::run),
    },
    Workload {
        name: "compiler",
        about: "trees, tables and graphs of mixed sizes and lifetimes",
        stands_for: "gcc",
        run: Run::Alone(compiler::run),
    },
    Workload {
        name: "store",
        about: "values of all sizes, replaced at random; two threads",
        stands_for: "redis",
        run: Run::Alone(store::run),
    },
    Workload {
        name: "database",
        about: "statements, rows and results around pages that stay",
        stands_for: "sqlite",
        run: Run::Alone(database::run),
    },
];

/// The probes.
pub const PROBES: &[Probe] = &[
    Probe { name: "pair", about: "nanoseconds of a malloc and a free: solo|parked|both [ROUNDS]", run: pair::run },
    Probe {
        name: "threads-placed",
        about: "memory left by 10,000 threads: [one|across|anywhere|std [NANOSECONDS]]",
        run: threads::run_placed,
    },
    Probe {
        name: "server",
        about: "slow mallocs of a load that swings, and memory after its peak: [INTERVAL_MS [INTERVALS]]",
        run: server::run,
    },
];

/// The workload of that name.
pub fn find(name: &str) -> Option<&'static Workload> {
    ALL.iter().find(|workload| workload.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line for each workload: its name and its checksum at two percent. A line that changes means other work, so
    /// that older results can no longer be compared with newer ones.
    const CHECKSUMS: &str = include_str!("../tests/checksums.txt");

    #[test]
    fn every_checksum_is_the_known_one_twice() {
        let scale = Scale::from_percent(2).expect("it is in range");
        let checksums = || -> String {
            let line = |workload: &Workload| {
                let sum = workload.run(scale, &mut short_lived::tool);
                format!("{} {sum:016x}\n", workload.name)
            };
            ALL.iter().map(line).collect()
        };
        assert_eq!(checksums(), CHECKSUMS, "these are found, those are in tests/checksums.txt");
        assert_eq!(checksums(), CHECKSUMS, "the second time");
    }

    #[test]
    fn names_are_words_and_no_two_alike() {
        let mut names: Vec<&str> = ALL.iter().map(|workload| workload.name).collect();
        names.extend(PROBES.iter().map(|probe| probe.name));
        names.push(short_lived::CHILD);
        assert!(names.iter().all(|name| name.chars().all(|c| c.is_ascii_lowercase() || c == '-')));
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn workloads_are_found_by_their_names_only() {
        assert!(ALL.iter().all(|workload| find(workload.name).is_some_and(|found| found.about == workload.about)));
        assert!(find("pair").is_none() && find("").is_none());
    }

    #[test]
    fn phrases_fit_a_table() {
        for workload in ALL {
            assert!(workload.about.len() <= 60 && workload.stands_for.len() <= 40, "{}", workload.name);
        }
    }
}
