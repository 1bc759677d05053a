//! RCU of `commensal.h`, as C programs use it: linked with the shared library and with the archive, in both modes.

use dropin::linked::{ended, holds};
use dropin::run::{End, Run};
use dropin::subject::{self, Library, Linkage, Mode};
use dropin::{compile, in_both_modes};

in_both_modes! {
    basics: |mode| holds(mode, "rcu basics");
    list: |mode| holds(mode, "rcu list");
    deferred: |mode| holds(mode, "rcu deferred");
    registered: |mode| holds(mode, "rcu registered");
    forks: |mode| holds(mode, "rcu forks");
    sandboxed: |mode| holds(mode, "rcu sandboxed");
    main_that_leaves: super::main_that_leaves;
}

fn main_that_leaves(mode: Mode) {
    for outcome in ended(mode, "rcu main_leaves", "") {
        assert_eq!(outcome.stdout, "an exit handler ran\n", "{}", outcome.report("exit handlers did not run"));
    }
}

/// Threads that were in it leave it by a pointer that the kernel reads, and end in functions of its.
#[test]
fn plugin_with_the_archive_inside_stays_when_it_is_closed() {
    if !subject::is_commensal() {
        return;
    }
    let flags =
        [vec!["-shared".into(), "-fPIC".into(), "-Wl,--exclude-libs,ALL".into()], Linkage::Static.flags()].concat();
    let plugin = compile::with_commensal_header("archive_plugin", "archive_plugin.so", &flags);
    for mode in [Mode::Normal, Mode::Fallback] {
        let run = Run::new(compile::program("dlopen")).args(["closed".into(), plugin.clone().into_os_string()]);
        run.with(&Library::none(), mode).ending(End::Exited(0)).unwrap_or_else(|report| panic!("{report}"));
    }
}
