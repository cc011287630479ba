//! The running queries that a server shows, and their cancellation by others.

use std::io::{Read, Write};

use super::server::{Answer, Server, encode};
use crate::world::{World, wait_until};

const ENDLESS: &str =
    "select count(*) from generate_series(1, 1000000) a, generate_series(1, 1000000) b";

#[test]
fn a_cancel_does_not_wait_for_those_that_work() {
    let world = World::new();
    let mut command = world.command(&["serve", "--http", "127.0.0.1:0", "--ilp", "127.0.0.1:0"]);
    // At most four statements run at a time.
    let server = Server::spawn(command.args(["--threads", "1"]));
    let request = format!("GET /exec?query={} HTTP/1.1\r\nHost: here\r\n", encode(ENDLESS));
    let start = || {
        let mut stream = server.connect();
        stream.write_all(format!("{request}Connection: close\r\n\r\n").as_bytes()).unwrap();
        stream
    };
    let mut first = start();
    let ids = format!("select query_id from query_activity() where query = '{ENDLESS}'");
    wait_until("it to work", || server.rows(&ids) != "[]");
    let id = server.rows(&ids).replace(['[', ']'], "");
    let others = [(); 5].map(|()| start());
    let running = || server.metric("tidegate_queries_running");
    wait_until("all permits to be taken", || running() == 6.0);
    assert_eq!(server.rows(&format!("cancel query {id}")), format!("[[{id},\"cancelled\"]]"));
    let mut bytes = Vec::new();
    first.read_to_end(&mut bytes).unwrap();
    let (answer, _) = Answer::parse(&bytes);
    assert!(answer.body.contains("query cancelled by user"), "{}", answer.body);
    drop(others);
    wait_until("all of them to end", || server.rows(&ids) == "[]");
}

#[test]
fn connections_that_send_lines_are_listed() {
    let world = World::new();
    let keys = ["ilp.tcp.commit_rows=1000", "ilp.tcp.commit_interval=1h"];
    let server = Server::start_with(&world, &keys);
    let counts = "select rows_committed, rows_pending, rows_rejected, bytes from ilp_connections()";
    assert_eq!(server.rows(counts), "[]");
    let mut stream = server.connect_ilp();
    stream.write_all(b"t v=1i 1\nt v=x 2\nt v=3i 3\nsys.t v=1i 4\n").unwrap();
    wait_until("the lines to be read", || server.rows(counts) == "[[0,2,2,39]]");
    let error = server.rows("select last_error, user_name from ilp_connections()");
    let expected = "[[\"line 4: 'sys.t' cannot be the name of a table: tables of the schema `sys` \
                    are the system's own\",null]]";
    assert_eq!(error, expected);
    stream.write_all("t v=5i 5\n".repeat(998).as_bytes()).unwrap();
    let rows = "select rows_committed, rows_pending, rows_rejected from ilp_connections()";
    wait_until("the rows to be durable", || server.rows(rows) == "[[1000,0,2]]");
    drop(stream);
    wait_until("the connection to end", || server.rows(counts) == "[]");
}

#[test]
fn a_statement_ends_or_spills_at_its_limit_and_others_go_on() {
    let world = World::new();
    let server = Server::start_with(&world, &["query.memory_limit=8MiB"]);
    assert_eq!(server.rows("SHOW query.memory_limit"), "[[\"8MiB\"]]");
    let join = "SELECT count(*) FROM long_sequence(3000000) a JOIN long_sequence(3000000) b \
                ON a.x = b.x";
    let sort = "/exp?query=SELECT%20x%20FROM%20long_sequence(1000000)%20ORDER%20BY%20-x";
    std::thread::scope(|scope| {
        let sorted = scope.spawn(|| server.get(sort));
        let failed = server.exec(join);
        assert_eq!(failed.status, 503, "memory-7: {}", failed.body);
        for part in ["\"53200\"", "HashJoinInput", "8.0 MB of a statement (query.memory_limit)"] {
            assert!(failed.body.contains(part), "memory-7: {}", failed.body);
        }
        let sorted = sorted.join().expect("no panic");
        let lines = sorted.body.lines().count();
        assert_eq!((sorted.status, lines), (200, 1_000_001), "memory-7: {:.200}", sorted.body);
        assert!(sorted.body.starts_with("\"x\"\r\n1000000\r\n999999\r\n"));
    });
    // 200,000 views of 16 bytes would fit, but the texts behind them do not.
    let kept = "SELECT array_length(array_agg(md5(x::varchar))) FROM long_sequence(200000)";
    let failed = server.exec(kept);
    assert_eq!(failed.status, 503, "collected_values-1: {}", failed.body);
    assert!(failed.body.contains("array_agg, string_agg"), "collected_values-1: {}", failed.body);
    let small =
        "SELECT count(*) FROM long_sequence(1000) a JOIN long_sequence(1000) b ON a.x = b.x";
    assert_eq!(server.rows(small), "[[1000]]");
    server.stop();
}

#[test]
fn the_largest_statement_goes_when_the_process_has_too_much() {
    let world = World::new();
    let keys = ["memory.limit=16MiB", "memory.ingest_limit=4MiB", "query.memory_limit=8MiB"];
    let server = Server::start_with(&world, &keys);
    let failed = server.exec("SELECT count(DISTINCT x) FROM long_sequence(1000000000000)");
    assert_eq!(failed.status, 503, "watchdog-1: {}", failed.body);
    assert!(failed.body.contains("\"53200\""), "watchdog-1: {}", failed.body);
    assert!(
        failed.body.contains("than the 16.0 MiB of memory.limit"),
        "watchdog-1: {}",
        failed.body
    );
    let line = server.wait_for("cancelling statement");
    assert!(line.contains("process memory ") && line.contains("exceeds memory.limit"), "{line}");
    assert_eq!(server.rows("SELECT 40 + 2"), "[[42]]", "others go on");
    server.stop();
}
