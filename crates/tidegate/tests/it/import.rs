//! Imports that succeed, some with rejects: options, summary, progress, rejects.

use crate::world::World;

fn world_with(csv: &str) -> World {
    let world = World::new();
    world
        .run(&[
            "sql",
            "CREATE TABLE t (ts TIMESTAMP, n INT, s VARCHAR) TIMESTAMP(ts) PARTITION BY DAY",
        ])
        .succeeds();
    world.file("x.csv", csv);
    world
}

const BAD: &str =
    "ts,n,s\n2025-01-01,1,a\n2025-01-02,x,b\n2025-01-03,3\nnever,4,d\n2025-01-05,5,e\n";

#[test]
fn rejected_rows_are_listed_and_the_exit_code_is_10() {
    let world = world_with(BAD);
    let run = world.run(&["import", "x.csv", "--table", "t", "--progress", "none"]);
    assert_eq!(run.code, Some(10), "{}", run.stderr);
    assert!(run.stdout.contains("rows read      5\nrows rejected  3\n"), "{}", run.stdout);
    assert!(run.stdout.contains("rejects file   t.rejects.ndjson\n"), "{}", run.stdout);
    assert!(run.stdout.contains("1 x n: not a number"), "{}", run.stdout);
    assert_eq!(world.ask("SELECT n FROM t"), "1\n5");
    let rejects = world.text("t.rejects.ndjson");
    assert_eq!(rejects.lines().count(), 3, "{rejects}");
    let bad_number = r#""line":3,"byte":22,"column":"n","text":"x","reason":"not a number"}"#;
    assert!(rejects.contains(bad_number), "{rejects}");
}

#[test]
fn bad_cells_become_null_when_asked_to() {
    let world = world_with(BAD);
    let run = world.run(&["import", "x.csv", "--table", "t", "--on-error", "null"]);
    assert_eq!(run.code, Some(10), "{}", run.stderr);
    assert_eq!(world.ask("SELECT ts, n FROM t WHERE s = 'b'"), "2025-01-02T00:00:00.000000Z,");
}

#[test]
fn abort_stops_at_a_bad_row_and_leaves_nothing() {
    let world = world_with("ts,n,s\n2025-01-01,1,a\n2025-01-02,x,b\n2025-01-03,3,c\n");
    let import = ["import", "x.csv", "--table", "t", "--on-error", "abort", "--progress", "none"];
    world.run(&import).fails(1, &["tidegate: import: ", "x.csv", "line", "3", "not a number"]);
    assert_eq!(world.ask("SELECT count(*) FROM t"), "0");
}

/// A bad value in the sample made the new table's column VARCHAR, and the import an error.
#[test]
fn a_bad_timestamp_is_a_reject_in_a_new_table_too() {
    let world = World::new();
    let row = |n: usize| match n {
        40 => "garbage,40,a\n".to_owned(),
        _ => format!("2025-01-01 10:{:02}:{:02},{n},a\n", n / 60, n % 60),
    };
    world.file("x.csv", format!("ts,n,s\n{}", (0..100).map(row).collect::<String>()));
    let import = |table: &str, more: &[&str]| {
        let line = ["import", "x.csv", "--table", table, "--timestamp", "ts", "--symbols", "s"];
        world.run(&[&line, more, &["--progress", "none"]].concat())
    };
    for (table, on_error) in [("a", "skip-row"), ("b", "null")] {
        let run = import(table, &["--on-error", on_error]);
        assert_eq!(run.code, Some(10), "{}", run.stderr);
        assert!(run.stdout.contains("rows read      100\nrows rejected  1\n"), "{}", run.stdout);
        assert!(run.stdout.contains("1 x ts: not a timestamp"), "{}", run.stdout);
        let rejects = world.text(&format!("{table}.rejects.ndjson"));
        let bad = r#""line":42,"byte":997,"column":"ts","text":"garbage","reason":"not a"#;
        assert!(rejects.contains(bad), "{rejects}");
        assert_eq!(world.ask(&format!("SELECT count(*), min(n) FROM {table}")), "99,0");
    }
    let expected = "x.csv, line 42 (byte 997), column `ts`: not a timestamp: `garbage`";
    import("c", &["--on-error", "abort"]).fails(1, &[expected]);
    world.file("x.csv", "ts,n,s\n2025-01-01,1,a\nsoon,2,b\nlater,3,c\n");
    let expected = "x.csv: column `ts` is to be the designated timestamp, but most of its values \
                    are not timestamps, such as `soon` in line 3: say with --timestamp-format how \
                    they are written";
    import("c", &[]).fails(1, &[expected]);
    assert_eq!(world.run(&["tables", "--format", "ndjson"]).succeeds().lines().count(), 2);
}

/// All values are text, so only the given names show that the first line is a header.
#[test]
fn a_first_line_with_the_names_that_are_given_is_a_header() {
    let world = World::new();
    world.file("x.csv", "at,who,what\n2025-01-01,a,x\nnever,b,y\n2025-01-02,c,z\n");
    let line = ["import", "x.csv", "--table", "t", "--timestamp", "at", "--symbols", "who"];
    assert_eq!(world.run(&[&line[..], &["--progress", "none"]].concat()).code, Some(10));
    assert_eq!(world.ask("SELECT who, what FROM t"), "a,x\nc,z");
}

#[test]
fn too_many_rejects_fail_the_import() {
    let world = world_with(BAD);
    let import = ["import", "x.csv", "--table", "t", "--max-errors", "2", "--progress", "none"];
    world.run(&import).fails(1, &["more than 2 rejects"]);
    assert_eq!(world.ask("SELECT count(*) FROM t"), "0");
    let import = ["import", "x.csv", "--table", "t", "--max-errors", "3", "--progress", "none"];
    assert_eq!(world.run(&import).code, Some(10));
}

