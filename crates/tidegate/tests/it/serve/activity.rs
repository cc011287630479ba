//! The running queries that a server shows, and their cancellation by others.

use std::io::{Read, Write};

use super::server::{Answer, Server, encode};
use crate::world::{World, wait_until};

const ENDLESS: &str =
    "select count(*) from generate_series(1, 1000000) a, generate_series(1, 1000000) b";

#[test]
fn a_statement_is_ended_from_another_connection() {
    let world = World::new();
    let server = Server::start(&world);
    let mut first = server.connect();
    let request = format!("GET /exec?query={} HTTP/1.1\r\nHost: here\r\n", encode(ENDLESS));
    first.write_all(format!("{request}Connection: close\r\n\r\n").as_bytes()).unwrap();
    let ids = format!("select query_id from query_activity() where query = '{ENDLESS}'");
    let running = format!("{ids} and protocol = 'http' and state = 'running'");
    wait_until("it to work", || server.rows(&running) != "[]");
    let id = server.rows(&running).replace(['[', ']'], "");
    assert_eq!(server.rows(&format!("cancel query {id}")), format!("[[{id},\"cancelled\"]]"));
    let mut bytes = Vec::new();
    first.read_to_end(&mut bytes).unwrap();
    let (answer, _) = Answer::parse(&bytes);
    assert_eq!(answer.status, 400, "{}", answer.body);
    assert!(
        answer.body.contains(r#""error":"query cancelled by user","code":"57014""#),
        "{}",
        answer.body
    );
    wait_until("its work to end", || server.rows(&ids) == "[]");
    let again = server.exec(&format!("cancel query {id}"));
    assert!(again.status == 400 && again.body.contains(r#""code":"42704""#), "{}", again.body);
    assert_eq!(server.rows(&format!("select cancel_query({id})")), "[[false]]");
    // The permit of the statement is free for the next one.
    assert_eq!(server.rows("select 1"), "[[1]]");
}

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

// A client that took no rows kept its permit, even after its statement had been cancelled: as many
// such clients as there are permits stopped all other work until they went.
#[test]
fn a_cancel_frees_the_permit_of_a_client_that_does_not_read() {
    let world = World::new();
    let keys = ["query.max_concurrent=2", "query.queue_timeout=2s"];
    let server = Server::start_with(&world, &keys);
    for (path, last) in [("exec", "41"), ("exp", "42")] {
        let sql = format!("select x, {last} from generate_series(1, 100000000) as t(x)");
        let request = format!("GET /{path}?query={} HTTP/1.1\r\nHost: here\r\n\r\n", encode(&sql));
        let start = || {
            let mut stream = server.connect();
            stream.write_all(request.as_bytes()).unwrap();
            stream
        };
        let mut first = start();
        let ids = format!("select query_id from query_activity() where query = '{sql}'");
        let waiting = format!("{ids} and state = 'waiting'");
        wait_until("its rows to wait", || server.rows(&waiting) != "[]");
        let id = server.rows(&ids).replace(['[', ']'], "");
        let second = start();
        wait_until("all permits to be taken", || server.metric("tidegate_queries_running") == 2.0);
        assert_eq!(server.rows("select 0"), "[[0]]", "streaming_slot-1: {path}");
        assert_eq!(server.rows(&format!("cancel query {id}")), format!("[[{id},\"cancelled\"]]"));
        assert_eq!(server.rows("select 1"), "[[1]]", "exec-1: {path}");
        drop(second);
        let mut bytes = Vec::new();
        first.read_to_end(&mut bytes).unwrap();
        assert!(!bytes.ends_with(b"\r\n0\r\n\r\n") || path == "exec", "exp-2");
        let is_told = String::from_utf8_lossy(&bytes).contains("query cancelled by user");
        assert_eq!(is_told, path == "exec");
        wait_until("both to end", || server.metric("tidegate_queries_running") == 0.0);
    }
}

#[test]
fn parameters_are_shown_with_their_source() {
    let world = World::new();
    let server = Server::start_with(&world, &["ilp.tcp.commit_rows=77"]);
    let shown = server.rows("show parameters");
    for expected in [
        r#"["ilp.tcp.commit_rows","TIDEGATE_ILP_TCP_COMMIT_ROWS","77","command line",false,false]"#,
        r#"["http.idle_timeout","TIDEGATE_HTTP_IDLE_TIMEOUT","5m","default",false,false]"#,
    ] {
        assert!(shown.contains(expected), "{shown}");
    }
    assert_eq!(server.rows("show ilp.tcp.commit_rows"), r#"[["77"]]"#);
    assert_eq!(server.rows("show statement_timeout"), r#"[["1min"]]"#);
    assert_eq!(server.exec("set statement_timeout = 50").body, r#"{"ddl":"OK"}"#);
    // Each request is a session of its own.
    assert_eq!(server.rows("show statement_timeout"), r#"[["1min"]]"#);
    let refused = server.exec("set query.timeout = '1s'");
    assert!(refused.body.contains(r#""code":"55P02""#), "{}", refused.body);
    let tags = "select memory_tag from memory_metrics() where bytes > 0 order by 1";
    let tags = server.rows(tags);
    for tag in ["ingest_limit", "process", "process_limit", "queries_limit"] {
        assert!(tags.contains(tag), "{tags}");
    }
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
fn tables_of_the_system_are_its_own() {
    let world = World::new();
    let server = Server::start(&world);
    let refused = server.post("/write", "", "t v=1i 1\nsys.ilp_rejects v=1i 2\n");
    assert_eq!(refused.status, 400, "{}", refused.body);
    assert!(refused.body.contains("tables of the schema `sys` are the system's own"));
    assert_eq!(server.count("t"), None);
    server.wait_for_rows("sys.ilp_rejects", 1);
    for sql in [
        "drop table sys.ilp_rejects",
        "create table sys.more (a int)",
        "alter table \"sys.ilp_rejects\" add column a int",
        "insert into sys.ilp_rejects (ts) values ('2025-01-01')",
    ] {
        let refused = server.exec(sql);
        assert_eq!(refused.status, 403, "{sql}: {}", refused.body);
        assert!(refused.body.contains(r#""code":"42501""#), "{sql}: {}", refused.body);
    }
    assert_eq!(server.exec("truncate table sys.ilp_rejects").body, r#"{"ddl":"OK"}"#);
    assert_eq!(server.rows("select count(*) from sys.ilp_rejects"), "[[0]]");
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

// The tokens of 16 MiB of brackets took a gigabyte in every connection, and were not counted.
#[test]
fn reading_a_long_statement_is_paid_before_it_is_begun() {
    let world = World::new();
    let server = Server::start_with(&world, &["memory.limit=512MiB"]);
    let list = |values: usize| format!("SELECT 1 WHERE 1 IN ({}1)", "1,".repeat(values));
    let failed = server.exec(&list(2_000_000));
    assert_eq!(failed.status, 503, "parse_memory-1: {}", failed.body);
    assert!(failed.body.contains("StatementText"), "parse_memory-1: {}", failed.body);
    assert_eq!(server.rows(&list(20_000)), "[[1]]", "parse_memory-1");
    let name = server.exec(&format!("SELECT {}", "a".repeat(2 << 20)));
    assert!(name.status == 400 && name.body.contains("bytes of a name or number"), "token-1");
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
