//! `machine::root`: the one region that all state hangs from, and the one area beside it.

use crate::case::{Findings, Outcome, demand, ensure, operations};
use crate::runner::{Fork, Placement, Runner, alone, crowd, stay};
use core::ptr::null_mut;
use machine::sync::{AtomicPtr, AtomicUsize, Ordering};
use machine::{root, thread, vm};

operations! {
    /// Publishes a region, once.
    ///
    /// ```text
    /// install(region):
    ///     atomically: if one is installed: return false
    ///                 base = region
    ///     return true
    /// ```
    ///
    /// It waits for nobody: handlers may call it, and the process may fork meanwhile.
    install: fn(region: *mut u8) -> bool = root::install,

    /// The region, with all that was written to it before it was installed; before, zeroes that must not be written.
    base: fn() -> *mut u8 = root::base,

    /// Whether a region was installed at some moment of the call.
    is_installed: fn() -> bool = root::is_installed,

    /// Publishes an area, once.
    ///
    /// ```text
    /// offer_area(area):
    ///     atomically: if there is an area: return false
    ///                 the area = area
    ///     return true
    /// ```
    ///
    /// It waits for nobody: handlers may call it, and the process may fork meanwhile.
    offer_area: fn(area: *mut u8) -> bool = root::offer_area,

    /// [`root::DOMAIN_BYTES`] bytes of the process, zero at first, aligned to 64, never moved. A fork child has a copy.
    domain: fn() -> *mut u8 = root::domain,

    /// The area, with all that was written to it before it was offered; before, null.
    area: fn() -> *mut u8 = root::area,
}

crate::cases! {
    CASES of Operations::MACHINE;
    "root::base" => zero_at_first, {
        "not zero" { base: planted::somewhere }
    }
    "root::install" => installed_once, {
        "does not compare" {
            install: |area| (planted::AREA.store(area, Ordering::Release), true).1,
            base: planted::base, is_installed: planted::is_installed
        }
        "looks, then stores" {
            install: planted::look_then_store, base: planted::base, is_installed: planted::is_installed
        }
        "before it is ready" {
            install: planted::offer_early, base: planted::base, is_installed: planted::is_installed
        }
    }
    "root::domain" => kept, {
        "not zero" { domain: planted::begun }
        "another one each time" {
            domain: || vm::reserve(null_mut(), root::DOMAIN_BYTES, vm::Access::ReadWrite).expect("there is space")
        }
    }
    "root::offer_area" => offered_once, {
        "does not compare" {
            offer_area: |area| (planted::AREA.store(area, Ordering::Release), true).1, area: planted::area
        }
        "looks, then stores" { offer_area: planted::look_then_store, area: planted::area }
        "before it is ready" { offer_area: planted::offer_early, area: planted::area }
    }
    "root::area" => offered_once, {
        "not null" { area: planted::somewhere }
        "hidden from some" { area: || if thread::identity().is_multiple_of(2) { root::area() } else { null_mut() } }
    }
}

pub fn zero_at_first(_: &dyn Runner, operations: &Operations) -> Outcome {
    ensure!(!(operations.is_installed)(), "a new process has a region already");
    let base: *const u64 = (operations.base)().cast();
    // SAFETY: as many bytes may be read.
    let word = |index| unsafe { base.add(index).read_volatile() };
    let found = (0..root::BOOTSTRAP_BYTES / 8).map(word).position(|word| word != 0);
    ensure!(found.is_none(), "word {} of the stand-in is not zero", found.unwrap_or(0));
    Ok(())
}

pub fn kept(runner: &dyn Runner, operations: &Operations) -> Outcome {
    let word = |index: usize| {
        // SAFETY: so many bytes are there, and all that uses them here are these atomics.
        unsafe { &*(operations.domain)().cast::<AtomicUsize>().add(index) }
    };
    ensure!((operations.domain)().addr().is_multiple_of(64), "the domain is not aligned to 64");
    let words = root::DOMAIN_BYTES / 8;
    let found = (0..words).position(|index| word(index).load(Ordering::Relaxed) != 0);
    ensure!(found.is_none(), "word {} of the domain is not zero", found.unwrap_or(0));
    word(words - 1).store(1, Ordering::Relaxed);
    let seen = alone(runner, || word(words - 1).fetch_add(1, Ordering::Relaxed));
    ensure!(seen == 1, "another thread found {seen} where 1 was written");
    let is_copy = || word(words - 1).fetch_add(1, Ordering::Relaxed) == 2;
    runner.fork(Fork::Bare, &mut || is_copy().then_some(()).ok_or("a child's domain is no copy")).well()?;
    let left = word(words - 1).load(Ordering::Relaxed);
    ensure!(left == 2, "the last word of the domain is {left}, where 2 was written");
    Ok(())
}

