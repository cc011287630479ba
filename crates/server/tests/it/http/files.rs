//! Uploads by `/imp`, and exports by `/exp`.

use std::io::Write;

use super::client::{Answer, encode};
use crate::fixture::{Server, World, wait_until};

/// Schema of a table with every type.
const EVERY_TYPE: &str = "CREATE TABLE all_types (ts TIMESTAMP, a BOOLEAN, b TINYINT, c SMALLINT, \
     d INT, e BIGINT, f UTINYINT, g USMALLINT, h UINT, i UBIGINT, j FLOAT, k DOUBLE, \
     l DECIMAL(10,3), m TIMESTAMP_NS, n DATE, o SYMBOL, p VARCHAR, q BINARY, r UUID, s IPV4) \
     TIMESTAMP(ts) PARTITION BY DAY";
const ROWS: &str = "INSERT INTO all_types VALUES \
     ('2025-03-01T00:00:00.000001', true, -128, -32768, -2147483648, -9223372036854775808, 0, 0, \
      0, 0, 0.1, 5e-324, -0.001, '1970-01-01T00:00:00.000000001', '1969-12-31', 'a b', \
      'say \"x\", \\ and', NULL, '00010203-0405-0607-0809-0a0b0c0d0e0f', '192.168.0.1'), \
     ('2025-03-02T00:00:00', false, 127, 32767, 2147483647, 9223372036854775807, 255, 65535, \
      4294967295, 18446744073709551615, -1e30, 'Infinity'::DOUBLE, 9999999.999, \
      '2262-01-01T00:00:00', '2025-03-01', '', '', NULL, NULL, '0.0.0.0'), \
     ('2025-03-03T00:00:00', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, \
      'NaN'::DOUBLE, NULL, NULL, NULL, NULL, ' edge', NULL, NULL, NULL), \
     ('2025-03-04T00:00:00', NULL, 0, 0, 0, 0, 1, 1, 1, 1, 1.5, -0.0, 0, NULL, NULL, \
      'gr\u{fc}n', 'two\nlines', NULL, NULL, NULL)";

/// Returns a multipart body, as browsers send forms.
fn form(parts: &[(&str, &str)]) -> (String, String) {
    let mut body = String::new();
    for (fields, text) in parts {
        body += &format!("--XyZ\r\nContent-Disposition: form-data; {fields}\r\n\r\n{text}\r\n");
    }
    body += "--XyZ--\r\n";
    ("Content-Type: multipart/form-data; boundary=XyZ\r\n".to_owned(), body)
}

fn upload(server: &Server, parameters: &str, parts: &[(&str, &str)]) -> Answer {
    let (fields, body) = form(parts);
    server.post(&format!("/imp?{parameters}"), &fields, body)
}

fn exported(server: &Server, sql: &str, parameters: &str) -> Answer {
    server.get(&format!("/exp?query={}{parameters}", encode(sql)))
}

#[track_caller]
fn check_code(answer: &Answer, status: u16, code: &str) {
    assert_eq!(answer.status, status, "{}", answer.body);
    assert!(answer.body.contains(&format!("\"code\":\"{code}\"")), "{}", answer.body);
}

#[test]
fn an_export_imports_to_equal_rows() {
    let world = World::new();
    let server = Server::start(&world);
    assert_eq!(server.exec(EVERY_TYPE).status, 200);
    let inserted = server.exec(ROWS);
    assert_eq!(inserted.status, 200, "{}", inserted.body);
    let first = exported(&server, "SELECT * FROM all_types", "");
    assert_eq!(first.status, 200, "{}", first.body);
    assert_eq!(first.field("Content-Type"), Some("text/csv; charset=utf-8"));
    let disposition = first.field("Content-Disposition").unwrap();
    assert!(disposition.starts_with("attachment; filename=\"tidegate-query-"), "{disposition}");
    assert!(first.body.contains("\"two\nlines\""), "{}", first.body);
    let copy = server.exec("CREATE TABLE again (LIKE all_types)");
    assert_eq!(copy.status, 200, "{}", copy.body);
    let parts = [("name=\"data\"; filename=\"x\"", first.body.as_str())];
    let imported = upload(&server, "name=again&fmt=json&forceHeader=true&atomicity=abort", &parts);
    assert_eq!(imported.status, 200, "{}", imported.body);
    assert!(imported.body.contains("\"rowsRejected\":0,\"rowsImported\":4"), "{}", imported.body);
    let second = exported(&server, "SELECT * FROM again", "");
    assert_eq!(second.body, first.body);
}

