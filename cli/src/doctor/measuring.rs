//! What `compare` and `lab` measure with and under: the clock, the CPUs' frequency, and cores that two threads share.
//!
//! The runtime itself reads a clock where it waits, and once in a while for upkeep; none of this changes what it does.

use serde_json::json;

use super::finding::{Finding, Verdict};
use super::tree::Tree;

/// Clocks that are read without a system call.
const QUICK: [&str; 4] = ["tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter"];

/// What the kernel reads time from.
pub fn clock(tree: &Tree) -> Finding {
    const ITEM: &str = "clock";
    match tree.text("/sys/devices/system/clocksource/clocksource0/current_clocksource") {
        Ok(source) => {
            let is_quick = QUICK.contains(&source.as_str());
            let facts = json!({ "source": source, "is_quick": is_quick });
            if is_quick {
                return Finding::fine(ITEM, source, "read without a system call: figures of `lab` hold").with(facts);
            }
            let meaning = "each look at it is a system call: lock reports cost more, and `lab` measures that too";
            Finding::fine(ITEM, source, meaning)
                .but(Verdict::Less)
                .advising("clocksource=tsc, if it is stable")
                .with(facts)
        }
        Err(why) => Finding::unknown(ITEM, &why, "a slow one would show in `lab` as slow operations"),
    }
}

/// Whether CPUs change their frequency.
pub fn frequency(tree: &Tree) -> Finding {
    const ITEM: &str = "frequency";
    match tree.text("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor") {
        Ok(governor) => {
            let is_steady = governor == "performance";
            let found = format!("governor {governor}");
            let facts = json!({ "governor": governor });
            if is_steady {
                return Finding::fine(ITEM, found, "as steady as it can be: fit to measure").with(facts);
            }
            let meaning = "`lab` and `compare` need more blocks for the same width: CPUs speed up while they measure";
            Finding::fine(ITEM, found, meaning).advising("governor performance while you measure").with(facts)
        }
        Err(why) => Finding::unknown(ITEM, &why, "usual in virtual machines: the host decides"),
    }
}

/// Whether cores run two threads at a time.
pub fn smt(tree: &Tree) -> Finding {
    const ITEM: &str = "smt";
    match tree.number("/sys/devices/system/cpu/smt/active") {
        Ok(active) => {
            let facts = json!({ "active": active != 0 });
            if active == 0 {
                return Finding::fine(ITEM, "off, or none", "each CPU is a core of its own").with(facts);
            }
            let meaning = "two CPUs are one core: figures of several threads in `lab` depend on which ones they get";
            Finding::fine(ITEM, "on", meaning).with(facts)
        }
        Err(why) => Finding::unknown(ITEM, &why, "figures of several threads may be those of one core"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tree::tests::of;
    use super::*;

    #[test]
    fn slow_clocks_are_told() {
        let said = |source: &str| {
            let (_folder, tree) = of(&[("/sys/devices/system/clocksource/clocksource0/current_clocksource", source)]);
            clock(&tree).verdict
        };
        assert_eq!(["tsc\n", "kvm-clock\n", "hpet\n"].map(said), [Verdict::Fine, Verdict::Fine, Verdict::Less]);
    }

    #[test]
    fn without_sys_nothing_is_known() {
        let (_folder, tree) = of(&[]);
        for found in [clock(&tree), frequency(&tree), smt(&tree)] {
            assert!(found.verdict == Verdict::Unknown && found.found.contains("does not exist"), "{found:?}");
        }
    }

    #[test]
    fn what_makes_figures_spread_has_advice_or_an_explanation() {
        let (_folder, tree) = of(&[
            ("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n"),
            ("/sys/devices/system/cpu/smt/active", "1\n"),
        ]);
        assert!(frequency(&tree).advice.is_some() && smt(&tree).meaning.contains("one core"));
    }
}
