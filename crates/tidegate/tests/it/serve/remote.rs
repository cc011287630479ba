//! `tidegate sql --url`: a server gives the same results as the database opened locally.

use std::fs;
use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use arrow::ipc::reader::FileReader;

use super::server::Server;
use crate::world::{Run, World, signal, wait_until};

const PASSWORD: &str = "a better one";
const SECRET: &str = "auth.admin_password=a better one";

const TABLE: &str = "CREATE TABLE t (ts TIMESTAMP, ok BOOLEAN, i1 TINYINT, i2 SMALLINT, i4 INT, \
    i8 BIGINT, u1 UTINYINT, u2 USMALLINT, u4 UINT, u8 UBIGINT, f4 FLOAT, f8 DOUBLE, \
    d DECIMAL(10,3), wide DECIMAL(38,2), day DATE, s SYMBOL, txt VARCHAR, b BINARY, g UUID, \
    ip IPV4, ns TIMESTAMP_NS) TIMESTAMP(ts) PARTITION BY DAY";
const ROWS: &str = "INSERT INTO t VALUES \
    ('1969-12-31T23:59:59.999999Z', true, -128, -32768, -2147483648, -9223372036854775807, 0, 0, \
     0, 0, -1.5, 0.1, '-0.001', '-0.01', '1900-01-01', 'oslo', 'a,\"b\"', '\\x00ff', \
     '11111111-2222-3333-4444-555555555555', '10.0.0.1', '2025-03-01T00:00:00.123456789Z'), \
    ('2025-03-01T00:00:00.5Z', false, 127, 32767, 2147483647, 9223372036854775807, 255, 65535, \
     4294967295, 18446744073709551615, 1e30, 1e-300, '1234567.891', \
     '123456789012345678901234567890123456.78', '2025-02-28', '', '', '\\x', \
     'ffffffff-ffff-ffff-ffff-ffffffffffff', '255.255.255.255', NULL), \
    ('2025-03-02T00:00:00Z', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, \
     NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)";
/// Query of all columns whose type PostgreSQL has too, with the same values.
const SAME: &str = "SELECT ts, ok, i1, i2, i4, i8, u1, u2, u4, f4, f8, d, wide, day, s, txt, b, \
    g, ip FROM t";
const MORE: &str = "SELECT array_agg(x) AS all, count(*), sum(x) / 4.0 AS mean, NULL AS nothing, \
    'NaN'::DOUBLE AS nan, '1 day'::INTERVAL AS span FROM long_sequence(3)";

fn url(server: &Server, more: &str) -> String {
    format!("postgres://admin@{}/any{more}", server.pg)
}

fn command(world: &World, server: &Server, arguments: &[&str]) -> Command {
    let url = url(server, "");
    let mut command = world.command(&[&["sql", "--url", &url], arguments].concat());
    command.env("PGPASSWORD", PASSWORD);
    command
}

fn run(world: &World, server: &Server, arguments: &[&str]) -> Run {
    Run::of(command(world, server, arguments).output().expect("runs"))
}

/// Returns a world with a row of every type.
fn world() -> World {
    let world = World::new();
    world.run(&["sql", &format!("{TABLE}; {ROWS}")]).succeeds();
    world
}

#[test]
fn every_form_has_the_rows_of_the_database() {
    let world = world();
    let forms = ["table", "csv", "json", "ndjson"];
    let ask = |ask: &dyn Fn(&[&str]) -> Run| {
        let mut stdout = Vec::new();
        for form in forms {
            for sql in [SAME, MORE] {
                stdout.push(ask(&[sql, "--format", form]).succeeds());
            }
        }
        stdout.push(ask(&["SELECT u8, ns FROM t WHERE ns IS NULL", "--format", "csv"]).succeeds());
        stdout
    };
    let local = ask(&|arguments| world.run(&[&["sql"], arguments].concat()));
    let server = Server::start_with(&world, &[SECRET]);
    let remote = ask(&|arguments| run(&world, &server, arguments));
    let without_times = |stdout: &str| {
        stdout.lines().filter(|line| !line.ends_with(" ms)")).collect::<Vec<_>>().join("\n")
    };
    for (local, remote) in local.iter().zip(&remote) {
        assert_eq!(without_times(remote), without_times(local));
    }
    // PostgreSQL has only microseconds, and no unsigned integer of 64 bits.
    let sql = "SELECT ns, u8 FROM t WHERE ns IS NOT NULL";
    let stdout = run(&world, &server, &[sql, "--format", "json"]).succeeds();
    assert!(
        stdout.contains("\"2025-03-01T00:00:00.123456Z\"") && stdout.contains("\"0\""),
        "{stdout}"
    );
    server.stop();
}

