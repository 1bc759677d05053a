//! Applies the settings that act when a program starts. Most others are read where they are needed; see [`settings`]. A
//! message names each pair that is not understood, with the expected values or the nearest key; the program starts.

use super::{control, limit, locks, report, statistics};
use crate::caches::{enter, heap, lay_out, name, prepare};
use crate::misuse::Line;
use crate::profile;
use crate::rcu::qsbr::{self, Policy};
use crate::sandbox;
use crate::settings::{self, Key};
use crate::upkeep;
use core::fmt::{self, Write};
use machine::sync::measure_holds;
use machine::{process, root, slot};

const STATS: Key = Key::of("stats");
const SLABINFO: Key = Key::of("slabinfo");
const LOCKS: Key = Key::of("locks");
const HOLDS: Key = Key::of("locks.holds");
const CONTROL: Key = Key::of("control");
const LAZY: Key = Key::of("lazy");
const SANDBOX: Key = Key::of("sandbox");
const HARDEN: Key = Key::of("harden");
const GUARD: Key = Key::of("guard");
const CGROUP: Key = Key::of("upkeep.cgroup");
const SYSCALLS: Key = Key::of("syscalls");
const POSSIBLE_CPUS: Key = Key::of("possible_cpus");

/// Applies the settings of `COMMENSAL_CONF`. Call it once, at the start of `main`; a preloaded library calls it before.
/// It prints what it does not understand, and allocates nothing.
#[unsafe(link_section = ".text.first")]
pub fn apply_environment() {
    prepare();
    if settings::is_environment_empty() {
        return name();
    }
    settings::read_environment(|what| complain(format_args!("{what}; ignored")));
    if SYSCALLS.is("libc") {
        process::map_by_library();
    }
    profile::begin();
    let is_heap_needed = (root::is_installed() || !settings::allow_no_heap()) && enter();
    name();
    if is_heap_needed {
        apply_to_heap();
    }
}

fn apply_to_heap() {
    if HOLDS.is_on() {
        // SAFETY: the contentions of the runtime's locks last as long as the process.
        unsafe { measure_holds() };
    }
    print_at_exit(STATS.is("exit"), report::print);
    print_at_exit(SLABINFO.is("exit"), report::print_slabinfo);
    print_at_exit(LOCKS.is("exit"), locks::print);
    print_at_exit(LOCKS.is("json"), locks::print_json);
    if let Some(descriptor) = CONTROL.said() {
        // The page may be another process's, because children inherit the setting.
        control::begin(descriptor as i32);
    }
    if settings::is_said_of("upkeep") {
        upkeep::look_again();
    }
    if CGROUP.said().is_some()
        && let Some(path) = settings::text_of("upkeep.cgroup")
    {
        upkeep::watch_group(path);
    }
    let policy = Policy::said();
    if policy != qsbr::policy() && qsbr::set_policy(policy).is_err() {
        complain(format_args!("rcu.policy cannot be 'kicked': the program has a handler for SIGURG; ignored"));
    }
    limit::apply_settings();
    if HARDEN.is_on() {
        heap().harden();
    }
    if settings::is_said_of("cache") {
        heap().begin_debug();
    }
    if GUARD.get() > 0 && !heap().begin_guard(GUARD.get() << 10) {
        complain(format_args!("guard: there is no memory for it, or another setting serves malloc's classes"));
    }
    let cpus = POSSIBLE_CPUS.said().map_or(slot::possible().min(slot::MAX), |cpus| cpus as usize);
    if !LAZY.is_on() && !lay_out(cpus) {
        complain(format_args!("no memory for lazy:off; what was not prepared is made when it is used"));
    }
    if let Err(why) = statistics::begin() {
        statistics::complain(why);
    }
    if SANDBOX.is_on() {
        sandbox::enter();
    }
}

fn print_at_exit(is_wanted: bool, print: extern "C" fn()) {
    if is_wanted {
        process::keep_standard_error();
        process::at_exit(print);
    }
}

#[cold]
fn complain(what: fmt::Arguments<'_>) {
    let mut line = Line::new();
    let _ = writeln!(line, "commensal: COMMENSAL_CONF: {what}");
    process::complain(line.as_bytes());
}
