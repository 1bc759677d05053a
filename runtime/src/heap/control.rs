//! What an operator asks of a running program: a page that both have mapped, with room for one request.
//!
//! ```text
//!   mark │ process │ asked │ answered │ caches or refusal │ limit │ batch │ name …
//! ```
//!
//! Whoever runs the program makes the page, as a file without a name, and says by `control:DESCRIPTOR` in the
//! configuration where it is. The operator writes a request, and then counts it in `asked`; the program reaches a slow
//! path, does it, and sets `answered` to that number. A program that stays on its fast paths, where no magazine changes
//! hands, does not come along.
//!
//! Runs at the same time: one operator; any threads, of which one takes the page away while it works.

use crate::caches::{Untunable, heap};
use crate::layout::{HeaderWord, header};
use core::mem::offset_of;
use core::ptr::null_mut;
use machine::sync::{AtomicPtr, AtomicU8, AtomicU32, Ordering};
use machine::{process, vm};

/// What a page begins with that is one.
pub const MARK: [u8; 8] = *b"commctl1";
/// Bytes of a name, at most.
pub const NAME_BYTES: usize = 48;

/// The page. Numbers are in the machine's order.
#[derive(Debug)]
#[repr(C)]
pub struct Page {
    mark: [u8; 8],
    /// The process that it is for.
    process: AtomicU32,
    /// Requests so far.
    asked: AtomicU32,
    /// The last one that was done.
    answered: AtomicU32,
    /// How many caches it changed, or from [`REFUSED`] on, why not.
    outcome: AtomicU32,
    limit: AtomicU32,
    batch: AtomicU32,
    name: [AtomicU8; NAME_BYTES],
}

/// No cache has the numbers that were asked for.
pub const REFUSED: u32 = 1 << 31;
/// The kernel refused to restart other CPUs: magazines of theirs stay for a while.
pub const REFUSED_BY_KERNEL: u32 = REFUSED + 1;

/// Where the parts of a page lie that operators write and read: the process, requests, answers, what came of it, limit,
/// batch, name.
pub const OFFSETS: [usize; 7] = [
    offset_of!(Page, process),
    offset_of!(Page, asked),
    offset_of!(Page, answered),
    offset_of!(Page, outcome),
    offset_of!(Page, limit),
    offset_of!(Page, batch),
    offset_of!(Page, name),
];

/// The page of the operator, if there is one, and nobody works at it.
// SAFETY: zeroes are null, and nobody else has these bytes.
const PAGE: HeaderWord<AtomicPtr<Page>> = unsafe { HeaderWord::at(header::CONTROL) };

/// Begins to poll the page that an operator made, behind a descriptor. Where there is no such page, or another
/// process's, nothing happens: children inherit the setting, and have whatever they like behind that descriptor.
pub(super) fn begin(descriptor: i32) {
    let mut beginning = [0; offset_of!(Page, asked)];
    beginning[..MARK.len()].copy_from_slice(&MARK);
    beginning[MARK.len()..].copy_from_slice(&process::id().to_ne_bytes());
    if vm::is_kept(descriptor, &beginning, vm::PAGE)
        && let Some(word) = PAGE.get()
        // SAFETY: the descriptor was made for this, and the file stays as long as it is. Any contents are valid.
        && let Some(page) = unsafe { vm::share(descriptor, vm::PAGE) }
    {
        // Release pairs with the acquire in `poll`.
        word.store(page.cast(), Ordering::Release);
        heap().cpu.begin_polling();
    }
}

/// Does what the operator asks, if there is one, who asks.
pub(super) fn poll() {
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
    // Whoever is first takes it away.
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
    if let Some(outcome) = tune_called(&name, limit, batch) {
        page.outcome.store(outcome, Ordering::Relaxed);
        page.answered.store(asked, Ordering::Release);
    }
    word.store(known, Ordering::Release);
}

/// None: not now.
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
