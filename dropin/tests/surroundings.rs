//! What surrounds a process: limits on its memory, sandboxes, privileges, configuration; and programs that
//! misuse the heap.

use dropin::check::{check, hardly_watched, unwatched, watched};
use dropin::run::{End, Outcome, Run};
use dropin::subject::{self, Mode};
use dropin::{compile, in_both_modes, linked, skips};
use std::collections::BTreeSet;
use std::path::Path;

in_both_modes! {
    mode_is_what_it_says: super::mode_is_what_it_says;

    limit_64_mib: |mode| exhaust(mode, "-v", 64, &[64, 4096, 100_000, 1 << 20, 4 << 20]);
    limit_256_mib: |mode| exhaust(mode, "-v", 256, &[4096, 10 << 20]);
    limit_1_gib: |mode| exhaust(mode, "-v", 1 << 10, &[100_000]);
    limit_4_gib: |mode| exhaust(mode, "-v", 4 << 10, &[10 << 20]);
    limit_of_data: |mode| exhaust(mode, "-d", 128, &[64, 1 << 20]);
    limit_lowered_at_run_time: "limits lowered";
    limit_set_by_the_program: "limits late as";
    limit_of_data_set_by_the_program: "limits late data";
    memory_that_is_not_promised: "limits promises";
    addresses_far_apart: "limits aliases";
    null_is_freed_wherever_the_heap_lies: "limits null";
    refusal_that_flushes_nothing: "limits refused";
    twenty_thousand_large_blocks: "limits many 20000 65";
    limit_at_every_step: "limits staircase as";
    limit_of_data_at_every_step: "limits staircase data";

    membarrier_refused: "seccomp run membarrier=1 {THREADS} together {5} 160";
    membarrier_unknown: "seccomp run membarrier=38 {THREADS} together {5} 160";
    membarrier_refused_and_forks: "seccomp run membarrier=1 {FORK} storm {300} fork";
    rseq_unknown: "seccomp run rseq=38 {THREADS} together {5} 160";
    rseq_refused: "seccomp run rseq=1,membarrier=1 {THREADS} together {5} 160";
    advice_refused: "seccomp run madvise=1,mremap=1 {ABI} realloc";
    advice_unknown: "seccomp run madvise=38,mremap=38,sched_getaffinity=38 {THREADS} together {2} 160";
    much_where_forks_are_not_noticed: "seccomp run madvise=1 {THREADS} much";
    membarrier_refused_before_the_first_thread: "seccomp solo membarrier=1";
    membarrier_refused_at_work: "seccomp late membarrier=1";
    everything_refused_at_work: "seccomp late membarrier=1,rseq=1,madvise=1,mremap=1";
    process_that_shuts_itself_in: "seccomp closed";
    process_that_shuts_itself_in_before_it_allocates: "seccomp closed unseen";
    threads_that_are_shut_in: "seccomp closed_threads";
    threads_that_are_shut_in_unseen: |mode| check("seccomp closed_threads unseen").env("COMMENSAL_CONF", "sandbox:on").holds(mode);
    watched_when_it_is_shut_in: watched("seccomp closed_threads");
    watched_where_forks_are_not_told: unwatched("seccomp run madvise=1 {THREADS} together {2} 160");
    watched_where_no_file_is_made: hardly_watched("seccomp solo openat=1,fallocate=38,mkdirat=1");
    watched_where_files_have_no_memory: hardly_watched("seccomp run fallocate=38 {THREADS} together {5} 160");
    watched_in_a_sandbox: watched("seccomp late openat=1,unlinkat=1,membarrier=1,madvise=1,getpid=1");
    watched_under_limits: watched("limits staircase as");
    watched_under_limits_when_a_page_is_due: watched("limits staircase as 60");

    tracer_that_steps: |mode| linked::holds(mode, "stepped traced");
    tracer_that_steps_one_of_two_threads: |mode| linked::holds(mode, "stepped traced threads");

    overflow_from_the_first_segment: "guards first_segment";
    overflow_from_a_later_segment: "guards later_segment";
    overflow_from_a_large_block: "guards large";
    overflow_from_a_resized_block: "guards resized";
    places_differ_between_runs: |mode| differ(mode, "places");
    objects_differ_between_runs: |mode| differ(mode, "objects");
    first_blocks_take_few_page_faults: "small process";
    first_blocks_of_a_child_take_few_page_faults: "small child";
    first_blocks_differ_between_runs: |mode| differ(mode, "first_blocks");

    double_free: |mode| misused(mode, "double_free", TWICE, &[16, 100, 2000, 30_000, 300_000, 5_000_000, OWN_MAPPING]);
    double_free_by_realloc: |mode| misused(mode, "double_free_by_realloc", TWICE, &[16, 1000, 300_000, OWN_MAPPING]);
    double_free_of_a_joined_run: |mode| misused(mode, "double_free_joined", TWICE, &[300_000, 5_000_000]);
    double_free_of_a_purged_run: |mode| misused(mode, "double_free_purged", TWICE, &[300_000, 5_000_000]);
    double_free_inside_of_a_later_block: |mode| misused(mode, "double_free_covered", TWICE, &[300_000, 5_000_000]);
    double_free_of_mappings: |mode| misused(mode, "double_free_unmapped", TWICE, &[OWN_MAPPING]);
    free_of_the_stack: |mode| misused(mode, "stack", "free of a foreign pointer", &[100]);
    free_of_foreign_memory: |mode| misused(mode, "foreign", "free of a foreign pointer", &[100, 300_000]);
    free_where_a_block_was: |mode| misused(mode, "foreign_where_a_block_was", "free of a foreign pointer", &[OWN_MAPPING]);
    free_of_the_middle: |mode| misused(mode, "interior", "free of a pointer into", &[64, 1000, 30_000, 300_000, 5_000_000]);
    free_of_the_middle_is_located: |mode| {
        misused(mode, "interior", ": 32 bytes into an object of 64 bytes;", &[64]);
        misused(mode, "interior", ": 150000 bytes into an object of 303104 bytes;", &[300_000]);
        misused(mode, "interior", ": 50000000 bytes into an object of 100003840 bytes;", &[OWN_MAPPING]);
    };
    realloc_of_the_stack: |mode| misused(mode, "realloc_stack", "realloc of a foreign pointer", &[100, 100_000]);
    realloc_of_a_freed_block: |mode| misused(mode, "realloc_freed", "which is freed already", &[300_000, 5_000_000, OWN_MAPPING]);
    realloc_of_the_middle: |mode| misused(mode, "realloc_interior", "realloc of a pointer into", &[64, 1000, 30_000, 300_000, OWN_MAPPING]);
    free_with_a_wrong_size: |mode| misused(mode, "wrong_size", "with size", &[64, 1000, 300_000]);
    free_with_a_small_size: |mode| misused(mode, "small_size", "with size", &[64, 1000, 300_000]);
    aligned_free_with_a_wrong_size: |mode| misused(mode, "wrong_aligned_size", "with size", &[64, 300_032]);
    delete_with_a_wrong_size: |mode| misused(mode, "wrong_delete", "with size", &[64, 1000, 300_000]);
    delete_with_a_small_size: |mode| misused(mode, "small_delete", "with size", &[64, 1000, 300_000]);
    delete_of_an_array_with_a_wrong_size: |mode| misused(mode, "wrong_delete_of_array", "with size", &[64, 1000, 300_000]);
    delete_of_an_array_with_a_small_size: |mode| misused(mode, "small_delete_of_array", "with size", &[64, 1000, 300_000]);
    aligned_delete_with_a_wrong_size: |mode| misused(mode, "wrong_aligned_delete", "with size", &[64, 300_032]);
    aligned_delete_of_an_array_with_a_wrong_size: |mode| misused(mode, "wrong_aligned_delete_of_array", "with size", &[64, 300_032]);

    misuse_is_told_and_the_program_goes_on: super::misuse_is_told_and_the_program_goes_on;
    misuse_found_late_is_told_and_dropped: super::misuse_found_late_is_told_and_dropped;
    misuse_is_told_a_hundred_times: super::misuse_is_told_a_hundred_times;

    static_program: super::static_program;
    unknown_key: super::unknown_key;
    laid_out_for_many_cpus: super::laid_out_for_many_cpus;
    eager_layout_without_memory_is_told_and_goes_on: super::eager_layout_without_memory_is_told_and_goes_on;
    statistics_tell_peaks: super::statistics_tell_peaks;
    strange_configurations: super::strange_configurations;
    huge_pages_are_asked_for_and_avoided: super::huge_pages_are_asked_for_and_avoided;
}

