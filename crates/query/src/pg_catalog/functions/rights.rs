//! Functions that tell the privileges of a user: `has_table_privilege` and the like.

use datafusion::common::{Result, ScalarValue, plan_err};

use super::super::objects::{self, SeenTables, owner};
use super::{Call, find_table, flag};
use crate::role::Role;

/// `has_table_privilege([user,] table, privileges)`.
pub(super) fn table_right(call: &Call<'_>) -> Result<ScalarValue> {
    right(call, call.args.len().saturating_sub(2), call.args.len().checked_sub(1))
}

/// `has_column_privilege([user,] table, column, privileges)`.
pub(super) fn column_right(call: &Call<'_>) -> Result<ScalarValue> {
    right(call, call.args.len().saturating_sub(3), call.args.len().checked_sub(1))
}

/// True if the user has one of the privileges on a table. Without a name or a privilege the result
/// is NULL. The user argument is ignored: the role is that of the session.
fn right(call: &Call<'_>, table: usize, privileges: Option<usize>) -> Result<ScalarValue> {
    let name = call.text(table);
    let (Some(name), Some(privileges)) = (name, privileges.and_then(|at| call.text(at))) else {
        return Ok(ScalarValue::Boolean(None));
    };
    let found = match call.oid(table) {
        Some(oid) => objects::table(&SeenTables::of(call.caller), oid)?,
        None => find_table(call.caller, &name)?,
    };
    let of_system = match found {
        Some(table) => table.schema == "sys",
        // A table that is not found is a relation of the catalog.
        None => true,
    };
    let session = &call.caller.session;
    let (role, only_reads) = (session.origin().role, session.only_reads());
    let may = |privilege: &str| -> Result<bool> {
        let privilege = privilege.trim().to_ascii_uppercase();
        let privilege = privilege.strip_suffix(" WITH GRANT OPTION").unwrap_or(&privilege);
        Ok(match privilege {
            "SELECT" => true,
            "INSERT" | "UPDATE" => !only_reads && !of_system && role != Role::Reader,
            "DELETE" => {
                !only_reads
                    && match of_system {
                        true => role == Role::Admin,
                        false => role != Role::Reader,
                    }
            }
            "TRUNCATE" | "REFERENCES" | "TRIGGER" | "MAINTAIN" => {
                !only_reads && role == Role::Admin
            }
            _ => return plan_err!("unrecognized privilege type: \"{privilege}\""),
        })
    };
    let mut any = false;
    for privilege in privileges.split(',') {
        any |= may(privilege)?;
    }
    flag(any)
}

/// `pg_has_role([user,] role, privileges)`: administrators are members of all roles, as superusers
/// of PostgreSQL are, and other users of the one with their name. The roles of other users are not
/// shown: each counts as a member of the one with its name.
pub(super) fn role_right(call: &Call<'_>) -> Result<ScalarValue> {
    let asked = (0..call.args.len()).map(|at| call.text(at)).collect::<Option<Vec<_>>>();
    let (user, role, privileges) = match asked.as_deref() {
        Some([role, privileges]) => (None, role, privileges),
        Some([user, role, privileges]) => (Some(user), role, privileges),
        _ => return Ok(ScalarValue::Boolean(None)),
    };
    let (own, own_oid) = (owner(call.caller), objects::OWNER.to_string());
    let is_own = |name: &String| *name == own || *name == own_oid;
    let is_asker = user.is_none_or(is_own);
    let is_admin = is_asker && call.caller.session.origin().role == Role::Admin;
    let is_member = if is_asker { is_admin || is_own(role) } else { user == Some(role) };
    let may = |privilege: &str| -> Result<bool> {
        let privilege = privilege.trim().to_ascii_uppercase();
        let grantable = [" WITH GRANT OPTION", " WITH ADMIN OPTION"];
        let plain = grantable.iter().find_map(|option| privilege.strip_suffix(*option));
        match plain.unwrap_or(&privilege) {
            "USAGE" | "MEMBER" | "SET" => Ok(is_admin || is_member && plain.is_none()),
            _ => plan_err!("unrecognized privilege type: \"{privilege}\""),
        }
    };
    let mut any = false;
    for privilege in privileges.split(',') {
        any |= may(privilege)?;
    }
    flag(any)
}

/// `has_schema_privilege(.., privileges)`, also for databases: only administrators create tables.
pub(super) fn schema_right(call: &Call<'_>) -> Result<ScalarValue> {
    let Some(privileges) = call.args.len().checked_sub(1).and_then(|at| call.text(at)) else {
        return Ok(ScalarValue::Boolean(None));
    };
    let session = &call.caller.session;
    let defines = !session.only_reads() && session.origin().role == Role::Admin;
    let may = |privilege: &str| {
        let privilege = privilege.trim().to_ascii_uppercase();
        match privilege.strip_suffix(" WITH GRANT OPTION").unwrap_or(&privilege) {
            "USAGE" | "CONNECT" => true,
            _ => defines,
        }
    };
    flag(privileges.split(',').any(may))
}
