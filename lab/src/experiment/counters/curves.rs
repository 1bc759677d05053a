//! Plots of the parts that are measured at several numbers of CPUs or updates: a curve for each form.

use super::{CPUS, MAIN_CPUS, UPDATES, USUAL_UPDATES};
use crate::analysis::{Analysis, CONTROL};
use crate::parameters::Parameters;
use crate::report::Figure;
use crate::report::plot::{self, Curve, Scale};

/// One metric in nanoseconds over possible CPUs, where nothing else varies; both axes have logarithms.
pub fn by_cpus(analysis: &Analysis, metric: usize, title: &str) -> Option<Figure> {
    let at = |parameters: &Parameters| {
        let is_usual = ["updates", "touched_slots"].iter().all(|name| parameters.number(name).is_none());
        parameters.number("possible_cpus").filter(|_| is_usual)
    };
    let axes = [Scale::At(marks(CPUS)), Scale::Powers("ns")];
    plot::curves(title, &curves(analysis, metric, at), axes)
}

/// A share over the updates in a task, at the main number of CPUs.
pub fn by_updates(analysis: &Analysis, metric: usize, title: &str) -> Option<Figure> {
    let at = |parameters: &Parameters| {
        let is_main = parameters.number("possible_cpus") == Some(MAIN_CPUS);
        is_main.then(|| parameters.number("updates").unwrap_or(USUAL_UPDATES))
    };
    let axes = [Scale::At(marks(UPDATES)), Scale::Percent];
    plot::curves(title, &curves(analysis, metric, at), axes)
}

fn marks<const N: usize>(numbers: [u64; N]) -> Vec<f64> {
    numbers.map(|number| number as f64).into()
}

/// A curve for each arm but the control: its medians, at what a row says of the axis.
fn curves(analysis: &Analysis, metric: usize, at: impl Fn(&Parameters) -> Option<u64>) -> Vec<Curve> {
    let arms = analysis.measured.arms.iter().enumerate().filter(|(arm, _)| *arm != CONTROL);
    let of_arm = |arm: usize| {
        let rows = analysis.measured.rows.iter().zip(&analysis.rows);
        let points =
            rows.filter_map(|(row, judged)| Some((at(&row.parameters)? as f64, judged[metric].medians[arm]?.value)));
        let mut points: Vec<(f64, f64)> = points.collect();
        points.sort_by(|one, other| one.0.total_cmp(&other.0));
        points
    };
    arms.map(|(arm, described)| Curve { arm, name: described.name.clone(), points: of_arm(arm) }).collect()
}

#[cfg(test)]
mod tests {
    use super::super::{example, life, look};
    use super::*;
    use crate::report::plot::count_of_dots;

    fn at(curves: &[Curve], curve: usize) -> Vec<f64> {
        curves[curve].points.iter().map(|point| point.0).collect()
    }

    #[test]
    fn a_curve_goes_through_each_number_once() {
        let part = example(&life::METRICS, life::parameters());
        let of_cpus =
            curves(&part.analysis, 2, |row| row.number("possible_cpus").filter(|_| row.number("updates").is_none()));
        assert_eq!(of_cpus.len(), 5, "a curve for each form, none for the control");
        assert_eq!(at(&of_cpus, 0), [2.0, 8.0, 80.0, 256.0, 512.0]);
        let (cpus, updates) = (by_cpus(&part.analysis, 2, "a"), by_updates(&part.analysis, 3, "b"));
        let (cpus, updates) = (cpus.unwrap().svg, updates.unwrap().svg);
        // Five forms at five numbers of CPUs and at four of updates, and five in the key.
        assert_eq!((count_of_dots(&cpus), count_of_dots(&updates)), (5 * 5 + 5, 5 * 4 + 5));
        assert!([cpus, updates].iter().all(|svg| svg.contains("lazy and cached") && !svg.contains('#')));
    }

    #[test]
    fn rows_where_something_else_varies_are_left_out() {
        let part = example(&look::METRICS, look::parameters());
        let svg = by_cpus(&part.analysis, 1, "sum").unwrap().svg;
        assert_eq!(count_of_dots(&svg), 5 * 5 + 5);
    }
}
