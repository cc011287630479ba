//! `tidegate sql` without a terminal: scripts, formats, pipes, errors, timings.

use std::io::Read;
use std::process::Stdio;

use crate::world::{Run, World, wait_until};

fn world() -> World {
    let world = World::new();
    world.run(&["sql", "CREATE TABLE t (ts TIMESTAMP, n INT, s VARCHAR) TIMESTAMP(ts)"]).succeeds();
    world.file("x.csv", "ts,n,s\n2025-01-01,1,\"a\"\"b\"\n2025-01-02,,\"\"\n");
    world.run(&["import", "x.csv", "--table", "t", "--progress", "none"]).succeeds();
    world
}

#[test]
fn each_format_is_what_its_readers_expect() {
    let world = world();
    let show = |format: &str| world.run(&["sql", "SELECT * FROM t", "--format", format]).succeeds();
    let table = " ts                          |    n | s\n\
                 -----------------------------+------+-----\n \
                 2025-01-01T00:00:00.000000Z |    1 | a\"b\n \
                 2025-01-02T00:00:00.000000Z | NULL | \n";
    assert_eq!(show("table"), table);
    let csv =
        "ts,n,s\n2025-01-01T00:00:00.000000Z,1,\"a\"\"b\"\n2025-01-02T00:00:00.000000Z,,\"\"\n";
    assert_eq!(show("csv"), csv);
    let first = r#"{"ts":"2025-01-01T00:00:00.000000Z","n":1,"s":"a\"b"}"#;
    let second = r#"{"ts":"2025-01-02T00:00:00.000000Z","n":null,"s":""}"#;
    assert_eq!(show("json"), format!("[\n{first},\n{second}\n]\n"));
    assert_eq!(show("ndjson"), format!("{first}\n{second}\n"));
}

#[test]
fn parquet_and_arrow_go_to_files_and_pipes() {
    let world = world();
    for (format, head, pipe_head) in
        [("parquet", &b"PAR1"[..], &b"PAR1"[..]), ("arrow", b"ARROW1", b"\xff\xff\xff\xff")]
    {
        let sql = ["sql", "SELECT * FROM t", "--format", format];
        world.run(&[&sql[..], &["--output", "out"]].concat()).succeeds();
        let file = std::fs::read(world.path("out")).expect("a file");
        assert!(file.starts_with(head), "{format}");
        let output = world.command(&sql).output().expect("runs");
        assert!(output.status.success() && output.stdout.starts_with(pipe_head), "{format}");
    }
}

#[test]
fn changes_of_rows_are_counted_for_people_and_stay() {
    let world = world();
    let script = "INSERT INTO t VALUES ('2025-01-03', 3, 'c'), ('2025-01-04', 4, 'd'); \
        UPDATE t SET n = 0 WHERE n IS NULL; DELETE FROM t WHERE n < 2";
    assert_eq!(world.run(&["sql", script]).succeeds(), "INSERT 0 2\nUPDATE 1\nDELETE 2\n");
    let insert = "INSERT INTO t SELECT ts, n + 1, s FROM t WHERE n = 4";
    assert_eq!(world.run(&["sql", insert, "--format", "json"]).succeeds(), "");
    let expected = "n,s\n3,\"c\"\n4,\"d\"\n5,\"d\"\n";
    let shown = world.run(&["sql", "SELECT n, s FROM t", "--format", "csv"]).succeeds();
    assert_eq!(shown.replace('"', ""), expected.replace('"', ""));
    // The end of the command flushes: rows are in segments, and the log has nothing to replay.
    assert!(!world.stored_as(".seg").is_empty());
    world.run(&["verify"]).succeeds();
    world.run(&["sql", "INSERT INTO t VALUES ('nonsense', 1, '')"]).fails(1, &["column 23"]);
}

#[test]
fn several_statements_come_from_an_argument_a_file_or_a_pipe() {
    let world = world();
    let script = "SELECT 1 AS a; -- one; not two\nSELECT ';' AS b;\n";
    let expected = "a\n1\nb\n;\n";
    world.file("x.sql", script);
    assert_eq!(world.run(&["sql", script, "--format", "csv"]).succeeds(), expected);
    assert_eq!(world.run(&["sql", "-f", "x.sql", "--format", "csv"]).succeeds(), expected);
    let piped = world.run_with(&["sql", "--format", "csv"], script.as_bytes());
    assert_eq!(piped.succeeds(), expected);
    world.run(&["sql", " ; "]).fails(2, &["no statement"]);
    world.run_with(&["sql"], b"SELECT '\xff'").fails(1, &["standard input is not UTF-8 at byte 8"]);
}

