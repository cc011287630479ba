//! TLS for HTTP. `openssl` makes the certificates and is the client too; if it is not installed, a
//! test says that it was skipped.

use std::io::Write;
use std::process::{Command, Stdio};

use super::server::Server;
use crate::world::World;

/// Creates a certificate of this name, and its key; returns false if `openssl` is missing.
fn make_certificate(world: &World, name: &str) -> bool {
    let mut openssl = Command::new("openssl");
    openssl.args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]);
    openssl.arg("-subj").arg(format!("/CN={name}")).arg("-keyout").arg(world.path("key.pem"));
    let made = openssl.arg("-out").arg(world.path("cert.pem")).output();
    let is_made = made.is_ok_and(|output| output.status.success());
    if is_made {
        let secret = Command::new("chmod").arg("600").arg(world.path("key.pem")).status();
        assert!(secret.is_ok_and(|status| status.success()));
    } else {
        skipped();
    }
    is_made
}

#[expect(clippy::print_stderr, reason = "a test that is skipped says so")]
fn skipped() {
    eprintln!("skipped: there is no openssl");
}

fn start(world: &World, mode: &str, more: &[&str]) -> Server {
    let path = |name: &str| world.path(name).display().to_string();
    let mode = format!("tls.mode={mode}");
    let (cert, key) =
        (format!("tls.cert={}", path("cert.pem")), format!("tls.key={}", path("key.pem")));
    Server::start_with(world, &[&[&*mode, &*cert, &*key], more].concat())
}

/// Returns the answer to a request over TLS, with the client's report on the connection.
fn ask(server: &Server, request: &str, options: &[&str]) -> String {
    let mut client = Command::new("openssl");
    client.args(["s_client", "-ign_eof", "-connect"]).arg(server.http.to_string()).args(options);
    client.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut client = client.spawn().expect("it was there before");
    let mut stdin = client.stdin.take().expect("a pipe");
    // The server may have refused the connection already.
    let _ = stdin.write_all(request.as_bytes());
    drop(stdin);
    let output = client.wait_with_output().expect("it ends");
    let all = [output.stdout, output.stderr].concat();
    String::from_utf8_lossy(&all).into_owned()
}

const QUERY: &str =
    "GET /exec?query=SELECT%2040%2B2 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";

#[test]
fn one_port_speaks_both_where_that_is_allowed() {
    let world = World::new();
    if !make_certificate(&world, "first.example") {
        return;
    }
    let server = start(&world, "allow", &[]);
    for (options, version) in
        [(&["-tls1_3"][..], "TLSv1.3"), (&["-tls1_2", "-alpn", "h2,http/1.1"], "TLSv1.2")]
    {
        let stdout = ask(&server, QUERY, options);
        assert!(stdout.contains("[[42]]") && stdout.contains(version), "{options:?}: {stdout}");
    }
    let stdout = ask(&server, QUERY, &["-alpn", "h2,http/1.1"]);
    assert!(stdout.contains("ALPN protocol: http/1.1"), "{stdout}");
    assert!(!ask(&server, QUERY, &["-alpn", "postgresql"]).contains("[[42]]"), "server_tls-3");
    assert!(!ask(&server, QUERY, &["-tls1_1", "-cipher", "ALL:@SECLEVEL=0"]).contains("[[42]]"));
    assert_eq!(server.rows("SELECT 40 + 2"), "[[42]]", "http-3");
    let large = "GET /exp?query=SELECT%20x%20FROM%20long_sequence(200000) HTTP/1.1\r\nHost: x\r\n\
                 Connection: close\r\n\r\n";
    let stdout = ask(&server, large, &["-quiet"]);
    assert!(stdout.contains("\r\n199999\r\n") && stdout.contains("\r\n0\r\n\r\n"), "all rows come");
    server.stop();
}

#[test]
fn plain_connections_are_refused_where_tls_is_required() {
    let world = World::new();
    if !make_certificate(&world, "first.example") {
        return;
    }
    let server = start(&world, "require", &["http.auth=required"]);
    let answer = server.get("/ping");
    assert_eq!(answer.status, 400, "{}", answer.body);
    assert!(answer.body.contains("speaks TLS"), "http-3: {}", answer.body);
    let with = |field: &str| QUERY.replace("Connection", &format!("{field}\r\nConnection"));
    assert!(ask(&server, QUERY, &[]).contains("401 Unauthorized"));
    let known = ask(&server, &with("Authorization: Token admin:quest"), &[]);
    assert!(known.contains("[[42]]"), "{known}");
    server.stop();
}

#[test]
fn another_certificate_is_shown_as_soon_as_it_is_there() {
    let world = World::new();
    if !make_certificate(&world, "first.example") {
        return;
    }
    let server = start(&world, "allow", &[]);
    assert!(ask(&server, QUERY, &[]).contains("first.example"));
    assert!(make_certificate(&world, "second.example"));
    server.signal("-HUP");
    server.wait_for("reloaded");
    assert!(ask(&server, QUERY, &[]).contains("second.example"), "server_tls-2");
    world.file("cert.pem", "no certificate");
    server.signal("-HUP");
    server.wait_for("certificates stay as they were");
    assert!(ask(&server, QUERY, &[]).contains("second.example"), "server_tls-2");
    server.stop();
}

#[test]
fn clients_show_a_certificate_where_one_is_wanted() {
    let world = World::new();
    if !make_certificate(&world, "first.example") {
        return;
    }
    let ca = format!("tls.client_ca={}", world.path("cert.pem").display());
    let server = start(&world, "allow", &[&ca]);
    assert!(!ask(&server, QUERY, &[]).contains("[[42]]"), "nobody without one comes in");
    server.stop();
}
