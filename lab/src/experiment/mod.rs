//! The frame of the lab: what an experiment is, and which there are.
//!
//! An experiment is one file or folder with an [`Experiment`]. It names its document, chooses arms and programs, and returns its
//! parts, each an analysis, with the claims of the document: what the document says, what was measured here, what was
//! simulated, and whether they agree. All experiments share the order of runs, the statistics, the JSON and the page.

mod cache;
mod counters;
mod figures;
mod grace;
mod kicks;
mod predicted;
pub(crate) mod probing;
mod stagger;
mod startup;

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Result;
use statistics::{Comparison, Verdict};
use tempfile::TempDir;

use crate::analysis::Analysis;
use crate::answers::Answers;
use crate::arm::Arm;
use crate::json::{self, Documented, Object};
use crate::machine::Machine;
use crate::process::Interrupt;
use crate::report::{Chapter, Figure, Plots, Section};
use crate::sheet::{Sheet, Side};
use crate::table;

pub use predicted::Predicted;
use predicted::Prediction;
pub use startup::{EMPTY, EMPTY_LIBRARY};

/// All experiments, in the order in which `lab list` names them.
pub static ALL: [Experiment; 6] =
    [counters::COUNTERS, cache::CACHE, kicks::KICKS_ON_CREATION, grace::GRACE, stagger::STAGGER, startup::STARTUP];

/// The article of two of them.
const LAZY_COUNTERS: &str = "an article on the RFC \"lazy counters\" for rss_stat (G. K. Bertazi)";

/// One experiment.
pub struct Experiment {
    /// Its name, one word.
    pub name: &'static str,
    /// The question that it answers, a short line.
    pub about: &'static str,
    /// The document.
    pub source: &'static str,
    /// Whether it can run on a simulated machine.
    pub simulates: bool,
    /// Measures.
    measure: fn(&Setting) -> Result<Outcome>,
}

/// What an experiment is given.
#[derive(Clone)]
pub struct Setting {
    /// Whether less than 45 seconds are wanted, at the price of wider intervals.
    pub quick: bool,
    /// How many blocks; none is what the experiment thinks right.
    pub blocks: Option<usize>,
    /// What chance is drawn from.
    pub seed: u64,
    /// On what: this machine, or a simulated one.
    pub machine: Machine,
    /// What is compared, where an experiment compares allocators: the baseline first.
    pub arms: Vec<Arm>,
    /// The command that runs bundled programs and probes.
    pub command: PathBuf,
    /// For files that go away.
    pub scratch: Arc<TempDir>,
    /// Ctrl-C.
    pub interrupt: Interrupt,
    /// What simulated runs said.
    pub answers: Answers,
}

/// What came out.
pub struct Outcome {
    /// On what it was measured.
    pub machine: Machine,
    /// Paragraphs that explain what is compared.
    pub about: Vec<String>,
    /// What the document says, and whether it holds.
    pub claims: Vec<Claim>,
    /// What follows besides, and what could not be measured; a line each.
    pub remarks: Vec<String>,
    /// What shows at a look what it is about.
    pub pictures: Vec<Figure>,
    /// What was measured, one part after the other.
    pub parts: Vec<Part>,
    /// What had been predicted for the simulated machine.
    pub predicted: Vec<Predicted>,
}

/// One measurement of an experiment, with arms of its own.
pub struct Part {
    /// What is measured; empty if it is the only part.
    pub title: String,
    /// Every arm in every metric.
    pub analysis: Analysis,
    /// Its tables.
    pub sheets: Vec<Sheet>,
    /// Draws its plots.
    pub plots: Plots,
    /// What the document says of comparisons, for the JSON.
    pub documents: Vec<Documented>,
}

/// A statement of a document, compared with what was found.
pub struct Claim {
    /// The quantity.
    pub claim: String,
    /// What the document says, and in parentheses what agrees with it.
    pub document: String,
    /// What was measured here; none if it was not measured.
    pub measured: Option<String>,
    /// What was simulated, and for how many CPUs.
    pub simulated: Option<String>,
    /// What was found as a number, for predictions.
    pub figure: Option<f64>,
    /// Whether it agrees with the document; none if that cannot be told.
    pub holds: Option<bool>,
}

/// In place of what a document does not say, or was not found.
const NOTHING: &str = "–";
/// How our own goals begin, in place of what a document says.
const GOAL: &str = "goal: ";

