//! A model of the heap: who owns which bytes, and what is in them. Operations go to the heap, or to a broken stand-in for it,
//! and whatever the model says is impossible is reported as a [`Failure`].

use super::blocks::Block;
use super::subject::Subject;
use commensal_runtime::heap;
use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const LARGEST_REQUEST: usize = 128 << 20;

/// What a heap must never do. It begins with one of these words: *overlap*; *contents* that changed while somebody owned a block, or were
/// lost when it was moved; *alignment*; *room*; *zero*; *null*, where nothing accounts for it; *count*, of blocks that the heap holds.
pub type Failure = String;

/// One thing that a program does with the heap. `which` chooses among the blocks that it owns.
#[derive(Clone, Copy, Debug)]
pub enum Operation {
    Allocate { bytes: usize },
    AllocateZeroed { bytes: usize },
    AllocateAligned { bytes: usize, log2_alignment: u32 },
    Reallocate { which: u32, bytes: usize },
    Free { which: u32 },
    Trim { keep: usize },
}

/// Which bytes are owned, by anybody; or nothing of the kind, where a lock around it would keep threads from meeting in the heap.
#[derive(Clone, Debug)]
pub struct Owned(Option<Arc<Mutex<BTreeMap<usize, usize>>>>);

impl Default for Owned {
    fn default() -> Self {
        Owned(Some(Arc::default()))
    }
}

impl Owned {
    pub fn untracked() -> Self {
        Owned(None)
    }

    fn map(&self) -> Option<MutexGuard<'_, BTreeMap<usize, usize>>> {
        self.0.as_ref().map(|map| map.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn claim(&self, start: usize, bytes: usize) -> Result<(), Failure> {
        let Some(mut owned) = self.map() else { return Ok(()) };
        let end = start + bytes.max(1);
        if let Some((other, &other_end)) = owned.range(..end).next_back()
            && other_end > start
        {
            return Err(format!("overlap: {start:#x}..{end:#x} was given while {other:#x}..{other_end:#x} is owned"));
        }
        owned.insert(start, end);
        Ok(())
    }

    fn release(&self, start: usize) {
        if let Some(mut owned) = self.map() {
            owned.remove(&start);
        }
    }

    fn starts(&self) -> HashSet<usize> {
        self.map().map(|owned| owned.keys().copied().collect()).unwrap_or_default()
    }
}

/// The program's side: the blocks of one thread.
pub struct Model {
    subject: Subject,
    owned: Owned,
    blocks: Vec<Block>,
    tag: u64,
    /// Bytes that this model may own at once; requests beyond free something first.
    limit: usize,
    total: usize,
    /// Requests that were answered with null.
    pub nulls: usize,
    /// Whether null is an answer to requests that the machine could fulfil.
    pub may_fail: bool,
}

impl Model {
    /// A program that owns nothing and may own up to `limit` bytes. `tag` tells its blocks from other programs'.
    pub fn new(subject: Subject, owned: Owned, tag: u64, limit: usize) -> Self {
        Model { subject, owned, blocks: Vec::new(), tag: tag << 32, limit, total: 0, nulls: 0, may_fail: false }
    }

    pub fn len(&self) -> usize {
        self.blocks.len()
    }

    pub fn step(&mut self, operation: Operation) -> Result<(), Failure> {
        match operation {
            Operation::Allocate { bytes } => self.allocate(bytes, 16, |subject| subject.allocate(bytes)).map(drop),
            Operation::AllocateZeroed { bytes } => self.allocate_zeroed(bytes),
            Operation::AllocateAligned { bytes, log2_alignment } => {
                let alignment = 1 << log2_alignment;
                self.allocate(bytes, alignment, |subject| subject.allocate_aligned(bytes, alignment)).map(drop)
            }
            Operation::Reallocate { which, bytes } => self.reallocate(which, bytes),
            Operation::Free { which } => self.index(which).map_or(Ok(()), |index| self.free(index)),
            Operation::Trim { keep } => {
                heap::trim(keep);
                Ok(())
            }
        }
    }

    pub fn give_up(&mut self, which: u32) -> Option<Block> {
        let block = self.blocks.swap_remove(self.index(which)?);
        self.total -= block.usable;
        Some(block)
    }

    pub fn take_in(&mut self, block: Block) -> Result<(), Failure> {
        self.total += block.usable;
        self.blocks.push(block);
        self.check_contents(self.blocks.len() - 1, block.usable)
    }

    pub fn check_all(&self) -> Result<(), Failure> {
        (0..self.blocks.len()).try_for_each(|index| self.check_contents(index, self.blocks[index].usable))
    }

    pub fn free_all(&mut self) -> Result<(), Failure> {
        while !self.blocks.is_empty() {
            self.free(self.blocks.len() - 1)?;
        }
        Ok(())
    }

    fn index(&self, which: u32) -> Option<usize> {
        (!self.blocks.is_empty()).then(|| which as usize % self.blocks.len())
    }

    fn allocate(
        &mut self, bytes: usize, alignment: usize, request: impl FnOnce(&mut Subject) -> *mut u8,
    ) -> Result<Option<Block>, Failure> {
        while self.total + bytes > self.limit && !self.blocks.is_empty() {
            self.free(0)?;
        }
        let start = request(&mut self.subject);
        if start.is_null() {
            self.note_null(bytes)?;
            return Ok(None);
        }
        self.enter(start, bytes, alignment).map(Some)
    }

