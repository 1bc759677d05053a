//! One object, from an object cache or from the general size classes: an allocation and a release, alone and with the
//! work that makes raw memory an object; and how much memory an object takes.

use crate::Threads;
use crate::timing::{floor_ns, long_or_short, sixteen_times, task_floor_ns, together_ns};
use commensal_runtime::caches::{ObjectCache, Wanted};
use commensal_runtime::heap;
use core::array;
use core::hint::black_box;
use core::ptr::null_mut;
use machine::clock::IS_STEADY;

/// As many objects are allocated, then freed in the same order.
const DEPTH: usize = 64;
/// As often, between two looks at the clock.
const BATCH: u32 = 16;
/// So many objects are alive when their memory is looked at.
const HELD: usize = long_or_short(20_000, 2_000) as usize;
/// Words that a constructor fills, one after the other, each from the one before: about a hundred nanoseconds.
const WORDS: usize = 64;
/// Bytes of an object that has a constructor.
pub const CONSTRUCTED_BYTES: usize = 904;

pub trait Source: Sync {
    /// An object; null if there is no memory.
    fn allocate(&self) -> *mut u8;

    /// Gives it back.
    ///
    /// # Safety
    /// It came from here, and is the caller's to give up.
    unsafe fn free(&self, object: *mut u8);
}

/// The runtime's own functions for general sizes.
pub struct General {
    /// Of an object.
    pub bytes: usize,
}

impl Source for General {
    #[inline(always)]
    fn allocate(&self) -> *mut u8 {
        heap::allocate(self.bytes)
    }

    #[inline(always)]
    unsafe fn free(&self, object: *mut u8) {
        // SAFETY: passed on.
        unsafe { heap::free(object) }
    }
}