fn holds(outcome: Outcome) -> Outcome {
    outcome.ending(End::Exited(0)).unwrap_or_else(|report| panic!("{report}"))
}

fn mode_is_what_it_says(mode: Mode) {
    let outcome = configured(mode, "");
    let expected = format!("rseq {} library loaded\n", if mode == Mode::Fallback { "off" } else { "on" });
    assert_eq!(outcome.stdout, expected, "{}", outcome.report("it says something else"));
}

/// `kind` is the option of ulimit: -v for the address space, -d for data.
/// Each word takes one of 16 values or more. So eight runs show one value only with a probability below 2^-28.
fn differ(mode: Mode, case: &str) {
    let run = |_| {
        check(&format!("guards {case}")).verdict(subject::library(), mode).unwrap_or_else(|report| panic!("{report}"))
    };
    let runs: Vec<_> = (0..8).map(run).collect();
    for distance in 0..3 {
        let word = |run: &Outcome| run.stdout.split_whitespace().nth(distance).map(str::to_owned);
        let seen: BTreeSet<_> = runs.iter().map(word).collect();
        assert!(seen.len() > 1, "{case}: word {distance} is {seen:?} in all runs");
    }
    // A debugger turns the kernel's randomness off, and its users expect the same addresses in each run.
    let flat = |_| {
        let program = compile::program("guards");
        let run = Run::new("setarch").args(["-R".into(), program.into_os_string(), case.into()]);
        run.with(subject::library(), mode).ending(End::Exited(0)).expect("it runs").stdout
    };
    if skips::has_tools(case, &["setarch"]) {
        assert_eq!((0..4).map(flat).collect::<BTreeSet<_>>().len(), 1, "without the kernel's randomness");
    }
}

