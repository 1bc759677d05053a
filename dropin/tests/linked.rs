//! The functions of `commensal.h`, as C and C++ programs use them: linked with the shared library and with the archive,
//! in both modes.

use dropin::linked::{ended, ends_with, holds, outcomes};
use dropin::run::{End, Run};
use dropin::subject::{Library, Linkage, Mode};
use dropin::{compile, in_both_modes};

in_both_modes! {
    introduction: super::introduction;

    counter_layout: |mode| holds(mode, "counter layout");
    counter_values: |mode| holds(mode, "counter values");
    counter_without_memory: |mode| holds(mode, "counter memory");
    counter_index_out_of_range: super::counter_index_out_of_range;
    counter_members_of_objects: |mode| holds(mode, "counter_cxx objects");
    counter_around_main: super::counter_around_main;

    cache_basics: |mode| holds(mode, "cache basics");
    cache_hooks: |mode| holds(mode, "cache hooks");
    cache_served_by_general_classes: super::cache_served_by_general_classes;
    cache_table_at_exit: super::cache_table_at_exit;
    cache_given_to_another: |mode| ends_with(mode, "cache mixed_up", "was given back to a cache that it is not from");

    group_basics: |mode| holds(mode, "group basics");
    group_own: |mode| holds(mode, "group own");
    group_faults: |mode| holds(mode, "group faults");

    process_limit_basics: |mode| holds(mode, "process_limit basics");
    process_limit_malloc: |mode| holds(mode, "process_limit malloc");
    process_limit_told: |mode| holds(mode, "process_limit told");

    rcu_basics: |mode| holds(mode, "rcu basics");
    rcu_deferred: |mode| holds(mode, "rcu deferred");
    rcu_registered: |mode| holds(mode, "rcu registered");
    rcu_sandboxed: |mode| holds(mode, "rcu sandboxed");
    rcu_main_that_leaves: super::rcu_main_that_leaves;

    cxx_containers: |mode| holds(mode, "cxx_header containers");
    cxx_resources: |mode| holds(mode, "cxx_header resources");
    cxx_scopes: |mode| holds(mode, "cxx_header scopes");
    cxx_caches: |mode| holds(mode, "cxx_header caches");
    cxx_sections: |mode| holds(mode, "cxx_header sections");
    cxx_group_that_ends_too_early: super::cxx_group_that_ends_too_early;

    names_errors: |mode| holds(mode, "names errors");
    names_set: |mode| holds(mode, "names set");
    names_texts: |mode| _ = ended(mode, "names texts", NAMED);
    names_interrupted: |mode| holds(mode, "names interrupted");

    upkeep_settings: |mode| holds(mode, "upkeep settings");
    upkeep_leaves: |mode| holds(mode, "upkeep leaves");
    upkeep_user: |mode| holds(mode, "upkeep user");

    locks_none: |mode| holds(mode, "locks none");
    locks_known: |mode| holds(mode, "locks known");
    locks_busy: |mode| holds(mode, "locks busy");
    locks_text_at_exit: super::locks_text_at_exit;
    locks_json_at_exit: super::locks_json_at_exit;
}

const NAMED: &str =
    "upkeep.interval_ms:250,rcu.policy:counted,locks:json,cache.ord*.debug:track+redzone,cache.lines.dedicated:off";

/// The examples in the first comment of the header, one after the other.
fn introduction(mode: Mode) {
    for linkage in [Linkage::Shared, Linkage::Static] {
        let output = format!("introduction_{linkage:?}_{mode:?}").to_lowercase();
        let program = compile::introduction_of_commensal_header(&output, &linkage.flags());
        let outcome = Run::new(program).with(&Library::none(), mode).ending(End::Exited(0));
        let outcome = outcome.unwrap_or_else(|report| panic!("the introduction of commensal.h: {report}"));
        for said in ["1 requests", "charged to the request", "the cost is 3", "the costs are 3000", "call it again in "]
        {
            assert!(outcome.stdout.contains(said), "{}", outcome.report(&format!("{said:?} was not printed")));
        }
    }
}

/// For each function the first index that is too large; for one of them the largest, too.
fn counter_index_out_of_range(mode: Mode) {
    const FUNCTIONS: &str =
        "add sub add_local add_remote read read_positive sum sum_positive compare limited_add set reset";
    for function in FUNCTIONS.split_whitespace() {
        ends_with(mode, &format!("counter index {function}"), "counter 3 of a set of 3: give an index below 3");
    }
    let text = format!("counter {} of a set of 3: give an index below 3", usize::MAX);
    ends_with(mode, &format!("counter index add {}", usize::MAX), &text);
}

/// Destructors of global objects run after main; the last of them says that it found what all others added.
fn counter_around_main(mode: Mode) {
    for outcome in ended(mode, "counter_cxx around_main", "") {
        let counted = outcome.stdout.contains("both destructors were counted");
        assert!(counted, "{}", outcome.report("destructors were not counted"));
    }
}

