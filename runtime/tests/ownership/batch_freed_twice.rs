//! A batch is freed once.

use commensal_runtime::caches::Heap;
use commensal_runtime::depot::Batch;

unsafe fn free(heap: &Heap, batch: Batch) {
    unsafe {
        heap.free_batch(batch, None);
        heap.free_batch(batch, None);
    }
}

fn main() {}
