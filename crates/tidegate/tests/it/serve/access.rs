//! Authentication and authorization: logins, roles and tokens, and the privileges of requests.

use std::io::Write;
use std::net::TcpStream;
use std::time::Instant;

use super::server::{Answer, Server};
use crate::world::{World, wait_until};

const ADMIN: &str = "auth.admin_password=a better one";
const READER: [&str; 2] = ["auth.readonly_enabled=true", "auth.readonly_password=look"];

/// Returns the `Authorization` header for a name and a password.
fn basic(user: &str, password: &str) -> String {
    format!("Authorization: Basic {}\r\n", base64(format!("{user}:{password}").as_bytes()))
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let group = |group: &[u8]| {
        let bits = group.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte));
        let bits = bits << (8 * (3 - group.len()));
        let digit = |at: usize| {
            let digit = DIGITS[(bits >> (18 - 6 * at)) as usize & 63];
            char::from(if at <= group.len() { digit } else { b'=' })
        };
        (0..4).map(digit).collect::<String>()
    };
    bytes.chunks(3).map(group).collect()
}

fn get(server: &Server, target: &str, fields: &str) -> Answer {
    server.request(&format!("GET {target} HTTP/1.1\r\nHost: x\r\n{fields}"), b"")
}

fn exec(server: &Server, sql: &str, fields: &str) -> Answer {
    server.post("/exec", &format!("{fields}Content-Type: text/plain\r\n"), sql)
}

#[track_caller]
fn check(answer: &Answer, status: u16, code: &str) {
    assert_eq!(answer.status, status, "{}\n{}", answer.head, answer.body);
    assert!(answer.body.contains(code), "{}", answer.body);
}

/// Starts a server that requires a login for every request.
fn asking(world: &World) -> Server {
    let keys = ["http.auth=required", "copy.root=import", ADMIN, READER[0], READER[1]];
    Server::start_with(world, &keys)
}

#[test]
fn a_reader_sees_no_connections_of_others() {
    let world = World::new();
    let server = asking(&world);
    let (admin, reader) = (basic("admin", "a better one"), basic("user", "look"));
    let lines = server.connect_ilp();
    let connections = "SELECT count(*) FROM ilp_connections()";
    let seen = || exec(&server, connections, &admin).body.contains("[[1]]");
    wait_until("the connection to be seen", seen);
    check(&exec(&server, connections, &reader), 200, "[[0]]");
    drop(lines);
    server.stop();
}

/// Runs `tidegate user` with the password on standard input.
#[track_caller]
fn user(world: &World, arguments: &[&str], password: &str) -> String {
    let run = world.run_with(&[&["user"], arguments].concat(), password.as_bytes());
    assert_eq!(run.code, Some(0), "{arguments:?}: {}", run.stderr);
    run.stdout
}

