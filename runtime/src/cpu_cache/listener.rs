//! The program's function that is called when a limit is reached.
//!
//! It is called once each time: by a thread in an allocation, or by the runtime's background thread. Only one call runs
//! at a time, so that the function may allocate. A thread that may be in a signal handler leaves the call to another.
//!
//! Runs at the same time: any number of threads.

use crate::page_heap::Metadata;
use crate::page_heap::limit::Limit;
use core::ptr::null_mut;
use machine::sync::{AtomicPtr, AtomicU32, AtomicU64, Ordering, Ordering::Relaxed};
use machine::{clock, thread};

/// Time until a thread looks again whether it may call the function.
const PAUSE_NS: u64 = 1_000_000;

/// The program's function, called with the limit that was reached and the program's word.
pub type Notifier = extern "C" fn(limit: Limit, data: usize);

/// A function and its word, never freed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Listener {
    pub call: Notifier,
    pub data: usize,
}

/// The listener of the process. All-zero memory: none.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Listening {
    listener: AtomicPtr<Listener>,
    /// The generation of the process in which a thread is in the function.
    telling: AtomicU32,
    not_before_ns: AtomicU64,
}

/// The thread that serves the limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Server {
    /// It allocates.
    Allocating,
    /// It frees: the C library may hold locks that the function needs.
    Freeing,
    /// The runtime's own thread.
    Background,
}

impl Listening {
    /// False: no memory.
    pub fn set(&self, listener: Option<Listener>, metadata: &Metadata) -> bool {
        let made = listener.map(|listener| {
            let place = metadata.cut(size_of::<Listener>(), align_of::<Listener>())?.cast::<Listener>();
            // SAFETY: fresh metadata is ours and never freed.
            unsafe { place.write(listener) };
            Some(place)
        });
        let Some(place) = made.unwrap_or(Some(null_mut())) else { return false };
        // Release pairs with the acquire in `get`: a thread that finds the listener finds it whole.
        self.listener.store(place, Ordering::Release);
        true
    }

    pub fn get(&self) -> Option<Listener> {
        // SAFETY: null, or a listener that is never freed.
        unsafe { self.listener.load(Ordering::Acquire).as_ref() }.copied()
    }

    /// Whether the thread may be in a signal handler. After a yes, the answer stays for some time, because it is
    /// costly.
    pub fn may_be_in_handler(&self) -> bool {
        let now_ns = clock::now_ns();
        if now_ns < self.not_before_ns.load(Relaxed) {
            return true;
        }
        let may_be = thread::may_be_in_handler();
        if may_be {
            self.not_before_ns.store(now_ns + PAUSE_NS, Relaxed);
        }
        may_be
    }

    /// Runs `work` unless another thread of this process, or this one, is in it.
    pub fn alone(&self, work: impl FnOnce()) {
        let (seen, generation) = (self.telling.load(Relaxed), thread::generation());
        // In a fork child, a thread that was in it is gone, or is this one and has returned from it.
        // Acquire pairs with the release below. If ours reads the 0 of another thread, that thread's call is over, and
        // ours finds all that it wrote. If ours comes too early, it reads the generation, and leaves the work undone.
        let begins = || self.telling.compare_exchange(seen, generation, Ordering::Acquire, Relaxed).is_ok();
        if seen != generation && begins() {
            work();
            self.telling.store(0, Ordering::Release);
        }
    }
}
