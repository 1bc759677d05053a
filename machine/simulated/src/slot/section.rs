//! A restartable section: steps of the simulated CPU that begin again if the thread was preempted, moved, interrupted
//! or restarted between them. The last step, the commit, takes effect or does not.

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

/// Runs `work` as a restartable section until it completes, or gives up and runs `instead`.
pub fn restartably<R>(work: impl Fn(&Section) -> Result<R, Aborted>, instead: impl FnOnce() -> R) -> R {
    let attempt = |_| {
        let section = Section::begin();
        let done = work(&section);
        section.end();
        done.ok()
    };
    (0..TRIES).find_map(attempt).unwrap_or_else(instead)
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

    /// Reads a word.
    ///
    /// # Safety
    /// It is readable.
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
    ///
    /// # Safety
    /// It is writable.
    pub unsafe fn prepare(&self, word: *mut u64, value: u64) -> Result<(), Aborted> {
        self.step(Access::Store { at: word.expose_provenance(), size: 8, is_locked: false })?;
        match self.0 {
            Some(here) => here.with(|engine| engine.store_at_once(word.expose_provenance(), 8, value.into())),
            // SAFETY: passed on.
            None => unsafe { word.write_volatile(value) },
        }
        Ok(())
    }

    /// Commits a word: the last step.
    ///
    /// # Safety
    /// It is writable.
    pub unsafe fn store(&self, word: *mut u64, value: u64) -> Result<(), Aborted> {
        self.step(Access::Store { at: word.expose_provenance(), size: 8, is_locked: false })?;
        match self.0 {
            Some(here) => here.with(|engine| engine.store(word.expose_provenance(), 8, value.into())),
            // SAFETY: passed on.
            None => unsafe { word.write_volatile(value) },
        }
        Ok(())
    }

    /// Commits a word computed from its contents, by one instruction: the last step.
    ///
    /// # Safety
    /// It is writable.
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
    ///
    /// # Safety
    /// They are writable.
    pub unsafe fn store_two(&self, word: *mut u64, values: [u64; 2]) -> Result<(), Aborted> {
        self.step(Access::Store { at: word.expose_provenance(), size: 16, is_locked: false })?;
        for (number, value) in values.into_iter().enumerate() {
            let word = word.wrapping_add(number);
            match self.0 {
                Some(here) => here.with(|engine| engine.store(word.expose_provenance(), 8, value.into())),
                // SAFETY: passed on.
                None => unsafe { word.write_volatile(value) },
            }
        }
        Ok(())
    }

    /// Commits sixteen bytes as one.
    ///
    /// # Safety
    /// They are writable, and aligned.
    pub unsafe fn store_pair(&self, pair: *mut u128, value: u128) -> Result<(), Aborted> {
        self.step(Access::Store { at: pair.expose_provenance(), size: 16, is_locked: false })?;
        match self.0 {
            Some(here) => here.with(|engine| engine.store(pair.expose_provenance(), 16, value)),
            // SAFETY: passed on.
            None => unsafe { pair.write_volatile(value) },
        }
        Ok(())
    }
}
