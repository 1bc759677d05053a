//! `commensal run` as a user meets it: exit statuses, signals, the environment, and what it says of programs out of reach.

mod common;

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, Stdio};

use common::{
    NOBODY, commensal, commensal_does, compile, for_everybody, install_program, library, skip, text, write_program,
};

/// A program without a C library, that leaves with status 7.
const STATIC_SOURCE: &str = r#"
void _start(void) { __asm__("mov $60, %eax\n mov $7, %edi\n syscall"); }
"#;
const STATIC: [&str; 3] = ["-static", "-nostdlib", "-ffreestanding"];

#[test]
fn exit_status_is_that_of_the_program() {
    for status in [0, 1, 7, 255] {
        let done = commensal_does(&["run", "--", "sh", "-c", &format!("exit {status}")]);
        assert_eq!(done.status.code(), Some(status));
        assert_eq!(text(&done.stderr), "");
    }
}

#[test]
fn signal_that_ends_the_program_is_passed_on() {
    for (name, number) in [("TERM", 15), ("KILL", 9), ("SEGV", 11)] {
        let done = commensal_does(&["run", "--", "sh", "-c", &format!("kill -{name} $$")]);
        assert_eq!(done.status.signal(), Some(number));
    }
}

#[test]
fn program_replaces_the_command_in_its_process() {
    let child = commensal().args(["run", "sh", "-c", "echo $$"]).stdout(Stdio::piped()).spawn().unwrap();
    let id = child.id();
    assert_eq!(text(&child.wait_with_output().unwrap().stdout), format!("{id}\n"));
    let words = commensal_does(&["run", "cat", "/proc/self/cmdline"]);
    assert_eq!(text(&words.stdout), "cat\0/proc/self/cmdline\0");
}

#[test]
fn signal_dispositions_and_mask_pass_through() {
    let look = "exec \"$@\" grep -E '^Sig(Blk|Ign|Cgt)' /proc/self/status";
    for trap in ["trap '' PIPE USR1", "trap - PIPE"] {
        let script = format!("{trap}; {look}");
        let shell = |words: &[&str]| {
            let mut command = Command::new("sh");
            command.env("COMMENSAL_LIBRARY", library());
            // The command line of the test runner may ignore SIGPIPE already; both start alike.
            text(&command.args(["-c", &script, "sh"]).args(words).output().unwrap().stdout)
        };
        let without = shell(&["env"]);
        assert!(without.contains("SigIgn"), "{without}");
        assert_eq!(shell(&[env!("CARGO_BIN_EXE_commensal"), "run", "--"]), without);
    }
}

#[test]
fn run_of_a_missing_program_ends_with_127_and_one_line() {
    for name in ["no-such-program", "./no/such/program"] {
        let done = commensal_does(&["run", "--", name]);
        assert_eq!(done.status.code(), Some(127));
        assert_one_line(&done.stderr, name);
    }
}

#[test]
fn program_that_cannot_be_executed_ends_with_126_and_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let plain = folder.path().join("plain");
    fs::write(&plain, "text").unwrap();
    let orphan = folder.path().join("orphan");
    write_program(&orphan, "#!/no/such/interpreter\n");
    for path in [&plain, folder.path(), &orphan, Path::new("/dev/null")] {
        let path = path.to_str().unwrap();
        let done = commensal_does(&["run", "--", path]);
        assert_eq!(done.status.code(), Some(126), "{path}");
        assert_one_line(&done.stderr, path);
    }
}

#[test]
fn library_is_loaded_first() {
    let maps = commensal_does(&["run", "--", "cat", "/proc/self/maps"]);
    assert!(text(&maps.stdout).contains(library().canonicalize().unwrap().to_str().unwrap()));
    let list = commensal()
        .env("LD_PRELOAD", "libc.so.6")
        .args(["run", "--", "sh", "-c", "echo \"$LD_PRELOAD\""])
        .output()
        .unwrap();
    let list = text(&list.stdout);
    assert!(list.ends_with("/libcommensal.so:libc.so.6\n"), "{list}");
}