/// For one line on a terminal.
impl std::fmt::Display for Claim {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (&self.measured, &self.simulated) {
            (None, None) => write!(out, "not measured here")?,
            (Some(here), None) => write!(out, "{here} here")?,
            (None, Some(simulated)) => write!(out, "simulated: {simulated}")?,
            (Some(here), Some(simulated)) => write!(out, "{here} here; simulated: {simulated}")?,
        }
        let verdict = match self.holds {
            Some(true) => "agrees",
            Some(false) => "DISAGREES",
            None => "cannot be told here",
        };
        match self.document.as_str() {
            NOTHING => write!(out, "; the document does not say"),
            goal if goal.starts_with(GOAL) => write!(out, "; {goal}: {verdict}"),
            document => write!(out, "; the document says {document}: {verdict}"),
        }
    }
}

impl Claim {
    /// What was found, in words and as a number; none if there was nothing to measure it on.
    fn of(
        claim: impl Into<String>, document: impl Into<String>, found: Option<(String, f64)>, holds: Option<bool>,
    ) -> Self {
        let (measured, figure) = found.unzip();
        Claim { claim: claim.into(), document: document.into(), measured, simulated: None, figure, holds }
    }

    /// What the document says, without what agrees with it.
    fn says(&self) -> &str {
        let parts = self.document.rsplit_once(" (");
        parts.filter(|(_, agrees)| agrees.ends_with("agrees)")).map_or(&self.document, |(says, _)| says)
    }

    /// The same, where what was measured was simulated.
    fn simulated_at(self, cpus: usize) -> Self {
        let simulated = self.measured.map(|figure| format!("{figure}, of {cpus} CPUs"));
        Claim { measured: None, simulated, holds: None, ..self }
    }
}

/// Measures, on a simulated machine all runs first, several at a time; and says what had been predicted.
pub fn measure(experiment: &Experiment, setting: &Setting) -> Result<Outcome> {
    if setting.machine.is_simulated() {
        setting.answers.list(|| evaluate(experiment, setting))?;
        // What fails is run again where it is looked at, and told there.
        if let Err(error) = setting.answers.make(&setting.command, &setting.interrupt) {
            anyhow::ensure!(!setting.interrupt.seen(), error);
        }
    }
    evaluate(experiment, setting)
}

/// The outcome of what was measured, or was simulated before.
fn evaluate(experiment: &Experiment, setting: &Setting) -> Result<Outcome> {
    let mut outcome = (experiment.measure)(setting)?;
    outcome.predicted = predicted::held(experiment, setting, &outcome.claims)?;
    Ok(outcome)
}

/// Fills the third column of what was measured here: simulated on machines like those that the document had. If that cannot be, what was measured stays.
pub fn with_third_column(experiment: &Experiment, setting: &Setting, outcome: &mut Outcome) {
    let mut fill = |profile| -> Result<()> {
        let setting = Setting { quick: true, machine: Machine::like(profile)?, ..setting.clone() };
        let simulated = measure(experiment, &setting)?;
        for claim in &mut outcome.claims {
            let same = simulated.claims.iter().find(|other| other.claim == claim.claim);
            let column = same.and_then(|same| Some(format!("{} ({profile})", same.simulated.as_ref()?)));
            let columns = claim.simulated.take().into_iter().chain(column);
            claim.simulated = columns.reduce(|one, other| format!("{one}; {other}"));
        }
        outcome.predicted.extend(simulated.predicted);
        Ok(())
    };
    let filled = Prediction::profiles(experiment.name).and_then(|all| all.into_iter().try_for_each(&mut fill));
    if let Err(error) = filled {
        outcome.remarks.push(format!("Some simulations failed: {error:#}."));
    }
}

impl Outcome {
    /// What came out of these parts, with nothing drawn. Claims of a simulated machine stand in their column.
    fn of(setting: &Setting, explanation: &str, claims: Vec<Claim>, remarks: Vec<String>, parts: Vec<Part>) -> Self {
        let machine = setting.machine.clone();
        let in_its_column =
            |claim: Claim| if machine.is_simulated() { claim.simulated_at(machine.cpus) } else { claim };
        Outcome {
            claims: claims.into_iter().map(in_its_column).collect(),
            about: explanation.lines().map(str::to_owned).collect(),
            remarks,
            pictures: Vec::new(),
            parts,
            predicted: Vec::new(),
            machine,
        }
    }

    /// Whether an arm did something else than its baseline.
    pub fn has_fault(&self) -> bool {
        self.parts.iter().any(|part| part.analysis.has_fault())
    }

    /// The claims with their verdicts, for a terminal: two lines each.
    pub fn verdicts(&self) -> String {
        let lines: String = self.claims.iter().map(|claim| format!("{}\n    {claim}\n", claim.claim)).collect();
        if lines.is_empty() { lines } else { format!("\nWhat was found, and what the document says\n\n{lines}") }
    }