    fn note_null(&mut self, bytes: usize) -> Result<(), Failure> {
        self.nulls += 1;
        if self.may_fail || bytes > LARGEST_REQUEST {
            return Ok(());
        }
        Err(format!("null: no memory for {bytes} bytes"))
    }

    /// Checks a block that was just given, and fills it.
    fn enter(&mut self, start: *mut u8, bytes: usize, alignment: usize) -> Result<Block, Failure> {
        if !(start as usize).is_multiple_of(alignment.max(16)) {
            return Err(format!("alignment: {bytes} bytes at {start:p}, alignment {alignment} was asked for"));
        }
        // SAFETY: the block was given to us.
        let usable = unsafe { self.subject.usable_bytes(start) };
        if usable < bytes {
            return Err(format!("room: {usable} bytes at {start:p} for a request of {bytes}"));
        }
        self.owned.claim(start as usize, usable)?;
        self.tag += 1;
        let block = Block { start: start as usize, usable, tag: self.tag };
        block.fill();
        self.total += usable;
        self.blocks.push(block);
        Ok(block)
    }

    fn allocate_zeroed(&mut self, bytes: usize) -> Result<(), Failure> {
        let mut damage = None;
        let request = |subject: &mut Subject| {
            let start = subject.allocate_zeroed(bytes);
            let block = Block { start: start as usize, usable: bytes, tag: 0 };
            // Before anything is written to it.
            damage = if start.is_null() { None } else { block.find_nonzero(bytes) };
            start
        };
        let block = self.allocate(bytes, 16, request)?;
        match (block, damage) {
            (Some(block), Some(offset)) => {
                Err(format!("zero: {bytes} zeroed bytes at {:#x}: not zero at {offset}", block.start))
            }
            _ => Ok(()),
        }
    }

    fn reallocate(&mut self, which: u32, bytes: usize) -> Result<(), Failure> {
        let Some(index) = self.index(which) else { return Ok(()) };
        let old = self.blocks[index];
        self.check_contents(index, old.usable)?;
        self.owned.release(old.start);
        // SAFETY: the block is ours.
        let start = unsafe { self.subject.reallocate(old.start as *mut u8, bytes) };
        if start.is_null() {
            self.owned.claim(old.start, old.usable)?;
            self.note_null(bytes)?;
            return self.check_contents(index, old.usable);
        }
        let moved = Block { start: start as usize, ..old };
        let damage = moved.find_damage(old.usable.min(bytes));
        self.blocks.swap_remove(index);
        self.total -= old.usable;
        self.enter(start, bytes, 16)?;
        match damage {
            Some(offset) => {
                Err(format!("contents: {old:x?} lost byte {offset} when it was moved to {start:p} for {bytes}"))
            }
            None => Ok(()),
        }
    }

    fn free(&mut self, index: usize) -> Result<(), Failure> {
        self.check_contents(index, self.blocks[index].usable)?;
        self.forget(index);
        Ok(())
    }

    fn forget(&mut self, index: usize) {
        let block = self.blocks.swap_remove(index);
        self.total -= block.usable;
        self.owned.release(block.start);
        // SAFETY: the block is ours.
        unsafe { self.subject.free(block.start as *mut u8) };
    }

    fn check_contents(&self, index: usize, bytes: usize) -> Result<(), Failure> {
        let block = self.blocks[index];
        let wrong = |offset| Err(format!("contents: {block:x?} changed at byte {offset} while it was owned"));
        block.find_damage(bytes).map_or(Ok(()), wrong)
    }
}

impl Drop for Model {
    /// After a failure: leaves the heap as it was found, as far as that is possible.
    fn drop(&mut self) {
        while !self.blocks.is_empty() {
            self.forget(self.blocks.len() - 1);
        }
    }
}

pub struct AtRest {
    blocks: usize,
}

impl AtRest {
    pub fn begin() -> Self {
        AtRest { blocks: blocks_in_use(&HashSet::new()).unwrap_or_default() }
    }

    /// Checks the heap's invariants, which nobody may use meanwhile, and that it holds what is owned and nothing else.
    pub fn check(&self, owned: &Owned) -> Result<(), Failure> {
        let starts = owned.starts();
        let found = blocks_in_use(&starts)?;
        if found != self.blocks + starts.len() {
            let expected = self.blocks + starts.len();
            return Err(format!("count: the heap holds {found} blocks in use, expected {expected}"));
        }
        Ok(())
    }
}

/// Small and large blocks in use; fails if one of `starts` is in an array, or anything is in two.
fn blocks_in_use(starts: &HashSet<usize>) -> Result<usize, Failure> {
    let (mut cached, mut twice) = (HashSet::new(), None);
    let in_use = heap::check::check_valid(|object| {
        if !cached.insert(object as usize) || starts.contains(&(object as usize)) {
            twice = Some(object);
        }
    });
    match twice {
        Some(object) => Err(format!("overlap: {object:p} is in an array, and in use or in another array")),
        None => Ok(in_use.objects + in_use.large_blocks),
    }
}