pub fn installed_once(runner: &dyn Runner, operations: &Operations) -> Outcome {
    let region = || if (operations.is_installed)() { (operations.base)() } else { null_mut() };
    published_once(runner, operations.install, &region)
}

pub fn offered_once(runner: &dyn Runner, operations: &Operations) -> Outcome {
    published_once(runner, operations.offer_area, &operations.area)
}

/// All threads publish an area at the same time, and handlers, too; `area` is null before.
fn published_once(runner: &dyn Runner, publish: fn(*mut u8) -> bool, area: &(dyn Fn() -> *mut u8 + Sync)) -> Outcome {
    const TIMES: usize = 10;
    // An area is a page here, of which these words hold its address.
    const ENDS: [usize; 2] = [0, vm::PAGE / 8 - 1];
    ensure!(area().is_null(), "a new process has an area already");
    let (findings, accepted, arrived) = (Findings::new(), AtomicUsize::new(0), AtomicUsize::new(0));
    let (seen, threads) = (AtomicUsize::new(0), runner.width());
    let look = || {
        let area: *mut usize = area().cast();
        if !area.is_null() {
            // SAFETY: areas are pages that stay, and are not written any more.
            let ends = ENDS.map(|word| unsafe { area.add(word).read() });
            demand!(findings, ends == [area.addr(); 2], "an area was seen before it was ready: where", area.addr());
            let first = seen.compare_exchange(0, area.addr(), Ordering::Relaxed, Ordering::Relaxed);
            demand!(findings, first.is_ok() || first == Err(area.addr()), "the area changed", area.addr());
        }
        area.addr()
    };
    let offer = || {
        let Some(page) = vm::reserve(null_mut(), vm::PAGE, vm::Access::ReadWrite) else { return };
        for word in ENDS {
            // SAFETY: the page is ours until it is offered.
            unsafe { page.cast::<usize>().add(word).write(page.addr()) };
        }
        let done = publish(page);
        accepted.fetch_add(done as usize, Ordering::Relaxed);
        if !done {
            // SAFETY: the page was refused, so it is still ours.
            unsafe { vm::release(page, vm::PAGE) };
        }
        let now = look();
        demand!(findings, now != 0, "an area was offered, and there is none");
        demand!(findings, done == (now == page.addr()), "an offer did not do what it said", done);
    };
    let job = |_| {
        arrived.fetch_add(1, Ordering::Relaxed);
        while arrived.load(Ordering::Relaxed) < threads {
            look();
            runner.pause();
        }
        (0..TIMES).for_each(|_| offer());
    };
    runner.run(Placement::Anywhere, crowd(threads, &job), Some(&offer));
    findings.outcome()?;
    let accepted = accepted.into_inner();
    ensure!(accepted == 1, "{accepted} areas were accepted, of more than {}", threads * TIMES);
    Ok(())
}

/// Wrong roots. They keep the machine's own base as the stand-in, and one area of their own.
mod planted {
    use super::*;

    pub(super) fn somewhere() -> *mut u8 {
        static FILLED: [u64; root::BOOTSTRAP_BYTES / 8] = {
            let mut words = [0; root::BOOTSTRAP_BYTES / 8];
            words[root::BOOTSTRAP_BYTES / 8 - 1] = 1;
            words
        };
        (&raw const FILLED).cast_mut().cast()
    }

    pub(super) fn begun() -> *mut u8 {
        #[repr(align(64))]
        struct Words([AtomicUsize; root::DOMAIN_BYTES / 8]);
        static WORDS: Words = Words([const { AtomicUsize::new(1) }; root::DOMAIN_BYTES / 8]);
        (&raw const WORDS.0).cast_mut().cast()
    }

    pub(super) static AREA: AtomicPtr<u8> = AtomicPtr::new(null_mut());

    pub(super) fn area() -> *mut u8 {
        AREA.load(Ordering::Acquire)
    }

    pub(super) fn base() -> *mut u8 {
        if area().is_null() { root::base() } else { area() }
    }

    pub(super) fn is_installed() -> bool {
        !area().is_null()
    }

    const LINGER_NS: u64 = 20_000_000;

    pub(super) fn look_then_store(area: *mut u8) -> bool {
        let none = AREA.load(Ordering::Acquire).is_null();
        if none {
            stay(LINGER_NS);
            AREA.store(area, Ordering::Release);
        }
        none
    }

    /// The first word is written when others see the area already.
    pub(super) fn offer_early(area: *mut u8) -> bool {
        // SAFETY: the area is a page, and words are atomic.
        let first = unsafe { &*area.cast::<AtomicUsize>() };
        let word = first.swap(0, Ordering::Relaxed);
        let done = AREA.compare_exchange(null_mut(), area, Ordering::Release, Ordering::Relaxed).is_ok();
        if done {
            stay(LINGER_NS);
        }
        first.store(word, Ordering::Release);
        done
    }
}