#[test]
fn users_come_and_go_while_the_server_runs() {
    let world = World::new();
    let server = asking(&world);
    let ann = basic("ann", "first");
    check(&exec(&server, "SELECT 1", &ann), 401, "28P01");
    user(&world, &["add", "ann", "--role", "writer"], "first\n");
    check(&exec(&server, "SELECT current_user", &ann), 200, r#"[["ann"]]"#);
    check(&server.post("/write", &ann, "t v=1i 1\nt v=2i 2"), 204, "");
    check(&exec(&server, "UPDATE t SET v = 3 WHERE v = 2", &ann), 200, "\"updated\":1");
    check(&exec(&server, "DELETE FROM t WHERE v = 3", &ann), 200, "\"deleted\":1");
    let csv = format!("{ann}Content-Type: text/csv\r\n");
    check(&server.post("/imp?name=u&fmt=json", &csv, "a,b\n1,2\n"), 200, "\"rowsImported\":1");
    let replaced = server.post("/imp?name=u&fmt=json&overwrite=true", &csv, "a,b\n1,2\n");
    check(&replaced, 403, "42501");
    for sql in ["DROP TABLE t", "TRUNCATE TABLE t", "CREATE TABLE w (a INT)", "COPY t FROM 'x.csv'"]
    {
        check(&exec(&server, sql, &ann), 403, "42501");
    }
    user(&world, &["passwd", "ann"], "second\n");
    check(&exec(&server, "SELECT 1", &ann), 401, "28P01");
    check(&exec(&server, "SELECT 1", &basic("ann", "second")), 200, "[[1]]");
    let list = user(&world, &["list", "--format", "csv"], "");
    assert!(list.contains("ann,writer,users.toml"), "{list}");
    user(&world, &["remove", "ann"], "");
    check(&exec(&server, "SELECT 1", &basic("ann", "second")), 401, "28P01");
    let log = server.log();
    for expected in [
        "audit: user `ann` is new, a writer",
        "audit: user `ann`: new password",
        "audit: user `ann` is gone",
        "`ann` has logged in",
    ] {
        assert!(log.contains(expected), "{expected}: {log}");
    }
    server.stop();
}

#[test]
fn tokens_are_their_users() {
    let world = World::new();
    let server = asking(&world);
    user(&world, &["add", "ann", "--role", "writer"], "secret");
    let token = user(&world, &["token", "ann", "--expires", "90d"], "").trim().to_owned();
    let bearer = format!("Authorization: Bearer {token}\r\n");
    check(&exec(&server, "SELECT current_user", &bearer), 200, r#"[["ann"]]"#);
    // The header has the form of InfluxDB 2's clients.
    let influx = format!("Authorization: Token {token}\r\n");
    check(&server.post("/api/v2/write?bucket=b&org=o", &influx, "t v=1i 1"), 204, "");
    check(&exec(&server, "DROP TABLE t", &bearer), 403, "42501");
    let list = user(&world, &["token", "list", "--format", "csv"], "");
    let id = list.lines().nth(1).and_then(|line| line.split(',').next()).expect("an id").to_owned();
    assert!(list.contains(",ann,") && !list.contains(&token), "{list}");
    user(&world, &["token", "revoke", &id], "");
    check(&exec(&server, "SELECT 1", &bearer), 401, "28P01");
    let admins = user(&world, &["token", "admin"], "").trim().to_owned();
    let admins = format!("Authorization: Bearer {admins}\r\n");
    check(&exec(&server, "DROP TABLE t", &admins), 200, "\"ddl\":\"OK\"");
    server.stop();
    let run = world.run(&["user", "token", "bob"]);
    run.fails(1, &["user `bob` does not exist"]);
    let run = world.run_with(&["user", "add", "admin", "--role", "reader"], b"x");
    run.fails(2, &["user `admin` is defined in the configuration"]);
}

#[test]
fn failed_logins_are_delayed_and_cached_ones_compute_no_hash() {
    let world = World::new();
    let server = asking(&world);
    let wrong = basic("admin", "wrong");
    let mut last = std::time::Duration::ZERO;
    for _ in 0..6 {
        let start = Instant::now();
        check(&exec(&server, "SELECT 1", &wrong), 401, "28P01");
        last = start.elapsed();
    }
    assert!(last.as_millis() >= 400, "auth-3: {last:?}");
    // The requests share one connection: a login each would take a minute without optimisation.
    let right = basic("admin", "a better one");
    let request = format!("GET /chk?j=t HTTP/1.1\r\nHost: x\r\n{right}\r\n");
    let mut stream: TcpStream = server.connect();
    stream.write_all(request.repeat(999).as_bytes()).unwrap();
    let end = format!("GET /chk?j=t HTTP/1.1\r\nHost: x\r\n{right}Connection: close\r\n\r\n");
    stream.write_all(end.as_bytes()).unwrap();
    let mut bytes = Vec::new();
    std::io::Read::read_to_end(&mut stream, &mut bytes).unwrap();
    let text = String::from_utf8(bytes).unwrap();
    assert_eq!(text.matches("HTTP/1.1 200 OK").count(), 1_000, "guard-3");
    let logins = server.log().matches("`admin` has logged in").count();
    assert_eq!(logins, 1, "guard-3");
    server.stop();
}

#[test]
fn secrets_are_nowhere() {
    let world = World::new();
    let secrets = ["a better one", "look-at-this", "first-of-ann"];
    let reader = "auth.readonly_password=look-at-this";
    let keys = ["http.auth=required", ADMIN, READER[0], reader];
    let server = Server::start_with(&world, &keys);
    user(&world, &["add", "ann", "--role", "reader"], secrets[2]);
    let token = user(&world, &["token", "ann"], "").trim().to_owned();
    let admin = basic("admin", secrets[0]);
    let mut seen = String::new();
    for (target, fields) in [
        ("/exec?query=SHOW%20PARAMETERS", admin.clone()),
        ("/exec?query=SELECT%20*%20FROM%20query_activity()", admin.clone()),
        ("/metrics", admin.clone()),
        ("/settings", String::new()),
        ("/exec?query=x", format!("Authorization: Bearer {token}\r\n")),
        ("/exec?query=x", format!("Authorization: Bearer {token}x\r\n")),
        ("/exec?query=x", format!("Authorization: Token ann:{}\r\n", secrets[2])),
        ("/exec?query=x", format!("Authorization: Token ann:{}.\r\n", secrets[2])),
        ("/exec?query=x", format!("Authorization: Token {}:x\r\n", secrets[1])),
    ] {
        let answer = get(&server, target, &fields);
        seen.push_str(&answer.head);
        seen.push_str(&answer.body);
    }
    seen.push_str(&server.log());
    seen.push_str(&world.text("db/conf/users.toml"));
    let mut print = world.command(&["config", "print", "--set", ADMIN, "--set", reader]);
    seen.push_str(&String::from_utf8(print.output().unwrap().stdout).unwrap());
    assert!(seen.contains("auth.admin_password") && seen.contains("has logged in"), "{seen}");
    for secret in secrets.into_iter().chain([&*token]) {
        assert!(!seen.contains(secret), "{secret} in {seen}");
    }
    server.stop();
}

#[test]
fn what_is_logged_changes_with_a_signal() {
    let world = World::new();
    std::fs::create_dir_all(world.path("db/conf")).unwrap();
    let server = Server::start(&world);
    check(&exec(&server, "CREATE TABLE a (v INT)", ""), 200, "OK");
    server.wait_for("CREATE TABLE a");
    world.file("db/conf/tidegate.toml", "[log]\nlevel = \"info,audit=off\"\n");
    server.signal("-HUP");
    server.wait_for("reloaded");
    check(&exec(&server, "CREATE TABLE b (v INT)", ""), 200, "OK");
    world.file("db/conf/tidegate.toml", "log.level = \"loud\"\n");
    server.signal("-HUP");
    let lines = server.lines_until("reloaded").join("\n");
    assert!(lines.contains("keys stay as they were") && !lines.contains("TABLE b"), "{lines}");
    server.stop();
}
