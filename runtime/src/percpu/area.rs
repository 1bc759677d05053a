//! Areas, which hand out blocks.
//!
//! An area reserves chunks of address space, each with rows for all possible slots, and cuts them into blocks. Rows of
//! unused slots stay untouched and cost no memory. The area keeps returned blocks by size. It wipes their touched part
//! on return, so taking one touches only its head. The process has one area, made at the first upgrade of a counter
//! ([`Area::of_process`]). Experiments make others: for more CPUs, or eager ones, which prepare blocks for all CPUs.
//!
//! Runs at the same time: any number of threads. One takes at a time; any number give back, also in signal handlers.

use super::block::{Area, Block, LINE, LINES, Preparation, SHARED_ROWS};
use core::mem::ManuallyDrop;
use core::ops::Deref;
use core::ptr::{NonNull, null_mut};
use machine::slot::{self, ROW};
use machine::sync::{Acquired, Ordering};
use machine::{here, root, thread, vm};

impl Area {
    /// A new area whose blocks have rows for `cpus` CPUs, and for all slots of this machine. None: no address space.
    pub fn new(cpus: usize, preparation: Preparation) -> Option<&'static Area> {
        slot::initialise();
        let page = vm::reserve(null_mut(), vm::PAGE, vm::Access::ReadWrite)?;
        let area = page.cast::<Area>();
        // SAFETY: the page is ours; only `of_process` unmaps it, before others see it; zeroes are a valid area.
        unsafe {
            (&raw mut (*area).rows).write(cpus.max(slot::possible()));
            (&raw mut (*area).preparation).write(preparation);
            Some(&*area)
        }
    }

    /// The area of the process, made at the first call. None: no address space.
    #[inline]
    pub fn of_process() -> Option<&'static Area> {
        // SAFETY: null, or an area that was published.
        unsafe { root::area().cast::<Area>().as_ref() }.or_else(Self::begin)
    }

    pub(crate) fn is_made() -> bool {
        !root::area().is_null()
    }

    /// Threads that vanish in a fork may hold the locks of the area and its blocks, so children must notice the fork.
    #[cold]
    fn begin() -> Option<&'static Area> {
        if !thread::notice_forks() {
            return None;
        }
        let area = Self::new(0, Preparation::OnReturn)?;
        let page = (&raw const *area).cast_mut().cast();
        if !root::offer_area(page) {
            // SAFETY: no other thread has seen the page.
            unsafe { vm::release(page, vm::PAGE) };
        }
        // SAFETY: as in `of_process`.
        unsafe { root::area().cast::<Area>().as_ref() }
    }

    /// Number of blocks in use at some moment.
    pub fn in_use(&self) -> u64 {
        self.in_use.load(Ordering::Relaxed)
    }

    /// A zeroed block with `bytes` in each row, at most all, and stocks below `range`. None: no address space.
    pub fn take(&'static self, bytes: usize, range: i32) -> Option<OwnedBlock> {
        let lines = bytes.div_ceil(LINE).max(1);
        debug_assert!(lines <= LINES);
        super::enter();
        match self.lock.acquire(&self.contention, here!()) {
            Acquired::WouldDeadlock => return self.cut_aside(lines, range),
            // The thread that vanished may have cut part of the chunk's rest.
            Acquired::Abandoned => self.lines_left.store(0, Ordering::Relaxed),
            Acquired::Clean => {}
        }
        let block = self.pop(lines).or_else(|| self.cut(lines));
        // SAFETY: acquired above.
        unsafe { self.lock.release() };
        Some(self.prepared(block?, range))
    }

    fn prepared(&self, block: Block, range: i32) -> OwnedBlock {
        // Relaxed: published with the block.
        block.head().range.store(range as u32, Ordering::Relaxed);
        self.in_use.fetch_add(1, Ordering::Relaxed);
        if let Preparation::ForAll { cpus } = self.preparation {
            block.wipe(0..cpus as u32);
        }
        OwnedBlock(block)
    }

    /// For a signal handler that must not wait: a block of a new chunk, whose other blocks become ready.
    #[cold]
    fn cut_aside(&'static self, lines: usize, range: i32) -> Option<OwnedBlock> {
        let chunk = self.new_chunk()?;
        let block = |number: usize| self.name(chunk + number * lines * LINE, lines);
        (1..LINES / lines).for_each(|number| self.make_ready(block(number)));
        Some(self.prepared(block(0), range))
    }

    /// Takes a block back that is no longer used.
    fn give_back(&'static self, block: Block) {
        block.wipe(block.touched_slots().filter(|&slot| slot as usize >= self.laid_out_for()));
        self.in_use.fetch_sub(1, Ordering::Relaxed);
        self.make_ready(block);
    }

    fn make_ready(&self, block: Block) {
        let head = block.head();
        let ready = &self.ready[head.lines.load(Ordering::Relaxed) as usize];
        let mut first = ready.load(Ordering::Relaxed);
        loop {
            head.next.store(first, Ordering::Relaxed);
            let ours = (&raw const *head).cast_mut();
            // Release pairs with the acquire in `pop`: the thread that takes the block sees it wiped, and its link.
            // Relaxed on failure: the value is only a link.
            match ready.compare_exchange_weak(first, ours, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(seen) => first = seen,
            }
        }
    }

    /// Under the lock.
    fn pop(&self, lines: usize) -> Option<Block> {
        let ready = &self.ready[lines];
        let mut first = NonNull::new(ready.load(Ordering::Acquire))?;
        loop {
            // SAFETY: heads are never unmapped, and no other thread pops, so it is still on the stack.
            let next = unsafe { first.as_ref() }.next.load(Ordering::Relaxed);
            // Acquire as above, also for blocks pushed since.
            match ready.compare_exchange_weak(first.as_ptr(), next, Ordering::Acquire, Ordering::Acquire) {
                Ok(_) => return Some(Block::of_head(first)),
                Err(seen) => first = NonNull::new(seen)?,
            }
        }
    }

    /// Under the lock: cuts a block that was never used.
    fn cut(&'static self, lines: usize) -> Option<Block> {
        if self.lines_left.load(Ordering::Relaxed) < lines {
            self.next.store(self.new_chunk()?, Ordering::Relaxed);
            self.lines_left.store(LINES, Ordering::Relaxed);
        }
        let column = self.next.load(Ordering::Relaxed);
        self.lines_left.fetch_sub(lines, Ordering::Relaxed);
        self.next.store(column + lines * LINE, Ordering::Relaxed);
        Some(self.name(column, lines))
    }

    fn name(&'static self, column: usize, lines: usize) -> Block {
        let block = Block::at(column + SHARED_ROWS * ROW);
        block.head().area.store((&raw const *self).cast_mut(), Ordering::Relaxed);
        block.head().lines.store(lines as u32, Ordering::Relaxed);
        block
    }

    fn new_chunk(&self) -> Option<usize> {
        let bytes = ((SHARED_ROWS + self.rows) * ROW).next_multiple_of(vm::PAGE);
        let chunk = vm::reserve(null_mut(), bytes, vm::Access::ReadWrite)?;
        // SAFETY: the chunk is fresh and ours. A huge page would make all rows of a large machine resident.
        unsafe { vm::advise_huge(chunk, bytes, vm::Huge::Avoid) };
        Some(chunk as usize)
    }
}

/// A block that this value owns: dropping it gives the block back to its area. A [`Block`] is a look at one.
#[derive(Debug)]
#[must_use]
pub struct OwnedBlock(Block);

impl OwnedBlock {
    /// For a word that names it from now on: its name, which is odd.
    pub fn into_word(self) -> u64 {
        ManuallyDrop::new(self).0.word()
    }

    /// The block that a word named.
    ///
    /// # Safety
    /// [`into_word`](Self::into_word) said it, and the word names it no more.
    pub unsafe fn from_word(word: u64) -> Self {
        // SAFETY: passed on.
        OwnedBlock(unsafe { Block::of_word(word) })
    }
}

impl Deref for OwnedBlock {
    type Target = Block;

    #[inline(always)]
    fn deref(&self) -> &Block {
        &self.0
    }
}

impl Drop for OwnedBlock {
    fn drop(&mut self) {
        self.0.area().give_back(self.0);
    }
}
