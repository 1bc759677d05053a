//! What the lab's experiments do with the runtime, for every machine.
//!
//! Each function does one task under one form and hands back figures; it uses the runtime and the machine and nothing
//! else, so that the same source runs on Linux and on a simulated machine. Threads come from the caller ([`Threads`]),
//! who has them. Nothing here allocates, prints or knows how it is compared: that is the lab's matter.
#![allow(missing_docs)]
#![no_std]

#[cfg(test)]
extern crate std;

/// Declares an enum whose values have words on command lines.
macro_rules! words {
    ($(#[$about:meta])* pub enum $name:ident { $($(#[$says:meta])* $value:ident = $word:literal,)+ }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name {
            $($(#[$says])* $value,)+
        }

        impl core::str::FromStr for $name {
            /// The words that there are.
            type Err = &'static [&'static str];

            fn from_str(word: &str) -> Result<Self, Self::Err> {
                match word {
                    $($word => Ok($name::$value),)+
                    _ => Err(&[$($word),+]),
                }
            }
        }

        #[cfg(test)]
        impl $name {
            pub const ALL: [$name; [$($word),+].len()] = [$($name::$value),+];
        }
    };
}

pub mod caches;
pub mod counters;
pub mod grace;
pub mod kicks;
pub mod primitives;
pub mod sections;
mod shared;
pub mod stagger;
mod threads;
pub mod timing;

pub use threads::Threads;
