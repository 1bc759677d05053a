//! How people read parameters. `xtask` has this file as well, without the rest of the lab.

/// What a parameter is called in JSON, and in tables; one that is not here is read as it is written.
pub const WORDS: [(&str, &str); 10] = [
    ("busy_cpus", "busy CPUs"),
    ("possible_cpus", "possible CPUs"),
    ("touched_slots", "slots touched"),
    ("threshold", "checkpoints"),
    ("till_qs_ms", "ms till told"),
    ("hold_ms", "ms"),
    ("work_ns", "ns of work"),
    ("hold_ns", "ns of hold"),
    ("paused_percent", "% paused"),
    ("equal_run_rate", "at equal run rate"),
];
