//! The command as `cargo install` makes it has no library beside it: it must bring its own.

use std::path::Path;
use std::process::Command;

use crate::ci::succeeds;

/// Installs it below `target/installed`, and runs it where nobody tells it of a library.
pub fn run(root: &Path) -> Result<(), String> {
    let place = root.join("target/installed");
    let mut install = Command::new(env!("CARGO"));
    install.args(["install", "--quiet", "--force", "--locked", "--path", "cli", "--root"]).arg(&place);
    succeeds(install.current_dir(root))?;
    let command = place.join("bin/commensal");
    let alone = |arguments: &[&str]| {
        let mut command = Command::new(&command);
        command.args(arguments).env_remove("COMMENSAL_LIBRARY").env("XDG_CACHE_HOME", place.join("cache"));
        succeeds(&mut command)
    };
    alone(&["run", "--", "grep", "-q", "/commensal/libcommensal-", "/proc/self/maps"])?;
    // And what starts programs, and the programs themselves.
    alone(&["compare", "--quick", "--blocks", "1", "--arm", "a="])?;
    println!("installed: it brings its library");
    Ok(())
}
