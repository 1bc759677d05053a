//! Whose number a process has: in a container it is another one than outside, and two containers may give the same one.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;

use host::publication::Name;
use procfs::process::all_processes;

use crate::process::exists;

/// A process, as far as it can be seen from here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Number {
    /// It has this number here, or had it.
    Here(u32),
    /// There is none.
    Nobody,
    /// Its namespace is one that cannot be seen from here.
    Elsewhere,
}

impl Number {
    /// Whether there may be such a process.
    pub fn may_exist(self) -> bool {
        match self {
            Number::Here(number) => exists(number),
            Number::Nobody => false,
            Number::Elsewhere => true,
        }
    }
}

/// PID namespaces, as seen from this process's own.
#[derive(Debug)]
pub struct Namespaces {
    own: u64,
    /// The numbers here of processes that have others in theirs; looked up when one is asked for.
    others: OnceCell<HashMap<Name, u32>>,
}

impl Namespaces {
    /// Those of now.
    pub fn now() -> Self {
        Namespaces { own: own(), others: OnceCell::new() }
    }

    /// What a page is called that a process of this namespace has.
    pub fn name(&self, process: u32) -> Name {
        Name { namespace: self.own, process }
    }

    /// The process that a page is named by.
    pub fn number(&self, name: Name) -> Number {
        if name.namespace == self.own || name.namespace == 0 {
            return Number::Here(name.process);
        }
        match self.others.get_or_init(numbers_of_others).get(&name) {
            Some(&number) => Number::Here(number),
            // From there all processes can be seen.
            None if self.own == Name::MACHINE => Number::Nobody,
            None => Number::Elsewhere,
        }
    }
}

fn own() -> u64 {
    fs::metadata("/proc/self/ns/pid").map_or(0, |namespace| namespace.ino())
}

fn numbers_of_others() -> HashMap<Name, u32> {
    let own = own();
    let other = |process: procfs::process::Process| {
        let namespace = fs::metadata(format!("/proc/{}/ns/pid", process.pid)).ok()?.ino();
        if namespace == own {
            return None;
        }
        let inside = *process.status().ok()?.nspid?.last()?;
        Some((Name { namespace, process: inside as u32 }, process.pid as u32))
    };
    all_processes().into_iter().flatten().flatten().filter_map(other).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_this_namespace_are_what_they_are() {
        let here = Namespaces::now();
        assert_eq!(here.number(here.name(17)), Number::Here(17));
        assert_eq!(here.number(Name { namespace: 0, process: 17 }), Number::Here(17));
        // There is no such namespace.
        let expected = if own() == Name::MACHINE { Number::Nobody } else { Number::Elsewhere };
        assert_eq!(here.number(Name { namespace: 1, process: 17 }), expected);
        let of_a_container = Namespaces { own: 5, others: OnceCell::from(HashMap::new()) };
        assert_eq!(of_a_container.number(Name { namespace: Name::MACHINE, process: 17 }), Number::Elsewhere);
        assert!(Number::Here(std::process::id()).may_exist() && Number::Elsewhere.may_exist());
        assert!(!Number::Here(crate::sample::NOBODY).may_exist() && !Number::Nobody.may_exist());
    }
}
