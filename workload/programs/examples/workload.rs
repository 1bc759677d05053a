//! Runs one of the programs: `cargo run --release --package commensal-programs --example workload -- NAME [PERCENT]`.

fn main() -> std::process::ExitCode {
    commensal_programs::main(&[], std::env::args().skip(1))
}
