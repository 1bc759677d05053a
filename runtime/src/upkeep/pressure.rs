//! Memory pressure outside of the process: the kernel counts how often a control group was above its limits.
//!
//! In version 2, a group above `memory.high` is slowed down, and one at `memory.max` is about to lose a process. When
//! either count has grown since the last look, upkeep returns all that is not in use.
//!
//! Runs at the same time: any thread that looks at memory; of two at once, both may find the growth.

use crate::page_heap::Metadata;
use crate::settings::LONGEST_PATH;
use machine::process;
use machine::sync::{AtomicPtr, AtomicU64, Ordering};

/// Values of [`Pressure::seen`]: the kernel does not tell, and from here on, it does.
const UNTOLD: u64 = 1;
const KNOWN: u64 = 2;

/// The folder of a group, never freed.
#[derive(Debug)]
#[repr(C)]
struct Folder {
    bytes: usize,
    path: [u8; LONGEST_PATH],
}

/// The last look. All-zero memory: none yet, at the process's own group.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Pressure {
    /// Events so far, plus [`KNOWN`]; or [`UNTOLD`]; 0: not looked yet.
    seen: AtomicU64,
    folder: AtomicPtr<Folder>,
}

impl Pressure {
    /// Watches the control group at a path instead of the process's own. Does nothing if there is no memory.
    pub fn watch(&self, path: &str, metadata: &Metadata) {
        let Some(place) = metadata.cut(size_of::<Folder>(), align_of::<Folder>()) else { return };
        let place = place.cast::<Folder>();
        // SAFETY: fresh metadata is zero, which is valid, ours, and never freed.
        let folder = unsafe { &mut *place };
        let used = path.bytes().zip(&mut folder.path).map(|(byte, to)| *to = byte).count();
        folder.bytes = used;
        // Release pairs with the acquire in `folder`: a thread that finds the folder finds it whole.
        self.folder.store(place, Ordering::Release);
    }

    fn folder(&self) -> Option<&str> {
        // SAFETY: null, or a folder that is never freed.
        let folder = unsafe { self.folder.load(Ordering::Acquire).as_ref() }?;
        core::str::from_utf8(folder.path.get(..folder.bytes)?).ok()
    }

    /// Whether there were events since the last look.
    pub fn has_grown(&self) -> bool {
        let events = process::pressure_of_group(self.folder()).map_or(UNTOLD, |events| events + KNOWN);
        // Relaxed: a hint. A process that moved to another group may find growth, too.
        let seen = self.seen.swap(events, Ordering::Relaxed);
        seen >= KNOWN && events > seen
    }

    /// Whether the kernel did not tell at the last look.
    pub fn is_untold(&self) -> bool {
        self.seen.load(Ordering::Relaxed) == UNTOLD
    }
}
