//! The keys and their values, and when they expire.
//!
//! The time is the number of commands so far, so that every run expires the same keys at the same command. What is due
//! goes before a command runs; so a key that is found has not expired.

use std::collections::BTreeSet;

use super::value::{Bytes, Kind, Value, WrongKind};
use crate::map::Map;

/// All keys.
#[derive(Default)]
pub struct Keyspace {
    now: u64,
    entries: Map<Bytes, Entry>,
    /// The keys that expire, the next one first.
    deadlines: BTreeSet<(u64, Bytes)>,
}

struct Entry {
    value: Value,
    deadline: Option<u64>,
}

impl Keyspace {
    /// Lets one command's time pass, and removes what is due.
    pub fn tick(&mut self) {
        self.now += 1;
        while self.deadlines.first().is_some_and(|(deadline, _)| *deadline <= self.now) {
            let (_, key) = self.deadlines.pop_first().expect("there is a first");
            self.entries.remove(&key);
        }
    }

    /// How many keys there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Gives a key a value, in the place of the old one and its deadline.
    pub fn set(&mut self, key: Bytes, value: Value) {
        self.forget_deadline(&key);
        self.entries.insert(key, Entry { value, deadline: None });
    }

    /// Removes a key. Whether it was there.
    pub fn remove(&mut self, key: &[u8]) -> bool {
        self.forget_deadline(key);
        self.entries.remove(key).is_some()
    }

    /// Lets a key expire after so many commands. Whether it is there.
    pub fn expire(&mut self, key: &[u8], after: u64) -> bool {
        self.forget_deadline(key);
        let Some(entry) = self.entries.get_mut(key) else { return false };
        let deadline = self.now + after.max(1);
        entry.deadline = Some(deadline);
        self.deadlines.insert((deadline, key.into()));
        true
    }

    /// The value of a key, if there is one, for a command of its kind.
    pub fn find<K: Kind>(&mut self, key: &[u8]) -> Result<Option<&mut K>, WrongKind> {
        self.entries.get_mut(key).map(|entry| K::of(&mut entry.value)).transpose()
    }

    /// The value of a key, for a command that adds to it: a new one if there is none.
    pub fn find_or_create<K: Kind>(&mut self, key: Bytes) -> Result<&mut K, WrongKind> {
        let new = || Entry { value: K::default().into_value(), deadline: None };
        K::of(&mut self.entries.entry(key).or_insert_with(new).value)
    }

    /// Has a command take something out of a key's value, and removes the key if nothing is left in it.
    pub fn take_from<K: Kind, R>(
        &mut self,
        key: &[u8],
        take: impl FnOnce(&mut K) -> R,
    ) -> Result<Option<R>, WrongKind> {
        let Some(value) = self.find::<K>(key)? else { return Ok(None) };
        let taken = take(value);
        if value.is_empty() {
            self.remove(key);
        }
        Ok(Some(taken))
    }

    fn forget_deadline(&mut self, key: &[u8]) {
        let deadline = self.entries.get_mut(key).and_then(|entry| entry.deadline.take());
        if let Some(deadline) = deadline {
            self.deadlines.remove(&(deadline, key.into()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    fn text(keyspace: &mut Keyspace, key: &[u8]) -> Option<Vec<u8>> {
        keyspace.find::<Vec<u8>>(key).expect("it is a text").cloned()
    }

    #[test]
    fn keys_expire_when_they_are_due() {
        let mut keyspace = Keyspace::default();
        keyspace.set(b"a"[..].into(), Value::Text(b"1".to_vec()));
        assert!(keyspace.expire(b"a", 2));
        keyspace.tick();
        assert_eq!(text(&mut keyspace, b"a"), Some(b"1".to_vec()));
        keyspace.tick();
        assert_eq!(text(&mut keyspace, b"a"), None);
        assert!(!keyspace.expire(b"a", 2));
    }

    #[test]
    fn a_new_value_has_no_deadline_and_a_new_deadline_replaces_the_old_one() {
        let mut keyspace = Keyspace::default();
        for key in [b"a", b"b"] {
            keyspace.set(key[..].into(), Value::Text(Vec::new()));
            keyspace.expire(key, 1);
        }
        keyspace.set(b"a"[..].into(), Value::Text(b"new".to_vec()));
        keyspace.expire(b"b", 3);
        keyspace.tick();
        assert_eq!(keyspace.len(), 2);
        keyspace.tick();
        keyspace.tick();
        assert_eq!(keyspace.len(), 1);
        assert_eq!(text(&mut keyspace, b"a"), Some(b"new".to_vec()));
        assert!(keyspace.deadlines.is_empty());
    }

    #[test]
    fn an_emptied_value_takes_its_key_along() {
        let mut keyspace = Keyspace::default();
        keyspace.find_or_create::<VecDeque<Bytes>>(b"l"[..].into()).expect("it is new").push_back(b"x"[..].into());
        let taken = keyspace.take_from(b"l", |list: &mut VecDeque<Bytes>| list.pop_front()).expect("it is a list");
        assert_eq!(taken, Some(Some(b"x"[..].into())));
        assert_eq!(keyspace.len(), 0);
    }

    #[test]
    fn another_kind_is_refused() {
        let mut keyspace = Keyspace::default();
        keyspace.set(b"a"[..].into(), Value::Text(Vec::new()));
        assert_eq!(keyspace.find::<VecDeque<Bytes>>(b"a").err(), Some(WrongKind));
        assert_eq!(keyspace.find_or_create::<Map<Bytes, Bytes>>(b"a"[..].into()).err(), Some(WrongKind));
    }
}
