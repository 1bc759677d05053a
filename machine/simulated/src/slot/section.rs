//! A restartable section: steps of the simulated CPU that begin again if the thread was preempted, moved, interrupted
//! or restarted between them. The last step, the commit, takes effect or does not.
//!
//! The operations are unsafe: words exist, and are aligned; what is stored to can be written.
#![allow(clippy::missing_safety_doc)]

use super::given;
use crate::engine::{self, Access, Here};
use std::sync::MutexGuard;

/// The section must begin again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aborted;

/// A running section; outside simulations it keeps others out.
#[derive(Debug)]
pub struct Section(Result<Here, MutexGuard<'static, ()>>);

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
        let section = engine::here().ok_or_else(given::enter_section);
        if let Ok(here) = &section {
            here.with(|engine| engine.begin_section());
        }
        Section(section)
    }

    fn end(self) {
        if let Ok(here) = self.0 {
            here.with(|engine| engine.end_section());
        }
    }

    /// A step, after which the section may have to begin again.
    fn step(&self, access: Access) -> Result<(), Aborted> {
        let Ok(here) = self.0 else { return Ok(()) };
        here.step(access);
        if here.with(|engine| engine.thread().is_aborted) { Err(Aborted) } else { Ok(()) }
    }

    /// The thread's slot; none: it has none.
    pub fn slot(&self) -> Result<Option<u32>, Aborted> {
        self.step(Access::Slot)?;
        Ok(given::look())
    }

    pub unsafe fn load(&self, word: *const u64) -> Result<u64, Aborted> {
        let at = word.expose_provenance();
        self.step(Access::Load { at, size: 8 })?;
        Ok(engine::load(at, 8) as u64)
    }

    /// Writes a word that is unused until the commit. The owner after the commit reads it plainly, so the write does
    /// not wait in a buffer: the commit comes later anyway.
    pub unsafe fn prepare(&self, word: *mut u64, value: u64) -> Result<(), Aborted> {
        let at = word.expose_provenance();
        self.step(Access::Store { at, size: 8, is_locked: false })?;
        match self.0 {
            Ok(here) => here.with(|engine| engine.store_at_once(at, 8, value.into())),
            Err(_) => engine::store(at, 8, value.into()),
        }
        Ok(())
    }

    /// Commits eight or sixteen bytes as one: the last step.
    pub unsafe fn store<W: Copy + Into<u128>>(&self, word: *mut W, value: W) -> Result<(), Aborted> {
        let (at, size) = (word.expose_provenance(), size_of::<W>() as u8);
        self.step(Access::Store { at, size, is_locked: false })?;
        engine::store(at, size, value.into());
        Ok(())
    }

    /// Commits a word computed from its contents, by one instruction: the last step.
    pub unsafe fn store_with(&self, word: *mut u64, value: impl Fn(u64) -> u64) -> Result<(), Aborted> {
        let at = word.expose_provenance();
        self.step(Access::Add { at, size: 8 })?;
        engine::store(at, 8, value(engine::load(at, 8) as u64).into());
        Ok(())
    }

    /// Commits two words: to this CPU both at once, to others perhaps one after the other.
    pub unsafe fn store_two(&self, word: *mut u64, values: [u64; 2]) -> Result<(), Aborted> {
        let at = word.expose_provenance();
        self.step(Access::Store { at, size: 16, is_locked: false })?;
        values.into_iter().zip([at, at + 8]).for_each(|(value, at)| engine::store(at, 8, value.into()));
        Ok(())
    }
}
