//! What the heap tells: a reading of its state, as text, as XML, or as numbers.
//!
//! All of it comes from counts that slow paths keep (see `slab::Tally`), and from a walk over spans and slots; malloc and free count
//! nothing. A reading takes no lock, so that it can be made in any state; it is exact at rest.

use super::locks;
use crate::observe::Why;
use crate::page::PAGE;
use crate::slab::Row;
use crate::slab::class::{self, CLASSES};
use crate::slab::misuse::Line;
use crate::slab::region::general;
use crate::upkeep;
use core::fmt::{self, Write};
use machine::sync::ContentionReport;
use machine::{clock, kick, process, root, slot};

/// A size class, read.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClassReport {
    /// Spans that serve it.
    pub spans: u64,
    /// Objects that the program holds.
    pub in_use: u64,
    /// The most objects that the program and the slots' arrays held, as refills saw it.
    pub peak: u64,
    /// Free objects in arrays.
    pub cached: u64,
    /// Bytes of address space of its spans.
    pub span_bytes: u64,
    /// Times that an array to take from ran out.
    pub refills: u64,
}

/// The heap, read.
#[derive(Clone, Debug)]
pub struct Report {
    /// By class; class 0 is none.
    pub classes: [ClassReport; CLASSES],
    /// The most bytes that the program and the slots' arrays held, as refills saw it.
    pub peak_bytes: u64,
    /// Bytes of runs in use now: spans and large blocks.
    pub run_bytes: u64,
    /// The most that `run_bytes` has been.
    pub peak_run_bytes: u64,
    /// Bytes of large blocks in use.
    pub large_bytes: u64,
    /// Bytes of free runs that the kernel has not got back.
    pub dirty_bytes: u64,
    /// Bytes given back to the kernel so far.
    pub purged_bytes: u64,
    /// Bytes of address space in segments.
    pub segment_bytes: u64,
    /// Bytes of address space for metadata.
    pub metadata_bytes: u64,
    /// Runs handed out.
    pub runs: u64,
    /// Slots that have been used.
    pub slots: u32,
    /// How slots are given.
    pub mode: slot::Mode,
    /// Nanoseconds since the second thread came; none in solo mode.
    pub shared_for_ns: Option<u64>,
    /// Kicks made and refused.
    pub kicks: (u64, u64),
    /// Those that the slab made, by reason.
    pub kicks_for: [(&'static str, u64); Why::ALL.len()],
    /// What upkeep did.
    pub upkeep: upkeep::Report,
    /// Contention of locks, by class; the shards' is the first. See `heap::locks`.
    pub locks: [(&'static str, ContentionReport); locks::NAMES.len()],
}

impl Report {
    /// Reads the heap's state; none before the first allocation.
    pub fn read() -> Option<Report> {
        if !root::is_installed() {
            return None;
        }
        let slab = general().state();
        let pages = |count: u64| count * PAGE as u64;
        let counts = &slab.zone.counts;
        let mut classes = [ClassReport::default(); CLASSES];
        let tally = &slab.registry().tally;
        let mut cache_bytes = 0;
        general().count_spans(|class, bytes| {
            let Some(report) = classes.get_mut(class) else { return cache_bytes += bytes };
            report.spans += 1;
            report.span_bytes += bytes;
        });
        let mut in_words = [0; CLASSES];
        general().count_cached(|class, own, in_depot, refills| {
            let Some(report) = classes.get_mut(class) else { return };
            in_words[class] += own;
            report.cached += own + in_depot;
            report.refills += refills;
        });
        for (class, report) in classes.iter_mut().enumerate() {
            report.in_use = tally.objects(class).saturating_sub(in_words[class]);
            report.peak = tally.peak_objects(class);
        }
        let run_bytes = pages(counts.in_use.get()).saturating_sub(general().listed_bytes());
        Some(Report {
            large_bytes: run_bytes
                .saturating_sub(cache_bytes + classes.iter().map(|class| class.span_bytes).sum::<u64>()),
            classes,
            peak_bytes: tally.peak_bytes(),
            run_bytes,
            peak_run_bytes: pages(counts.peak.get()),
            dirty_bytes: pages(counts.free_dirty.get()),
            purged_bytes: pages(counts.purged.get()),
            segment_bytes: pages(counts.reserved.get()),
            metadata_bytes: slab.zone.metadata.reserved_bytes.get(),
            runs: counts.allocations.get(),
            slots: slot::in_use(),
            mode: slot::mode(),
            shared_for_ns: slab.sharing.upgraded_at_ns().map(|at| clock::now_ns().saturating_sub(at)),
            kicks: kick::counts(),
            kicks_for: Why::ALL.map(|(why, name)| (name, slab.registry().rare.0.kicks.get(why))),
            upkeep: upkeep::Report::read(),
            locks: locks::reports(),
        })
    }

    /// Bytes that the program holds: small objects and large blocks.
    pub fn in_use_bytes(&self) -> u64 {
        let small = |(class, report): (usize, &ClassReport)| report.in_use * class::size(class) as u64;
        self.large_bytes + self.classes.iter().enumerate().skip(1).map(small).sum::<u64>()
    }

    /// Writes the report as text, a line at a time.
    pub fn write_text(&self, out: &mut impl Write) -> fmt::Result {
        writeln!(out, "commensal: statistics")?;
        writeln!(
            out,
            "  in use {} (peak {}), runs {} (peak {}), free but dirty {}, given back {}",
            Bytes(self.in_use_bytes()),
            Bytes(self.peak_bytes),
            Bytes(self.run_bytes),
            Bytes(self.peak_run_bytes),
            Bytes(self.dirty_bytes),
            Bytes(self.purged_bytes)
        )?;
        writeln!(
            out,
            "  address space: segments {}, metadata {}; runs handed out {}",
            Bytes(self.segment_bytes),
            Bytes(self.metadata_bytes),
            self.runs
        )?;
        self.write_mode(out)?;
        // The heap's three great locks always, others if anybody waited for them.
        let is_told =
            |(number, (_, lock)): &(usize, &(_, ContentionReport))| *number < 3 || *lock != ContentionReport::default();
        for (_, (name, lock)) in self.locks.iter().enumerate().filter(is_told) {
            writeln!(
                out,
                "  lock {name}: contended {}, waited {} us in all, {} us at most, by signal handlers {}",
                lock.waited.contended,
                lock.waited.total_wait_ns / 1000,
                lock.waited.max_wait_ns / 1000,
                lock.out_of_order
            )?;
        }
        writeln!(out, "  {}", self.upkeep)?;
        writeln!(
            out,
            "  {:>6} {:>6} {:>10} {:>10} {:>10} {:>9}",
            "size", "spans", "in use", "peak", "cached", "refills"
        )?;
        for (class, report) in self.classes.iter().enumerate().skip(1).filter(|(_, report)| report.peak > 0) {
            writeln!(
                out,
                "  {:>6} {:>6} {:>10} {:>10} {:>10} {:>9}",
                class::size(class),
                report.spans,
                report.in_use,
                report.peak,
                report.cached,
                report.refills
            )?;
        }
        let large = &self.classes[0];
        writeln!(out, "   large blocks {} (peak {}), {}", large.in_use, large.peak, Bytes(self.large_bytes))
    }

    fn write_mode(&self, out: &mut impl Write) -> fmt::Result {
        let slots = match self.mode {
            slot::Mode::ConcurrencyId => "concurrency ids",
            slot::Mode::PerThread => "one slot a thread (no concurrency ids here)",
        };
        match self.shared_for_ns {
            None => write!(out, "  solo: the process never had a second thread")?,
            Some(ns) => write!(out, "  shared: a second thread was created {} ms before this", ns / 1_000_000)?,
        }
        write!(out, "; slots used {} ({slots}); kicks {}", self.slots, self.kicks.0)?;
        // What the slab did not do, limited counters did.
        let others = self.kicks.0.saturating_sub(self.kicks_for.iter().map(|(_, kicks)| kicks).sum());
        let reasons = self.kicks_for.into_iter().chain([("limits", others)]).filter(|(_, kicks)| *kicks > 0);
        for (number, (why, kicks)) in reasons.enumerate() {
            write!(out, "{}{why} {kicks}", if number == 0 { " for " } else { ", " })?;
        }
        writeln!(out, ", refused {}", self.kicks.1)
    }

    /// Writes the report as XML, in the shape that readers of glibc's `malloc_info` know.
    pub fn write_xml(&self, out: &mut impl Write) -> fmt::Result {
        writeln!(out, "<malloc version=\"1\">\n<heap nr=\"0\">\n<sizes>")?;
        for (class, report) in self.classes.iter().enumerate().skip(1).filter(|(_, report)| report.spans > 0) {
            writeln!(
                out,
                "  <size from=\"{}\" to=\"{}\" total=\"{}\" count=\"{}\" in_use=\"{}\" peak=\"{}\"/>",
                class::size(class - 1) + 1,
                class::size(class),
                report.cached * class::size(class) as u64,
                report.cached,
                report.in_use,
                report.peak
            )?;
        }
        let free = self.run_bytes.saturating_sub(self.in_use_bytes()) + self.dirty_bytes;
        writeln!(out, "</sizes>\n<total type=\"rest\" count=\"0\" size=\"{free}\"/>")?;
        writeln!(out, "<system type=\"current\" size=\"{}\"/>", self.run_bytes + self.dirty_bytes)?;
        writeln!(out, "<system type=\"max\" size=\"{}\"/>", self.peak_run_bytes)?;
        writeln!(out, "<aspace type=\"total\" size=\"{}\"/>\n</heap>\n</malloc>", self.segment_bytes)
    }
}

/// Writes the slab table, in the columns of the kernel's /proc/slabinfo.
pub fn write_slabinfo(out: &mut impl Write) -> fmt::Result {
    writeln!(out, "slabinfo - version: 2.1")?;
    writeln!(
        out,
        "# name            <active_objs> <num_objs> <objsize> <objperslab> <pagesperslab> : tunables <limit> \
         <batchcount> <sharedfactor> : slabdata <active_slabs> <num_slabs> <sharedavail>"
    )?;
    let mut result = Ok(());
    let write_row = |row: Row| {
        let mut name = Line::new();
        result = write!(name, "{}", row.name).and(result).and_then(|()| {
            writeln!(
                out,
                "{:<17} {:>6} {:>6} {:>6} {:>4} {:>4} : tunables {:>4} {:>4} {:>4} : slabdata {:>6} {:>6} {:>6}",
                core::str::from_utf8(name.as_bytes()).unwrap_or("?"),
                row.active_objects,
                row.objects,
                row.object_bytes,
                row.objects_per_span,
                row.pages_per_span,
                row.limit,
                row.batch,
                0,
                row.active_spans,
                row.spans,
                0
            )
        });
    };
    if root::is_installed() {
        general().rows(write_row);
    }
    result
}

/// A number of bytes, in the unit that suits it.
struct Bytes(u64);

impl fmt::Display for Bytes {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0..10_240 => write!(out, "{} B", self.0),
            10_240..10_485_760 => write!(out, "{} KiB", self.0 >> 10),
            _ => write!(out, "{} MiB", self.0 >> 20),
        }
    }
}

/// Standard error as a place to write to, a line at a time, or what fits.
#[derive(Default)]
pub struct StandardError(Line);

impl Write for StandardError {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if !self.0.has_room_for(text.len()) {
            process::complain(self.0.as_bytes());
            self.0 = Line::new();
        }
        self.0.write_str(text)?;
        if text.ends_with('\n') {
            process::complain(self.0.as_bytes());
            self.0 = Line::new();
        }
        Ok(())
    }
}

/// Prints the report on standard error.
pub fn print() {
    if let Some(report) = Report::read() {
        let _ = report.write_text(&mut StandardError::default());
    }
}

/// Has the report printed on standard error when the program exits.
pub fn print_at_exit() {
    extern "C" fn at_exit() {
        print();
    }
    process::keep_standard_error();
    process::at_exit(at_exit);
}

/// Has the slab table printed on standard error when the program exits.
pub fn print_slabinfo_at_exit() {
    extern "C" fn at_exit() {
        let _ = write_slabinfo(&mut StandardError::default());
    }
    process::keep_standard_error();
    process::at_exit(at_exit);
}

/// Says why the program cannot go on, and aborts.
#[cold]
pub fn give_up(why: &str) -> ! {
    let mut line = Line::new();
    let _ = writeln!(line, "commensal: {why}");
    process::complain(line.as_bytes());
    process::die()
}