#[test]
fn tags_of_statements_are_shown_in_tables_and_not_in_csv() {
    let world = World::new();
    let script = "CREATE TABLE u (a INT); SELECT 1 AS one; DROP TABLE u";
    let shown = world.run(&["sql", script]).succeeds();
    assert_eq!(shown, "CREATE TABLE\n one\n-----\n   1\nDROP TABLE\n");
    assert_eq!(world.run(&["sql", script, "--format", "csv"]).succeeds(), "one\n1\n");
}

#[test]
fn errors_have_their_place_in_the_script_and_end_it() {
    let world = world();
    world
        .run(&["sql", "SELECT nothing FROM t"])
        .fails(1, &["tidegate: sql: line 1, column 8: ", "nothing"]);
    world.file(
        "x.sql",
        "CREATE TABLE a (x INT);\n\nCREATE TABLE b (x WRONG);\nCREATE TABLE c (x INT);\n",
    );
    let run = world.run(&["sql", "-f", "x.sql"]);
    assert_eq!(run.stdout, "CREATE TABLE\n");
    run.fails(1, &["tidegate: sql: x.sql: line 3, column 19: ", "WRONG"]);
    let tables = world.run(&["tables", "--format", "csv"]).succeeds();
    assert!(tables.contains("\na,") && !tables.contains("\nc,"), "{tables}");
    world.run(&["sql", "SELECT * FROM missing"]).fails(1, &["table `missing` does not exist"]);
    world.run(&["sql", "SELECT 'open"]).fails(1, &["line 1, column 8", "never closed"]);
    world.run(&["sql", "-f", "none.sql"]).fails(1, &["none.sql", "no such file"]);
}

#[test]
fn an_output_file_is_whole_or_as_it_was() {
    let world = world();
    world.file("out.csv", "old\n");
    let sql = "SELECT n FROM t; SELECT 1/0 AS x";
    let run = world.run(&["sql", sql, "--format", "csv", "--output", "out.csv"]);
    run.fails(1, &["division by zero"]);
    assert_eq!(world.text("out.csv"), "old\n");
    let two = ["sql", "SELECT 1; SELECT 2", "--format", "parquet", "--output", "out.csv"];
    world.run(&two).fails(1, &["parquet holds one result"]);
    assert_eq!(world.text("out.csv"), "old\n");
    world.run(&["sql", "SELECT n FROM t", "--format", "csv", "--output", "out.csv"]).succeeds();
    assert_eq!(world.text("out.csv"), "n\n1\n\n");
    let left = std::fs::read_dir(world.path("")).expect("a folder");
    let partial = left.filter(|entry| {
        entry.as_ref().expect("an entry").file_name().to_string_lossy().contains("partial")
    });
    assert_eq!(partial.count(), 0);
}

#[test]
fn timings_are_one_line_of_json() {
    let world = world();
    let sql = ["sql", "SELECT * FROM t", "--repeat", "3", "--timings"];
    let line = world.run(&sql).succeeds();
    let times = line.strip_prefix("{\"milliseconds\":[").expect(&line);
    let times = times.strip_suffix("],\"rows\":2}\n").expect(&line);
    assert_eq!(times.split(',').count(), 3);
    assert!(times.split(',').all(|time| time.parse::<f64>().is_ok_and(|ms| ms > 0.0)), "{line}");
    world.run(&["sql", "SELECT 1; SELECT 2", "--timings"]).fails(2, &["one statement"]);
    let made = world.run(&["sql", "CREATE TABLE u (n INT)", "--timings", "--repeat", "2"]);
    made.fails(2, &["--repeat accepts queries only", "CREATE"]);
    world.run(&["describe", "u"]).fails(1, &["`u` does not exist"]);
    world.run(&["sql", "CREATE TABLE u (n INT)", "--timings"]).succeeds();
    let wrong = world.run(&["sql", "SELECT nothing FROM t", "--timings"]);
    wrong.fails(1, &["nothing"]);
}

