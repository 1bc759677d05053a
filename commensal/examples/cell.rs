//! A value that many threads read and one replaces.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use commensal::rcu::Cell;

struct Settings {
    version: u32,
    text: String,
}

impl Settings {
    fn new(version: u32) -> Self {
        Settings { version, text: format!("version {version}") }
    }
}

fn main() {
    let settings = Cell::new(Settings::new(0)).expect("there is memory");
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    // These settings stay until `now` is dropped, even if they are replaced meanwhile.
                    let now = settings.load();
                    assert_eq!(now.text, format!("version {}", now.version));
                }
            });
        }
        for version in 1..=1000 {
            settings.store(Settings::new(version)).expect("there is memory");
        }
        is_over.store(true, Ordering::Relaxed);
    });
    println!("{}", settings.load().text);
}
