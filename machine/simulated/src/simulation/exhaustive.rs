//! All runs of a small body, within a bound: depth first over a strategy's possible choices, one run for each way.
//!
//! The bound counts choices that disturb: another thread continues although the current one could, or takes its CPU, or
//! a store becomes visible before it must. If the current thread cannot continue, the choice of the next one is free.
//! So a bound of b covers all runs with at most b such choices. No thread migrates, and no system call is refused.

use super::strategy::{Choice, Strategy};
use super::{Report, Scene, Settings, simulate};
use std::cell::RefCell;
use std::rc::Rc;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exhausted {
    pub runs: u64,
    /// Whether these are all.
    pub is_complete: bool,
}

/// One decision of a run: the way taken, and the number of ways.
#[derive(Clone, Copy, Debug)]
struct Decision {
    taken: usize,
    ways: usize,
    is_free: bool,
}

#[derive(Debug, Default)]
struct Script {
    decisions: Vec<Decision>,
    position: usize,
    disturbances: usize,
}

impl Script {
    /// Prepares the next run, with another way at the last decision that has one left. False: that was the last run.
    fn advance(&mut self) -> bool {
        (self.position, self.disturbances) = (0, 0);
        while let Some(last) = self.decisions.last_mut() {
            last.taken += 1;
            if last.taken < last.ways {
                return true;
            }
            self.decisions.pop();
        }
        false
    }
}

struct Follow {
    script: Rc<RefCell<Script>>,
    bound: usize,
}

impl Follow {
    /// All possible choices, the usual first.
    fn ways(scene: &Scene<'_>) -> Vec<Choice> {
        let mut ways = vec![scene.usual];
        let others = scene.running.iter().map(|&thread| Choice::Run(thread));
        ways.extend(others.filter(|&way| way != scene.usual && (way != Choice::Run(scene.current) || !scene.may_go)));
        if scene.may_be_preempted() {
            ways.push(Choice::Preempt);
        }
        if scene.has_waiting_stores {
            ways.extend((0..scene.cpus).filter(|&cpu| scene.waiting_stores(cpu) > 0).map(Choice::Drain));
        }
        ways
    }
}

impl Strategy for Follow {
    fn choose(&mut self, scene: &Scene<'_>) -> Choice {
        let script = &mut *self.script.borrow_mut();
        let mut ways = Self::ways(scene);
        let is_free = !scene.may_go;
        if script.disturbances >= self.bound {
            // The remaining choices are free.
            ways.retain(|way| *way == scene.usual || (is_free && matches!(way, Choice::Run(_))));
        }
        if script.position == script.decisions.len() {
            script.decisions.push(Decision { taken: 0, ways: ways.len(), is_free });
        }
        let decision = script.decisions[script.position];
        script.position += 1;
        assert_eq!(decision.ways, ways.len(), "the same choices led to another decision");
        let way = ways[decision.taken];
        let disturbs = way != scene.usual && !(decision.is_free && matches!(way, Choice::Run(_)));
        script.disturbances += usize::from(disturbs);
        way
    }
}

/// Makes all runs with at most `bound` disturbances, up to `most`. `look` sees each result; false stops.
pub fn exhaust<R>(
    settings: &Settings, bound: usize, most: u64, main: impl Fn() -> R, mut look: impl FnMut(Report<R>) -> bool,
) -> Exhausted {
    let script = Rc::new(RefCell::new(Script::default()));
    for runs in 1..=most {
        let strategy = Follow { script: Rc::clone(&script), bound };
        let goes_on = look(simulate(settings.clone(), Some(Box::new(strategy)), &main));
        let is_over = !script.borrow_mut().advance();
        if is_over || !goes_on {
            return Exhausted { runs, is_complete: is_over };
        }
    }
    Exhausted { runs: most, is_complete: false }
}
