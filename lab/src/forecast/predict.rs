//! What operations would take on a machine that is not here, from 1 CPU to all of its: simulated, with a band that comes from the bands of its costs, and with what
//! follows if one of them is half of what it is thought to be, or twice.

use anyhow::{Context, Result};

use crate::answers::Answers;
use crate::experiment::probing::words;
use crate::json::{self, Object};
use crate::machine::{MOST_THREADS, Machine};
use crate::metric::for_people;
use crate::parameters::Parameters;
use crate::profile::{COSTS, LEAST, MOST, Profile};
use crate::report::Figure;
use crate::report::plot::{self, Curve, Scale};
use crate::sheet::{Sheet, Side};

/// An operation of each of so many threads at once: its name, the probe with `N` for their number, and which of its figures it is.
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
/// Sensitivity is told for no more CPUs than these.
const OF_SENSITIVITY: u32 = 64;
/// A cost counts that changes something by such a part, and so many are told.
const COUNTS: f64 = 0.05;
const TOLD: usize = 4;
/// Figures that are looked at, of those that a probe prints.
const PLACES: usize = 2;

/// What is simulated, and what with the least and the most of all costs, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Band {
    /// With the costs as they are thought to be.
    pub value: f64,
    /// With the least.
    pub low: f64,
    /// With the most.
    pub high: f64,
}

impl Band {
    /// From what is simulated with the costs as they are thought to be, which comes first, and with others. Waits may meet otherwise, and more cost less: so all of these
    /// lie in the band, whichever is the least.
    fn of(all: &[f64]) -> Self {
        let [low, high] = all.iter().fold([f64::INFINITY, 0.0], |[low, high], ns| [ns.min(low), ns.max(high)]);
        Band { value: all[0], low, high }
    }
}

/// A cost, and by which factor something changes if it is halved, and if it is doubled.
#[derive(Clone, Debug, PartialEq)]
pub struct Sensitive {
    cost: &'static str,
    halved: f64,
    doubled: f64,
}

/// All of it.
pub struct Prediction {
    name: String,
    cpus: Vec<u32>,
    /// By row, and by number of CPUs.
    bands: Vec<Vec<Band>>,
    /// By row, the largest first.
    sensitive: Vec<Vec<Sensitive>>,
    of: u32,
}

/// Predicts for a profile, which is found by this name, from what simulated runs said; or from nothing, while they are listed.
pub fn predict(name: &str, answers: &Answers) -> Result<Prediction> {
    let profile = Profile::find(name)?;
    let of_machine = (profile.cpus as u32).min(MOST_THREADS);
    let cpus: Vec<u32> = CPUS.into_iter().filter(|cpus| *cpus < of_machine).chain([of_machine]).collect();
    let of = OF_SENSITIVITY.min(of_machine);
    let figure = |change: &str, row: usize, count: u32| -> Result<f64> {
        let (_, line, place) = ROWS[row];
        let words = words(&told(line, count), Some(format!("{}@{name}{change}", profile.cpus)));
        let said = answers.of(&words, PLACES).with_context(|| format!("`{}` was not simulated", words.join(" ")))?;
        said.get(place).copied().context("the probe printed too few figures")
    };
    let corners = ["".to_owned(), format!("+{LEAST}"), format!("+{MOST}")];
    let (mut bands, mut sensitive) = (Vec::new(), Vec::new());
    for row in 0..ROWS.len() {
        let band = |&count: &u32| -> Result<Band> {
            let all = corners.iter().map(|corner| figure(corner, row, count)).collect::<Result<Vec<f64>>>()?;
            Ok(Band::of(&all))
        };
        bands.push(cpus.iter().map(band).collect::<Result<Vec<Band>>>()?);
        let usual = figure("", row, of)?;
        let one = |cost: &'static str| -> Result<Sensitive> {
            let factor = |by: &str| -> Result<f64> { Ok(figure(&format!("+{cost}*{by}"), row, of)? / usual) };
            Ok(Sensitive { cost, halved: factor("0.5")?, doubled: factor("2")? })
        };
        sensitive.push(counting(COSTS.into_iter().map(one).collect::<Result<_>>()?));
    }
    Ok(Prediction { name: name.to_owned(), cpus, bands, sensitive, of })
}

fn told(line: &str, threads: u32) -> String {
    line.replace('N', &threads.to_string())
}

/// Those that count, the largest first.
fn counting(mut all: Vec<Sensitive>) -> Vec<Sensitive> {
    let size = |one: &Sensitive| one.halved.ln().abs().max(one.doubled.ln().abs());
    all.retain(|one| size(one) > COUNTS.ln_1p());
    all.sort_by(|one, other| size(other).total_cmp(&size(one)));
    all.truncate(TOLD);
    all
}

impl Prediction {
    /// By number of CPUs, with bands.
    pub fn sheet(&self) -> Sheet {
        let names = ROWS.iter().map(|(name, ..)| (*name, Side::Right));
        let mut sheet = Sheet::new([("CPUs, simulated", Side::Right)].into_iter().chain(names));
        for (at, cpus) in self.cpus.iter().enumerate() {
            let cell = |row: &Vec<Band>| {
                let Band { value, low, high } = row[at];
                let [value, low, high] = [value, low, high].map(|ns| for_people(ns, "ns"));
                format!("{value} ({low} to {high})")
            };
            sheet.add([cpus.to_string()].into_iter().chain(self.bands.iter().map(cell)));
        }
        sheet
    }

