//! Operators around those of DataFusion that account for their memory.

pub(crate) mod unary;
pub(crate) mod copied;
pub(crate) mod windows;
