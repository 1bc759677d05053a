//! Threads, forks, signals, libraries that come and go, and what happens before main and after it.

use commensal_dropin::check::{check, promised};
use commensal_dropin::in_both_modes;
use commensal_dropin::subject::{self, Mode};

in_both_modes! {
    threads_in_turn: "threads in_turn 10000";
    threads_together: "threads together {seconds}";
    footprint_of_threads: promised("threads footprint {seconds}");
    producers_and_consumers: "threads pipeline {seconds}";
    threads_that_migrate: "threads migrate {seconds}";
    threads_with_small_stacks: "threads small_stacks";
    blocks_that_outlive_their_thread: "threads left_behind";

    /// Most malloc libraries, libc's among them, hang in children of `_Fork` and of the raw system calls.
    forks_of_every_kind: promised("fork storm 10000 {seconds} fork,_Fork,syscall,clone");
    forks: "fork storm 1000 0 fork";
    spawned_processes: "fork storm 1500 0 vfork,spawn";
    fork_handlers_that_allocate: "fork handlers 500";
    forks_of_one_thread: "fork solo";
    vfork_children_that_allocate: "fork vfork_allocates";

    before_main: "exits before_main";
    key_destructors: "exits keys";
    exit_handlers: super::exit_handlers;
    main_that_leaves: |mode| check("exits main_leaves").ends(mode, 0, &["a thread outlived main"]);
    exit_while_threads_allocate: "exits detached exit";
    quick_exit_while_threads_allocate: "exits detached quick_exit";
    _exit_while_threads_allocate: "exits detached _exit";

    /// libc's malloc hangs in these.
    signals_by_timer: promised("signals timer {seconds}");
    signals_to_threads: promised("signals storm {seconds}");
    signals_at_the_first_thread: promised("signals births 100");
    signals_at_forks: promised("signals forks 200");

    plugins: "dlopen repeat {plugin}";
    plugins_in_threads: "dlopen threads {plugin}";
    loaded_at_run_time: super::loaded_at_run_time;
}

fn exit_handlers(mode: Mode) {
    let lines = ["100 exit handlers ran", "a destructor ran", "the last destructor ran"];
    check("exits atexit").ends(mode, 7, &lines);
}

/// The library serves those who ask for it by dlopen; everybody else keeps libc's malloc.
fn loaded_at_run_time(mode: Mode) {
    if subject::library().path().is_none() {
        return;
    }
    let late = check("dlopen late {library_path}");
    late.without_preload(mode).unwrap_or_else(|report| panic!("{report}"));
}
