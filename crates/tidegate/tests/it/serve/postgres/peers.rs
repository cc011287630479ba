//! Unmodified third-party clients: psycopg, psycopg2, asyncpg and SQLAlchemy for Python, pgjdbc for
//! Java, node-postgres, and pgx for Go, if they are installed; and tools built on such clients:
//! ADBC with polars and connectorx, ibis, dlt, dbt, Django and psqlODBC.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::super::server::Server;
use super::{PASSWORD, SECRET};
use crate::world::World;

/// The table that all the programs write and read.
const TABLE: &str = "CREATE TABLE t (ts TIMESTAMP, s SYMBOL, v DOUBLE, n INT, d DECIMAL(10,3), \
    g UUID, b BINARY, ok BOOLEAN, day DATE) TIMESTAMP(ts) PARTITION BY DAY";

fn peers() -> PathBuf {
    let home = env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    home.join(".cache/tidegate-peers")
}

#[expect(clippy::print_stderr, reason = "a test that is skipped says so")]
fn skip(what: &str) {
    eprintln!("skipped: {what} is not installed");
}

/// Starts a server with the table, runs the program with its port and its password, and expects
/// `done` as the output.
#[track_caller]
fn run(name: &str, command: &mut Command) {
    let world = World::new();
    let server = Server::start_with(&world, &[SECRET, "http.auth=off"]);
    assert_eq!(server.exec(TABLE).status, 200);
    command.arg(server.pg.port().to_string()).arg(PASSWORD);
    let output = command.output().expect(name);
    let stdout = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && stdout.contains("done"), "{name}: {stdout}\n{errors}");
    server.stop();
}

/// Runs a program of Python that needs a package.
fn run_python(package: &str, program: &str) {
    let python = env::var_os("TIDEGATE_PYTHON").map(PathBuf::from);
    let python = python.unwrap_or_else(|| peers().join("python/bin/python"));
    run_with(&python, package, program);
}

/// Runs a program of a tool, which needs other versions of packages than the clients.
fn run_tool(package: &str, program: &str) {
    run_with(&peers().join("tools/bin/python"), package, program);
}

fn run_with(python: &Path, package: &str, program: &str) {
    let has_it = Command::new(python).args(["-c", &format!("import {package}")]).output();
    if !has_it.is_ok_and(|output| output.status.success()) {
        return skip(package);
    }
    run(package, Command::new(python).args(["-c", program]));
}

#[test]
fn psycopg() {
    run_python("psycopg", include_str!("peers/psycopg3.py"));
}

#[test]
fn psycopg2() {
    run_python("psycopg2", include_str!("peers/psycopg2.py"));
}

#[test]
fn asyncpg() {
    run_python("asyncpg", include_str!("peers/asyncpg.py"));
}

#[test]
fn sqlalchemy() {
    run_python("sqlalchemy", include_str!("peers/sqlalchemy.py"));
}

#[test]
fn adbc() {
    run_tool("adbc_driver_postgresql", include_str!("peers/adbc.py"));
}

#[test]
fn ibis() {
    run_tool("ibis", include_str!("peers/ibis.py"));
}

#[test]
fn dlt() {
    run_tool("dlt", include_str!("peers/dlt.py"));
}

#[test]
fn dbt() {
    run_tool("dbt.adapters.postgres", include_str!("peers/dbt.py"));
}

#[test]
fn django() {
    run_tool("django", include_str!("peers/django.py"));
}

#[test]
fn odbc() {
    run_tool("pyodbc", include_str!("peers/odbc.py"));
}

fn program(world: &World, name: &str, text: &str) -> PathBuf {
    world.file(name, text)
}

fn path() -> OsString {
    let known = env::var_os("PATH").unwrap_or_default();
    let mut all = known;
    all.push(":/usr/local/go/bin");
    all
}

fn is_there(program: &str, argument: &str) -> bool {
    let output = Command::new(program).arg(argument).env("PATH", path()).output();
    output.is_ok_and(|output| output.status.success())
}

#[test]
fn pgjdbc() {
    let jar = peers().join("pgjdbc.jar");
    if !jar.exists() || !is_there("java", "-version") {
        return skip("pgjdbc");
    }
    let world = World::new();
    let source = program(&world, "Peer.java", include_str!("peers/Peer.java"));
    let mut command = Command::new("java");
    run("pgjdbc", command.arg("-Xmx256m").arg("-cp").arg(jar).arg(source));
}

#[test]
fn node_postgres() {
    let modules = peers().join("node/node_modules");
    if !modules.join("pg").exists() || !is_there("node", "--version") {
        return skip("node-postgres");
    }
    let world = World::new();
    let source = program(&world, "peer.js", include_str!("peers/peer.js"));
    run("node-postgres", Command::new("node").env("NODE_PATH", modules).arg(source));
}

#[test]
fn pgx() {
    let module: &Path = &peers().join("go");
    if !module.join("go.sum").exists() || !is_there("go", "version") {
        return skip("pgx");
    }
    let world = World::new();
    let source = program(&world, "peer.go", include_str!("peers/peer.go"));
    let binary = world.path("peer");
    let mut build = Command::new("go");
    build.env("PATH", path()).env("GOFLAGS", "-mod=mod").current_dir(module);
    let built = build.args(["build", "-o"]).arg(&binary).arg(source).output().expect("go");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    run("pgx", &mut Command::new(binary));
}
