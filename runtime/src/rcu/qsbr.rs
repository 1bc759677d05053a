//! Registered readers: their sections cost nothing, and now and then they report that they are in none.
//!
//! ```text
//!   registered ─▶ sections ─▶ checkpoint ─▶ sections ─▶ checkpoint ─▶ … ─▶ offline, or no more
//!                              └ "seen": the number of the last grace period that began before it
//! ```
//!
//! A grace period waits until each reader has seen its number, or is offline. The [`Policy`] says when readers report,
//! and so how short grace periods are: short ones free memory early, in small batches.
//!
//! **Why that is enough.** An updater takes something away, fences, and reads the number of grace periods
//! (`synchronize::start`). Then that number is raised. A reader that has loaded the new number, and orders its loads
//! (`order_reads`), no longer finds what was taken away. Its earlier reads come before its report, which is a release
//! store of the number. So on x86 a report is a load and a store. Coming back from offline takes a fence: the store
//! must be visible before anything is read. It pairs with the fence behind the raised number (`Grace::begin`): either
//! the grace period sees that the reader is there, or the reader sees all that was taken away.
//!
//! Source of the algorithm: liburcu's flavour of this name (Desnoyers), with numbers in place of two phases. The Linux
//! kernel had these policies and thresholds at different times, for loops that call `cond_resched` (McKenney).

use super::domain::Domain;
use super::grace::{Caller, Pace};
pub use super::registered::Policy;
use super::registered::Record;
use super::synchronize::wait_for_registered;
pub use crate::counter::NoMemory;
use core::fmt;
use core::marker::PhantomData;
use core::mem::forget;
use core::panic::Location;
use machine::thread;

/// The policy of the process.
pub fn policy() -> Policy {
    Domain::of_process().registered.policy()
}

/// The policy was refused: the program itself handles the signal that it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignalInUse;

impl fmt::Display for SignalInUse {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("the program handles the signal that the policy needs: set the policy before it, or take another")
    }
}

impl core::error::Error for SignalInUse {}

/// Sets the policy for all readers, also for those already registered.
///
/// # Errors
/// The program handles the signal. The policy stays as it was.
pub fn set_policy(policy: Policy) -> Result<(), SignalInUse> {
    if policy == Policy::Kicked && !thread::on_interrupt(&(be_kicked as fn())) {
        return Err(SignalInUse);
    }
    Domain::enter().registered.set_policy(policy);
    Ok(())
}

fn be_kicked() {
    let domain = Domain::of_process();
    domain.registered.be_kicked(&domain.grace);
}

/// A checkpoint of a reader that is flagged or counts.
#[cold]
fn look_after(record: &Record) {
    let domain = Domain::of_process();
    domain.registered.look_after(record, &domain.grace);
}

/// A registered reader of the calling thread, [cooperative](CooperativeReader) or [kickable](KickableReader).
///
/// It serves threads that read again and again, such as a server's loop, with a checkpoint in each iteration. While the
/// reader is online, grace periods wait for its next checkpoint. Run work that blocks for long in
/// [`offline`](Self::offline). Grace periods wait for ever for a reader that is forgotten, but not for one that is
/// dropped.
///
/// A thread may have several readers. A fork child has those of the thread that forked. Not for signal handlers.
///
/// ```
/// use commensal::rcu::qsbr::CooperativeReader;
///
/// let mut reader = CooperativeReader::register().expect("there is memory");
/// for _request in 0..1000 {
///     let section = reader.read(); // free
///     // Look up shared objects and use them.
///     drop(section);
///     reader.checkpoint(); // mostly one load
/// }
/// reader.synchronize(); // waits for all other readers
/// ```
#[derive(Debug)]
pub struct Reader<const KICKABLE: bool = false> {
    record: &'static Record,
    not_send: PhantomData<*mut ()>,
}

/// A reader that only reports at checkpoints. Its sections cost nothing.
pub type CooperativeReader = Reader<false>;

