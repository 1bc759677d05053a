//! The frame of the lab: what an experiment is, and which there are.
//!
//! An experiment is one file behind [`Experiment`]: it says which document it reproduces, chooses arms and programs, and hands back
//! an analysis with a table of claims: what the document says, what was measured here, what was simulated, and whether the claim
//! holds. The order of runs, the statistics, the JSON and the page are the same for all.

mod startup;

use anyhow::Result;
use tempfile::TempDir;

use crate::analysis::Analysis;
use crate::arm::Arm;
use crate::json::{self, Document, Object};
use crate::process::Interrupt;
use crate::report::Chapter;
use crate::sheet::{Sheet, Side};
use crate::table;

pub use startup::{EMPTY, Startup};

/// All experiments, in the order in which `lab list` names them.
pub const ALL: [&dyn Experiment; 1] = [&Startup];

/// One experiment.
pub trait Experiment {
    /// What it is called by, as a word.
    fn name(&self) -> &'static str;

    /// What it finds out, in a short line.
    fn about(&self) -> &'static str;

    /// The document that it is about.
    fn source(&self) -> &'static str;

    /// Measures.
    fn measure(&self, setting: &Setting) -> Result<Outcome>;
}

/// What an experiment is given.
pub struct Setting {
    /// Whether less than 45 seconds are wanted, at the price of wider intervals.
    pub quick: bool,
    /// How many blocks; none is what the experiment thinks right.
    pub blocks: Option<usize>,
    /// What chance is drawn from.
    pub seed: u64,
    /// What is compared, where an experiment compares allocators: the baseline first.
    pub arms: Vec<Arm>,
    /// For files that go away.
    pub scratch: TempDir,
    /// Ctrl-C.
    pub interrupt: Interrupt,
}

/// What came out.
pub struct Outcome {
    /// Paragraphs that explain what is compared.
    pub about: Vec<String>,
    /// Every arm in every metric.
    pub analysis: Analysis,
    /// Baselines besides the first, each with the metric of which there is a table.
    pub also: Vec<(usize, usize)>,
    /// What the document says, and whether it holds.
    pub claims: Vec<Claim>,
    /// The same for the JSON.
    pub document: Document,
}

/// Something that a document says, held against what was found.
pub struct Claim {
    /// What is claimed of what.
    pub claim: String,
    /// The document's figure.
    pub document: String,
    /// What was measured here; none if there was nothing to measure it on.
    pub measured: Option<String>,
    /// What was simulated, and for how many CPUs.
    pub simulated: Option<String>,
    /// Whether it holds here; none if that cannot be told.
    pub holds: Option<bool>,
}

impl Outcome {
    /// The tables, the document's first.
    pub fn sheets(&self) -> Vec<Sheet> {
        let mut sheets = self.own_sheets();
        if self.analysis.measured.blocks > 0 {
            sheets.extend(table::of_subject(&self.analysis, 0));
        }
        sheets
    }

    fn own_sheets(&self) -> Vec<Sheet> {
        if self.analysis.measured.blocks == 0 {
            return Vec::new();
        }
        let mut sheets = Vec::new();
        if !self.claims.is_empty() {
            sheets.push(claims(&self.claims));
        }
        for &(other, metric) in &self.also {
            let (baseline, rows) = &self.analysis.others[other];
            sheets.push(table::of_metric(&self.analysis, &rows[0][metric], *baseline));
        }
        sheets
    }

    /// The result in the common form.
    pub fn object(&self, experiment: &dyn Experiment) -> Object {
        json::object(experiment.name(), &self.analysis, self.document)
    }

    /// Its part of a page.
    pub fn chapter(&self, experiment: &dyn Experiment) -> Chapter<'_> {
        Chapter {
            title: format!("{}: {}", experiment.name(), experiment.about()),
            about: self.about.iter().cloned().chain([format!("Document: {}.", experiment.source())]).collect(),
            analysis: &self.analysis,
            sheets: self.own_sheets(),
            object: self.object(experiment),
        }
    }
}

fn claims(claims: &[Claim]) -> Sheet {
    let mut sheet = Sheet::new([
        ("claim", Side::Left),
        ("document", Side::Right),
        ("measured here", Side::Right),
        ("simulated at N", Side::Right),
        ("holds here", Side::Left),
    ]);
    for claim in claims {
        let or_none = |cell: &Option<String>| cell.clone().unwrap_or_else(|| "–".to_owned());
        let holds = match claim.holds {
            Some(true) => "yes",
            Some(false) => "NO",
            None => "cannot be told",
        };
        let cells = [claim.claim.clone(), claim.document.clone(), or_none(&claim.measured), or_none(&claim.simulated)];
        sheet.add(cells.into_iter().chain([holds.to_owned()]));
    }
    sheet
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_words_and_all_different() {
        for (at, experiment) in ALL.iter().enumerate() {
            assert!(experiment.name().chars().all(|c| c.is_ascii_lowercase()), "{}", experiment.name());
            assert!(ALL[..at].iter().all(|other| other.name() != experiment.name()));
            assert!(!experiment.about().is_empty() && !experiment.source().is_empty());
        }
    }

    #[test]
    fn a_claim_that_does_not_hold_is_printed_as_such() {
        let claim = |measured: Option<&str>, holds| Claim {
            claim: "less".to_owned(),
            document: "0.9".to_owned(),
            measured: measured.map(str::to_owned),
            simulated: None,
            holds,
        };
        let text = claims(&[claim(Some("1.2"), Some(false)), claim(None, None)]).to_string();
        assert!(text.contains("1.2                –   NO\n") && text.contains("cannot be told"), "{text}");
    }
}
