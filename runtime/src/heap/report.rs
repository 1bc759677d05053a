//! Reports of the heap: a reading of its state, as text, as XML, or as numbers.
//!
//! The table `observe::figures` defines the figures. They come from counts on slow paths (see `central::Tally`), and
//! from a walk over spans and slots; malloc and free count nothing. A reading takes no lock; it is exact at rest.

use super::console::StandardError;
use super::locks;
use super::statistics::read::{Heap, Walked};
use crate::caches::{Spans, enter, heap};
use crate::central::size_class::{self, CLASSES};
use crate::misuse::Line;
use crate::observe::figures::{Cache, Figures, unitless};
use crate::observe::page::Text;
use crate::observe::slabs;
use crate::observe::{Resident, Shown};
use crate::page_heap::PAGE;
use crate::page_heap::memblock;
use core::fmt::{self, Write};
use machine::sync::ContentionReport;
use machine::{clock, process, root, slot};

/// The figures of the process; none before the first allocation. A process that has a few blocks only gets a heap.
pub fn process() -> Option<Figures> {
    let exists = root::is_installed() || memblock::in_use() > 0 && enter();
    if !exists {
        return None;
    }
    let listed_bytes = (0..slot::in_use()).map(|slot| heap().listed_bytes_of(slot)).sum();
    let mut walked = Walked { listed_bytes, ..Walked::default() };
    heap().read_all_spans(|_, spans| walked.span_bytes += spans.bytes);
    heap().read_all_caches(|_, known, parts| {
        walked.small_bytes += known.counted.saturating_sub(parts.in_words) * known.object_bytes as u64;
        walked.cached_bytes += parts.cached() * known.object_bytes as u64;
    });
    Some(Figures::read(&Heap::after(walked)))
}

/// The kernel's name of the program; in a sandbox it is not known.
pub(super) fn program() -> Text<16> {
    let mut text = [0; 16];
    let name = process::read_file(c"/proc/self/comm", &mut text).unwrap_or(b"?");
    Text::of(core::str::from_utf8(name).unwrap_or("?").trim_end())
}

/// The kernel's count of the process's resident memory; none in a sandbox.
fn resident_bytes() -> Option<u64> {
    let mut text = [0; 64];
    let statm = process::read_file(c"/proc/self/statm", &mut text)?;
    Some(Resident::pages_in(core::str::from_utf8(statm).ok()?)? * PAGE as u64)
}

/// Shows all size classes ever used, a few at a time: the caller's stack may be small, and spans may be many.
pub fn for_each_class(mut show: impl FnMut(&Cache)) {
    const AT_ONCE: usize = 8;
    for first in (1..CLASSES).step_by(AT_ONCE) {
        let mut spans = [Spans::default(); AT_ONCE];
        // The first caches are the size classes.
        heap().read_all_spans(|cache, more| {
            if let Some(known) = (cache + 1).checked_sub(first).and_then(|at| spans.get_mut(at)) {
                *known += more;
            }
        });
        for (class, spans) in (first..CLASSES).zip(spans) {
            let row = heap().class_reading(class, spans).map(|reading| Cache::read(&reading));
            row.filter(|row| row.peak > 0 || row.spans > 0).iter().for_each(&mut show);
        }
    }
}

/// Writes the report as text: resident memory, the figures of the process by topic, locks, and size classes.
///
/// # Errors
/// The errors of `out`.
pub fn write_text(out: &mut impl Write) -> fmt::Result {
    let Some(figures) = process() else { return Ok(()) };
    writeln!(out, "commensal: statistics of {} ({})", program().as_str(), process::id())?;
    if let Some(bytes) = resident_bytes() {
        writeln!(out, "  {}", Resident { bytes, figures: &figures })?;
    }
    let (mut paragraph, now_ns, mut result) =
        (Paragraph { out, topic: "", line: Line::new() }, clock::now_ns(), Ok(()));
    figures.for_each(|topic, name, unit, value| {
        let written = paragraph.add(topic, name, Shown { unit, value, now_ns });
        result = result.and(written);
    });
    result.and(paragraph.end())?;
    for (number, (name, contention)) in locks::classes().enumerate() {
        let lock = contention.report();
        // The heap's three main locks always, others if there were waits.
        if number < 3 || lock != ContentionReport::default() {
            writeln!(
                out,
                "  lock {name}: contended {}, waited {} us in all, {} us at most, by signal handlers {}",
                lock.waited.contended,
                lock.waited.total_wait_ns / 1000,
                lock.waited.max_wait_ns / 1000,
                lock.out_of_order
            )?;
        }
    }
    let mut result = out.write_str(" ");
    Cache::NONE.for_each(|_, name, _, _| result = result.and(write_cell(out, name, unitless(name))));
    result = result.and(out.write_str("\n"));
    for_each_class(|class| {
        result = result.and(out.write_str(" "));
        class.for_each(|_, name, _, value| result = result.and(write_cell(out, name, value)));
        result = result.and(out.write_str("\n"));
    });
    result
}

