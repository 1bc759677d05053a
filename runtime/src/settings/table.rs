//! The table of settings. To add one, add a row here, and read it with `Key::of("its.key")`. `commensal conf` prints
//! it, and docs/reference/conf.md is generated from it. The library keeps keys and values; see [`ROWS`](super::ROWS).

use crate::observe::Word;
use Values::{AnyOf, Number, Process, Text, Words};
use When::{AnyTime, AtStart};

/// A row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Its name in `COMMENSAL_CONF`; in `cache.NAME.…`, NAME stands for the name of a cache.
    pub key: &'static str,
    /// The possible values.
    pub values: Values<&'static str>,
    /// The value if it is not set, or words that describe the behaviour then.
    pub default: &'static str,
    /// Unit of a number.
    pub unit: &'static str,
    /// When it may be set.
    pub when: When,
    /// Its effect, as Markdown on one line.
    pub help: &'static str,
}

/// The values that a setting may have; `T` is the type of texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values<T> {
    /// One of these words, separated by blanks; the value is its position.
    Words(T),
    /// Some of these words, joined by `+`, or `all`, or `off`; each word is a bit.
    AnyOf(T),
    /// A number in this closed range.
    Number(u32, u32),
    /// `on`, `off`, or the number of a process.
    Process,
    /// A text of one byte up to this many.
    Text(usize),
}

/// When a setting may be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// By `COMMENSAL_CONF`, which is read once.
    AtStart,
    /// Also while the program runs.
    AnyTime,
}

/// The beginning of a row, in the order of its columns.
const fn row(
    key: &'static str,
    values: Values<&'static str>,
    default: &'static str,
    unit: &'static str,
    when: When,
) -> Setting {
    Setting { key, values, default, unit, when, help: "" }
}

impl Setting {
    const fn help(self, help: &'static str) -> Self {
        Setting { help, ..self }
    }
}

