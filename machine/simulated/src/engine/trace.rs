//! The events of a run: as a hash, which tells whether two runs were the same, and on demand as a list for people.

use super::space::Space;
use super::state;
use super::thread::{Wait, Woken};
use crate::simulation::{Deviation, Settings};

/// A store may go into its CPU's buffer first, until it is drained. An exchange without `new` wrote nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Happening {
    Load { at: usize, size: u8, value: u128 },
    Store { at: usize, size: u8, value: u128 },
    Exchange { at: usize, size: u8, old: u64, new: Option<u64> },
    Drained { cpu: u32, at: usize, size: u8, value: u128 },
    Zeroed { at: usize, bytes: usize },
    Fence { is_full: bool },
    Slot(Option<u32>),
    System(usize),
    Kicked(u32),
    Preempted,
    Placed { thread: u32, cpu: u32, slot: Option<u32> },
    Blocked(Wait),
    Woken { thread: u32, why: Woken },
    Interrupted,
    Returned,
    Born(u32),
    Ended,
    Forked(u32),
    Child(u32),
    ChildEnded { how: String, hash: u64 },
    Offline(u32),
    Online(u32),
    Said(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub time: u64,
    pub cpu: u32,
    pub thread: u32,
    pub what: Happening,
}

#[derive(Debug, Default)]
pub struct Trace {
    /// A file that gets each choice and each line at once, so that they outlive the process.
    sink: Option<i32>,
    pub hash: u64,
    pub deviations: Vec<Deviation>,
    /// Addresses outside of the process's space, as of stacks, in order of appearance.
    outside: Vec<usize>,
}

impl Trace {
    pub fn new(settings: &Settings) -> Self {
        Trace { sink: settings.sink, ..Trace::default() }
    }

    /// Records a choice other than the usual one.
    pub fn deviate(&mut self, deviation: Deviation) {
        self.deviations.push(deviation);
        self.tell(&format!("@{deviation}\n"));
    }

    pub fn add(&mut self, event: Event, space: &Space) {
        self.mix(&event, space);
        if self.sink.is_some() {
            let line = self.line(&event, space);
            self.tell(&format!("{line}\n"));
        }
    }

    fn tell(&self, text: &str) {
        if let Some(sink) = self.sink {
            // SAFETY: the text has so many bytes. A file in memory takes all of it.
            unsafe { libc::write(sink, text.as_ptr().cast(), text.len()) };
        }
    }

    /// Addresses outside the simulated process's space, as of stacks, differ from run to run: only their kind counts.
    fn mix(&mut self, event: &Event, space: &Space) {
        let address = |at: usize| space.offset(at).map_or(1, |offset| offset as u64 + 2);
        let value = |value: u64| match space.offset(value as usize) {
            Some(offset) => !(offset as u64),
            None if is_foreign(value, space) => 1,
            None => value,
        };
        let (kind, first, second) = match &event.what {
            Happening::Load { at, value: seen, .. } => (1, address(*at), value(*seen as u64)),
            Happening::Store { at, value: new, .. } => (2, address(*at), value(*new as u64)),
            Happening::Exchange { at, old, new, .. } => {
                (3, address(*at), value(*old) ^ new.map_or(0, value).rotate_left(7))
            }
            Happening::Drained { cpu, at, value: new, .. } => {
                (4, address(*at) ^ u64::from(*cpu) << 48, value(*new as u64))
            }
            Happening::Zeroed { at, bytes } => (22, address(*at), *bytes as u64),
            Happening::Fence { is_full } => (5, u64::from(*is_full), 0),
            Happening::Slot(slot) => (6, slot.map_or(0, |slot| u64::from(slot) + 1), 0),
            Happening::System(number) => (7, *number as u64, 0),
            Happening::Kicked(cpu) => (8, u64::from(*cpu), 0),
            Happening::Preempted => (9, 0, 0),
            Happening::Placed { thread, cpu, slot } => {
                (10, u64::from(*thread) << 32 | u64::from(*cpu), slot.map_or(0, |slot| u64::from(slot) + 1))
            }
            Happening::Blocked(_) => (11, 0, 0),
            Happening::Woken { thread, .. } => (12, u64::from(*thread), 0),
            Happening::Interrupted => (13, 0, 0),
            Happening::Returned => (14, 0, 0),
            Happening::Born(thread) => (15, u64::from(*thread), 0),
            Happening::Ended => (16, 0, 0),
            Happening::Forked(process) | Happening::Child(process) => (17, u64::from(*process), 0),
            Happening::ChildEnded { hash, .. } => (18, *hash, 0),
            Happening::Offline(cpu) => (19, u64::from(*cpu), 0),
            Happening::Online(cpu) => (20, u64::from(*cpu), 0),
            Happening::Said(_) => (21, 0, 0),
        };
        let who = u64::from(event.thread) << 8 | kind;
        let mut hash = self.hash ^ who.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        hash = (hash ^ first).wrapping_mul(0xff51_afd7_ed55_8ccd).rotate_left(31);
        self.hash = (hash ^ second ^ event.time << 20).wrapping_mul(0xc4ce_b9fe_1a85_ec53).rotate_left(27);
    }

