//! A small service on Commensal. Four threads answer requests with a greeting, which another thread replaces meanwhile.
//! A tenant has a memory limit.
//!
//! ```text
//! cargo run --release --manifest-path examples/greeter/Cargo.toml
//! ```

// ANCHOR: allocator
use commensal::Commensal;

#[global_allocator]
static GLOBAL: Commensal = Commensal;
// ANCHOR_END: allocator

use std::io::Write;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::thread;

use commensal::caches::{Cache, Constructed};
use commensal::counter::LazyCounter;
use commensal::group::Group;
use commensal::rcu;
use hashbrown::{DefaultHashBuilder, HashMap};

const WORKERS: usize = 4;
const REQUESTS: usize = 25_000;
const GREETINGS: u32 = 100;

// ANCHOR: counter
/// Counts by a plain addition while one thread adds, and per CPU when several do.
static ANSWERED: LazyCounter = LazyCounter::new();
// ANCHOR_END: counter

// ANCHOR: cache
/// Lines keep their memory between uses, so only the first few requests allocate one.
static LINES: Cache<Vec<u8>, Constructed> = Cache::constructed("line", || Vec::with_capacity(256));
// ANCHOR_END: cache

// ANCHOR: cell
/// Many threads read it, and one thread replaces it as a whole.
struct Greeting {
    number: u32,
    text: String,
}

impl Greeting {
    fn new(number: u32) -> Self {
        Greeting { number, text: format!("welcome for the {number}. time") }
    }
}

/// Answers one request. Returns whether the greeting was whole.
fn answer(guest: usize, greeting: &rcu::Cell<Greeting>) -> bool {
    // A section and a load. This greeting stays until `now` is dropped, even if another thread replaces it.
    let now = greeting.load();
    let mut line = LINES.get().expect("there is memory for a line");
    line.clear();
    write!(line, "guest {guest}, {}", now.text).expect("a line grows as it must");
    ANSWERED.add(1);
    line.ends_with(format!("for the {}. time", now.number).as_bytes())
}
// ANCHOR_END: cell

// ANCHOR: group
/// Allocates pages for a tenant until an allocation fails. Returns the number of pages.
fn fill(tenant: &Group<'_>) -> usize {
    let mut pages = Vec::new();
    while let Ok(page) = tenant.alloc([0_u8; 4096]) {
        pages.push(page);
    }
    pages.len()
}
// ANCHOR_END: group

// ANCHOR: collection
/// The same with a map whose memory is the tenant's. Returns the number of its entries.
fn index(tenant: &Group<'_>) -> usize {
    let mut index = HashMap::with_hasher_in(DefaultHashBuilder::default(), tenant);
    // At the limit, the map says that it cannot grow, and stays as it is.
    while index.try_reserve(1).is_ok() {
        index.insert(index.len(), [0_u8; 64]);
    }
    index.len()
}
// ANCHOR_END: collection

// ANCHOR: instrument
/// Runs a task inside the tenant's group. Returns what the task counted.
fn run(tenant: &Group<'_>) -> usize {
    let count = async { "charged to the tenant".split(' ').map(String::from).collect::<Vec<_>>().len() };
    // SAFETY: the task returns a number, and leaves no memory of the group elsewhere.
    let mut task = pin!(unsafe { tenant.instrument(count) });
    // A runtime does this, on any of its threads.
    loop {
        if let Poll::Ready(words) = task.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return words;
        }
    }
}
// ANCHOR_END: instrument

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // ANCHOR: settings
    // Applies COMMENSAL_CONF from here on. A preloaded library does this before `main`.
    commensal::settings::apply_environment();
    // ANCHOR_END: settings

    let greeting = rcu::Cell::new(Greeting::new(0))?;

    let whole: usize = thread::scope(|scope| {
        let work = || (0..REQUESTS).filter(|&guest| answer(guest, &greeting)).count();
        let workers: Vec<_> = (0..WORKERS).map(|_| scope.spawn(work)).collect();
        for number in 1..=GREETINGS {
            // The runtime drops the old greeting when no worker can have it.
            greeting.store(Greeting::new(number)).map_err(|_| "no memory for a greeting")?;
        }
        Ok::<_, &str>(workers.into_iter().map(|worker| worker.join().expect("no worker panics")).sum())
    })?;
    println!(
        "{} answers, {whole} of them whole; the last greeting was number {}",
        ANSWERED.sum(),
        greeting.load().number
    );

    // ANCHOR: update
    // Made of the current greeting. If another thread replaces that meanwhile, the closure runs again.
    let before = greeting.rcu(|now| Greeting::new(now.number + 1))?;
    // ANCHOR_END: update
    println!("number {} was made of number {}", greeting.load().number, before.number);

    let tenant = Group::new("tenant")?;
    tenant.set_limit(Some(1 << 20));
    println!("a tenant with a limit of 1024 KiB got {} pages of 4 KiB", fill(&tenant));
    // The pages were dropped, so there is room again.
    println!("and {} the next time", fill(&tenant));
    println!("its index got {} entries, and its task counted {} words", index(&tenant), run(&tenant));
    Ok(())
}
