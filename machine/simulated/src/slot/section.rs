//! A restartable section: steps of the simulated CPU that begin again if the thread was preempted, moved, interrupted
//! or restarted between them. The last step, the commit, takes effect or does not.
//!
//! The operations are unsafe: words exist, and are aligned; what is stored to can be written.
#![allow(clippy::missing_safety_doc)]

use super::given;
use crate::engine::{self, Access, Here};

/// The section must begin again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aborted;

/// A running section.
#[derive(Debug)]
pub struct Section(Option<Here>);

/// Most attempts in a row.
const TRIES: u32 = 4;

/// Runs `work` as a restartable section until it completes; the answer is `instead` if it gives up.
pub fn restartably<R>(instead: R, work: impl Fn(&Section) -> Result<R, Aborted>) -> R {
    let attempt = |_| {
        let section = Section::begin();
        let done = work(&section);
        section.end();
        done.ok()
    };
    (0..TRIES).find_map(attempt).unwrap_or(instead)
}

impl Section {
    fn begin() -> Self {
        let section = Section(engine::here());
        match section.0 {
            Some(here) => here.with(|engine| engine.begin_section()),
            None => given::begin_section(),
        }
        section
    }

    fn end(self) {
        match self.0 {
            Some(here) => here.with(|engine| engine.end_section()),
            None => given::end_section(),
        }
    }

    /// A step, after which the section may have to begin again.
    fn step(&self, access: Access) -> Result<(), Aborted> {
        let Some(here) = self.0 else { return Ok(()) };
        here.step(access);
        if here.with(|engine| engine.is_aborted()) { Err(Aborted) } else { Ok(()) }
    }

    /// The thread's slot; none: it has none.
    pub fn slot(&self) -> Result<Option<u32>, Aborted> {
        self.step(Access::Slot)?;
        Ok(given::look())
    }

    /// Writes by one instruction, after its step.
    unsafe fn write<W: Copy + Into<u128>>(&self, word: *mut W, value: W) {
        let at = word.expose_provenance();
        match self.0 {
            Some(here) => here.with(|engine| engine.store(at, size_of::<W>() as u8, value.into())),
            // SAFETY: passed on.
            None => unsafe { word.write_volatile(value) },
        }
    }

    pub unsafe fn load(&self, word: *const u64) -> Result<u64, Aborted> {
        self.step(Access::Load { at: word.expose_provenance(), size: 8 })?;
        Ok(match self.0 {
            Some(here) => here.with(|engine| engine.load(word.expose_provenance(), 8)) as u64,
            // SAFETY: passed on.
            None => unsafe { word.read_volatile() },
        })
    }

    /// Writes a word that is unused until the commit. The owner after the commit reads it plainly, so the write does
    /// not wait in a buffer: the commit comes later anyway.
    pub unsafe fn prepare(&self, word: *mut u64, value: u64) -> Result<(), Aborted> {
        self.step(Access::Store { at: word.expose_provenance(), size: 8, is_locked: false })?;
        match self.0 {
            Some(here) => here.with(|engine| engine.store_at_once(word.expose_provenance(), 8, value.into())),
            // SAFETY: passed on.
            None => unsafe { word.write_volatile(value) },
        }
        Ok(())
    }

    /// Commits eight or sixteen bytes as one: the last step.
    pub unsafe fn store<W: Copy + Into<u128>>(&self, word: *mut W, value: W) -> Result<(), Aborted> {
        self.step(Access::Store { at: word.expose_provenance(), size: size_of::<W>() as u8, is_locked: false })?;
        // SAFETY: passed on.
        unsafe { self.write(word, value) };
        Ok(())
    }

    /// Commits a word computed from its contents, by one instruction: the last step.
    pub unsafe fn store_with(&self, word: *mut u64, value: impl Fn(u64) -> u64) -> Result<(), Aborted> {
        let at = word.expose_provenance();
        self.step(Access::Add { at, size: 8 })?;
        match self.0 {
            Some(here) => here.with(|engine| {
                let value = value(engine.load(at, 8) as u64);
                engine.store(at, 8, value.into());
            }),
            // SAFETY: passed on.
            None => unsafe { word.write_volatile(value(word.read_volatile())) },
        }
        Ok(())
    }

    /// Commits two words: to this CPU both at once, to others perhaps one after the other.
    pub unsafe fn store_two(&self, word: *mut u64, values: [u64; 2]) -> Result<(), Aborted> {
        self.step(Access::Store { at: word.expose_provenance(), size: 16, is_locked: false })?;
        // SAFETY: passed on.
        values.into_iter().enumerate().for_each(|(at, value)| unsafe { self.write(word.wrapping_add(at), value) });
        Ok(())
    }
}
