//! Requests of an operator to a running program: a page that both have mapped, with room for one request.
//!
//! ```text
//!   mark │ process │ asked │ answered │ outcome │ limit │ batch │ name │ kind │ bytes … │ a heap profile …
//!   └ 0                                                                                 └ 4096, as far as asked for
//! ```
//!
//! The launcher makes the page, as a file without a name, and passes its descriptor by `control:DESCRIPTOR`. The
//! operator writes a request, and then counts it in `asked`. A thread on a slow path executes it, and sets `answered`
//! to that number. A program that stays on its fast paths, where no magazine changes hands, does not poll.
//!
//! Runs at the same time: one operator; any threads, of which one takes the page away while it works.

use super::limit::{Limit, set};
use crate::caches::{Untunable, heap};
use crate::layout::{HeaderWord, header};
use crate::profile::{self, At};
use core::mem::offset_of;
use core::ptr::null_mut;
use machine::sync::{AtomicPtr, AtomicU8, AtomicU32, Ordering};
use machine::{process, vm};

/// The first bytes of a page.
pub const MARK: [u8; 8] = *b"commctl2";
/// Most bytes of a name.
pub const NAME_BYTES: usize = 48;

/// The page. Numbers are in the machine's byte order.
#[derive(Debug)]
#[repr(C)]
pub struct Page {
    mark: [u8; 8],
    /// The process that it is for.
    process: AtomicU32,
    /// Number of requests so far.
    asked: AtomicU32,
    /// Number of the last request that was executed.
    answered: AtomicU32,
    /// The request's outcome: number of caches changed, or from [`REFUSED`] on, the reason of the refusal.
    outcome: AtomicU32,
    limit: AtomicU32,
    batch: AtomicU32,
    name: [AtomicU8; NAME_BYTES],
    /// One of the requests.
    kind: AtomicU32,
    /// Length of the last profile.
    bytes: AtomicU32,
}

/// Request: change the caches of a name, and return how many there are.
pub const TUNE: u32 = 0;
/// Request: write the heap profile behind the page, where the file has room for `limit` bytes. The outcome is 1 if it
/// fits, else 0. `bytes` says in each case how long it is.
pub const PROFILE: u32 = 1;
/// Request: sample with a mean gap of `limit` KiB from now on, or not at all if that is 0. The outcome is 1, or 0 if
/// there is no memory.
pub const SAMPLE: u32 = 2;
/// Request: set a limit of the process, the soft one if `batch` is 0 and else the hard one, to `limit` MiB; 0: none.
/// The outcome is 1.
pub const LIMIT: u32 = 3;
/// Most bytes of a profile that a page can take.
pub const ROOM: usize = 16 << 20;

/// The requested numbers fit no cache.
pub const REFUSED: u32 = 1 << 31;
/// The kernel refused to restart other CPUs: their magazines stay for a while.
pub const REFUSED_BY_KERNEL: u32 = REFUSED + 1;

/// Offsets for operators: the process, requests, answers, outcome, limit, batch, name, kind, bytes.
pub const OFFSETS: [usize; 9] = [
    offset_of!(Page, process),
    offset_of!(Page, asked),
    offset_of!(Page, answered),
    offset_of!(Page, outcome),
    offset_of!(Page, limit),
    offset_of!(Page, batch),
    offset_of!(Page, name),
    offset_of!(Page, kind),
    offset_of!(Page, bytes),
];

/// The operator's page; null if there is none, or while a thread works on it.
// SAFETY: zeroes are null, and these bytes are only used here.
const PAGE: HeaderWord<AtomicPtr<Page>> = unsafe { HeaderWord::at(header::CONTROL) };

/// Begins to poll the operator's page behind a descriptor, if it is one for this process. Children inherit the setting.
pub(super) fn begin(descriptor: i32) {
    let mut beginning = [0; offset_of!(Page, asked)];
    beginning[..MARK.len()].copy_from_slice(&MARK);
    beginning[MARK.len()..].copy_from_slice(&process::id().to_ne_bytes());
    if vm::is_kept(descriptor, &beginning, vm::PAGE)
        && let Some(word) = PAGE.get()
        // SAFETY: the descriptor was made for this, and the file never shrinks. Any contents are valid.
        && let Some(page) = unsafe { vm::share(descriptor, vm::PAGE + ROOM) }
    {
        // Release pairs with the acquire in `poll`.
        word.store(page.cast(), Ordering::Release);
        heap().cpu.begin_polling();
    }
}

/// Executes the operator's request, if there is one.
pub(crate) fn poll() {
    let Some(word) = PAGE.get() else { return };
    // SAFETY: null, or a page that stays mapped.
    if let Some(page) = unsafe { word.load(Ordering::Acquire).as_ref() }
        && page.asked.load(Ordering::Acquire) != page.answered.load(Ordering::Relaxed)
    {
        answer(word, page);
    }
}

#[cold]
fn answer(word: &AtomicPtr<Page>, page: &Page) {
    let known = (&raw const *page).cast_mut();
    // The first thread takes the page away.
    if word.compare_exchange(known, null_mut(), Ordering::Acquire, Ordering::Relaxed).is_err() {
        return;
    }
    // A fork child shares the page, and has no operator.
    if page.process.load(Ordering::Relaxed) != process::id() {
        return;
    }
    let asked = page.asked.load(Ordering::Acquire);
    let name = page.name.each_ref().map(|byte| byte.load(Ordering::Relaxed));
    let [limit, batch] = [&page.limit, &page.batch].map(|number| number.load(Ordering::Relaxed) as usize);
    let outcome = match page.kind.load(Ordering::Relaxed) {
        PROFILE => Some(u32::from(write_profile(page, limit.min(ROOM)))),
        SAMPLE if limit == 0 => {
            profile::stop();
            Some(1)
        }
        LIMIT => {
            let which = if batch == 0 { Limit::Soft } else { Limit::Hard };
            Some(u32::from(set(which, (limit > 0).then_some((limit as u64) << 20))))
        }
        SAMPLE => Some(u32::from(profile::start((limit as u64) << 10))),
        _ => tune_called(&name, limit, batch),
    };
    if let Some(outcome) = outcome {
        page.outcome.store(outcome, Ordering::Relaxed);
        page.answered.store(asked, Ordering::Release);
    }
    word.store(known, Ordering::Release);
}

/// False: there is no memory for it, or no room.
#[inline(never)]
fn write_profile(page: &Page, room: usize) -> bool {
    let (behind, mut used) = ((&raw const *page).cast::<u8>().cast_mut().wrapping_add(vm::PAGE), 0_usize);
    let is_written = profile::write(
        &mut |bytes| {
            if used + bytes.len() <= room {
                // SAFETY: the operator says that the file has room there, and reads when this has an answer.
                unsafe { behind.add(used).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
            }
            used += bytes.len();
            true
        },
        At::Run,
    );
    page.bytes.store(used as u32, Ordering::Relaxed);
    is_written && used <= room
}

/// None: not possible now.
fn tune_called(name: &[u8], limit: usize, batch: usize) -> Option<u32> {
    let end = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
    let mut outcome = 0;
    for cache in heap().caches_called(&name[..end]) {
        match heap().tune(cache, limit, batch) {
            Ok(()) => outcome += 1,
            Err(Untunable::Numbers) => return Some(REFUSED),
            Err(Untunable::Refused) => return Some(REFUSED_BY_KERNEL),
            Err(Untunable::Interrupting | Untunable::NoMemory) => return None,
        }
    }
    Some(outcome)
}
