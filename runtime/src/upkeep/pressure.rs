//! Memory pressure outside of the process: the kernel counts how often a control group was above its limits.
//!
//! In version 2, a group above `memory.high` is slowed down, and one at `memory.max` is about to lose a process. When
//! either count has grown since the last look, all that is not in use goes back.
//!
//! Runs at the same time: any thread that looks at memory; of two at once, both may return memory.

use super::state::{STATE, State};
use crate::caches::{enter, heap, made_at};
use crate::settings::LONGEST_PATH;
use machine::process;
use machine::sync::{AtomicPtr, AtomicU64, Ordering};

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
    /// Events so far, plus [`KNOWN`]; [`UNTOLD`]: the kernel does not tell; 0: not looked yet.
    seen: AtomicU64,
    folder: AtomicPtr<Folder>,
}

impl Pressure {
    fn folder(&self) -> Option<&str> {
        // SAFETY: null, or a folder that is never freed. Acquire pairs with the release in `watch_group`.
        let folder = unsafe { self.folder.load(Ordering::Acquire).as_ref() }?;
        core::str::from_utf8(folder.path.get(..folder.bytes)?).ok()
    }

    /// Whether there were events since the last look.
    fn has_grown(&self) -> bool {
        let events = process::pressure_of_group(self.folder()).map_or(UNTOLD, |events| events + KNOWN);
        // Relaxed: two threads at once may both find growth. A process that moved to another group may find some, too.
        let seen = self.seen.swap(events, Ordering::Relaxed);
        seen >= KNOWN && events > seen
    }

    fn is_untold(&self) -> bool {
        self.seen.load(Ordering::Relaxed) == UNTOLD
    }
}

impl State {
    /// Looks at the group, and returns everything that is not in use if its limits were passed.
    ///
    /// Where the kernel does not tell, it looks only if it `insists`.
    pub(super) fn look_at_pressure(&self, insists: bool) {
        if (insists || !self.pressure.is_untold()) && self.pressure.has_grown() {
            heap().cpu.trim(0);
            self.counts.pressure.count();
        }
    }
}

/// Watches the control group at a path instead of the process's own. Does nothing if there is no memory.
pub(crate) fn watch_group(path: &str) {
    let Some(state) = enter().then(|| made_at(&STATE)).flatten() else { return };
    let metadata = &heap().page_heap().metadata;
    let Some(place) = metadata.cut(size_of::<Folder>(), align_of::<Folder>()) else { return };
    let place = place.cast::<Folder>();
    // SAFETY: fresh metadata is zero, which is valid, ours, and never freed.
    let folder = unsafe { &mut *place };
    folder.bytes = path.len().min(LONGEST_PATH);
    folder.path[..folder.bytes].copy_from_slice(&path.as_bytes()[..folder.bytes]);
    state.pressure.folder.store(place, Ordering::Release);
}
