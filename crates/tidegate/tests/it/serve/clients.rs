//! Clients that others have written, as they are: the packages `questdb` and `influxdb-client` for
//! Python, where they are installed.
//!
//! The interpreter is `$TIDEGATE_PYTHON`, or `~/.cache/tidegate-peers/python/bin/python`;
//! docs/server.md says how to make it.

use std::env;
use std::path::PathBuf;
use std::process::Command;

use super::server::Server;
use crate::world::World;

/// An interpreter that has the package, if there is one.
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
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
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
