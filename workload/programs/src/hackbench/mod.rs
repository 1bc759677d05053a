//! Messages between tasks, as hackbench has them: groups of senders and receivers, in which every sender writes to every receiver.
//!
//! After the program of that name, "hackbench" by Rusty Russell (2000) and those who went on with it: the same tasks, messages, options and
//! output, by code of our own. Added is what is measured with it: each task, or each message, has a context ([`Contexts`]) that comes from
//! an object cache where a library with such caches is preloaded, and from malloc where none is.
//!
//! The clock runs from when all tasks are ready until the last one has ended, as it does there: tasks are created before it starts.

mod context;

use std::fs::File;
use std::io::{Error, Read, Write, pipe};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use context::{Context, Source};

/// Bytes of a thread's stack: hundreds of threads that hardly call anything.
const STACK_BYTES: usize = 128 << 10;
/// The largest message.
pub const MOST_BYTES: usize = 64 << 10;

/// What is run.
#[derive(Clone, Debug)]
pub struct Hackbench {
    /// Pipes, not sockets.
    pub pipes: bool,
    /// Threads, not processes.
    pub threads: bool,
    /// Groups of tasks, which have nothing to do with each other.
    pub groups: usize,
    /// Senders in a group, and receivers.
    pub pairs: usize,
    /// Messages from each sender to each receiver.
    pub loops: usize,
    /// Bytes of a message, 1 to [`MOST_BYTES`].
    pub bytes: usize,
    /// What has a context.
    pub contexts: Contexts,
}

/// What has a context of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contexts {
    /// A task, from before it is created until it has ended.
    Tasks,
    /// A message, while it is sent.
    Messages,
}

impl Hackbench {
    /// How many tasks there are.
    pub fn tasks(&self) -> usize {
        2 * self.groups * self.pairs
    }

    /// Runs it: the time from when all tasks are ready until all have ended. Error: what went wrong; then no task is left.
    pub fn run(&self) -> Result<Duration, String> {
        allow_files();
        let source = Source::find()?;
        let (mut ready, tell_ready) = pipe().map_err(|error| failed("a pipe", &error))?;
        let (gate, mut open_gate) = pipe().map_err(|error| failed("a pipe", &error))?;
        let meeting = Arc::new(Meeting { gate: gate.into(), ready: OwnedFd::from(tell_ready).into() });
        let mut tasks = Tasks { running: Vec::with_capacity(self.tasks()), threads: self.threads };
        for _ in 0..self.groups {
            self.create_group(&meeting, source, &mut tasks)?;
        }
        // With all tasks the other end of the pipe is gone, so that this does not wait for nobody.
        drop(meeting);
        ready.read_exact(&mut vec![0; self.tasks()]).map_err(|error| failed("waiting for the tasks", &error))?;
        let start = Instant::now();
        open_gate.write_all(&[0]).map_err(|error| failed("letting the tasks go", &error))?;
        tasks.wait()?;
        Ok(start.elapsed())
    }

    /// Receivers first, then the senders to all of them.
    fn create_group(&self, meeting: &Arc<Meeting>, source: Source, tasks: &mut Tasks) -> Result<(), String> {
        let mut writers = Vec::with_capacity(self.pairs);
        for _ in 0..self.pairs {
            let (mut reader, writer) = self.channel()?;
            writers.push(writer);
            let (meeting, bench) = (Arc::clone(meeting), self.clone());
            let work = move || {
                meeting.meet()?;
                bench.receive(&mut reader)
            };
            tasks.create(self.context_of_task(source)?, Box::new(work))?;
        }
        let writers = Arc::new(writers);
        for _ in 0..self.pairs {
            let (meeting, bench, writers) = (Arc::clone(meeting), self.clone(), Arc::clone(&writers));
            let work = move || {
                meeting.meet()?;
                bench.send(&writers, source)
            };
            tasks.create(self.context_of_task(source)?, Box::new(work))?;
        }
        Ok(())
    }

    fn context_of_task(&self, source: Source) -> Result<Option<Context>, String> {
        (self.contexts == Contexts::Tasks).then(|| source.context()).transpose()
    }

    /// The end to read from, and the end to write to.
    fn channel(&self) -> Result<(File, File), String> {
        let ends: Result<(OwnedFd, OwnedFd), Error> = if self.pipes {
            pipe().map(|(reader, writer)| (reader.into(), writer.into()))
        } else {
            UnixStream::pair().map(|(one, other)| (one.into(), other.into()))
        };
        let (reader, writer) = ends.map_err(|error| {
            failed(&format!("{} channels for {} groups", self.pairs * self.groups, self.groups), &error)
        })?;
        Ok((reader.into(), writer.into()))
    }

    fn receive(&self, reader: &mut File) -> Result<(), Error> {
        let mut message = [0; MOST_BYTES];
        (0..self.pairs * self.loops).try_for_each(|_| reader.read_exact(&mut message[..self.bytes]))
    }

    fn send(&self, writers: &[File], source: Source) -> Result<(), Error> {
        let message = [0; MOST_BYTES];
        for _ in 0..self.loops {
            for mut writer in writers {
                let context = match self.contexts {
                    Contexts::Messages => Some(source.context().map_err(Error::other)?),
                    Contexts::Tasks => None,
                };
                writer.write_all(&message[..self.bytes])?;
                drop(context);
            }
        }
        Ok(())
    }
}