/// The columns of /proc/slabinfo, as its header says them: what 300 objects of 1000 bytes need, of which seven are left.
fn cache_table_at_exit(mode: Mode) {
    for outcome in ended(mode, "cache table", "slabinfo:exit") {
        let mut lines = outcome.stderr.lines().skip_while(|line| !line.starts_with("slabinfo - version: 2.1"));
        let header = lines.nth(1).unwrap_or_else(|| panic!("{}", outcome.report("no table")));
        assert!(header.contains("<active_objs> <num_objs> <objsize> <objperslab> <pagesperslab>"), "{header}");
        let row = lines
            .find(|line| line.starts_with("contexts/used"))
            .unwrap_or_else(|| panic!("{}", outcome.report("no row")));
        let words: Vec<&str> = row.split_whitespace().collect();
        let number = |index: usize| words[index].parse::<u64>().unwrap_or_else(|_| panic!("column {index}: {row}"));
        assert_eq!((number(1), &words[3..6]), (7, &["1008", "65", "16"][..]), "{row}");
        assert_eq!(words[7..11], ["tunables", "60", "20", "0"], "{row}");
        assert!((1..=5).contains(&number(14)) && number(2) == 65 * number(14), "{row}");
    }
}

fn cache_served_by_general_classes(mode: Mode) {
    for line in ["cache general", "cache hooks general"] {
        ended(mode, line, "cache.*.dedicated:off,cache.own.dedicated:on");
    }
}

/// The program says that it ends so by its own status.
fn cxx_group_that_ends_too_early(mode: Mode) {
    for outcome in outcomes(mode, "cxx_header early", "") {
        assert_eq!(outcome.end, End::Exited(7), "{}", outcome.report("its destructor returned"));
    }
}

fn rcu_main_that_leaves(mode: Mode) {
    for outcome in ended(mode, "rcu main_leaves", "") {
        assert_eq!(outcome.stdout, "an exit handler ran\n", "{}", outcome.report("exit handlers did not run"));
    }
}

/// Threads that were in it leave it by a pointer that the kernel reads, and end in functions of its.
#[test]
fn plugin_with_the_archive_inside_stays_when_it_is_closed() {
    let flags =
        [vec!["-shared".into(), "-fPIC".into(), "-Wl,--exclude-libs,ALL".into()], Linkage::Static.flags()].concat();
    let plugin = compile::with_commensal_header("archive_plugin", "archive_plugin.so", &flags);
    for mode in [Mode::Normal, Mode::Fallback] {
        let run = Run::new(compile::program("dlopen")).args(["closed".into(), plugin.clone().into_os_string()]);
        run.with(&Library::none(), mode).ending(End::Exited(0)).unwrap_or_else(|report| panic!("{report}"));
    }
}

const HEAD: &str = " contended   total wait     max wait     avg wait         type   caller";
const NOBODY: &str = "commensal: no lock was contended";

/// What a program that ends well says on standard error.
fn said(mode: Mode, line: &str, conf: &str) -> Vec<String> {
    ended(mode, line, conf).iter().map(|outcome| outcome.stderr.to_string()).collect()
}

/// Three waits of 10 to 30 ms each, by one caller.
fn locks_text_at_exit(mode: Mode) {
    for said in said(mode, "locks known", "locks:exit") {
        let lines: Vec<&str> = said.lines().collect();
        assert_eq!(lines[..2], [HEAD, ""], "{said}");
        let row = lines
            .iter()
            .find(|line| line.ends_with("drain   cpu_cache::tier::CpuCaches::drain_all"))
            .expect("a row of who trimmed");
        let words: Vec<&str> = row.split_whitespace().collect();
        let ms = |index: usize| words[index].parse::<f64>().unwrap_or_else(|_| panic!("column {index}: {row}"));
        assert_eq!((words[0], words[2], words[4], words[6]), ("3", "ms", "ms", "ms"), "{row}");
        let (total, max, avg) = (ms(1), ms(3), ms(5));
        assert!((15.0..=total).contains(&max) && (total / 3.0 - avg).abs() < 0.1, "{row}");
    }
    assert!(said(mode, "locks none", "locks:exit").iter().all(|said| said.trim_end() == NOBODY));
}

fn locks_json_at_exit(mode: Mode) {
    for said in said(mode, "locks known", "locks:json") {
        let is_whole = said.starts_with("{ \"locks\": [\n  { \"contended\": 3, \"total_wait_ns\": ")
            && said.contains("\"type\": \"drain\", \"caller\": \"cpu_cache::tier::CpuCaches::drain_all\" }")
            && said.ends_with("], \"lost\": { \"contended\": 0, \"total_wait_ns\": 0 } }\n");
        assert!(is_whole, "{said}");
    }
    let nothing = "{ \"locks\": [ ], \"lost\": { \"contended\": 0, \"total_wait_ns\": 0 } }\n";
    assert!(said(mode, "locks none", "locks:json").iter().all(|said| said == nothing));
}
