//! Part e: fork and exec of a program that does nothing, in a loop on one CPU, as the document has it: under this malloc, lazy, and laid out
//! for all CPUs at the start; under every installed peer; and with nothing preloaded.

use anyhow::Result;

use super::{Blocks, EAGER, LAZY, MAIN_CPUS, Measured, Part, at_cpus, library, measured};
use crate::analysis::Analysis;
use crate::arm::{Arm, COMMENSAL};
use crate::blocks::Subject;
use crate::experiment::startup::{self, SYSTEM, SYSTEM_TIME};
use crate::experiment::{LAZY_COUNTERS, Setting};
use crate::json::{Compared, Documented};
use crate::machine;
use crate::report;
use crate::sheet::Sheet;
use crate::table;

const BLOCKS: Blocks = Blocks::of(12, 150);
/// The main number and what the document has besides.
const CPUS: [u64; 3] = [2, 80, MAIN_CPUS];

/// This malloc laid out at the start, for as many CPUs as a row says, and the same with its usual settings. None without the library.
pub fn eager_and_lazy(setting: &Setting) -> Option<[Arm; 2]> {
    let library = library(setting)?;
    let with = |name: &str, settings: &str| Arm::commensal(name, library, Some(settings.to_owned()));
    Some([with(EAGER, "lazy:off"), with(LAZY, "lazy:on")])
}

/// What a row asks for of both.
pub fn settings(cpus: u64) -> Option<String> {
    Some(format!("possible_cpus:{cpus}"))
}

pub fn measure(setting: &Setting) -> Result<Measured> {
    let Some(ours) = eager_and_lazy(setting) else { return Ok(Measured::default()) };
    let others = setting.arms.iter().filter(|arm| arm.name != COMMENSAL).cloned();
    let arms: Vec<Arm> = ours.into_iter().chain(others).collect();
    let subject = |cpus| Subject { parameters: at_cpus(cpus), settings: settings(cpus), ..startup::subject() };
    let analysis = measured(setting, CPUS.map(subject).into(), &arms, BLOCKS, machine::quiet_cpu())?;
    let title = "e. Fork and exec of a program that does nothing, on one CPU".to_owned();
    Ok(Part { title, sheets: sheets(&analysis), analysis, plots: report::usual_plots, document }.into())
}

/// Wall time, and the parts of processor time.
fn sheets(analysis: &Analysis) -> Vec<Sheet> {
    if analysis.measured.blocks == 0 {
        return Vec::new();
    }
    let metrics = analysis.measured.rows[0].metrics.iter().enumerate();
    let times = metrics.filter(|(_, metric)| metric.unit == "s");
    times.map(|(metric, _)| table::of_subjects(analysis, metric)).collect()
}

fn document(of: &Compared) -> Option<Documented> {
    let is_it = of.baseline.name == EAGER && of.candidate.name == LAZY && *of.metric == SYSTEM;
    let cpus = of.parameters.number("possible_cpus").filter(|_| is_it)?;
    let (_, value) = SYSTEM_TIME.into_iter().find(|(cores, _)| *cores == cpus)?;
    let figure = format!("system time of fork, {cpus} cores");
    Some(Documented { source: LAZY_COUNTERS.to_owned(), figure, value })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::WALL;

    #[test]
    fn the_document_has_two_machines() {
        let [eager, lazy] = ["eager", "lazy"].map(|name| Arm::commensal(name, "/l.so", None));
        let said = |baseline, candidate, metric, cpus| {
            document(&Compared { baseline, candidate, metric, parameters: &at_cpus(cpus) }).map(|said| said.value)
        };
        assert_eq!(said(&eager, &lazy, &SYSTEM, 80), Some(0.94));
        assert_eq!(said(&eager, &lazy, &SYSTEM, 256), Some(0.89));
        assert_eq!(said(&eager, &lazy, &SYSTEM, 2), None);
        assert_eq!(said(&lazy, &eager, &SYSTEM, 80), None);
        assert_eq!(said(&eager, &lazy, &WALL, 80), None);
    }
}
