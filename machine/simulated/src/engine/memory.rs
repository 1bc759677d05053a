//! Memory as x86 CPUs see it (TSO): stores wait in order in their CPU's buffer, loads look there, changes empty it.
//!
//! The engine does not see plain accesses of the simulated program. They take effect at once, so a program must not
//! plainly write memory while a store to it waits. The engine checks this when the store leaves the buffer: memory must
//! still have the contents from when the store was made.

use super::cpu::{Waiting, mask};
use super::{Engine, Happening};
use crate::simulation::{Defect, Failure};

#[inline]
pub fn read(at: usize, size: u8) -> u128 {
    let at = core::ptr::with_exposed_provenance::<u8>(at);
    // SAFETY: the caller of the step vouches for the memory, as for an access of its own.
    unsafe {
        match size {
            1 => at.read_volatile().into(),
            2 => at.cast::<u16>().read_volatile().into(),
            4 => at.cast::<u32>().read_volatile().into(),
            8 => at.cast::<u64>().read_volatile().into(),
            _ => at.cast::<u128>().read_volatile(),
        }
    }
}

#[inline]
pub fn write(at: usize, size: u8, value: u128) {
    let at = core::ptr::with_exposed_provenance_mut::<u8>(at);
    // SAFETY: as above.
    unsafe {
        match size {
            1 => at.write_volatile(value as u8),
            2 => at.cast::<u16>().write_volatile(value as u16),
            4 => at.cast::<u32>().write_volatile(value as u32),
            8 => at.cast::<u64>().write_volatile(value as u64),
            _ => at.cast::<u128>().write_volatile(value),
        }
    }
}

impl Engine {
    #[inline]
    pub fn load(&mut self, at: usize, size: u8) -> u128 {
        let value = self.seen(at, size);
        self.happened(Happening::Load { at, size, value });
        value
    }

    fn seen(&mut self, at: usize, size: u8) -> u128 {
        if self.waiting_stores > 0 {
            let cpu = self.cpu();
            let newest = self.cpus[cpu].stores.iter().rev().find(|store| store.overlaps(at, size));
            match newest.map(|store| store.covers(at, size)) {
                None => {}
                Some(Some(value)) => return value,
                // A part of it waits, so the CPU must wait, too.
                Some(None) => self.drain(cpu),
            }
        }
        read(at, size)
    }

    #[inline]
    pub fn store(&mut self, at: usize, size: u8, value: u128) {
        self.happened(Happening::Store { at, size, value });
        if self.settings.store_buffer == 0 {
            return self.write_through(at, size, value);
        }
        let cpu = self.cpu();
        if self.cpus[cpu].stores.len() >= self.settings.store_buffer {
            self.drain_one(cpu);
        }
        self.cpus[cpu].stores.push_back(Waiting { at, size, value, before: read(at, size) });
        self.waiting_stores += 1;
    }

    /// A store of the current thread to memory that no other thread uses yet; its moment is invisible.
    pub fn store_at_once(&mut self, at: usize, size: u8, value: u128) {
        self.happened(Happening::Store { at, size, value });
        self.write_through(at, size, value);
    }

    #[inline]
    pub fn exchange(&mut self, at: usize, size: u8, change: impl FnOnce(u64) -> Option<u64>) -> u64 {
        self.drain_own();
        let old = read(at, size);
        let new = change(old as u64);
        self.happened(Happening::Exchange { at, size, old: old as u64, new });
        if let Some(new) = new {
            self.write_through(at, size, u128::from(new) & mask(size));
        }
        old as u64
    }

    #[inline]
    pub fn drain_own(&mut self) {
        if self.waiting_stores > 0 {
            self.drain(self.cpu());
        }
    }

    pub(super) fn drain(&mut self, cpu: usize) {
        while !self.cpus[cpu].stores.is_empty() {
            self.drain_one(cpu);
        }
    }

    pub(super) fn drain_one(&mut self, cpu: usize) {
        let stores = &mut self.cpus[cpu].stores;
        let overtakes = self.settings.is_broken(Defect::StoresOvertake);
        let Some(store) = (if overtakes { stores.pop_back() } else { stores.pop_front() }) else { return };
        self.waiting_stores -= 1;
        if read(store.at, store.size) != store.before && !overtakes {
            let place = self.space.name(store.at);
            self.fail(Failure::Contract(format!(
                "{place} was plainly written while a store to it waited in the buffer of CPU {cpu}: \
                 it was {:#x}, is {:#x}, and was to be {:#x}",
                store.before,
                read(store.at, store.size),
                store.value
            )));
        }
        self.happened(Happening::Drained { cpu: cpu as u32, at: store.at, size: store.size, value: store.value });
        self.write_through(store.at, store.size, store.value);
    }

    fn write_through(&mut self, at: usize, size: u8, value: u128) {
        write(at, size, value);
        if self.waiting_stores > 0 {
            // Waiting stores of others were made over the old contents, and so may come later.
            for store in self.cpus.iter_mut().flat_map(|cpu| &mut cpu.stores).filter(|store| store.overlaps(at, size)) {
                store.before = read(store.at, store.size);
            }
        }
    }

    /// Settles stores to these bytes of the current thread, which change their role.
    pub fn settle(&mut self, at: usize, size: u8) {
        if self.waiting_stores > 0 && self.cpus[self.cpu()].stores.iter().any(|store| store.overlaps(at, size)) {
            self.drain_own();
        }
    }

    /// Settles stores that have waited for the longest time allowed.
    pub fn settle_stores(&mut self) {
        if !self.settings.is_broken(Defect::StoresStay) {
            self.drain_all();
        }
    }

    pub(super) fn drain_all(&mut self) {
        (0..self.cpus.len()).for_each(|cpu| self.drain(cpu));
    }
}
