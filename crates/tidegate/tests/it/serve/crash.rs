//! A server that is killed at random moments: every acknowledged request is stored exactly once,
//! and no request is stored in part.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use super::server::Server;
use crate::world::{World, wait_until};

/// Clients that write at the same time.
const WRITERS: usize = 4;
/// Rows of a request in each of its tables.
const ROWS: u64 = 5;
const TABLES: [&str; 3] = ["a", "b", "c"];

/// Sends request after request, each with a number of its own, until the server is gone. Returns
/// the first number that was not acknowledged.
fn write_on(address: SocketAddr, writer: usize, mut number: u64, acknowledged: &AtomicU64) -> u64 {
    let Ok(mut stream) = TcpStream::connect(address) else { return number };
    stream.set_read_timeout(Some(Duration::from_secs(120))).expect("a timeout");
    loop {
        let mut body = String::new();
        for table in TABLES {
            for row in 0..ROWS {
                // A column that is added now and then makes schema changes part of the test.
                let extra = if number % 50 == 7 {
                    format!(",x{writer}_{number}=1i")
                } else {
                    String::new()
                };
                let time = number * 1_000_000 + row;
                body += &format!("{table},w=w{writer} n={number}i,seq={row}i{extra} {time}\n");
            }
        }
        let head =
            format!("POST /write HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n", body.len());
        let sent = stream.write_all((head + &body).as_bytes());
        let mut answer = [0; 1_024];
        match sent.and_then(|()| stream.read(&mut answer)) {
            Ok(count) if answer[..count].starts_with(b"HTTP/1.1 204 ") => {
                number += 1;
                acknowledged.fetch_add(1, SeqCst);
            }
            Ok(0) | Err(_) => return number,
            Ok(count) => panic!("{}", String::from_utf8_lossy(&answer[..count])),
        }
    }
}

/// Returns for each writer the number of requests below `next` that are stored, and checks that all
/// are whole and none is stored twice.
fn check(server: &Server, next: &[u64; WRITERS]) -> [u64; WRITERS] {
    let mut there = [0; WRITERS];
    for table in TABLES {
        if server.count(table).is_none() {
            assert_eq!(next, &[0; WRITERS], "{table} is gone");
            continue;
        }
        let whole = server.rows(&format!(
            "select count(*) from (select w, n, count(*) c, count(distinct seq) d from {table} \
             group by w, n) where c <> {ROWS} or d <> {ROWS}"
        ));
        assert_eq!(whole, "[[0]]", "requests are in {table} in part, or twice");
        for (writer, &acknowledged) in next.iter().enumerate() {
            let sql = format!(
                "select count(distinct n), coalesce(max(n), -1) + 1 from {table} \
                 where w = 'w{writer}'"
            );
            let found = server.rows(&sql);
            let numbers = found.trim_matches(['[', ']']).split(',');
            let numbers: Vec<u64> = numbers.map(|it| it.parse().expect("a number")).collect();
            assert_eq!(
                numbers[0], numbers[1],
                "{table}: there are gaps below request {}",
                numbers[1]
            );
            assert!(acknowledged <= numbers[0], "{table}: {} of {acknowledged}", numbers[0]);
            assert!(numbers[0] <= acknowledged + 1, "{table}: more than was sent");
            if table == TABLES[0] {
                there[writer] = numbers[0];
            } else {
                assert_eq!(
                    there[writer], numbers[0],
                    "a request is in {table} alone, or not in it"
                );
            }
        }
    }
    there
}

#[test]
fn acknowledged_requests_survive_a_kill_at_any_moment() {
    kill_and_check(3, 20, &[]);
}

#[test]
fn acknowledged_requests_survive_a_kill_with_asynchronous_durability() {
    kill_and_check(3, 60, &["durability=async"]);
}

#[test]
#[ignore = "slow: some minutes of kills"]
fn acknowledged_requests_survive_many_kills() {
    kill_and_check(100, 400, &[]);
}

/// Kills a server `kills` times, each time after up to `requests` acknowledged requests.
fn kill_and_check(kills: u64, requests: u64, keys: &[&str]) {
    let world = World::new();
    let mut next = [0; WRITERS];
    for round in 0..=kills {
        let server = Server::start_with(&world, keys);
        next = check(&server, &next);
        if round == kills {
            server.stop();
            break;
        }
        let acknowledged = AtomicU64::new(0);
        let address = server.http;
        thread::scope(|scope| {
            let writers: Vec<_> = (0..WRITERS)
                .map(|writer| {
                    let acknowledged = &acknowledged;
                    let number = next[writer];
                    scope.spawn(move || write_on(address, writer, number, acknowledged))
                })
                .collect();
            // The moment of the kill is set by the number of requests, not by a clock.
            let target = 1 + round * 37 % requests;
            wait_until("requests to be acknowledged", || target <= acknowledged.load(SeqCst));
            server.signal("-KILL");
            for (writer, thread) in writers.into_iter().enumerate() {
                next[writer] = thread.join().expect("the writer ends");
            }
        });
    }
    assert!(next.iter().sum::<u64>() > kills);
    world.run(&["verify"]).succeeds();
}
