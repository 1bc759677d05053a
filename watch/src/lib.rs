//! What processes under Commensal say of themselves: found, read, shown and exported.
//!
//! Each of them has a statistics page (see `commensal::observe::page`), a file in its user's runtime directory. Reading one copies it, and nothing else: the
//! process is not stopped, not asked and not slowed down. What is shown and exported comes from the table of figures (`commensal::observe::figures`), so
//! that a figure that is added there appears everywhere.
//!
//! | file | what |
//! |---|---|
//! | `folders` | the directories where pages may be |
//! | `page` | one page: copied as a whole, or an error that says why not |
//! | `process` | a process: its page, and what the kernel knows of it |
//! | `namespaces` | which process has which number where |
//! | `left` | pages that nobody writes any more: which stay, and what is said of those that cannot be read |
//! | `json` | everything as JSON |
//! | `text`, `units` | tables for a terminal or a file, and values as people read them |
//! | `openmetrics`, `server`, `scrape` | for programs that watch many: text in the OpenMetrics format, and a server for it over HTTP |
//! | `reference` | the reference of the book |
//! | `view` | the live view |

pub mod folders;
pub mod json;
pub mod left;
pub mod namespaces;
pub mod openmetrics;
pub mod page;
pub mod process;
pub mod reference;
#[cfg(test)]
mod sample;
mod scrape;
pub mod server;
pub mod text;
pub mod units;
pub mod view;
