//! Logins that are bound to a certificate, and clients that read nothing.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;

use super::super::server::Server;
use super::wire::{message, open, start};
use super::{PASSWORD, SECRET};
use crate::world::{World, wait_until};

const TRUST: &str = "pg.auth_methods=trust";

fn query(sql: &str) -> Vec<u8> {
    message(b'Q', format!("{sql}\0").as_bytes())
}

/// Returns a connection that has logged in, and its number.
fn enter(server: &Server, user: &str) -> (TcpStream, u32) {
    let mut stream = open(server);
    stream.write_all(&start(user)).unwrap();
    let (mut seen, mut byte) = (Vec::new(), [0]);
    while !seen.ends_with(b"Z\0\0\0\x05I") {
        stream.read_exact(&mut byte).unwrap();
        seen.push(byte[0]);
    }
    let key = seen.windows(5).rposition(|it| it == b"K\0\0\0\x0c").expect("a key") + 5;
    (stream, u32::from_be_bytes(seen[key..key + 4].try_into().unwrap()))
}

/// Runs psql over TLS; nothing if it is not there.
fn psql(server: &Server, binding: &str, sql: &str) -> Option<(String, String)> {
    let mut command = Command::new("psql");
    command.args(["-X", "-A", "-t", "-c", sql]).env("PGPASSWORD", PASSWORD);
    command.env("PGCHANNELBINDING", binding).env("PGSSLMODE", "require");
    command.args(["-h", "127.0.0.1", "-U", "admin", "-d", "test", "-p"]);
    let output = command.arg(server.pg.port().to_string()).output().ok()?;
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Some((text(output.stdout), text(output.stderr)))
}

/// Tests `channel_binding=require` of libpq with certificates whose signatures have various hashes.
#[test]
fn logins_are_bound_to_the_certificate() {
    for (key, hash) in [("rsa:2048", "-sha256"), ("rsa:2048", "-sha384"), ("ec", "-sha512")] {
        let world = World::new();
        let mut openssl = Command::new("openssl");
        openssl.args(["req", "-x509", "-nodes", "-days", "2", hash, "-newkey", key]);
        if key == "ec" {
            openssl.args(["-pkeyopt", "ec_paramgen_curve:prime256v1"]);
        }
        openssl.args(["-subj", "/CN=localhost", "-keyout"]).arg(world.path("key.pem"));
        let made = openssl.arg("-out").arg(world.path("cert.pem")).output();
        if !made.is_ok_and(|output| output.status.success()) {
            return;
        }
        let secret = Command::new("chmod").arg("600").arg(world.path("key.pem")).status();
        assert!(secret.is_ok_and(|status| status.success()));
        let path = |name: &str| world.path(name).display().to_string();
        let (cert, private) =
            (format!("tls.cert={}", path("cert.pem")), format!("tls.key={}", path("key.pem")));
        let server = Server::start_with(&world, &[SECRET, "tls.mode=require", &cert, &private]);
        for binding in ["require", "prefer", "disable"] {
            let Some((stdout, errors)) = psql(&server, binding, "SELECT 40 + 2") else { return };
            assert_eq!((stdout.as_str(), errors.as_str()), ("42\n", ""), "{hash} {binding}");
        }
        server.stop();
    }
}

// The statement of a client that reads nothing had ended when its last batch was queued: up to
// three batches of each such client were counted nowhere, and there was nothing to cancel. 500
// clients took 3 GB with a limit of 1 GiB.
#[test]
fn rows_that_a_client_does_not_read_are_charged_to_their_statement() {
    let world = World::new();
    let server = Server::start_with(&world, &[TRUST, "http.auth=off"]);
    // More than the buffers of a connection hold, in few batches.
    let long = "SELECT repeat('x', 100000) AS text FROM long_sequence(200)";
    let held = "select protocol from query_activity() where memory_bytes > 1000000 \
                and protocol in ('pg', 'http') order by 1";
    let (mut asking, _) = enter(&server, "admin");
    let of_cursor = format!("DECLARE c CURSOR FOR {long}");
    let (mut fetching, _) = enter(&server, "admin");
    let mut exec = TcpStream::connect(server.http).unwrap();
    asking.write_all(&query(long)).unwrap();
    let fetch = [query("BEGIN"), query(&of_cursor), query("FETCH 1 FROM c")];
    fetching.write_all(&fetch.concat()).unwrap();
    let path = long.replace(' ', "%20").replace('\'', "%27");
    let host = server.http;
    write!(exec, "GET /exec?query={path} HTTP/1.1\r\nHost: {host}\r\n\r\n").unwrap();
    let expected = r#"[["http"],["pg"],["pg"]]"#;
    wait_until("all of them to hold rows", || server.rows(held) == expected);
    // They hold them for as long as their clients read nothing.
    for _ in 0..40 {
        std::thread::sleep(std::time::Duration::from_millis(25));
        assert_eq!(server.rows(held), expected, "portal-1, exec-1");
    }
    drop((asking, fetching, exec));
    wait_until("them to end with their clients", || server.rows(held) == "[]");
    server.stop();
}
