//! Imports and exports of a server by `/imp`, `/exp` and COPY.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::symlink;

use super::server::{Answer, Server, encode};
use crate::world::{World, wait_until};

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

#[test]
fn an_export_that_fails_has_no_end() {
    let world = World::new();
    let server = Server::start(&world);
    let sql = "select 5 + 1 / (1000000 - x) from generate_series(1, 1000001) as t(x)";
    let mut stream = server.connect();
    let head = format!("GET /exp?query={} HTTP/1.1\r\nHost: x\r\n\r\n", encode(sql));
    stream.write_all(head.as_bytes()).unwrap();
    let mut bytes = Vec::new();
    std::io::Read::read_to_end(&mut stream, &mut bytes).unwrap();
    assert!(bytes.starts_with(b"HTTP/1.1 200 "), "some rows were sent");
    assert!(!bytes.ends_with(b"0\r\n\r\n"), "exp-2: the last chunk is missing");
    let mut old = server.connect();
    old.write_all(head.replace("HTTP/1.1", "HTTP/1.0").as_bytes()).unwrap();
    let read = std::io::Read::read_to_end(&mut old, &mut Vec::new());
    assert!(read.is_err(), "exp-2: the connection is reset");
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
fn columns_of_a_file_are_left_out_by_name() {
    let (_world, server) = with_files(&[("wide.csv", "a,b,c\n1,2,3\n")], &[]);
    let parts = [("name=\"data\"", "a,b,\"b\"\n1,2,3\n")];
    let answer = upload(&server, "name=t&fmt=json&skipColumns=B", &parts);
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert_eq!(server.rows("SELECT * FROM t"), "[[1]]");
    let answer = upload(&server, "name=u&fmt=json&skipColumns=x", &parts);
    check_code(&answer, 400, "42703");
    let rows = server.rows("COPY u FROM 'wide.csv' (SKIP_COLUMNS (c, \"A\"), WAIT)");
    assert!(rows.ends_with("\"finished\",1,1,0]]"), "{rows}");
    assert_eq!(server.rows("SELECT * FROM u"), "[[2]]");
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

/// Starts a server with files below its root for COPY.
fn with_files(files: &[(&str, &str)], keys: &[&str]) -> (World, Server) {
    let world = World::new();
    for (path, text) in files {
        let path = world.path(&format!("db/import/{path}"));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let server = Server::start_with(&world, keys);
    (world, server)
}

#[test]
fn copy_imports_files_below_its_root() {
    let files = [
        ("a.csv", "ts,v\n2025-03-01,1\n2025-03-02,2\n"),
        ("day/x1.csv", "ts,v\n2025-03-03,3\n"),
        ("day/x2.csv", "v,ts\n4,2025-03-04\n"),
        ("bad.csv", "ts,v\n2025-03-05,x\n2025-03-06,6\n"),
    ];
    let (_world, server) = with_files(&files, &[]);
    let sql = "COPY t FROM 'a.csv' WITH TIMESTAMP ts PARTITION BY DAY WAIT";
    let rows = server.rows(sql);
    assert!(rows.ends_with("\"finished\",2,2,0]]"), "{rows}");
    // Without WAIT the answer is an id, and the log has the outcome.
    let id = server.rows("COPY t FROM 'day/x?.csv'");
    let id = id.trim_matches(['[', ']', '"']).to_owned();
    assert_eq!(id.len(), 16, "{id}");
    let last = format!(
        "SELECT status, rows_imported FROM sys.text_import_log \
         WHERE id = '{id}' AND phase IS NULL LIMIT -1"
    );
    wait_until("the end of the job", || server.rows(&last) == "[[\"finished\",2]]");
    let phases = format!(
        "SELECT count(*) FROM sys.text_import_log WHERE id = '{id}' AND phase = 'sort_merge'"
    );
    assert_eq!(server.rows(&phases), "[[2]]");
    assert!(server.rows(&format!("COPY '{id}' CANCEL")).ends_with("\"finished\"]]"));
    assert_eq!(
        server.rows("COPY '0123456789abcdef' CANCEL"),
        "[[\"0123456789abcdef\",\"unknown\"]]"
    );
    check_code(&server.exec("COPY 'x' CANCEL"), 400, "22023");
    // Rejects are kept with their places.
    let rows = server.rows("COPY t FROM 'bad.csv' WITH WAIT");
    assert!(rows.ends_with("\"finished\",2,1,1]]"), "{rows}");
    let rejects = server.rows(
        "SELECT file, line, byte_offset, column_name, raw, reason, action FROM sys.copy_rejects",
    );
    assert_eq!(rejects, "[[\"bad.csv\",2,5,\"v\",\"x\",\"not a number\",\"row_skipped\"]]");
    assert_eq!(server.rows("SELECT count(*) FROM t"), "[[5]]");
    let listed = server.rows("SELECT path, size FROM import_files()");
    let expected = "[[\"a.csv\",31],[\"bad.csv\",31],[\"day/x1.csv\",18],[\"day/x2.csv\",18]]";
    assert_eq!(listed, expected);
}

#[test]
fn copy_says_what_is_wrong_and_where() {
    let files = [
        ("zz.csv", "a,b,zz\n1,2,3\n"),
        ("xyz.csv", "x,y,z\n1,2,3\n"),
        ("bad.csv", "a,b,c\n1,x,3\n4,5,6\n"),
        ("open.csv", "a,b,c\n1,2,\"3\n"),
        ("empty.csv", ""),
        ("two.csv", "x,y\n3,1\n4,2,9\n"),
    ];
    let (_world, server) = with_files(&files, &[]);
    server.exec("CREATE TABLE t (a INT, b INT, c INT)");
    for (sql, status, code) in [
        ("COPY t FROM 'zz.csv' WITH WAIT", 400, "42703"),
        ("COPY t FROM 'xyz.csv' WITH HEADER MATCH WAIT", 400, "42703"),
        ("COPY t FROM 'bad.csv' WITH ON ERROR ABORT WAIT", 400, "22P02"),
        ("COPY t FROM 'bad.csv' WITH MAX ERRORS 0 WAIT", 400, "22P04"),
        ("COPY t FROM 'open.csv' WITH WAIT", 400, "22P04"),
        ("COPY t FROM 'missing.csv' WITH WAIT", 400, "58P01"),
        ("COPY t FROM 'missing*.csv' WITH WAIT", 400, "58P01"),
        ("COPY t FROM 'zz.csv' WITH HEDAER true", 400, "42601"),
        ("COPY t FROM 'zz.csv' (DELIMITER '||')", 400, "22023"),
        ("COPY t FROM 'zz.csv' (DELIMITER '\"', FORMAT csv)", 400, "22023"),
        ("COPY t FROM 'zz.csv' WITH TIMESTAMP a", 400, "22023"),
        ("COPY new FROM 'bad.csv' WITH PARTITION BY DAY", 400, "22023"),
        ("COPY new FROM 'bad.csv' WITH ON ERROR ABORT MAX ERRORS 0 FORMAT '%' WAIT", 400, "22023"),
        ("COPY sys.x FROM 'bad.csv'", 403, "42501"),
        ("COPY t FROM STDIN", 400, "0A000"),
        ("COPY t TO STDOUT", 400, "0A000"),
    ] {
        let answer = server.exec(sql);
        assert_eq!(answer.status, status, "{sql}: {}", answer.body);
        assert!(answer.body.contains(&format!("\"code\":\"{code}\"")), "{sql}: {}", answer.body);
    }
    let placed = server.exec("COPY t FROM 'missing.csv'").body;
    assert!(placed.contains("\"position\":12"), "{placed}");
    assert_eq!(server.count("t"), Some(0), "server_copy-1");
    assert_eq!(server.count("new"), None, "server_copy-1");
    // A line of names that the table does not have is a row, unless an option says that it is a
    // header.
    let rows = server.rows("COPY t FROM 'xyz.csv' WITH WAIT");
    assert!(rows.ends_with("\"finished\",2,1,1]]"), "{rows}");
    let rows = server.rows("COPY t FROM 'xyz.csv' WITH HEADER true WAIT");
    assert!(rows.ends_with("\"finished\",1,1,0]]"), "{rows}");
    let rows = server.rows("COPY t FROM 'empty.csv' WITH WAIT");
    assert!(rows.ends_with("\"finished\",0,0,0]]"), "{rows}");
    server.exec("TRUNCATE TABLE t");
    let rows = server.rows("COPY t (c, a) FROM 'two.csv' (HEADER, EXTRA_FIELDS ignore, WAIT)");
    assert!(rows.ends_with("\"finished\",2,2,0]]"), "{rows}");
    assert_eq!(server.rows("SELECT a, b, c FROM t ORDER BY a"), "[[1,null,3],[2,null,4]]");
}

#[test]
fn copy_never_leaves_its_root() {
    let (world, server) = with_files(&[("a.csv", "a\n1\n")], &[]);
    let root = world.path("db/import");
    fs::write(world.path("secret.csv"), "a\n1\n").unwrap();
    symlink(world.path("secret.csv"), root.join("out.csv")).unwrap();
    symlink("out.csv", root.join("chain.csv")).unwrap();
    symlink(world.path("nothing"), root.join("dangling.csv")).unwrap();
    symlink("/proc/self/fd/0", root.join("magic.csv")).unwrap();
    let mut bodies = Vec::new();
    let absolute = world.path("secret.csv").display().to_string();
    for path in [
        "../secret.csv",
        "a/../../secret.csv",
        &absolute,
        "out.csv",
        "chain.csv",
        "dangling.csv",
        "magic.csv",
        "../nothing.csv",
    ] {
        let answer = server.exec(&format!("COPY t FROM '{path}' WITH WAIT"));
        check_code(&answer, 403, "42501");
        let (_, rest) = answer.body.split_once("\"error\":").unwrap();
        bodies.push(rest.split_once(",\"position\"").unwrap().0.to_owned());
    }
    bodies.dedup();
    assert_eq!(bodies.len(), 1, "copy_files-1: one text for all: {bodies:?}");
    let made = std::process::Command::new("mkfifo").arg(root.join("fifo")).status();
    assert!(made.unwrap().success());
    check_code(&server.exec("COPY t FROM 'fifo'"), 400, "42809");
    fs::create_dir(root.join("folder")).unwrap();
    check_code(&server.exec("COPY t FROM 'folder'"), 400, "42809");
    assert_eq!(server.count("t"), None);
}

// The server did not check whether the client of a waiting upload was still there: repeated uploads
// of clients that had gone filled the queue.
#[test]
fn an_upload_that_waits_for_its_turn_ends_with_its_client() {
    let world = World::new();
    let server = Server::start(&world);
    let upload = |name: &str, text: &str| {
        let mut stream = server.connect();
        let head = format!(
            "POST /imp?name={name} HTTP/1.1\r\nHost: x\r\nContent-Type: text/csv\r\n\
             Content-Length: 100000000\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(text.as_bytes()).unwrap();
        stream
    };
    let jobs = |condition: &str| {
        server.rows(&format!("SELECT count(*) FROM copy_progress() WHERE {condition}"))
    };
    let first = upload("a", &"1,2\n".repeat(100_000));
    wait_until("the first to work", || jobs("TRUE") == "[[1]]");
    // The body is larger than the part that is read before its turn.
    let second = upload("b", &"1,2\n".repeat(600_000));
    wait_until("the second to wait", || jobs("queue_position > 0") == "[[1]]");
    drop(second);
    wait_until("the second to end", || jobs("TRUE") == "[[1]]");
    drop(first);
    wait_until("the first to end", || jobs("TRUE") == "[[0]]");
}

#[test]
fn jobs_wait_for_their_turn_and_can_be_cancelled() {
    // Enough rows that the first job is still running when the others arrive.
    let mut text = String::from("a,b\n");
    for row in 0..400_000 {
        text += &format!("{row},text {row}\n");
    }
    let (_world, server) = with_files(&[("a.csv", &text)], &["copy.queue_limit=3"]);
    let mut ids = Vec::new();
    for _ in 0..4 {
        let id = server.rows("COPY t FROM 'a.csv'");
        ids.push(id.trim_matches(['[', ']', '"']).to_owned());
    }
    check_code(&server.exec("COPY t FROM 'a.csv'"), 503, "53400");
    let waiting = server.rows("SELECT count(*) FROM copy_progress() WHERE queue_position > 0");
    assert_eq!(waiting, "[[3]]");
    for id in &ids[1..] {
        let status = server.rows(&format!("COPY '{id}' CANCEL"));
        assert!(status.ends_with("\"cancelled\"]]"), "{status}");
    }
    let status = |id: &str| {
        server.rows(&format!(
            "SELECT status FROM sys.text_import_log WHERE id = '{id}' AND phase IS NULL LIMIT -1"
        ))
    };
    for id in &ids[1..] {
        assert_eq!(status(id), "[[\"cancelled\"]]");
    }
    wait_until("the first job", || status(&ids[0]) == "[[\"finished\"]]");
    assert_eq!(server.count("t"), Some(400_000));
    // A statement that times out in the queue ends its job.
    let target = format!("/exec?timeout=0.05&query={}", encode("COPY t FROM 'a.csv' WITH WAIT"));
    check_code(&server.post(&target, "", ""), 400, "57014");
    wait_until("the job", || server.rows("SELECT count(*) FROM copy_progress()") == "[[0]]");
    assert_eq!(server.count("t"), Some(400_000), "server_copy-1");
}

#[test]
fn a_crash_leaves_a_log_that_says_so() {
    let mut text = String::from("a,b\n");
    for row in 0..400_000 {
        text += &format!("{row},text {row}\n");
    }
    let (world, mut server) = with_files(&[("a.csv", &text)], &[]);
    let id = server.rows("COPY t FROM 'a.csv'");
    let id = id.trim_matches(['[', ']', '"']).to_owned();
    wait_until("the job to begin", || server.count("sys.text_import_log").is_some());
    server.signal("-KILL");
    server.wait();
    let server = Server::start(&world);
    let sql = format!(
        "SELECT status, message FROM sys.text_import_log WHERE id = '{id}' AND phase IS NULL \
         LIMIT -1"
    );
    wait_until("the last row", || server.rows(&sql) == "[[\"failed\",\"server stopped\"]]");
    assert_eq!(server.count("t"), None, "server_copy-1");
}

#[test]
fn rows_become_files_that_replace_none() {
    let (world, server) = with_files(&[], &[]);
    server.exec("CREATE TABLE t (a INT, b VARCHAR)");
    server.exec("INSERT INTO t VALUES (1, 'x,y'), (2, NULL), (3, '')");
    let rows = server.rows("COPY t TO 'a.csv' (FORMAT csv, HEADER, WAIT)");
    assert!(rows.ends_with("\"finished\",3,3,0]]"), "{rows}");
    let written = |name: &str| fs::read_to_string(world.path(&format!("db/export/{name}")));
    assert_eq!(written("a.csv").unwrap(), "a,b\n1,\"x,y\"\n2,\n3,\"\"\n");
    check_code(&server.exec("COPY t TO 'a.csv' (FORMAT csv)"), 400, "58P02");
    check_code(&server.exec("COPY t TO '../a.csv' (FORMAT csv)"), 403, "42501");
    check_code(&server.exec("COPY t TO 'b.csv'"), 400, "42601");
    let sql = "COPY (SELECT a FROM t WHERE a > 1) TO 'b.txt' (FORMAT text, WAIT)";
    assert!(server.rows(sql).ends_with("\"finished\",2,2,0]]"));
    assert_eq!(written("b.txt").unwrap(), "2\n3\n");
    let sql = "COPY t TO 'c.parquet' WITH FORMAT PARQUET COMPRESSION_CODEC snappy WAIT";
    assert!(server.rows(sql).ends_with("\"finished\",3,3,0]]"));
    fs::create_dir_all(world.path("db/import")).unwrap();
    fs::copy(world.path("db/export/c.parquet"), world.path("db/import/c.parquet")).unwrap();
    let rows = server.rows("COPY again FROM 'c.parquet' WITH WAIT");
    assert!(rows.ends_with("\"finished\",3,3,0]]"), "{rows}");
    assert_eq!(server.rows("SELECT * FROM again"), server.rows("SELECT * FROM t"));
    // A failed export leaves no file.
    let failing = "COPY (SELECT 1 / (5 - x) FROM generate_series(1, 9) AS t(x)) TO 'd.csv' \
                   (FORMAT csv, WAIT)";
    check_code(&server.exec(failing), 400, "22012");
    let left = fs::read_dir(world.path("db/export")).unwrap().count();
    assert_eq!(left, 3);
}

#[test]
fn text_with_backslashes_is_read_as_it_was_written() {
    let text = "1\ta\\tb\\n\\\\\t\\N\n2\t\tx\"y\n";
    let (_world, server) = with_files(&[("a.txt", text)], &[]);
    server.exec("CREATE TABLE t (a INT, b VARCHAR, c VARCHAR)");
    let rows = server.rows("COPY t FROM 'a.txt' (FORMAT text, WAIT)");
    assert!(rows.ends_with("\"finished\",2,2,0]]"), "{rows}");
    assert_eq!(server.rows("SELECT * FROM t"), r#"[[1,"a\tb\n\\",null],[2,"","x\"y"]]"#);
}

// `copy.max_concurrent` counted an upload from its first byte on: an upload of a byte a second, or
// a COPY of a program that paused between its rows, blocked all others for as long as it liked.
#[test]
fn an_upload_that_waits_for_its_client_does_not_keep_others_waiting() {
    let world = World::new();
    let server = Server::start_with(&world, &["copy.idle_timeout=1s"]);
    let begin = |name: &str, rows: usize| {
        let mut stream = server.connect();
        let head = format!(
            "POST /imp?name={name}&fmt=json HTTP/1.1\r\nHost: x\r\nContent-Type: text/csv\r\n\
             Content-Length: 100000000\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all("1,2\n".repeat(rows).as_bytes()).unwrap();
        stream
    };
    let import = |name: &str| {
        let target = format!("/imp?name={name}&fmt=json");
        server.post(&target, "Content-Type: text/csv\r\n", "a,b\n1,2\n")
    };
    // An upload with few rows waits for more of them, and no other upload waits for it.
    let thinking = [begin("a", 10), begin("b", 10)];
    assert_eq!(import("first").status, 200, "upload-3");
    // An upload with many rows is being imported, and gives way.
    let mut slow = begin("c", 200_000);
    let jobs = || server.rows("SELECT count(*) FROM copy_progress()");
    wait_until("it to work", || jobs() == "[[1]]");
    assert_eq!(import("second").status, 200, "upload-4");
    // Its client gets the error when it sends more.
    let more = "1,2\n".repeat(200_000);
    let sent = (0..10).try_for_each(|_| slow.write_all(more.as_bytes()));
    let mut answer = String::new();
    let read = slow.read_to_string(&mut answer);
    assert!(answer.contains("copy.idle_timeout"), "upload-4: {sent:?} {read:?} {answer}");
    assert_eq!((server.count("a"), server.count("c")), (None, None), "server_copy-1");
    drop(thinking);
    server.stop();
}