    /// One line for people: time, CPU, thread, and event.
    fn line(&mut self, event: &Event, space: &Space) -> String {
        let outside = &mut self.outside;
        let mut name = |at: usize| {
            space.known(at).unwrap_or_else(|| {
                let number = outside.iter().position(|&other| other == at).unwrap_or_else(|| {
                    outside.push(at);
                    outside.len() - 1
                });
                format!("w{number}")
            })
        };
        let value = |value: u128| match value as u64 {
            low if value > u128::from(u64::MAX) => format!("{:#x}:{low:#x}", (value >> 64) as u64),
            low if is_foreign(low, space) => "an address outside".into(),
            low if space.offset(low as usize).is_some() => space.name(low as usize),
            low if low < 4096 => low.to_string(),
            low => format!("{low:#x}"),
        };
        let what = match &event.what {
            Happening::Load { at, value: seen, .. } => format!("load    {} = {}", name(*at), value(*seen)),
            Happening::Store { at, value: new, .. } => format!("store   {} ← {}", name(*at), value(*new)),
            Happening::Exchange { at, old, new: Some(new), .. } => {
                format!("change  {}: {} → {}", name(*at), value((*old).into()), value((*new).into()))
            }
            Happening::Exchange { at, old, new: None, .. } => {
                format!("refused {} is {}", name(*at), value((*old).into()))
            }
            Happening::Drained { cpu, at, value: new, .. } => {
                format!("visible {} ← {}, from CPU {cpu}", name(*at), value(*new))
            }
            Happening::Zeroed { at, bytes } => format!("zero    {bytes} bytes at {}", name(*at)),
            Happening::Fence { is_full: true } => "fence".into(),
            Happening::Fence { is_full: false } => "fence, of no effect here".into(),
            Happening::Slot(slot) => slot.map_or("no slot".into(), |slot| format!("slot    {slot}")),
            Happening::System(number) => format!("system call {number}"),
            Happening::Kicked(cpu) => format!("kick    CPU {cpu}"),
            Happening::Preempted => "preempted".into(),
            Happening::Placed { thread, cpu, slot } => {
                let slot = slot.map_or(String::new(), |slot| format!(", slot {slot}"));
                format!("placed  thread {thread} on CPU {cpu}{slot}")
            }
            Happening::Blocked(wait) => match wait {
                Wait::Futex(at) => format!("sleeps  on {}", name(*at)),
                Wait::Children => "waits   for its children".into(),
                Wait::Time => "sleeps".into(),
            },
            Happening::Woken { thread, why } => format!("wakes   thread {thread}: {why:?}"),
            Happening::Interrupted => "signal".into(),
            Happening::Returned => "handler ends".into(),
            Happening::Born(thread) => format!("makes   thread {thread}"),
            Happening::Ended => "ends".into(),
            Happening::Forked(number) => format!("forks   process {number}"),
            Happening::Child(process) => format!("is a child, process {process}"),
            Happening::ChildEnded { how, .. } => format!("child   ended: {how}"),
            Happening::Offline(cpu) => format!("CPU {cpu} goes off-line"),
            Happening::Online(cpu) => format!("CPU {cpu} comes on-line"),
            Happening::Said(what) => format!("says    {what}"),
        };
        format!(" {:>10} ns  cpu {:<3} t{:<3} {what}", event.time, event.cpu, event.thread)
    }
}

/// Whether a value looks like an address of the real process: of its heap, a stack, or its program. The program usually
/// lies there, too, but low if it is not position-independent or a tool loaded it.
fn is_foreign(value: u64, space: &Space) -> bool {
    let is_high = (0x5000_0000_0000..0x8000_0000_0000).contains(&value) && space.offset(value as usize).is_none();
    is_high || state::program().contains(&(value as usize))
}
