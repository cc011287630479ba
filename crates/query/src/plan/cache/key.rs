//! Keys of the plan cache: the text of a statement with the values of its parameters, or with their
//! types if its plan is one for any values.

use std::borrow::Cow;

use super::super::parameters::Parameter;

/// Separates the parts of a key: no statement contains it.
const SEPARATOR: char = '\0';

/// A statement as the plan cache is asked for it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PlanKey<'s> {
    pub(crate) sql: &'s str,
    pub(crate) parameters: &'s [Parameter],
}

impl<'s> PlanKey<'s> {
    /// Returns true if the statement can have a cached plan.
    pub(super) fn is_valid(self) -> bool {
        !self.sql.contains(SEPARATOR)
    }

    /// Returns the key of the plan for these values of parameters.
    pub(super) fn of_values(self) -> Cow<'s, str> {
        if self.parameters.is_empty() {
            return Cow::Borrowed(self.sql);
        }
        let mut key = self.sql.to_owned();
        for parameter in self.parameters {
            key.push(SEPARATOR);
            key.push_str(&parameter.to_string());
        }
        Cow::Owned(key)
    }

    /// Returns the key of the plan for any values of parameters of these types.
    pub(super) fn of_types(self) -> String {
        let mut key = format!("{}{SEPARATOR}{SEPARATOR}", self.sql);
        for parameter in self.parameters {
            key.push_str(parameter.kind());
            key.push(' ');
        }
        key
    }
}