#[test]
fn a_reader_that_goes_away_ends_it_quietly() {
    let world = world();
    let many = "SELECT a.value FROM generate_series(1, 3000000) AS a";
    for format in ["csv", "table", "ndjson", "parquet"] {
        let mut command = world.command(&["sql", many, "--format", format]);
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("runs");
        let mut pipe = child.stdout.take().expect("a pipe");
        let mut some = [0; 4];
        pipe.read_exact(&mut some).expect("the first bytes");
        drop(pipe);
        let run = Run::of(child.wait_with_output().expect("ends"));
        assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""), "{format}");
    }
}

#[test]
fn long_results_are_streamed() {
    let world = world();
    let sql = "SELECT a.value AS n FROM generate_series(1, 300000) AS a ORDER BY n";
    let csv = world.run(&["sql", sql, "--format", "csv"]).succeeds();
    assert_eq!(csv.lines().count(), 300_001);
    assert!(csv.starts_with("n\n1\n2\n") && csv.ends_with("\n300000\n"));
}

#[test]
fn a_top_k_reads_few_rows_of_a_scan() {
    let world = World::new();
    let rows = (0..200_000).map(|row| format!("{row},{}\n", row * 7_919 % 200_003));
    world.file("t.csv", format!("ts,n\n{}", rows.collect::<String>()));
    let import = ["import", "t.csv", "--table", "t", "--timestamp", "ts"];
    let format = ["--timestamp-format", "epoch_s", "--progress", "none"];
    world.run(&[&import[..], &format].concat()).succeeds();
    let plan = world.ask("EXPLAIN ANALYZE SELECT * FROM t ORDER BY n LIMIT 3");
    let scan = plan.lines().find(|line| line.contains("DataSourceExec")).expect("a scan");
    let (_, rows) = scan.split_once("output_rows=").expect("its metrics");
    let (rows, _) = rows.split_once(" K").expect("some thousands");
    let rows: f64 = rows.parse().expect("a number");
    // The scan decodes the first batch of each worker, and later rows that beat the bound.
    assert!(rows < 50.0, "{scan}");
}

/// Planning is recursive: deep or long statements ended the process.
#[test]
fn statements_that_are_deep_or_long_are_answered_or_refused() {
    let world = World::new();
    let ask = |sql: &str| {
        world.file("deep.sql", sql);
        world.run(&["sql", "-f", "deep.sql", "--format", "csv", "--timeout", "10m"])
    };
    let list = |count: usize, part: &dyn Fn(usize) -> String, between: &str| {
        (0..count).map(part).collect::<Vec<_>>().join(between)
    };
    let conditions = list(2_000, &|n| format!("x = {n}"), " OR ");
    let rows = ask(&format!("SELECT count(*) AS n FROM long_sequence(9) WHERE {conditions}"));
    assert_eq!(rows.succeeds(), "n\n9\n");
    let selects = "SELECT * FROM (".repeat(60);
    let rows = ask(&format!("{selects}SELECT 7 AS n{}", ")".repeat(60)));
    assert_eq!(rows.succeeds(), "n\n7\n");
    for (sql, place) in [
        (format!("SELECT {}", list(600, &|_| "1".to_owned(), " + ")), "column 2010"),
        (format!("SELECT {}1", "- ".repeat(600)), "column 1008"),
        (
            format!("SELECT 1 WHERE {}", list(6_000, &|_| "1 = 1".to_owned(), " AND ")),
            "column 20022",
        ),
    ] {
        ask(&sql).fails(1, &[place, "nested more than"]);
    }
}

// A runtime that cannot start all of its threads panics, and then waited for those that it had
// started; Ctrl-C and SIGTERM, which are caught for statements, did not end it.
#[test]
fn a_command_that_cannot_begin_its_threads_ends() {
    let world = World::new();
    let arguments = ["sql", "--threads", "64", "SELECT 1"];
    let mut command = world.command_after("ulimit -v 2500000", &arguments);
    let mut command = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut status = None;
    wait_until("the command to end", || {
        status = command.try_wait().unwrap();
        status.is_some()
    });
    let mut log = String::new();
    command.stderr.take().unwrap().read_to_string(&mut log).unwrap();
    assert_eq!(status.and_then(|it| it.code()), Some(1), "{log}");
    assert!(log.contains("cannot start a thread: "), "{log}");
}
