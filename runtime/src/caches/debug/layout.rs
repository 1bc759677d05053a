//! The layout of an object in a debug cache, and the fill of its surroundings.

use super::options::{Damage, Found, Options};
use super::record::Record;
use core::slice;

/// Fills red zones of objects in use.
pub(super) const ZONE: u8 = 0xbb;
/// Fills new objects: an odd pointer, a large number, no valid address.
pub(super) const UNSET: u8 = 0x5a;
/// Fills freed objects.
pub(super) const FREED: u8 = 0x6b;

const ZONE_BYTES: usize = 16;

#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    pub options: Options,
    /// Bytes before the object.
    pub lead: usize,
    /// Most bytes of an object.
    pub bytes: usize,
    /// Bytes of all parts.
    pub whole: usize,
}

impl Layout {
    pub const NONE: Self = Layout { options: Options::NONE, lead: 0, bytes: 0, whole: 0 };

    /// The layout for objects of at most so many bytes, aligned so.
    pub fn of(options: Options, bytes: usize, alignment: usize) -> Self {
        let zone = if options.has(Options::REDZONE) { ZONE_BYTES } else { 0 };
        let alignment = alignment.max(align_of::<Record>());
        let lead = (Record::bytes_for(options) + zone).next_multiple_of(alignment);
        Layout { options, lead, bytes, whole: (lead + bytes + zone).next_multiple_of(alignment) }
    }

    /// The program's pointer.
    pub fn object(self, whole: *mut u8) -> *mut u8 {
        whole.wrapping_add(self.lead)
    }

    /// The fill of free objects.
    pub fn unused_byte(self) -> u8 {
        if self.options.has(Options::POISON) { FREED } else { ZONE }
    }

    /// The record, unless the program has overwritten it.
    ///
    /// # Safety
    /// For all that follow: `whole` is an object of this layout.
    pub unsafe fn record_of<'a>(self, whole: *mut u8) -> Option<&'a Record> {
        // SAFETY: passed on.
        let record = unsafe { Record::of(whole) };
        (record.is_marked() && record.bytes() <= self.bytes).then_some(record)
    }

    /// Fills the red zone before the object.
    pub unsafe fn fill_before(self, whole: *mut u8) {
        let record = Record::bytes_for(self.options);
        // SAFETY: passed on.
        unsafe { whole.add(record).write_bytes(ZONE, self.lead - record) };
    }

    /// Fills the object from byte `first` on, and the red zone behind it.
    pub unsafe fn fill_from(self, whole: *mut u8, first: usize, with: u8) {
        // SAFETY: passed on.
        unsafe { self.object(whole).add(first).write_bytes(with, self.whole - self.lead - first) };
    }

    /// Damage around an object of so many bytes.
    pub unsafe fn damage_around(self, whole: *mut u8, bytes: usize) -> Option<Found> {
        if !self.options.has(Options::REDZONE) {
            return None;
        }
        let record = Record::bytes_for(self.options);
        // SAFETY: passed on.
        unsafe {
            let before = changed(whole.add(record), self.lead - record, ZONE);
            let before = before.map(|damage| Found::Before(damage.moved(record as isize - self.lead as isize)));
            before.or_else(|| {
                let behind = changed(self.object(whole).add(bytes), self.whole - self.lead - bytes, ZONE);
                behind.map(|damage| Found::Behind(damage.moved(bytes as isize)))
            })
        }
    }

    /// Damage in a free object that is filled.
    pub unsafe fn damage_within(self, whole: *mut u8) -> Option<Found> {
        // SAFETY: passed on.
        unsafe { changed(self.object(whole), self.whole - self.lead, FREED) }.map(Found::Inside)
    }
}

/// Damage in bytes that should all be `expected`.
unsafe fn changed(start: *mut u8, bytes: usize, expected: u8) -> Option<Damage> {
    // SAFETY: passed on.
    let bytes = unsafe { slice::from_raw_parts(start, bytes) };
    let first = bytes.iter().position(|&byte| byte != expected)?;
    let count = bytes.iter().filter(|&&byte| byte != expected).count();
    Some(Damage { first: first as isize, found: bytes[first], expected, count })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caches::debug::options::DEBUG;

    #[test]
    fn debug_option_is_the_bit_of_its_word() {
        let all = ["redzone", "poison", "track", "quarantine"].map(|word| DEBUG.parse(word));
        let bits =
            [Options::REDZONE, Options::POISON, Options::TRACK, Options::QUARANTINE].map(|one| Some(one.0.into()));
        assert_eq!(all, bits);
    }

    #[test]
    fn objects_lie_where_they_were_wanted_with_room_around() {
        for options in ["redzone", "poison", "track", "redzone+track", "all"] {
            let options = Options(DEBUG.parse(options).expect("options") as u8);
            for (bytes, alignment) in [(1, 1), (13, 8), (100, 16), (4096, 4096), (128 << 10, 64 << 10)] {
                let layout = Layout::of(options, bytes, alignment);
                let zone = if options.has(Options::REDZONE) { 16 } else { 0 };
                assert!(layout.lead.is_multiple_of(alignment) && layout.whole.is_multiple_of(alignment));
                assert!(layout.lead >= Record::bytes_for(options) + zone && layout.whole >= layout.lead + bytes + zone);
            }
        }
    }
}
