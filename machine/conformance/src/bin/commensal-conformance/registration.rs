//! A thread's registration for restartable sequences, undone: what a thread has that the C library did not make.

/// Undoes the registration of the calling thread, which dies soon. False: it has none that is known.
pub fn undo() -> bool {
    const UNREGISTER: libc::c_int = 1;
    const SIGNATURE: u32 = 0x5305_3053;
    // The size with which it was registered must be given again: 32 bytes, or as many as later versions know.
    const SIZES: [u32; 3] = [32, 64, 128];
    let Some(area) = area() else { return false };
    // SAFETY: the kernel writes its farewell to the area, or refuses.
    let undo = |size: u32| unsafe { libc::syscall(libc::SYS_rseq, area, size, UNREGISTER, SIGNATURE) };
    SIZES.into_iter().any(|size| undo(size) == 0)
}

/// Where the C library keeps this thread's area.
fn area() -> Option<*mut u8> {
    // SAFETY: the name ends with a zero byte, and the symbol is a constant offset from the thread pointer.
    let offset = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_offset".as_ptr()).cast::<isize>().as_ref() }?;
    // The host's ids are thread pointers.
    Some(std::ptr::with_exposed_provenance_mut::<u8>(machine::thread::id() as usize).wrapping_offset(*offset))
}
