//! The routes that take statements: `/exec` and `/api/v1/sql/validate`.

use std::io::{Read, Write};

use super::client::{Answer, encode};
use crate::fixture::{Server, World, wait_until};

const ENDLESS: &str =
    "select count(*) from generate_series(1, 1000000) a, generate_series(1, 1000000) b";

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
