//! Standard error, for reports at exit.

use crate::misuse::Line;
use core::fmt::{self, Write};
use machine::process;

/// Writes to standard error, a line at a time, or as much as the buffer holds.
#[derive(Default)]
pub struct StandardError(Line);

impl Write for StandardError {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if !self.0.has_room_for(text.len()) {
            process::complain(self.0.as_bytes());
            self.0 = Line::new();
        }
        self.0.write_str(text)?;
        if text.ends_with('\n') {
            process::complain(self.0.as_bytes());
            self.0 = Line::new();
        }
        Ok(())
    }
}
