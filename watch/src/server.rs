//! A server for whoever scrapes: it looks at the pages when it is asked, and at no other time.

use std::net::{SocketAddr, ToSocketAddrs};

use anyhow::{Context, Result, anyhow};
use tiny_http::{Header, Method, Request, Response, Server};

use crate::openmetrics;
use crate::process::Process;

/// Where the text is.
pub const PATH: &str = "/metrics";

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

/// Serves what `look` finds, until the process ends. `ready` is told where.
pub fn serve(at: SocketAddr, look: impl Fn() -> Vec<Process>, ready: impl FnOnce(SocketAddr)) -> Result<()> {
    let server = Server::http(at)
        .map_err(|error| anyhow!("{error}"))
        .with_context(|| format!("cannot serve at {at}; another program may have the port, so take another one"))?;
    ready(server.server_addr().to_ip().unwrap_or(at));
    for request in server.incoming_requests() {
        // Who hangs up in the middle is no reason to end.
        let _ = answer(request, &look);
    }
    Ok(())
}

fn answer(request: Request, look: &impl Fn() -> Vec<Process>) -> std::io::Result<()> {
    let path = request.url().split('?').next().unwrap_or("");
    let is_read = matches!(request.method(), Method::Get | Method::Head);
    let (status, media_type, text) = match path {
        _ if !is_read => (405, "text/plain", "only GET and HEAD\n".to_owned()),
        PATH => match openmetrics::text(look()) {
            Ok(text) => (200, openmetrics::MEDIA_TYPE, text),
            Err(_) => (500, "text/plain", "what was found cannot be written\n".to_owned()),
        },
        "/" => (200, "text/plain", format!("commensal: metrics of processes are at {PATH}\n")),
        _ => (404, "text/plain", format!("nothing is here; metrics are at {PATH}\n")),
    };
    let header = Header::from_bytes("Content-Type", media_type).expect("it is one");
    request.respond(Response::from_string(text).with_status_code(status).with_header(header))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_one_of_this_machine_alone() {
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
}