#[test]
fn rows_are_exported_as_they_are_asked_for() {
    let world = World::new();
    let server = Server::start(&world);
    let sql = "select * from generate_series(1, 10) as t(x)";
    let text = |parameters: &str| exported(&server, sql, parameters).body;
    assert_eq!(text("&limit=2"), "\"x\"\r\n1\r\n2\r\n");
    assert_eq!(text("&limit=2,4&nm=true"), "3\r\n4\r\n");
    assert_eq!(text("&limit=-2"), "\"x\"\r\n9\r\n10\r\n");
    assert_eq!(text("&limit=1&fmt=ndjson"), "{\"x\":1}\n");
    let parameters = "&filename=../../x%0d%0aSet-Cookie:a";
    let named = exported(&server, sql, parameters);
    let expected = "attachment; filename=\"....xSet-Cookie:a\"";
    assert_eq!(named.field("Content-Disposition"), Some(expected));
    assert_eq!(named.field("Set-Cookie"), None);
    check_code(&exported(&server, "CREATE TABLE x (a INT)", ""), 400, "42601");
    check_code(&exported(&server, "SELECT * FROM nothing", ""), 400, "42P01");
    check_code(&exported(&server, sql, "&fmt=xml"), 400, "22023");
    let posted = server.post("/exp", "Content-Type: text/plain\r\n", "select 1 as a");
    assert_eq!(posted.body, "\"a\"\r\n1\r\n");
}

// A chunk without bytes is the last one. An answer without rows, or whose rows had all been sent
// before its end, ended twice: the client read the next answer as one that began with `0`.
#[test]
fn an_export_ends_once_and_the_next_answer_follows() {
    let world = World::new();
    let server = Server::start(&world);
    let get = |sql: &str, parameters: &str| {
        format!("GET /exp?query={}{parameters} HTTP/1.1\r\nHost: x\r\n\r\n", encode(sql))
    };
    let mut stream = server.connect();
    let empty = get("select * from generate_series(1, 0) as t(x)", "&fmt=ndjson");
    // The rows are one batch, which is larger than a chunk.
    let large = get("select repeat('x', 100000) as x", "&nm=true");
    let ping = "GET /ping HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    stream.write_all(format!("{empty}{large}{ping}").as_bytes()).unwrap();
    let mut bytes = Vec::new();
    std::io::Read::read_to_end(&mut stream, &mut bytes).unwrap();
    let (first, rest) = Answer::parse(&bytes);
    let (second, rest) = Answer::parse(rest);
    let (third, rest) = Answer::parse(rest);
    assert_eq!((first.status, first.body.as_str()), (200, ""));
    assert_eq!((second.status, second.body.len()), (200, 100_004));
    assert_eq!((third.status, rest.len()), (204, 0), "http-1: {}", third.head);
}