/// Writes the report as XML, in the shape of glibc's `malloc_info`: one heap, and the totals of all heaps. Free objects
/// in magazines and depots are "fast", other free memory is "rest", and large blocks are "mmap".
///
/// # Errors
/// The errors of `out`.
pub fn write_xml(out: &mut impl Write) -> fmt::Result {
    let Some(figures) = process() else { return Ok(()) };
    let mut result = writeln!(out, "<malloc version=\"1\">\n<heap nr=\"0\">\n<sizes>");
    let mut cached_objects = 0;
    for_each_class(|class| {
        let &Cache { object_bytes, cached, in_use, peak, .. } = class;
        cached_objects += cached;
        let from = size_class::size(size_class::class_for(object_bytes as usize) - 1) + 1;
        let total = cached * object_bytes;
        result = result.and(write!(out, "  <size from=\"{from}\" to=\"{object_bytes}\" total=\"{total}\" "));
        result = result.and(writeln!(out, "count=\"{cached}\" in_use=\"{in_use}\" peak=\"{peak}\"/>"));
    });
    result.and(out.write_str("</sizes>\n"))?;
    let Figures { cached_bytes, peak_run_bytes, segment_bytes, large_bytes, large_blocks, .. } = figures;
    let (current, free) = (small_bytes(&figures), free_bytes(&figures));
    for end in ["</heap>\n", "</malloc>\n"] {
        writeln!(out, "<total type=\"fast\" count=\"{cached_objects}\" size=\"{cached_bytes}\"/>")?;
        writeln!(out, "<total type=\"rest\" count=\"0\" size=\"{}\"/>", free.saturating_sub(cached_bytes))?;
        if end == "</malloc>\n" {
            writeln!(out, "<total type=\"mmap\" count=\"{large_blocks}\" size=\"{large_bytes}\"/>")?;
        }
        writeln!(out, "<system type=\"current\" size=\"{current}\"/>")?;
        writeln!(out, "<system type=\"max\" size=\"{peak_run_bytes}\"/>")?;
        writeln!(out, "<aspace type=\"total\" size=\"{segment_bytes}\"/>")?;
        write!(out, "<aspace type=\"mprotect\" size=\"{segment_bytes}\"/>\n{end}")?;
    }
    Ok(())
}

/// Bytes that the heap has from the system, except large blocks: the arenas of glibc's reports.
pub fn small_bytes(figures: &Figures) -> u64 {
    figures.run_bytes.saturating_sub(figures.large_bytes) + figures.dirty_bytes
}

/// The free part of [`small_bytes`].
pub fn free_bytes(figures: &Figures) -> u64 {
    small_bytes(figures).saturating_sub(figures.in_use_bytes.saturating_sub(figures.large_bytes))
}

fn write_cell(out: &mut impl Write, name: &str, what: impl fmt::Display) -> fmt::Result {
    write!(out, " {what:>0$}", unitless(name).len().max(8))
}

/// Figures in sequence: each topic begins a line, and long lines are continued.
struct Paragraph<'a, W> {
    out: &'a mut W,
    topic: &'static str,
    line: Line,
}

impl<W: Write> Paragraph<'_, W> {
    const WIDTH: usize = 100;

    /// Adds a figure. Its name loses the topic and the unit.
    fn add(&mut self, topic: &'static str, name: &str, value: Shown) -> fmt::Result {
        let name = name.strip_prefix(topic).and_then(|name| name.strip_prefix('_')).unwrap_or(name);
        if topic != self.topic {
            self.end()?;
            self.topic = topic;
            write!(self.line, "  {topic}:")?;
        } else if self.line.as_bytes().len() > Self::WIDTH {
            self.line.write_str(",")?;
            self.end()?;
            self.line.write_str("   ")?;
        } else {
            self.line.write_str(",")?;
        }
        self.line.write_str(" ")?;
        for part in unitless(name).split('_') {
            write!(self.line, "{part} ")?;
        }
        write!(self.line, "{value}")
    }

    fn end(&mut self) -> fmt::Result {
        let line = core::mem::take(&mut self.line);
        let text = core::str::from_utf8(line.as_bytes()).unwrap_or_default();
        if text.is_empty() { Ok(()) } else { writeln!(self.out, "{text}") }
    }
}

/// Writes the slab table, in the columns of the kernel's /proc/slabinfo.
///
/// # Errors
/// The errors of `out`.
pub fn write_slabinfo(out: &mut impl Write) -> fmt::Result {
    let mut result = slabs::write_head(out);
    if root::is_installed() {
        heap().rows(|cache| {
            let row = Cache::read(cache);
            result = result.and(slabs::write_row(out, row.name.as_str(), &row));
        });
    }
    result
}

/// Prints the report on standard error.
pub extern "C" fn print() {
    let _ = write_text(&mut StandardError::default());
}

/// Prints the slab table on standard error.
pub extern "C" fn print_slabinfo() {
    let _ = write_slabinfo(&mut StandardError::default());
}

/// Prints why the program cannot continue, and aborts.
#[cold]
pub fn give_up(why: &str) -> ! {
    let mut line = Line::new();
    let _ = writeln!(line, "commensal: {why}");
    process::complain(line.as_bytes());
    process::die()
}
