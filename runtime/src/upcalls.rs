//! Calls upward: upper modules' functions that lower tiers call. The crate's root fills in the one table.

#[derive(Debug)]
pub struct Upcalls {
    /// The hook of the slow paths: something may be due in the slot where the thread runs, or ran.
    pub maintain: fn(visit: Visit),
    /// An operator may have a request.
    pub poll: fn(),
    /// The statistics page may be due; says whether a thread of the runtime is about to rest. A lock may be held.
    pub write_statistics: fn(rest: Rest),
    /// The process is about to have a second thread.
    pub before_a_thread: fn(),
    /// Reports that an object was freed to another cache than its own.
    pub report_mixed_caches: fn(object: *mut u8),
    /// Whether no thread can be looking at objects of caches whose memory waits for readers.
    pub readers_are_absent: fn() -> bool,
    /// A span began to wait for readers, or a cache with readers is made. The caller holds at most a drainer's lock.
    pub rouse_worker: fn(),
    /// Waits until threads that may be looking at such objects have stopped.
    pub wait_for_readers: fn(),
    /// So many objects of the cache with a number are given, which no magazine has reserved, to a caller there.
    pub count_objects: fn(cache: u32, objects: usize, from: usize),
    /// A large block, perhaps of a group or sampled, is freed.
    pub forget_large: unsafe fn(block: *mut u8),
}

/// A slow path reached the hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Visit {
    pub slot: u32,
    /// The coarse time, if the slow path read the clock.
    pub time: Option<u32>,
    pub from: From,
    pub upkeep_is_due: bool,
}

/// The kind of call that reached a slow path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    /// An allocation: it may create a thread.
    Allocation,
    Release,
}

/// Whether a thread is about to rest for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    No,
    Soon,
}
