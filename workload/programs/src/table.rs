//! The table of the kernels, and that of the probes.

use crate::frame::Scale;
use crate::kernels::{lifetimes, processes, threads};
use crate::probes::{bursts, pair, peak, placed, soak, swing};

/// One kernel.
pub struct Kernel {
    /// Its name on the command line, in kebab-case.
    pub name: &'static str,
    /// What it does with memory, as a short phrase.
    pub about: &'static str,
    run: fn(Scale, Child<'_>) -> u64,
}

/// Has a child process do the part of this number, and returns its checksum.
pub type Child<'a> = &'a mut dyn FnMut(u64) -> u64;

impl Kernel {
    /// Does the work, and returns the checksum. Most kernels have no children.
    pub fn run(&self, scale: Scale, child: Child<'_>) -> u64 {
        (self.run)(scale, child)
    }
}

const fn kernel(name: &'static str, about: &'static str, run: fn(Scale, Child<'_>) -> u64) -> Kernel {
    Kernel { name, about, run }
}

/// The kernels, in table order: one thread first, then several, then processes.
pub const KERNELS: &[Kernel] = &[
    kernel("lifo", "a stack of blocks that grows and shrinks", |scale, _| lifetimes::lifo(scale)),
    kernel("random", "random blocks of a big table are replaced", |scale, _| lifetimes::random(scale)),
    kernel("middle", "buffers of 32 KiB to 1 MiB are replaced", |scale, _| lifetimes::middle(scale)),
    kernel("large", "buffers of 1 MiB to 16 MiB are replaced", |scale, _| lifetimes::large(scale)),
    kernel("realloc", "buffers grow by half, from 32 bytes to 1 MiB", |scale, _| lifetimes::growing(scale)),
    kernel("larson", "threads inherit the blocks of threads that ended", |scale, _| threads::larson(scale)),
    kernel("producer-consumer", "one thread allocates, another frees", |scale, _| threads::pair(scale)),
    kernel("producers-consumers", "four threads allocate, four others free", |scale, _| threads::several(scale)),
    kernel("foreign", "threads free each other's blocks of 8 to 16,000 bytes", |scale, _| threads::foreign(scale)),
    kernel("threads-in-turn", "thousands of threads come, allocate and go", |scale, _| threads::in_turn(scale)),
    kernel("idle-threads", "64 threads free what they had, and sleep", |scale, _| threads::idle(scale)),
    kernel("shell", "a process that forks and reads pipes, as a shell does", |scale, _| processes::shell(scale)),
    kernel("short-lived", "processes that start, read a configuration and end", processes::short_lived),
];

/// A program that measures one thing and prints figures instead of a checksum.
pub struct Probe {
    /// Its name on the command line, in kebab-case.
    pub name: &'static str,
    /// What follows the name.
    pub arguments: &'static str,
    /// What it does, and what its lines on standard output mean; as the help shows it.
    pub about: &'static str,
    /// Runs it with its arguments, or says what is wrong with them.
    pub(crate) run: fn(&[String]) -> Result<(), String>,
}

/// The probes.
pub const PROBES: &[Probe] = &[
    Probe {
        name: "pair",
        arguments: pair::ARGUMENTS,
        about: "\
Allocates DEPTH blocks of BYTES (default 64), then frees them: `solo` in one thread, `both` in two
threads at once. Prints a line for each depth (default 1, 64 and 1000): the depth, then nanoseconds of
one malloc and one free, in the best and in the median round.",
        run: pair::run,
    },
    Probe {
        name: "threads-placed",
        arguments: placed::ARGUMENTS,
        about: "\
Creates and joins 10,000 threads in turn, on one CPU or anywhere (default). Each works for NANOSECONDS
more (default 0). Prints a checksum, resident kB before and after, and how many threads ran on their
creator's CPU.",
        run: placed::run,
    },
    Probe {
        name: "swing",
        arguments: swing::ARGUMENTS,
        about: "\
A server of two threads whose load swings for INTERVALS (default 8) of INTERVAL_MS (default 1000), then
peaks and ends. Prints a checksum; for malloc, first writes and free the nanoseconds that 50, 99, 99.9
and 99.99 % of the calls did not exceed, and the longest; last a line `memory`: the bytes held at the
peak, those that stay, and those resident two intervals after the peak.",
        run: swing::run,
    },
    Probe {
        name: "bursts",
        arguments: bursts::ARGUMENTS,
        about: "\
Four threads that work in bursts, BURSTS (default 15) each, and pause for 0.1 to 3 times INTERVAL_MS
(default 1000). Prints a checksum, a line `faults` with the minor page faults, and a line `memory`: the
most bytes held.",
        run: bursts::run,
    },
    Probe {
        name: "soak",
        arguments: soak::ARGUMENTS,
        about: "\
A mixed load for MINUTES (default 60). Prints for each tenth of the time the mean and the least of the
memory in kB. Fails if a later tenth has more than 2 % more than the second.",
        run: soak::run,
    },
    Probe {
        name: "peak",
        arguments: peak::ARGUMENTS,
        about: "\
Two threads that are 0.1 s old allocate MIB (default 64), free all but one block in 64, and sleep for
SECONDS (default 3).
Prints the kB of the blocks that stay, and the kB of anonymous memory that are resident then.",
        run: peak::run,
    },
];

/// The kernel of that name.
pub fn find(name: &str) -> Option<&'static Kernel> {
    KERNELS.iter().find(|kernel| kernel.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line for each kernel: its name and its checksum at two percent. A line that changes means other work, so that
    /// older results can no longer be compared with newer ones.
    const CHECKSUMS: &str = include_str!("../tests/checksums.txt");

    #[test]
    fn kernels_run_twice_give_the_known_checksums() {
        let scale = Scale::from_percent(2).expect("it is in range");
        let checksums = || -> String {
            let line =
                |kernel: &Kernel| format!("{} {:016x}\n", kernel.name, kernel.run(scale, &mut processes::child_sum));
            KERNELS.iter().map(line).collect()
        };
        assert_eq!(checksums(), CHECKSUMS, "these are found, those are in tests/checksums.txt");
        assert_eq!(checksums(), CHECKSUMS, "the second time");
    }
}
