//! The costs of operations, and the distances between CPUs. All times are in picoseconds.
//!
//! ```text
//!   core ▒▒   cluster ▒▒ ▒▒ ▒▒ ▒▒   socket [▒▒ ▒▒ ▒▒ ▒▒][▒▒ ▒▒ ▒▒ ▒▒]   other, far ══╪══
//!   threads   cores with a cache    clusters                           sockets
//! ```
//!
//! If no other CPU wants a line, it arrives after its *latency*: the time for the request, the line, and the work in
//! between. If many CPUs want it, requests already wait at its holder, and the line moves on after its *service time*,
//! which may be shorter. Of two CPUs in turn each waits for a latency; of fifty none does. A CPU that got the line may
//! keep it for a moment, its *grip*, in which it does more than it asked for.

use std::ops::Range;

/// Picoseconds in a nanosecond.
pub const NS: u64 = 1000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Distance {
    /// Threads of one core.
    Core,
    /// Cores that share a cache.
    Cluster,
    /// Clusters of one socket.
    Socket,
    /// Sockets one step from each other.
    Other,
    /// Sockets further apart.
    Far,
}

const DISTANCES: usize = 5;

/// Time of a line's way over some distance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// To a CPU that alone asks for it.
    pub latency: u64,
    /// To the next waiter.
    pub service: u64,
}

/// The groups of CPUs, which are numbered from 0 on, group after group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Topology {
    /// Threads of a core.
    pub threads: usize,
    /// Whether second threads of cores come after all first ones, as on most machines; else with their cores.
    pub has_siblings_last: bool,
    /// Cores of a cluster.
    pub cores: usize,
    /// Clusters of a socket.
    pub clusters: usize,
    /// Sockets one step from each other.
    pub near_sockets: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location {
    core: usize,
    pub cluster: usize,
    socket: usize,
    group: usize,
}

impl Topology {
    /// All CPUs are equally far apart.
    pub const FLAT: Topology =
        Topology { threads: 1, has_siblings_last: false, cores: usize::MAX, clusters: 1, near_sockets: 1 };

    pub(super) fn location(&self, cpu: usize, cpus: usize) -> Location {
        let cores = cpus.div_ceil(self.threads);
        let core = if self.has_siblings_last { cpu % cores } else { cpu / self.threads };
        let cluster = core / self.cores;
        let socket = cluster / self.clusters;
        Location { core, cluster, socket, group: socket / self.near_sockets }
    }

    pub(super) fn siblings(&self, cpu: usize, cpus: usize) -> impl Iterator<Item = usize> {
        let mine = self.location(cpu, cpus).core;
        let all: Range<usize> = if self.threads == 1 { 0..0 } else { 0..cpus };
        let topology = *self;
        all.filter(move |&other| other != cpu && topology.location(other, cpus).core == mine)
    }
}

impl Location {
    pub(super) fn distance(self, other: Location) -> Distance {
        match () {
            () if self.core == other.core => Distance::Core,
            () if self.cluster == other.cluster => Distance::Cluster,
            () if self.socket == other.socket => Distance::Socket,
            () if self.group == other.group => Distance::Other,
            () => Distance::Far,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Costs {
    /// An access to a line that the CPU has, with its surrounding instructions, among many accesses.
    pub hit: u64,
    /// Addition to memory by one instruction, besides: the next addition waits for it.
    pub add: u64,
    /// A restartable section, besides its steps.
    pub section: u64,
    /// A read-modify-write or a full fence, besides.
    pub locked: u64,
    /// A line's way from memory.
    pub memory: u64,
    /// A line's way from another CPU, by distance.
    pub ways: [Way; DISTANCES],
    /// Time for which a CPU keeps a wanted line after it came.
    pub grip: u64,
    /// Time by which a line that several CPUs have delays the next reader.
    pub shared: u64,
    /// A line goes to the nearest first, but of this many transfers, each cluster with waiters gets an equal share.
    pub turn: u32,
    /// Duration of a CPU's own work, in percent, while another thread of its core works.
    pub sibling_percent: u64,
    /// Zeroing a line that the CPU has.
    pub zero: u64,
    /// The way of a line that it has not, in a row that is fetched ahead.
    pub row: u64,
    /// A page's first touch: the fault and the zeroes.
    pub fault: u64,
    /// Into the kernel and back.
    pub system_call: u64,
    pub kick: u64,
    /// Each further CPU in the same call.
    pub further_kick: u64,
    /// Time that the interrupt takes from its target.
    pub kicked: u64,
    /// From waking a thread until it goes on.
    pub wake_up: u64,
    /// Pause between two looks of a spinning thread.
    pub pause: u64,
    pub clock: u64,
    pub topology: Topology,
}

impl Costs {
    /// Round figures for a recent processor with CPUs equally far apart: an order of magnitude, not a forecast.
    pub const SIMPLE: Costs = Costs {
        hit: NS,
        add: 0,
        section: 0,
        locked: 5 * NS,
        memory: 60 * NS,
        ways: [Way { latency: 60 * NS, service: 60 * NS }; DISTANCES],
        grip: 0,
        shared: 60 * NS,
        turn: u32::MAX,
        sibling_percent: 100,
        zero: NS,
        row: 60 * NS,
        fault: 500 * NS,
        system_call: 150 * NS,
        kick: 1500 * NS,
        further_kick: 1500 * NS,
        kicked: 0,
        wake_up: 0,
        pause: NS,
        clock: 25 * NS,
        topology: Topology::FLAT,
    };

    pub(super) fn way(&self, distance: Distance) -> Way {
        self.ways[distance as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_grow_with_what_lies_between() {
        // Two threads of 4 cores in each of 2 clusters of 4 sockets; each socket has one near neighbour.
        let topology = Topology { threads: 2, has_siblings_last: true, cores: 4, clusters: 2, near_sockets: 2 };
        let cpus = 64;
        let from_first = |cpu| topology.location(0, cpus).distance(topology.location(cpu, cpus));
        let (core, cluster, socket) = (Distance::Core, Distance::Cluster, Distance::Socket);
        for (cpu, distance) in
            [(32, core), (1, cluster), (35, cluster), (4, socket), (8, Distance::Other), (16, Distance::Far)]
        {
            assert_eq!(from_first(cpu), distance, "CPU {cpu}");
        }
        assert_eq!(topology.siblings(3, cpus).collect::<Vec<_>>(), [35]);
        let beside = Topology { has_siblings_last: false, ..topology };
        assert_eq!(beside.siblings(3, cpus).collect::<Vec<_>>(), [2]);
        assert_eq!(beside.location(0, cpus).distance(beside.location(1, cpus)), core);
        assert_eq!(Topology::FLAT.siblings(3, cpus).count(), 0);
        assert_eq!(Topology::FLAT.location(0, 2).distance(Topology::FLAT.location(1, 2)), cluster);
    }
}