#[test]
fn the_rejects_file_goes_where_it_is_sent() {
    let world = world_with(BAD);
    let import = ["import", "x.csv", "--table", "t", "--rejects", "bad.json", "--progress", "none"];
    assert_eq!(world.run(&import).code, Some(10));
    assert_eq!(world.text("bad.json").lines().count(), 3);
    assert!(!world.path("t.rejects.ndjson").exists());
}

#[test]
fn progress_is_json_where_there_is_no_terminal() {
    let world = world_with("ts,n,s\n2025-01-01,1,a\n");
    let run = world.run(&["import", "x.csv", "--table", "t"]);
    let stderr = run.stderr.clone();
    let summary = run.succeeds();
    let last = stderr.lines().last().expect("a last line");
    assert!(last.starts_with(r#"{"status":"done","phase":"done","elapsed_ms":"#), "{stderr}");
    assert!(last.contains(r#""rows_read":1,"rows_written":1,"rows_rejected":0"#), "{stderr}");
    assert!(stderr.lines().all(|line| line.starts_with('{') && line.ends_with('}')), "{stderr}");
    for line in ["1 row imported into t\n", "partitions     1\n", "segments       1\n", "\nio  "] {
        assert!(summary.contains(line), "{line}: {summary}");
    }
}

#[test]
fn a_new_table_has_the_columns_of_its_file_and_what_is_said_about_them() {
    let world = World::new();
    world.file("x.csv", "when;city;n;price\n05.01.2025 10:00;Ulm;1;1,5\n04.01.2025 9:00;\\N;2;2\n");
    let import = [
        "import",
        "x.csv",
        "--table",
        "T",
        "--timestamp",
        "when",
        "--partition-by",
        "month",
        "--symbols",
        "city",
        "--delimiter",
        ";",
        "--null",
        "\\N",
        "--timestamp-format",
        "dd.MM.yyyy H:mm",
        "--progress",
        "none",
    ];
    world.run(&import).succeeds();
    let columns = world.run(&["describe", "t", "--format", "csv"]).succeeds();
    let types: Vec<&str> =
        columns.lines().skip(1).map(|line| line.split(',').nth(1).expect("a type")).collect();
    assert_eq!(types, ["TIMESTAMP", "SYMBOL", "BIGINT", "VARCHAR"], "{columns}");
    assert_eq!(world.ask("SELECT city FROM t"), "\nUlm");
}

#[test]
fn a_schema_file_makes_the_table() {
    let world = World::new();
    world.file(
        "t.sql",
        "CREATE TABLE other (n SMALLINT, ts TIMESTAMP)\n  TIMESTAMP(ts) PARTITION BY YEAR;\n",
    );
    world.file("x.csv", "1,2025-01-01\n2,2024-01-01\n");
    let import = [
        "import",
        "x.csv",
        "--table",
        "t",
        "--schema",
        "t.sql",
        "--no-header",
        "--progress",
        "none",
    ];
    world.run(&import).succeeds();
    let tables = world.run(&["tables", "--format", "csv"]).succeeds();
    assert!(tables.contains("\nt,2,2,2,"), "{tables}");
    // A second import into the same table has the same schema.
    world.run(&import).succeeds();
    world.file("t.sql", "CREATE TABLE t (n BIGINT, ts TIMESTAMP) TIMESTAMP(ts) PARTITION BY YEAR");
    world.run(&import).fails(1, &["table `t` exists with other columns", "`n`"]);
    assert_eq!(world.ask("SELECT count(*) FROM t"), "4");
}

#[test]
fn lines_are_skipped_and_quotes_are_what_they_are_said_to_be() {
    let world = world_with("a report\nof two lines\nts|n|s\n2025-01-01|1|'a|b'\n");
    let import = [
        "import",
        "x.csv",
        "--table",
        "t",
        "--skip-lines",
        "2",
        "--header",
        "--quote",
        "'",
        "--delimiter",
        "|",
        "--progress",
        "none",
    ];
    world.run(&import).succeeds();
    assert_eq!(world.ask("SELECT s FROM t"), "a|b");
    world.file("x.csv", "2025-01-02,2,\"open\n");
    let import =
        ["import", "x.csv", "--table", "t", "--no-header", "--quote", "none", "--progress", "none"];
    world.run(&import).succeeds();
    assert_eq!(world.ask("SELECT s FROM t WHERE n = 2"), "\"\"\"open\"");
}

#[test]
fn both_ways_of_io_and_any_number_of_threads_give_the_same_rows() {
    let rows: String = (0..20_000_u64)
        .map(|n| format!("2025-01-{:02}T00:00:00Z,{n},s{}\n", n * 7 % 28 + 1, n % 10))
        .collect();
    let mut answers = std::collections::BTreeSet::new();
    for (io, threads) in [("auto", "1"), ("sync", "3"), ("sync", "1")] {
        let world = world_with(&rows);
        let import = [
            "import",
            "x.csv",
            "--table",
            "t",
            "--no-header",
            "--io",
            io,
            "--threads",
            threads,
            "--memory",
            "256MiB",
            "--progress",
            "none",
        ];
        let summary = world.run(&import).succeeds();
        assert!(io != "sync" || summary.contains("io             pread/pwrite"), "{summary}");
        answers.insert(world.run(&["sql", "SELECT * FROM t", "--format", "csv"]).succeeds());
    }
    assert_eq!(answers.len(), 1);
}
