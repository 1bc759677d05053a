//! A collection whose memory is a group's does not outlive the group.

use allocator_api2::vec::Vec;
use commensal_runtime::group::Group;

fn outlive(group: Group<'static>) {
    let mut numbers = Vec::new_in(&group);
    numbers.push(1);
    drop(group);
    numbers.push(2);
}

fn main() {}
