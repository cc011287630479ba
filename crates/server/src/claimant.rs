//! The user to whom permits, memory and lanes are given: each has a share of them.

use std::sync::Arc;

/// A user. Clients without a name are one user.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Claimant {
    pub(crate) user: Option<Arc<str>>,
    pub(crate) is_admin: bool,
}
