//! Do the promises hold? Thousands of runs, with noise whose truth is known. With `--nocapture` they tell their figures.

use super::*;

/// Normal noise, as a factor.
fn normal(rng: &mut Rng, spread: f64) -> f64 {
    1.0 + spread * (-2.0 * (1.0 - rng.f64()).ln()).sqrt() * (std::f64::consts::TAU * rng.f64()).cos()
}

/// The same, with a run in twenty that something disturbed.
fn disturbed(rng: &mut Rng, spread: f64) -> f64 {
    let spike = if rng.u8(..20) == 0 { 1.0 + rng.f64() } else { 1.0 };
    normal(rng, spread) * spike
}

/// Times of an arm; `drift` is what the machine does to both.
fn times(rng: &mut Rng, blocks: usize, factor: f64, spread: f64) -> Vec<f64> {
    let drift = |block: usize| 1.0 + 0.5 * block as f64 / blocks as f64;
    (0..blocks).map(|block| 0.1 * factor * drift(block) * disturbed(rng, spread)).collect()
}

fn compared(rng: &mut Rng, blocks: usize, effects: &[f64], spread: f64) -> Vec<Comparison> {
    let baseline = times(rng, blocks, 1.0, spread);
    let candidates: Vec<Vec<f64>> =
        effects.iter().map(|effect| log_ratios(&baseline, &times(rng, blocks, 1.0 + effect, spread), 1e-9)).collect();
    compare(&candidates, rng)
}

fn share(count: usize, mut holds: impl FnMut() -> bool) -> f64 {
    (0..count).filter(|_| holds()).count() as f64 / count as f64
}

const BLOCKS: usize = 20;

#[test]
fn equal_arms_are_told_apart_in_one_of_twenty() {
    let mut rng = Rng::with_seed(3);
    let shown = |compared: &Comparison| compared.verdict != Verdict::NotShown;
    let alike = 1000.0 * share(1000, || !shown(&compared(&mut rng, BLOCKS, &[0.0], 0.03)[0]));
    eprintln!("of 1000 equal arms, {alike} show no difference");
    assert!((930.0..=970.0).contains(&alike), "{alike} of 1000 show no difference");
}

/// Four equal arms against one baseline: without the correction, one in seven runs would show something.
#[test]
fn several_arms_are_no_more_likely_to_mislead() {
    let mut rng = Rng::with_seed(4);
    let misled = share(600, || {
        let compared = compared(&mut rng, BLOCKS, &[0.0; 4], 0.03);
        compared.iter().any(|compared| compared.verdict != Verdict::NotShown)
    });
    eprintln!("of four equal arms at once, some differs in {misled}");
    assert!(misled < 0.07, "{misled}");
}

#[test]
fn five_percent_are_found_in_three_percent_noise() {
    let mut rng = Rng::with_seed(5);
    // As many blocks as a run has that nobody told anything else.
    let found = share(300, || compared(&mut rng, 40, &[0.05], 0.03)[0].verdict == Verdict::More);
    assert!(found > 0.9, "{found}");
    eprintln!("5 % in disturbed noise of 3 %, 40 blocks: found in {found}");
    // Without the runs that something disturbed, half as many do.
    let undisturbed = |rng: &mut Rng, factor: f64| (0..20).map(|_| factor * normal(rng, 0.03)).collect::<Vec<_>>();
    let found = share(300, || {
        let (baseline, candidate) = (undisturbed(&mut rng, 1.0), undisturbed(&mut rng, 1.05));
        compare(&[log_ratios(&baseline, &candidate, 1e-9)], &mut rng)[0].verdict == Verdict::More
    });
    eprintln!("5 % in noise of 3 %, 20 blocks: found in {found}");
    assert!(found > 0.9, "{found}");
}

#[test]
fn interval_holds_the_truth_and_finds_the_detectable_effect() {
    let mut rng = Rng::with_seed(6);
    let (mut held, mut detectable) = (0, Vec::new());
    const RUNS: usize = 300;
    for _ in 0..RUNS {
        let compared = compared(&mut rng, BLOCKS, &[0.02], 0.03)[0];
        held += usize::from(compared.interval[0] <= 1.02 && 1.02 <= compared.interval[1]);
        detectable.extend(compared.detectable);
    }
    eprintln!("the interval holds the truth in {held} of {RUNS}");
    // A bootstrap's interval of a median is a little too short with so few blocks.
    assert!((0.9..=0.99).contains(&(held as f64 / RUNS as f64)), "{held} of {RUNS}");
    assert_eq!(detectable.len(), RUNS);
    let typical = median(&mut detectable);
    let found = share(RUNS, || compared(&mut rng, BLOCKS, &[typical], 0.03)[0].verdict == Verdict::More);
    eprintln!("the detectable effect is found in {found}");
    assert!((0.7..=0.92).contains(&found), "{found} of the runs found {typical}");
}

#[test]
fn too_few_blocks_show_nothing_and_say_so() {
    let mut rng = Rng::with_seed(7);
    let compared = compared(&mut rng, 5, &[1.0], 0.01)[0];
    assert_eq!(compared.verdict, Verdict::NotShown);
    assert_eq!(compared.detectable, None);
}
