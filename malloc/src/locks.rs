//! The C function of `commensal.h` for the lock report: names for `commensal_runtime::heap::locks`.
//!
//! A row holds its texts, because the compiler's names of functions do not end with a zero byte.

use commensal_runtime::heap::locks;
use commensal_runtime::observe::columns::{Row, insert};
use commensal_runtime::observe::page::Text;
use core::ffi::c_char;
use core::mem::MaybeUninit;

/// The waits of one function of the library for its locks of one type.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct LockRow {
    /// Acquisitions that had to wait.
    pub contended: u64,
    /// The sum of all waits in nanoseconds.
    pub total_wait_ns: u64,
    /// The longest wait in nanoseconds, at most total_wait_ns.
    pub max_wait_ns: u64,
    /// The average wait in nanoseconds: total_wait_ns / contended.
    pub avg_wait_ns: u64,
    /// The structure that the locks protect, such as "page heap" or "page list". Ends with a zero byte.
    pub r#type: [c_char; 16],
    /// The function that waited, such as "page_heap::runs::PageHeap::free". Ends with a zero byte.
    pub caller: [c_char; 96],
}

/// Waits that are in no row: the library has room for 32 callers of each type of lock.
#[repr(C)]
pub struct LockLost {
    /// Acquisitions that had to wait.
    pub contended: u64,
    /// The sum of all waits in nanoseconds.
    pub total_wait_ns: u64,
}

const _: () = {
    let mut at = 0;
    while at < locks::NAMES.len() {
        assert!(locks::NAMES[at].as_str().len() < 16);
        at += 1;
    }
};

/// A text and a zero byte, at least.
fn text_of<const N: usize>(text: &str) -> [c_char; N] {
    let mut row = [0; N];
    row.iter_mut().zip(text.bytes()).take(N - 1).for_each(|(place, byte)| *place = byte as c_char);
    row
}

impl From<Row> for LockRow {
    fn from(row: Row) -> Self {
        LockRow {
            contended: row.contended,
            total_wait_ns: row.total_wait_ns,
            max_wait_ns: row.max_wait_ns,
            avg_wait_ns: row.avg_wait_ns,
            r#type: text_of(row.class),
            caller: text_of(Text::<95>::of(row.caller).as_str()),
        }
    }
}

/// Writes up to `capacity` rows into `rows`: one for each function that has waited for a lock of the library since the
/// program started, the longest total wait first. `lost` receives the waits that are in no row, or is NULL. `rows` may
/// be NULL if `capacity` is 0.
///
/// Returns the number of rows that there are, which may exceed `capacity`. If other threads wait meanwhile, their
/// latest waits may be missing.
///
/// Time: proportional to the rows that there are and to `capacity`. After fork: yes; the child's rows start as copies
/// of its parent's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_lock_report(rows: *mut LockRow, capacity: usize, lost: *mut LockLost) -> usize {
    let rows: &mut [MaybeUninit<LockRow>] = if capacity == 0 {
        &mut []
    } else {
        // SAFETY: the caller has room for so many.
        unsafe { core::slice::from_raw_parts_mut(rows.cast(), capacity) }
    };
    let (mut written, mut found) = (0, 0);
    let in_no_row = locks::for_each_row(|row| {
        found += 1;
        // SAFETY: `insert` looks at those only that it put there.
        let total = |row: &MaybeUninit<LockRow>| unsafe { row.assume_init_ref() }.total_wait_ns;
        insert(rows, &mut written, MaybeUninit::new(row.into()), total);
    });
    // SAFETY: null, or the caller's.
    if let Some(lost) = unsafe { lost.as_mut() } {
        *lost = LockLost { contended: in_no_row.contended, total_wait_ns: in_no_row.total_wait_ns };
    }
    found
}
