//! The C functions of `commensal.h` for settings and statistics by name: errno and texts for `commensal_runtime::heap::names`.
//!
//! Safety, for all of them: a name is a string, and the other pointers lead to room for what is written there.

use commensal_runtime::heap::names::{self, Refusal};
use commensal_runtime::machine::process;
use core::ffi::{CStr, c_char, c_int};

/// Bytes of a name, with the zero byte at its end.
pub const CM_NAME_BYTES: usize = 48;

/// A setting or a statistic.
#[repr(C)]
pub struct Name {
    /// The name. Ends with a zero byte.
    pub name: [c_char; CM_NAME_BYTES],
    /// Whether it is a statistic. Otherwise it is a setting.
    pub is_statistic: bool,
    /// Whether cm_set sets it.
    pub can_be_set: bool,
}

/// -1, with errno.
#[cold]
fn refused(why: Refusal) -> c_int {
    process::set_error_number(match why {
        Refusal::AtStart => 1,
        Refusal::Figure => 13,
        Refusal::Text => 22,
        Refusal::OutOfRange => 34,
        Refusal::NoValue => 61,
        _ => 2,
    });
    -1
}

unsafe fn text<'a>(name: *const c_char) -> &'a str {
    // SAFETY: passed on. What is not UTF-8 is no name.
    unsafe { CStr::from_ptr(name) }.to_str().unwrap_or_default()
}

/// Reads a setting or a statistic into `value`. If the values of a setting are words, the value is the word's position
/// in `commensal conf`, from 0; of words that are joined by '+', each is a bit.
///
/// Returns 0, or -1 with `value` unchanged.
///
/// errno: ENOENT if there is no such name; EINVAL if it is a text, for cm_get_text; ENODATA if it has no value, because
/// it was not set and there is no default. Time: constant for a setting. For a statistic as long as malloc_stats, because
/// all are read: proportional to the memory and to the numbers of slots and caches.
/// cbindgen:postfix=CM_NOTHROW CM_NONNULL CM_CHECKED
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_get(name: *const c_char, value: *mut u64) -> c_int {
    // SAFETY: passed on.
    match names::get(unsafe { text(name) }) {
        Ok(read) => {
            // SAFETY: passed on.
            unsafe { value.write(read) };
            0
        }
        Err(why) => refused(why),
    }
}

/// Reads a setting or a statistic as a text: a setting as COMMENSAL_CONF has it, or the default in the words of
/// `commensal conf`; a statistic in decimal digits. Writes at most `capacity` bytes, of which the last is zero. `text`
/// may be NULL if `capacity` is 0.
///
/// Returns the length of the text, without the zero byte; from `capacity` on, the text was cut. Or -1, with nothing
/// written.
///
/// errno: ENOENT if there is no such name. Time: as for cm_get.
/// cbindgen:postfix=CM_NOTHROW CM_NONNULL_AT(1) CM_CHECKED
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_get_text(name: *const c_char, text: *mut c_char, capacity: usize) -> c_int {
    let mut length = 0;
    // SAFETY: passed on.
    let outcome = names::show(unsafe { self::text(name) }, |part| {
        let room = capacity.saturating_sub(1).saturating_sub(length).min(part.len());
        if room > 0 {
            // SAFETY: passed on: there is room up to the capacity.
            unsafe { text.add(length).copy_from_nonoverlapping(part.as_ptr().cast(), room) };
        }
        length += part.len();
    });
    if let Err(why) = outcome {
        return refused(why);
    }
    if capacity > 0 {
        // SAFETY: as above.
        unsafe { text.add(length.min(capacity - 1)).write(0) };
    }
    length as c_int
}

/// Sets a setting that may change while the program runs, such as cm_set("upkeep.interval_ms", 250). `commensal conf`
/// prints names, units, ranges and when each may be set. For words, `value` is the word's position: 0 is "off" and 1 is
/// "on". For "rcu.policy" call cm_rcu_set_policy, for "limit" and "limit.soft" cm_limit_set.
///
/// Returns 0, or -1 with the setting unchanged.
///
/// errno: ENOENT if there is no such name; ERANGE if `value` is out of its range; EPERM if only COMMENSAL_CONF can set
/// it; EACCES if it is a statistic.
/// cbindgen:postfix=CM_NOTHROW CM_NONNULL
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_set(name: *const c_char, value: u64) -> c_int {
    // SAFETY: passed on.
    names::set(unsafe { text(name) }, value).map_or_else(refused, |()| 0)
}

/// Describes the name of this number in `name`: first all settings, then all statistics of the process. In
/// "cache.NAME.debug", NAME stands for the name of an object cache; cm_get then reads its value for caches that are
/// created now. Numbers stay the same while the program runs, and are others in another version of the library.
///
/// Returns 0, or -1 with `name` unchanged.
///
/// errno: ENOENT if there are not so many names.
/// cbindgen:postfix=CM_NOTHROW CM_NONNULL CM_CHECKED
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_name_at(number: usize, name: *mut Name) -> c_int {
    let Some(described) = names::describe(number) else { return refused(Refusal::Unknown) };
    let mut told =
        Name { name: [0; CM_NAME_BYTES], is_statistic: described.is_figure, can_be_set: described.can_be_set };
    let places = told.name.iter_mut().take(CM_NAME_BYTES - 1);
    places.zip(described.name.bytes()).for_each(|(place, byte)| *place = byte as c_char);
    // SAFETY: passed on.
    unsafe { name.write(told) };
    0
}
