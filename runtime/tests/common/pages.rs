//! Statistics pages of test processes.

use super::child;
use commensal_runtime::heap;
use commensal_runtime::observe::page::{Page, Snapshot};
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;
use std::time::Instant;

/// Where this process's pages are.
pub fn folder() -> PathBuf {
    PathBuf::from(std::env::var_os("XDG_RUNTIME_DIR").expect("it is set")).join("commensal")
}

/// The processes that have a page.
pub fn owners() -> Vec<u32> {
    let files = fs::read_dir(folder()).into_iter().flatten();
    let mut owners: Vec<u32> = files
        .map(|file| file.expect("a file").file_name().into_string().expect("text").parse().expect("a number"))
        .collect();
    owners.sort_unstable();
    owners
}

/// Shows the page of a process.
pub fn with_page<R>(process: u32, show: impl FnOnce(Snapshot<'_>) -> R) -> R {
    let path = folder().join(process.to_string());
    loop {
        let bytes = fs::read(&path).expect("there is a page");
        let page = Page::of(&bytes).expect("it is one");
        assert_eq!((page.process(), page.library().as_str()), (process, env!("CARGO_PKG_VERSION")));
        let Ok(snapshot) = page.snapshot() else { continue };
        let again = fs::read(&path).expect("it is there still");
        if again[snapshot.turn_at()..][..8] == snapshot.turn().to_ne_bytes() {
            return show(snapshot);
        }
    }
}

/// Before the heap of this process began.
pub static BEGAN: OnceLock<Instant> = OnceLock::new();

/// Runs the test in a process of its own, with a runtime directory of its own. Returns the outcome and the pages left.
pub fn act_out(command: &mut Command) -> (child::Outcome, Vec<Vec<u8>>) {
    let folder = std::env::temp_dir().join(format!("commensal-{}-{}", child::test(), std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    let outcome = child::run(command.env("XDG_RUNTIME_DIR", &folder));
    let files = fs::read_dir(folder.join("commensal")).into_iter().flatten();
    let pages = files.map(|file| fs::read(file.expect("a file").path()).expect("it is ours")).collect();
    fs::remove_dir_all(&folder).expect("the folder is ours");
    (outcome, pages)
}

/// Runs `body` in a process of its own, with settings. The process exits in an orderly way and leaves no page.
pub fn in_child(conf: &str, body: fn()) {
    if child::case().is_some() {
        BEGAN.get_or_init(Instant::now);
        heap::conf::apply_environment();
        return body();
    }
    for variable in child::MODES {
        let (outcome, pages) = act_out(child::command("act").env("COMMENSAL_CONF", conf).envs(variable));
        outcome.expect_success();
        assert_eq!(pages.len(), 0, "an orderly exit left a page");
    }
}

/// So many blocks of such sizes.
pub fn blocks(many: usize, bytes: impl Fn(usize) -> usize) -> Vec<usize> {
    let block = |number| {
        let block = heap::allocate(bytes(number));
        assert!(!block.is_null(), "no memory");
        block.addr()
    };
    (0..many).map(block).collect()
}

/// Frees blocks.
pub fn free(blocks: Vec<usize>) {
    // SAFETY: the blocks are ours.
    blocks.into_iter().for_each(|block| unsafe { heap::free(block as *mut u8) });
}
