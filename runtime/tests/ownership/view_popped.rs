//! Another thread's magazine is looked at, and nothing is taken from it.

use commensal_runtime::depot::View;

fn steal(mut view: View<'_>) -> Option<*mut u8> {
    view.pop()
}

fn main() {}
