//! Every schedule of the small bodies.

use exploration::schedules::SMALL;

#[test]
fn every_schedule_of_small_bodies_keeps_what_counters_promise() {
    let wrong: Vec<String> = SMALL
        .iter()
        .filter_map(|small| {
            let exhausted = small.exhaust();
            println!("{}: {exhausted:?}", small.name);
            exhausted.err()
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
