//! Requests on the level of bytes, and connections.

use std::io::{Read, Write};

use super::client::{Answer, encode};
use crate::fixture::{Server, World, wait_until};

// Clients that end their side after a request, as `nc -N` does, were taken for gone: statements and
// imports were cancelled, and large bodies of lines dropped.
#[test]
fn a_client_that_ends_its_side_gets_its_answer() {
    let world = World::new();
    let server = Server::start(&world);
    let answer = |request: String| {
        let mut stream = server.connect();
        stream.write_all(request.as_bytes()).unwrap();
        stream.end();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        // An answer that takes long follows an interim one.
        let rest = bytes.strip_prefix(b"HTTP/1.1 100 Continue\r\n\r\n").unwrap_or(&bytes);
        Answer::parse(rest).0
    };
    let post = |target: &str, ty: &str, body: &str| {
        let bytes = body.len();
        answer(format!(
            "POST {target} HTTP/1.1\r\nHost: x\r\nContent-Type: {ty}\r\n\
             Content-Length: {bytes}\r\n\r\n{body}"
        ))
    };
    let sql = "select count(*) from generate_series(1, 1000) a, generate_series(1, 1000) b";
    let get =
        answer(format!("GET /exec?nm=true&query={} HTTP/1.1\r\nHost: x\r\n\r\n", encode(sql)));
    assert_eq!(get.body, r#"{"dataset":[[1000000]],"count":1}"#, "http_wire-4");
    let posted = post("/exec?nm=true", "text/plain", sql);
    assert_eq!(posted.body, r#"{"dataset":[[1000000]],"count":1}"#, "http_wire-4");
    let imported = post("/imp?name=t&fmt=json", "text/csv", "ts,v\n2025-03-01,1\n");
    assert_eq!((imported.status, server.count("t")), (200, Some(1)), "{}", imported.body);
    let text = "x".repeat(1_000);
    let lines: String = (0..1_300).map(|ts| format!("m s=\"{text}\" {ts}\n")).collect();
    let written = post("/write", "text/plain", &lines);
    assert_eq!((written.status, server.count("m")), (204, Some(1_300)), "{}", written.body);
}

#[test]
fn requests_of_a_connection_are_answered_in_their_order() {
    let world = World::new();
    let server = Server::start(&world);
    let mut stream = server.connect();
    let mut requests = String::new();
    for number in 0..50 {
        requests +=
            &format!("GET /exec?nm=true&query=select+{number}+x HTTP/1.1\r\nHost: x\r\n\r\n");
    }
    requests += "POST /exec?nm=true HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\n\
                 Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n\
                 7\r\nselect \r\n2\r\n50\r\n0\r\n\r\n";
    stream.write_all(requests.as_bytes()).unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    let mut rest = &bytes[..];
    for number in 0..=50 {
        let (answer, behind) = Answer::parse(rest);
        assert_eq!(answer.body, format!("{{\"dataset\":[[{number}]],\"count\":1}}"));
        rest = behind;
    }
    assert!(rest.is_empty());
}

#[test]
fn a_body_that_waits_to_be_wanted_is_asked_for() {
    let world = World::new();
    let server = Server::start(&world);
    let mut stream = server.connect();
    let head = "POST /exec?nm=true HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\n\
                Content-Length: 8\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    let expected = b"HTTP/1.1 100 Continue\r\n\r\n";
    let mut bytes = vec![0; expected.len()];
    stream.read_exact(&mut bytes).unwrap();
    assert_eq!(bytes, expected);
    stream.write_all(b"select 1").unwrap();
    bytes.clear();
    stream.read_to_end(&mut bytes).unwrap();
    assert_eq!(Answer::parse(&bytes).0.body, r#"{"dataset":[[1]],"count":1}"#);
}

#[test]
fn requests_that_cannot_be_are_refused() {
    let world = World::new();
    let server = Server::start(&world);
    assert_eq!(server.get("/nowhere").status, 404);
    let wrong = server.request("DELETE /exec HTTP/1.1\r\nHost: x\r\n", b"");
    assert_eq!((wrong.status, wrong.field("Allow")), (405, Some("GET, HEAD, POST")));
    let long = format!("GET /ping HTTP/1.1\r\nHost: x\r\nX: {}\r\n", "y".repeat(70_000));
    assert_eq!(server.request(&long, b"").status, 431);
    assert_eq!(server.request("no http at all\r\n", b"").status, 400);
    for field in ["", "Host:\r\n", "Host: :80\r\n"] {
        let nowhere = server.request(&format!("GET /ping HTTP/1.1\r\n{field}"), b"");
        assert_eq!((nowhere.status, nowhere.body.contains("it names no host")), (400, true));
    }
    assert_eq!(server.request("GET /ping HTTP/1.0\r\n", b"").status, 204);
    let foreign = "GET /exec?query=select+1 HTTP/1.1\r\nHost: x\r\nOrigin: http://evil.example\r\n";
    assert_eq!(server.request(foreign, b"").status, 403);
    let own = "GET /exec?query=select+1 HTTP/1.1\r\nHost: x\r\nOrigin: http://x\r\n";
    assert_eq!(server.request(own, b"").status, 200);
}

// A page whose name is made to resolve to this machine has an `Origin` that equals its `Host`.
#[test]
fn names_that_lead_here_from_elsewhere_are_refused() {
    let world = World::new();
    let server = Server::start(&world);
    for (host, status) in [
        ("evil.example:9000", 403),
        ("evil.example", 403),
        ("localhost:9000", 200),
        ("db.localhost", 200),
        ("127.0.0.1:9000", 200),
        ("[::1]:9000", 200),
        ("tidegate", 200),
    ] {
        let request = format!("GET /exec?query=select+1 HTTP/1.1\r\nHost: {host}\r\n");
        assert_eq!(server.request(&request, b"").status, status, "{host}");
    }
    server.stop();
    let open = Server::start_with(&world, &["http.auth=off"]);
    let request = "GET /exec?query=select+1 HTTP/1.1\r\nHost: db.example\r\n";
    assert_eq!(open.request(request, b"").status, 403, "guard-5");
}

// Only `Origin` was checked, which browsers do not send with `<img src="..">` or a link: any page
// that a user visited could drop the user's tables. Browsers send `Sec-Fetch-Site` with all of
// them.
#[test]
fn no_page_of_another_place_gets_what_it_could_not_post() {
    let world = World::new();
    let server = Server::start(&world);
    for (path, site, status) in [
        ("exec", "cross-site", 403),
        // The request comes from another port of the same machine.
        ("exec", "same-site", 403),
        ("exp", "cross-site", 403),
        ("exec", "same-origin", 200),
        ("exec", "none", 200),
    ] {
        let request =
            format!("GET /{path}?query=select+1 HTTP/1.1\r\nHost: x\r\nSec-Fetch-Site: {site}\r\n");
        assert_eq!(server.request(&request, b"").status, status, "http-3: {path} {site}");
    }
}

#[test]
fn connections_have_a_limit() {
    let world = World::new();
    let server = Server::start_with(&world, &["http.max_connections=2"]);
    let mut kept: Vec<_> = (0..2).map(|_| server.connect()).collect();
    for stream in &mut kept {
        stream.write_all(b"GET /ping HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
    }
    let refused = server.get("/ping");
    assert_eq!((refused.status, refused.field("Retry-After")), (429, Some("1")));
    assert!(refused.body.contains("too many connections [limit=2]"), "{}", refused.body);
    // Health checks have connections of their own: a busy server is not a dead one. Requests that
    // were never completed took all of them.
    let half = || {
        let mut stream = server.connect_admin();
        stream.write_all(b"GET /health HTTP/1.1\r\nHost: x\r\n").unwrap();
        stream
    };
    let _halves = [(); 70].map(|()| half());
    let mut admin = server.connect_admin();
    admin.write_all(b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut bytes = Vec::new();
    admin.read_to_end(&mut bytes).unwrap();
    assert!(bytes.starts_with(b"HTTP/1.1 200 "), "{}", String::from_utf8_lossy(&bytes));
    kept.pop();
    wait_until("the next one to be let in", || server.get("/ping").status == 204);
}

#[test]
fn a_head_is_answered_where_a_get_is() {
    let world = World::new();
    let server = Server::start(&world);
    let sql = encode("SELECT x FROM long_sequence(100000)");
    for target in [
        format!("/exec?query={sql}"),
        format!("/exp?query={sql}"),
        "/exec?query=nonsense".to_owned(),
        "/api/v1/sql/validate?query=select%201".to_owned(),
        "/".to_owned(),
        "/metrics".to_owned(),
        "/openapi.json".to_owned(),
        "/ping".to_owned(),
    ] {
        let mut stream = server.connect();
        // The next request is answered too, so no byte of it was taken for a body.
        let request = format!(
            "HEAD {target} HTTP/1.1\r\nHost: x\r\n\r\nGET /ping HTTP/1.1\r\n\
                               Host: x\r\nConnection: close\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        let (head, rest) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains("\r\nX-Content-Type-Options: nosniff"), "{head}");
        let expected = if target.contains("nonsense") { "400" } else { "20" };
        assert!(head.starts_with(&format!("HTTP/1.1 {expected}")), "{head}");
        assert!(rest.starts_with("HTTP/1.1 204 No Content\r\n"), "{target}: {rest}");
        assert!(rest.contains("nosniff") && rest.ends_with("\r\n\r\n"), "{rest}");
    }
    server.stop();
}

// All of these were accepted: behind a proxy that parses them differently, a request can hide
// another one.
#[test]
fn requests_that_could_be_read_in_two_ways_are_refused() {
    let world = World::new();
    let server = Server::start(&world);
    let chunked = "POST /exec HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\n\
                   Transfer-Encoding: chunked\r\n\r\n";
    let sized = "POST /exec HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\n\
                 Content-Length: 8\r\n";
    for (request, expected) in [
        (format!("{chunked}8\r\nselect 1\r\n0\r\n\r\n"), 200),
        (format!("{chunked}8;a=b\r\nselect 1\r\n0\r\nA: b\r\n\r\n"), 200),
        (format!("{chunked}8;a\nb\r\nselect 1\r\n0\r\n\r\n"), 400),
        (format!("{chunked}8\nselect 1\r\n0\r\n\r\n"), 400),
        (format!("{chunked}8\r\nselect 1\r\n\r\n\r\n"), 400),
        (format!("{chunked}8\r\nselect 1\r\n;x\r\n\r\n"), 400),
        (format!("{chunked}8\r\nselect 1\r\n0\r\n\n"), 400),
        (format!("{chunked}0x8\r\nselect 1\r\n0\r\n\r\n"), 400),
        (format!("{sized}\r\nselect 1"), 200),
        (format!("{sized}Transfer-Encoding: \r\n\r\nselect 1"), 400),
        (format!("{sized}Transfer-Encoding: chunked\r\n\r\nselect 1"), 400),
        (chunked.replace("/1.1", "/1.0") + "8\r\nselect 1\r\n0\r\n\r\n", 400),
        // HTTP/1.0 has no status 100: the answer comes first.
        (sized.replace("/1.1", "/1.0") + "Expect: 100-continue\r\n\r\nselect 1", 200),
        ("GET HTTP://x/ping HTTP/1.1\r\nHost: x\r\n\r\n".to_owned(), 204),
        ("GET https://x/ping HTTP/1.1\r\nHost: x\r\n\r\n".to_owned(), 204),
        ("POST /write HTTP/1.0\r\n\r\nt v=1i 1".to_owned(), 411),
        ("POST /write HTTP/1.1\r\nHost: x\r\n\r\n".to_owned(), 411),
        ("POST /imp?name=t HTTP/1.1\r\nHost: x\r\n\r\n".to_owned(), 411),
        ("POST /exec?query=select+1 HTTP/1.1\r\nHost: x\r\n\r\n".to_owned(), 200),
    ] {
        assert_eq!(
            server.status(request.as_bytes()),
            expected,
            "http_wire-3, wire_body-1: {request}"
        );
    }
    server.stop();
}