pub struct Dedicated(&'static ObjectCache);

impl Dedicated {
    pub fn of(bytes: usize) -> Option<Self> {
        ObjectCache::create(&Wanted::plain(b"context", bytes, 1)).ok().map(Dedicated)
    }

    /// Likewise, with arrays of eight objects that do not grow with the load, and enough of them for what is measured
    /// here.
    pub fn with_small_arrays(bytes: usize) -> Option<Self> {
        let cache = Self::of(bytes)?;
        cache.0.tune(4 * DEPTH, 8).ok()?;
        Some(cache)
    }
}

impl Source for Dedicated {
    #[inline(always)]
    fn allocate(&self) -> *mut u8 {
        self.0.allocate()
    }

    #[inline(always)]
    unsafe fn free(&self, object: *mut u8) {
        // SAFETY: passed on.
        unsafe { self.0.free(object) }
    }
}

/// A library's functions for caches.
#[derive(Clone, Copy)]
pub struct CacheCalls {
    /// As `cm_cache_alloc`.
    pub allocate: unsafe extern "C" fn(*mut u8) -> *mut u8,
    /// As `cm_cache_free`.
    pub free: unsafe extern "C" fn(*mut u8, *mut u8),
    /// What they are called with.
    pub cache: *mut u8,
}

// SAFETY: any thread may use a cache.
unsafe impl Sync for CacheCalls {}

impl Source for CacheCalls {
    #[inline(always)]
    fn allocate(&self) -> *mut u8 {
        // SAFETY: the cache exists.
        unsafe { (self.allocate)(self.cache) }
    }

    #[inline(always)]
    unsafe fn free(&self, object: *mut u8) {
        // SAFETY: passed on.
        unsafe { (self.free)(self.cache, object) }
    }
}

/// A library's functions for general sizes.
#[derive(Clone, Copy)]
pub struct GeneralCalls {
    /// As `malloc`.
    pub allocate: unsafe extern "C" fn(usize) -> *mut u8,
    /// As `free`.
    pub free: unsafe extern "C" fn(*mut u8),
    pub bytes: usize,
}

impl Source for GeneralCalls {
    #[inline(always)]
    fn allocate(&self) -> *mut u8 {
        // SAFETY: any size is allowed.
        unsafe { (self.allocate)(self.bytes) }
    }

    #[inline(always)]
    unsafe fn free(&self, object: *mut u8) {
        // SAFETY: passed on.
        unsafe { (self.free)(object) }
    }
}

/// Nanoseconds of an allocation and a release, by the only thread that the process ever had. None: no memory.
///
/// In the shape of loop that suits the source better: see `better`.
pub fn solo_ns(source: &impl Source) -> Option<f64> {
    let rolled = || floor_ns(|rounds| (0..rounds).try_for_each(|_| pairs::<false>(source)));
    let unrolled = || floor_ns(|rounds| (0..rounds).try_for_each(|_| pairs::<true>(source)));
    Some(better(rolled, unrolled)? / DEPTH as f64)
}

/// The same by each of so many threads at once.
pub fn pair_ns(source: &impl Source, threads: (u32, &dyn Threads)) -> Option<f64> {
    let done = |()| DEPTH as u64;
    let rolled = || together_ns(threads, BATCH, || pairs::<false>(source).map(done));
    let unrolled = || together_ns(threads, BATCH, || pairs::<true>(source).map(done));
    better(|| Some(rolled()?.0), || Some(unrolled()?.0))
}

/// Some allocators are faster when they are called from one place, others from many. Where that makes no difference,
/// one is measured.
fn better(rolled: impl FnOnce() -> Option<f64>, unrolled: impl FnOnce() -> Option<f64>) -> Option<f64> {
    if IS_STEADY { rolled() } else { Some(rolled()?.min(unrolled()?)) }
}

/// Nothing besides: no object is looked at but for being there.
#[inline(always)]
fn pairs<const UNROLLED: bool>(source: &impl Source) -> Option<()> {
    let mut objects = allocated::<UNROLLED>(source)?;
    // SAFETY: each was allocated above.
    each::<UNROLLED>(&mut objects, |object| unsafe { source.free(*object) });
    Some(())
}

/// None: there is no memory for all of them.
#[inline(always)]
fn allocated<const UNROLLED: bool>(source: &impl Source) -> Option<[*mut u8; DEPTH]> {
    let mut objects = [null_mut(); DEPTH];
    each::<UNROLLED>(&mut objects, |object| *object = source.allocate());
    if objects.iter().any(|object| object.is_null()) {
        // SAFETY: each was allocated above.
        objects.iter().filter(|object| !object.is_null()).for_each(|&object| unsafe { source.free(object) });
        return None;
    }
    Some(objects)
}

#[inline(always)]
fn each<const UNROLLED: bool>(objects: &mut [*mut u8; DEPTH], mut task: impl FnMut(&mut *mut u8)) {
    if !UNROLLED {
        return objects.iter_mut().for_each(task);
    }
    for sixteen in objects.as_chunks_mut::<16>().0 {
        sixteen_times!(|at| task(&mut sixteen[at]));
    }
}

/// The same objects where each user has to make them of raw memory, or where they stay made: then it is counted as
/// wrong if one is not. None: no memory, or an object was not constructed.
///
/// Nanoseconds of an allocation, the constructor if it is needed, a look at the object, and a release; and of the
/// constructor alone.
pub fn constructed(source: &impl Source, stays: bool) -> Option<[f64; 2]> {
    // Not known to the compiler, which could know all words else.
    let last = black_box(constructed_words()[WORDS - 1]);
    let task = |object: *mut u8| {
        if !stays {
            // SAFETY: so many bytes are ours.
            unsafe { construct(object, null_mut()) };
        }
        // SAFETY: as above; somebody constructed it.
        unsafe { *object.cast::<u64>().add(WORDS - 1) == last }
    };
    let mut are_right = true;
    let task_ns = floor_ns(|rounds| {
        for _ in 0..rounds {
            let objects: [*mut u8; DEPTH] = array::from_fn(|_| black_box(source.allocate()));
            for object in objects {
                if object.is_null() {
                    return None;
                }
                are_right &= task(object);
            }
            // SAFETY: each was allocated above.
            objects.iter().for_each(|&object| unsafe { source.free(object) });
        }
        Some(())
    })?;
    Some([task_ns / DEPTH as f64, constructor_ns(source)?]).filter(|_| are_right)
}

/// The constructor of objects that stay the caller's.
fn constructor_ns(source: &impl Source) -> Option<f64> {
    let objects = allocated::<false>(source)?;
    // SAFETY: so many bytes of each are ours.
    let time = task_floor_ns(|| objects.iter().for_each(|&object| unsafe { construct(object, null_mut()) }));
    // SAFETY: each was allocated above.
    objects.iter().for_each(|&object| unsafe { source.free(object) });
    Some(time / DEPTH as f64)
}

/// Makes an object of raw memory of [`CONSTRUCTED_BYTES`].
///
/// # Safety
/// So many bytes are the caller's.
pub unsafe extern "C" fn construct(object: *mut u8, _argument: *mut u8) {
    // SAFETY: passed on; allocators align blocks of this size for words.
    unsafe { object.cast::<[u64; WORDS]>().write(constructed_words()) };
}

#[inline(always)]
fn constructed_words() -> [u64; WORDS] {
    const STEPS: usize = 3;
    let mut word = black_box(1_u64);
    array::from_fn(|_| {
        (0..STEPS).for_each(|_| word = word.rotate_left(23).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        word
    })
}

/// Bytes that an object takes, everything counted, by what `resident` says of the process before and after so many are
/// alive. None: no memory.
pub fn bytes_per_object<E>(
    source: &impl Source, bytes: usize, resident: impl Fn() -> Result<u64, E>,
) -> Result<Option<f64>, E> {
    // What is set up once counts for nobody.
    if pairs::<false>(source).is_none() {
        return Ok(None);
    }
    let before = resident()?;
    // They hang together, the last one first, so that nothing else is allocated.
    let (mut last, mut held) = (null_mut::<u8>(), 0);
    while held < HELD {
        let object = source.allocate();
        if object.is_null() {
            break;
        }
        // SAFETY: so many bytes are ours.
        unsafe {
            object.write_bytes(1, bytes);
            object.cast::<*mut u8>().write_unaligned(last);
        }
        (last, held) = (object, held + 1);
    }
    let after = resident();
    while !last.is_null() {
        // SAFETY: the link that was written above, of an object that is ours.
        let next = unsafe { last.cast::<*mut u8>().read_unaligned() };
        // SAFETY: as above.
        unsafe { source.free(last) };
        last = next;
    }
    let grown = after?.saturating_sub(before);
    Ok((held == HELD).then(|| grown as f64 / HELD as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Raw memory where constructed objects were promised is found out.
    #[test]
    fn cache_that_does_not_construct_has_no_figures() {
        let source = Dedicated::of(CONSTRUCTED_BYTES).unwrap();
        assert!(constructed(&source, true).is_none());
        let [task_ns, constructor_ns] = constructed(&source, false).unwrap();
        // One is in the other, and they are measured one after the other: the machine may be faster then.
        assert!(task_ns > constructor_ns / 2.0 && constructor_ns > 10.0, "{task_ns} {constructor_ns}");
    }

    #[test]
    fn bytes_are_what_the_process_grew_by() {
        let source = Dedicated::of(200).unwrap();
        let said = core::cell::Cell::new(1_000_000);
        let resident = || Ok::<u64, ()>(said.replace(1_000_000 + 208 * HELD as u64));
        assert_eq!(bytes_per_object(&source, 200, resident), Ok(Some(208.0)));
        assert_eq!(bytes_per_object(&source, 200, || Err(())), Err(()));
    }
}
