//! Deletion of rows: deletion vectors of segments, rows of memtables, whole partitions.

pub(crate) mod vectors;
pub(crate) mod apply;
pub(crate) mod partitions;
