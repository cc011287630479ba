//! Commits: requests, their plan without I/O, the group that shares a sync, and syncs of the log.

pub(crate) mod ddl;
pub(crate) mod request;
pub(crate) mod plan;
pub(crate) mod group;
pub(crate) mod pending;
