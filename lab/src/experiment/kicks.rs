//! Creating caches without interrupts: groups create caches while other CPUs are busy. One arm interrupts all CPUs for each new
//! cache, the other does not. A third part replaces the magazines of a cache that all CPUs use.

use anyhow::Result;

use super::figures::Figures;
use super::probing::{Blocks, Measured, dots, forms, nanoseconds, no_plots, of_parts, part};
use super::{Claim, Experiment, Outcome, Part, Setting};
use crate::arm::Arm;
use crate::json::Documented;
use crate::metric::{FASTER, LESS, Metric, for_people};
use crate::parameters::Parameters;
use crate::table::factor;

const ON_CREATE: &str = "kick on create";
const ON_REPLACE: &str = "kick on replace only";
const REPLACE: &str = "replace";

const SOURCE: &str = "commit \"slab: avoid IPIs when creating kmem caches\" (G. Thelen, 2017)";
/// Function call interrupts of 10,000 groups, before and after.
const BEFORE: f64 = 47_741.0;
const AFTER: f64 = 101.0;
const DOCUMENTS_GROUPS: f64 = 10_000.0;

/// A simulated run is long, and the next one the same.
const BLOCKS: Blocks = Blocks { simulated: Some((5, 7)), ..Blocks::of(7, 30) };

const KICKS: Metric = Metric::new("kicks", "1", "kicks", LESS, 1.0);
const INTERRUPTS: Metric = Metric { name: "interrupts", title: "interrupts, background subtracted", ..KICKS };
const BACKGROUND: Metric =
    Metric { name: "interrupts_background", title: "background interrupts", resolution: 0.01, ..KICKS };
const ELAPSED: Metric = Metric::new("elapsed_s", "s", "time", FASTER, 1e-5);
const FIRST: Metric = nanoseconds("first_object_ns", "first object, in fresh memory");
const WARM: Metric = nanoseconds("first_object_warm_ns", "first object, in reused memory");
const TEARDOWN: Metric = Metric { name: "teardown_s", title: "tear-down", ..ELAPSED };

/// In the order in which the probe prints them.
const OF_GROUPS: [Metric; 7] = [KICKS, INTERRUPTS, BACKGROUND, ELAPSED, FIRST, WARM, TEARDOWN];
const OF_REPLACING: [Metric; 4] = [KICKS, INTERRUPTS, BACKGROUND, ELAPSED];
const FIRST_AT: usize = 4;

pub const KICKS_ON_CREATION: Experiment = Experiment {
    name: "kicks",
    about: "How often does creating caches for groups interrupt other CPUs?",
    source: SOURCE,
    simulates: true,
    measure,
};

fn measure(setting: &Setting) -> Result<Outcome> {
    let parts: [fn(&Setting) -> Result<Measured>; 2] = [creating, replacing];
    let Measured { parts, missing } = of_parts(parts, setting, |part| part(setting))?;
    let size = Size::of(setting);
    let remarks = remarks(&parts, &size).into_iter().chain(missing).collect();
    Ok(Outcome::of(setting, EXPLANATION, claims(&parts, &size), remarks, parts))
}

const EXPLANATION: &str = "\
One thread creates groups with a limit of 1 GiB. In each it allocates objects of five sizes, so the group creates five \
caches. At the end it destroys all groups. Meanwhile a thread of the process is busy on each other CPU. \"kick on create\" \
interrupts all CPUs after it created a cache, as the kernel did before the commit. \"kick on replace only\" is what \
Commensal does. The second part replaces the magazines of a cache that all busy threads use, by `commensal tune`.
Interrupts are the function call interrupts of all CPUs in /proc/interrupts; the document's script reads only the column of the \
first CPU. Unmapped pages, and pages that are written after they were read, also cause some. The background is the count while \
the process does nothing for the same time.";

/// How much is done: as much as the document, but on a simulated machine, where each CPU is simulated.
#[derive(Clone, Copy)]
struct Size {
    groups: u64,
    replacements: u64,
    busy: u64,
}

impl Size {
    fn of(setting: &Setting) -> Self {
        let (groups, replacements) = match (setting.machine.is_simulated(), setting.quick) {
            (false, _) => (10_000, 10_000),
            (true, true) => (100, 4),
            (true, false) => (1000, 20),
        };
        Size { groups, replacements, busy: setting.machine.cpus as u64 - 1 }
    }

    fn parameters(self, many: u64) -> Parameters {
        Parameters::default().with("groups", many).with("busy_cpus", self.busy)
    }
}

fn creating(setting: &Setting) -> Result<Measured> {
    let size = Size::of(setting);
    let parameters = size.parameters(size.groups);
    let rows = [(parameters.clone(), format!("kicks groups {} {}", size.groups, size.busy))];
    let title = "Creating groups, and allocating the first objects of five sizes in each";
    let first_objects = |analysis: &_| dots(analysis, FIRST_AT);
    let done = part(setting, title, rows, &OF_GROUPS, &forms([ON_CREATE, ON_REPLACE]), BLOCKS, first_objects)?;
    let figure = format!("function call interrupts for 10,000 groups, {AFTER} after the commit and {BEFORE} before");
    let said = (SOURCE, figure, AFTER / BEFORE);
    Ok(done.documented([Documented::of([ON_CREATE, ON_REPLACE], &INTERRUPTS, parameters, said)]))
}