/// A reader that a signal may interrupt under [`Policy::Kicked`]. Each section costs two additions to its own word.
pub type KickableReader = Reader<true>;

/// A section of a [`Reader`], until it is dropped.
#[derive(Debug)]
#[must_use = "the section ends when this is dropped"]
pub struct Section<'r, const KICKABLE: bool> {
    reader: &'r Reader<KICKABLE>,
}

impl<const KICKABLE: bool> Reader<KICKABLE> {
    /// Registers a reader, online. Takes some 100 ns, and longer the more threads are registered.
    ///
    /// # Errors
    /// There is no memory.
    pub fn register() -> Result<Self, NoMemory> {
        let domain = Domain::enter();
        let record = domain.registered.register::<KICKABLE>().ok_or(NoMemory)?;
        record.go_online(&domain.grace);
        Ok(Reader { record, not_send: PhantomData })
    }

    /// Opens a section: what is found in it stays until it ends. Free, but for two additions if the reader is kickable.
    #[inline(always)]
    pub fn read(&self) -> Section<'_, KICKABLE> {
        if KICKABLE {
            self.record.open_section();
        }
        Section { reader: self }
    }

    /// In no section: reports if the policy demands it. Else it costs a load of the reader's own word.
    #[inline(always)]
    pub fn checkpoint(&mut self) {
        if self.record.is_due() {
            look_after(self.record);
        }
    }

    /// In no section: reports under any policy.
    #[inline]
    pub fn checkpoint_always(&mut self) {
        self.record.report(&Domain::of_process().grace);
    }

    /// Runs `work`, which may take long, while no grace period waits for the reader.
    pub fn offline<R>(&mut self, work: impl FnOnce() -> R) -> R {
        /// Online again, also after a panic.
        struct Online(&'static Record);
        impl Drop for Online {
            fn drop(&mut self) {
                self.0.go_online(&Domain::enter().grace);
            }
        }
        let _online = Online(self.record);
        self.record.go_offline();
        work()
    }

    /// The reader for other languages, which stays registered: [`Self::from_raw`] takes it back.
    #[doc(hidden)]
    pub fn into_raw(self) -> *mut () {
        let raw = (&raw const *self.record).cast_mut().cast();
        forget(self);
        raw
    }

    /// Takes a reader back from [`Self::into_raw`].
    ///
    /// # Safety
    ///
    /// The calling thread owns it, and takes it back once.
    #[doc(hidden)]
    pub unsafe fn from_raw(raw: *mut ()) -> Self {
        // SAFETY: by the caller; records are never freed.
        Reader { record: unsafe { &*raw.cast() }, not_send: PhantomData }
    }

    /// The beginning of [`Self::offline`], for languages without closures.
    ///
    /// # Safety
    ///
    /// No section is opened before [`Self::go_online`].
    #[doc(hidden)]
    pub unsafe fn go_offline(&mut self) {
        self.record.go_offline();
    }

    /// The end of [`Self::offline`].
    #[doc(hidden)]
    pub fn go_online(&mut self) {
        self.record.go_online(&Domain::enter().grace);
    }

    /// Waits for a grace period. [`synchronize`](fn@super::synchronize) would also wait for this reader, and ends the
    /// program.
    #[track_caller]
    pub fn synchronize(&mut self) {
        self.synchronize_for(Pace::Usual, Caller::Place(Location::caller()));
    }

    /// [`Self::synchronize`] on behalf of a caller.
    #[doc(hidden)]
    pub fn synchronize_for(&mut self, pace: Pace, caller: Caller) {
        self.record.go_offline();
        wait_for_registered(pace, caller);
        self.record.go_online(&Domain::of_process().grace);
    }
}

impl<const KICKABLE: bool> Drop for Section<'_, KICKABLE> {
    #[inline(always)]
    fn drop(&mut self) {
        if KICKABLE && self.reader.record.end_section() {
            look_after(self.reader.record);
        }
    }
}

impl<const KICKABLE: bool> Drop for Reader<KICKABLE> {
    fn drop(&mut self) {
        self.record.give_up();
    }
}
