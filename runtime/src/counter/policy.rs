//! When a counter is upgraded although no caller announced it as shared.
//!
//! On the machine that the table was made for, an addition by a thread that is not the owner is an atomic operation. It
//! costs about 6 ns on an uncontended line, 30 to 100 ns on a contended one. Through a block it costs 1 to 2 ns. Taking
//! a block and touching its first rows costs some 300 ns. From then on reading and destroying cost more, and each slot
//! costs a line of memory. So an upgrade pays only after many additions by other threads. It takes fewer when more
//! threads compete, and more while one slot is in use, because then no threads compete.
//!
//! | slots in use | remote additions | because |
//! |---|---|---|
//! | 1 | 1024 | 300 ns / (6 − 2) ns, several times over: it may be one of very many counters |
//! | 2 | 64 | 300 ns / (10 − 2) ns for two threads that alternate, and some for reading |
//! | 8 | 16 | 300 ns / (60 − 2) ns, and some for reading |

/// Whether to upgrade a counter after `additions` by threads that do not own it, in a process that uses `slots` slots.
pub(super) fn upgrades(slots: u32, additions: u32) -> bool {
    let enough = match slots {
        ..2 => 1024,
        2..8 => 64,
        8.. => 16,
    };
    additions >= enough
}
