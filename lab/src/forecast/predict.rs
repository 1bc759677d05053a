//! What operations would take on a machine that is not here, from 1 CPU to all of its: simulated, with a band that
//! comes from the bands of its costs.

use anyhow::{Context, Result};

use super::band;
use crate::answers::Answers;
use crate::experiment::probing::words;
use crate::json::{self, Object};
use crate::machine::{MOST_THREADS, Machine};
use crate::metric::for_people;
use crate::parameters::Parameters;
use crate::profile::{LEAST, MOST, Profile};
use crate::report::Figure;
use crate::report::plot::{self, Curve, Scale};
use crate::sheet::{Sheet, Side};

/// An operation of each of so many threads at once: its name, the probe with `N` for their number, and which of its
/// figures it is.
const ROWS: [(&str, &str, usize); 7] = [
    ("atomic", "counters upgraded N atomic", 0),
    ("striped", "counters upgraded N striped", 0),
    ("per-CPU", "counters upgraded N per-cpu", 0),
    ("lazy", "counters upgraded N lazy", 0),
    ("malloc and free", "cache pair N 64 general", 0),
    ("RCU section", "sections N", 0),
    ("RCU synchronize", "sections N", 1),
];
/// Numbers of CPUs that are shown, and all that there are.
const CPUS: [u32; 9] = [1, 2, 4, 8, 16, 32, 64, 128, 256];
/// Figures that are looked at, of those that a probe prints.
const PLACES: usize = 2;

/// Nanoseconds with the costs as they are thought to be, and from the least to the most of what is simulated with
/// these, the least and the most costs.
type Banded = (f64, [f64; 2]);

pub struct Prediction {
    name: String,
    cpus: Vec<u32>,
    /// By row, and by number of CPUs.
    rows: Vec<Vec<Banded>>,
}

/// Predicts for a profile, which is found by this name, from what simulated runs said; or from nothing, while they are
/// listed.
pub fn predict(name: &str, answers: &Answers) -> Result<Prediction> {
    let profile = Profile::find(name)?;
    let of_machine = (profile.cpus as u32).min(MOST_THREADS);
    let cpus: Vec<u32> = CPUS.into_iter().filter(|cpus| *cpus < of_machine).chain([of_machine]).collect();
    let figure = |corner: &str, (line, place): (&str, usize), count: u32| -> Result<f64> {
        let line = line.replace('N', &count.to_string());
        let words = words(&line, Some(format!("{}@{name}{corner}", profile.cpus)));
        let said = answers.of(&words, PLACES).with_context(|| format!("`{}` was not simulated", words.join(" ")))?;
        said.get(place).copied().context("the probe printed too few figures")
    };
    let corners = ["".to_owned(), format!("+{LEAST}"), format!("+{MOST}")];
    let banded = |of: (&str, usize), count: u32| -> Result<Banded> {
        let all = corners.iter().map(|corner| figure(corner, of, count)).collect::<Result<Vec<f64>>>()?;
        Ok((all[0], band(&all)))
    };
    let row = |(_, line, place)| cpus.iter().map(|count| banded((line, place), *count)).collect();
    let rows = ROWS.into_iter().map(row).collect::<Result<_>>()?;
    Ok(Prediction { name: name.to_owned(), cpus, rows })
}

impl Prediction {
    /// By number of CPUs, with bands.
    pub fn sheet(&self) -> Sheet {
        let names = ROWS.iter().map(|(name, ..)| (*name, Side::Right));
        let mut sheet = Sheet::new([("CPUs, simulated", Side::Right)].into_iter().chain(names));
        for (at, cpus) in self.cpus.iter().enumerate() {
            let cell = |row: &Vec<Banded>| {
                let (value, [low, high]) = row[at];
                let [value, low, high] = [value, low, high].map(|ns| for_people(ns, "ns"));
                format!("{value} ({low} to {high})")
            };
            sheet.add([cpus.to_string()].into_iter().chain(self.rows.iter().map(cell)));
        }
        sheet
    }

    /// All of them in one plot.
    pub fn picture(&self) -> Option<Figure> {
        let at: Vec<f64> = self.cpus.iter().map(|cpus| f64::from(*cpus)).collect();
        let curve = |(arm, row): (usize, &Vec<Banded>)| {
            let points = at.iter().copied().zip(row.iter().map(|(value, _)| *value)).collect();
            Curve { arm, name: ROWS[arm].0.to_owned(), points }
        };
        let curves: Vec<Curve> = self.rows.iter().enumerate().map(curve).collect();
        let title = format!("an operation of each CPU, simulated ({}), without bands", self.name);
        plot::curves(&title, &curves, [Scale::At(at.clone()), Scale::Powers("ns")])
    }

    /// For machines, in the form of all results: what is an interval elsewhere is a band here.
    pub fn object(&self, machine: &Machine) -> Object {
        let mut all = Vec::new();
        for ((name, ..), row) in ROWS.iter().zip(&self.rows) {
            for (cpus, (value, band)) in self.cpus.iter().zip(row) {
                let parameters = Parameters::default().with("threads", u64::from(*cpus));
                let origin = "simulated; the interval is the band of its costs";
                all.push(json::Figure::new(name, origin, &parameters, (*value, *band, vec![*value])));
            }
        }
        Object::of_figures("forecast", machine, all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn predicted_figures_carry_bands_and_say_simulated() {
        assert_eq!(band(&[72.0, 190.0, 50.0]), [50.0, 190.0]);
        let rows = vec![vec![(20.0, [10.0, 4000.0]); 2]; ROWS.len()];
        let prediction = Prediction { name: "x86-256".to_owned(), cpus: vec![1, 256], rows };
        let sheet = prediction.sheet();
        assert!(sheet.headings[0].0.contains("simulated") && sheet.rows.len() == 2);
        assert!(sheet.rows[1][1..].iter().all(|cell| cell == "20 ns (10 ns to 4 µs)"), "{:?}", sheet.rows[1]);
        assert!(prediction.picture().unwrap().svg.contains("simulated"));
        let object = serde_json::to_value(prediction.object(&Machine::simulated(256, None))).unwrap();
        assert_eq!(object["machine"]["kind"], "simulated");
        let arms = object["arms"].as_array().unwrap();
        assert_eq!(arms.len(), 2 * ROWS.len());
        assert_eq!(arms[1]["metrics"]["operation_ns"]["ci95"], serde_json::json!([10.0, 4000.0]));
    }
}
