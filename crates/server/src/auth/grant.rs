//! A login that was let in: who it is, and what must stay true of it while it is open (`auth` AU5).

use super::{Role, User};

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Grant {
    /// As it was when the login was let in.
    user: User,
}

impl Grant {
    /// The login of a user.
    pub(crate) fn of_user(user: &User) -> Grant {
        Grant { user: user.clone() }
    }

    pub(crate) fn name(&self) -> &str {
        &self.user.name
    }

    pub(crate) fn role(&self) -> Role {
        self.user.role
    }

    /// Tells whether the user that is found now is the one that was let in.
    pub(super) fn holds(&self, find: impl FnOnce(&str) -> Option<User>) -> bool {
        find(&self.user.name).as_ref() == Some(&self.user)
    }
}