/// Where tasks say that they are ready, and wait until all are.
struct Meeting {
    gate: OwnedFd,
    ready: File,
}

impl Meeting {
    fn meet(&self) -> Result<(), Error> {
        (&self.ready).write_all(&[0])?;
        let mut gate = libc::pollfd { fd: self.gate.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        loop {
            // SAFETY: one entry, which is ours. The byte stays in the pipe, for the others.
            match unsafe { libc::poll(&mut gate, 1, -1) } {
                1 => return Ok(()),
                _ if interrupted() => {}
                _ => return Err(Error::last_os_error()),
            }
        }
    }
}

type Work = Box<dyn FnOnce() -> Result<(), Error> + Send>;

/// A task, and its context if that has one.
enum Task {
    Process { id: libc::pid_t, _context: Option<Context> },
    Thread(JoinHandle<Result<(), Error>>),
}

struct Tasks {
    running: Vec<Task>,
    threads: bool,
}

impl Tasks {
    fn create(&mut self, context: Option<Context>, work: Work) -> Result<(), String> {
        let task = if self.threads { create_thread(context, work) } else { create_process(context, work) };
        self.running.push(task.map_err(|error| failed(&format!("task {}", self.running.len() + 1), &error))?);
        Ok(())
    }

    /// Waits for all of them. A process's context ends when that is seen to have ended, a thread's with the thread.
    fn wait(&mut self) -> Result<(), String> {
        while let Some(task) = self.running.pop() {
            match task {
                Task::Thread(thread) => {
                    let done = thread.join().map_err(|_| "a task panicked".to_owned())?;
                    done.map_err(|error| failed("a task", &error))?;
                }
                process => {
                    self.running.push(process);
                    self.wait_for_process()?;
                }
            }
        }
        Ok(())
    }

    /// Whichever ends next: the others may wait for one that failed.
    fn wait_for_process(&mut self) -> Result<(), String> {
        let mut status = 0;
        // SAFETY: writes the status.
        let ended = unsafe { libc::waitpid(-1, &mut status, 0) };
        match ended {
            -1 if interrupted() => return Ok(()),
            -1 => return Err(failed("waiting for a task", &Error::last_os_error())),
            _ => {}
        }
        let is_it = |task: &Task| matches!(task, Task::Process { id, .. } if *id == ended);
        if let Some(place) = self.running.iter().position(is_it) {
            self.running.swap_remove(place);
        }
        if status == 0 { Ok(()) } else { Err(format!("a task ended with wait status {status:#x}")) }
    }
}

impl Drop for Tasks {
    /// Processes that are left after something went wrong wait for messages that nobody sends.
    fn drop(&mut self) {
        for task in &self.running {
            if let Task::Process { id, .. } = task {
                // SAFETY: a child of ours that nobody has waited for.
                unsafe {
                    libc::kill(*id, libc::SIGKILL);
                    libc::waitpid(*id, std::ptr::null_mut(), 0);
                }
            }
        }
    }
}

fn create_thread(context: Option<Context>, work: Work) -> Result<Task, Error> {
    let life = move || {
        let done = work();
        drop(context);
        done
    };
    Ok(Task::Thread(thread::Builder::new().stack_size(STACK_BYTES).spawn(life)?))
}

fn create_process(context: Option<Context>, work: Work) -> Result<Task, Error> {
    // SAFETY: this process has one thread, so that the child may do whatever it likes.
    match unsafe { libc::fork() } {
        -1 => Err(Error::last_os_error()),
        0 => {
            let done = work();
            drop(context);
            if let Err(error) = &done {
                eprintln!("hackbench: {}", failed("a task", error));
            }
            // SAFETY: ends the child, with nothing of the parent's.
            unsafe { libc::_exit(i32::from(done.is_err())) }
        }
        id => Ok(Task::Process { id, _context: context }),
    }
}

fn interrupted() -> bool {
    Error::last_os_error().raw_os_error() == Some(libc::EINTR)
}

/// As many files as this process may ever have.
fn allow_files() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: reads and writes this limit. If that fails, the channel that is too many says so.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) == 0 {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
        }
    }
}

fn failed(what: &str, error: &Error) -> String {
    format!("{what} failed ({error})")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Hackbench =
        Hackbench { pipes: true, threads: true, groups: 2, pairs: 3, loops: 5, bytes: 100, contexts: Contexts::Tasks };

    #[test]
    fn messages_all_arrive() {
        for (pipes, contexts) in [(true, Contexts::Tasks), (false, Contexts::Messages)] {
            let bench = Hackbench { pipes, contexts, ..SMALL };
            assert!(bench.run().is_ok_and(|time| time > Duration::ZERO), "{bench:?}");
        }
        assert_eq!(SMALL.tasks(), 12);
    }

    /// A message that is too short for its receiver leaves that waiting, until the senders are gone.
    #[test]
    fn failed_task_is_reported() {
        let (reader, writer) = SMALL.channel().unwrap();
        let (mut reader, writers) = (reader, [writer]);
        let short = Hackbench { pairs: 1, loops: 1, bytes: 99, ..SMALL };
        short.send(&writers, Source::find().unwrap()).unwrap();
        drop(writers);
        let whole = Hackbench { pairs: 1, loops: 1, ..SMALL };
        assert!(whole.receive(&mut reader).is_err(), "one byte is missing");
    }
}