#[test]
fn files_have_the_values_of_the_database() {
    let world = world();
    let no_addresses = SAME.replace(", ip", "");
    world.run(&["sql", &no_addresses, "--format", "arrow", "--output", "local.arrow"]).succeeds();
    let local = world.ask("SELECT * EXCEPT (u8, ip, ns) FROM t");
    let server = Server::start_with(&world, &[SECRET]);
    for (form, file) in [("arrow", "remote.arrow"), ("parquet", "remote.parquet")] {
        run(&world, &server, &[&no_addresses, "--format", form, "--output", file]).succeeds();
    }
    let streamed = command(&world, &server, &[SAME, "--format", "arrow"]).output().unwrap();
    assert!(streamed.status.success() && !streamed.stdout.is_empty());
    server.stop();
    assert_eq!(values(&world, "remote.arrow"), values(&world, "local.arrow"));
    let types = "CREATE TABLE r (ts TIMESTAMP, ok BOOLEAN, i1 TINYINT, i2 SMALLINT, i4 INT, \
        i8 BIGINT, u1 UTINYINT, u2 USMALLINT, u4 UINT, f4 FLOAT, f8 DOUBLE, d DECIMAL(10,3), \
        wide DECIMAL(38,2), day DATE, s SYMBOL, txt VARCHAR, b BINARY, g UUID) \
        TIMESTAMP(ts) PARTITION BY DAY";
    world.run(&["sql", types]).succeeds();
    world.run(&["import", "remote.parquet", "--table", "r", "--on-error", "abort"]).succeeds();
    assert_eq!(world.ask("SELECT * FROM r"), local);
}

/// Returns the values of an Arrow file as texts, row by row.
fn values(world: &World, file: &str) -> Vec<Vec<Option<String>>> {
    let file = fs::File::open(world.path(file)).expect("it was written");
    let batches: Vec<RecordBatch> =
        FileReader::try_new(file, None).expect("Arrow").map(|it| it.expect("a batch")).collect();
    let mut rows = Vec::new();
    for batch in &batches {
        let columns = batch.columns().iter().map(|it| match it.data_type() {
            // Binary values stay bytes.
            DataType::Binary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
                cast(it, &DataType::LargeBinary).expect("bytes")
            }
            DataType::UInt32 => cast(it, &DataType::Int64).expect("an integer"),
            _ => cast(it, &DataType::LargeUtf8).expect("a text"),
        });
        let columns: Vec<_> = columns.collect();
        for row in 0..batch.num_rows() {
            rows.push(columns.iter().map(|it| value(it.as_ref(), row)).collect());
        }
    }
    rows
}

fn value(array: &dyn Array, row: usize) -> Option<String> {
    let is_there = !array.is_null(row);
    is_there.then(|| match array.data_type() {
        DataType::LargeBinary => format!("{:?}", array.as_binary::<i64>().value(row)),
        DataType::Int64 => {
            array.as_primitive::<arrow::datatypes::Int64Type>().value(row).to_string()
        }
        _ => array.as_string::<i64>().value(row).to_owned(),
    })
}

#[test]
fn changes_notices_and_errors_are_said_in_the_same_words() {
    let world = World::new();
    let script = "CREATE TABLE n (ts TIMESTAMP, v INT) TIMESTAMP(ts);\n\
                  INSERT INTO n VALUES ('2025-01-01', 1), ('2025-01-02', 2);\n\
                  UPDATE n SET v = 3 WHERE v = 2; SET statement_timeout = 1000;\n\
                  SELECT v FROM n WHERE v <> NULL;\n\
                  DELETE FROM n WHERE v = 1; ALTER TABLE n ADD COLUMN w INT;\n\
                  DROP TABLE n;";
    world.file("script.sql", script);
    world.file("wrong.sql", "SELECT 1;\n  SELECT '\u{e4}', nope\nFROM long_sequence(1)");
    let statements = [
        &["selec 1"][..],
        &["SELECT 1;\n  SELECT '\u{e4}', nope(1)"],
        &["SELECT * FROM nope"],
        &["SELECT 1/0"],
        &["-f", "wrong.sql", "--format", "csv"],
        &["SET nope = 1"],
        &["SELECT $1 + 1"],
    ];
    let without_times = |stdout: &str| {
        stdout.lines().filter(|it| !it.contains(" ms)")).collect::<Vec<_>>().join("\n")
    };
    let local = world.run(&["sql", "-f", "script.sql"]);
    let wrong = statements.map(|it| world.run(&[&["sql"], it].concat()));
    let server = Server::start_with(&world, &[SECRET]);
    let remote = run(&world, &server, &["-f", "script.sql"]);
    let stderr = local.stderr.trim_start_matches("tidegate: sql: made a new database in db\n");
    assert_eq!((local.code, remote.code, &*remote.stderr), (Some(0), Some(0), stderr));
    assert_eq!(without_times(&remote.stdout), without_times(&local.stdout));
    for (statement, local) in statements.iter().zip(wrong) {
        let remote = run(&world, &server, statement);
        assert_eq!((remote.code, remote.stderr), (local.code, local.stderr), "{statement:?}");
        assert_eq!(without_times(&remote.stdout), without_times(&local.stdout), "{statement:?}");
    }
    run(&world, &server, &["COPY nope FROM STDIN"]).fails(1, &["COPY FROM STDIN", "psql"]);
    server.stop();
}

