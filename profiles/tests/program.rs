//! Likewise, in Rust.

unsafe extern "C" {
    fn backtrace(addresses: *mut usize, most: i32) -> i32;
}

mod cache {
    pub struct Store<T>(pub T);

    impl<T> Store<T> {
        #[inline(never)]
        pub fn insert(&mut self, value: T) {
            crate::capture(); // line 13
            self.0 = value;
        }
    }
}

#[inline(never)]
fn capture() {
    let mut addresses = [0; 64];
    // SAFETY: there is room for as many addresses.
    let count = unsafe { backtrace(addresses.as_mut_ptr(), 64) };
    addresses[1..count as usize].iter().for_each(|address| print!("{address:#x} "));
    println!();
}

fn main() {
    cache::Store(1_u32).insert(2);
    print!("{}", std::fs::read_to_string("/proc/self/maps").unwrap());
}
