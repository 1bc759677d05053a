//! The page of the statistics, as the command's table of figures says it.

use std::path::Path;
use std::process::Command;

use super::opening;

/// Makes the page by asking the release command.
pub fn page(command: &Path) -> Result<String, String> {
    let answer = Command::new(command).args(["stat", "--reference"]).output();
    let answer = answer.map_err(|error| format!("{} cannot be started: {error}", command.display()))?;
    if !answer.status.success() {
        return Err(format!("commensal stat --reference ended with {}", answer.status));
    }
    let text = String::from_utf8(answer.stdout).map_err(|error| error.to_string())?;
    Ok(opening("Statistics", "the table of figures, runtime/src/observe/figures.rs,") + &text)
}
