//! A granted login: its user, and the condition under which it stays valid (auth-5).

use super::{Role, User};

/// A login and the user that it was granted to.
#[derive(Clone, Debug)]
pub(crate) struct Grant {
    /// The user at the time of the login.
    user: User,
}

impl Grant {
    /// Makes the login of a user.
    pub(crate) fn of_user(user: &User) -> Grant {
        Grant { user: user.clone() }
    }

    pub(crate) fn name(&self) -> &str {
        &self.user.name
    }

    pub(crate) fn role(&self) -> Role {
        self.user.role
    }

    /// Returns true if the user that is found now equals the one that logged in.
    pub(super) fn holds(&self, find: impl FnOnce(&str) -> Option<User>) -> bool {
        find(&self.user.name).as_ref() == Some(&self.user)
    }
}
