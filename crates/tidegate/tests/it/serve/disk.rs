//! A disk that is full, and has room again.
//!
//! The server runs on a small file system of its own in memory, mounted in a private namespace
//! (`unshare`), so the test needs no privileges. Where the kernel does not allow that, the test
//! says that it was skipped.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::server::Server;
use crate::world::{Run, World, wait_until};

/// A file system of its own, at the place of a world's database. An idle process keeps it mounted.
struct SmallDisk<'a> {
    world: &'a World,
    keeper: Child,
}

impl<'a> SmallDisk<'a> {
    /// Mounts a file system of this many MiB, if that is possible here.
    #[expect(clippy::print_stderr, reason = "a test that is skipped says so")]
    fn new(world: &'a World, size: u32) -> Option<SmallDisk<'a>> {
        fs::create_dir_all(world.path("db")).expect("a folder");
        let mount = format!("mount -t tmpfs -o size={size}m none db && echo mounted && exec cat");
        let mut command = Command::new("unshare");
        command.args(["-rm", "sh", "-c", &mount]).current_dir(world.path(""));
        let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut keeper = spawned.ok()?;
        let mut line = String::new();
        let stdout = keeper.stdout.take().expect("a pipe");
        BufReader::new(stdout).read_line(&mut line).expect("a pipe");
        if line != "mounted\n" {
            eprintln!("SKIPPED: there can be no file system for this test alone (unshare -rm)");
            let _ = keeper.wait();
            return None;
        }
        Some(SmallDisk { world, keeper })
    }

    /// Returns the program, to be run inside the namespace of the file system.
    fn command(&self, arguments: &[&str]) -> Command {
        let inner = self.world.command(arguments);
        let mut command = Command::new("nsenter");
        command.args(["-t", &self.keeper.id().to_string(), "-U", "-m", "--preserve-credentials"]);
        command.arg(format!("--wdns={}", self.world.path("").display()));
        command.arg(inner.get_program()).args(inner.get_args());
        command
    }

    /// Remounts the file system read-only.
    fn make_read_only(&self) {
        let id = self.keeper.id().to_string();
        let mut command = Command::new("nsenter");
        command.args(["-t", &id, "-U", "-m", "--preserve-credentials"]);
        command.args(["mount", "-o", "remount,ro"]).arg(self.world.path("db"));
        assert!(command.status().expect("nsenter is there").success(), "it can be read-only");
    }

    /// Returns the path of a file of the file system, from outside the namespace.
    fn path(&self, name: &str) -> PathBuf {
        let inside = self.world.path("db").join(name);
        let inside = inside.strip_prefix("/").expect("an absolute path");
        PathBuf::from(format!("/proc/{}/root", self.keeper.id())).join(inside)
    }
}

impl Drop for SmallDisk<'_> {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.keeper.kill();
        let _ = self.keeper.wait();
    }
}

/// Fills the free space.
fn fill(path: &Path) {
    let mut file = File::create(path).expect("a file");
    for bytes in [1 << 20, 1 << 12] {
        // The writes go on until there is no room for a write of this size.
        while file.write_all(&vec![1; bytes]).is_ok() {}
    }
}

/// Returns a body of some hundred kilobytes that does not compress in the log.
fn body(number: u64) -> String {
    let mut seed = number;
    (0..2_000).fold(String::new(), |mut lines, row| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        lines += &format!("t n={number}i,a={}i,b={}i {row}\n", seed >> 1, seed >> 3);
        lines
    })
}

#[test]
fn writing_goes_on_when_there_is_room_again_and_nothing_is_lost() {
    let world = World::new();
    let Some(disk) = SmallDisk::new(&world, 48) else { return };
    let arguments = [
        ["serve", "--http"],
        ["127.0.0.1:0", "--ilp"],
        ["127.0.0.1:0", "--set"],
        ["ilp.tcp.commit_interval=10ms", "--set"],
        ["pg.listen=127.0.0.1:0", "--set"],
    ];
    let arguments = [&arguments.concat()[..], &["ilp.tcp.commit_retry=10m"]].concat();
    let server = Server::spawn(&mut disk.command(&arguments));
    let mut acknowledged = 0;
    assert_eq!(server.post("/write", "", body(0)).status, 204);
    acknowledged += 1;
    fill(&disk.path("filler"));
    // The log has some reserved space.
    let refused = loop {
        let answer = server.post("/write", "", body(acknowledged));
        if answer.status != 204 {
            break answer;
        }
        acknowledged += 1;
        assert!(acknowledged < 1_000, "the disk is full");
    };
    assert_eq!(refused.status, 507, "{}", refused.body);
    assert!(refused.body.starts_with(r#"{"code":"retry operation""#), "{}", refused.body);
    // Lines over TCP wait; statements that only read do not.
    let mut stream = server.connect_ilp();
    for number in 0..20 {
        stream.write_all(body(1_000 + number).as_bytes()).expect("the kernel takes them");
    }
    server.wait_for("commit failed, again in");
    let count = format!("[[{}]]", acknowledged * 2_000);
    assert_eq!(server.rows("select count(*) from t where n < 1000"), count);
    let insert = server.exec("insert into t select * from t");
    assert_eq!(insert.status, 507, "{}", insert.body);
    assert!(insert.body.contains(r#""code":"53100""#), "{}", insert.body);

    fs::remove_file(disk.path("filler")).expect("it is there");
    wait_until("writing to go on", || server.post("/write", "", body(acknowledged)).status == 204);
    acknowledged += 1;
    drop(stream);
    let count = format!("[[{}]]", acknowledged * 2_000);
    assert_eq!(server.rows("select count(*) from t where n < 1000"), count);
    wait_until("lines to go on", || {
        server.rows("select count(*) from t where n >= 1000") == "[[40000]]"
    });
    server.signal("-KILL");
    drop(server);
    // Every acknowledged request is there after a kill, and every request is whole.
    let sql = "select count(*), count(distinct n), min(c), max(c) \
               from (select n, count(*) c from t group by n)";
    let found = Run::of(disk.command(&["sql", sql, "--format", "csv"]).output().expect("it runs"));
    let requests = acknowledged + 20;
    let expected = format!("{requests},{requests},2000,2000");
    assert_eq!(found.succeeds().lines().nth(1), Some(expected.as_str()));
    Run::of(disk.command(&["verify"]).output().expect("it runs")).succeeds();
}

#[test]
fn a_database_on_a_read_only_file_system_is_read() {
    let world = World::new();
    let Some(disk) = SmallDisk::new(&world, 48) else { return };
    let run = |sql: &str| {
        let mut command = disk.command(&["sql", sql, "--format", "csv"]);
        Run::of(command.output().expect("it runs"))
    };
    run("create table t (ts timestamp, v bigint) timestamp(ts)").succeeds();
    run("insert into t values (0, 1), (1, 2)").succeeds();
    fs::remove_dir_all(disk.path("scratch")).expect("it is there");
    disk.make_read_only();
    assert_eq!(run("select sum(v) from t").succeeds(), "sum\n3\n");
    run("insert into t values (2, 3)").fails(1, &["read-only file system"]);

    let ports = ["--http", "127.0.0.1:0", "--ilp", "none", "--set", "pg.listen=127.0.0.1:0"];
    let server = Server::spawn(&mut disk.command(&[&["serve"], &ports[..]].concat()));
    assert_eq!(server.rows("select sum(v) from t"), "[[3]]");
    let refused = server.post("/write", "", "t v=4i 3\n");
    assert!(refused.body.contains("read-only file system"), "{}", refused.body);
}
