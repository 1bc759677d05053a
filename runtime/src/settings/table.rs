//! The table of settings. To add one, add a row here, and read it with `Key::of("its.key")`. `commensal conf` prints
//! it, and docs/reference/conf.md is generated from it. The library keeps keys and values; see [`ROWS`](super::ROWS).

use crate::observe::Inline;
use Values::{Number, Process};
use When::{AnyTime, AtStart};

/// A row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Its name in `COMMENSAL_CONF`; in `cache.NAME.…`, NAME stands for the name of a cache.
    pub key: &'static str,
    /// The possible values.
    pub values: Values,
    /// The default, or words for it.
    pub default: &'static str,
    /// Unit of a number.
    pub unit: &'static str,
    /// When it may be set.
    pub when: When,
    /// Its effect, as Markdown on one line.
    pub help: &'static str,
}

/// Words of a table, separated by blanks.
pub type Words = Inline<31>;

/// The values that a setting may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    /// One of these words; the value is its position.
    OneOf(Words),
    /// Some of these words, joined by `+`, or `all`, or `off`; each word is a bit.
    AnyOf(Words),
    /// A number in this closed range, which ends below the largest number of 32 bits.
    Number(u32, u32),
    /// `on`, `off`, or the number of a process.
    Process,
    /// The path of a file.
    Path,
}

