//! Unmodified third-party clients: the packages `questdb` and `influxdb-client` for Python, if they
//! are installed.
//!
//! The interpreter is `$TIDEGATE_PYTHON`, or `~/.cache/tidegate-peers/python/bin/python`;
//! docs/server.md says how to make it.

use std::env;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::Command;

use super::server::Server;
use crate::world::World;

/// Returns an interpreter that has the package, if there is one.
#[expect(clippy::print_stderr, reason = "a test that is skipped says so")]
fn python(package: &str) -> Option<PathBuf> {
    let home = || env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let python = env::var_os("TIDEGATE_PYTHON").map(PathBuf::from);
    let python = python.unwrap_or_else(|| home().join(".cache/tidegate-peers/python/bin/python"));
    let mut command = Command::new(&python);
    command.args(["-c", &format!("import {package}")]);
    let is_there = command.output().is_ok_and(|output| output.status.success());
    if !is_there {
        eprintln!("skipped: no Python with `{package}` at {}", python.display());
    }
    is_there.then_some(python)
}

#[track_caller]
fn run(python: &PathBuf, program: &str, arguments: &[String]) {
    let output = Command::new(python).arg("-c").arg(program).args(arguments).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
}

#[test]
fn the_questdb_package_writes_over_http_and_tcp() {
    const PROGRAM: &str = r#"
import sys
from datetime import datetime, timezone
from questdb.ingress import Sender, TimestampNanos, IngressError
for number, conf in enumerate(sys.argv[1:3]):
    with Sender.from_conf(conf) as sender:
        for row in range(5_000):
            sender.row(
                'trades',
                symbols={'symbol': f'S{row % 10}', 'side': 'buy "x, y='},
                columns={'price': row / 4, 'amount': row, 'ok': row % 2 == 0, 'note': 'a\nb "c" \\',
                         'seen': datetime(2025, 3, 1, tzinfo=timezone.utc)},
                at=TimestampNanos(1_700_000_000_000_000_000 + number * 10**12 + row * 1_000))
        sender.flush()
with Sender.from_conf(sys.argv[1]) as sender:
    sender.row('trades', columns={'price': 'no number'}, at=TimestampNanos(1))
    try:
        sender.flush()
    except IngressError as error:
        assert 'price' in str(error), error
    else:
        raise Exception('a bad value was taken')
"#;
    let Some(python) = python("questdb") else { return };
    let world = World::new();
    let server = Server::start(&world);
    let http = format!("http::addr={};", server.http);
    let tcp = format!("tcp::addr={};", server.ilp);
    run(&python, PROGRAM, &[http, tcp]);
    server.wait_for_rows("trades", 10_000);
    let sums = server.rows(
        "select count(*), sum(amount), sum(price), count(distinct symbol), min(note), max(side), \
         min(seen) from trades",
    );
    let expected = concat!(
        r#"[[10000,24995000,6248750.0,10,"a\nb \"c\" \\","buy \"x, y=","#,
        r#""2025-03-01T00:00:00.000000Z"]]"#
    );
    assert_eq!(sums, expected);
}

#[test]
fn the_influxdb_package_writes() {
    const PROGRAM: &str = r#"
import sys
from influxdb_client import InfluxDBClient, Point, WriteOptions, WritePrecision
from influxdb_client.client.write_api import SYNCHRONOUS
from influxdb_client.rest import ApiException
with InfluxDBClient(url=sys.argv[1], token='t', org='o', enable_gzip=True) as client:
    assert client.ping()
    assert client.health().status == 'pass', client.health()
    with client.write_api(write_options=SYNCHRONOUS) as api:
        points = [Point('weather').tag('city', f'c {row % 7}').field('temp', row / 2)
                  .field('count', row).time(1_700_000_000_000 + row, WritePrecision.MS)
                  for row in range(3_000)]
        api.write(bucket='b', record=points, write_precision=WritePrecision.MS)
        try:
            api.write(bucket='b', record='weather temp="warm" 1')
        except ApiException as error:
            assert error.status == 400 and 'temp' in error.message, error
        else:
            raise Exception('a bad value was taken')
    with client.write_api(write_options=WriteOptions(batch_size=500)) as api:
        for row in range(2_000):
            api.write(bucket='b', record=f'weather,city=late temp={row}.5 {1_800_000_000 + row}',
                      write_precision=WritePrecision.S)
"#;
    let Some(python) = python("influxdb_client") else { return };
    let world = World::new();
    let server = Server::start(&world);
    run(&python, PROGRAM, &[format!("http://{}", server.http)]);
    server.wait_for_rows("weather", 5_000);
    let late = server.rows("select count(*), sum(temp) from weather where city = 'late'");
    assert_eq!(late, "[[2000,2000000.0]]");
    assert_eq!(
        server.rows("select count(distinct city), sum(\"count\") from weather"),
        "[[8,4498500]]"
    );
}

/// The key that QuestDB's documentation shows.
#[test]
fn only_clients_that_sign_may_send_lines() {
    const PROGRAM: &str = r#"
import sys
from questdb.ingress import Sender, TimestampNanos, IngressError
point = 'token_x=fLKYEaoEb9lrn3nkwLDA-M_xnuFOdSt9y0Z7_vWSHLU;' \
        'token_y=Dt5tbS1dEDMSYfym3fgMv0B99szno-dFc1rYF9t0aac;'
token = 'token=5UjEMuA0Pj5pjK8a-fa24dyIf-Es5mYny3oE_Wmus48;'
for name in ['testUser1', 'nobody']:
    try:
        with Sender.from_conf(f'tcp::addr={sys.argv[1]};username={name};{token}{point}') as sender:
            for row in range(3):
                sender.row('t', columns={'name': name}, at=TimestampNanos(row + 1))
    except IngressError:
        assert name != 'testUser1'
"#;
    let Some(python) = python("questdb") else { return };
    let world = World::new();
    let point = "fLKYEaoEb9lrn3nkwLDA-M_xnuFOdSt9y0Z7_vWSHLU \
                 Dt5tbS1dEDMSYfym3fgMv0B99szno-dFc1rYF9t0aac";
    world.file("keys", format!("# who may send\ntestUser1 ec-p-256-sha256 {point}\n"));
    let mut command = world.command(&["serve", "--http", "127.0.0.1:0", "--ilp", "127.0.0.1:0"]);
    let server = Server::spawn(command.args(["--set", "ilp.tcp.auth_file=keys"]));
    run(&python, PROGRAM, &[server.ilp.to_string()]);
    server.wait_for_rows("t", 3);
    // Lines without a login are taken for the name of a key and an invalid signature.
    let mut stream = std::net::TcpStream::connect(server.ilp).expect("it listens");
    stream.write_all(b"t name=\"no one\" 9\n").expect("it reads");
    let mut answer = Vec::new();
    stream.write_all(b"t name=\"no one\" 10\n").expect("it reads");
    stream.read_to_end(&mut answer).expect("it ends");
    assert_eq!(answer.len(), 513, "a challenge, and nothing else");
    assert_eq!(server.rows("select distinct name from t"), r#"[["testUser1"]]"#);
    assert!(server.metric("tidegate_auth_failures_total") >= 2.0);
}

#[test]
fn a_file_that_has_no_keys_is_wrong_use() {
    let world = World::new();
    world.file("keys", "testUser1 rsa x y\n");
    let line = ["serve", "--http", "127.0.0.1:0", "--ilp", "127.0.0.1:0", "--set"];
    let run = world.run(&[&line[..], &["ilp.tcp.auth_file=keys"]].concat());
    run.fails(2, &["keys, line 1: expected `name ec-p-256-sha256 x y`"]);
}
