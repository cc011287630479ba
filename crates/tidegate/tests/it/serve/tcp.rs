//! Lines over TCP: the protocol has no answers, so the tests check the stored rows.

use std::fmt::Write as _;
use std::io::{Read, Write};

use super::server::Server;
use crate::world::{World, wait_until};

#[test]
fn a_bad_line_costs_one_line() {
    let world = World::new();
    let server = Server::start(&world);
    server.send_lines("t v=1i 1\nt v=x 2\nt v=3i 3\n");
    server.wait_for_rows("t", 2);
    server.wait_for_rows("sys.ilp_rejects", 1);
    let kept =
        server.rows("select source, table_name, line, column_name, raw from sys.ilp_rejects");
    assert_eq!(kept, r#"[["tcp","t",2,"v","t v=x 2"]]"#);
    server.wait_for("line 2: ");
    assert_eq!(server.metric(r#"tidegate_rows_written_total{protocol="tcp"}"#), 2.0);
    assert_eq!(server.metric(r#"tidegate_ilp_lines_total{protocol="tcp"}"#), 3.0);
}

#[test]
fn or_it_ends_the_connection() {
    let world = World::new();
    let server = Server::start_with(&world, &["ilp.tcp.on_error=disconnect"]);
    let mut stream = server.connect_ilp();
    stream.write_all(b"t v=1i 1\nt v=x 2\nt v=3i 3\n").unwrap();
    // The read returns the end, or a reset: the server does not read all bytes.
    let _ = stream.read(&mut [0]);
    server.wait_for_rows("t", 1);
}

#[test]
fn lines_may_be_cut_anywhere() {
    let world = World::new();
    let server = Server::start(&world);
    let line = b"t,a=b\\ c v=1i,s=\"x\\\"\ny\" 5\n";
    for cut in 1..line.len() {
        let mut stream = server.connect_ilp();
        stream.write_all(&line[..cut]).unwrap();
        stream.write_all(&line[cut..]).unwrap();
    }
    server.wait_for_rows("t", line.len() as u64 - 1);
    let rows = server.rows("select distinct a, v, s, timestamp from t");
    assert_eq!(rows, r#"[["b c",1,"x\"\ny","1970-01-01T00:00:00.000000Z"]]"#);
}

#[test]
fn invalid_lines_are_skipped() {
    let world = World::new();
    let server = Server::start(&world);
    let mut bytes = b"t v=1i 1\nt s=\"never closed\nt v=2i 2\n".to_vec();
    server.send_lines(&bytes);
    server.wait_for_rows("t", 2);
    bytes = b"u v=1i 1\nu s=\"".to_vec();
    bytes.extend(std::iter::repeat_n(b'x', 5 << 20));
    bytes.extend_from_slice(b"\"\nu v=2i 2\nu s=\"\0\"\nu s=\"\xff\"\nu v=3i 3\n");
    server.send_lines(&bytes);
    server.wait_for_rows("u", 3);
}

#[test]
fn everything_that_was_sent_before_the_end_is_there() {
    let world = World::new();
    let server = Server::start(&world);
    let lines = (0..1_000).fold(String::new(), |mut all, row| {
        writeln!(all, "t,k={} v={row}i {row}", row % 7).unwrap();
        all
    });
    let mut stream = server.connect_ilp();
    stream.write_all(lines.as_bytes()).unwrap();
    drop(stream);
    server.wait_for_rows("t", 1_000);
}

#[test]
fn a_line_without_its_end_is_not_taken() {
    let world = World::new();
    let server = Server::start(&world);
    // The last line may be the beginning of `v=23i`.
    server.send_lines("t v=1i 1\nt v=2");
    server.wait_for_rows("t", 1);
    server.wait_for_rows("sys.ilp_rejects", 1);
    let kept = server.rows("select line, raw, reason from sys.ilp_rejects");
    assert_eq!(kept, r#"[[2,"t v=2","the connection ended within the line"]]"#);
}

#[test]
fn an_idle_connection_is_closed_and_its_rows_are_committed() {
    let world = World::new();
    let keys = ["ilp.tcp.idle_timeout=100ms", "ilp.tcp.commit_interval=1h"];
    let server = Server::start_with(&world, &keys);
    let mut stream = server.connect_ilp();
    stream.write_all(b"t v=1i 1\n").unwrap();
    assert_eq!(stream.read(&mut [0]).unwrap(), 0, "the server ends the connection");
    server.wait_for_rows("t", 1);
}

#[test]
fn rows_do_not_wait_for_the_end() {
    let world = World::new();
    let server = Server::start_with(&world, &["ilp.tcp.commit_interval=50ms"]);
    let mut stream = server.connect_ilp();
    for row in 1..=3_u64 {
        stream.write_all(format!("t v={row}i {row}\n").as_bytes()).unwrap();
        server.wait_for_rows("t", row);
    }
}

#[test]
fn endless_lines_yield_memory_to_waiting_connections() {
    let world = World::new();
    let keys = ["memory.ingest_limit=4MiB", "ilp.tcp.commit_interval=10ms"];
    let server = Server::start_with(&world, &keys);
    let endless = format!("t s=\"{}", "x".repeat(1_200_000));
    let mut slow: Vec<_> = (0..3).map(|_| server.connect_ilp()).collect();
    for stream in &mut slow {
        stream.write_all(endless.as_bytes()).unwrap();
    }
    let used = "tidegate_ingest_memory_bytes";
    wait_until("memory to be short", || 3_300_000.0 < server.metric(used));
    // Some of the clients hang up, which the server cannot see while it does not read.
    drop(slow.pop());
    server.send_lines("t v=1i 1\n");
    assert_eq!(server.post("/write", "", "t v=2i 2\n").status, 204);
    server.wait_for_rows("t", 2);
    let reason = "tidegate_ilp_rejects_total{protocol=\"tcp\",reason=";
    assert!(server.get("/metrics").body.contains(reason), "the lines that gave way are counted");
    wait_until("memory to be given back", || server.metric(used) < 3_300_000.0);
}

#[test]
fn a_table_that_is_dropped_is_made_anew() {
    let world = World::new();
    let server = Server::start_with(&world, &["ilp.tcp.commit_interval=10ms"]);
    let mut stream = server.connect_ilp();
    stream.write_all(b"t,k=a v=1i 1\n").unwrap();
    server.wait_for_rows("t", 1);
    assert_eq!(server.exec("drop table t").body, r#"{"ddl":"OK"}"#);
    stream.write_all(b"t,k=a v=2i 2\n").unwrap();
    server.wait_for_rows("t", 1);
    assert_eq!(server.rows("select k, v from t"), r#"[["a",2]]"#);
}

#[test]
fn many_connections_are_open_and_one_writes() {
    let world = World::new();
    let server = Server::start_with(&world, &["ilp.tcp.commit_interval=10ms"]);
    let idle: Vec<_> = (0..400).map(|_| server.connect_ilp()).collect();
    let open = r#"tidegate_connections{protocol="tcp"}"#;
    wait_until("all to be accepted", || server.metric(open) == 400.0);
    server.send_lines("t v=1i 1\n");
    server.wait_for_rows("t", 1);
    for mut stream in idle {
        stream.write_all(b"t v=2i 2\n").unwrap();
    }
    server.wait_for_rows("t", 401);
    wait_until("all to be gone", || server.metric(open) == 0.0);
}

#[test]
fn garbage_is_counted_and_kept_at_a_limited_rate() {
    let world = World::new();
    let server = Server::start_with(&world, &["ilp.reject_rate=5"]);
    let garbage = "no line\n".repeat(100_000);
    server.send_lines(format!("{garbage}t v=1i 1\n"));
    server.wait_for_rows("t", 1);
    assert_eq!(server.metric(r#"tidegate_ilp_lines_total{protocol="tcp"}"#), 100_001.0);
    wait_until("some to be kept", || server.count("sys.ilp_rejects").is_some());
    let kept = server.count("sys.ilp_rejects").unwrap();
    assert!(kept < 10_000, "{kept}");
    let table = server.exec("show create table sys.ilp_rejects").body;
    assert!(table.contains("TTL 3 DAYS"), "{table}");
}

// Any web page could make a browser post lines here: the fields of the head were bad lines, and the
// body good ones.
#[test]
fn a_connection_that_speaks_another_protocol_is_ended() {
    let world = World::new();
    let server = Server::start_with(&world, &["ilp.tcp.commit_interval=10ms"]);
    let form = "POST / HTTP/1.1\r\nHost: 127.0.0.1:9009\r\nOrigin: null\r\n\
                Content-Type: text/plain\r\nContent-Length: 30\r\n\r\n\
                evil,from=form v=1\nevil v=2\n\n";
    let hello = b"\x16\x03\x01\x02\x00\x01\nevil v=1\n";
    for (bytes, protocol) in [
        (form.as_bytes(), "HTTP"),
        (form.replace("POST", "GET").as_bytes(), "HTTP"),
        (form.replace("POST", "PUT").as_bytes(), "HTTP"),
        (hello, "TLS"),
        (b"\0\0\0\x08\x04\xd2\x16\x2f\nevil v=1\n", "a binary protocol"),
    ] {
        // At most ten such connections are logged in a second.
        for cut in [7, bytes.len()] {
            let mut stream = server.connect_ilp();
            let sent = stream.write_all(&bytes[..cut]);
            let sent = sent.and_then(|()| stream.write_all(&bytes[cut..]));
            // The server ends the connection, by its end or by a reset.
            let end = stream.read(&mut [0]);
            assert!(matches!(end, Ok(0) | Err(_)), "ilp_tcp-4: {sent:?} {end:?}");
            server.wait_for(&format!("speaks {protocol}"));
        }
    }
    server.send_lines("good v=1i 1\n");
    server.send_lines("GET v=1i 1\nGET v=2i 2\n");
    server.wait_for_rows("good", 1);
    server.wait_for_rows("GET", 2);
    assert_eq!(server.count("evil"), None, "ilp_tcp-4");
    assert_eq!(server.metric("tidegate_ilp_foreign_protocols_total"), 10.0);
    server.stop();
}
