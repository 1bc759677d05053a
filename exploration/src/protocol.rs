//! What a protocol is, and how it is explored.

use commensal_runtime::layout::{self, HEADER};
use machine::root;
use machine::simulation::explore::{Finding, Outcome, Plan, Replayed, Run, Searched, Subject, Until, Verdict};
use machine::simulation::worker::Progress;
use machine::simulation::{self, Defect, Deviation, Rates, Settings};
use machine::slot::{AREA, MAX, Mode};

/// A body on the simulated machine, and on what machines it is explored.
#[derive(Debug)]
pub struct Protocol {
    pub name: &'static str,
    pub about: &'static str,
    /// What the first thread does, with its own random choices from a seed.
    pub body: fn(seed: u64) -> Outcome,
    /// How often what happens.
    pub rates: Rates,
    /// The modes in which it makes sense, in turn.
    pub modes: &'static [Mode],
    pub canaries: &'static [Canary],
}

/// A machine that is broken in one way, on which a body must find something. A lost kick restarts nothing either, so a body that finds
/// `RestartIsFence` need not be tried with `KicksGetLost`.
#[derive(Clone, Copy, Debug)]
pub struct Canary {
    pub defect: Defect,
    /// Where: in one mode it may do no harm.
    pub mode: Mode,
}

impl Canary {
    /// One where slots are given by concurrency ids.
    pub const fn by_ids(defect: Defect) -> Self {
        Canary { defect, mode: Mode::ConcurrencyId }
    }

    /// One where each thread has its own slot.
    pub const fn in_fallback(defect: Defect) -> Self {
        Canary { defect, mode: Mode::PerThread }
    }
}

/// Makes the table of a file's protocols.
///
/// ```text
/// "name": "what it is about",
///     body, rates, modes => canaries, each by_ids or in_fallback with its defect;
/// ```
macro_rules! protocols {
    ($($name:literal: $about:literal, $body:expr, $rates:expr, $modes:expr => $($mode:ident $defect:ident),+;)+) => {
        pub const PROTOCOLS: &[$crate::Protocol] = &[$($crate::Protocol {
            name: $name,
            about: $about,
            body: $body,
            rates: $rates,
            modes: $modes,
            canaries: &[$($crate::Canary::$mode(machine::simulation::Defect::$defect)),+],
        }),+];
    };
}
pub(crate) use protocols;

/// By concurrency ids, and where each thread has its own slot.
pub(crate) const BOTH: &[Mode] = &[Mode::ConcurrencyId, Mode::PerThread];
/// Signal handlers use no slots in fallback mode.
pub(crate) const NO_SIGNALS: Rates = Rates { signal: 0, ..Rates::USUAL };

/// CPUs of the machines: from two, where everything is about one neighbour, to more than there are threads.
const CPUS: [usize; 4] = [2, 3, 2, 8];
/// Stores that wait: none, few, more.
const STORE_BUFFERS: [usize; 3] = [0, 2, 8];
/// What a run may take: some thirty times what they do.
const MOST_STEPS: u64 = 3_000_000;

/// A process with settings begins with a heap, and has no first blocks.
const WITHOUT_SETTINGS: [&str; 2] = ["heap upgrade", "first blocks"];

impl Protocol {
    fn settings(&self, seed: u64, canary: Option<Canary>) -> Settings {
        let conf = (!WITHOUT_SETTINGS.contains(&self.name)).then_some(c"cache.watched.debug:all");
        let of = |number: u64, length: usize| (number % length as u64) as usize;
        let mode = canary.map_or(self.modes[of(seed, self.modes.len())], |canary| canary.mode);
        Settings {
            seed,
            cpus: CPUS[of(seed / 3, CPUS.len())],
            store_buffer: STORE_BUFFERS[of(seed / 7, STORE_BUFFERS.len())],
            mode,
            slice_ns: [2_000, 20_000][of(seed / 11, 2)],
            most_steps: MOST_STEPS,
            // A lock that forgets a sleeper costs a second.
            most_ns: 1_000_000_000,
            // For the protocol that is about such caches; nobody else has one of the name.
            environment: conf.map(|conf| (c"COMMENSAL_CONF".into(), conf.into())).into_iter().collect(),
            // A kernel out of memory.
            slotless_one_in: if canary.is_none() && of(seed / 17, 5) == 0 { 4 } else { 0 },
            // Some kernels have none.
            denies_membarrier: canary.is_none() && of(seed / 13, 6) == 0,
            defects: canary.map(|canary| canary.defect).into_iter().collect(),
            ..Settings::default()
        }
    }

