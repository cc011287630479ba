//! One module for each fuzz target. Each has a function `check`, which takes any bytes and panics
//! if an invariant is broken.

pub(super) mod input;
pub(super) mod index;
pub(super) mod csv;
pub(super) mod cell;
pub(super) mod timestamp;
pub(crate) mod line;
pub(super) mod sniff;
pub(super) mod checksum;
pub(super) mod footer;
pub(super) mod segment;
pub(super) mod catalog;
pub(super) mod manifest;
pub(super) mod mask;
pub(crate) mod parquet;
pub(super) mod symbols;
pub(super) mod wal_group;
