//! A login that was let in: who it is, and what must stay true of it while it is open (`auth` AU5).

use super::{Role, User};

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Grant {
    name: String,
    role: Role,
    /// As it was when the login was let in; `None` for one that is trusted without being known.
    user: Option<User>,
}

impl Grant {
    /// The login of a user.
    pub(crate) fn of_user(user: &User) -> Grant {
        Grant { name: user.name.clone(), role: user.role, user: Some(user.clone()) }
    }

    /// The login of an unknown name where every name is believed: it could as well have been the
    /// administrator's.
    pub(super) fn trusted(name: &str) -> Grant {
        Grant { name: name.to_owned(), role: Role::Admin, user: None }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn role(&self) -> Role {
        self.role
    }

    /// Tells whether the user that is found now is the one that was let in.
    pub(super) fn holds(&self, find: impl FnOnce(&str) -> Option<User>) -> bool {
        self.user.as_ref().is_none_or(|user| find(&user.name).as_ref() == Some(user))
    }
}
