//! What a key may hold.

use std::collections::VecDeque;

use super::sorted_set::SortedSet;
use crate::map::Map;

/// Bytes in a block of their own.
pub type Bytes = Box<[u8]>;

/// A value.
pub enum Value {
    Text(Vec<u8>),
    List(VecDeque<Bytes>),
    Hash(Map<Bytes, Bytes>),
    Sorted(SortedSet),
}

/// The command is for another kind of value than the key holds.
#[derive(Debug, PartialEq)]
pub struct WrongKind;

/// A kind of value that a key can be made to hold by the first command that adds to it.
pub trait Kind: Default {
    /// The value of this kind.
    fn into_value(self) -> Value;

    /// The value, if it is of this kind.
    fn of(value: &mut Value) -> Result<&mut Self, WrongKind>;

    /// Whether nothing is left in it, so that the key should go.
    fn is_empty(&self) -> bool;
}

macro_rules! kind {
    ($variant:ident, $type:ty, $is_empty:expr) => {
        impl Kind for $type {
            fn into_value(self) -> Value {
                Value::$variant(self)
            }

            fn of(value: &mut Value) -> Result<&mut Self, WrongKind> {
                if let Value::$variant(inner) = value { Ok(inner) } else { Err(WrongKind) }
            }

            fn is_empty(&self) -> bool {
                $is_empty(self)
            }
        }
    };
}

// An empty text is a text still.
kind!(Text, Vec<u8>, |_: &Self| false);
kind!(List, VecDeque<Bytes>, VecDeque::is_empty);
kind!(Hash, Map<Bytes, Bytes>, Map::is_empty);
kind!(Sorted, SortedSet, SortedSet::is_empty);
