//! Imports and exports of a server by `/imp`, `/exp` and COPY.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::symlink;

use super::server::{Answer, Server, encode};
use crate::world::{World, wait_until};

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

#[track_caller]
fn check_code(answer: &Answer, status: u16, code: &str) {
    assert_eq!(answer.status, status, "{}", answer.body);
    assert!(answer.body.contains(&format!("\"code\":\"{code}\"")), "{}", answer.body);
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
