//! The roles of users. Not here: their privileges (`authorization`).

/// The role of a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// May do everything, and see and cancel the statements of others.
    Admin,
    /// May add, change and remove rows; lines and files that it sends create tables and columns.
    Writer,
    /// May only read.
    Reader,
}

impl Role {
    /// All roles.
    pub const ALL: [Role; 3] = [Role::Admin, Role::Writer, Role::Reader];

    /// Returns its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Role::Admin => "admin",
            Role::Writer => "writer",
            Role::Reader => "reader",
        }
    }

    /// Returns the role of this name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Role> {
        Role::ALL.into_iter().find(|role| role.name() == name)
    }
}
