//! A measurement that was never made, for tests of what is shown: its figures are known.

use std::time::Duration;

use fastrand::Rng;

use crate::analysis::Analysis;
use crate::arm::Arm;
use crate::blocks::{Length, Measured, Plan, Row};
use crate::finding::Finding;
use crate::metric::{PEAK, USER, WALL};
use crate::parameters::Parameters;

const BLOCKS: usize = 20;

/// Of these subjects, each under glibc, its control, ours (a tenth faster, with as much memory), a peer (a twentieth slower, with
/// twice as much) and an arm that crashed.
pub fn analysis(subjects: &[&str]) -> Analysis {
    let arm = |name: &str, is_peer| Arm { is_peer, ..Arm::preloading(name, format!("/lib/{name}.so")) };
    let arms = vec![Arm::glibc(), Arm::glibc().again(), arm("ours", false), arm("peer", true), arm("broken", false)];
    let mut rng = Rng::with_seed(1);
    let mut samples = |time: f64, memory: f64| {
        let block = |_| {
            let noise = 1.0 + 0.02 * (rng.f64() - 0.5);
            vec![0.1 * time * noise, memory * 4096.0, 0.09 * time * noise]
        };
        Some((0..BLOCKS).map(block).collect())
    };
    let mut row = |name: &&str| Row {
        parameters: Parameters::of_workload(name),
        metrics: vec![WALL, PEAK, USER],
        samples: vec![samples(1.0, 1.0), samples(1.0, 1.0), samples(0.9, 1.0), samples(1.05, 2.0), None],
        findings: vec![Finding {
            row: (*name).to_owned(),
            arm: "broken".to_owned(),
            what: "was killed by signal 11 (SIGSEGV) in run 3".to_owned(),
            detail: "<it> said so".to_owned(),
            is_fault: true,
        }],
    };
    let rows = subjects.iter().map(&mut row).collect();
    let (plan, elapsed) = (Plan::of(Length::Blocks(BLOCKS), 7), Duration::from_secs(75));
    Analysis::of(Measured { arms, rows, blocks: BLOCKS, interrupted: false, elapsed, plan })
}
