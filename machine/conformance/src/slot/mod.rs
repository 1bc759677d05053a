//! `machine::slot`: slots, and the restartable operations on their words.
//!
//! The machine's documentation describes the layout of regions and arrays. In the pseudo-code below, `word(s, i)` is
//! word `i` of slot `s`, `read` and `write` access a pointer-sized cell, and
//!
//! ```text
//! restartably:          the calling thread runs the block as if no other thread could run in its slot. Whenever the
//!     …                 thread is preempted, migrated, interrupted by a signal or restarted by kick::restart inside,
//!                       the block begins again, in the thread's slot at that time. Until then it has only written to
//!                       cells without an owner; only its last write, the *commit*, is to a word. After some restarts
//!                       the operation may treat the thread as one without a slot: under a debugger that stops at
//!                       each instruction, no block completes.
//! ```
//!
//! When another thread writes to a word ([`Operations::exchange`]), the block does not begin again. If it has read the
//! word already, its commit follows and overwrites the other thread's value.
//!
//! A *cell* has a pair of words in each slot's row, `left(s, cell)` and `edge(s, cell)`, [`slot::ROW`] bytes from those
//! of the next slot.
//!
//! In [`Mode::PerThread`] a slot belongs to one thread until it dies. Signal handlers use no slots, so there are no
//! interrupts, and no other thread can write into the slot of a living thread.
//!
//! The bodies move *tokens* about, see `tokens`: each is either in one array or held by one thread, and knows which.

mod added;
mod adopted;
mod cached;
mod counted;
mod drained;
mod drawn;
mod held_up;
mod owners;
mod paired;
mod planted;
mod region;
mod rows;
mod tokens;
mod words;

pub use cached::{popped, pushed};
pub use owners::replaced;
pub use planted::{CASES, RESTARTS_OF_ALL};

use crate::case::{operations, trusted};
use machine::kick::{self, Refused};
use machine::slot::{self, Counted, Mode, Pair, Stored};
use machine::sync::{AtomicI64, AtomicPtr, AtomicU64};
use machine::thread;

