//! The operators new and delete.
