//! The table of settings. To add one, add a row here, and read it with `Key::of("its.key")`. `commensal conf` prints
//! it, and docs/reference/conf.md is generated from it. The library keeps keys and values; see [`ROWS`](super::ROWS).

use super::setting::Setting;
use super::setting::Values::{AnyOf, Number, Process, Text, Words};
use super::setting::When::{AnyTime, AtStart};
use crate::observe::Word;

/// All settings, in the order in which they are shown.
pub const TABLE: &[Setting] = &[
    Setting {
        key: "stats",
        values: Words("off exit"),
        default: "off",
        unit: "",
        when: AtStart,
        help: "Whether the library prints statistics on standard error when the program exits.",
    },
    Setting {
        key: "slabinfo",
        values: Words("off exit"),
        default: "off",
        unit: "",
        when: AtStart,
        help: "Whether it prints the slab table then, in the columns of the kernel's `/proc/slabinfo`.",
    },
    Setting {
        key: "locks",
        values: Words("off exit json"),
        default: "off",
        unit: "",
        when: AtStart,
        help: "Whether it prints the lock report then, in the columns of `perf lock contention` or as JSON.",
    },
    Setting {
        key: "locks.filter",
        values: Text(64),
        default: "all rows",
        unit: "",
        when: AtStart,
        help: "The lock report shows only rows whose type or caller contains this text.",
    },
    Setting {
        key: "observe",
        values: Process,
        default: "off",
        unit: "",
        when: AtStart,
        help: "Which processes write a statistics page, which `commensal top` and `commensal stat` read. `on`: each \
               process that inherits the setting, once it has lived for 50 ms or holds some MiB. A process number: \
               that process at its start, and others as with `on`. `commensal run` gives the number of the program \
               that it starts, unless you set this key.",
    },
    Setting {
        key: "observe.interval_ms",
        values: Number(20, 60_000),
        default: "500",
        unit: "milliseconds",
        when: AtStart,
        help: "Time after which a process writes its statistics page again.",
    },
    Setting {
        key: "control",
        values: Number(0, u16::MAX as u32),
        default: "none",
        unit: "",
        when: AtStart,
        help: "The descriptor of the page by which `commensal tune` reaches the process. `commensal run` sets this \
               key; it is not for people.",
    },
    Setting {
        key: "keep",
        values: Number(0, u32::MAX),
        default: "1",
        unit: "MiB",
        when: AtStart,
        help: "Dirty memory that free runs may keep before it goes back to the system, whether it is idle or not.",
    },
    Setting {
        key: "huge",
        values: Words("system avoid"),
        default: "system",
        unit: "",
        when: AtStart,
        help: "Whether the heap beyond its first 32 MiB follows the system's huge-page setting or avoids huge pages.",
    },
    Setting {
        key: "sandbox",
        values: Words("off on"),
        default: "off",
        unit: "",
        when: AtStart,
        help: "`on`: plain mode from the start, in which the library makes only system calls that the C library's \
               malloc and threads make, too. For programs that install filters of system calls by other means than \
               `prctl`, at which the library comes into plain mode by itself.",
    },
    Setting {
        key: "syscalls",
        values: Words("direct libc"),
        default: "direct",
        unit: "",
        when: AtStart,
        help: "`libc`: the library calls the C library's `mmap`, `munmap`, `mremap` and `madvise`, so that libraries \
               that replace these functions (MPI, RDMA) see its calls. `direct`: it makes the system calls itself.",
    },
    Setting {
        key: "upkeep",
        values: Words("off on"),
        default: "on",
        unit: "",
        when: AnyTime,
        help: "Whether memory that nobody uses goes back to the system in the background. `off`: only when the program \
               trims.",
    },
    Setting {
        key: "upkeep.shepherd",
        values: Words("off on"),
        default: "on",
        unit: "",
        when: AnyTime,
        help: "Whether a background thread of the library (the *shepherd*) tends idle slots, in processes with \
               threads. `off`: the program does, by `upkeep::tick` in Rust or `cm_upkeep_tick` in C; otherwise idle \
               slots keep what they have.",
    },
    Setting {
        key: "upkeep.interval_ms",
        values: Number(1, 86_400_000),
        default: "1000",
        unit: "milliseconds",
        when: AnyTime,
        help: "Length of an interval, in which each slot has one turn: pages go back that were idle for as long. The \
               kernel's `vm.stat_interval`.",
    },
    Setting {
        key: "upkeep.budget_mib",
        values: Number(1, 1_000_000),
        default: "1024",
        unit: "MiB",
        when: AnyTime,
        help: "Memory that may go back to the kernel in a second. It bounds what it costs to fault pages in again.",
    },
    Setting {
        key: "rcu.policy",
        values: Words("flagged counted kicked none"),
        default: "flagged",
        unit: "",
        when: AtStart,
        help: "How registered readers come to report. `flagged`: at a checkpoint after they are told to. `counted`: at \
               each `rcu.counted_each`-th checkpoint. `kicked`: as `flagged`, and kickable readers are interrupted in \
               the end. `none`: only where the program says so. A program changes it while it runs by \
               `cm_rcu_set_policy` in C or `qsbr::set_policy` in Rust.",
    },
    Setting {
        key: "rcu.counted_each",
        values: Number(1, 1_000_000_000),
        default: "1",
        unit: "checkpoints",
        when: AtStart,
        help: "With `rcu.policy:counted`, one of so many reports.",
    },
    Setting {
        key: "rcu.minimum_interval_us",
        values: Number(0, 1_000_000),
        default: "0",
        unit: "microseconds",
        when: AnyTime,
        help: "Least time from the start of a grace period to the start of the next. With some, callers that come one \
               after the other share grace periods and kicks. Expedited grace periods do not wait for it.",
    },
    Setting {
        key: "rcu.first_scan_us",
        values: Number(1, 1_000_000),
        default: "20",
        unit: "microseconds",
        when: AnyTime,
        help: "Time until a sleeping waiter looks again whether readers have ended, the first time: about as long as \
               most sections take.",
    },
    Setting {
        key: "rcu.longest_scan_us",
        values: Number(1, 1_000_000),
        default: "1000",
        unit: "microseconds",
        when: AnyTime,
        help: "Each later time is twice as long as the one before, up to this. The waiter notices the end of a long \
               section so much later.",
    },
    Setting {
        key: "rcu.till_qs_ms",
        values: Number(0, 1_000_000),
        default: "10",
        unit: "milliseconds",
        when: AnyTime,
        help: "Time for which a registered reader may hold a grace period up before it is told to report: once this, \
               or twice, or three times, as `rcu.policy` says.",
    },
    Setting {
        key: "rcu.lazy_limit",
        values: Number(1, 100_000_000),
        default: "4096",
        unit: "objects",
        when: AnyTime,
        help: "When so many deferred objects wait in a slot, it asks for a grace period. They share one kick of all \
               CPUs.",
    },
    Setting {
        key: "rcu.lazy_kib",
        values: Number(1, 100_000_000),
        default: "1024",
        unit: "KiB",
        when: AnyTime,
        help: "The same as memory: about what a slot keeps at hand of a size in any case.",
    },
    Setting {
        key: "rcu.lazy_delay_ms",
        values: Number(1, 1_000_000),
        default: "20",
        unit: "milliseconds",
        when: AnyTime,
        help: "Time after which a slot asks for a grace period even so, and frees what is not worth one by itself.",
    },
    Setting {
        key: "rcu.bulk",
        values: Number(1, 125),
        default: "125",
        unit: "objects",
        when: AnyTime,
        help: "Deferred objects that a slot gathers in one batch, at most. It has one such batch for each size.",
    },
    Setting {
        key: "rcu.batch_limit",
        values: Number(1, 100_000_000),
        default: "250",
        unit: "objects",
        when: AnyTime,
        help: "Objects that a thread which defers frees on the way, at most, up to the next whole batch.",
    },
    Setting {
        key: "rcu.batch_time_us",
        values: Number(1, 1_000_000),
        default: "100",
        unit: "microseconds",
        when: AnyTime,
        help: "Time after which it begins no further batch.",
    },
    Setting {
        key: "rcu.high_mark",
        values: Number(1, 100_000_000),
        default: "20000",
        unit: "objects",
        when: AnyTime,
        help: "When so many deferred objects wait in a slot, threads that defer there are held up, and free without \
               bounds.",
    },
    Setting {
        key: "rcu.high_kib",
        values: Number(1, 100_000_000),
        default: "4096",
        unit: "KiB",
        when: AnyTime,
        help: "The same as memory.",
    },
    Setting {
        key: "rcu.low_percent",
        values: Number(0, 100),
        default: "50",
        unit: "percent",
        when: AnyTime,
        help: "Share of `rcu.high_mark` and `rcu.high_kib` below which that ends.",
    },
    Setting {
        key: "rcu.hold_up_ms",
        values: Number(0, 1_000_000),
        default: "10",
        unit: "milliseconds",
        when: AnyTime,
        help: "Time for which a thread is held up, at most, for each batch. It may hold locks that readers wait for, \
               so this ends. 0: no thread is held up.",
    },
    Setting {
        key: "rcu.hand_back",
        values: Number(0, 1),
        default: "1",
        unit: "",
        when: AnyTime,
        help: "Where full batches go after their grace period. 1: to the depot of the slot that deferred them, which \
               keeps as much as waits there by then, and what `rcu.lazy_kib` says. 0: to the depot of the slot that \
               frees them, which keeps no more than of what is freed at once.",
    },
    Setting {
        key: "rcu.stall_ms",
        values: Number(0, 1_000_000),
        default: "10000",
        unit: "milliseconds",
        when: AnyTime,
        help: "Time after which a grace period that somebody waits for is reported on standard error, with what it \
               waits for; again after as long. 0: never.",
    },
    Setting {
        key: "cache.NAME.dedicated",
        values: Words("off on"),
        default: "on",
        unit: "",
        when: AtStart,
        help: "`off` serves an object cache from the general size classes: so `commensal compare --arm` tells whether \
               one of its own pays.",
    },
    Setting {
        key: "cache.NAME.debug",
        values: AnyOf("redzone poison track quarantine"),
        default: "off",
        unit: "",
        when: AtStart,
        help: "How a cache watches its users. Objects lie between red zones, are poisoned while nobody should use \
               them, remember who allocated and who freed them, and wait before they are used again. Misuse ends the \
               program. The general classes are `malloc-64` and its like.",
    },
    Setting {
        key: "lazy",
        values: Words("off on"),
        default: "on",
        unit: "",
        when: AtStart,
        help: "Whether per-CPU memory waits for its first use. `off` prepares all of it at the start, as other \
               allocators do; for comparison.",
    },
    Setting {
        key: "possible_cpus",
        values: Number(1, machine::slot::MAX as u32),
        default: "the machine's",
        unit: "CPUs",
        when: AtStart,
        help: "For how many CPUs `lazy:off` prepares it.",
    },
];

/// Removed keys, and their successors.
pub(super) static MOVED: [(Word, Word); 2] =
    [(Word::new("upkeep.on"), Word::new("upkeep")), (Word::new("shepherd"), Word::new("upkeep.shepherd"))];
