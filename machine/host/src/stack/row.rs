//! A row of an unwind table: how to find the caller's registers.

/// The register that the CFA is relative to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Base {
    Rsp,
    Rbp,
    Rbx,
}

/// Where a caller's register is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Save {
    /// It was not changed.
    No,
    /// In the stack, so many words below the CFA.
    Below(u8),
}

/// A row for a return address one word below the CFA, in 64 bits:
///
/// ```text
///   0  kind, never 0   2  base   4  offset (40 bits)   44  frame   52  base register: words below the CFA, or 0
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Row(u64);

const KIND: u64 = 3;
const PLAIN: u64 = 1;
const SIGNAL_FRAME: u64 = 2;
const LAST: u64 = 3;
const OFFSET_BITS: u32 = 40;

impl Row {
    /// The outermost function of a thread.
    pub const LAST: Self = Row(LAST);
    /// A signal handler's return into the kernel.
    pub const SIGNAL_FRAME: Self = Row(SIGNAL_FRAME);

    /// None: the offset is too large.
    pub fn new(base: Base, offset: u64, frame: Save, base_register: Save) -> Option<Self> {
        let words = |save| match save {
            Save::No => 0,
            Save::Below(words) => u64::from(words),
        };
        let parts = (base as u64) << 2 | offset << 4 | words(frame) << 44 | words(base_register) << 52;
        (offset >> OFFSET_BITS == 0).then_some(Row(PLAIN | parts))
    }

    pub fn bits(self) -> u64 {
        self.0
    }

    /// None for zero.
    pub fn of_bits(bits: u64) -> Option<Self> {
        (bits & KIND != 0).then_some(Row(bits))
    }

    pub fn is_last(self) -> bool {
        self.0 & KIND == LAST
    }

    pub fn is_signal_frame(self) -> bool {
        self.0 & KIND == SIGNAL_FRAME
    }

    pub fn base(self) -> Base {
        match self.0 >> 2 & 3 {
            0 => Base::Rsp,
            1 => Base::Rbp,
            _ => Base::Rbx,
        }
    }

    pub fn offset(self) -> usize {
        (self.0 >> 4 & ((1 << OFFSET_BITS) - 1)) as usize
    }

    pub fn frame(self) -> Save {
        save(self.0 >> 44)
    }

    pub fn base_register(self) -> Save {
        save(self.0 >> 52)
    }
}

fn save(bits: u64) -> Save {
    match bits as u8 {
        0 => Save::No,
        words => Save::Below(words),
    }
}
