//! Processes: a simulated fork is a real one. The child has a copy of everything at the same addresses, but only the
//! forking thread. It is simulated to its end while the parent waits. The two share no memory, so this loses nothing.

use super::thread::State;
use super::{Access, Engine, Happening, Here};
use crate::simulation::{Deviation, Failure};
use std::io::{PipeReader, PipeWriter, Read, Write};

/// Number of the first simulated process and of its first thread.
pub const FIRST_PROCESS: u32 = 1000;
/// Thread numbers of each process.
const NUMBERS: u32 = 10_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    Well,
    Found(String),
    /// A real signal killed it, or it stopped itself, with the known reason.
    Died(String),
    /// It did not end: the state of its threads.
    Hung(String),
}

/// Most seconds of real time for a child: less than the patience of the process that waits for the whole.
const PATIENCE: u32 = 60;
const CHILDREN: u32 = 16;

impl Here {
    /// Runs `child` in a copy of the process that has only the calling thread, and waits for it.
    pub fn fork(self, runs_handlers: bool, child: &mut dyn FnMut() -> Result<(), &'static str>) -> Ended {
        self.fork_on(runs_handlers).unwrap_or_else(|| {
            let ended = child();
            self.with(|engine| {
                engine.end_child(ended.map_err(|what| Failure::Found(what.into())).as_ref().map(|_| ()))
            });
            unreachable!("a child ends by its report")
        })
    }

    /// Copies the process with only the calling thread. None: this is the copy, which runs to the end of the thread's
    /// job. The parent waits for that, and learns how the copy ended.
    pub fn fork_on(self, runs_handlers: bool) -> Option<Ended> {
        self.step(Access::System { number: FORK });
        self.with(|engine| {
            // Plain writes have overtaken the waiting stores, so a copy without these would be inconsistent.
            engine.drain_all();
            engine.processes += 1;
            engine.happened(Happening::Forked(engine.processes));
        });
        let (reader, writer) = std::io::pipe().expect("a pipe can be made");
        // SAFETY: the child is simulated on this host thread, which is its only one, and leaves by _exit.
        let process = unsafe { libc::fork() };
        assert!(process >= 0, "a child could not be made");
        if process == 0 {
            self.with(|engine| engine.become_child(writer));
            if runs_handlers {
                let handlers = self.with(|engine| engine.fork_handlers.clone());
                handlers.into_iter().for_each(|handler| handler());
            }
            return None;
        }
        // So that the pipe ends with the child.
        drop(writer);
        let Report { ended, hash, deviations } = wait(process, reader);
        self.with(|engine| {
            engine.trace.deviations.extend(deviations);
            engine.happened(Happening::ChildEnded { how: format!("{ended:?}"), hash });
        });
        Some(ended)
    }
}

const FORK: usize = 57;

impl Engine {
    /// Makes this process the child, without other threads.
    fn become_child(&mut self, report_to: PipeWriter) {
        // SAFETY: no effects on memory. A hanging child ends by itself, and must not outlive a parent that gives up.
        unsafe {
            libc::alarm(PATIENCE);
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        }
        // SAFETY: a limit of this process, which may die on purpose, without a core file.
        unsafe { libc::setrlimit(libc::RLIMIT_CORE, &libc::rlimit { rlim_cur: 0, rlim_max: 0 }) };
        // The first children of the first process have the next numbers. No two processes of the tree share any.
        let ordinal = (self.process - FIRST_PROCESS) / NUMBERS * CHILDREN + self.processes - 1;
        self.process = FIRST_PROCESS + NUMBERS * ordinal;
        self.processes = 1;
        // The parent has its own, and gets ours in the end.
        self.trace.deviations.clear();
        self.report_to = Some(report_to);
        let me = self.current;
        for (number, thread) in self.threads.iter_mut().enumerate() {
            if number != me {
                thread.state = State::Dead;
                // Left as it is, like all data of the thread.
                std::mem::forget(thread.coroutine.take());
            }
        }
        for cpu in &mut self.cpus {
            cpu.queue.clear();
            cpu.waits_for_line = false;
            if cpu.thread != Some(me) {
                cpu.thread = None;
            }
        }
        self.timers.clear();
        self.agenda.clear();
        self.lines.forget_waiters();
        self.running = vec![me];
        self.slots.fill(false);
        if let Some(slot) = self.threads[me].slot {
            self.slots[slot as usize] = true;
        }
        let me = &mut self.threads[me];
        (me.tid, me.parent, me.children) = (self.process, None, 0);
        (me.has_signal, me.has_kick) = (false, false);
        // A handler may have forked after its thread read the lock's holder, and before it slept until that holder
        // releases the lock. The holder does not exist here; the thread finds out after `A_SECOND` (host's
        // `sync/lock.rs`).
        if me.in_handler {
            self.settings.most_ns = self.settings.most_ns.saturating_mul(2);
        }
        self.happened(Happening::Child(self.process));
    }

    /// Ends a child if this thread, whose job is done, was copied into it.
    pub(super) fn end_if_child(&mut self, thread: usize) {
        if self.threads[thread].tid == self.process {
            self.end_child(Ok(()));
        }
    }

    /// In a child: reports how it ended, and ends it.
    pub(super) fn end_child(&mut self, ended: Result<(), &Failure>) {
        let Some(mut report_to) = self.report_to.take() else { return };
        let (kind, text) = match ended {
            Ok(()) => ("well", String::new()),
            Err(Failure::Found(what)) => ("found", what.clone()),
            Err(failure @ (Failure::NoEnd { .. } | Failure::Deadlock { .. })) => ("hung", failure.to_string()),
            Err(failure) => ("died", failure.to_string()),
        };
        self.happened(Happening::Said(text.clone()));
        let choices: String = self.trace.deviations.iter().map(|choice| format!(" {choice}")).collect();
        write!(report_to, "{kind} {}{choices}\n{text}", self.trace.hash).expect("the parent reads");
        // SAFETY: the parent's work must not be finished here.
        unsafe { libc::_exit(0) };
    }
}

struct Report {
    ended: Ended,
    hash: u64,
    deviations: Vec<Deviation>,
}

impl Report {
    /// Reads what `end_child` wrote: how it ended, its hash, and its choices; then the reason.
    fn read(report: &str) -> Option<Self> {
        let (head, text) = report.split_once('\n')?;
        let mut words = head.split(' ');
        let ended = match words.next()? {
            "well" => Ended::Well,
            "found" => Ended::Found(text.into()),
            "hung" => Ended::Hung(text.into()),
            _ => Ended::Died(text.into()),
        };
        let hash = words.next()?.parse().ok()?;
        Some(Report { ended, hash, deviations: words.filter_map(|choice| choice.parse().ok()).collect() })
    }
}

fn wait(process: libc::pid_t, mut reader: PipeReader) -> Report {
    let mut report = Vec::new();
    reader.read_to_end(&mut report).expect("a pipe can be read");
    let mut status = 0;
    // SAFETY: the child is ours. Signals may interrupt.
    while unsafe { libc::waitpid(process, &mut status, 0) } < 0 {}
    Report::read(&String::from_utf8_lossy(&report)).unwrap_or_else(|| {
        let is_late = libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGALRM;
        let ended = match is_late {
            true => Ended::Hung("a thread goes on without a step".into()),
            false => Ended::Died("a real signal, and no report".into()),
        };
        Report { ended, hash: 0, deviations: Vec::new() }
    })
}