// Answers to HTTP/1.0, which has no chunks, came in chunks: the chunk sizes became part of the
// file.
#[test]
fn an_old_client_gets_a_file_without_chunks() {
    let world = World::new();
    let server = Server::start(&world);
    for (path, expected) in [
        ("exp?query=select+1+as+a", "\"a\"\r\n1\r\n"),
        ("exec?nm=true&query=select+1+as+a", r#"{"dataset":[[1]],"count":1}"#),
    ] {
        let mut stream = server.connect();
        let request = format!("GET /{path} HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut text = String::new();
        std::io::Read::read_to_string(&mut stream, &mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(!head.contains("Transfer-Encoding"), "{head}");
        assert!(head.ends_with("Connection: close"), "{head}");
        assert_eq!(body, expected);
    }
}

#[test]
fn an_upload_makes_a_table_or_adds_to_it() {
    let world = World::new();
    let server = Server::start(&world);
    let schema = r#"[{"name":"ts","type":"TIMESTAMP","pattern":"dd.MM.yyyy"},
                     {"name":"site","type":"SYMBOL"}]"#;
    let csv = "ts,site,load\n01.03.2025,oslo,1.5\n02.03.2025,rome,x\n";
    let parts = [("name=\"schema\"", schema), ("name=\"data\"; filename=\"grid\"", csv)];
    let answer = upload(&server, "fmt=json&timestamp=ts&partitionBy=DAY", &parts);
    assert_eq!(answer.status, 200, "{}", answer.body);
    for expected in [
        r#"{"status":"OK","location":"grid","rowsRejected":0,"rowsImported":2,"header":true,"#,
        r#""partitionBy":"DAY","timestamp":"ts""#,
        r#"{"name":"site","type":"SYMBOL","size":4,"errors":0}"#,
    ] {
        assert!(answer.body.contains(expected), "{expected}: {}", answer.body);
    }
    // Raw bodies are taken too, and parameters that contradict the table are reported.
    let raw = "ts,load,site\n2025-03-03,2.5,oslo\n";
    let target = "/imp?name=grid&fmt=json&partitionBy=HOUR";
    let answer = server.post(target, "Content-Type: text/csv\r\n", raw);
    assert_eq!(answer.status, 200, "{}", answer.body);
    let warning = "table is partitioned by DAY, partitionBy ignored";
    assert!(answer.body.contains(warning), "{}", answer.body);
    assert_eq!(server.rows("SELECT count(*) FROM grid"), "[[3]]");
    let plain = upload(&server, "name=grid", &[("name=\"data\"", raw)]);
    assert!(plain.body.starts_with("status: OK\nlocation: grid\n"), "{}", plain.body);
}

// Values beyond the columns were dropped without a warning, and so was a misspelt parameter.
#[test]
fn an_upload_warns_of_what_it_leaves_out() {
    let world = World::new();
    let server = Server::start(&world);
    let parts = [("name=\"data\"; filename=\"t\"", "id,v\n1,2\n3,4,extra\n5\n")];
    let answer = upload(&server, "fmt=json&skiplev=true", &parts);
    assert_eq!(answer.status, 200, "{}", answer.body);
    for expected in [
        "there is no parameter `skiplev`, ignored",
        "t: values beyond the last column were left out, rows: 1, the first in line 3",
        "t: columns are NULL for want of values, rows: 1, the first in line 4",
    ] {
        assert!(answer.body.contains(expected), "{expected}: {}", answer.body);
    }
    // A message names the options of this interface.
    let json = [("name=\"data\"; filename=\"j\"", "{\"a\":1}\n")];
    let answer = upload(&server, "fmt=json", &json);
    assert!(answer.body.contains("FORMAT csv") && !answer.body.contains("--"), "{}", answer.body);
}

#[test]
fn an_upload_that_fails_changes_nothing() {
    let world = World::new();
    let server = Server::start(&world);
    server.exec("CREATE TABLE t (ts TIMESTAMP, v DOUBLE) TIMESTAMP(ts) PARTITION BY DAY");
    server.exec("INSERT INTO t VALUES ('2025-03-01', 1)");
    let bad = "ts,v\n2025-03-02,2\n2025-03-03,x\n";
    let answer = upload(&server, "name=t&fmt=json&atomicity=abort", &[("name=\"data\"", bad)]);
    check_code(&answer, 400, "22P02");
    assert!(answer.body.contains("\"line\":3,\"column\":\"v\""), "{}", answer.body);
    let data = ("name=\"data\"", bad);
    let schema = ("name=\"schema\"", "[]");
    for (parameters, parts, status, code) in [
        ("name=t", vec![data, schema], 400, "08P01"),
        ("name=t", vec![("name=\"file\"", bad)], 400, "08P01"),
        ("name=t", vec![("filename=\"x\"", bad)], 400, "08P01"),
        ("name=t", vec![], 400, "08P01"),
        ("name=new&create=false", vec![data], 400, "42P01"),
        ("", vec![data], 400, "22023"),
        ("name=t&atomicity=x", vec![data], 400, "22023"),
        ("name=t&overwrite=true&atomicity=abort&timestamp=v", vec![data], 400, "22023"),
    ] {
        check_code(&upload(&server, &format!("{parameters}&fmt=json"), &parts), status, code);
    }
    // The client cuts the connection in the middle of a body.
    let mut stream = server.connect();
    let head = "POST /imp?name=t HTTP/1.1\r\nHost: x\r\nContent-Type: text/csv\r\n\
                Content-Length: 1000000\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(b"ts,v\n2025-03-02,2\n").unwrap();
    drop(stream);
    wait_until("the job to end", || server.rows("SELECT count(*) FROM copy_progress()") == "[[0]]");
    assert_eq!(server.rows("SELECT v FROM t"), "[[1.0]]", "imp-1");
    assert_eq!(server.count("new"), None, "imp-1");
    let empty = upload(&server, "name=t&fmt=json", &[("name=\"data\"", "")]);
    assert!(empty.body.contains("\"rowsImported\":0"), "{}", empty.body);
}

#[test]
fn an_upload_may_replace_a_table() {
    let world = World::new();
    let server = Server::start(&world);
    let csv = "a,b\n1,x\n2,y\n";
    let parts = [("name=\"data\"", csv)];
    assert_eq!(upload(&server, "name=t", &parts).status, 200);
    let other = [("name=\"data\"", "c\n7\n")];
    let answer = upload(&server, "name=t&overwrite=true&forceHeader=true", &other);
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert_eq!(server.rows("SELECT * FROM t"), "[[7]]");
    server.stop();
    let server = Server::start(&world);
    assert_eq!(server.rows("SELECT * FROM t"), "[[7]]");
}
