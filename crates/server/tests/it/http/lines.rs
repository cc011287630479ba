//! The line protocol over HTTP: the answers, and the stored rows.

use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::thread;

use tidegate_query::Role;

use super::client::{Answer, gzip};
use crate::fixture::{Server, World, wait_until};

#[track_caller]
fn check(answer: &Answer, status: u16, expected: &str) {
    assert_eq!(answer.status, status, "{}", answer.body);
    assert!(answer.body.contains(expected), "{} lacks {expected}", answer.body);
}

#[test]
fn acknowledged_rows_are_there() {
    let world = World::new();
    let server = Server::start(&world);
    let lines = "cpu,host=a,region=eu usage=0.5,cores=4i,ok=t,note=\"x y\" 1700000000000000000\n\
                 cpu,host=b usage=1.5 1700000001000000000";
    let answer = server.post("/write", "", lines);
    assert_eq!((answer.status, answer.body.as_str()), (204, ""));
    let rows = server.rows("select * from cpu");
    assert_eq!(
        rows,
        concat!(
            r#"[["a","eu",0.5,4,true,"x y","2023-11-14T22:13:20.000000Z"],"#,
            r#"["b",null,1.5,null,null,null,"2023-11-14T22:13:21.000000Z"]]"#
        )
    );
    let columns = server.exec("select * from cpu limit 0").body;
    for ty in ["SYMBOL", "DOUBLE", "LONG", "BOOLEAN", "VARCHAR", "TIMESTAMP"] {
        assert!(columns.contains(&format!(r#""type":"{ty}""#)), "{columns}");
    }
    assert_eq!(server.get("/chk?j=cpu").body, "Exists");
}

#[test]
fn empty_bodies_and_all_line_ends_are_fine() {
    let world = World::new();
    let server = Server::start(&world);
    for lines in ["", "\n\n# only a comment\n", "t v=1i 1\r\n", "t v=2i 2", "#c\n\nt v=3i 3\n"] {
        let answer = server.post("/api/v2/write?org=o&bucket=b", "", lines);
        assert_eq!(answer.status, 204, "{lines:?}: {}", answer.body);
    }
    assert_eq!(server.rows("select v from t order by v"), "[[1],[2],[3]]");
}

#[test]
fn one_bad_line_means_that_nothing_is_there() {
    let world = World::new();
    let server = Server::start(&world);
    assert_eq!(server.post("/write", "", "a v=1i 1\nb v=1i 1").status, 204);
    let mut lines = String::new();
    for number in 1..=10_000 {
        if number == 9_999 {
            lines += "a v=21,5 1\n";
            continue;
        }
        let table = ["a", "b", "c"][number % 3];
        writeln!(lines, "{table} v={number}i,new{}=1i {number}", number % 2).unwrap();
    }
    let answer = server.post("/write", "", &lines);
    check(&answer, 400, r#""line":9999,"errorId":""#);
    assert!(
        answer.body.starts_with(r#"{"code":"invalid","message":"line 9999: "#),
        "{}",
        answer.body
    );
    assert_eq!((server.count("a"), server.count("b"), server.count("c")), (Some(1), Some(1), None));
    assert!(!server.exec("select * from a limit 0").body.contains("new0"));
    // The reject is in the log and in the table of rejects.
    let id = answer.body.split("\"errorId\":\"").nth(1).unwrap().trim_end_matches("\"}");
    server.wait_for(id);
    server.wait_for_rows("sys.ilp_rejects", 1);
    let kept =
        server.rows("select source, table_name, line, raw, error_id from \"sys.ilp_rejects\"");
    assert_eq!(kept, format!(r#"[["http","a",9999,"a v=21,5 1","{id}"]]"#));
    assert_eq!(server.rows("select count(*) from sys.ilp_rejects"), "[[1]]");
}

#[test]
fn precision_is_that_of_the_request() {
    let world = World::new();
    let server = Server::start(&world);
    for (precision, time) in [
        ("n", "3600000000000"),
        ("ns", "3600000000000"),
        ("u", "3600000000"),
        ("us", "3600000000"),
        ("%C2%B5s", "3600000000"),
        ("ms", "3600000"),
        ("s", "3600"),
        ("m", "60"),
        ("h", "1"),
        ("s", "3600000m"),
    ] {
        let target = format!("/write?precision={precision}");
        let answer = server.post(&target, "", format!("t v=1i {time}"));
        assert_eq!(answer.status, 204, "{precision}: {}", answer.body);
    }
    let rows = server.rows("select timestamp, count(*) from t group by timestamp");
    assert_eq!(rows, r#"[["1970-01-01T01:00:00.000000Z",10]]"#);
    check(&server.post("/write?precision=ps", "", "t v=1i 1"), 400, r#""code":"not supported""#);
}

#[test]
fn a_body_may_come_in_parts() {
    let world = World::new();
    let server = Server::start(&world);
    let body =
        b"--b\r\nContent-Disposition: form-data; name=\"data\"\r\n\r\nt v=1i 1\r\n--b\r\n\r\n\
                 t v=2i 2\nt v=3i 3\n\r\n--b--\r\n";
    let fields = "Content-Type: multipart/form-data; boundary=b\r\n";
    let answer = server.post("/write", fields, body);
    assert_eq!((answer.status, answer.body.as_str()), (204, ""));
    let compressed = format!("{fields}Content-Encoding: gzip\r\n");
    assert_eq!(server.post("/write", &compressed, gzip(body)).status, 204);
    assert_eq!(
        server.rows("select v, count(*) from t group by v order by v"),
        "[[1,2],[2,2],[3,2]]"
    );
    let cut = &body[..body.len() - 9];
    check(&server.post("/write", fields, cut), 400, "it has no last boundary");
    let unnamed = "Content-Type: multipart/form-data\r\n";
    check(&server.post("/write", unnamed, body), 400, "its type names no boundary");
    assert_eq!(server.count("t"), Some(6));
}

// Each chunk of one byte held a kilobyte of the memory for rows until a megabyte of text had come:
// a small body kept all other writers waiting.
#[test]
fn chunks_of_one_byte_hold_little_memory() {
    let world = World::new();
    let server = Server::start_with(&world, &["memory.ingest_limit=4MiB"]);
    let head = "POST /write HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\
                Transfer-Encoding: chunked\r\n\r\n9\r\nt v=1i 1\n\r\n";
    let body = [head, &"1\r\n\n\r\n".repeat(20_000), "0\r\n\r\n"].concat();
    let mut stream = server.connect();
    stream.write_all(body.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 204"), "{answer}");
    assert_eq!(server.count("t"), Some(1));
}

#[test]
fn messages_show_what_was_sent() {
    let world = World::new();
    let server = Server::start(&world);
    let answer = server.post("/write", "", "t v=a\"b\\c 1");
    // The message escapes as in JSON, and no further.
    check(&answer, 400, r#"field 'v' has value 'a\"b\\c', which is not a number"#);
    let answer = server.exec("select \"no such\" from \"t'\"");
    check(&answer, 400, r#""query":"select \"no such\" from \"t'\"","error":"#);
    assert!(!answer.body.contains(r#"\\"#), "{}", answer.body);
}

#[test]
fn integers_make_the_type_that_is_configured() {
    let world = World::new();
    let server = Server::start_with(&world, &["ilp.integer_type=smallint"]);
    assert_eq!(server.post("/write", "", "t v=1i 1").status, 204);
    assert!(server.exec("select v from t").body.contains(r#"{"name":"v","type":"SHORT"}"#));
    check(&server.post("/write", "", "t v=40000i 1"), 400, "of type SMALLINT: out of range");
}

#[test]
fn only_post_writes() {
    let world = World::new();
    let server = Server::start(&world);
    check(&server.get("/write"), 404, r#""code":"invalid""#);
    check(&server.get("/api/v2/write"), 404, r#""code":"invalid""#);
}

#[test]
fn names_are_checked() {
    let world = World::new();
    let server = Server::start(&world);
    let long = "n".repeat(127);
    for line in [
        "a\\ b v=1i 1",
        "a.b v=1i 1",
        "a-b v=1i 1",
        "\u{1f30a} v=1i 1",
        "t x.y=1i,x-y=2i 1",
        &format!("{long} {long}=1i 1"),
    ] {
        let answer = server.post("/write", "", line);
        assert_eq!(answer.status, 204, "{line}: {}", answer.body);
    }
    assert_eq!(server.count("a b"), Some(1));
    for line in ["a?b v=1i 1", ".a v=1i 1", "a/b v=1i 1", "t a?b=1i 1", &format!("{long}n v=1i 1")]
    {
        check(&server.post("/write", "", line), 400, r#""line":1,"#);
    }
}

#[test]
fn tables_of_the_system_are_not_for_lines() {
    let world = World::new();
    let server = Server::start(&world);
    let rejects = || server.rows("select count(*) from sys.ilp_rejects where peer = 'me'");
    for _ in 0..2 {
        for line in ["sys.ilp_rejects peer=\"me\" 1", "SYS.other v=1i 1"] {
            check(&server.post("/write", "", line), 400, "are the system's own");
        }
        // The second round runs with the table in place.
        wait_until("rejects to be kept", || server.count("sys.ilp_rejects") > Some(0));
        assert_eq!(rejects(), "[[0]]");
    }
    assert_eq!(server.count("sys.other"), None);
}

#[test]
fn values_that_do_not_fit_are_refused() {
    let world = World::new();
    let server = Server::start(&world);
    server.exec(
        "create table t (ts timestamp, tiny tinyint, whole int, id uuid) timestamp(ts) \
         partition by day",
    );
    let fine = "t tiny=127i,whole=2.0,id=\"00010203-0405-0607-0809-0a0b0c0d0e0f\" 1";
    assert_eq!(server.post("/write", "", fine).status, 204);
    for bad in ["t tiny=128i 1", "t whole=1.5 1", "t id=\"x\" 1"] {
        check(&server.post("/write", "", format!("t tiny=1i 1\n{bad}")), 400, r#""line":2,"#);
    }
    assert_eq!(server.count("t"), Some(1));
}

#[test]
fn doubled_columns_and_the_time_as_a_field() {
    let world = World::new();
    let server = Server::start(&world);
    let lines = "t v=1i,v=2i,V=3i 1\nt v=4i,timestamp=5000i 1";
    assert_eq!(server.post("/write", "", lines).status, 204);
    let rows = server.rows("select v, timestamp from t");
    assert!(rows.starts_with("[[1,\"1970-01-01T00:00:00.000000Z\"],[4,"), "{rows}");
}

#[test]
fn creation_can_be_switched_off() {
    let world = World::new();
    let keys = ["ilp.create_columns=false", "ilp.create_tables=false"];
    let server = Server::start_with(&world, &keys);
    server.exec("create table t (ts timestamp, v long) timestamp(ts) partition by day");
    assert_eq!(server.post("/write", "", "t v=1i 1").status, 204);
    check(&server.post("/write", "", "t v=1i,w=2i 1"), 400, "column 'w'");
    check(&server.post("/write", "", "u v=1i 1"), 400, "table 'u'");
    assert_eq!((server.count("t"), server.count("u")), (Some(1), None));
}

#[test]
fn good_lines_go_in_when_that_is_asked_for() {
    let world = World::new();
    let server = Server::start(&world);
    let lines = "t v=1i 1\nt v=x 2\nt v=3i 3\nt\n";
    let answer = server.post("/write?on_error=skip", "", lines);
    check(
        &answer,
        200,
        r#"{"code":"partial write","accepted":2,"rejected":2,"errors":[{"line":2,"#,
    );
    assert_eq!(server.rows("select v from t order by v"), "[[1],[3]]");
    assert_eq!(server.post("/write?on_error=skip", "", "t v=4i 4").status, 204);
    check(&server.post("/write?on_error=maybe", "", "t v=4i 4"), 400, r#""not supported""#);
}

#[test]
fn a_named_request_goes_in_once() {
    let world = World::new();
    let server = Server::start(&world);
    for key in ["first", "first", "second", "first"] {
        let fields = format!("Idempotency-Key: {key}\r\n");
        let answer = server.post("/write", &fields, "t v=1i 1\nu v=1i 1");
        assert_eq!(answer.status, 204, "{}", answer.body);
    }
    assert_eq!((server.count("t"), server.count("u")), (Some(2), Some(2)));
    let long = format!("Idempotency-Key: {}\r\n", "k".repeat(65));
    check(&server.post("/write", &long, "t v=1i 1"), 400, r#""code":"invalid""#);
}

// Only the name counted: of two clients that number their batches 1, 2, 3, one lost rows and got
// status 204.
#[test]
fn a_name_stands_for_one_request_of_one_user() {
    let world = World::new();
    let keys = ["http.auth=required", "auth.admin_password=a better one"];
    let server = Server::start_with(&world, &keys);
    for name in ["ann", "bob"] {
        world.add_user(name, Role::Writer, "secret");
    }
    let post = |server: &Server, name: &str, target: &str, lines: &[u8], more: &str| {
        let fields = format!("Authorization: Token {name}:secret\r\nIdempotency-Key: 1\r\n{more}");
        server.post(target, &fields, lines)
    };
    let check_reused = |server: &Server| {
        for (name, target, lines) in [
            ("ann", "/write", &b"t v=2i 2"[..]),
            ("ann", "/write", b"other v=1i 1"),
            ("ann", "/write", b""),
            ("ann", "/write?precision=ms", b"t v=1i 1"),
            ("bob", "/write", b"t v=1i 1"),
        ] {
            let answer = post(server, name, target, lines, "");
            // A request without rows writes nothing, so its name is free after a restart.
            check(&answer, 422, "Idempotency-Key was used for another request");
        }
    };
    assert_eq!(post(&server, "ann", "/write", b"t v=1i 1", "").status, 204);
    assert_eq!(post(&server, "ann", "/write", b"t v=1i 1", "").status, 204);
    let compressed = gzip(b"t v=1i 1");
    let again = post(&server, "ann", "/write", &compressed, "Content-Encoding: gzip\r\n");
    assert_eq!(again.status, 204, "the same text: {}", again.body);
    check_reused(&server);
    server.stop();
    let server = Server::start_with(&world, &keys);
    check_reused(&server);
    assert_eq!(post(&server, "ann", "/write", b"t v=1i 1", "").status, 204);
    server.stop();
    let server = Server::start(&world);
    assert_eq!(server.rows("select count(*), count(v) from t"), "[[1,1]]");
    assert_eq!(server.count("other"), None);
}

#[test]
fn a_repeat_is_answered_as_the_first_request_was() {
    let world = World::new();
    let server = Server::start(&world);
    let target = "/write?on_error=skip";
    let post = |server: &Server, lines: &str| server.post(target, "Idempotency-Key: k\r\n", lines);
    let first = post(&server, "t v=1i 1\nt v=x 2\nt v=3i 3");
    check(&first, 200, r#""accepted":2,"rejected":1,"#);
    // A change of the table does not change the answer to the repeat.
    server.exec("alter table t add column w symbol");
    let again = post(&server, "t v=1i 1\nt v=x 2\nt v=3i 3");
    assert_eq!((again.status, &again.body), (200, &first.body), "http_write-2");
    assert_eq!(server.count("t"), Some(2));
    assert_eq!(server.metric(r#"tidegate_rows_written_total{protocol="http"}"#), 2.0);
    server.stop();
    // The tables remember the name longer than the cache of answers.
    let server = Server::start(&world);
    assert_eq!(post(&server, "t v=1i 1\nt v=x 2\nt v=3i 3").status, 204, "http_write-2");
    assert_eq!(server.count("t"), Some(2));
}

#[test]
fn writers_that_add_columns_at_once_all_succeed() {
    const WRITERS: usize = 32;
    let world = World::new();
    let server = Server::start(&world);
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            let server = &server;
            scope.spawn(move || {
                for row in 0..4 {
                    let line = format!("t c{writer}={row}i,common={row}i {}", writer * 10 + row);
                    let answer = server.post("/write", "", &line);
                    assert_eq!(answer.status, 204, "{}", answer.body);
                }
            });
        }
    });
    assert_eq!(server.count("t"), Some(4 * WRITERS as u64));
    for writer in 0..WRITERS {
        assert_eq!(server.rows(&format!("select count(c{writer}) from t")), "[[4]]");
    }
}

#[test]
fn strings_that_are_longer_than_their_column_are_rejected() {
    let world = World::new();
    let server = Server::start(&world);
    let table = "CREATE TABLE t (v VARCHAR(2), ts TIMESTAMP) TIMESTAMP(ts)";
    assert_eq!(server.exec(table).status, 200);
    check(&server.post("/write", "", "t v=\"ab\" 1\nt v=\"abc\" 2"), 400, "\"line\":2");
    let answer =
        server.post("/write?on_error=skip", "", "t v=\"ab\" 1\nt,v=abc x=1 2\nt v=\"c\" 3");
    assert!(!answer.body.contains("\"line\":1"), "{}", answer.body);
    assert_eq!(server.rows("select v from t"), r#"[["ab"],["c"]]"#);
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
