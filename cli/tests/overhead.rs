//! What `compare` costs besides what it measures. Alone in its file, so that no other test runs at the same time.

mod common;

use std::time::Instant;

use common::{commensal, result};

const BLOCKS: u32 = 100;
/// Two arms, the control, and a block that is dropped.
const RUNS: f64 = 3.0 * (BLOCKS + 1) as f64;

/// Everything counts: starting, ordering, looking at what was printed, the statistics. In a build that is not optimized, too.
#[test]
fn the_command_costs_less_than_two_milliseconds_a_run() {
    let place = tempfile::tempdir().unwrap();
    let json = place.path().join("result.json");
    let spent = || {
        let start = Instant::now();
        let mut command = commensal();
        command.args(["compare", "--arm", "a=", "--arm", "b=", "--blocks", &BLOCKS.to_string(), "--json"]).arg(&json);
        assert!(command.args(["--", "true"]).output().unwrap().status.success());
        let all = start.elapsed().as_secs_f64();
        let result = result(&json);
        let arms = result["arms"].as_array().unwrap().iter();
        let runs = arms.flat_map(|arm| arm["metrics"]["wall_s"]["runs"].as_array().unwrap());
        all - runs.map(|run| run.as_f64().unwrap()).sum::<f64>()
    };
    let a_run = (0..3).map(|_| spent() / RUNS).fold(f64::INFINITY, f64::min);
    eprintln!("{:.3} ms a run", a_run * 1e3);
    assert!(a_run < 0.002, "{a_run} s a run");
}