const fn one_of(words: &str) -> Values {
    Values::OneOf(Words::new(words))
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
const fn row(key: &'static str, values: Values, default: &'static str, unit: &'static str, when: When) -> Setting {
    Setting { key, values, default, unit, when, help: "" }
}

impl Setting {
    const fn help(self, help: &'static str) -> Self {
        Setting { help, ..self }
    }
}

/// All settings, in the order in which they are shown.
pub const TABLE: &[Setting] = &[
    row("stats", one_of("off exit"), "off", "", AtStart)
        .help("Print statistics on standard error when the program exits."),
    row("slabinfo", one_of("off exit"), "off", "", AtStart)
        .help("Print the slab table when the program exits, in the columns of the kernel's `/proc/slabinfo`."),
    row("locks", one_of("off exit json"), "off", "", AtStart)
        .help("Print the lock report when the program exits, in the columns of `perf lock contention` or as JSON."),
    row("locks.holds", one_of("off on"), "off", "", AtStart).help(
        "`on`: measure for the lock report how long each lock is held, in CPU time of its holder. Each hold then \
         takes some 500 ns more.",
    ),
    row("observe", Process, "off", "", AtStart).help(
        "Processes that write a statistics page, which `commensal top` and `commensal stat` read. `on`: each \
         process that inherits the setting, once it is 50 ms old or holds some MiB. A process number: that \
         process at its start, and its children as with `on`. `commensal run` sets the number of the program \
         that it starts, unless you set this key.",
    ),
    row("observe.interval_ms", Number(20, 60_000), "500", "milliseconds", AtStart)
        .help("Time between two writes of the statistics page."),
    row("profile", Process, "off", "", AtStart).help(
        "Processes that sample their allocations for a heap profile. `on`: each process that inherits the setting. \
         A process number: the same, and `profile.file` is that process's file. `commensal run --profile` sets the \
         number of the program that it starts.",
    ),
    row("profile.gap_kib", Number(1, 4_194_303), "512", "KiB", AtStart).help(
        "Mean number of bytes that are allocated between two samples of the heap profile. If more than some 4,096 \
             samples come in a second, it grows for a while, unless it is below 128.",
    ),
    row("profile.file", Values::Path, "none", "", AtStart).help(
        "Write the heap profile to this file when the program exits, in the format of pprof. `%p` stands for the \
         number of the process; without it, the path of all processes but the one that `profile` names ends with \
         `.` and their number. If `profile` is not set, this sets it to `on`.",
    ),
    row("control", Number(0, u16::MAX as u32), "none", "", AtStart).help(
        "File descriptor of the page by which `commensal tune` reaches the process. `commensal run` sets this \
         key; do not set it yourself.",
    ),
    row("misuse", one_of("abort report"), "abort", "", AtStart).help(
        "After a misuse of the heap was found and told on standard error. `abort`: end the program. `report`: go on; \
         the free is ignored, and `realloc` returns null with `EINVAL`. After 100 lines, findings are only counted.",
    ),
    row("harden", one_of("off on"), "off", "", AtStart).help(
        "`on`: find writes out of bounds and after a free in blocks of malloc, when they are freed or used \
         again; hand out blocks in random order, and use freed ones later. Blocks above 32 KiB get guard pages.",
    ),
    row("guard", Number(0, 4_194_303), "0", "KiB", AtStart).help(
        "Put one block of malloc in many between guard pages, after so many KiB on average: an access out of its \
         bounds or after its free faults, and is told with the stacks of its allocation and its free. 0: none. For \
         blocks up to 4 KiB, outside of groups, and not with `harden`. If the program handles SIGSEGV, faults are not \
         told.",
    ),
    row("keep", Number(0, u32::MAX - 1), "1", "MiB", AtStart)
        .help("Dirty memory that free runs may keep. Memory above it returns to the system even if it is not idle."),
    row("limit", Number(0, u32::MAX - 1), "0", "MiB", AtStart).help(
        "Most memory that the heap holds: spans and large blocks in use, and dirty memory. Allocations beyond it fail \
         with `ENOMEM`, after everything cached went back. 0: none. A program can change it while it runs, by \
         `cm_limit_set` in C or `limit::set` in Rust.",
    ),
    row("limit.soft", Number(0, u32::MAX - 1), "0", "MiB", AtStart).help(
        "Held memory above which dirty memory and everything cached go back, again after each growth by a sixteenth of \
         this, at most 32 MiB. 0: none. A program can change it, as `limit`, and be told by `cm_limit_notify`.",
    ),
    row("huge", one_of("system avoid prefer"), "system", "", AtStart).help(
        "`system`: the heap beyond its first 32 MiB follows the system's huge-page setting. `avoid`: it never \
         uses huge pages. `prefer`: it asks for them beyond its first 4 MiB.",
    ),
    row("sandbox", one_of("off on"), "off", "", AtStart).help(
        "`on`: start in plain mode, in which the library makes only the system calls that the C library's malloc \
         and threads make. Set it for programs that install a seccomp filter without the C library's `prctl`. \
         The library notices a call of `prctl` by itself.",
    ),
    row("syscalls", one_of("direct libc"), "direct", "", AtStart).help(
        "`libc`: call the C library's `mmap`, `munmap`, `mremap` and `madvise`, so that libraries that replace \
         these functions (MPI, RDMA) see the calls. `direct`: make the system calls directly.",
    ),
    row("upkeep", one_of("off on"), "on", "", AnyTime)
        .help("Return unused memory to the system in the background. `off`: only when the program trims."),
    row("upkeep.shepherd", one_of("off on"), "on", "", AnyTime).help(
        "Start a background thread (the *shepherd*) that serves idle slots, in processes with threads. `off`: \
         the program calls `upkeep::tick` in Rust or `cm_upkeep_tick` in C instead; otherwise idle slots keep \
         their memory.",
    ),
    row("upkeep.interval_ms", Number(1, 86_400_000), "1000", "milliseconds", AnyTime).help(
        "Length of an interval. Each slot has one turn per interval. Pages go back that were idle for some intervals. \
         The kernel's `vm.stat_interval`.",
    ),
    row("upkeep.budget_mib", Number(1, 1_000_000), "1024", "MiB", AnyTime)
        .help("Memory that may be returned to the kernel per second. It bounds the cost of faulting pages in again."),
    row("upkeep.cgroup", Values::Path, "its own", "", AtStart).help(
        "Folder of the control group (version 2) whose `memory.events` the background thread reads once an interval. \
         When its `high` or `max` has grown, all memory that is not in use goes back. If there is no such file, \
         nothing happens.",
    ),
    row("rcu.policy", one_of("flagged counted kicked none"), "flagged", "", AtStart).help(
        "When registered readers report. `flagged`: at a checkpoint after they were flagged. `counted`: at each \
         `rcu.counted_each`-th checkpoint. `kicked`: as `flagged`, and kickable readers are interrupted in the \
         end. `none`: only where the program reports. A program can change it while it runs, by \
         `cm_rcu_set_policy` in C or `qsbr::set_policy` in Rust.",
    ),
    row("rcu.counted_each", Number(1, 1_000_000_000), "1", "checkpoints", AtStart)
        .help("With `rcu.policy:counted`: checkpoints per report."),
    row("rcu.minimum_interval_us", Number(0, 1_000_000), "0", "microseconds", AnyTime).help(
        "Least time between the starts of two grace periods. A larger value lets callers share grace periods and \
         kicks. Expedited grace periods do not wait for it.",
    ),
    row("rcu.first_scan_us", Number(1, 1_000_000), "20", "microseconds", AnyTime).help(
        "Time until a sleeping waiter first checks again whether readers have ended. Best set to the length of \
         most sections.",
    ),
    row("rcu.longest_scan_us", Number(1, 1_000_000), "1000", "microseconds", AnyTime).help(
        "Longest time between two checks. Each one is twice as long as the one before, up to this. The waiter \
         may notice the end of a long section this much later.",
    ),
    row("rcu.watch_slots", Number(1, 1_000_000), "16", "slots", AnyTime).help(
        "Least number of possible slots for grace periods without a kick. If threads in all of them read, each shows \
         by its next section that it finds nothing old.",
    ),
    row("rcu.till_qs_ms", Number(0, 1_000_000), "10", "milliseconds", AnyTime).help(
        "Time for which a registered reader may hold up a grace period before it is flagged. `rcu.policy` says \
         what happens after once, twice and three times this time.",
    ),
    row("rcu.lazy_limit", Number(1, 100_000_000), "4096", "objects", AnyTime).help(
        "Number of deferred objects in a slot at which it asks for a grace period. They share one kick of all \
         CPUs.",
    ),
    row("rcu.lazy_kib", Number(1, 100_000_000), "1024", "KiB", AnyTime)
        .help("The same as `rcu.lazy_limit`, in memory."),
    row("rcu.lazy_delay_ms", Number(1, 1_000_000), "20", "milliseconds", AnyTime)
        .help("Time after which a slot asks for a grace period in any case, also for few objects."),
    row("rcu.bulk", Number(1, 125), "125", "objects", AnyTime)
        .help("Most deferred objects in one batch. A slot has one open batch for each size."),
    row("rcu.batch_limit", Number(1, 100_000_000), "250", "objects", AnyTime)
        .help("Objects that a thread frees, at most, each time it defers; rounded up to whole batches."),
    row("rcu.batch_time_us", Number(1, 1_000_000), "100", "microseconds", AnyTime)
        .help("Time after which such a thread begins no further batch."),
    row("rcu.high_mark", Number(1, 100_000_000), "20000", "objects", AnyTime).help(
        "Number of deferred objects in a slot above which threads that defer there are delayed, and free without \
         a limit.",
    ),
    row("rcu.high_kib", Number(1, 100_000_000), "4096", "KiB", AnyTime).help("The same as `rcu.high_mark`, in memory."),
    row("rcu.low_percent", Number(0, 100), "50", "percent", AnyTime)
        .help("Share of `rcu.high_mark` and `rcu.high_kib` below which threads are no longer delayed."),
    row("rcu.hold_up_ms", Number(0, 1_000_000), "10", "milliseconds", AnyTime).help(
        "Longest delay of a thread for each batch. It is bounded because the thread may hold locks that readers \
         wait for. 0: no delay.",
    ),
    row("rcu.hand_back", Number(0, 1), "1", "", AnyTime).help(
        "Depot that gets full batches after their grace period. 1: the depot of the slot that deferred them, \
         which may keep as much as waits there, and what `rcu.lazy_kib` allows. 0: the depot of the slot that \
         frees them, which keeps only what is freed at once.",
    ),
    row("rcu.stall_ms", Number(0, 1_000_000), "10000", "milliseconds", AnyTime).help(
        "Time after which a waiting grace period is reported on standard error, with what it waits for; repeated \
         after the same time. 0: never.",
    ),
    row("cache.NAME.dedicated", one_of("off on"), "on", "", AtStart).help(
        "`off`: serve this object cache from the general size classes. `commensal compare --arm` then tells \
         whether a cache of its own pays.",
    ),
    row("cache.NAME.debug", Values::AnyOf(Words::new("redzone poison track quarantine")), "off", "", AtStart).help(
        "Detect misuse of this cache, which ends the program. `redzone`: guard bytes around objects. `poison`: \
         fill free objects with a pattern. `track`: record who allocated and freed an object. `quarantine`: \
         delay reuse. The size classes of malloc are caches such as `malloc-64`.",
    ),
    row("lazy", one_of("off on"), "on", "", AtStart)
        .help("Set up per-CPU memory at its first use. `off`: at the start, as other allocators do; for comparisons."),
    row("possible_cpus", Number(1, machine::slot::MAX as u32), "the machine's", "CPUs", AtStart)
        .help("Number of CPUs that `lazy:off` sets up."),
];