fn replacing(setting: &Setting) -> Result<Measured> {
    let size = Size::of(setting);
    let line = format!("kicks {REPLACE} {} {}", size.replacements, size.busy);
    let arms = [Arm { name: REPLACE.to_owned(), ..Arm::glibc() }];
    let title = "Replacing the magazines of a cache that all busy threads use";
    part(setting, title, [(size.parameters(size.replacements), line)], &OF_REPLACING, &arms, BLOCKS, no_plots)
}

/// Interrupts for each group and busy CPU, so that machines can be compared. None without busy CPUs.
fn claims(parts: &[Part], size: &Size) -> Vec<Claim> {
    let claim = |claim: &str, document: String, (arm, many, what), holds: fn(f64) -> bool| {
        let interrupts = Figures(parts).median(INTERRUPTS.name, &size.parameters(many), arm);
        let found = interrupts.filter(|_| size.busy > 0).map(|interrupts| {
            let cpus = if size.busy == 1 { "CPU" } else { "CPUs" };
            let words = format!("{interrupts:.0} for {many} {what} with {} busy {cpus}", size.busy);
            (words, interrupts / (many * size.busy) as f64)
        });
        let is_so = found.as_ref().map(|(_, each)| holds(*each));
        Claim::of(claim, document, found, is_so)
    };
    vec![
        claim(
            "interrupts, kick on create",
            format!("{BEFORE:.0} for {DOCUMENTS_GROUPS:.0} groups (1 or more per group and busy CPU agrees)"),
            (ON_CREATE, size.groups, "groups"),
            |each| each >= 1.0,
        ),
        claim(
            "interrupts, kick on replace only",
            format!("{AFTER:.0} for {DOCUMENTS_GROUPS:.0} groups (as many or fewer per group and busy CPU agrees)"),
            (ON_REPLACE, size.groups, "groups"),
            |each| each <= AFTER / DOCUMENTS_GROUPS,
        ),
        claim(
            "interrupts, replacing magazines that other CPUs use",
            "they are needed (0.5 or more per replacement and busy CPU agrees)".to_owned(),
            (REPLACE, size.replacements, "replacements"),
            |each| each >= 0.5,
        ),
    ]
}

/// The cost of a kick, and of a replacement.
fn remarks(parts: &[Part], size: &Size) -> Vec<String> {
    let of = |metric: Metric, many, arm| Figures(parts).median(metric.name, &size.parameters(many), arm);
    let one_kick = || {
        let extra = of(WARM, size.groups, ON_CREATE)? - of(WARM, size.groups, ON_REPLACE)?;
        let (busy, extra) = (size.busy, for_people(extra, "ns"));
        Some(format!("A kick of {busy} busy CPUs takes {extra}: the difference between the two arms."))
    };
    let one_replacement = || {
        let [elapsed, kicks] = [ELAPSED, KICKS].map(|metric| of(metric, size.replacements, REPLACE));
        let times = size.replacements as f64;
        let (elapsed, kicks) = (for_people(elapsed? / times, "s"), factor(kicks? / times));
        Some(format!("One replacement takes {elapsed} and {kicks} kicks."))
    };
    [one_kick(), one_replacement()].into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::super::figures::example;
    use super::*;

    const SIZE: Size = Size { groups: 10_000, replacements: 10_000, busy: 1 };

    /// All metrics of an arm have one value there.
    fn parts(create: f64, replace_only: f64, replace: f64) -> Vec<Part> {
        let arms: Vec<_> = forms([ON_CREATE, ON_REPLACE]).into_iter().zip([create, replace_only]).collect();
        let creating = example(&arms, &OF_GROUPS, [SIZE.parameters(SIZE.groups)].into_iter());
        let arms: Vec<_> = forms([REPLACE]).into_iter().zip([replace]).collect();
        vec![creating, example(&arms, &OF_REPLACING, [SIZE.parameters(SIZE.replacements)].into_iter())]
    }

    #[test]
    fn claims_are_held_against_what_was_counted() {
        let judged = |create, replace_only, replace| {
            let claims = claims(&parts(create, replace_only, replace), &SIZE);
            claims.iter().map(|claim| claim.holds).collect::<Vec<_>>()
        };
        assert_eq!(judged(50_000.0, 40.0, 9_900.0), [Some(true), Some(true), Some(true)]);
        assert_eq!(judged(9_000.0, 102.0, 4_000.0), [Some(false), Some(false), Some(false)]);
        let nobody = Size { busy: 0, ..SIZE };
        assert!(claims(&[], &nobody).iter().all(|claim| claim.holds.is_none() && claim.measured.is_none()));
        let told = claims(&parts(50_000.0, 40.0, 9_900.0), &SIZE);
        assert_eq!(told[0].measured.as_deref(), Some("50000 for 10000 groups with 1 busy CPU"));
        assert!(told[0].document.starts_with("47741 for 10000") && told[1].document.starts_with("101 for 10000"));
    }

    #[test]
    fn remarks_tell_what_one_kick_costs() {
        let remarks = remarks(&parts(3000.0, 500.0, 9_900.0), &SIZE);
        let [kick, replacement] = &remarks[..] else { panic!("{remarks:?}") };
        assert!(kick.contains("takes 2.50 µs") && replacement.contains("0.990 kicks"), "{remarks:?}");
        assert!(super::remarks(&[], &SIZE).is_empty());
    }
}
