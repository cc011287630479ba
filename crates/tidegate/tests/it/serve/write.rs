//! Lines over HTTP: the answers, and the stored rows.

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::thread;

use super::server::{Answer, Server};
use crate::world::{World, wait_until};

#[track_caller]
fn check(answer: &Answer, status: u16, expected: &str) {
    assert_eq!(answer.status, status, "{}", answer.body);
    assert!(answer.body.contains(expected), "{} lacks {expected}", answer.body);
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut child = Command::new("gzip")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("gzip is there");
    let mut stdin = child.stdin.take().expect("a pipe");
    let bytes = bytes.to_vec();
    let feeder = thread::spawn(move || stdin.write_all(&bytes).expect("gzip reads"));
    let output = child.wait_with_output().expect("gzip ends");
    feeder.join().expect("the feeder ends");
    output.stdout
}

#[test]
fn bodies_that_are_waited_for_hold_no_memory() {
    const CONNECTIONS: u32 = 200;
    let world = World::new();
    let server = Server::start(&world);
    assert_eq!(server.post("/write", "", "t v=1i 1\n").status, 204);
    let used = || server.metric("tidegate_memory_bytes");
    let before = used();
    let half = b"POST /write HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nhalf";
    let connections = (0..CONNECTIONS).map(|_| {
        let mut stream = server.connect();
        stream.write_all(half).unwrap();
        stream
    });
    let connections: Vec<_> = connections.collect();
    let received = "tidegate_ilp_bytes_total{protocol=\"http\"}";
    wait_until("all of them", || server.metric(received) == f64::from(9 + 4 * CONNECTIONS));
    let each = (used() - before) / f64::from(CONNECTIONS);
    assert!(each < 100_000.0, "http_wire-2: {each} bytes");
    drop(connections);
}

#[test]
fn bodies_may_be_compressed_but_are_no_bombs() {
    let world = World::new();
    let server = Server::start_with(&world, &["ilp.http.max_body=1MiB"]);
    let compressed = gzip(b"t v=1i 1\nt v=2i 2\n");
    let fields = "Content-Encoding: gzip\r\n";
    assert_eq!(server.post("/write", fields, &compressed).status, 204);
    assert_eq!(server.count("t"), Some(2));
    let zstd = b"(\xb5/\xfd\x00hI\x00\x00t v=3i 3\n";
    assert_eq!(server.post("/write", "Content-Encoding: zstd\r\n", zstd).status, 204);
    assert_eq!(server.count("t"), Some(3));
    check(&server.post("/write", "Content-Encoding: zstd\r\n", &compressed), 400, "not valid zstd");
    let damaged = &compressed[..compressed.len() - 9];
    check(&server.post("/write", fields, damaged), 400, r#""code":"invalid""#);
    check(&server.post("/write", fields, b"t v=1i 1"), 400, r#""code":"invalid""#);
    let before = server.metric("tidegate_memory_bytes");
    let bomb = gzip(&vec![b'\n'; 256 << 20]);
    check(&server.post("/write", fields, &bomb), 413, r#""code":"request too large""#);
    let grown = server.metric("tidegate_memory_bytes") - before;
    assert!(grown < f64::from(64 << 20), "{grown}");
    let large = "t v=1i 1\n".repeat(200_000);
    check(&server.post("/write", "", &large), 413, r#""code":"request too large""#);
    let unknown = server.post("/write", "Content-Encoding: br\r\n", "t v=1i 1");
    check(&unknown, 415, r#""code":"not supported""#);
    assert_eq!(server.count("t"), Some(3));
}

#[test]
fn work_for_a_closed_connection_is_stopped() {
    const BYTES: usize = 32 << 20;
    let world = World::new();
    let server = Server::start(&world);
    let body = gzip(&[vec![b'\n'; BYTES - 10], b"t v=1i 1\n".to_vec()].concat());
    // All of it and the end of the connection wait at the server's side: what does not fit into
    // its first receive window would stay with the client's kernel, and the end behind it.
    assert!(body.len() < 40 << 10, "{}", body.len());
    // The client goes before the server reads.
    server.signal("-STOP");
    let mut stream = server.connect();
    let head = format!(
        "POST /write HTTP/1.1\r\nHost: x\r\nContent-Encoding: gzip\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(&body).unwrap();
    drop(stream);
    server.signal("-CONT");
    let open = r#"tidegate_connections{protocol="http"}"#;
    wait_until("the connection to end", || server.metric(open) == 1.0);
    let bytes = server.metric(r#"tidegate_ilp_bytes_total{protocol="http"}"#);
    assert!(bytes < 8e6, "http_write-1: {bytes}");
    assert_eq!(server.count("t"), None);
}
