//! Does `compare` show differences where there are none, on this very machine?
//!
//! The simulated runs among the lab's tests have noise that somebody thought of. Here real programs are compared with themselves,
//! many times: of all comparisons, about one in twenty has to show a difference, as the level says. More means that arms are not
//! treated alike; many fewer, that nothing would ever be shown.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// Programs of a fraction of a millisecond, of some milliseconds, and with an allocator at work; and blocks of each.
const PROGRAMS: [(&str, &[&str]); 3] = [
    ("40", &["true"]),
    ("20", &["sh", "-c", "i=0; while [ $i -lt 3000 ]; do i=$((i+1)); done"]),
    ("12", &["sort", "Cargo.lock"]),
];
const LEVEL: f64 = 0.05;

/// Compares each program with itself so many times.
pub fn run(root: &Path, times: u32) -> Result<(), String> {
    let (mut shown, mut all) = (0u32, 0u32);
    for (blocks, program) in PROGRAMS {
        let (mut of_this, mut among) = (0, 0);
        for _ in 0..times {
            let verdicts = verdicts(root, blocks, program)?;
            among += verdicts.len() as u32;
            of_this += verdicts.iter().filter(|verdict| *verdict != "no difference shown").count() as u32;
        }
        println!("{:5} {of_this} of {among} comparisons of equal arms show a difference", program[0]);
        (shown, all) = (shown + of_this, all + among);
    }
    let (expected, spread) = bounds(all);
    println!(
        "in all {shown} of {all}, {:.1} %; expected are {expected:.0} ± {spread:.0}",
        100.0 * f64::from(shown) / f64::from(all)
    );
    if (f64::from(shown) - expected).abs() <= spread {
        return Ok(());
    }
    Err("that is not what chance does; are arms treated alike, and is the machine otherwise idle?".to_owned())
}

/// What to expect of so many, and three standard deviations.
fn bounds(all: u32) -> (f64, f64) {
    let expected = LEVEL * f64::from(all);
    (expected, 3.0 * (expected * (1.0 - LEVEL)).sqrt())
}

/// What a comparison of a program with itself says of its wall time: once of the control, once of another arm.
fn verdicts(root: &Path, blocks: &str, program: &[&str]) -> Result<Vec<String>, String> {
    let command = root.join("target/release/commensal");
    let output = Command::new(&command)
        .current_dir(root)
        .args(["compare", "--arm", "a=", "--arm", "b=", "--blocks", blocks, "--format", "json", "--"])
        .args(program)
        .output()
        .map_err(|error| format!("{} cannot be started ({error}); run cargo build --release", command.display()))?;
    let result: Value = serde_json::from_slice(&output.stdout)
        .map_err(|error| format!("compare {program:?} gave no result ({error}); it ended with {}", output.status))?;
    let comparisons = result["comparisons"].as_array().into_iter().flatten();
    let of_wall_time = comparisons.filter(|comparison| comparison["metric"] == "wall_s");
    Ok(of_wall_time.filter_map(|comparison| Some(comparison["verdict"].as_str()?.to_owned())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_of_equal_arms_beyond_the_bounds_are_too_many() {
        let (expected, spread) = bounds(400);
        assert_eq!(expected, 20.0);
        assert!(60.0 > expected + spread && 2.0 < expected - spread && 26.0 < expected + spread);
    }
}
