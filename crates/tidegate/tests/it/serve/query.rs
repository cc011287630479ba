//! Clients of `/exec` that go, the memory of their bodies, and the listener for health.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

use super::server::{Server, encode};
use crate::world::{World, wait_until};

#[test]
fn a_client_that_goes_ends_its_statement() {
    let world = World::new();
    let server = Server::start(&world);
    let sql = "select count(*) from generate_series(1, 1000000) a, generate_series(1, 1000000) b";
    let request = format!("GET /exec?query={} HTTP/1.1\r\nHost: x\r\n\r\n", encode(sql));
    let mut first = server.connect();
    first.write_all(request.as_bytes()).unwrap();
    let mut second = server.connect();
    // More requests wait behind it, unread when the client goes. The kernel buffers only so many:
    // the end of the connection is noticed after the bytes before it.
    second
        .write_all(
            format!("{request}{}", "GET /ping HTTP/1.1\r\nHost: x\r\n\r\n".repeat(6_000))
                .as_bytes(),
        )
        .unwrap();
    wait_until("both to work", || server.metric("tidegate_queries_running") == 2.0);
    drop(first);
    second.shutdown(Shutdown::Both).unwrap();
    wait_until("both to end", || server.metric("tidegate_queries_running") == 0.0);
}

// 40 forms of 47 MB whose end never came took 2 GB, before anything was parsed.
#[test]
fn bodies_of_all_connections_have_a_bound() {
    const CONNECTIONS: usize = 24;
    let world = World::new();
    let server = Server::start_with(&world, &["memory.connection_limit=16MiB"]);
    let before = server.metric("tidegate_memory_bytes");
    let head = "POST /exec HTTP/1.1\r\nHost: x\r\nContent-Length: 47000000\r\n\
                Content-Type: application/x-www-form-urlencoded\r\n\r\n";
    let part = vec![b'a'; 4 << 20];
    let refused = std::thread::scope(|scope| {
        let clients = (0..CONNECTIONS).map(|_| {
            scope.spawn(|| {
                let mut stream = server.connect();
                let sent = stream.write_all(head.as_bytes());
                let sent = sent.and_then(|()| stream.write_all(&part));
                // A request that is not refused waits for the rest of its body.
                stream.set_read_timeout(Some(std::time::Duration::from_millis(300))).unwrap();
                let mut answer = Vec::new();
                let read = stream.read_to_end(&mut answer);
                let text = String::from_utf8_lossy(&answer).into_owned();
                let is_refused = text.starts_with("HTTP/1.1 503 ") && text.contains("53200");
                assert!(is_refused || text.is_empty(), "{sent:?} {read:?} {text}");
                (stream, is_refused)
            })
        });
        let clients = clients.collect::<Vec<_>>();
        let clients = clients.into_iter().map(|it| it.join().unwrap()).collect::<Vec<_>>();
        let used = server.metric("tidegate_memory_bytes") - before;
        assert!(used < f64::from(64 << 20), "exec_body-1: {used}");
        // Small statements are answered in the meantime.
        assert_eq!(server.exec("SELECT 1").status, 200, "exec_body-1");
        clients.iter().filter(|(_, is_refused)| *is_refused).count()
    });
    assert!((CONNECTIONS / 2..CONNECTIONS).contains(&refused), "exec_body-1: {refused}");
    wait_until("it to be given back", || server.metric("tidegate_connection_memory_bytes") == 0.0);
    server.stop();
}

#[test]
fn health_has_a_listener_of_its_own() {
    let world = World::new();
    let server = Server::start_with(&world, &["http.admin_listen=127.0.0.1:0"]);
    let mut stream = TcpStream::connect(server.admin).unwrap();
    stream.write_all(b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert!(text.starts_with("HTTP/1.1 200 ") && text.ends_with("Status: Healthy\n"), "{text}");
    server.stop();
}