fn exhaust(mode: Mode, kind: &str, mib: usize, sizes: &[usize]) {
    let program = compile::program("limits");
    let script = format!("ulimit {kind} {} && exec \"$@\"", mib * 1024);
    let limited = Run::new("/bin/sh").args(["-c", &script, "sh"]).args([&program]);
    for size in sizes {
        let size = size.to_string();
        for check in ["exhaust", "exhaust_threads"] {
            holds(limited.clone().args([check, &size]).with(subject::library(), mode));
        }
    }
}

/// Bytes of a block that gets a mapping of its own.
const OWN_MAPPING: usize = 100_000_000;
const TWICE: &str = "double free of";

/// One line that says what was found, then SIGABRT; in a process with one thread and in one with two.
fn misused(mode: Mode, case: &str, expected: &str, sizes: &[usize]) {
    for size in sizes {
        for threaded in ["", "threaded"] {
            let outcome = check(&format!("misuse {case} {size} {threaded}")).outcome(subject::library(), mode);
            let line = outcome.last_words().unwrap_or_else(|report| panic!("misuse was not reported: {report}"));
            assert!(
                line.contains(expected),
                "{case} of {size} bytes {threaded}: expected {expected:?}, found {line:?}"
            );
        }
    }
}

/// What the program says with `misuse:report`, which ends well and says one line for each of these, in this order.
fn reported(mode: Mode, case: &str, expected: &[&str]) -> Outcome {
    let outcome = check(&format!("misuse {case}")).env("COMMENSAL_CONF", "misuse:report,stats:exit");
    let outcome = holds(outcome.outcome(subject::library(), mode));
    let told: Vec<&str> =
        outcome.stderr.lines().filter(|line| line.starts_with("commensal: ") && !line.contains("statistics")).collect();
    let is_told = told.len() == expected.len() && told.iter().zip(expected).all(|(line, part)| line.contains(part));
    assert!(is_told, "{}", outcome.report(&format!("expected {expected:?}, found {told:#?}")));
    outcome
}

