//! A program that counts by the facade `metrics`, and shows what it counted: `cargo run -p commensal-metrics --example shop`, then
//! `curl 127.0.0.1:9464/metrics` in the next five seconds.

use metrics::{Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};
use std::error::Error;
use std::thread;
use std::time::{Duration, Instant};

fn main() -> Result<(), Box<dyn Error>> {
    // The one line that is another one with another recorder.
    let recorder = commensal_metrics::Builder::new().listen("127.0.0.1:9464").install()?;

    describe_counter!("orders", "Orders that were taken");
    describe_gauge!("guests", "Who is in the shop");
    describe_histogram!("service", Unit::Seconds, "From the order to the table");
    thread::scope(|scope| {
        for waiter in 0..3 {
            scope.spawn(move || (0..1000).for_each(|_| serve(waiter)));
        }
    });
    print!("{}", recorder.render());
    thread::sleep(Duration::from_secs(5));
    Ok(())
}

fn serve(waiter: u32) {
    let start = Instant::now();
    gauge!("guests").increment(1);
    counter!("orders", "waiter" => waiter.to_string()).increment(1);
    gauge!("guests").decrement(1);
    histogram!("service").record(start.elapsed());
}
