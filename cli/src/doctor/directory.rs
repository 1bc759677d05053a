//! The runtime directory: where a user's processes leave pages for his other ones, that nobody else may read.
//!
//! The first one of the places where the library tries to leave a page that is there, or can be made, and is the user's own and nobody else's to enter. Nothing is made here.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use commensal_machine_host::publication::{self, LONGEST_NAMED};
use serde_json::json;

use super::finding::{Finding, Verdict};
use super::process::Process;
use super::tree::{Tree, Unread};

const FOR_OTHERS: u32 = 0o077;

/// Which of the places is usable, and why those before it are not.
pub fn directory(tree: &Tree, process: &Process) -> Finding {
    const ITEM: &str = "runtime-directory";
    let user = process.user;
    let variable = publication::VARIABLE.to_string_lossy();
    let named = process.variable(&variable);
    let places = |named| publication::candidates(user, named).map(|path| PathBuf::from(path.as_str()));
    let is_taken = places(named.as_deref()).count() > places(None).count();
    let mut refused = match &named {
        Some(_) if is_taken => Vec::new(),
        Some(path) => vec![format!("{variable} is {path:?}, not an absolute path of up to {LONGEST_NAMED} bytes")],
        None => vec![format!("{variable} is not set")],
    };
    for path in places(named.as_deref()) {
        match check(tree, &path, user) {
            Ok(mode) => {
                let state =
                    mode.map_or("not there yet, and can be made".to_owned(), |mode| format!("yours, mode {mode:04o}"));
                let shown = path.display();
                let before = if refused.is_empty() { String::new() } else { format!(" ({})", refused.join("; ")) };
                let facts = json!({
                    "path": path,
                    "exists": mode.is_some(),
                    "mode": mode.map(|mode| format!("{mode:04o}")),
                    "refused": refused,
                });
                let meaning = "pages that a process shows to your other ones live there; nobody else may enter";
                return Finding::fine(ITEM, format!("{shown}: {state}{before}"), meaning).with(facts);
            }
            Err(why) => refused.push(why.0),
        }
    }
    let facts = json!({ "path": null, "exists": false, "mode": null, "refused": refused });
    let meaning = "a process can show no page to your other ones; malloc needs none";
    Finding::fine(ITEM, format!("none: {}", refused.join("; ")), meaning)
        .but(Verdict::Less)
        .advising(format!("set {variable} to a directory of yours with mode 0700"))
        .with(facts)
}

/// The mode of a directory that is the user's alone; none: it is not there, and the user may make it.
fn check(tree: &Tree, path: &Path, user: u32) -> Result<Option<u32>, Unread> {
    let shown = path.display();
    let Ok(metadata) = tree.metadata(path) else {
        let around = path.parent().unwrap_or(Path::new("/"));
        return if tree.is_writable(around)? {
            Ok(None)
        } else {
            Err(Unread(format!("{shown} cannot be made: {} is not yours to write to", around.display())))
        };
    };
    let mode = metadata.permissions().mode() & 0o7777;
    if !metadata.is_dir() {
        return Err(Unread(format!("{shown} is not a directory")));
    }
    if metadata.uid() != user {
        return Err(Unread(format!("{shown} belongs to user {}, not to you, {user}", metadata.uid())));
    }
    if mode & FOR_OTHERS != 0 {
        return Err(Unread(format!("{shown} has mode {mode:04o}, expected 0700")));
    }
    Ok(Some(mode))
}

#[cfg(test)]
mod tests {
    use super::super::process::tests::{on, with};
    use super::super::tree::tests::of;
    use super::*;
    use std::fs::{self, Permissions};

    /// What is found with a folder `commensal` of this mode, and with the variable leading to `place`.
    fn found(mode: u32, place: &str) -> Finding {
        let (folder, tree) = of(&[("/run/mine/commensal/file", ""), ("/run/other/commensal", "")]);
        fs::set_permissions(folder.path().join("run/mine/commensal"), Permissions::from_mode(mode)).unwrap();
        directory(&tree, &with("XDG_RUNTIME_DIR", place))
    }

    #[test]
    fn a_directory_of_the_users_own_is_fine() {
        let fine = found(0o700, "/run/mine");
        assert_eq!((fine.verdict, &fine.facts["path"]), (Verdict::Fine, &json!("/run/mine/commensal")), "{fine:?}");
        assert_eq!((&fine.facts["mode"], &fine.facts["refused"]), (&json!("0700"), &json!([])));
    }

    #[test]
    fn what_others_may_enter_or_is_none_is_refused() {
        let long = format!("/{}", "x".repeat(LONGEST_NAMED));
        for (mode, place, why) in [
            (0o750, "/run/mine", "has mode 0750, expected 0700"),
            (0o700, "run/mine", "not an absolute path"),
            (0o700, &long, "not an absolute path of up to 100 bytes"),
            (0o700, "/run/nowhere", "/run/nowhere does not exist"),
            (0o700, "/run/other", "is not a directory"),
        ] {
            let refused = found(mode, place);
            assert!(refused.verdict == Verdict::Less && refused.found.contains(why), "{refused:?}");
        }
    }

    #[test]
    fn somebody_elses_is_refused() {
        let (_folder, tree) = of(&[("/run/mine/commensal/file", "")]);
        let stranger = Process { user: 12_345, ..with("XDG_RUNTIME_DIR", "/run/mine") };
        assert!(directory(&tree, &stranger).found.contains("not to you, 12345"));
    }

    #[test]
    fn where_there_is_none_it_can_be_made_and_tmp_comes_last() {
        let process = on("6.8.0");
        let of_user = format!("/run/user/{}/commensal", process.user);
        let of_nobody = ["/dev/shm", "/tmp"].map(|folder| format!("{folder}/commensal-{}", process.user));
        let login = format!("/run/user/{}/bus", process.user);
        let place = |files: &[(&str, &str)], process: &Process| {
            let (_folder, tree) = of(files);
            let found = directory(&tree, process);
            assert_eq!((found.verdict, &found.facts["exists"]), (Verdict::Fine, &json!(false)), "{found:?}");
            found.facts["path"].as_str().unwrap().to_owned()
        };
        let all = [("/mine/x", ""), (login.as_str(), ""), ("/dev/shm/x", ""), ("/tmp/x", "")];
        assert_eq!(place(&all, &with("XDG_RUNTIME_DIR", "/mine")), "/mine/commensal");
        assert_eq!(place(&all, &process), of_user);
        assert_eq!(place(&all[2..], &process), of_nobody[0]);
        assert_eq!(place(&all[3..], &process), of_nobody[1]);
        assert_eq!(directory(&of(&[]).1, &process).verdict, Verdict::Less);
    }
}