#[test]
fn settings_are_merged_and_the_command_line_wins() {
    let merged = |inherited: &str, args: &[&str]| {
        let done = commensal()
            .env("COMMENSAL_CONF", inherited)
            .arg("run")
            .args(args)
            .args(["--", "sh", "-c", "echo \"$COMMENSAL_CONF\""])
            .output()
            .unwrap();
        // By which the program can be tuned, and by which it is observed.
        let settings = text(&done.stdout);
        let (settings, process) = settings.trim_end().rsplit_once(",observe:").expect("a statistics page");
        assert!(process.parse::<u32>().is_ok(), "{process}");
        let (settings, descriptor) = settings.rsplit_once("control:").expect("a page for `tune`");
        assert!(descriptor.parse::<u32>().is_ok_and(|descriptor| descriptor > 2), "{descriptor}");
        settings.to_owned()
    };
    assert_eq!(merged("a:1,keep:2", &["--conf", "keep:3,huge:avoid"]), "a:1,keep:3,huge:avoid,");
    assert_eq!(merged("a:1", &["--conf", "keep:3", "--conf", "lazy:off,keep:4"]), "a:1,keep:3,lazy:off,keep:4,");
    assert_eq!(merged("a:1", &["--stats"]), "a:1,stats:exit,");
    assert_eq!(merged("stats:off", &["--conf", "keep:2", "--stats"]), "keep:2,stats:exit,");
    assert_eq!(merged("a:1", &["--slabinfo"]), "a:1,slabinfo:exit,");
    assert_eq!(merged("a:1", &["--locks"]), "a:1,locks:exit,");
    assert_eq!(merged("locks:off", &["--locks-json", "--stats"]), "stats:exit,locks:json,");
    assert_eq!(merged("a:1", &[]), "a:1,");
}

/// Its server has a sandbox of its own, and the command gives it a page to be tuned by and one to be observed by.
#[test]
fn openssh_runs_in_its_sandbox() {
    if !Path::new("/usr/sbin/sshd").exists() {
        return skip("openssh_runs_in_its_sandbox", "OpenSSH's server is not installed; dropin/install.sh installs it");
    }
    let folder = tempfile::tempdir().unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../dropin/programs/openssh.sh");
    let done = commensal().args(["run", "--", "sh", script]).current_dir(folder.path()).output().unwrap();
    assert!(text(&done.stdout).ends_with("all done\n"), "{}{}", text(&done.stdout), text(&done.stderr));
}

#[test]
fn without_contention_that_is_said() {
    let done = commensal_does(&["run", "--locks", "--", "true"]);
    assert_eq!(text(&done.stderr), "commensal: no lock was contended\n");
}

#[test]
fn scripts_run_by_their_interpreter() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("script");
    for first in ["#!/bin/sh\n", "#!/usr/bin/env sh\n", ""] {
        write_program(&script, &format!("{first}echo $1; exit 4\n"));
        let done = commensal_does(&["run", "--", script.to_str().unwrap(), "word"]);
        assert_eq!((done.status.code(), text(&done.stdout).as_str()), (Some(4), "word\n"), "{first:?}");
        assert_eq!(text(&done.stderr), "", "{first:?}");
    }
}

#[test]
fn static_program_runs_and_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("fixed");
    compile(STATIC_SOURCE, &program, &STATIC);
    let script = folder.path().join("script");
    write_program(&script, &format!("#!{}\n", program.display()));
    for path in [&program, &script] {
        let done = commensal_does(&["run", "--", path.to_str().unwrap()]);
        assert_eq!(done.status.code(), Some(7));
        assert_one_line(&done.stderr, "is statically linked");
        assert!(text(&done.stderr).contains(path.to_str().unwrap()));
    }
}