    /// By walks with many and with few changes, and by priorities.
    fn plans(&self) -> [Plan; 4] {
        let rates = self.rates;
        [
            Plan::Random(rates),
            Plan::Priorities(3, rates),
            Plan::Random(Rates { switch: rates.switch / 10, drain: rates.drain / 20, ..rates }),
            Plan::Priorities(12, rates),
        ]
    }

    fn with_subject<R>(&self, canary: Option<Canary>, twice_one_in: u64, work: impl FnOnce(&Subject<'_>) -> R) -> R {
        let settings = |seed| self.settings(seed, canary);
        let body = |seed| {
            name_heap();
            (self.body)(seed)
        };
        work(&Subject { name: self.name, settings: &settings, body: &body, plans: &self.plans(), twice_one_in })
    }

    /// Makes runs until one fails or it is enough; one in so many is made twice, and must be the same twice.
    pub fn explore(
        &self, canary: Option<Canary>, twice_one_in: u64, first_seed: u64, until: Until, look: impl FnMut(&Progress),
    ) -> Verdict {
        self.with_subject(canary, twice_one_in, |subject| subject.explore(first_seed, until, look))
    }

    /// The same on a machine that is broken, and what is found is not shortened, which takes longer than to find it.
    pub fn search(&self, canary: Canary, first_seed: u64, until: Until) -> Searched {
        self.with_subject(Some(canary), u64::MAX, |subject| subject.search(first_seed, until, |_| {}))
    }

    /// Makes one run again: the whole, or with these choices only.
    pub fn replay(
        &self, canary: Option<Canary>, plan: &str, seed: u64, schedule: Option<&[Deviation]>,
    ) -> Result<Replayed, String> {
        let plans = self.plans();
        let number = plan.strip_prefix('p').and_then(|number| number.parse::<usize>().ok());
        let plan = number.filter(|&number| number < plans.len());
        let plan = plan.ok_or_else(|| format!("found another plan; expected p0 to p{}", plans.len() - 1))?;
        Ok(self.with_subject(canary, 1, |subject| subject.replay(Run { plan, seed }, schedule)))
    }
}

/// The command that makes the run of a finding again.
pub fn replay_command(finding: &Finding, canary: Option<Canary>) -> String {
    let canary = canary.map(|canary| format!(" --canary {:?}:{:?}", canary.defect, canary.mode)).unwrap_or_default();
    let release = if cfg!(debug_assertions) { "" } else { "--release " };
    format!(
        "at commit {}: cargo run -q {release}-p exploration -- replay '{}' p{} {}{canary}",
        lab::commit(),
        finding.name,
        finding.run.plan,
        finding.run.seed
    )
}

pub fn find(name: &str) -> Result<&'static Protocol, String> {
    crate::protocols().find(|protocol| protocol.name == name).ok_or_else(|| {
        let names: Vec<&str> = crate::protocols().map(|protocol| protocol.name).collect();
        format!("found no protocol '{name}'; expected one of: {}", names.join(", "))
    })
}

/// Says what lies where in the runtime's region, for traces.
fn name_heap() {
    simulation::set_namer(|at| {
        // SAFETY: reads a pointer, plainly: who asks for names makes no steps.
        let base = unsafe { root::BASE.as_ptr().read_volatile() };
        name(at.checked_sub(base.addr())?)
    });
}

fn name(offset: usize) -> Option<String> {
    let Some(within) = offset.checked_sub(HEADER) else { return Some(format!("runtime+{offset:#x}")) };
    let (slot, within) = (within / AREA, within % AREA);
    (slot < MAX).then(|| match layout::part_of(within) {
        Some((part, id, offset)) => format!("slot {slot}.{part}[{id}]+{offset}"),
        None => format!("slot {slot}+{within:#x}"),
    })
}
