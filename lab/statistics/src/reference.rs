//! The same figures, by SciPy: lab/statistics/reference/make.py says how they were made.

use serde::Deserialize;

use super::{bootstrap, median, signed_rank};

#[derive(Deserialize)]
struct Reference {
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    name: String,
    values: Vec<f64>,
    median: f64,
    bootstrap: Bootstrap,
    signed_rank_p: Option<f64>,
}

#[derive(Deserialize)]
struct Bootstrap {
    medians: Vec<f64>,
    interval: Option<[f64; 2]>,
}

fn assert_near(what: &str, name: &str, ours: f64, theirs: f64) {
    let error = (ours - theirs).abs();
    assert!(error <= 1e-9 * theirs.abs().max(1e-3), "{what} of {name}: {ours}, SciPy says {theirs}");
}

#[test]
fn scipy_says_the_same() {
    let reference: Reference = serde_json::from_str(include_str!("../reference/statistics.json")).unwrap();
    assert!(reference.cases.len() >= 20);
    for Case { name, values, bootstrap, signed_rank_p, median: middle } in &reference.cases {
        assert_near("median", name, median(&mut values.clone()), *middle);
        let ours = bootstrap::bias_corrected(values, &bootstrap.medians, 0.05);
        for (ours, theirs) in ours.iter().zip(bootstrap.interval.iter().flatten()) {
            assert_near("interval", name, *ours, *theirs);
        }
        if let Some(p) = signed_rank_p {
            assert_near("p", name, signed_rank::test(values).p, *p);
        }
    }
    let known = |case: &&Case| case.bootstrap.interval.is_some() && case.signed_rank_p.is_some();
    assert!(reference.cases.iter().filter(known).count() >= 15, "most cases have an answer");
}
