//! Who gives statements, and what he has set for those that follow.
//!
//! - SE1. A session is what its owner keeps: an engine forgets it with the statement. Statements
//!   without one have a new one each.
//!
//! Which settings there are, and which values they take, is in `settings`.

mod settings;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::control::Timeout;

pub(crate) use settings::{SERVER_VERSION, all_settings, reset, set, shown};

/// Where statements come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// How they come: `http`, or `embedded`.
    pub protocol: &'static str,
    /// From which address.
    pub peer: Option<String>,
    /// Who says so, if anybody was asked.
    pub user: Option<String>,
    /// Whose statements he may see and end.
    pub reach: Reach,
}

/// Whose statements somebody may see and end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Those of the same user.
    Own,
    /// Everybody's: an administrator.
    All,
}

impl Origin {
    /// The program that the engine is a part of.
    pub const EMBEDDED: Origin =
        Origin { protocol: "embedded", peer: None, user: None, reach: Reach::All };
}

/// What is the same from one statement to the next (SE1). Clones are the same session.
#[derive(Clone, Debug)]
pub struct Session(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    origin: Origin,
    /// What was set, by names as `settings` has them.
    values: Mutex<BTreeMap<String, String>>,
}

impl Session {
    /// A session in which nothing is set.
    #[must_use]
    pub fn new(origin: Origin) -> Session {
        Session(Arc::new(Inner { origin, values: Mutex::default() }))
    }

    /// Where it comes from.
    #[must_use]
    pub fn origin(&self) -> &Origin {
        &self.0.origin
    }

    /// Whether it may see and end what another one does.
    #[must_use]
    pub fn reaches(&self, other: &Session) -> bool {
        let is_same = Arc::ptr_eq(&self.0, &other.0);
        let user = self.0.origin.user.as_ref();
        is_same
            || self.0.origin.reach == Reach::All
            || user.is_some() && user == other.0.origin.user.as_ref()
    }

    /// What `SET statement_timeout` has said.
    pub(crate) fn timeout(&self) -> Option<Timeout> {
        settings::timeout(&self.values())
    }

    /// Whether it wants to change nothing.
    pub(crate) fn is_read_only(&self) -> bool {
        settings::is_read_only(&self.values())
    }

    fn values(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        // Only whole values are put in.
        self.0.values.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Session {
    fn default() -> Session {
        Session::new(Origin::EMBEDDED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_reach_their_own_statements_and_administrators_all() {
        let session = |user: Option<&str>, reach| {
            let user = user.map(str::to_owned);
            Session::new(Origin { user, reach, ..Origin::EMBEDDED })
        };
        let (ann, again) = (session(Some("ann"), Reach::Own), session(Some("ann"), Reach::Own));
        let (bob, nobody) = (session(Some("bob"), Reach::Own), session(None, Reach::Own));
        assert!(ann.reaches(&again) && !ann.reaches(&bob) && !ann.reaches(&nobody));
        assert!(nobody.reaches(&nobody.clone()) && !nobody.reaches(&session(None, Reach::Own)));
        assert!(session(Some("root"), Reach::All).reaches(&nobody));
    }
}
