//! Start and stop of the server.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Stdio;
use std::thread;

use super::server::Server;
use crate::world::World;

#[test]
fn a_server_that_is_stopped_keeps_what_it_has_read() {
    let world = World::new();
    let server = Server::start_with(&world, &["ilp.tcp.commit_interval=1h"]);
    let mut stream = server.connect_ilp();
    stream.write_all(b"t v=1i 1\nt v=2i 2\n").unwrap();
    assert_eq!(server.post("/write", "", "u v=1i 1").status, 204);
    let read = r#"tidegate_ilp_bytes_total{protocol="tcp"}"#;
    crate::world::wait_until("the lines to be read", || server.metric(read) == 18.0);
    server.stop();
    assert_eq!(world.ask("select count(*) from t"), "2");
    assert_eq!(world.ask("select count(*) from u"), "1");
    world.run(&["verify"]).succeeds();
}

#[test]
fn a_stop_does_not_wait_for_endless_senders() {
    let world = World::new();
    let keys = ["ilp.tcp.commit_interval=1h", "server.stop_timeout=1h"];
    let server = Server::start_with(&world, &keys);
    let lines = "t v=0123456789i 1\n".repeat(10_000);
    let lines = lines.as_bytes();
    thread::scope(|scope| {
        for _ in 0..2 {
            let mut stream = server.connect_ilp();
            // The client sends until the server ends the connection.
            scope.spawn(move || while stream.write_all(lines).is_ok() {});
        }
        let rows = r#"tidegate_ilp_lines_total{protocol="tcp"}"#;
        crate::world::wait_until("lines to be read", || server.metric(rows) > 200_000.0);
        server.stop();
    });
    // Every line that was read is stored, and no line is stored in part.
    assert_eq!(world.ask("select count(*) > 200000, count(distinct v) from t"), "true,1");
}