operations! {
    /// Decides how slots are given.
    ///
    /// ```text
    /// initialise():
    ///     atomically: if the mode is not decided: decide it
    /// ```
    ///
    /// Several threads may call it at once, and anybody again, while others work in their slots.
    initialise: fn() = slot::initialise,

    /// How slots are given, the same for the life of the process.
    mode: fn() -> Mode = slot::mode,

    /// How many slots there can ever be: all results of [`current`](Self::current) are below. Constant for the life of
    /// the process.
    possible: fn() -> usize = slot::possible,

    /// The slot of the calling thread, which has entered. None if it has none: the machine failed to assign one, or all
    /// are taken.
    ///
    /// ```text
    /// current():
    ///     s = the slot of this thread
    ///     in_use = max(in_use, s + 1)
    ///     return s                       by ids it may have changed: use it for compare_store, and as a hint
    /// ```
    ///
    /// By ids, threads that run at the same time have different slots. In [`Mode::PerThread`] a thread keeps its slot
    /// as long as it lives, and no other living thread has it. Dead threads' slots are used again, with their old
    /// words.
    current: fn() -> Option<u32> = slot::current,

    /// The same, but a thread that has no slot yet is given none; needs no enter.
    current_if_given: fn() -> Option<u32> = slot::current_if_given,

    /// `in_use = max(in_use, s + 1)`
    count_as_used: fn(slot: u32) = slot::count_as_used,

    /// A bound of the slots that [`current`](Self::current) has answered with so far: they are below it.
    in_use: fn() -> u32 = slot::in_use,

    /// Takes the topmost pointer of the array at a take word.
    ///
    /// ```text
    /// pop(base, i):
    ///     restartably:
    ///         if this thread has no slot: return null
    ///         at = word(s, i)
    ///         object = read(base + at)
    ///         if object = null: return null
    ///         word(s, i) = at − 8        commit
    ///     return object
    /// ```
    pop: fn(base: *mut u8, index: usize) -> *mut u8 = trusted!(|base, index| slot::pop(base, index)),

    /// Puts a pointer on the array at the give word beside a take word.
    ///
    /// ```text
    /// push(base, i, object):
    ///     restartably:
    ///         if this thread has no slot: return false
    ///         at = word(s, i + 1)
    ///         if at mod 1024 = 0: return false
    ///         write(base + at, object)
    ///         word(s, i + 1) = at + 8    commit
    ///     return true
    /// ```
    push: fn(base: *mut u8, index: usize, object: *mut u8) -> bool =
        trusted!(|base, index, object| slot::push(base, index, object)),

    /// Replaces a word of a slot if the calling thread is there and the word is as expected.
    ///
    /// ```text
    /// compare_store(base, s', i, expected, new):
    ///     restartably:
    ///         if this thread has no slot, or s ≠ s': return Elsewhere
    ///         if word(s, i) ≠ expected: return Differs
    ///         word(s, i) = new           commit
    ///     return Done
    /// ```
    compare_store: fn(base: *mut u8, slot: u32, index: usize, expected: usize, new: usize) -> Stored =
        trusted!(|base, slot, index, expected, new| slot::compare_store(base, slot, index, expected, new)),

    /// Lets an empty array to take from and one that was given to change places, and pops a pointer from the latter.
    ///
    /// ```text
    /// change_places(base, i, take, give):
    ///     restartably:
    ///         if this thread has no slot, or word(s, i) ≠ take, or word(s, i + 1) ≠ give: return null
    ///         if read(base + take) ≠ null: return null
    ///         object = read(base + give − 8)
    ///         if object = null: return null
    ///         word(s, i), word(s, i + 1) = give − 16, take + 8    commits both; other slots may see them one by one
    ///     return object
    /// ```
    change_places: fn(base: *mut u8, index: usize, take: usize, give: usize) -> *mut u8 =
        trusted!(|base, index, take, give| slot::change_places(base, index, take, give)),

    /// Lets an array to take from that has room and a full one that was given to change places, and pushes to the
    /// former.
    ///
    /// ```text
    /// change_and_push(base, i, take, give, object):
    ///     restartably:
    ///         if this thread has no slot, or word(s, i) ≠ take, or word(s, i + 1) ≠ give: return false
    ///         write(base + take + 8, object)
    ///         word(s, i), word(s, i + 1) = give − 8, take + 16    commits both; other slots may see them one by one
    ///     return true
    /// ```
    change_and_push: fn(base: *mut u8, index: usize, take: usize, give: usize, object: *mut u8) -> bool =
        trusted!(|base, index, take, give, object| slot::change_and_push(base, index, take, give, object)),

    /// Reads `word(s, i)` of any slot, whole, as it was at some moment of the call.
    load: fn(base: *mut u8, slot: u32, index: usize) -> usize =
        trusted!(|base, slot, index| slot::load(base, slot, index)),

    /// Writes a word of any slot and returns its old value, atomically. An operation in flight may commit over it.
    ///
    /// ```text
    /// exchange(base, s, i, value):
    ///     atomically: old = word(s, i); word(s, i) = value
    ///     return old
    /// ```
    ///
    /// To take an array away from another CPU, by ids, one drainer at a time:
    ///
    /// ```text
    /// drain(s, i):
    ///     old = exchange(base, s, i, DRAINING)       empty to pop, full to push, not replaced by others
    ///     if restart(s) is refused:
    ///         compare_exchange(base, s, i, DRAINING, old)
    ///         return
    ///     now whoever read the word before has committed, or begins again
    ///     if compare_exchange(base, s, i, DRAINING, 0):
    ///         the array is ours, as old says
    ///     otherwise somebody committed: the array is still theirs
    /// ```
    exchange: fn(base: *mut u8, slot: u32, index: usize, value: usize) -> usize =
        trusted!(|base, slot, index, value| slot::exchange(base, slot, index, value)),

    /// Writes `word(s, i)` of any slot if it is as expected at that very moment; else false. An operation in flight may
    /// commit over it.
    compare_exchange: fn(base: *mut u8, slot: u32, index: usize, expected: usize, new: usize) -> bool =
        trusted!(|base, slot, index, expected, new| slot::compare_exchange(base, slot, index, expected, new)),

    /// Adds to a word that only the calling thread and its signal handlers add to; others read it.
    ///
    /// ```text
    /// local_add(word, amount):
    ///     between two interrupts: word = word + amount       others see it before or after, never a part
    /// ```
    local_add: fn(word: &AtomicI64, amount: i64) =
        trusted!(|word, amount| slot::local_add::<BEHIND>(before(word), amount)),

    /// [`local_add`](Self::local_add) of 1.
    local_increment: fn(word: &AtomicI64) = trusted!(|word| slot::local_increment::<BEHIND>(before(word))),

    /// By ids: adds one to the first word of the counts of this thread's slot, and returns where that was. Only this
    /// operation and [`count_in`](Self::count_in) write counts, so nothing intervenes in an addition. Handlers of this
    /// thread may redirect `counts`.
    ///
    /// ```text
    /// count(counts):                             the thread has a slot
    ///     restartably:
    ///         at = counts + s · COUNTS
    ///         *at += 1                   commit
    ///     return at, s
    ///     or, where the block does not come to its end:
    ///         *(at + COUNTED_BESIDE) += 1, locked
    ///         return at, NOWHERE
    /// ```
    count: fn(counts: &AtomicPtr<AtomicU64>) -> Counted = trusted!(|counts| slot::count(counts)),

    /// By ids: adds one to a word some way behind where the thread counted, if it is still in that slot. The machine's
    /// operation has an `OFFSET`, which here is `counted::OTHER`.
    ///
    /// ```text
    /// count_in(at, s'):
    ///     restartably:
    ///         if s ≠ s': return false
    ///         *(at + OFFSET) += 1        commit, a release
    ///     return true
    /// ```
    ///
    /// Nobody can find the release missing here: both machines show stores in their order, and loads before later
    /// stores.
    count_in: fn(counted: Counted) -> bool = trusted!(|counted| slot::count_in::<{ counted::OTHER as i32 }>(counted)),

    /// Draws from a cell what is in this thread's slot. The machine's operation has an `OFFSET`, for callers whose
    /// pointer lies that far before the cell; here it is `rows::OFFSET`.
    ///
    /// ```text
    /// draw(cell, amount):                        |amount| < DRAWN, stock + room ≤ WIDEST
    ///     restartably:
    ///         if this thread has no slot: return false
    ///         stock, room = left(s, cell)        the lower and the upper half, signed
    ///         if stock < amount or room < −amount: return false
    ///         left(s, cell) = (stock − amount, room + amount)       commit
    ///     return true
    /// ```
    ///
    /// So a thread draws nothing where left is zero, or has the MARK: its room is then below −DRAWN. In
    /// [`Mode::PerThread`] a thread without a slot may be taken for one in slot 0, which is never assigned: all cells
    /// there must be like that.
    ///
    /// To close a cell in another CPU's row, by ids, one closer at a time:
    ///
    /// ```text
    /// close(s, cell):
    ///     old = left(s, cell)
    ///     atomically: left(s, cell) = left(s, cell) | MARK           MARK is the two highest bits
    ///     if restart(s) is refused:
    ///         atomically: left(s, cell) = left(s, cell) & ¬MARK
    ///         return
    ///     now whoever read left before has committed, or begins again
    ///     if left(s, cell) has the MARK:
    ///         nobody draws here: the pair is ours, to be written by store_pair
    ///     otherwise somebody committed over it: the pair is still theirs
    /// ```
    draw: fn(cell: *mut u8, amount: i64) -> bool = trusted!(|cell, amount| {
        slot::draw::<{ rows::OFFSET }>(cell.wrapping_offset(-(rows::OFFSET as isize)), amount)
    }),

    /// Replaces a pair if the calling thread is in that slot and left is as expected. Meanwhile edge is stable.
    ///
    /// ```text
    /// replace_pair(cell, s', expected, new):
    ///     restartably:
    ///         if this thread has no slot, or s ≠ s': return Elsewhere
    ///         if left(s, cell) ≠ expected: return Differs
    ///         left(s, cell), edge(s, cell) = new     commit of both, as one
    ///     return Done
    /// ```
    replace_pair: fn(cell: *mut u8, slot: u32, expected: u64, new: Pair) -> Stored =
        trusted!(|cell, slot, expected, new| slot::replace_pair(cell, slot, expected, new)),

    /// Reads `left(s, cell)` and `edge(s, cell)` in any row, both as they were at one moment of the call.
    load_pair: fn(cell: *mut u8, slot: u32) -> Pair = trusted!(|cell, slot| slot::load_pair(cell, slot)),

    /// Writes `left(s, cell)` and `edge(s, cell)` in any row, as one, where nobody draws and nobody else writes.
    store_pair: fn(cell: *mut u8, slot: u32, new: Pair) = trusted!(|cell, slot, new| slot::store_pair(cell, slot, new)),

    /// `kick::restart`, by ids: begins again what is in flight in a slot.
    ///
    /// ```text
    /// restart(s):
    ///     on each CPU that may run in slot s (it is free to do more):
    ///         whoever is inside a restartable block begins it again before their next step
    ///     fence_all()
    /// ```
    restart: fn(slot: u32) -> Result<(), Refused> = kick::restart,

    /// In [`Mode::PerThread`]: works on the slot of a dead thread, which is not assigned meanwhile. Returns false, and
    /// does nothing, if the thread lives or the slot has no owner.
    ///
    /// ```text
    /// while_dead(s, work):
    ///     if the thread that s was given to is dead, and nobody else is here with s:
    ///         work()
    ///         return true
    ///     return false
    /// ```
    while_dead: fn(slot: u32, work: &mut dyn FnMut()) -> bool = |slot, work| slot::while_dead(slot, work).is_some(),

    /// In [`Mode::PerThread`], in a fork child that has one thread so far and knows its number: the thread keeps its
    /// slot, and all other slots are those of dead threads.
    ///
    /// ```text
    /// claim():
    ///     if this thread was given a slot: it is given to this thread, as the kernel calls it now
    /// ```
    ///
    /// Until then the child's other threads leave the slot alone, too. The number is known after `thread::enter`
    /// noticed the fork. A process that never had a second thread need not claim: its children use the same slot.
    claim: fn() = slot::claim,

    /// In a child of a fork that nobody noticed, before it has a second thread.
    ///
    /// ```text
    /// forget_number():            afterwards claim() uses the number that this thread has now
    /// ```
    forget_number: fn() = thread::forget_number,
}

/// How far behind a pointer the word is to which a thread adds.
const BEHIND: i32 = 16;

fn before(word: &AtomicI64) -> *mut u8 {
    word.as_ptr().cast::<u8>().wrapping_offset(-(BEHIND as isize))
}
