//! State of the process that the host's sources keep in statics. It all lies in one section of the program, and each
//! simulation starts with that section's initial contents.

use crate::{fault, kick, probe, root, sandbox, slot, sync, thread};
use std::cell::RefCell;
use std::ops::Range;
use std::sync::atomic::AtomicU8;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

unsafe extern "C" {
    #[link_name = "__start_commensal_state"]
    static mut START: u8;
    #[link_name = "__stop_commensal_state"]
    static mut STOP: u8;
    #[link_name = "__executable_start"]
    static PROGRAM: u8;
    #[link_name = "_end"]
    static PROGRAM_END: u8;
}

/// Always present, so that the linker makes the section.
#[unsafe(link_section = "commensal_state")]
static PRESENT: AtomicU8 = AtomicU8::new(1);

/// The initial contents.
static FRESH: OnceLock<Vec<u8>> = OnceLock::new();
/// One simulation at a time.
static OWNER: Mutex<()> = Mutex::new(());

thread_local! {
    static GUARD: RefCell<Option<MutexGuard<'static, ()>>> = const { RefCell::new(None) };
}

pub fn range() -> (usize, usize) {
    std::hint::black_box(&PRESENT);
    let (start, stop) = ((&raw const START).addr(), (&raw const STOP).addr());
    (start, stop - start)
}

pub fn program() -> Range<usize> {
    (&raw const PROGRAM).addr()..(&raw const PROGRAM_END).addr()
}

/// Makes the state fresh, and this host thread's until [`end`].
pub fn begin() {
    let guard = OWNER.lock().unwrap_or_else(PoisonError::into_inner);
    GUARD.with(|own| *own.borrow_mut() = Some(guard));
    let (start, bytes) = (&raw mut START, range().1);
    // SAFETY: the linker put the state there. Simulations run one at a time; other tests have own processes.
    unsafe {
        let fresh = FRESH.get_or_init(|| std::slice::from_raw_parts(start, bytes).to_vec());
        start.copy_from_nonoverlapping(fresh.as_ptr(), bytes);
    }
}

pub fn name(at: usize) -> Option<String> {
    let modules = [
        fault::names_of_state().collect::<Vec<_>>(),
        kick::names_of_state().collect(),
        probe::names_of_state().collect(),
        root::names_of_state().collect(),
        sandbox::names_of_state().collect(),
        sync::names_of_state().collect(),
    ];
    let all = modules.into_iter().flatten().chain(slot::names_of_state()).chain(thread::names_of_state());
    let (start, bytes, name) = all.into_iter().find(|(start, bytes, _)| (*start..start + bytes).contains(&at))?;
    Some(if bytes <= 8 { name.to_owned() } else { format!("{name}+{:#x}", at - start) })
}

pub fn end() {
    GUARD.with(|own| drop(own.borrow_mut().take()));
}
