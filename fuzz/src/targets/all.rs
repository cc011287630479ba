//! One module for each fuzz target. Each has a `check`, which takes any bytes and panics if a
//! promise is broken.

pub mod input;
pub mod index;
pub mod csv;
pub mod cell;
pub mod timestamp;
pub mod sniff;
pub mod checksum;
pub mod footer;
pub mod segment;
pub mod catalog;
pub mod manifest;
pub mod mask;
pub mod symbols;
pub mod wal_group;