    /// What depends on what.
    pub fn sensitivity(&self) -> Sheet {
        let of = format!("{} CPUs, simulated", self.of);
        let headings = [
            (of, Side::Left),
            ("cost".into(), Side::Left),
            ("halved".into(), Side::Right),
            ("doubled".into(), Side::Right),
        ];
        let mut sheet = Sheet::new(headings);
        for ((name, ..), of_row) in ROWS.iter().zip(&self.sensitive) {
            for (at, Sensitive { cost, halved, doubled }) in of_row.iter().enumerate() {
                let name = if at == 0 { *name } else { "" };
                sheet.add([name.to_owned(), (*cost).to_owned(), format!("{halved:.2} ×"), format!("{doubled:.2} ×")]);
            }
        }
        sheet
    }

    /// All of them in one plot, and each with its band.
    pub fn pictures(&self) -> Vec<Figure> {
        let at: Vec<f64> = self.cpus.iter().map(|cpus| f64::from(*cpus)).collect();
        let points =
            |row: usize, of: fn(&Band) -> f64| at.iter().copied().zip(self.bands[row].iter().map(of)).collect();
        let axes = || [Scale::At(at.clone()), Scale::Powers("ns")];
        let curve = |arm, name: &str, points| Curve { arm, name: name.to_owned(), points };
        let all: Vec<Curve> =
            ROWS.iter().enumerate().map(|(row, (name, ..))| curve(row, name, points(row, |band| band.value))).collect();
        let mut pictures: Vec<Figure> = Vec::new();
        let title = format!("an operation of each CPU, simulated ({}), without bands", self.name);
        pictures.extend(plot::curves(&title, &all, axes()));
        for (row, (name, ..)) in ROWS.iter().enumerate() {
            let band = [
                curve(row, "simulated", points(row, |band| band.value)),
                curve(7, "least costs", points(row, |band| band.low)),
                curve(7, "most costs", points(row, |band| band.high)),
            ];
            pictures.extend(plot::curves(&format!("{name}, simulated, with its band"), &band, axes()));
        }
        pictures
    }

    /// For machines, in the form of all results: what is an interval elsewhere is a band here.
    pub fn object(&self, machine: &Machine) -> Object {
        let mut all = Vec::new();
        for ((name, ..), bands) in ROWS.iter().zip(&self.bands) {
            for (cpus, band) in self.cpus.iter().zip(bands) {
                let parameters = Parameters::default().with("threads", u64::from(*cpus));
                let found = (band.value, [band.low, band.high], vec![band.value]);
                all.push(json::Figure::new(
                    name,
                    "simulated; the interval is the band of its costs",
                    &parameters,
                    found,
                ));
            }
        }
        Object::of_figures("forecast", machine, all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sensitive(cost: &'static str, halved: f64, doubled: f64) -> Sensitive {
        Sensitive { cost, halved, doubled }
    }

    #[test]
    fn cost_without_influence_is_left_out() {
        let all = vec![
            sensitive("hit", 0.98, 1.03),
            sensitive("turn", 1.8, 0.9),
            sensitive("kick", 0.5, 2.0),
            sensitive("memory", 1.0, 1.0),
        ];
        let told = counting(all);
        assert_eq!(told.iter().map(|one| one.cost).collect::<Vec<_>>(), ["kick", "turn"]);
    }

    #[test]
    fn whatever_was_simulated_lies_in_the_band() {
        assert_eq!(Band::of(&[72.0, 100.0, 90.0]), Band { value: 72.0, low: 72.0, high: 100.0 });
        assert_eq!(Band::of(&[72.0, 190.0, 50.0]), Band { value: 72.0, low: 50.0, high: 190.0 });
    }

    #[test]
    fn predicted_figures_carry_bands_and_say_simulated() {
        let band = Band { value: 20.0, low: 10.0, high: 4000.0 };
        let prediction = Prediction {
            name: "x86-256".to_owned(),
            cpus: vec![1, 256],
            bands: vec![vec![band; 2]; ROWS.len()],
            sensitive: vec![vec![sensitive("kick", 0.5, 2.0)]; ROWS.len()],
            of: 64,
        };
        let sheet = prediction.sheet();
        assert!(sheet.headings[0].0.contains("simulated") && sheet.rows.len() == 2);
        assert!(sheet.rows[1][1..].iter().all(|cell| cell == "20 ns (10 ns to 4 µs)"), "{:?}", sheet.rows[1]);
        assert!(prediction.sensitivity().to_string().contains("simulated"));
        let pictures = prediction.pictures();
        assert_eq!(pictures.len(), 1 + ROWS.len());
        assert!(pictures.iter().all(|picture| picture.svg.contains("simulated")));
        let object = serde_json::to_value(prediction.object(&Machine::simulated(256, None))).unwrap();
        assert_eq!(object["machine"]["kind"], "simulated");
        let arms = object["arms"].as_array().unwrap();
        assert_eq!(arms.len(), 2 * ROWS.len());
        assert_eq!(arms[1]["metrics"]["operation_ns"]["ci95"], serde_json::json!([10.0, 4000.0]));
    }

    #[test]
    fn probe_line_contains_the_number_of_threads() {
        assert_eq!(told("cache pair N 64 general", 8), "cache pair 8 64 general");
        assert!(ROWS.iter().all(|(_, line, _)| line.matches('N').count() == 1));
    }
}