/// All settings, in the order in which they are shown.
pub const TABLE: &[Setting] = &[
    row("stats", Words("off exit"), "off", "", AtStart)
        .help("Whether the library prints statistics on standard error when the program exits."),
    row("slabinfo", Words("off exit"), "off", "", AtStart)
        .help("Whether it prints the slab table then, in the columns of the kernel's `/proc/slabinfo`."),
    row("locks", Words("off exit json"), "off", "", AtStart)
        .help("Whether it prints the lock report then, in the columns of `perf lock contention` or as JSON."),
    row("locks.filter", Text(64), "all rows", "", AtStart)
        .help("The lock report shows only rows whose type or caller contains this text."),
    row("observe", Process, "off", "", AtStart).help(
        "Which processes write a statistics page, which `commensal top` and `commensal stat` read. `on`: each process \
         that inherits the setting, once it has lived for 50 ms or holds some MiB. A process number: that process at \
         its start, and others as with `on`. `commensal run` gives the number of the program that it starts, unless \
         you set this key.",
    ),
    row("observe.interval_ms", Number(20, 60_000), "500", "milliseconds", AtStart)
        .help("Time after which a process writes its statistics page again."),
    row("control", Number(0, u16::MAX as u32), "none", "", AtStart).help(
        "The descriptor of the page by which `commensal tune` reaches the process. `commensal run` sets this key; it \
         is not for people.",
    ),
    row("keep", Number(0, u32::MAX), "1", "MiB", AtStart)
        .help("Dirty memory that free runs may keep before it goes back to the system, whether it is idle or not."),
    row("huge", Words("system avoid"), "system", "", AtStart)
        .help("Whether the heap beyond its first 32 MiB follows the system's huge-page setting or avoids huge pages."),
    row("sandbox", Words("off on"), "off", "", AtStart).help(
        "`on`: plain mode from the start, in which the library makes only system calls that the C library's malloc and \
         threads make, too. For programs that install filters of system calls by other means than `prctl`, at which \
         the library comes into plain mode by itself.",
    ),
    row("syscalls", Words("direct libc"), "direct", "", AtStart).help(
        "`libc`: the library calls the C library's `mmap`, `munmap`, `mremap` and `madvise`, so that libraries that \
         replace these functions (MPI, RDMA) see its calls. `direct`: it makes the system calls itself.",
    ),
    row("upkeep", Words("off on"), "on", "", AnyTime).help(
        "Whether memory that nobody uses goes back to the system in the background. `off`: only when the program \
         trims.",
    ),
    row("upkeep.shepherd", Words("off on"), "on", "", AnyTime).help(
        "Whether a background thread of the library (the *shepherd*) tends idle slots, in processes with threads. \
         `off`: the program does, by `upkeep::tick` in Rust or `cm_upkeep_tick` in C; otherwise idle slots keep what \
         they have.",
    ),
    row("upkeep.interval_ms", Number(1, 86_400_000), "1000", "milliseconds", AnyTime).help(
        "Length of an interval, in which each slot has one turn: pages go back that were idle for as long. The \
         kernel's `vm.stat_interval`.",
    ),
    row("upkeep.budget_mib", Number(1, 1_000_000), "1024", "MiB", AnyTime)
        .help("Memory that may go back to the kernel in a second. It bounds what it costs to fault pages in again."),
    row("rcu.policy", Words("flagged counted kicked none"), "flagged", "", AtStart).help(
        "How registered readers come to report. `flagged`: at a checkpoint after they are told to. `counted`: at each \
         `rcu.counted_each`-th checkpoint. `kicked`: as `flagged`, and kickable readers are interrupted in the end. \
         `none`: only where the program says so. A program changes it while it runs by `cm_rcu_set_policy` in C or \
         `qsbr::set_policy` in Rust.",
    ),
    row("rcu.counted_each", Number(1, 1_000_000_000), "1", "checkpoints", AtStart)
        .help("With `rcu.policy:counted`, one of so many reports."),
    row("rcu.minimum_interval_us", Number(0, 1_000_000), "0", "microseconds", AnyTime).help(
        "Least time from the start of a grace period to the start of the next. With some, callers that come one after \
         the other share grace periods and kicks. Expedited grace periods do not wait for it.",
    ),
    row("rcu.first_scan_us", Number(1, 1_000_000), "20", "microseconds", AnyTime).help(
        "Time until a sleeping waiter looks again whether readers have ended, the first time: about as long as most \
         sections take.",
    ),
    row("rcu.longest_scan_us", Number(1, 1_000_000), "1000", "microseconds", AnyTime).help(
        "Each later time is twice as long as the one before, up to this. The waiter notices the end of a long section \
         so much later.",
    ),
    row("rcu.till_qs_ms", Number(0, 1_000_000), "10", "milliseconds", AnyTime).help(
        "Time for which a registered reader may hold a grace period up before it is told to report: once this, or \
         twice, or three times, as `rcu.policy` says.",
    ),
    row("rcu.lazy_limit", Number(1, 100_000_000), "4096", "objects", AnyTime).help(
        "When so many deferred objects wait in a slot, it asks for a grace period. They share one kick of all CPUs.",
    ),
    row("rcu.lazy_kib", Number(1, 100_000_000), "1024", "KiB", AnyTime)
        .help("The same as memory: about what a slot keeps at hand of a size in any case."),
    row("rcu.lazy_delay_ms", Number(1, 1_000_000), "20", "milliseconds", AnyTime)
        .help("Time after which a slot asks for a grace period even so, and frees what is not worth one by itself."),
    row("rcu.bulk", Number(1, 125), "125", "objects", AnyTime)
        .help("Deferred objects that a slot gathers in one batch, at most. It has one such batch for each size."),
    row("rcu.batch_limit", Number(1, 100_000_000), "250", "objects", AnyTime)
        .help("Objects that a thread which defers frees on the way, at most, up to the next whole batch."),
    row("rcu.batch_time_us", Number(1, 1_000_000), "100", "microseconds", AnyTime)
        .help("Time after which it begins no further batch."),
    row("rcu.high_mark", Number(1, 100_000_000), "20000", "objects", AnyTime).help(
        "When so many deferred objects wait in a slot, threads that defer there are held up, and free without bounds.",
    ),
    row("rcu.high_kib", Number(1, 100_000_000), "4096", "KiB", AnyTime).help("The same as memory."),
    row("rcu.low_percent", Number(0, 100), "50", "percent", AnyTime)
        .help("Share of `rcu.high_mark` and `rcu.high_kib` below which that ends."),
    row("rcu.hold_up_ms", Number(0, 1_000_000), "10", "milliseconds", AnyTime).help(
        "Time for which a thread is held up, at most, for each batch. It may hold locks that readers wait for, so this \
         ends. 0: no thread is held up.",
    ),
    row("rcu.hand_back", Number(0, 1), "1", "", AnyTime).help(
        "Where full batches go after their grace period. 1: to the depot of the slot that deferred them, which keeps \
         as much as waits there by then, and what `rcu.lazy_kib` says. 0: to the depot of the slot that frees them, \
         which keeps no more than of what is freed at once.",
    ),
    row("rcu.stall_ms", Number(0, 1_000_000), "10000", "milliseconds", AnyTime).help(
        "Time after which a grace period that somebody waits for is reported on standard error, with what it waits \
         for; again after as long. 0: never.",
    ),
    row("cache.NAME.dedicated", Words("off on"), "on", "", AtStart).help(
        "`off` serves an object cache from the general size classes: so `commensal compare --arm` tells whether one of \
         its own pays.",
    ),
    row("cache.NAME.debug", AnyOf("redzone poison track quarantine"), "off", "", AtStart).help(
        "How a cache watches its users. Objects lie between red zones, are poisoned while nobody should use them, \
         remember who allocated and who freed them, and wait before they are used again. Misuse ends the program. The \
         general classes are `malloc-64` and its like.",
    ),
    row("lazy", Words("off on"), "on", "", AtStart).help(
        "Whether per-CPU memory waits for its first use. `off` prepares all of it at the start, as other allocators \
         do; for comparison.",
    ),
    row("possible_cpus", Number(1, machine::slot::MAX as u32), "the machine's", "CPUs", AtStart)
        .help("For how many CPUs `lazy:off` prepares it."),
];

/// Removed keys, and their successors.
pub(super) static MOVED: [(Word, Word); 2] =
    [(Word::new("upkeep.on"), Word::new("upkeep")), (Word::new("shepherd"), Word::new("upkeep.shepherd"))];
