//! PostgreSQL's protocol, as its clients use it: `peers` has the list of clients, and the programs
//! beside it have their statements.
//!
//! A test whose client is not installed says that it was skipped; docs/server.md says how to
//! install the clients.

mod peers;
mod psql;
mod tools;
mod wire;
mod views;
mod hostile;

use std::process::{Command, Stdio};

use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

use super::server::Server;
use crate::world::World;

const PASSWORD: &str = "a better one";
const SECRET: &str = "auth.admin_password=a better one";

/// Runs a future on a runtime for a client; the server has its own process.
fn block_on<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(work)
}

fn address(server: &Server) -> String {
    let (host, port) = (server.pg.ip(), server.pg.port());
    format!("host={host} port={port} user=admin password='{PASSWORD}' dbname=test")
}

async fn connect(server: &Server) -> Client {
    let (client, connection) =
        tokio_postgres::connect(&address(server), NoTls).await.expect("it connects");
    tokio::spawn(async move {
        // The connection ends at the end of the test.
        let _ = connection.await;
    });
    client
}

/// Returns rows as texts, from the simple protocol.
async fn rows(client: &Client, sql: &str) -> Vec<String> {
    let messages = client.simple_query(sql).await.expect(sql);
    let text = |message: SimpleQueryMessage| match message {
        SimpleQueryMessage::Row(row) => {
            let cells = (0..row.len()).map(|at| row.get(at).unwrap_or("NULL").to_owned());
            Some(cells.collect::<Vec<_>>().join("|"))
        }
        _ => None,
    };
    messages.into_iter().filter_map(text).collect()
}

async fn code(client: &Client, sql: &str) -> (String, Option<u32>) {
    let error = client.simple_query(sql).await.expect_err(sql);
    let error = error.as_db_error().expect("the server says so");
    let position = match error.position() {
        Some(tokio_postgres::error::ErrorPosition::Original(position)) => Some(*position),
        _ => None,
    };
    (error.code().code().to_owned(), position)
}

const TABLE: &str = "CREATE TABLE t (ts TIMESTAMP, s SYMBOL, v DOUBLE, n INT, f FLOAT, \
    l BIGINT, i TINYINT, u UBIGINT, d DECIMAL(10,3), g UUID, b BINARY, ok BOOLEAN, ip IPV4, \
    day DATE, txt VARCHAR) TIMESTAMP(ts) PARTITION BY DAY";

const ROW: &str = "INSERT INTO t VALUES ('2025-03-01T00:00:00.5Z', 'oslo', 0.1, -5, 1.5, \
    9223372036854775807, -128, 18446744073709551615, '12.500', \
    '11111111-2222-3333-4444-555555555555', NULL, true, '10.0.0.1', '2025-02-28', 'a''b')";

/// Returns the output of psql for a command, or nothing if there is no psql.
fn psql(server: &Server, commands: &[&str]) -> Option<(String, String)> {
    psql_through("prefer", server, commands)
}

fn psql_through(mode: &str, server: &Server, commands: &[&str]) -> Option<(String, String)> {
    let mut command = Command::new("psql");
    command.env("PGSSLMODE", mode);
    command.args(["-X", "-A", "-t", "-v", "ON_ERROR_STOP=1"]).env("PGPASSWORD", PASSWORD);
    command.args(["-h", "127.0.0.1", "-U", "admin", "-d", "test", "-p"]);
    command.arg(server.pg.port().to_string()).stdin(Stdio::null());
    for text in commands {
        command.args(["-c", text]);
    }
    let output = command.output().ok()?;
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Some((text(output.stdout), text(output.stderr)))
}

#[test]
fn psql_describes_what_there_is() {
    let world = World::new();
    let server = Server::start_with(&world, &[SECRET]);
    let Some((stdout, errors)) = psql(&server, &[TABLE, ROW, "SELECT s, n FROM t"]) else { return };
    assert_eq!((stdout.as_str(), errors.as_str()), ("CREATE TABLE\nINSERT 0 1\noslo|-5\n", ""));
    for (command, expected) in [
        ("\\d", "public|t|table|admin"),
        ("\\dt+", "public|t|table|admin|permanent|heap|"),
        ("\\d t", "ts|timestamp without time zone||not null|"),
        ("\\d t", "d|numeric(10,3)|||"),
        ("\\l", "test|admin|UTF8|"),
        ("\\du", "admin|Superuser"),
        ("\\dn", "public|admin"),
        ("\\df", ""),
        ("\\di", ""),
        ("\\dv", ""),
    ] {
        let (stdout, errors) = psql(&server, &[command]).expect("it is there");
        assert!(stdout.contains(expected), "{command}: {stdout}");
        assert!(!errors.contains("ERROR"), "{command}: {errors}");
    }
    server.stop();
}

#[test]
fn tls_is_spoken_where_it_is_wanted() {
    let world = World::new();
    let mut openssl = Command::new("openssl");
    openssl.args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]);
    openssl.args(["-subj", "/CN=localhost", "-keyout"]).arg(world.path("key.pem"));
    let made = openssl.arg("-out").arg(world.path("cert.pem")).output();
    if !made.is_ok_and(|output| output.status.success()) {
        return;
    }
    let path = |name: &str| world.path(name).display().to_string();
    let (cert, key) =
        (format!("tls.cert={}", path("cert.pem")), format!("tls.key={}", path("key.pem")));
    let keys = [SECRET, "tls.mode=require", &cert, &key];
    let open = Command::new("chmod").arg("644").arg(world.path("key.pem")).status();
    assert!(open.is_ok_and(|status| status.success()));
    let run = world.run(&["serve", "--set", "tls.mode=require", "--set", &cert, "--set", &key]);
    run.fails(2, &["can be read by other users"]);
    let secret = Command::new("chmod").arg("600").arg(world.path("key.pem")).status();
    assert!(secret.is_ok_and(|status| status.success()));
    let server = Server::start_with(&world, &keys);
    let Some((stdout, errors)) = psql_through("require", &server, &["SELECT 40 + 2"]) else {
        return;
    };
    assert_eq!((stdout.as_str(), errors.as_str()), ("42\n", ""));
    let (_, errors) = psql_through("disable", &server, &["SELECT 1"]).expect("it is there");
    assert!(errors.contains("connections without TLS are refused"), "{errors}");
    server.stop();
}
