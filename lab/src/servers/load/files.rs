//! nginx: files of many sizes, compressed on the way, or through a reverse proxy, which is nginx again.

use std::fs;
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use fastrand::Rng;

use super::{LONGEST_BYTES, Load, Texts, check, for_connections, generator};
use crate::servers::protocol::{http, shown};

const FILES: usize = 200;
const SHORTEST_BYTES: usize = 1000;

/// The load.
pub struct Files {
    texts: Texts,
    connections: Vec<(Rng, Expected)>,
}

/// The file that was asked for, and whether it has to come compressed.
type Expected = (usize, bool);

impl Files {
    /// All connections ask for the same files.
    pub fn new() -> Self {
        Self { texts: Texts::new(), connections: for_connections(|connection| (generator(connection), (0, false))) }
    }

    /// Writes the files to be served into a folder of this one.
    pub fn write(folder: &Path) -> Result<()> {
        let (texts, folder) = (Texts::new(), folder.join("files"));
        fs::create_dir(&folder)?;
        for file in 0..FILES {
            let path = folder.join(file.to_string());
            fs::write(&path, texts.of(file, size(file))).with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(())
    }

    fn ask(&mut self, connection: usize, (file, is_gzip): Expected, out: &mut Vec<u8>) {
        self.connections[connection].1 = (file, is_gzip);
        let (place, accept) = if is_gzip { ("files", "gzip") } else { ("proxy", "identity") };
        // Writing into memory does not fail.
        let _ = write!(out, "GET /{place}/{file} HTTP/1.1\r\nHost: files\r\nAccept-Encoding: {accept}\r\n\r\n");
    }
}

/// Between the shortest and the longest, by the file's number.
fn size(file: usize) -> usize {
    SHORTEST_BYTES + (LONGEST_BYTES - SHORTEST_BYTES) * file / FILES
}

impl Load for Files {
    fn greet(&mut self, connection: usize, out: &mut Vec<u8>) {
        self.ask(connection, (0, false), out);
    }

    fn fill(&mut self, _: usize, _: &mut Vec<u8>) -> bool {
        false
    }

    fn request(&mut self, connection: usize, out: &mut Vec<u8>) {
        let rng = &mut self.connections[connection].0;
        let asked = (rng.usize(..FILES), rng.bool());
        self.ask(connection, asked, out);
    }

    fn answer(&mut self, connection: usize, received: &[u8]) -> Result<Option<usize>> {
        let Some((answer, length)) = http(received)? else { return Ok(None) };
        ensure!(answer.status == 200, "expected status 200, got {} with {}", answer.status, shown(&answer.body));
        let (file, is_gzip) = self.connections[connection].1;
        ensure!(answer.is_gzip == is_gzip, "expected gzip: {is_gzip}, got {}", answer.is_gzip);
        if is_gzip {
            // gzip's last field is the length of the original.
            let original = answer.body.last_chunk().map(|field| u32::from_le_bytes(*field) as usize);
            ensure!(original == Some(size(file)), "expected {} bytes, got {original:?} in gzip", size(file));
        } else {
            check("a file", &answer.body, self.texts.of(file, size(file)))?;
        }
        Ok(Some(length))
    }
}
