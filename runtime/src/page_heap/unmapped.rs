//! The starts of the last blocks with mappings of their own that were freed. Nothing else is left of these blocks, and
//! their second free is not foreign.

/// Blocks that are remembered.
const REMEMBERED: usize = 16;

/// Starts of the blocks that were unmapped last; 0: none. Under the page heap's lock.
#[derive(Debug)]
#[repr(C)]
pub struct Unmapped {
    starts: [usize; REMEMBERED],
    next: usize,
}

impl Unmapped {
    pub fn remember(&mut self, start: *mut u8) {
        self.starts[self.next % REMEMBERED] = start as usize;
        self.next = (self.next + 1) % REMEMBERED;
    }

    /// Forgets what began in memory that is mapped again.
    pub fn forget(&mut self, start: *mut u8, bytes: usize) {
        let is_there = |&&mut at: &&mut usize| at.wrapping_sub(start as usize) < bytes;
        self.starts.iter_mut().filter(is_there).for_each(|at| *at = 0);
    }

    pub fn has(&self, start: *mut u8) -> bool {
        !start.is_null() && self.starts.contains(&(start as usize))
    }
}
