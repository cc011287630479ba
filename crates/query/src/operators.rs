//! Operators around those of DataFusion that account for their memory.

pub(crate) mod pass_through;
pub(crate) mod copied;
pub(crate) mod windows;
