//! A tenant that cannot use more than its share of the memory.

use commensal::Commensal;
use commensal::group::Group;

#[global_allocator]
static GLOBAL: Commensal = Commensal;

fn main() {
    let tenant = Group::new("tenant").expect("there is memory");
    tenant.set_limit(Some(1 << 20));
    let mut pages = Vec::new();
    while let Ok(page) = tenant.alloc([0_u8; 4096]) {
        pages.push(page);
    }
    println!("{} pages until the limit", pages.len());
    assert!(pages.len() <= 256 && tenant.peak() <= 1 << 20);
    // The compiler sees to it that no page is used after its group.
    drop(pages);

    // What the global allocator gives meanwhile is charged, too.
    let before = tenant.charged();
    // SAFETY: the text is dropped before the group.
    let text = unsafe { tenant.within(|| "a line\n".repeat(1000)) };
    assert!(tenant.charged() >= before && text.len() == 7000);
    drop(text);
    tenant.destroy().expect("no thread is inside, and there are no children");
}