#[test]
fn a_server_may_be_for_reading_only() {
    let world = World::new();
    let server = Server::start(&world);
    assert_eq!(server.post("/write", "", "t v=1i 1").status, 204);
    server.stop();
    let server = Server::start_with(&world, &["server.read_only=true"]);
    assert_eq!(server.rows("select v from t"), "[[1]]");
    let write = server.post("/write", "", "t v=2i 2");
    assert_eq!(write.status, 421, "{}", write.body);
    assert!(write.body.starts_with(r#"{"code":"not accepting writes""#), "{}", write.body);
    for sql in [
        "create table u (v int)",
        "drop table t",
        "truncate table t",
        "alter table t add column w int",
        "insert into t (v, timestamp) values (2, 2)",
        "update t set v = 2",
        "delete from t",
    ] {
        let answer = server.exec(sql);
        assert_eq!(answer.status, 403, "{sql}: {}", answer.body);
        assert!(answer.body.contains(r#""code":"25006""#), "{sql}: {}", answer.body);
    }
    assert_eq!(server.ilp.port(), 0, "nobody listens for lines");
    server.stop();
    assert_eq!(world.ask("select v from t"), "1");
}

#[test]
fn ctrl_c_ends_it_too() {
    let world = World::new();
    let mut server = Server::start(&world);
    server.signal("-INT");
    assert_eq!(server.wait().code(), Some(0));
}

#[test]
fn a_taken_port_is_said_before_anything_is_touched() {
    let world = World::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let run = world.run(&["serve", "--http", &address, "--ilp", "none"]);
    run.fails(2, &["serve: cannot listen on ", &address, " for HTTP: address already in use"]);
    assert!(!world.path("db").exists());
}

#[test]
fn other_machines_are_not_let_in_by_accident() {
    let world = World::new();
    let run = world.run(&["serve", "--http", "0.0.0.0:0", "--ilp", "none"]);
    let expected = [
        "refusing to listen on http.listen = 0.0.0.0:0 for other machines",
        "auth.admin_password",
        "TIDEGATE_AUTH_ADMIN_PASSWORD",
    ];
    run.fails(2, &expected);
    let run = world.run(&["serve", "--http", "none", "--ilp", "0.0.0.0:0"]);
    run.fails(2, &["ilp.tcp.listen = 0.0.0.0:0", "ilp.tcp.allow_anonymous = true"]);
    let open = ["serve", "--ilp", "none", "--http", "none", "--set", "pg.listen=0.0.0.0:0"];
    let run = world.run(&open);
    run.fails(2, &["pg.listen = 0.0.0.0:0", "auth.admin_password"]);
    let nothing = ["serve", "--http", "none", "--ilp", "none", "--set", "pg.listen=none"];
    let run = world.run(&nothing);
    run.fails(2, &["there is nothing to serve"]);
}

#[test]
fn unknown_configuration_keys_are_errors() {
    let world = World::new();
    let run = world.run(&["serve", "--set", "htpp.listen=x"]);
    run.fails(2, &["configuration key `htpp.listen` does not exist"]);
    let mut command = world.command(&["serve"]);
    command.env("TIDEGATE_ILP_TCP_COMMIT_ROW", "1");
    let run = crate::world::Run::of(command.output().unwrap());
    run.fails(2, &["no configuration key for the variable TIDEGATE_ILP_TCP_COMMIT_ROW"]);
}

#[test]
fn one_process_has_a_database() {
    let world = World::new();
    let server = Server::start(&world);
    let second = world.run(&["serve", "--http", "127.0.0.1:0", "--ilp", "none"]);
    assert_eq!(second.code, Some(3), "{}", second.stderr);
    assert!(second.stderr.contains("in use by another process"), "{}", second.stderr);
    server.stop();
}

// A thread with a line for the log wrote it itself, under a lock: when a pipe was not read, logins
// blocked, then schema changes, and SIGTERM did not end the server.
#[test]
fn a_log_that_is_not_read_stops_nothing() {
    let world = World::new();
    let arguments = ["serve", "--http", "127.0.0.1:0", "--ilp", "127.0.0.1:0"];
    let (server, unread) = Server::spawn_unread(&mut world.command(&arguments));
    for number in 0..40 {
        assert_eq!(server.exec(&format!("CREATE TABLE t{number} (v INT)")).status, 200, "log-2");
        assert_eq!(server.post("/write", "", "not a line").status, 400);
    }
    server.stop();
    drop(unread);
    assert_eq!(world.ask("SELECT count(*) FROM tables() WHERE table_name LIKE 't%'"), "40");
}

#[test]
fn texts_of_clients_are_escaped_in_the_log() {
    let world = World::new();
    let server = Server::start(&world);
    let table = "\u{1b}]0;title\u{7}\u{9b}31m\u{202e}";
    assert_eq!(server.post("/write", "", format!("t v={table}")).status, 400);
    let line = server.wait_for("ilp: ");
    assert!(line.contains("\\u{1b}]0;title\\u{7}\\u{9b}31m\\u{202e}"), "log-3: {line}");
    server.stop();
    let run = world.run(&["import", "no\u{1b}[31mfile\n.csv", "--table", "t"]);
    assert!(run.stderr.contains("no\\u{1b}[31mfile\\n.csv"), "{}", run.stderr);
}

// A runtime that cannot start all of its threads panics, and then waited for those that it had
// started: the server answered 503 for ever, and SIGTERM did not end it.
#[test]
fn a_server_that_cannot_begin_its_threads_ends() {
    let world = World::new();
    let arguments = ["serve", "--http", "127.0.0.1:0", "--ilp", "none", "--threads", "64"];
    let mut command = world.command_after("ulimit -v 2500000", &arguments);
    let mut server = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut status = None;
    crate::world::wait_until("the server to end", || {
        status = server.try_wait().unwrap();
        status.is_some()
    });
    let mut log = String::new();
    server.stderr.take().unwrap().read_to_string(&mut log).unwrap();
    // The C library ends the process if a thread has no memory for the list of what it frees.
    if !log.contains("Fatal glibc error: failed to register TLS destructor: out of memory") {
        assert_eq!(status.and_then(|it| it.code()), Some(1), "{log}");
        assert!(!log.contains("internal error"), "{log}");
        let names_the_limit = log.contains("thread") && log.contains("(os error");
        assert!(names_the_limit, "{log}");
    }
}
