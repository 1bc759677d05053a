//! Cells: a value that was loaded stays whole, no change is lost, and each value is dropped once.

mod common;

use commensal_runtime::rcu;
use commensal_runtime::rcu::qsbr::KickableReader;
use common::child::in_both_modes;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread;

static ALIVE: AtomicI64 = AtomicI64::new(0);

/// A number twice, which is gone when both are not the same; it counts how many of it there are.
#[derive(Debug)]
struct Pair(u64, u64, Vec<u64>);

impl Pair {
    fn new(number: u64) -> Self {
        ALIVE.fetch_add(1, Ordering::Relaxed);
        Pair(number, !number, vec![number; 3])
    }

    fn check(&self) -> u64 {
        assert!(self.1 == !self.0 && self.2 == [self.0; 3], "found {self:?}");
        self.0
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        self.check();
        (self.0, self.1) = (1, 1);
        ALIVE.fetch_sub(1, Ordering::Relaxed);
    }
}

#[test]
fn cell_keeps_loaded_values_and_loses_no_update() {
    in_both_modes(|| {
        const UPDATERS: u64 = 3;
        const UPDATES: u64 = 20_000;
        let (cell, plain) = (rcu::Cell::new(Pair::new(0)).unwrap(), rcu::Cell::new([0u64; 8]).unwrap());
        let replaced: Vec<_> = (0..UPDATERS * UPDATES).map(|_| AtomicBool::new(false)).collect();
        let end = AtomicBool::new(false);
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let mut reader = KickableReader::register().unwrap();
                    let (mut last, mut loads) = (0, 0u64);
                    while !end.load(Ordering::Relaxed) || loads == 0 {
                        let loaded = cell.load();
                        let number = loaded.check();
                        assert!(number >= last, "{number} came after {last}");
                        thread::yield_now();
                        assert_eq!(loaded.check(), number);
                        let section = reader.read();
                        let other = plain.load_in(&section);
                        assert!(other.iter().all(|word| *word == other[0]), "found {other:?}");
                        drop(section);
                        reader.checkpoint();
                        (last, loads) = (number, loads + 1);
                    }
                });
            }
            let updaters: Vec<_> = (0..UPDATERS)
                .map(|updater| {
                    let (cell, plain, replaced) = (&cell, &plain, &replaced);
                    scope.spawn(move || {
                        for update in 0..UPDATES {
                            let old = cell.rcu(|pair| Pair::new(pair.check() + 1)).unwrap();
                            // Each value is replaced once, and stays for as long as its updater has it.
                            assert!(!replaced[old.check() as usize].swap(true, Ordering::Relaxed), "{old:?} twice");
                            plain.store([updater * UPDATES + update; 8]).unwrap();
                        }
                    })
                })
                .collect();
            let ended: Vec<_> = updaters.into_iter().map(|updater| updater.join()).collect();
            end.store(true, Ordering::Relaxed);
            assert!(ended.iter().all(Result::is_ok));
        });
        assert_eq!(cell.load().check(), UPDATERS * UPDATES);
        rcu::barrier();
        assert_eq!(ALIVE.load(Ordering::Relaxed), 1, "values that were replaced are alive, or were dropped twice");
        drop(cell);
        assert_eq!(ALIVE.load(Ordering::Relaxed), 0);
        assert_eq!((rcu::waiting().objects, rcu::waiting().lost), (0, 0));
    });
}

/// Planted bug that was seen here: a value that is retired before its owner drops it.
#[test]
fn replaced_value_and_clone_stay_after_grace_periods_and_the_cell() {
    in_both_modes(|| {
        let cell = rcu::Cell::new(Arc::new(Pair::new(1))).unwrap();
        let (clone, replaced) = (cell.load_full(), cell.rcu(|_| Pair::new(2)).unwrap());
        assert!(Arc::ptr_eq(&clone, &replaced));
        drop(cell);
        thread::spawn(rcu::barrier).join().unwrap();
        assert_eq!((clone.check(), replaced.check(), ALIVE.load(Ordering::Relaxed)), (1, 1, 1));
        thread::spawn(|| drop(replaced)).join().unwrap();
        rcu::barrier();
        assert_eq!(Arc::into_inner(clone).map(|pair| pair.check()), Some(1), "the value has another owner");
        assert_eq!((rcu::waiting().objects, ALIVE.load(Ordering::Relaxed)), (0, 0));
    });
}

/// Planted bug that was seen here: an exchange that does not compare.
#[test]
fn value_replaced_meanwhile_is_changed_again() {
    in_both_modes(|| {
        let cell = rcu::Cell::new(String::from("one")).unwrap();
        let first = cell.load();
        cell.store("two".into()).unwrap();
        assert_eq!(*first, "one");
        drop(first);
        cell.rcu(|now| {
            if now == "two" {
                cell.store("three".into()).unwrap();
            }
            format!("{now} and four")
        })
        .unwrap();
        assert_eq!(cell.load_full(), "three and four");
        assert_eq!(format!("{cell:?}"), r#"Cell("three and four")"#);
        drop(cell);
        rcu::barrier();
        assert_eq!(rcu::waiting().objects, 0);
    });
}
