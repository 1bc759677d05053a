//! Numbers that can be set while the program runs, each with a name, a usual value and a range.

use super::Word;
use core::marker::PhantomData;
use machine::sync::{AtomicU32, Ordering};

/// The knobs of a part of the runtime: an enumeration, whose members are numbered from 0 on as they stand in the table.
pub trait Knob: Copy + 'static {
    /// All of them, in order.
    const ALL: &'static [Description<Self>];

    /// Its place there.
    fn place(self) -> usize;
}

/// What is known of a knob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Description<K> {
    /// The knob.
    pub knob: K,
    /// Its name, with the unit.
    pub name: Word,
    /// What it is set to if nobody sets it.
    pub usual: u32,
    /// From this.
    pub least: u32,
    /// To this.
    pub most: u32,
}

/// A value lies outside of the knob's range, and was not set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfRange;

/// The values of `N` knobs. Zeroes are the usual ones.
#[derive(Debug)]
#[repr(C)]
pub struct Knobs<K, const N: usize>([AtomicU32; N], PhantomData<K>);

impl<K: Knob, const N: usize> Knobs<K, N> {
    /// What a knob is set to.
    pub fn get(&self, knob: K) -> u32 {
        // Relaxed: each is a number of its own.
        match self.0[knob.place()].load(Ordering::Relaxed) {
            0 => K::ALL[knob.place()].usual,
            value => value - 1,
        }
    }

    /// Sets a knob, or leaves it as it is.
    pub fn set(&self, knob: K, value: u32) -> Result<(), OutOfRange> {
        let known = &K::ALL[knob.place()];
        if !(known.least..=known.most).contains(&value) {
            return Err(OutOfRange);
        }
        self.0[knob.place()].store(value + 1, Ordering::Relaxed);
        Ok(())
    }
}

/// Makes the enumeration `Knob` and its table a part's knobs: the trait, the type of the values, and a test of both.
macro_rules! make_knobs {
    ($table:ident) => {
        impl $crate::observe::knobs::Knob for Knob {
            const ALL: &'static [Description<Knob>] = &$table;

            fn place(self) -> usize {
                self as usize
            }
        }

        /// The values.
        pub(super) type Knobs = $crate::observe::knobs::Knobs<Knob, { $table.len() }>;

        #[cfg(test)]
        mod tests {
            #[test]
            fn knobs_are_in_order_and_keep_their_ranges() {
                $crate::observe::knobs::check::<super::Knob, { super::$table.len() }>();
            }
        }
    };
}
pub(crate) use make_knobs;

/// Holds a table against its enumeration, and sets each knob to the ends of its range and beyond.
#[cfg(test)]
pub(crate) fn check<K: Knob + core::fmt::Debug + PartialEq, const N: usize>() {
    let knobs = Knobs::<K, N>([const { AtomicU32::new(0) }; N], PhantomData);
    assert_eq!(K::ALL.len(), N);
    for (number, known) in K::ALL.iter().enumerate() {
        assert_eq!(known.knob.place(), number);
        assert_eq!(knobs.get(known.knob), known.usual);
        for value in [known.least, known.most] {
            knobs.set(known.knob, value).unwrap();
            assert_eq!(knobs.get(known.knob), value);
        }
        assert_eq!(knobs.set(known.knob, known.most + 1), Err(OutOfRange));
        if known.least > 0 {
            assert_eq!(knobs.set(known.knob, known.least - 1), Err(OutOfRange));
        }
        assert_eq!(knobs.get(known.knob), known.most);
    }
}
