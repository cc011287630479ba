//! `tidegate user`: the users of the server on this directory, their roles and their tokens.
//!
//! It changes only `conf/users.toml`, with the server running or not: a running server notices. Not
//! here: the file (`tidegate_server`), and the input of a password (`password`).

pub(crate) mod password;

use std::path::PathBuf;

use tidegate_model::time::IsoTimestamp;
use tidegate_model::{TimeUnit, Timestamp};
use tidegate_query::Role;
use tidegate_server::{UserFile, UserFileError};

use crate::args::{ConfigArguments, TokenCommand, UserCommand, UserTokenArguments};
use crate::config;
use crate::error::{Error, Exit, Result};
use crate::inspect::{self, texts};
use crate::output::Format;
use crate::session::Session;
use crate::tell;

const SECOND_MICROS: i64 = 1_000_000;

pub(crate) fn run(command: &UserCommand, session: &Session) -> Result<Exit> {
    match command {
        UserCommand::Add { name, role } => {
            refuse_configured(name, session)?;
            let password = password::read_new_password(session)?;
            change(session, |file| file.add_user(name, *role, &password))?;
        }
        UserCommand::Passwd { name } => {
            refuse_configured(name, session)?;
            let password = password::read_new_password(session)?;
            change(session, |file| file.set_password(name, &password))?;
        }
        UserCommand::Remove { name } => change(session, |file| file.remove_user(name))?,
        UserCommand::List(arguments) => return list(arguments.format, session),
        UserCommand::Token(arguments) => return token(arguments, session),
    }
    Ok(Exit::Done)
}

fn path(session: &Session) -> PathBuf {
    session.db.join("conf").join("users.toml")
}

fn change<T>(
    session: &Session,
    change: impl FnOnce(&mut UserFile) -> std::result::Result<T, UserFileError>,
) -> Result<T> {
    Ok(UserFile::change(session.disk.as_ref(), &path(session), change)?)
}

/// Returns the users of the configuration with their roles.
fn configured(session: &Session) -> Result<Vec<(String, Role)>> {
    let auth = config::read(&ConfigArguments::default(), session)?.auth;
    let reader = auth.readonly_enabled.then_some((auth.readonly_user, Role::Reader));
    Ok([(auth.admin_user, Role::Admin)].into_iter().chain(reader).collect())
}

/// Refuses a user of the configuration, whose password is set there.
fn refuse_configured(name: &str, session: &Session) -> Result<()> {
    match configured(session)?.iter().any(|(known, _)| known == name) {
        true => Err(Error::ConfiguredUser { name: name.to_owned() }),
        false => Ok(()),
    }
}

fn list(format: Format, session: &Session) -> Result<Exit> {
    let file = UserFile::read(session.disk.as_ref(), &path(session))?;
    let configured = configured(session)?.into_iter();
    let mut users =
        configured.map(|(name, role)| (name, role, "configuration")).collect::<Vec<_>>();
    for user in file.users() {
        if users.iter().all(|(name, ..)| *name != user.name) {
            users.push((user.name.clone(), user.role, "users.toml"));
        }
    }
    let columns = [
        ("user", texts(users.iter().map(|(name, ..)| Some(name.clone())))),
        ("role", texts(users.iter().map(|(_, role, _)| Some(role.name().to_owned())))),
        ("place", texts(users.iter().map(|(.., place)| Some((*place).to_owned())))),
    ];
    inspect::show_columns(&columns, format, session)
}

fn token(arguments: &UserTokenArguments, session: &Session) -> Result<Exit> {
    match (&arguments.command, &arguments.name) {
        (Some(TokenCommand::List(list)), _) => return tokens(list.format, session),
        (Some(TokenCommand::Revoke { id }), _) => change(session, |file| file.remove_token(id))?,
        (None, Some(name)) => return new_token(name, arguments, session),
        (None, None) => return Err(Error::TokenOfNobody),
    }
    Ok(Exit::Done)
}

/// Creates a token and writes it, alone, to standard output.
fn new_token(name: &str, arguments: &UserTokenArguments, session: &Session) -> Result<Exit> {
    let now = session.clock.now_micros().div_euclid(SECOND_MICROS);
    let expires = arguments.expires.map(|seconds| now.saturating_add(seconds));
    let is_configured = configured(session)?.iter().any(|(known, _)| known == name);
    let token = change(session, |file| {
        if !is_configured && file.users().iter().all(|user| user.name != *name) {
            return Err(UserFileError::NoSuchUser { name: name.to_owned() });
        }
        file.add_token(name, expires)
    })?;
    if session.environment.stdout_is_terminal {
        tell("The token is shown only once:");
    }
    inspect::show_line(&token)
}

fn tokens(format: Format, session: &Session) -> Result<Exit> {
    let file = UserFile::read(session.disk.as_ref(), &path(session))?;
    let now = session.clock.now_micros().div_euclid(SECOND_MICROS);
    let expires = |end: i64| {
        let end = Timestamp(end.saturating_mul(SECOND_MICROS));
        IsoTimestamp(end, TimeUnit::Micros).to_string()
    };
    let state = |end: Option<i64>| match end {
        Some(end) if end <= now => "expired",
        _ => "valid",
    };
    let tokens = || file.tokens().iter();
    let columns = [
        ("id", texts(tokens().map(|token| Some(token.id.clone())))),
        ("user", texts(tokens().map(|token| Some(token.user.clone())))),
        ("expires", texts(tokens().map(|token| token.expires.map(expires)))),
        ("state", texts(tokens().map(|token| Some(state(token.expires).to_owned())))),
    ];
    inspect::show_columns(&columns, format, session)
}
