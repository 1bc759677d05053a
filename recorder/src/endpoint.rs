//! The endpoint: one thread that answers one request after the other with what the recorder renders, at `/metrics`.

use crate::builder::Error;
use crate::recorder::Recorder;
use commensal_scrape::serve_in_turn;
use std::net::{SocketAddr, TcpListener};
use std::thread;

/// A port that is ours.
pub struct Endpoint(TcpListener);

impl Endpoint {
    pub fn bind(address: SocketAddr) -> Result<Self, Error> {
        TcpListener::bind(address).map(Endpoint).map_err(|why| Error::Listen(address, why))
    }

    /// Answers from now on, until the process ends.
    pub fn serve(self, recorder: Recorder) -> Result<(), Error> {
        let run = move || -> () { serve_in_turn(&self.0, || Some(recorder.render())) };
        thread::Builder::new().name("commensal-stat".to_owned()).spawn(run).map(drop).map_err(Error::Thread)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Builder;
    use std::io::{Read, Write};
    use std::net::TcpStream;

    #[test]
    fn what_is_counted_is_served() {
        let recorder = Builder::new().build().expect("the usual settings are good");
        recorder.direct_counter("requests").increment(3);
        let endpoint = Endpoint::bind("127.0.0.1:0".parse().expect("it is one")).expect("a port is free");
        let address = endpoint.0.local_addr().expect("it has one");
        endpoint.serve(recorder.clone()).expect("a thread starts");
        let mut stream = TcpStream::connect(address).expect("somebody listens");
        stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").expect("it is read");
        let mut said = String::new();
        stream.read_to_string(&mut said).expect("it answers");
        let (head, body) = said.split_once("\r\n\r\n").expect("head and body");
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
        assert!(body == recorder.render() && body.contains("\nrequests_total 3\n"), "{body}");
    }
}