fn misuse_is_told_and_the_program_goes_on(mode: Mode) {
    let told =
        ["double free of", "free of a pointer into", "free of a foreign", "freed already", "realloc of a pointer"];
    let told = [&told[..], &["realloc of a foreign", "realloc of a pointer", "with size", "with size"]].concat();
    for size in [300_000, OWN_MAPPING] {
        reported(mode, &format!("reported {size}"), &told);
    }
}

fn misuse_found_late_is_told_and_dropped(mode: Mode) {
    for size in [64, 1000] {
        for threaded in ["", " threaded"] {
            // A magazine is flushed from its top.
            let told = ["double free of", "free of a pointer into an object", "double free of"];
            reported(mode, &format!("reported_late {size}{threaded}"), &told);
        }
    }
}

fn misuse_is_told_a_hundred_times(mode: Mode) {
    let told = [vec!["free of a foreign pointer"; 100], vec!["100 misuses were told"]].concat();
    let outcome = reported(mode, "reported_often 100", &told);
    assert!(outcome.stderr.contains("misuses 150"), "{}", outcome.report("the statistics do not count 150"));
}

/// The loader has no part in a static program, so the preload does nothing, and no harm.
fn static_program(mode: Mode) {
    let program = compile::variant("whoami", "whoami_static", &["-static"]);
    let outcome = holds(Run::new(program).args([subject::library().name()]).with(subject::library(), mode));
    assert!(outcome.stdout.contains("library absent"), "{}", outcome.report(&outcome.stdout));
}

fn configured(mode: Mode, configuration: &str) -> Outcome {
    holds(check("whoami {library}").env("COMMENSAL_CONF", configuration).outcome(subject::library(), mode))
}

fn unknown_key(mode: Mode) {
    let outcome = configured(mode, "bogus_key:1");
    let told = outcome.stderr.lines().any(|line| line.starts_with("commensal:") && line.contains("bogus_key"));
    assert!(told, "{}", outcome.report("expected a line that begins with `commensal:` and names bogus_key"));
}

/// Memory that a program has which allocates next to nothing, in kB.
fn resident_kb(mode: Mode, configuration: &str) -> u64 {
    let run = Run::new("grep").args(["VmRSS", "/proc/self/status"]).env("COMMENSAL_CONF", configuration);
    let outcome = holds(run.with(subject::library(), mode));
    let number = outcome.stdout.split_whitespace().nth(1).and_then(|number| number.parse().ok());
    number.unwrap_or_else(|| panic!("{}", outcome.report("no line of VmRSS")))
}

/// As the eager school has it: an area of two pages and a row of one for each CPU.
fn laid_out_for_many_cpus(mode: Mode) {
    const MANY: u64 = 512;
    const PAGE_KB: u64 = 4;
    // Processes differ by some pages: where the kernel put things.
    const CHANCE_KB: u64 = 400;
    let [few, many] = ["lazy:off,possible_cpus:2", "possible_cpus:512,lazy:off"].map(|conf| resident_kb(mode, conf));
    let expected = (MANY - 2) * 3 * PAGE_KB;
    assert!((many - few).abs_diff(expected) < CHANCE_KB, "{few} kB for 2 CPUs, {many} kB for {MANY}");
    let lazy = resident_kb(mode, "possible_cpus:512");
    assert!(lazy < few + CHANCE_KB, "{lazy} kB where nothing is laid out, {few} kB where it is for 2 CPUs");
}

