//! A server for whoever scrapes: it looks at the pages when it is asked, and at no other time.

use std::convert::Infallible;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, anyhow};

use crate::openmetrics::{self, Scrape};
use crate::process::{Gone, Process};
use crate::scrape;
pub use crate::scrape::PATH;

/// Several servers may scrape, and people look.
const MOST_CONNECTIONS: usize = 100;

/// The address in a text: an address and a port, or a port of this machine alone.
pub fn address(text: &str) -> Result<SocketAddr> {
    let port = text.strip_prefix(':').unwrap_or(text);
    if let Ok(port) = port.parse::<u16>() {
        return Ok(SocketAddr::from(([127, 0, 0, 1], port)));
    }
    let found = text.to_socket_addrs().ok().and_then(|mut addresses| addresses.next());
    found.ok_or_else(|| {
        anyhow!("{text:?} is no address; expected one such as 127.0.0.1:9464, or a port of this machine such as 9464")
    })
}

/// Serves what `look` finds, with why other pages could not be read, until the process ends. `ready` is told where.
pub fn serve(
    at: SocketAddr, look: impl Fn() -> (Vec<Process>, Vec<anyhow::Error>) + Send + Sync + 'static,
    ready: impl FnOnce(SocketAddr),
) -> Result<Infallible> {
    let listener = TcpListener::bind(at)
        .with_context(|| format!("cannot serve at {at}; another program may have the port, so take another one"))?;
    ready(listener.local_addr().unwrap_or(at));
    let gone = Mutex::new(Gone::default());
    let text = move || {
        // Who looked first counts first: else one that is forgotten meanwhile would count twice.
        let mut known = gone.lock().unwrap_or_else(PoisonError::into_inner);
        let (processes, unreadable) = look();
        let gone = known.with(&processes);
        drop(known);
        openmetrics::text(Scrape { processes, gone, unreadable: unreadable.len() as u64 }).ok()
    };
    scrape::serve(&listener, MOST_CONNECTIONS, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::thread;

    #[test]
    fn bare_port_binds_to_the_loopback_address() {
        let read = |text| address(text).map(|address| address.to_string()).map_err(|error| error.to_string());
        for (text, expected) in [
            ("9464", "127.0.0.1:9464"),
            (":9464", "127.0.0.1:9464"),
            ("0.0.0.0:1", "0.0.0.0:1"),
            ("[::1]:7", "[::1]:7"),
        ] {
            assert_eq!(read(text).as_deref(), Ok(expected));
        }
        for text in ["", "x", "1.2.3.4", "70000", "1.2.3.4:70000"] {
            assert!(read(text).unwrap_err().contains("is no address"), "{text}");
        }
    }

    #[test]
    fn processes_are_served() {
        let (send, receive) = std::sync::mpsc::channel();
        let look = || (vec![sample::process(7, 0)], vec![anyhow!("cut off"), anyhow!("damaged")]);
        thread::spawn(move || serve(address("0").unwrap(), look, move |at| send.send(at).unwrap()));
        let at = receive.recv().unwrap();
        assert!(at.ip().is_loopback() && at.port() != 0, "{at}");
        let mut stream = TcpStream::connect(at).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
        let mut said = String::new();
        stream.read_to_string(&mut said).unwrap();
        assert!(said.starts_with("HTTP/1.1 200 ") && said.ends_with("# EOF\n"), "{said}");
        assert!(said.contains("\ncommensal_in_use_bytes{pid=\"7\",program=\"sample\"} "), "{said}");
        assert!(said.contains("\ncommensal_unreadable_pages 2\n"), "{said}");
    }

    #[test]
    fn port_in_use_is_named() {
        let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let at = other.local_addr().unwrap();
        let said = format!("{:#}", serve(at, Default::default, |_| panic!("it is taken")).unwrap_err());
        assert!(said.starts_with(&format!("cannot serve at {at}; another program may have the port")), "{said}");
        assert!(said.contains("in use"), "{said}");
    }
}
