//! The route `/exec` and the status routes.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

use super::server::{Answer, Server, encode};
use crate::world::{World, wait_until};

#[test]
fn rows_come_in_the_form_of_questdb() {
    let world = World::new();
    let server = Server::start(&world);
    let answer = server.exec("select 1 as a, 'x\"y' as b, true as c, null as d");
    assert_eq!(answer.status, 200);
    assert_eq!(answer.field("Content-Type"), Some("application/json; charset=utf-8"));
    assert_eq!(answer.field("X-Request-Id").map(str::len), Some(16));
    assert_eq!(
        answer.body,
        concat!(
            r#"{"query":"select 1 as a, 'x\"y' as b, true as c, null as d","#,
            r#""columns":[{"name":"a","type":"LONG"},{"name":"b","type":"VARCHAR"},"#,
            r#"{"name":"c","type":"BOOLEAN"},{"name":"d","type":"VARCHAR"}],"timestamp":-1,"#,
            r#""dataset":[[1,"x\"y",true,null]],"count":1}"#
        )
    );
    let times = server.rows(
        "select cast('2025-03-01T00:00:05' as timestamp) a, cast('2025-03-01' as date) b, 0.5 c",
    );
    assert_eq!(times, r#"[["2025-03-01T00:00:05.000000Z","2025-03-01T00:00:00.000Z",0.5]]"#);
}

#[test]
fn parameters_say_what_is_sent() {
    let world = World::new();
    let server = Server::start(&world);
    let sql = encode("select * from generate_series(1, 1000) as t(x)");
    let get = |parameters: &str| server.get(&format!("/exec?query={sql}&nm=true{parameters}"));
    for (parameters, expected) in [
        ("&limit=2,5", r#"{"dataset":[[2],[3],[4],[5]],"count":4}"#),
        ("&limit=3", r#"{"dataset":[[1],[2],[3]],"count":3}"#),
        ("&limit=0", r#"{"dataset":[],"count":0}"#),
        ("&limit=5,2", r#"{"dataset":[],"count":0}"#),
        ("&limit=2&count=true", r#"{"dataset":[[1],[2]],"count":1000}"#),
        ("&limit=1&quoteLargeNum=true", r#"{"dataset":[["1"]],"count":1}"#),
        ("&limit=1&explain=true", r#"{"dataset":[[1]],"count":1,"explain":{"jitCompiled":false}}"#),
    ] {
        assert_eq!(get(parameters).body, expected, "{parameters}");
    }
    for parameters in ["&limit=x", "&limit=-1"] {
        let answer = get(parameters);
        assert_eq!(answer.status, 400, "{parameters}");
        assert!(answer.body.contains(r#""code":"22023""#), "{}", answer.body);
    }
    let timed = get("&limit=1&timings=true").body;
    assert!(timed.contains(r#""timings":{"authentication":0,"compiler":"#), "{timed}");
    let columns = server.get("/exec?nm=true&cols=b,a&query=select%201%20a,%202%20b");
    assert_eq!(columns.body, r#"{"dataset":[[2,1]],"count":1}"#);
    let unknown = server.get("/exec?cols=c&query=select%201%20a");
    assert!(unknown.body.contains(r#""code":"42703""#), "{}", unknown.body);
}

#[test]
fn statements_come_in_bodies_too() {
    let world = World::new();
    let server = Server::start(&world);
    for (ty, body) in [
        ("application/x-www-form-urlencoded", "query=select+7+x&nm=true"),
        ("application/json", r#"{"query":"select 7 x","nm":true}"#),
    ] {
        let fields = format!("Content-Type: {ty}\r\n");
        let answer = server.post("/exec", &fields, body);
        assert_eq!(answer.body, r#"{"dataset":[[7]],"count":1}"#, "{ty}");
    }
    let fields = "Content-Type: text/plain; charset=utf-8\r\n";
    let answer = server.post("/api/v1/sql/execute?nm=true", fields, "select 7 x;");
    assert_eq!(answer.body, r#"{"dataset":[[7]],"count":1}"#);
    // The statement has a megabyte, most of it a comment.
    let long = format!("select 7 x -- {}", "y".repeat(1 << 20));
    assert_eq!(server.post("/exec?nm=true", fields, &long).status, 200);
    let answer = server.post("/exec", fields, "z".repeat(20 << 20));
    assert_eq!(answer.status, 413);
    assert!(answer.body.contains(r#""code":"54000""#), "{}", answer.body);
}

#[test]
fn errors_say_what_and_where() {
    let world = World::new();
    let server = Server::start(&world);
    for (sql, status, expected) in [
        ("selec 1", 400, r#""position":0,"code":"42601""#),
        ("select \u{e9}1 from nope", 400, r#""code":"42P01""#),
        ("select x from (select 1 a)", 400, r#""position":7,"code":"42703""#),
        ("select 1; select 2", 400, r#""code":"42601""#),
        ("", 400, r#""error":"empty query","position":0,"code":"42601""#),
    ] {
        let answer = server.exec(sql);
        assert_eq!(answer.status, status, "{sql}: {}", answer.body);
        assert!(answer.body.contains(expected), "{sql}: {}", answer.body);
        assert!(answer.body.contains(r#","requestId":""#), "{}", answer.body);
    }
    assert_eq!(server.get("/exec").status, 400);
    let bad = server.get("/exec?query=%ff");
    assert_eq!(bad.status, 400);
    assert!(bad.body.contains(r#""position":0"#), "{}", bad.body);
    let notice = server.get("/exec?query=&version=2");
    assert_eq!(notice.body, r#"{"notice":"empty query","query":"","position":0}"#);
}

#[test]
fn changes_say_how_many_rows_they_touched() {
    let world = World::new();
    let server = Server::start(&world);
    for (sql, expected) in [
        (
            "create table t (ts timestamp, v long) timestamp(ts) partition by day",
            "{\"ddl\":\"OK\"}",
        ),
        ("insert into t values ('2025-03-01', 1), ('2025-03-02', 2)", "\"inserted\":2}"),
        ("update t set v = v + 1", "\"updated\":2}"),
        ("delete from t where v = 3", "\"deleted\":1}"),
    ] {
        let answer = server.exec(sql);
        assert!(answer.body.ends_with(expected), "{sql}: {}", answer.body);
    }
    assert_eq!(server.rows("select v from t"), "[[2]]");
}

#[test]
fn an_error_in_the_middle_ends_the_answer_and_the_connection() {
    let world = World::new();
    let server = Server::start(&world);
    let sql = encode("select 1 / (1000000 - x) from generate_series(1, 2000000) as t(x)");
    let answer = server.get(&format!("/exec?nm=true&query={sql}"));
    assert_eq!(answer.status, 200, "its beginning was sent already");
    let end = &answer.body[answer.body.len() - 200..];
    assert!(end.contains(r#"],"count":"#), "{end}");
    assert!(end.ends_with(r#""errorPos":9,"code":"22012"}"#), "{end}");
}

#[test]
fn a_statement_ends_at_its_time() {
    let world = World::new();
    let server = Server::start(&world);
    let sql = "select count(*) from generate_series(1, 1000000) a, generate_series(1, 1000000) b";
    let head =
        format!("GET /exec?query={} HTTP/1.1\r\nHost: x\r\nStatement-Timeout: 50\r\n", encode(sql));
    let answer = server.request(&head, b"");
    assert_eq!(answer.status, 400, "{}", answer.body);
    assert!(answer.body.contains(r#""code":"57014""#), "{}", answer.body);
}

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

// Clients that end their side after a request, as `nc -N` does, were taken for gone: statements and
// imports were cancelled, and large bodies of lines dropped.
#[test]
fn a_client_that_ends_its_side_gets_its_answer() {
    let world = World::new();
    let server = Server::start(&world);
    let answer = |request: String| {
        let mut stream = server.connect();
        stream.write_all(request.as_bytes()).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
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
fn small_routes_answer() {
    let world = World::new();
    let server = Server::start(&world);
    let ping = server.get("/ping");
    assert_eq!((ping.status, ping.field("X-Influxdb-Version")), (204, Some("v2.7.4")));
    assert!(ping.field("X-Tidegate-Version").is_some());
    assert_eq!(server.request("HEAD /ping HTTP/1.1\r\nHost: x\r\n", b"").status, 204);
    let settings = server.get("/settings").body;
    assert!(settings.contains(r#""line.proto.support.versions":[1]"#), "{settings}");
    for path in ["/health", "/health/live", "/health/ready"] {
        let answer = server.get(path);
        assert_eq!((answer.status, answer.body.as_str()), (200, "Status: Healthy\n"), "{path}");
    }
    // Clients of InfluxDB took the text for a server that is not healthy.
    let accept = "Accept: text/html, application/json;q=0.9\r\n";
    let health = server.request(&format!("GET /health HTTP/1.1\r\nHost: x\r\n{accept}"), b"");
    let expected =
        r#"{"name":"tidegate","message":"ready for queries and writes","status":"pass","#;
    assert!(health.status == 200 && health.body.starts_with(expected), "{}", health.body);
    assert_eq!(server.get("/chk?j=nope").body, "Does not exist");
    assert_eq!(server.get("/chk?j=nope&f=json").body, r#"{"status":"Does not exist"}"#);
    assert_eq!(server.get("/chk").status, 400);
    let query = server.get("/query?q=CREATE%20DATABASE%20%22telegraf%22");
    assert_eq!(query.body, r#"{"results":[{"statement_id":0}]}"#);
    let form = "Content-Type: application/x-www-form-urlencoded\r\n";
    let query = server.post("/query", form, "q=create+database+%22telegraf%22");
    assert_eq!(query.body, r#"{"results":[{"statement_id":0}]}"#);
    assert_eq!(server.post("/query", form, "q=show+databases").status, 400);
    server.exec("select 1");
    server.exec("selec 1");
    // A statement is counted after its answer was sent.
    for code in ["00000", "42601"] {
        let line = format!("tidegate_queries_total{{protocol=\"http\",code=\"{code}\"}} 1\n");
        wait_until("it to be counted", || server.get("/metrics").body.contains(&line));
    }
    assert!(server.metric("tidegate_memory_bytes") > 0.0);
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
    let server =
        Server::start_with(&world, &["http.max_connections=2", "http.admin_listen=127.0.0.1:0"]);
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
        let mut stream = TcpStream::connect(server.admin).unwrap();
        stream.write_all(b"GET /health HTTP/1.1\r\nHost: x\r\n").unwrap();
        stream
    };
    let _halves = [(); 70].map(|()| half());
    let mut admin = TcpStream::connect(server.admin).unwrap();
    admin.write_all(b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut bytes = Vec::new();
    admin.read_to_end(&mut bytes).unwrap();
    assert!(bytes.starts_with(b"HTTP/1.1 200 "), "{}", String::from_utf8_lossy(&bytes));
    kept.pop();
    wait_until("the next one to be let in", || server.get("/ping").status == 204);
}

#[test]
fn answers_are_compressed_as_clients_like_it() {
    let world = World::new();
    let server = Server::start(&world);
    let sql = encode("SELECT x, 'some text' AS t FROM long_sequence(100000)");
    for (target, name) in [("/exec?nm=true&query=", "JSON"), ("/exp?fmt=csv&query=", "CSV")] {
        let target = format!("{target}{sql}");
        let plain = server.get(&target);
        assert_eq!((plain.status, plain.field("Vary")), (200, Some("Accept-Encoding")));
        for accepted in ["gzip, deflate, br", "gzip;q=0.5, zstd"] {
            let head =
                format!("GET {target} HTTP/1.1\r\nHost: x\r\nAccept-Encoding: {accepted}\r\n");
            let bytes = server.bytes(&head, b"");
            let (status, head, body, _) = Answer::parts(&bytes);
            let (coding, mut decompressed) = ("Content-Encoding: ", Vec::new());
            if accepted.contains("zstd") {
                assert!(head.contains(&format!("{coding}zstd")), "{head}");
                decompressed = zstd::decode_all(&body[..]).unwrap();
            } else {
                assert!(head.contains(&format!("{coding}gzip")), "{head}");
                flate2::read::GzDecoder::new(&body[..]).read_to_end(&mut decompressed).unwrap();
            }
            assert!(status == 200 && decompressed == plain.body.as_bytes(), "{name}, {accepted}");
            assert!(body.len() * 3 < decompressed.len(), "{name}: {} bytes", body.len());
        }
    }
    // An error behind rows that were sent is a part of the answer.
    let sql = encode("SELECT 1 / (99999 - x) FROM long_sequence(100000)");
    let head = format!("GET /exec?query={sql} HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\n");
    let bytes = server.bytes(&head, b"");
    let (_, head, body, _) = Answer::parts(&bytes);
    let mut text = String::new();
    match head.contains("Content-Encoding: gzip") {
        true => drop(flate2::read::GzDecoder::new(&body[..]).read_to_string(&mut text).unwrap()),
        false => text = String::from_utf8(body).unwrap(),
    }
    assert!(text.contains("\"code\":\"22012\""), "{text}");
    server.stop();
}

#[test]
fn parameters_of_statements_come_in_json() {
    let world = World::new();
    let server = Server::start(&world);
    let json = "Content-Type: application/json\r\n";
    let post = |body: &str| server.post("/exec?nm=true", json, body);
    let answer = post(r#"{"query":"SELECT $1 + 2, $2, $3","params":[40, "a'b", null]}"#);
    assert!(answer.body.contains(r#"[[42,"a'b",null]]"#), "{}", answer.body);
    assert_eq!(server.exec("CREATE TABLE t (ts TIMESTAMP, v DOUBLE) TIMESTAMP(ts)").status, 200);
    let insert = r#"{"query":"INSERT INTO t VALUES ($1, $2)","params":["2025-03-01", 0.5]}"#;
    assert!(post(insert).body.contains("\"inserted\":1"), "{}", post(insert).body);
    let missing = post(r#"{"query":"SELECT $1","params":[]}"#);
    assert_eq!(missing.status, 400, "{}", missing.body);
    server.stop();
}

#[test]
fn a_statement_can_be_looked_at_without_doing_it() {
    let world = World::new();
    let server = Server::start(&world);
    assert_eq!(server.exec("CREATE TABLE t (v INT, ts TIMESTAMP) TIMESTAMP(ts)").status, 200);
    let ask = |sql: &str| server.get(&format!("/api/v1/sql/validate?query={}", encode(sql)));
    let expected = concat!(
        r#"{"query":"SELECT * FROM t","columns":[{"name":"v","type":"INT"},"#,
        r#"{"name":"ts","type":"TIMESTAMP"}],"timestamp":1}"#
    );
    assert_eq!(ask("SELECT * FROM t").body, expected);
    assert_eq!(ask("insert into t values (1, 0)").body, r#"{"queryType":"INSERT"}"#);
    assert_eq!(ask("drop table t").body, r#"{"queryType":"DROP"}"#);
    let wrong = ask("SELECT nope FROM t");
    assert!(wrong.status == 400 && wrong.body.contains("\"42703\""), "{}", wrong.body);
    assert_eq!(server.count("t"), Some(0));
    server.stop();
}

#[test]
fn the_server_describes_itself() {
    let world = World::new();
    let server = Server::start(&world);
    let answer = server.get("/openapi.json");
    assert!(answer.body.contains("\"openapi\": \"3.1.0\""), "{}", answer.body);
    assert_eq!(answer.field("Content-Type"), Some("application/json; charset=utf-8"));
    let warnings = server.get("/warnings").body;
    assert!(warnings.starts_with("[{\"warning\":\"http.auth = auto"), "{warnings}");
    server.stop();
    let open = ["serve", "--http", "0.0.0.0:0", "--ilp", "none", "--set", "http.auth=off"];
    let open = Server::spawn(&mut world.command(&open));
    assert!(open.get("/warnings").body.starts_with("[{\"warning\":\"http.listen"));
    open.stop();
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
fn statements_may_come_compressed() {
    let world = World::new();
    let server = Server::start_with(&world, &["http.max_sql_bytes=64KiB"]);
    let gzip = |text: &str| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    };
    let post = |coding: &str, body: &[u8]| {
        let fields = format!("Content-Type: text/plain\r\nContent-Encoding: {coding}\r\n");
        server.post("/exec", &fields, body)
    };
    let sql = "SELECT 40 + 2";
    for answer in [
        post("gzip", &gzip(sql)),
        post("zstd", &zstd::encode_all(sql.as_bytes(), 1).unwrap()),
        post("identity", sql.as_bytes()),
    ] {
        assert!(answer.status == 200 && answer.body.contains("[[42]]"), "{}", answer.body);
    }
    assert_eq!(post("br", sql.as_bytes()).status, 415);
    assert_eq!(post("gzip", sql.as_bytes()).status, 400);
    // The decompressed text has the length limit of any statement.
    let bomb = gzip(&format!("SELECT 1 {}", " ".repeat(10 << 20)));
    assert_eq!((post("gzip", &bomb).status, bomb.len() < 1 << 20), (413, true));
    server.stop();
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