#[test]
fn rows_are_streamed_measured_and_limited_in_time() {
    let world = World::new();
    let server = Server::start_with(&world, &[SECRET]);
    let many = "SELECT x FROM long_sequence(100000)";
    let stdout = run(&world, &server, &[many, "--format", "csv"]).succeeds();
    assert_eq!(stdout.lines().count(), 100_001);
    assert!(stdout.ends_with("\n100000\n"));
    let stdout = run(&world, &server, &[many, "--repeat", "3", "--timings"]).succeeds();
    assert!(
        stdout.ends_with("],\"rows\":100000}\n") && stdout.matches(',').count() == 3,
        "{stdout}"
    );
    let long = "SELECT count(*) FROM long_sequence(1000000000000) WHERE x % 7 = 8";
    run(&world, &server, &[long, "--timeout", "50ms"])
        .fails(1, &["sql: ", "timed out", "timeout=50ms"]);
    let empty = run(&world, &server, &["SELECT x FROM long_sequence(0)", "--format", "csv"]);
    assert_eq!(empty.succeeds(), "x\n");
    server.stop();
}

#[test]
fn an_interrupt_ends_the_statement_at_the_server() {
    let world = World::new();
    let server = Server::start_with(&world, &[SECRET, "http.auth=off"]);
    let long = "SELECT count(*) FROM long_sequence(1000000000000) WHERE x % 7 = 8";
    let mut child = command(&world, &server, &[long]);
    let mut child = child.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("runs");
    let works = "SELECT count(*) FROM query_activity() WHERE query LIKE '%7 = 8' \
                 AND state <> 'cancelled'";
    wait_until("the statement", || server.rows(works) == "[[1]]");
    signal(&child, "-INT");
    assert_eq!(child.wait().expect("ends").code(), Some(130), "sql_remote-1");
    wait_until("its end", || server.rows(works) == "[[0]]");
    server.stop();
}

#[test]
fn passwords_are_checked_and_never_shown() {
    let world = World::new();
    let server = Server::start_with(&world, &[SECRET]);
    let ask = |url: &str, variable: Option<&str>| {
        let mut command = world.command(&["sql", "--url", url, "SELECT 42", "--format", "csv"]);
        command.envs(variable.map(|it| ("PGPASSWORD", it)));
        Run::of(command.output().expect("runs"))
    };
    let good = format!("postgres://admin:a%20better%20one@{}", server.pg);
    assert_eq!(ask(&good, None).succeeds().lines().last(), Some("42"));
    let bad = ask(&url(&server, ""), Some("a wrong secret"));
    assert!(!bad.stderr.contains("secret"), "sql_remote-2: {}", bad.stderr);
    bad.fails(1, &["connect to 127.0.0.1:", "password"]);
    let bad = ask(&format!("postgres://admin:wrong%40@{}", server.pg), None);
    assert!(!bad.stderr.contains("wrong"), "sql_remote-2: {}", bad.stderr);
    bad.fails(1, &["connect to 127.0.0.1:"]);
    ask(&url(&server, ""), None).fails(1, &["asks for a password", "PGPASSWORD"]);
    ask("postgres://admin:secret@:x", None).fails(2, &["the address of a server is"]);
    ask("postgres://admin@127.0.0.1:1", None).fails(1, &["connect to 127.0.0.1:1: "]);
    run(&world, &server, &["SELECT 1", "--threads", "2"]).fails(2, &["--threads"]);
    world.run(&["sql", "SELECT 1"]).fails(3, &["in use by another process", "--url postgres://"]);
    // Without --db, the environment names the server.
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.args(["sql", "SELECT 42", "--format", "csv"]).current_dir(world.path(""));
    command.env_clear().env("TIDEGATE_URL", &good).stdin(Stdio::null());
    assert_eq!(Run::of(command.output().expect("runs")).succeeds().lines().last(), Some("42"));
    server.stop();
}

