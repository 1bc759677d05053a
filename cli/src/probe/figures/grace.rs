//! Grace periods: one arm of one row of `lab grace`.

use super::super::workload::grace::{Arm, Loop, Reports, Size, checkpoint_ns, files, hold_out};
use super::{Machine, named, number, number_in};

const EXPECTED: &str = "files THREADS WORK_NS TASK THRESHOLD TILL_QS_MS LAZY_LIMIT HANDS_BACK ARM, hold LOOP MS THRESHOLD TILL_QS_MS ARM or checkpoint THRESHOLD ARM";
const MOST_THREADS: usize = 1023;
const MOST_TASK: usize = 1 << 40;
const MOST_THRESHOLD: usize = 1 << 30;
const MOST_MS: usize = 100_000;
const MOST_NS: usize = 1_000_000;
const MOST_WAITING: usize = 1_000_000;
/// As much as the runtime has if nobody tells it another.
const LAZY_LIMIT: u32 = 4096;

/// Measures what the words say: the figures, or what is wrong with the words.
pub fn measure(words: &[&str], machine: &impl Machine) -> Result<Vec<f64>, String> {
    let reports = |word| named(word, &Reports::ALL, Reports::word);
    let threshold = |word| Ok::<_, String>(number("threshold", word, MOST_THRESHOLD)? as u32);
    let operations = |word| Ok::<_, String>(number("number of operations of a task", word, MOST_TASK)? as u64);
    let till = |word| Ok::<_, String>(number("time until readers are told, in ms,", word, MOST_MS)? as u32);
    let figures = match *words {
        ["files", count, work, task, each, till_qs, lazy, hands_back, arm] => {
            let work_ns = number_in("time of an operation's other work, in ns,", work, 0..=MOST_NS)? as u64;
            let (threads, task) = (number("number of threads", count, MOST_THREADS)? as u32, operations(task)?);
            let lazy_limit = number("number of objects that wait", lazy, MOST_WAITING)? as u32;
            let hands_back = number_in("answer whether objects go back to their slot", hands_back, 0..=1)? == 1;
            let (reports, threshold, till_qs_ms) = (reports(arm)?, threshold(each)?, till(till_qs)?);
            let arm = Arm { reports, threshold, till_qs_ms, lazy_limit, hands_back };
            files(arm, Size { threads, work_ns, task }, &machine.threads(threads + 1)?).map(|of| {
                let rates = [of.operations_per_s, of.synchronize_ns / 1e6, of.grace_periods_per_s];
                let batches = [of.callbacks_per_grace_period, of.refills_per_operation, of.contended_per_operation];
                rates.into_iter().chain(batches).chain([of.peak_bytes]).collect()
            })
        }
        ["hold", looks, ms, each, till_qs, arm] => {
            let looks = named(looks, &Loop::ALL, Loop::word)?;
            let hold_ns = number("time of the loop, in ms,", ms, MOST_MS)? as u64 * 1_000_000;
            let (threshold, till_qs_ms) = (threshold(each)?, till(till_qs)?);
            let arm = Arm { reports: reports(arm)?, threshold, till_qs_ms, lazy_limit: LAZY_LIMIT, hands_back: true };
            let held = hold_out(arm, looks, hold_ns, &machine.threads(2)?);
            held.map(|of| vec![of.grace_period_ns as f64 / 1e6, of.peak_bytes])
        }
        ["checkpoint", each, arm] => {
            let (reports, threshold) = (reports(arm)?, threshold(each)?);
            checkpoint_ns(Arm { reports, threshold, till_qs_ms: 10, lazy_limit: LAZY_LIMIT, hands_back: true })
                .map(|ns| vec![ns])
        }
        _ => return Err(format!("the arguments are {words:?}; expected {EXPECTED}")),
    };
    figures.ok_or_else(|| format!("{words:?} gave no figures: there is no memory for it, or SIGURG is somebody else's"))
}
