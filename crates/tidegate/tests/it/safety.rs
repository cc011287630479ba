//! Signals, kills and locks: the table is unchanged whatever happens to the process.

use std::io::{Read, Write};
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::world::{Run, World, cpu_ticks, signal, signal_process, wait_until, wait_until_busy};

fn world() -> World {
    let world = World::new();
    world
        .run(&["sql", "CREATE TABLE t (ts TIMESTAMP, n INT) TIMESTAMP(ts) PARTITION BY DAY"])
        .succeeds();
    world.file("x.csv", "ts,n\n2025-01-01,1\n");
    world.run(&["import", "x.csv", "--table", "t", "--progress", "none"]).succeeds();
    world
}

/// Starts an import that has read more rows than its sample, and waits for more of them.
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
    // The pipe stays open: only the signal ends the import.
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

/// A query that runs for days.
const ENDLESS: &str = "SELECT count(*) FROM generate_series(1, 3000000) AS a \
                       CROSS JOIN generate_series(1, 3000000) AS b \
                       WHERE (a.value * b.value) % 7 = 3";

#[test]
fn an_interrupt_ends_a_query() {
    let world = world();
    for options in [&[][..], &["--timings"], &["--timeout", "none", "--format", "csv"]] {
        let mut command = world.command(&[&["sql", ENDLESS], options].concat());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().expect("runs");
        wait_until_busy(child.id(), 0);
        signal(&child, "-INT");
        let run = Run::of(child.wait_with_output().expect("ends"));
        run.fails(130, &["tidegate: sql: interrupted"]);
    }
}

#[test]
fn an_interrupt_at_the_prompt_ends_the_statement_and_not_the_prompt() {
    let world = world();
    let mut command = world.command_on_terminal("sql --timeout none");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("runs");
    let mut keys = child.stdin.take().expect("a pipe");
    let screen = Arc::new(Mutex::new(String::new()));
    let mut output = child.stdout.take().expect("a pipe");
    let shown = Arc::clone(&screen);
    let reader = thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = output.read(&mut bytes) {
            shown.lock().unwrap().push_str(&String::from_utf8_lossy(&bytes[..count]));
        }
    });
    let wait_for = |text: &str| wait_until(text, || screen.lock().unwrap().contains(text));
    let mut enter = |line: &str| keys.write_all(format!("{line}\r").as_bytes()).expect("typed");
    wait_for("tidegate> ");
    let process = world.process().expect("it runs");
    for _ in 0..2 {
        let before = cpu_ticks(process);
        enter(&format!("{ENDLESS};"));
        wait_until_busy(process, before);
        screen.lock().unwrap().clear();
        signal_process(process, "-INT");
        wait_for("error: interrupted");
        wait_for("tidegate> ");
    }
    enter("SELECT 6 * 7 AS answer;");
    wait_for("     42");
    enter("\\q");
    let status = child.wait().expect("ends");
    reader.join().expect("the reader ends");
    assert_eq!(status.code(), Some(0), "{}", screen.lock().unwrap());
}

#[test]
fn a_timeout_ends_a_statement_and_the_script() {
    let world = world();
    let script = format!("SELECT n FROM t; {ENDLESS}; DROP TABLE t");
    let run = world.run(&["sql", &script, "--format", "csv", "--timeout", "600ms"]);
    // The header of the second result came before the timeout.
    assert_eq!(run.stdout, "n\n1\ncount\n");
    run.fails(1, &["tidegate: sql: query timed out [runtime=", "ms, timeout=600ms]"]);
    let timed = world.run(&["sql", ENDLESS, "--timings", "--timeout", "1s"]);
    timed.fails(1, &["ms, timeout=1000ms]"]);
    // A setting of a script holds for its later statements.
    let set = world.run(&["sql", &format!("SET statement_timeout = 100; {ENDLESS}")]);
    set.fails(1, &["ms, timeout=100ms]"]);
    assert_eq!(world.ask("SELECT n FROM t"), "1");
}
