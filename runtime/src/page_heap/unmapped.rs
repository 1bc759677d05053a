//! The starts of the last blocks with mappings of their own that were freed. Nothing else is left of these blocks, and
//! their second free is not foreign. If the heap maps such an address again, it is looked up there first.

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

    pub fn has(&self, start: *mut u8) -> bool {
        !start.is_null() && self.starts.contains(&(start as usize))
    }
}
