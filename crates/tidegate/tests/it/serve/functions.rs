//! Functions and operators on edge values, compared with the databases that define them: a
//! PostgreSQL of the test's own, and DuckDB for Python, if they are installed.
//!
//! `functions/PEER.txt` has the calls, and `functions/PEER.differences.txt` the differences, with
//! the reasons. A difference that is not listed fails the test, and so does a listed one that is
//! gone: the list only shrinks. With `TIDEGATE_FUNCTIONS_COMPLETE=1` in the environment the list is
//! written anew; a difference without a reason then stands under `NEW`, and fails the test until it
//! has one.

mod calls;
mod cluster;
mod differences;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

use self::calls::{Call, calls};
use self::cluster::Cluster;
use self::differences::{Outcome, differences};
use super::server::Server;
use crate::reasons::Reasons;
use crate::world::World;

/// Statements in flight, each on a connection of its own.
const CONNECTIONS: usize = 2;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/serve/functions")
}

#[expect(clippy::print_stderr, reason = "a test that is skipped says so")]
fn skip(reason: &str) {
    eprintln!("skipped: {reason}");
}

/// Returns the outcome of a statement: its first column, a line a row, or an error.
async fn ask(client: &Client, sql: &str) -> Outcome {
    let messages = match client.simple_query(sql).await {
        Ok(messages) => messages,
        Err(error) => {
            let error = error.as_db_error().unwrap_or_else(|| panic!("{sql}: {error}"));
            // The hint about a similar name is one of several, by chance.
            let message = error.message().split(" Did you mean").next().unwrap_or_default();
            return Err(format!("{} {message}", error.code().code()));
        }
    };
    let cell = |message: &SimpleQueryMessage| match message {
        SimpleQueryMessage::Row(row) => Some(row.get(0).unwrap_or("NULL").to_owned()),
        _ => None,
    };
    Ok(messages.iter().filter_map(cell).collect::<Vec<_>>().join("\n"))
}

/// Returns the outcomes of all calls, which are run over a few connections.
async fn ask_all(config: &str, calls: &[Call]) -> Vec<Outcome> {
    let part = calls.len().div_ceil(CONNECTIONS).max(1);
    let parts = calls.chunks(part).map(|calls| async move {
        let (client, connection) = tokio_postgres::connect(config, NoTls).await.expect(config);
        let connection = tokio::spawn(async move { drop(connection.await) });
        let mut outcomes = Vec::new();
        for call in calls {
            outcomes.push(ask(&client, &call.sql).await);
        }
        connection.abort();
        outcomes
    });
    futures::future::join_all(parts).await.concat()
}

/// Returns the outcomes of Tidegate, from a server started for them.
fn ours(calls: &[Call]) -> Vec<Outcome> {
    let world = World::new();
    let server = Server::start_with(&world, &["pg.auth_methods=trust"]);
    let config = format!("host=127.0.0.1 port={} user=admin dbname=test", server.pg.port());
    let outcomes = block_on(ask_all(&config, calls));
    server.stop();
    for (call, outcome) in calls.iter().zip(&outcomes) {
        let is_panic = outcome.as_ref().is_err_and(|error| error.starts_with("XX"));
        assert!(!is_panic, "{}: {outcome:?}", call.sql);
    }
    outcomes
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(work)
}

fn check(peer: &str, calls: &[Call], theirs: &[Outcome]) {
    let found = differences(calls, theirs, &ours(calls));
    let path = folder().join(format!("{peer}.differences.txt"));
    let listed = Reasons::parse(&fs::read_to_string(&path).unwrap_or_default());
    if env::var_os("TIDEGATE_FUNCTIONS_COMPLETE").is_some_and(|value| value == "1") {
        fs::write(&path, found.with_reasons_of(&listed)).expect("the list is written");
        return;
    }
    let problems = listed.compare(&found);
    assert!(problems.is_empty(), "{}:\n{}", path.display(), problems.join("\n"));
}

#[test]
fn functions_of_postgresql_answer_as_it_does() {
    let cluster = match Cluster::start() {
        Ok(cluster) => cluster,
        Err(reason) => return skip(reason),
    };
    let calls = calls(include_str!("functions/postgres.txt"));
    let theirs = block_on(ask_all(&cluster.config(), &calls));
    check("postgres", &calls, &theirs);
}

#[test]
fn functions_of_duckdb_answer_as_it_does() {
    let home = env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let python = env::var_os("TIDEGATE_PYTHON").map(PathBuf::from);
    let python = python.unwrap_or_else(|| home.join(".cache/tidegate-peers/python/bin/python"));
    let has_it = Command::new(&python).args(["-c", "import duckdb"]).output();
    if !has_it.is_ok_and(|output| output.status.success()) {
        return skip("DuckDB for Python is not installed");
    }
    let calls = calls(include_str!("functions/duckdb.txt"));
    let world = World::new();
    let statements = calls.iter().map(|call| call.sql.replace('\n', " "));
    let file = world.file("statements.sql", statements.collect::<Vec<_>>().join("\n"));
    let program = include_str!("functions/duckdb.py");
    let mut command = Command::new(&python);
    let output = command.args(["-c", program]).arg(file).stderr(Stdio::piped()).output();
    let output = output.expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("texts");
    let outcome = |line: &str| match line.split_at(1) {
        ("!", error) => Err(error.to_owned()),
        (_, value) => Ok(value.replace("\\n", "\n").replace("\\\\", "\\")),
    };
    let theirs = text.lines().map(outcome).collect::<Vec<_>>();
    assert_eq!(theirs.len(), calls.len());
    check("duckdb", &calls, &theirs);
}