#[test]
fn a_prompt_asks_for_the_password_and_then_the_server() {
    let world = World::new();
    let server = Server::start_with(&world, &[SECRET, "http.auth=off"]);
    let table = "CREATE TABLE first_of_all (ts TIMESTAMP, value_of_it INT) TIMESTAMP(ts)";
    run(&world, &server, &[table]).succeeds();
    let arguments = format!("sql --url '{}'", url(&server, ""));
    let mut command = world.command_on_terminal(&arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("runs");
    let mut keys = child.stdin.take().expect("a pipe");
    let screen = Arc::new(Mutex::new(String::new()));
    let mut output = child.stdout.take().expect("a pipe");
    let shown = Arc::clone(&screen);
    let reader = thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = output.read(&mut bytes) {
            shown.lock().unwrap().push_str(&String::from_utf8_lossy(&bytes[..count]));
        }
    });
    let wait_for = |text: &str| wait_until(text, || screen.lock().unwrap().contains(text));
    let mut type_in = |text: &str| keys.write_all(text.as_bytes()).expect("typed");
    wait_for("Password: ");
    type_in(&format!("{PASSWORD}\r"));
    wait_for(&format!("server {}", server.pg));
    type_in("\\dt\r");
    wait_for("first_of_all");
    type_in("\\d first_of_all\r");
    wait_for("value_of_it");
    type_in("SELECT nope;\r");
    wait_for("line 1, column 8: column `nope`");
    type_in("SELECT count(*) FROM long_sequence(1000000000000) WHERE x % 7 = 8;\r");
    let works = "SELECT count(*) FROM query_activity() WHERE query LIKE '%7 = 8' \
                 AND state <> 'cancelled'";
    wait_until("the statement", || server.rows(works) == "[[1]]");
    type_in("\u{3}");
    wait_for("interrupted");
    assert_eq!(server.rows(works), "[[0]]", "sql_remote-1");
    // No port has so many digits: `42` may stand in the address that was shown.
    type_in("SELECT 1234000 + 567;\r");
    wait_for("1234567");
    // Completion offers the columns of the server.
    type_in("SELECT value_o\t FROM first_of_all;\r");
    wait_for("(0 rows");
    type_in("\\q\r");
    assert_eq!(child.wait().expect("ends").code(), Some(0));
    reader.join().expect("the reader ends");
    assert!(!screen.lock().unwrap().contains(PASSWORD), "sql_remote-2");
    server.stop();
}

#[test]
fn a_client_accepts_only_known_certificates() {
    let world = World::new();
    if !make_certificate(&world, "server") || !make_certificate(&world, "other") {
        return;
    }
    let path = |name: &str| world.path(name).display().to_string();
    let (cert, key) = (path("server.pem"), path("server.key"));
    let keys = [SECRET, "tls.mode=require", &format!("tls.cert={cert}"), &format!("tls.key={key}")];
    let server = Server::start_with(&world, &keys);
    let ask = |more: &str| {
        let url = url(&server, more);
        let mut command = world.command(&["sql", "--url", &url, "SELECT 42", "--format", "csv"]);
        Run::of(command.env("PGPASSWORD", PASSWORD).output().expect("runs"))
    };
    let root = |name: &str| format!("?sslmode=verify-full&sslrootcert={}", path(name));
    for more in ["", "?sslmode=require", &root("server.pem")] {
        assert_eq!(ask(more).succeeds(), "42\n42\n", "{more}");
    }
    ask("?sslmode=disable").fails(1, &["connect to"]);
    ask(&root("other.pem")).fails(1, &["connect to", "certificate"]);
    ask(&root("nothing.pem")).fails(1, &["certificates", "nothing.pem"]);
    server.stop();
}

/// Creates a certificate; returns false if there is no program for that.
fn make_certificate(world: &World, name: &str) -> bool {
    let mut openssl = Command::new("openssl");
    openssl.args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=x"]);
    openssl.args(["-addext", "subjectAltName=IP:127.0.0.1"]);
    openssl.args(["-addext", "basicConstraints=critical,CA:FALSE"]);
    openssl.arg("-keyout").arg(world.path(&format!("{name}.key")));
    let made = openssl.arg("-out").arg(world.path(&format!("{name}.pem"))).output();
    let is_made = made.is_ok_and(|output| output.status.success());
    if is_made {
        let key = world.path(&format!("{name}.key"));
        let secret = Command::new("chmod").arg("600").arg(key).status();
        assert!(secret.is_ok_and(|status| status.success()));
    }
    is_made
}
