//! Grace periods: one arm of one row of `lab grace`.

use super::super::workload::grace::{Arm, Size, checkpoint_ns, files, hold_out};
use super::{Machine, named, number, threads, unexpected};

const EXPECTED: &str = "files THREADS WORK_NS TASK THRESHOLD TILL_QS_MS LAZY_LIMIT HANDS_BACK ARM, \
                        hold LOOP MS THRESHOLD TILL_QS_MS ARM or checkpoint THRESHOLD ARM";
const MOST_MS: u32 = 100_000;

/// Measures what the words say: the figures, or what is wrong with the words.
pub fn measure(words: &[&str], machine: &impl Machine) -> Result<Vec<f64>, String> {
    let arm = |threshold, till_qs, arm| -> Result<Arm, String> {
        Ok(Arm {
            reports: named(arm)?,
            threshold: number("threshold", threshold, 1..=1 << 30)?,
            till_qs_ms: number("time until readers are told, in ms,", till_qs, 1..=MOST_MS)?,
        })
    };
    let figures = match *words {
        ["files", count, work, task, threshold, till_qs, lazy_limit, hands_back, reports] => {
            let size = Size {
                threads: threads(count)?,
                work_ns: number("time of an operation's other work, in ns,", work, 0..=1_000_000)?,
                task: number("number of operations of a task", task, 1..=1 << 40)?,
                lazy_limit: number("number of objects that wait", lazy_limit, 1..=1_000_000)?,
                hands_back: number("answer whether objects go back to their slot", hands_back, 0..=1)? == 1,
            };
            files(arm(threshold, till_qs, reports)?, size, &machine.threads(size.threads + 1)?).map(Vec::from)
        }
        ["hold", looks, ms, threshold, till_qs, reports] => {
            let hold_ms: u32 = number("time of the loop, in ms,", ms, 1..=MOST_MS)?;
            let arm = arm(threshold, till_qs, reports)?;
            hold_out(arm, named(looks)?, u64::from(hold_ms) * 1_000_000, &machine.threads(2)?).map(Vec::from)
        }
        ["checkpoint", threshold, reports] => checkpoint_ns(arm(threshold, "10", reports)?).map(|ns| vec![ns]),
        _ => return unexpected(words, EXPECTED),
    };
    figures.ok_or_else(|| format!("{words:?} gave no figures: there is no memory for it, or SIGURG is somebody else's"))
}
