//! A real terminal, that of tmux, in which a shell waits for lines: what is on its screen, in which colours, and what becomes of it.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::watched::{Place, eventually};
use super::{PATIENCE, as_commensal, skip, succeeds, text};

/// So that all of the screen is the shell's, and keys come at once.
const SETTINGS: &str = "set -g status off\nset -g escape-time 0\nset -g history-limit 0\n";

/// A terminal, until it is dropped.
pub struct Terminal {
    folder: TempDir,
}

impl Terminal {
    /// One of 80 columns and 24 lines, which `TERM` calls so. None: there is no tmux, and that is said in the name of the test.
    pub fn open(test: &str, term: &str, place: &Place) -> Option<Self> {
        if Command::new("tmux").arg("-V").output().is_err() {
            skip(test, "tmux is not installed; dropin/install.sh installs it");
            return None;
        }
        let this = Terminal { folder: tempfile::tempdir().unwrap() };
        fs::write(this.settings(), SETTINGS).unwrap();
        let mut start = this.tmux(&["new-session", "-d", "-x", "80", "-y", "24"]);
        start.env("XDG_RUNTIME_DIR", place.path()).env_remove("NO_COLOR").env_remove("ENV");
        let shell = format!("TERM={term} PS1='$ ' exec sh");
        assert!(start.args([&shell]).status().unwrap().success());
        this.wait_for("the shell's prompt", |screen| screen.starts_with('$'));
        Some(this)
    }

    fn settings(&self) -> PathBuf {
        self.folder.path().join("settings")
    }

    fn tmux(&self, args: &[&str]) -> Command {
        let mut tmux = Command::new("tmux");
        as_commensal(&mut tmux)
            .env_remove("TMUX")
            .env("LC_ALL", "C.UTF-8")
            .arg("-u")
            .arg("-S")
            .arg(self.folder.path().join("socket"));
        tmux.arg("-f").arg(self.settings()).args(args);
        tmux
    }

    fn does(&self, args: &[&str]) -> String {
        text(&succeeds(&mut self.tmux(args)).stdout)
    }

    /// Starts the command under test in place of a child of the shell. Returns its process.
    pub fn start(&self, before: &str, args: &str) -> u32 {
        let file = self.folder.path().join("process");
        let _ = fs::remove_file(&file);
        let command = env!("CARGO_BIN_EXE_commensal");
        self.enter(&format!("{before} sh -c 'echo $$ > {}; exec {command} {args}'", file.display()));
        eventually("the command starts", || fs::read_to_string(&file).ok()?.trim().parse().ok())
    }

    /// Types a line for the shell.
    pub fn enter(&self, line: &str) {
        self.letters(line);
        self.key("Enter");
    }

    /// Types letters.
    pub fn letters(&self, letters: &str) {
        self.does(&["send-keys", "-l", "--", letters]);
    }

    /// Presses a key, by its name.
    pub fn key(&self, name: &str) {
        self.does(&["send-keys", name]);
    }

    /// Becomes as large.
    pub fn resize(&self, columns: u32, lines: u32) {
        self.does(&["resize-window", "-x", &columns.to_string(), "-y", &lines.to_string()]);
    }

    /// What is read on the screen, when nothing is being drawn: two looks in a row see the same.
    pub fn screen(&self) -> String {
        let look = || self.does(&["capture-pane", "-p"]);
        let mut seen = look();
        eventually("the screen stays as it is", || {
            thread::sleep(Duration::from_millis(20));
            let before = std::mem::replace(&mut seen, look());
            (before == seen).then(|| seen.clone())
        })
    }

    /// Likewise, with what colours and emphasises it.
    pub fn with_colours(&self) -> String {
        self.does(&["capture-pane", "-p", "-e"])
    }

    /// Whether what was there before is kept for afterwards, and whether there is a cursor.
    pub fn modes(&self) -> (bool, bool) {
        let said = self.does(&["display-message", "-p", "#{alternate_on} #{cursor_flag}"]);
        (said.starts_with('1'), said.trim_end().ends_with('1'))
    }

    /// The screen as soon as it is so.
    #[track_caller]
    pub fn wait_for(&self, what: &str, is_so: impl Fn(&str) -> bool) -> String {
        let start = Instant::now();
        loop {
            let screen = self.screen();
            if is_so(&screen) {
                return screen;
            }
            assert!(start.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}; the screen is\n{screen}");
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// What a command of the shell prints, in a file.
    pub fn shell(&self, command: &str) -> String {
        let file = self.folder.path().join("printed");
        let _ = fs::remove_file(&file);
        let part = file.with_extension("part");
        self.enter(&format!("{command} > {}; mv {} {}", part.display(), part.display(), file.display()));
        eventually(command, || fs::read_to_string(&file).ok())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.tmux(&["kill-server"]).output();
    }
}
