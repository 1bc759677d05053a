//! Threads, forks, signals, libraries that come and go, what happens before main and after it, and memory: it goes back
//! to the kernel when it is free, and serves again before new memory is asked for.

use dropin::check::{check, watched};
use dropin::in_both_modes;
use dropin::subject::{Library, Mode};

in_both_modes! {
    threads_in_turn: "threads in_turn {3000}";
    /// In fallback mode each of the 200 threads has a slot, and what rests there is much more.
    threads_together: |mode| {
        check(&format!("threads together {{20}} {}", if mode == Mode::Fallback { 160 } else { 48 })).holds(mode);
    };
    threads_with_small_stacks: "threads small_stacks";
    blocks_that_outlive_their_thread: "threads left_behind";

    /// Most malloc libraries, libc's among them, hang in children of `_Fork` and of the raw system calls.
    forks_of_every_kind: "fork storm {1000} fork,_Fork,syscall,clone";
    forks_and_spawned_processes: "fork storm {600} fork,vfork,spawn";
    fork_handlers_that_allocate: "fork handlers {200}";
    forks_of_one_thread: "fork solo";
    vfork_children_that_allocate: "fork vfork_allocates";
    vfork_children_that_allocate_beside_threads: "fork vfork_beside_threads";
    vfork_children_have_no_page: watched("fork vfork_pages");
    watched_until_the_page_is_truncated: watched("fork page_truncated");
    watched_forks: watched("fork storm {600} fork,_Fork,syscall,clone,vfork,spawn");

    before_main: "exits before_main";
    key_destructors: "exits keys";
    exit_handlers: super::exit_handlers;
    main_that_leaves: |mode| check("exits main_leaves").ends(mode, 0, &["a thread outlived main"]);
    exit_while_threads_allocate: "exits detached exit {40}";
    quick_exit_while_threads_allocate: "exits detached quick_exit {40}";
    _exit_while_threads_allocate: "exits detached _exit {40}";

    /// libc's malloc hangs in these.
    signals_by_timer: with_restarts("signals timer {0.5}");
    signals_to_threads: with_restarts("signals storm {0.5}");
    signals_at_the_first_thread: with_restarts("signals births {50}");
    signals_at_forks: with_restarts("signals forks {100}");

    plugins: "dlopen repeat {plugin}";
    plugins_in_threads: "dlopen threads {plugin}";
    plugin_alone_with_its_c_plus_plus_library: "dlopen bad_alloc {plugin}";
    thread_of_the_library_beside_a_pthread_create_of_the_program: "wraps under_lock";
    mappings_by_functions_of_the_program: |mode| check("wraps mappings").env("COMMENSAL_CONF", "syscalls:libc").holds(mode);
    loaded_at_run_time: super::loaded_at_run_time;

    small_blocks_go_back: "memory returns 48";
    middling_blocks_go_back: "memory returns 1500";
    larger_blocks_go_back: "memory returns 100000";
    large_blocks_go_back: "memory returns 5000000";
    small_blocks_go_back_without_a_call: "memory alone 48";
    blocks_of_many_sizes_go_back_without_a_call: "memory alone 0";
    larger_blocks_go_back_without_a_call: "memory alone 100000";
    large_blocks_go_back_without_a_call: "memory alone 5000000";
    small_blocks_are_reused: "memory reuse 64";
    larger_blocks_are_reused: "memory reuse 30000";
    large_blocks_are_reused: "memory reuse 3000000";
    memory_serves_all_sizes: "memory recycle";
}

/// Handlers that allocate while they interrupt an allocation are safe where the kernel restarts what they interrupted. In
/// fallback mode nobody does, and nothing better is promised than elsewhere.
fn with_restarts(line: &str) -> impl Fn(Mode) {
    move |mode| {
        if let Mode::Normal = mode {
            check(line).holds(mode);
        }
    }
}

fn exit_handlers(mode: Mode) {
    let lines = ["100 exit handlers ran", "a destructor ran", "the last destructor ran"];
    check("exits atexit").ends(mode, 7, &lines);
}

/// The library serves those who ask for it by dlopen; everybody else keeps libc's malloc.
fn loaded_at_run_time(mode: Mode) {
    let late = check("dlopen late {library_path}").verdict(&Library::none(), mode);
    late.unwrap_or_else(|report| panic!("{report}"));
}
