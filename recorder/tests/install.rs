//! What is installed stays: in a process of its own, as it is installed once for each.
//!
//! Planted, and found here: an endpoint that goes on listening after the recorder could not be installed.

use commensal_metrics::{Builder, Error};
use metrics::{Unit, counter, describe_counter};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

#[test]
fn the_second_recorder_is_refused_and_the_first_counts_on() {
    let free = || TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port is free");
    let (first, second) = (free(), free());
    let recorder = Builder::new().listen(first).install().expect("nobody was before");
    describe_counter!("sent", Unit::Bytes, "What went out");
    counter!("sent").increment(1);

    let refused = Builder::new().listen(second).install().expect_err("there is one");
    assert!(matches!(refused, Error::Installed), "{refused}");
    assert!(refused.to_string().starts_with("a recorder is installed already, and goes on counting"));
    assert!(matches!(Builder::new().install_recorder(), Err(Error::Installed)));
    TcpListener::bind(second).expect("nobody listens there");

    counter!("sent").increment(1);
    let mut stream = TcpStream::connect(first).expect("somebody listens");
    stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").expect("it is read");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    let text = "# TYPE sent_bytes counter\n# UNIT sent_bytes bytes\n# HELP sent_bytes What went out\nsent_bytes_total 2\n# EOF\n";
    assert!(answer.ends_with(&format!("\r\n\r\n{text}")), "{answer}");
    assert_eq!(recorder.render(), text);
}
