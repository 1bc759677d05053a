//! Tags: a word that the owner of a large block ties to it while the block is in use. It lies in the description of the
//! block's first page, where a free run has its links. Only the block's owner uses it.

use super::runs::PageHeap;
use super::segment::{Kind, Owner};
use core::ptr::{null_mut, with_exposed_provenance_mut};
use machine::sync::{Ordering, compiler_fence};

impl PageHeap {
    /// The tag of the large block that begins at an address; null if it has none.
    pub fn tag(&self, start: *mut u8) -> *mut u8 {
        let Some(segment) = self.find(start) else { return null_mut() };
        match segment.owner() {
            Owner::Block => segment.tag,
            Owner::PageHeap => {
                let page = segment.page(segment.page_of(start));
                let tag = (page.next as usize) << 32 | page.previous as usize;
                if page.kind == Kind::Tagged { with_exposed_provenance_mut(tag) } else { null_mut() }
            }
            Owner::Nobody => null_mut(),
        }
    }

    /// Ties a tag to a large block. False: the block cannot have one.
    ///
    /// # Safety
    /// The caller owns the large block that begins there.
    pub unsafe fn set_tag(&self, start: *mut u8, tag: *mut u8) -> bool {
        let Some(segment) = self.find(start) else { return false };
        if segment.owner() == Owner::Block {
            let segment = (&raw const *segment).cast_mut();
            // SAFETY: passed on; only the block's owner looks at its tag.
            unsafe { (*segment).tag = tag };
            return true;
        }
        let page = segment.page(segment.page_of(start));
        let word = tag.expose_provenance();
        (page.next, page.previous) = ((word >> 32) as u32, word as u32);
        // The run is in use at every moment, for a fork child that goes over the descriptions.
        compiler_fence(Ordering::Release);
        page.kind = Kind::Tagged;
        true
    }
}