/// It says so, and goes on: under some limit, below those that are wide enough and above those under which nothing runs.
fn eager_layout_without_memory_is_told_and_goes_on(mode: Mode) {
    let script = "for limit in $(seq 40000 -500 10000); do \
        (ulimit -v $limit; COMMENSAL_CONF=lazy:off,possible_cpus:1024 exec grep -c . /proc/self/status) 2>&1; done; true";
    let outcome = holds(Run::new("sh").args(["-c", script]).with(subject::library(), mode));
    let mut lines = outcome.stdout.lines();
    let is_told = lines.by_ref().any(|line| line.contains("no memory for lazy:off"));
    let goes_on = lines.next().is_some_and(|line| line.parse::<u32>().is_ok());
    assert!(
        is_told && goes_on,
        "{}",
        outcome.report(&format!("expected a complaint and then a number in {}", outcome.stdout))
    );
}

/// A program that had 200 MiB of blocks of 1500 bytes, and gave all back.
fn statistics_tell_peaks(mode: Mode) {
    let run = Run::new(compile::program("memory")).args(["returns", "1500"]).env("COMMENSAL_CONF", "stats:exit");
    let outcome = holds(run.with(subject::library(), mode));
    let wrong = || outcome.report("expected 1536 with a peak of 130,000 to 150,000 objects, and few in use");
    let row = outcome.stderr.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let row = row.into_iter().find(|words| words.first() == Some(&"1536")).unwrap_or_else(|| panic!("{}", wrong()));
    let number = |column: usize| row.get(column).and_then(|word| word.parse::<u64>().ok());
    let (Some(in_use), Some(peak)) = (number(1), number(2)) else { panic!("{}", wrong()) };
    assert!((130_000..150_000).contains(&peak) && in_use < 100, "{}", wrong());
    let memory = outcome.stderr.lines().find_map(|line| line.trim().strip_prefix("memory: "));
    let peak = memory.and_then(|memory| memory.split(", ").find_map(|figure| figure.strip_prefix("peak ")));
    let is_told = peak.is_some_and(|peak| peak.starts_with("20") && peak.ends_with(" MiB"));
    assert!(is_told, "{}", outcome.report("expected some 200 MiB as the peak in use"));
}

fn huge_pages_are_asked_for_and_avoided(mode: Mode) {
    if !Path::new("/sys/kernel/mm/transparent_hugepage").exists() {
        return skips::skip("huge_pages_are_asked_for_and_avoided", "the kernel has no transparent huge pages");
    }
    let mappings = |conf: &str| {
        let run = Run::new(compile::program("guards")).args(["huge"]).env("COMMENSAL_CONF", conf);
        let outcome = holds(run.with(subject::library(), mode));
        let numbers: Vec<u32> = outcome.stdout.split_whitespace().flat_map(str::parse).collect();
        <[u32; 2]>::try_from(numbers).unwrap_or_else(|_| panic!("{}", outcome.report("expected two numbers")))
    };
    let [wanted, _] = mappings("huge:prefer");
    assert!(wanted > 0, "no mapping shall have huge pages with huge:prefer");
    let [wanted, unwanted] = mappings("huge:avoid");
    assert!(wanted == 0 && unwanted > 0, "{wanted} mappings shall have huge pages with huge:avoid, {unwanted} not");
}

fn strange_configurations(mode: Mode) {
    let quiet = configured(mode, "");
    assert!(quiet.stderr.is_empty(), "{}", quiet.report("an empty configuration is worth no line"));
    for strange in [",", ":", ":::,,,::", "=", "a:b:c", "bogus_key", "bogus_key:", ":1", "\u{7f}\u{ff}:\n\t"] {
        configured(mode, strange);
    }
    configured(mode, &"x".repeat(100_000));
    configured(mode, &"key:99999999999999999999999999,".repeat(1000));
}
