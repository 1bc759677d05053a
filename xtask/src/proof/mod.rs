//! The proof: what servers and programs need under Commensal and its peers, in fresh systems of Debian.
//!
//! `measure` makes the systems and writes a file of figures for each into `docs/proof`. `results` reads them, `page` and
//! `picture` show them. Nothing there is typed by hand.

mod measure;
mod page;
mod picture;
mod results;

use std::path::Path;

pub use measure::Amount;

use crate::charts::SCHEMES;
use crate::reference::settle;

const FOLDER: &str = "docs/proof";

/// Measures in the suites, and shows what was measured. A quick measurement is a trial, of which nothing is to be
/// committed: it has a place of its own.
pub fn measure(root: &Path, suites: &[String], amount: Amount) -> Result<(), String> {
    let trial = root.join("target/proof/quick");
    let place = if amount.is_quick { &trial } else { root };
    let measured = measure::run(root, place, suites, amount);
    show(place, true).and(measured)
}

/// Compares the page and the picture with the committed ones, or writes them. The page has all suites, the picture the
/// one with the newest glibc.
pub fn show(place: &Path, bless: bool) -> Result<(), String> {
    let suites = results::read_all(&place.join(FOLDER))?;
    settle(place, "docs/proof.md", &page::page(&suites), bless, "proof")?;
    for (scheme, colours) in SCHEMES {
        let file = format!("docs/charts/servers-{scheme}.svg");
        settle(place, &file, &picture::draw(suites.last(), colours), bless, "proof")?;
    }
    println!("proof: {} shows {} suites", place.join("docs/proof.md").display(), suites.len());
    Ok(())
}
