//! `machine::vm`: address space. Sizes and addresses are multiples of `PAGE`.
//!
//! In the pseudo-code, a page is `free`, or it is owned: `hidden` (no access), or `committed`, with contents, which are
//! zeroes at first. An operation that returns null or false has changed nothing.

use crate::case::{Findings, Outcome, demand, ensure, operations, trusted};
use crate::runner::{Ended, Fork, Placement, Runner, crowd, in_children, random};
use core::ffi::CStr;
use core::ptr::null_mut;
use machine::fault::{self, Plan, Point};
use machine::sync::Ordering;
use machine::vm::{self, Access, Closed, Huge, PAGE};

operations! {
    /// Makes free pages ours.
    ///
    /// ```text
    /// reserve(at, bytes, access):
    ///     if at = null: at = the start of some free pages, or return null
    ///     else if any of the pages is not free: return null
    ///     the pages are ours, and hidden, or committed with zeroes, as access says
    ///     return at
    /// ```
    reserve: fn(*mut u8, usize, Access) -> Option<*mut u8> = vm::reserve,
    /// Pages of ours become hidden, or committed again. Contents stay.
    protect: fn(*mut u8, usize, Access) -> bool = trusted!(|at, bytes, access| vm::protect(at, bytes, access)),
    /// Pages of ours lose their contents and hold zeroes. Their memory goes back to the system.
    decommit: fn(*mut u8, usize) -> bool = trusted!(|at, bytes| vm::decommit(at, bytes)),
    /// Committed pages of ours become hidden, and lose their contents; or none does.
    close: fn(*mut u8, usize) -> Option<Closed> = trusted!(|at, bytes| vm::close(at, bytes)),
    /// Pages of ours that were closed become committed, and hold anything.
    open: fn(*mut u8, usize, Closed) -> bool = trusted!(|at, bytes, closed| vm::open(at, bytes, closed)),
    /// Pages of ours become free.
    release: fn(*mut u8, usize) -> bool = trusted!(|at, bytes| vm::release(at, bytes)),
    /// Says what is wanted of huge pages. Contents stay.
    advise_huge: fn(*mut u8, usize, Huge) -> bool = trusted!(|at, bytes, wish| vm::advise_huge(at, bytes, wish)),
    /// Has the system show a name of pages. Contents stay.
    name: fn(*mut u8, usize, &'static CStr) -> bool = trusted!(|at, bytes, name| vm::name(at, bytes, name)),
    /// In each child of a later fork the pages hold zeroes. Here contents stay.
    wipe_on_fork: fn(*mut u8, usize) -> bool = trusted!(|at, bytes| vm::wipe_on_fork(at, bytes)),
    /// Moves contents without copying.
    ///
    /// ```text
    /// move_pages(from, to, bytes):                     both committed and ours, not overlapping
    ///     to's contents = from's contents
    ///     from's contents = zeroes
    /// ```
    move_pages: fn(*mut u8, *mut u8, usize) -> bool = trusted!(|from, to, bytes| vm::move_pages(from, to, bytes)),
    /// Bytes of ours hold zeroes, by plain writes; those beside them stay as they are. Any address and size.
    zero: fn(*mut u8, usize) = trusted!(|at, bytes| vm::zero(at, bytes)),
    /// Grows a mapping into free pages behind it, with zeroes, or frees its end. The rest stays as it is.
    resize: fn(*mut u8, usize, usize) -> bool = trusted!(|at, old, new| vm::resize(at, old, new)),
}

crate::cases! {
    CASES of Operations::MACHINE;
    "vm::reserve" => reserved, {
        "elsewhere than asked" { reserve: |_, bytes, access| vm::reserve(null_mut(), bytes, access) }
        "always accessible" { reserve: |at, bytes, _| vm::reserve(at, bytes, Access::ReadWrite) }
    }
    "vm::reserve by many" => disjoint, {
        "the same twice" { reserve: planted::reserve_again, release: |_, _| true }
    }
    "vm::protect" => protected, {
        "does nothing" { protect: |_, _, _| true }
        "always accessible" { protect: trusted!(|at, bytes, _| vm::protect(at, bytes, Access::ReadWrite)) }
    }
    "vm::decommit" => decommitted, {
        "does nothing" { decommit: |_, _| true }
    }
    "vm::close" => closed, {
        "does nothing" { close: |_, _| Some(Closed::Marked) }
        "the first page only" { close: trusted!(|at, _| vm::close(at, PAGE)) }
        "for ever" { open: |_, _, _| true }
    }
    "vm::release" => released, {
        "does nothing" { release: |_, _| true }
    }
    "vm::advise_huge" => advised, {
        "loses contents" { advise_huge: trusted!(|at, bytes, _| vm::decommit(at, bytes)) }
    }
    "vm::name" => named, {
        "does nothing" { name: |_, _, _| true }
    }
    "vm::wipe_on_fork" => wiped, {
        "does nothing" { wipe_on_fork: |_, _| true }
    }
    "vm::move_pages" => moved, {
        "copies" { move_pages: trusted!(|from, to, bytes| (to.copy_from_nonoverlapping(from, bytes), true).1) }
    }
    "vm::zero" => zeroed, {
        "whole words only" { zero: trusted!(|at, bytes| vm::zero(at, bytes / 8 * 8)) }
    }
    "vm::resize" => resized, {
        "does nothing" { resize: |_, _, _| true }
    }
}

const PAGES: usize = 8;
const BYTES: usize = PAGES * PAGE;

fn word(at: *mut u8, page: usize) -> *mut u64 {
    at.wrapping_add(page * PAGE).cast()
}

fn get(at: *mut u8, page: usize) -> u64 {
    // SAFETY: the tests give pages that are readable, or that a child may die of.
    unsafe { word(at, page).read_volatile() }
}

fn put(at: *mut u8, page: usize, value: u64) {
    // SAFETY: the tests give pages that are writable, or that a child may die of.
    unsafe { word(at, page).write_volatile(value) }
}

fn fill(at: *mut u8, pages: usize, first: u64) {
    (0..pages).for_each(|page| put(at, page, first + page as u64));
}

/// Whether the pages hold what `fill` left, or zeroes if `first` is none.
fn holds(at: *mut u8, pages: usize, first: Option<u64>) -> bool {
    (0..pages).all(|page| get(at, page) == first.map_or(0, |first| first + page as u64))
}

fn is_deadly<R>(runner: &dyn Runner, work: impl Fn() -> R) -> bool {
    let child = &mut || {
        work();
        Ok(())
    };
    runner.fork(Fork::Bare, child) == Ended::Died
}

fn fresh(operations: &Operations, access: Access) -> Result<*mut u8, String> {
    (operations.reserve)(null_mut(), BYTES, access).ok_or_else(|| "there is no address space".into())
}

pub fn reserved(runner: &dyn Runner, operations: &Operations) -> Outcome {
    let (hidden, zero) = (fresh(operations, Access::None)?, fresh(operations, Access::ReadWrite)?);
    ensure!([hidden, zero].iter().all(|at| at.addr().is_multiple_of(PAGE)), "a mapping is not aligned to pages");
    ensure!(is_deadly(runner, || get(hidden, 1)), "a page without access can be read");
    ensure!(holds(zero, PAGES, None), "fresh memory is not zero");
    fill(zero, PAGES, 10);
    ensure!(holds(zero, PAGES, Some(10)), "memory does not keep what is written");
    // Exactly there, or not at all.
    ensure!((operations.reserve)(zero, PAGE, Access::ReadWrite).is_none(), "a mapping was made over another");
    ensure!(holds(zero, PAGES, Some(10)), "a refused mapping changed what lay there");
    (operations.release)(hidden, BYTES);
    let again = (operations.reserve)(hidden, BYTES, Access::ReadWrite);
    ensure!(again == Some(hidden), "a free place was asked for, and {again:?} was given, not {hidden:?}");
    ensure!((operations.reserve)(null_mut(), 1 << 62, Access::None).is_none(), "more than there is was given");
    fault::arm(Point::Reserve, Plan::Once { skip: 0 });
    ensure!((operations.reserve)(null_mut(), PAGE, Access::None).is_none(), "an injected failure did not happen");
    ensure!((operations.reserve)(null_mut(), PAGE, Access::None).is_some(), "an injected failure happened twice");
    Ok(())
}

/// No page is given to two.
pub fn disjoint(runner: &dyn Runner, operations: &Operations) -> Outcome {
    let findings = Findings::new();
    let job = |thread: usize| {
        let mut random = random(runner, thread);
        while runner.goes_on() && findings.none() {
            let pages = random.usize(1..=PAGES);
            let Some(at) = (operations.reserve)(null_mut(), pages * PAGE, Access::ReadWrite) else { continue };
            demand!(findings, holds(at, pages, None), "a fresh mapping is not zero: address", at);
            fill(at, pages, thread as u64 + 1);
            runner.pause();
            demand!(findings, holds(at, pages, Some(thread as u64 + 1)), "a mapping is another's, too: address", at);
            demand!(findings, (operations.release)(at, pages * PAGE), "a mapping could not be released: address", at);
        }
    };
    runner.run(Placement::Moved, crowd(runner.width(), &job), None);
    findings.outcome()
}

pub fn protected(runner: &dyn Runner, operations: &Operations) -> Outcome {
    let at = fresh(operations, Access::None)?;
    ensure!((operations.protect)(at.wrapping_add(PAGE), 6 * PAGE, Access::ReadWrite), "pages could not be committed");
    ensure!([0, 7].iter().all(|&page| is_deadly(runner, || get(at, page))), "pages beside can be read");
    ensure!(holds(at.wrapping_add(PAGE), 6, None), "committed memory is not zero");
    fill(at.wrapping_add(PAGE), 6, 20);
    ensure!((operations.protect)(at.wrapping_add(3 * PAGE), 2 * PAGE, Access::None), "pages could not be hidden");
    ensure!([3, 4].iter().all(|&page| is_deadly(runner, || get(at, page))), "hidden pages can be read");
    ensure!((operations.protect)(at.wrapping_add(3 * PAGE), 2 * PAGE, Access::ReadWrite), "pages stay hidden");
    ensure!(holds(at.wrapping_add(PAGE), 6, Some(20)), "hiding lost contents");
    // A guard may grow, and give way to what it guards.
    ensure!((operations.release)(at.wrapping_add(7 * PAGE), PAGE), "pages could not be released");
    ensure!((operations.protect)(at.wrapping_add(6 * PAGE), PAGE, Access::None), "a page could not be hidden");
    ensure!((operations.resize)(at.wrapping_add(6 * PAGE), PAGE, 2 * PAGE), "hidden pages cannot grow");
    ensure!((operations.protect)(at.wrapping_add(6 * PAGE), PAGE, Access::ReadWrite), "a page stays hidden");
    ensure!(holds(at.wrapping_add(PAGE), 6, Some(20)), "a page that was a guard lost its contents");
    ensure!(is_deadly(runner, || get(at, 7)), "hidden pages that grew can be read");
    Ok(())
}

pub fn decommitted(runner: &dyn Runner, operations: &Operations) -> Outcome {
    let at = fresh(operations, Access::ReadWrite)?;
    fill(at, PAGES, 30);
    ensure!((operations.decommit)(at.wrapping_add(2 * PAGE), 3 * PAGE), "pages could not be decommitted");
    ensure!(holds(at, 2, Some(30)), "decommitting lost pages before");
    ensure!(holds(at.wrapping_add(2 * PAGE), 3, None), "decommitted memory is not zero");
    ensure!(holds(at.wrapping_add(5 * PAGE), 3, Some(35)), "decommitting lost pages behind");
    ensure!(!is_deadly(runner, || put(at, 3, 1)), "decommitted memory cannot be written");
    Ok(())
}

/// Both ways, of which a kernel may have one only.
pub fn closed(runner: &dyn Runner, operations: &Operations) -> Outcome {
    for plan in [Plan::Never, Plan::Always { skip: 0 }] {
        fault::arm(Point::Mark, plan);
        let outcome = close_and_open(runner, operations);
        fault::arm(Point::Mark, Plan::Never);
        outcome.map_err(|what| format!("{what}, with marks failing: {plan:?}"))?;
    }
    Ok(())
}

fn close_and_open(runner: &dyn Runner, operations: &Operations) -> Outcome {
    let at = fresh(operations, Access::ReadWrite)?;
    fill(at, PAGES, 35);
    let middle = at.wrapping_add(2 * PAGE);
    // Twice, as pages are used again; a part at a time.
    for _ in 0..2 {
        let Some(how) = (operations.close)(middle, 3 * PAGE) else { return Err("pages could not be closed".into()) };
        ensure!((2..5).all(|page| is_deadly(runner, || get(at, page))), "closed pages can be read");
        ensure!((2..5).all(|page| is_deadly(runner, || put(at, page, 1))), "closed pages can be written");
        ensure!(holds(at, 2, Some(35)) && holds(at.wrapping_add(5 * PAGE), 3, Some(40)), "pages beside were lost");
        ensure!((operations.open)(at.wrapping_add(3 * PAGE), PAGE, how), "a page could not be opened");
        ensure!([2, 4].iter().all(|&page| is_deadly(runner, || get(at, page))), "pages beside were opened");
        ensure!(!is_deadly(runner, || put(at, 3, 1)), "an open page cannot be written");
        put(at, 3, 7);
        ensure!(get(at, 3) == 7, "an open page does not keep what is written");
        ensure!([2, 4].iter().all(|&page| (operations.open)(at.wrapping_add(page * PAGE), PAGE, how)), "not opened");
        fill(at, PAGES, 35);
    }
    ensure!((operations.release)(at, BYTES), "pages could not be released");
    Ok(())
}

pub fn released(runner: &dyn Runner, operations: &Operations) -> Outcome {
    let at = fresh(operations, Access::ReadWrite)?;
    fill(at, PAGES, 40);
    let middle = at.wrapping_add(3 * PAGE);
    ensure!((operations.release)(middle, 2 * PAGE), "pages could not be released");
    ensure!([3, 4].iter().all(|&page| is_deadly(runner, || get(at, page))), "released memory can be read");
    ensure!(holds(at, 3, Some(40)) && holds(at.wrapping_add(5 * PAGE), 3, Some(45)), "releasing lost pages beside");
    let again = (operations.reserve)(middle, 2 * PAGE, Access::ReadWrite);
    ensure!(again == Some(middle), "released address space is not free: {again:?}");
    Ok(())
}

pub fn zeroed(_: &dyn Runner, operations: &Operations) -> Outcome {
    const AROUND: usize = 16;
    const FILLED: u8 = 0xa5;
    let at = fresh(operations, Access::ReadWrite)?;
    for bytes in [0, 1, 8, 63, 64, 100, PAGE, PAGE + 3] {
        let all = AROUND + bytes + AROUND;
        // SAFETY: the mapping is ours, and large enough.
        let seen = unsafe { core::slice::from_raw_parts_mut(at, all) };
        seen.fill(FILLED);
        (operations.zero)(seen[AROUND..].as_mut_ptr(), bytes);
        let expected = |place: usize| if (AROUND..AROUND + bytes).contains(&place) { 0 } else { FILLED };
        let wrong = seen.iter().enumerate().find(|&(place, &byte)| byte != expected(place));
        ensure!(wrong.is_none(), "{bytes} bytes were made zero, and byte {wrong:?} is not what it should be");
    }
    Ok(())
}

pub fn advised(_: &dyn Runner, operations: &Operations) -> Outcome {
    let at = fresh(operations, Access::ReadWrite)?;
    fill(at, PAGES, 50);
    // Heard or not.
    [Huge::Prefer, Huge::Avoid].iter().for_each(|&wish| _ = (operations.advise_huge)(at, BYTES, wish));
    ensure!(holds(at, PAGES, Some(50)), "advice lost contents");
    Ok(())
}

pub fn named(_: &dyn Runner, operations: &Operations) -> Outcome {
    let at = fresh(operations, Access::ReadWrite)?;
    fill(at, PAGES, 55);
    let done = (operations.name)(at, BYTES, c"ours");
    let maps = std::fs::read_to_string("/proc/self/maps").map_err(|error| error.to_string())?;
    let own = format!("{:x}-", at as usize);
    let shown = maps.lines().any(|line| line.starts_with(&own) && line.ends_with("[anon:ours]"));
    ensure!(shown == done && holds(at, PAGES, Some(55)), "named: {done}, and shown: {shown}");
    Ok(())
}

pub fn wiped(runner: &dyn Runner, operations: &Operations) -> Outcome {
    let at = fresh(operations, Access::ReadWrite)?;
    fill(at, PAGES, 60);
    ensure!((operations.wipe_on_fork)(at, 4 * PAGE), "pages will not be wiped");
    ensure!(holds(at, PAGES, Some(60)), "pages were wiped before a fork");
    in_children(runner, |fork| {
        ensure!(holds(at, 4, None), static "pages were not wiped in a child");
        ensure!(holds(at.wrapping_add(4 * PAGE), 4, Some(64)), static "other pages were wiped, too");
        put(at, 0, 1);
        let grandchild = runner.fork(fork, &mut || holds(at, 4, None).then_some(()).ok_or(""));
        ensure!(grandchild == Ended::Well, static "pages were not wiped in a grandchild");
        Ok(())
    })?;
    ensure!(holds(at, PAGES, Some(60)), "a fork wiped the parent's pages");
    Ok(())
}

pub fn moved(runner: &dyn Runner, operations: &Operations) -> Outcome {
    let (from, to) = (fresh(operations, Access::ReadWrite)?, fresh(operations, Access::ReadWrite)?);
    fill(from, PAGES, 70);
    fill(to, PAGES, 90);
    let done = (operations.move_pages)(from.wrapping_add(PAGE), to.wrapping_add(2 * PAGE), 4 * PAGE);
    ensure!(done, "pages could not be moved");
    ensure!(holds(to.wrapping_add(2 * PAGE), 4, Some(71)), "moved pages do not hold what they held");
    ensure!(holds(from.wrapping_add(PAGE), 4, None), "pages were copied, not moved");
    ensure!(holds(from, 1, Some(70)) && holds(from.wrapping_add(5 * PAGE), 3, Some(75)), "the source lost other pages");
    ensure!(holds(to, 2, Some(90)) && holds(to.wrapping_add(6 * PAGE), 2, Some(96)), "the target lost other pages");
    ensure!(
        !is_deadly(runner, || put(from, 2, 1)) && !is_deadly(runner, || put(to, 3, 1)),
        "moved pages, or those left, cannot be written"
    );
    move_what_differs(operations)
}

/// A source that the system sees as two: it may be refused, but then nothing has changed.
fn move_what_differs(operations: &Operations) -> Outcome {
    let (from, to) = (fresh(operations, Access::ReadWrite)?, fresh(operations, Access::ReadWrite)?);
    fill(from, PAGES, 110);
    fill(to, PAGES, 130);
    (operations.wipe_on_fork)(from.wrapping_add(4 * PAGE), 4 * PAGE);
    if (operations.move_pages)(from, to, BYTES) {
        ensure!(holds(to, PAGES, Some(110)) && holds(from, PAGES, None), "two kinds of pages were not moved whole");
        return Ok(());
    }
    ensure!(holds(from, PAGES, Some(110)), "a refused move changed its source");
    let taken = vm::reserve(to, BYTES, Access::None).is_some();
    ensure!(!taken, "a refused move freed its target");
    ensure!(holds(to, PAGES, Some(130)), "a refused move changed its target");
    Ok(())
}

pub fn resized(runner: &dyn Runner, operations: &Operations) -> Outcome {
    let at = fresh(operations, Access::ReadWrite)?;
    fill(at, PAGES, 150);
    ensure!((operations.resize)(at, BYTES, 5 * PAGE), "a mapping could not be shortened");
    ensure!(is_deadly(runner, || get(at, 5)), "the end of a shortened mapping can be read");
    ensure!(holds(at, 5, Some(150)), "shortening lost what stays");
    ensure!((operations.resize)(at, 5 * PAGE, BYTES), "a mapping could not grow into the place that it left");
    ensure!(holds(at, 5, Some(150)) && holds(at.wrapping_add(5 * PAGE), 3, None), "growing changed contents");
    fill(at, PAGES, 160);
    let last = at.wrapping_add(7 * PAGE);
    ensure!((operations.resize)(at, BYTES, 7 * PAGE), "a mapping could not be shortened");
    ensure!(vm::reserve(last, PAGE, Access::None) == Some(last), "the end of a shortened mapping is not free");
    ensure!(!(operations.resize)(at, 7 * PAGE, BYTES), "a mapping grew over another");
    ensure!(holds(at, 7, Some(160)), "a refused growth lost contents");
    Ok(())
}

mod planted {
    use super::*;
    use machine::sync::AtomicPtr;

    static LAST: AtomicPtr<u8> = AtomicPtr::new(null_mut());

    /// Gives a mapping that was given before every now and then. Nothing is released, so that nobody dies of it.
    pub(super) fn reserve_again(at: *mut u8, bytes: usize, access: Access) -> Option<*mut u8> {
        let last = LAST.swap(null_mut(), Ordering::Relaxed);
        if !last.is_null() && bytes == PAGE {
            return Some(last);
        }
        let got = vm::reserve(at, bytes, access)?;
        if bytes == PAGE {
            LAST.store(got, Ordering::Relaxed);
        }
        Some(got)
    }
}