#[test]
fn set_user_id_program_is_named_when_the_bit_takes_effect() {
    if !rustix::process::getuid().is_root() {
        return skip("set_user_id_program_is_named_when_the_bit_takes_effect", "only root can give a file away");
    }
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("id");
    install_program(fs::File::open("/usr/bin/id").unwrap(), &program);
    fs::set_permissions(&program, fs::Permissions::from_mode(0o4755)).unwrap();
    let own = commensal_does(&["run", "--", program.to_str().unwrap()]);
    assert_eq!(text(&own.stderr), "", "set-user-ID to oneself changes nothing");
    chown(&program, Some(NOBODY), None).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o4755)).unwrap();
    let done = commensal_does(&["run", "--", program.to_str().unwrap(), "-u"]);
    assert_eq!(text(&done.stdout), format!("{NOBODY}\n"), "is the temporary directory mounted nosuid?");
    assert_one_line(&done.stderr, "is set-user-ID to user 65534");
}

#[test]
fn program_with_file_capabilities_is_named() {
    if !rustix::process::getuid().is_root() {
        return skip("program_with_file_capabilities_is_named", "only root can give capabilities");
    }
    let folder = tempfile::tempdir().unwrap();
    let (command, program) = (for_everybody(folder.path()), folder.path().join("true"));
    install_program(fs::File::open("/bin/true").unwrap(), &program);
    // Version 2, effective, CAP_NET_BIND_SERVICE; as `setcap cap_net_bind_service=ep` writes it.
    let mut value = [0u8; 20];
    value[..4].copy_from_slice(&0x0200_0001u32.to_le_bytes());
    value[4..8].copy_from_slice(&(1u32 << 10).to_le_bytes());
    rustix::fs::setxattr(&program, "security.capability", &value, rustix::fs::XattrFlags::empty()).unwrap();
    let run = |user: u32| {
        let mut run = Command::new(&command);
        let done = run.args(["run", "--"]).arg(&program).current_dir("/").uid(user).output().unwrap();
        assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
        done.stderr
    };
    assert_one_line(&run(NOBODY), "has file capabilities");
    assert_eq!(text(&run(0)), "", "root gains nothing from them");
}

#[test]
fn missing_or_invalid_library_ends_with_125_and_one_line() {
    for wrong in ["/no/such/libcommensal.so", "/etc/passwd"] {
        let done = commensal().env("COMMENSAL_LIBRARY", wrong).args(["run", "true"]).output().unwrap();
        assert_eq!(done.status.code(), Some(125));
        assert_one_line(&done.stderr, wrong);
    }
}

#[test]
fn library_of_another_version_is_named_and_used() {
    let folder = tempfile::tempdir().unwrap();
    let other = folder.path().join("libcommensal.so");
    compile("const char commensal_version[] = \"0.0.1\";", &other, &["-shared", "-fPIC"]);
    let done = commensal().env("COMMENSAL_LIBRARY", &other).args(["run", "true"]).output().unwrap();
    assert_eq!(done.status.code(), Some(0));
    assert_one_line(&done.stderr, "has version 0.0.1 and this command has");
}

#[test]
fn library_in_a_directory_with_a_space_is_copied_to_the_cache() {
    let folder = tempfile::tempdir().unwrap();
    let spaced = folder.path().join("with space");
    fs::create_dir(&spaced).unwrap();
    fs::copy(library(), spaced.join("libcommensal.so")).unwrap();
    let run = |cache: &Path| {
        commensal()
            .env("COMMENSAL_LIBRARY", spaced.join("libcommensal.so"))
            .env("XDG_CACHE_HOME", cache)
            .args(["run", "--", "cat", "/proc/self/maps"])
            .output()
            .unwrap()
    };
    let cache = folder.path().join("cache");
    let done = run(&cache);
    assert_eq!(text(&done.stderr), "");
    assert!(text(&done.stdout).contains(cache.join("commensal/libcommensal-").to_str().unwrap()));
    let nowhere = run(&spaced);
    assert_eq!(nowhere.status.code(), Some(125));
    assert_one_line(&nowhere.stderr, "and so does the cache");
}

/// One line, from the command, that says what the test expects.
#[track_caller]
fn assert_one_line(stderr: &[u8], expected: &str) {
    let said = text(stderr);
    assert!(said.starts_with("commensal: ") && said.contains(expected), "{said:?}");
    assert_eq!(said.matches('\n').count(), 1, "{said:?}");
}
