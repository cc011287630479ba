//! `tidegate serve`: the server on a database directory.
//!
//! - SE1. What is typed wins over the environment, and that over the defaults.
//! - SE2. A variable `TIDEGATE_...` that is no key is an error: it would have been meant to change
//!   something.
//!
//! Not here: what the keys are and what is served (`tidegate_server`).

use std::io;
use std::sync::Arc;

use tidegate_model::ByteCount;
use tidegate_query::{EngineOptions, Timeout};
use tidegate_server::config::{Config, KEYS, Source};
use tidegate_server::{Host, Log};
use tidegate_storage::Access;

use crate::args::ServeArguments;
use crate::error::{Error, Exit, Result};
use crate::session::Session;

/// What starts the names of our variables.
const PREFIX: &str = "TIDEGATE_";
/// The one that every command knows.
const DB: &str = "TIDEGATE_DB";

pub(crate) fn run(arguments: &ServeArguments, session: &Session) -> Result<Exit> {
    let environment = &session.environment;
    let config = config(arguments, &environment.variables, environment.memory)?;
    let clock = Arc::clone(&session.clock);
    let log = Arc::new(Log::new(Arc::clone(&clock), Box::new(io::stderr())));
    let queries = ByteCount(config.memory_limit.0.saturating_sub(config.ingest_limit.0));
    let threads = arguments.threads.unwrap_or(environment.cores);
    let spill_dir = session.db.join("scratch").join("query");
    let engine = EngineOptions {
        timeout: Timeout::After(config.query.timeout),
        timeout_max: Timeout::After(config.query.timeout_max),
        spill_max: config.query.spill_max,
        fill_rows_max: config.query.fill_rows_max,
        ..EngineOptions::standard(threads, queries, spill_dir)
    };
    let mut options = session.open_options();
    options.log.durability = config.durability;
    if config.read_only {
        options.access = Access::ReadOnly;
    }
    let mut open = || session.open_with(&options);
    tidegate_server::serve(config, Host { clock, log, engine, open: &mut open })?;
    Ok(Exit::Done)
}

/// The configuration (SE1).
fn config(
    arguments: &ServeArguments,
    variables: &[(String, String)],
    memory: ByteCount,
) -> Result<Config> {
    let mut config = Config::standard(memory);
    for (variable, value) in variables {
        if variable == DB || !variable.starts_with(PREFIX) {
            continue;
        }
        let key = KEYS.iter().find(|key| key.variable() == *variable);
        let key = key.ok_or_else(|| Error::Variable { variable: variable.clone() })?;
        config.set_from(key.name, value, Source::Environment)?;
    }
    for pair in &arguments.set {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        config.set(key.trim(), value.trim())?;
    }
    for (key, value) in [
        ("http.listen", &arguments.http),
        ("ilp.tcp.listen", &arguments.ilp),
        ("http.admin_listen", &arguments.admin),
        ("memory.limit", &arguments.memory),
    ] {
        if let Some(value) = value {
            config.set(key, value)?;
        }
    }
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments() -> ServeArguments {
        ServeArguments {
            http: None,
            ilp: None,
            admin: None,
            memory: None,
            threads: None,
            set: Vec::new(),
        }
    }

    #[test]
    fn what_is_typed_wins_over_the_environment() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let variables = [
            pair("TIDEGATE_HTTP_LISTEN", "127.0.0.1:1"),
            pair("TIDEGATE_ILP_TCP_COMMIT_ROWS", "7"),
            pair("TIDEGATE_DB", "d"),
            pair("PATH", "/bin"),
        ];
        let typed = ServeArguments {
            http: Some("127.0.0.1:2".to_owned()),
            set: vec!["ilp.max_columns = 5".to_owned()],
            ..arguments()
        };
        let config = config(&typed, &variables, ByteCount(1 << 30)).unwrap();
        assert_eq!(config.http.listen.unwrap().port(), 2, "SE1");
        assert_eq!((config.tcp.commit_rows, config.ilp.max_columns), (7, 5), "SE1");
    }

    #[test]
    fn a_variable_that_means_nothing_is_an_error() {
        let variables = [("TIDEGATE_HTPP_LISTEN".to_owned(), "x".to_owned())];
        let error = config(&arguments(), &variables, ByteCount(1 << 30)).unwrap_err();
        assert_eq!(error.exit(), Exit::Usage, "SE2");
        let expected = "there is no configuration key for the variable TIDEGATE_HTPP_LISTEN";
        assert_eq!(error.to_string(), expected, "SE2");
    }
}
