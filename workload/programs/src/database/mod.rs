//! An embedded database and an application that uses it: statements, trees and results come and go between pages that
//! stay.
//!
//! ```text
//!   shop ── text ─▶ token ─▶ parse ─▶ statement ─▶ execute, evaluate ─▶ table ─▶ tree ─▶ page
//!        ◀──────────────── rows ──────────────────
//! ```
//!
//! Tables and their indexes are B+ trees of pages, which hold rows as bytes; a row that is looked at becomes a vector
//! of values. Every statement is parsed anew. It stands for sqlite. glibc's malloc and free take a quarter of its time.

mod evaluate;
mod execute;
mod page;
mod parse;
mod shop;
mod statement;
mod table;
mod token;
mod tree;
mod value;

use crate::scale::Scale;

const STEPS: u64 = 22_000;

/// Runs it: the results of all statements.
pub fn run(scale: Scale) -> u64 {
    let mut shop = shop::Shop::new();
    for _ in 0..scale.of(STEPS) {
        shop.step();
    }
    shop.sum()
}
