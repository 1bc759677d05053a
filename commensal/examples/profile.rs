//! Which code holds memory? Writes a profile that `pprof` and `commensal profile` read.

use std::fs::{self, File};
use std::os::fd::AsRawFd;

use commensal::Commensal;
use commensal::profile::{self, At, Region};

#[global_allocator]
static GLOBAL: Commensal = Commensal;

fn main() -> std::io::Result<()> {
    assert!(profile::start(64 << 10), "there is memory for the profile");
    let load = Region::named(b"load");
    let lines: Vec<String> = {
        // Samples carry the region's name beside the stack.
        let _inside = load.enter();
        (0..20_000).map(|number| format!("line {number} {}", ".".repeat(100))).collect()
    };
    let path = std::env::temp_dir().join(format!("commensal-example-{}.pb.gz", std::process::id()));
    profile::write_to(File::create(&path)?.as_raw_fd(), At::Run).map_err(std::io::Error::from_raw_os_error)?;
    profile::stop();
    let bytes = fs::read(&path)?;
    println!("{} lines; a profile of {} bytes", lines.len(), bytes.len());
    assert_eq!(bytes[..2], [0x1f, 0x8b], "it is compressed by gzip");
    fs::remove_file(path)
}
