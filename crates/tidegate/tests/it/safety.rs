//! Signals, kills and locks: whatever happens to the process, the table is as it was.

use std::io::Write;
use std::process::Child;

use crate::world::{Run, World, signal, wait_until};

fn world() -> World {
    let world = World::new();
    world
        .run(&["sql", "CREATE TABLE t (ts TIMESTAMP, n INT) TIMESTAMP(ts) PARTITION BY DAY"])
        .succeeds();
    world.file("x.csv", "ts,n\n2025-01-01,1\n");
    world.run(&["import", "x.csv", "--table", "t", "--progress", "none"]).succeeds();
    world
}

/// An import that has rows, more than it takes as a sample, and waits for more of them.
fn half_done(world: &World, table: &str) -> Child {
    let mut child = world.start_import(table);
    let rows: String = (1..250_000).map(|n| format!("2025-01-{:02},{n}\n", n % 28 + 1)).collect();
    let pipe = child.stdin.as_mut().expect("a pipe");
    pipe.write_all(format!("ts,n\n{rows}").as_bytes()).expect("taken");
    wait_until("the import to begin", || world.scratch() > 0);
    child
}

#[test]
fn one_interrupt_cancels_an_import_that_waits_for_its_pipe() {
    let world = world();
    let stored = world.stored_as(".seg");
    for table in ["t", "new"] {
        let silent = world.start_import(table);
        interrupt(silent);
        interrupt(half_done(&world, table));
        assert_eq!(world.ask("SELECT n FROM t"), "1");
        assert_eq!(world.stored_as(".seg"), stored);
    }
    assert_eq!(world.run(&["tables", "--format", "ndjson"]).succeeds().lines().count(), 1);
}

#[track_caller]
fn interrupt(mut child: Child) {
    signal(&child, "-INT");
    // The pipe stays open: nobody but us ends it.
    let pipe = child.stdin.take();
    let run = Run::of(child.wait_with_output().expect("ends"));
    drop(pipe);
    run.fails(130, &["tidegate: import: interrupted; the table is as it was"]);
}

#[test]
fn a_killed_import_leaves_no_trace() {
    let world = world();
    let before = world.run(&["sql", "SELECT * FROM t", "--format", "csv"]).succeeds();
    let stored = world.stored_as(".seg");
    let mut child = half_done(&world, "t");
    child.kill().expect("killed");
    child.wait().expect("ends");
    let after = world.run(&["sql", "SELECT * FROM t", "--format", "csv"]).succeeds();
    assert_eq!(after, before);
    assert_eq!(world.stored_as(".seg"), stored, "no litter");
    assert_eq!(world.scratch(), 0, "no litter");
    world.run(&["verify"]).succeeds();
    world.run(&["import", "x.csv", "--table", "t", "--progress", "none"]).succeeds();
    assert_eq!(world.ask("SELECT count(*) FROM t"), "2");
}

#[test]
fn a_second_process_is_told_that_the_database_is_in_use() {
    let world = world();
    let mut child = world.start_import("t");
    for line in [&["tables"][..], &["sql", "SELECT 1"], &["import", "x.csv", "--table", "t"]] {
        world.run(line).fails(3, &["db", "in use"]);
    }
    let mut pipe = child.stdin.take().expect("a pipe");
    pipe.write_all(b"ts,n\n2025-01-02,2\n").expect("taken");
    drop(pipe);
    Run::of(child.wait_with_output().expect("ends")).succeeds();
    assert_eq!(world.ask("SELECT n FROM t"), "1\n2");
}

#[test]
fn an_interrupt_ends_a_query() {
    let world = world();
    let sql = "SELECT count(*) FROM generate_series(1, 3000000) AS a \
               CROSS JOIN generate_series(1, 3000000) AS b WHERE (a.value * b.value) % 7 = 3";
    let mut command = world.command(&["sql", sql]);
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let child = command.spawn().expect("runs");
    let busy = format!("/proc/{}/stat", child.id());
    // Once it has used processor time, it is past its start.
    wait_until("the query to run", || {
        let stat = std::fs::read_to_string(&busy).unwrap_or_default();
        stat.split(' ').nth(13).is_some_and(|ticks| ticks.parse::<u64>().is_ok_and(|t| t > 20))
    });
    signal(&child, "-INT");
    Run::of(child.wait_with_output().expect("ends")).fails(130, &["tidegate: sql: interrupted"]);
}