    /// The table of claims, if there are any.
    fn claims(&self) -> Option<Sheet> {
        let headings = [
            ("claim", Side::Left),
            ("document", Side::Right),
            ("measured here", Side::Right),
            ("simulated at N", Side::Right),
            ("holds here", Side::Left),
        ];
        let mut sheet = Sheet::new(headings);
        for Claim { claim, document, measured, simulated, holds, .. } in &self.claims {
            let [measured, simulated] = [measured, simulated].map(|cell| cell.as_deref().unwrap_or(NOTHING));
            let holds = match holds {
                Some(true) => "yes",
                Some(false) => "NO",
                None => "cannot be told",
            };
            sheet.add([claim, document, measured, simulated, holds]);
        }
        (!self.claims.is_empty()).then_some(sheet)
    }

    /// The table of predictions, if there are any.
    pub fn predictions(&self) -> Option<Sheet> {
        (!self.predicted.is_empty()).then(|| predicted::sheet(&self.predicted))
    }

    /// The result in the common form.
    pub fn object(&self, experiment: &Experiment) -> Object {
        let parts: Vec<_> = self.parts.iter().map(|part| (&part.analysis, &part.documents[..])).collect();
        json::object(experiment.name, &self.machine, &parts)
    }

    /// Its part of a page.
    pub fn chapter(&self, experiment: &Experiment) -> Chapter<'_> {
        let Experiment { name, about, source, .. } = experiment;
        let source = [format!("Document: {source}.")];
        Chapter {
            title: format!("{name}: {about}"),
            about: self.about.iter().cloned().chain(source).chain(self.remarks.iter().cloned()).collect(),
            sheets: self.claims().into_iter().chain(self.predictions()).collect(),
            pictures: &self.pictures,
            sections: self.parts.iter().map(Part::section).collect(),
            object: self.object(experiment),
        }
    }
}

impl Part {
    /// One whose tables have every arm's own figures, and of which no document says anything.
    fn of(title: impl Into<String>, analysis: Analysis, plots: Plots) -> Self {
        let sheets = probing::tables(&analysis, |_| true, table::figures);
        Part { title: title.into(), sheets, analysis, plots, documents: Vec::new() }
    }

    fn section(&self) -> Section<'_> {
        let Self { title, analysis, sheets, plots, .. } = self;
        Section { title: title.clone(), analysis, sheets: sheets.clone(), plots: *plots }
    }
}

/// Whether a run agrees with a document's ratio below one: any difference in that direction does. If no difference is shown,
/// the run disagrees if it would have detected the document's effect; otherwise it cannot tell.
fn holds(compared: &Comparison, documented: f64) -> Option<bool> {
    match (compared.verdict, compared.detectable) {
        (Verdict::Less, _) => Some(true),
        (Verdict::More, _) => Some(false),
        (Verdict::NotShown, Some(effect)) if effect <= 1.0 / documented - 1.0 => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_words_and_all_different() {
        for (at, experiment) in ALL.iter().enumerate() {
            let name = experiment.name;
            assert!(name.chars().all(|c| c.is_ascii_lowercase()), "{name}");
            assert!(ALL[..at].iter().all(|other| other.name != name));
        }
    }

    #[test]
    fn verdict_names_both_figures() {
        let found = || Some(("0.338 ×".to_owned(), 0.338));
        let told = |document: &str, found, holds| Claim::of("less", document, found, holds).to_string();
        let says = "0.338 × here; the document says 0.94 × (below 1 agrees): agrees";
        assert_eq!(told("0.94 × (below 1 agrees)", found(), Some(true)), says);
        assert_eq!(told("1.2 ×", found(), Some(false)), "0.338 × here; the document says 1.2 ×: DISAGREES");
        assert_eq!(told("1.2 ×", None, None), "not measured here; the document says 1.2 ×: cannot be told here");
        assert_eq!(told(NOTHING, found(), None), "0.338 × here; the document does not say");
        assert_eq!(told("goal: below 1", found(), Some(true)), "0.338 × here; goal: below 1: agrees");
        let simulated = Claim::of("less", "1.2 ×", found(), None).simulated_at(80);
        assert!(simulated.to_string().starts_with("simulated: 0.338 ×, of 80 CPUs; "), "{simulated}");
    }

    #[test]
    fn claim_below_the_detectable_effect_is_left_open() {
        for (verdict, detectable, expected) in [
            (Verdict::Less, Some(0.5), Some(true)),
            (Verdict::More, None, Some(false)),
            (Verdict::NotShown, Some(0.05), Some(false)),
            (Verdict::NotShown, Some(0.08), None),
            (Verdict::NotShown, None, None),
        ] {
            let example = crate::example::analysis(&[""]).rows[0][0].comparisons[2].unwrap();
            assert_eq!(holds(&Comparison { verdict, detectable, ..example }, 0.94), expected);
        }
    }
}
