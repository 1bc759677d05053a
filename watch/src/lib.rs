//! What processes under Commensal say of themselves: found, read, shown and exported.
//!
//! Each of them has a statistics page (see `commensal_runtime::observe::page`), a file in its user's runtime directory. Reading one
//! copies it, and nothing else: the process is not stopped, not asked and not slowed down. What is shown and exported comes
//! from the table of figures (`commensal_runtime::observe::figures`), so that a figure that is added there appears everywhere.

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
pub mod series;
pub mod server;
pub mod text;
pub mod units;
pub mod view;
