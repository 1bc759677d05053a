//! The C functions of `commensal.h` for the heap profile: names and errno for `commensal_runtime::profile`.

use commensal_runtime::heap;
use commensal_runtime::profile::{self, Region};
use core::ffi::{CStr, c_char, c_int};

/// Begins to sample allocations, with a mean of `mean_bytes` bytes between two samples, or changes the mean. 0: that of
/// the setting `profile.gap_kib`, usually 524,288. Earlier samples stay in the profile.
///
/// Returns 0, or -1 with nothing changed.
///
/// errno: ENOMEM if there is no memory. Time: microseconds, and as long as cm_cache_shrink for each cache. Signal
/// handlers: no. After fork: yes; a child goes on with its parent's samples.
#[unsafe(no_mangle)]
pub extern "C" fn cm_profile_start(mean_bytes: usize) -> c_int {
    let mean = if mean_bytes == 0 { profile::usual_mean() } else { mean_bytes as u64 };
    if profile::start(mean) {
        return 0;
    }
    heap::out_of_memory();
    -1
}

/// Stops sampling. Blocks that were sampled stay in the profile as live until they are freed.
///
/// Time, signal handlers, after fork: as cm_profile_start.
#[unsafe(no_mangle)]
pub extern "C" fn cm_profile_stop() {
    profile::stop();
}

/// Writes the profile to a descriptor, in the format of pprof: Protocol Buffers in gzip. It has no names of functions;
/// readers find them in the program's files.
///
/// Returns 0, or -1; then a part may have been written.
///
/// errno: ENOMEM if there is no memory; otherwise that of write(2). Time: some milliseconds for a thousand call sites.
/// Other threads go on meanwhile. Signal handlers: no. After fork: yes.
#[unsafe(no_mangle)]
pub extern "C" fn cm_profile_write(descriptor: c_int) -> c_int {
    match profile::write_to(descriptor, profile::At::Run) {
        Ok(()) => 0,
        Err(number) => {
            heap::fail(number);
            -1
        }
    }
}

/// A number for a region of code, for cm_profile_enter: the same for the same name, of which 24 bytes count. 0 if there
/// are 255 names already, if the name is empty, or if there is no memory: it tags nothing.
///
/// Time: a comparison with each known name; keep the number. Signal handlers: no. After fork: yes.
/// cbindgen:postfix=CM_NOTHROW CM_NONNULL
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_profile_region(name: *const c_char) -> u32 {
    // SAFETY: the caller's string ends with a zero byte.
    let name = unsafe { CStr::from_ptr(name) };
    Region::named(name.to_bytes()).number()
}

/// Tags what the calling thread allocates from now on with a region; 0: with none. Returns the region that it was in,
/// to be entered again at the end.
///
/// Time: two instructions. Signal handlers: yes. After fork: yes.
#[unsafe(no_mangle)]
pub extern "C" fn cm_profile_enter(region: u32) -> u32 {
    Region::of_number(region).replace().number()
}
