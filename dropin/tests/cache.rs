//! The object caches of `commensal.h`, as C programs use them: linked with the shared library and with the archive, in both modes.

use dropin::in_both_modes;
use dropin::linked::{ended, ends_with, holds};
use dropin::subject::Mode;

in_both_modes! {
    basics: |mode| holds(mode, "cache basics");
    hooks: |mode| holds(mode, "cache hooks");
    served_by_general_classes: |mode| drop(ended(mode, "cache general", "cache.*.dedicated:off,cache.own.dedicated:on"));
    wrong_rules: super::wrong_rules;
    table_at_exit: super::table_at_exit;
    given_to_another: |mode| ends_with(mode, "cache mixed_up", "was given back to a cache that it is not from");
}

/// The columns of /proc/slabinfo, as its header says them: what 300 objects of 1000 bytes need, of which seven are left.
fn table_at_exit(mode: Mode) {
    for outcome in ended(mode, "cache table", "slabinfo:exit") {
        let mut lines = outcome.stderr.lines().skip_while(|line| !line.starts_with("slabinfo - version: 2.1"));
        let header = lines.nth(1).unwrap_or_else(|| panic!("{}", outcome.report("no table")));
        assert!(header.contains("<active_objs> <num_objs> <objsize> <objperslab> <pagesperslab>"), "{header}");
        let row = lines
            .find(|line| line.starts_with("contexts/used"))
            .unwrap_or_else(|| panic!("{}", outcome.report("no row")));
        let words: Vec<&str> = row.split_whitespace().collect();
        let number = |index: usize| words[index].parse::<u64>().unwrap_or_else(|_| panic!("column {index}: {row}"));
        assert_eq!((number(1), &words[3..6]), (7, &["1008", "65", "16"][..]), "{row}");
        assert_eq!(words[7..11], ["tunables", "60", "20", "0"], "{row}");
        assert!((1..=5).contains(&number(14)) && number(2) == 65 * number(14), "{row}");
    }
}

/// They are named, with what would be right, and the program runs as without them.
fn wrong_rules(mode: Mode) {
    for outcome in ended(mode, "cache basics", "cache.test.dedicated:perhaps,cache.test.dedicatd:off") {
        for said in [
            "cache.test.dedicated cannot be 'perhaps': expected off or on; ignored",
            "unknown key 'cache.test.dedicatd': did you mean 'cache.NAME.dedicated'? ignored",
        ] {
            assert!(outcome.stderr.contains(said), "{}", outcome.report(&format!("{said:?} was not said")));
        }
    }
}
