//! Authentication and authorization: logins, roles and tokens, and the privileges of requests.

use std::io::Write;
use std::net::TcpStream;
use std::time::Instant;

use super::server::{Answer, Server, encode};
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
fn whoever_is_unknown_is_not_let_in() {
    let world = World::new();
    let server = asking(&world);
    let silent = exec(&server, "SELECT 1", "");
    check(&silent, 401, r#""code":"28000""#);
    assert_eq!(silent.field("WWW-Authenticate"), Some("Basic realm=\"tidegate\""));
    let wrong = exec(&server, "SELECT 1", &basic("admin", "quest"));
    let unknown = exec(&server, "SELECT 1", &basic("nobody", "quest"));
    check(&wrong, 401, r#""code":"28P01""#);
    let said = |answer: &Answer| answer.body.split("\"requestId\"").next().unwrap().to_owned();
    assert_eq!(said(&wrong), said(&unknown), "GD2");
    for fields in [&*basic("admin", "a better one"), "Authorization: Token admin:a better one\r\n"]
    {
        check(&exec(&server, "SELECT 40 + 2", fields), 200, "[[42]]");
    }
    for target in ["/", "/exec", "/exp", "/chk?j=t", "/query", "/metrics"] {
        check(&get(&server, target, ""), 401, "28000");
    }
    check(&server.post("/write", "", "t v=1i 1"), 401, r#""code":"unauthorized""#);
    for (target, status) in [("/ping", 204), ("/health", 200), ("/settings", 200)] {
        assert_eq!(get(&server, target, "").status, status, "{target}");
    }
    check(&get(&server, "/metrics", &basic("user", "look")), 200, "auth_failures_total 2");
    server.stop();
}

#[test]
fn a_reader_reads() {
    let world = World::new();
    let server = asking(&world);
    let (admin, reader) = (basic("admin", "a better one"), basic("user", "look"));
    check(&server.post("/write", &admin, "t v=1i 1"), 204, "");
    check(&exec(&server, "SELECT v FROM t", &reader), 200, "[[1]]");
    for sql in [
        "INSERT INTO t (v, timestamp) VALUES (2, 2)",
        "UPDATE t SET v = 2",
        "DELETE FROM t",
        "CREATE TABLE u (v INT)",
        "DROP TABLE t",
        "COPY t TO 'x.csv' WITH (FORMAT csv)",
        "EXPLAIN ANALYZE DELETE FROM t",
    ] {
        check(&exec(&server, sql, &reader), 403, r#""code":"42501""#);
    }
    check(&server.post("/write", &reader, "t v=2i 2"), 403, r#""code":"forbidden""#);
    let upload = server.post(
        "/imp?name=t&fmt=json",
        &format!("{reader}Content-Type: text/csv\r\n"),
        "v\n2\n",
    );
    check(&upload, 403, r#""code":"42501""#);
    check(&exec(&server, "SELECT v FROM t", &admin), 200, "[[1]]");
    // The user sees its own role, and nothing about others.
    let roles = "SELECT rolname, rolsuper, rolcreatedb, rolcreaterole FROM pg_roles";
    check(&exec(&server, roles, &reader), 200, r#"[["user",false,false,false]]"#);
    check(&exec(&server, roles, &admin), 200, r#"[["admin",true,true,true]]"#);
    let users = "SELECT usename, usesuper, usecreatedb FROM pg_user";
    check(&exec(&server, users, &reader), 200, r#"[["user",false,false]]"#);
    let lines = server.connect_ilp();
    let connections = "SELECT count(*) FROM ilp_connections()";
    let seen = || exec(&server, connections, &admin).body.contains("[[1]]");
    wait_until("the connection to be seen", seen);
    check(&exec(&server, connections, &reader), 200, "[[0]]");
    drop(lines);
    let key = "SELECT set_config('auth.admin_password', 'x', false)";
    check(&exec(&server, key, &reader), 400, r#""code":"55P02""#);
    let log = server.log();
    let expected = "permission denied: a reader may not do DROP TABLE";
    assert!(log.lines().any(|it| it.contains("audit") && it.contains(expected)), "{log}");
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
    run.fails(1, &["there is no user `bob`"]);
    let run = world.run_with(&["user", "add", "admin", "--role", "reader"], b"x");
    run.fails(2, &["`admin` is a user of the configuration"]);
}

#[test]
fn whoever_fails_waits_and_whoever_is_known_does_not_compute() {
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
    assert_eq!(text.matches("HTTP/1.1 200 OK").count(), 1_000, "GD3");
    let logins = server.log().matches("`admin` has logged in").count();
    assert_eq!(logins, 1, "GD3");
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
fn a_page_from_elsewhere_may_what_it_is_allowed() {
    let world = World::new();
    let server = Server::start_with(&world, &["http.cors_origins=https://grafana.example"]);
    let (known, other) =
        ("Origin: https://grafana.example\r\n", "Origin: https://evil.example\r\n");
    let allowed = exec(&server, "SELECT 40 + 2", known);
    check(&allowed, 200, "[[42]]");
    let origin = allowed.field("Access-Control-Allow-Origin");
    assert_eq!(origin, Some("https://grafana.example"), "GD4");
    check(&exec(&server, "DROP TABLE t", other), 403, "42501");
    let ask = |origin: &str| {
        let head = "OPTIONS /exec HTTP/1.1\r\nHost: x\r\nAccess-Control-Request-Method: POST\r\n";
        server.request(&format!("{head}{origin}"), b"")
    };
    let asked = ask(known);
    assert_eq!(
        (asked.status, asked.field("Access-Control-Allow-Methods")),
        (204, Some("GET, HEAD, POST"))
    );
    assert_eq!(ask(other).status, 403, "GD4");
    server.stop();
}

// A page of another site can make a browser send a GET by a mere link, with the remembered
// password: `location = "http://db/exec?query=DROP TABLE t"`.
#[test]
fn a_get_and_a_head_only_read() {
    let world = World::new();
    let server = asking(&world);
    let admin = basic("admin", "a better one");
    let table = "CREATE TABLE t (ts TIMESTAMP, v INT) TIMESTAMP(ts)";
    check(&exec(&server, table, &admin), 200, "\"ddl\":\"OK\"");
    for sql in [
        "INSERT INTO t VALUES (1, 1)",
        "UPDATE t SET v = 1",
        "DELETE FROM t",
        "CREATE TABLE u (v INT)",
        "DROP TABLE t",
        "TRUNCATE TABLE t",
        "ALTER TABLE t ADD COLUMN w INT",
        "RENAME TABLE t TO u",
        "COPY t TO 'x.csv' WITH (FORMAT csv)",
        "COPY 'x' CANCEL",
        "CANCEL QUERY 1",
        "EXPLAIN ANALYZE DELETE FROM t",
    ] {
        let target = format!("/exec?query={}", encode(sql));
        let answer = get(&server, &target, &admin);
        check(&answer, 405, "GET and HEAD only read, use POST");
        assert_eq!(answer.field("Allow"), Some("POST"), "GD6: {sql}");
        assert!(answer.body.contains("\"25006\""), "GD6: {}", answer.body);
        let head = format!("HEAD {target} HTTP/1.1\r\nHost: x\r\n{admin}");
        let bytes = server.bytes(&head, b"");
        assert!(bytes.starts_with(b"HTTP/1.1 405 "), "GD6: {sql}");
        // An export returns rows as a file, whatever the method.
        let exported = server.post(&target.replace("/exec", "/exp"), &admin, "");
        assert!(exported.status != 200, "{sql}: {}", exported.body);
    }
    for call in ["cancel_query(1)", "pg_cancel_backend(1)", "pg_terminate_backend(1)"] {
        let refused = get(&server, &format!("/exec?query=SELECT%20{call}"), &admin);
        check(&refused, 405, "GET and HEAD only read, use POST");
        let refused = get(&server, &format!("/exp?query=SELECT%20{call}"), &admin);
        check(&refused, 403, "in a read-only transaction");
        check(&exec(&server, &format!("SELECT {call}"), &admin), 200, "[[false]]");
    }
    let all = "SELECT table_name FROM tables() WHERE table_name IN ('t', 'u')";
    check(&exec(&server, all, &admin), 200, "[[\"t\"]]");
    check(&exec(&server, "SELECT count(*) FROM t", &admin), 200, "[[0]]");
    server.stop();
}

#[test]
fn a_get_of_a_program_may_be_let_change_things() {
    let world = World::new();
    let keys = ["http.auth=required", "http.get_readonly=false", ADMIN];
    let server = Server::start_with(&world, &keys);
    let target = |name: &str| format!("/exec?query=CREATE%20TABLE%20{name}%20(v%20INT)");
    let token = "Authorization: Token admin:a better one\r\n";
    check(&get(&server, &target("t"), token), 200, "\"ddl\":\"OK\"");
    let browser = "User-Agent: Mozilla/5.0 (X11; Linux x86_64)\r\n";
    for fields in [basic("admin", "a better one"), format!("{token}{browser}")] {
        check(&get(&server, &target("u"), &fields), 405, "use POST");
    }
    server.stop();
}

// Only four routes checked `Host` and `Origin`, and none with `http.auth` off: a page whose name
// was made to resolve to this server read the columns of any table over /api/v1/sql/validate.
#[test]
fn no_page_of_another_place_or_name_gets_an_answer_from_any_route() {
    let world = World::new();
    for keys in [&["http.auth=off"][..], &[], &["http.auth=required", ADMIN]] {
        let server = Server::start_with(&world, keys);
        let description = server.request(
            "GET /openapi.json HTTP/1.1\r\nHost: x\r\n\
            Authorization: Token admin:a better one\r\n",
            b"",
        );
        let paths: Vec<String> = description
            .body
            .lines()
            .filter_map(|line| line.strip_prefix("  \"/")?.strip_suffix("\": {"))
            .map(|path| format!("/{path}"))
            .collect();
        assert!(paths.len() >= 18, "{paths:?}");
        for path in &paths {
            let is_open = ["/ping", "/health", "/health/live", "/health/ready"];
            let is_open = is_open.contains(&path.as_str());
            for (method, fields) in [
                ("GET", "Host: evil.example\r\n"),
                ("POST", "Host: evil.example:9000\r\n"),
                ("GET", "Host: x\r\nOrigin: http://evil.example\r\n"),
                ("POST", "Host: x\r\nOrigin: null\r\n"),
                ("POST", "Host: x\r\nSec-Fetch-Site: cross-site\r\n"),
            ] {
                let kinds = match method {
                    "POST" => &[
                        "text/plain",
                        "application/x-www-form-urlencoded",
                        "multipart/form-data; boundary=x",
                    ][..],
                    _ => &["text/plain"],
                };
                for kind in kinds {
                    let head = format!(
                        "{method} {path} HTTP/1.1\r\n{fields}Content-Type: {kind}\r\n\
                         Content-Length: 0\r\nAuthorization: Basic YWRtaW46YSBiZXR0ZXIgb25l\r\n"
                    );
                    let status = server.request(&head, b"").status;
                    assert!(is_open || status == 403, "GD5: {keys:?} {head}: {status}");
                }
            }
        }
        // A link to the console may stand on any site.
        let link = "GET / HTTP/1.1\r\nHost: x\r\nSec-Fetch-Site: cross-site\r\n\
                    Authorization: Token admin:a better one\r\n";
        assert_eq!(server.request(link, b"").status, 200, "GD4");
        server.stop();
    }
}

#[test]
fn names_of_the_server_are_listed() {
    let world = World::new();
    let keys = ["http.hosts=db.example", "http.admin_listen=127.0.0.1:0"];
    let server = Server::start_with(&world, &keys);
    let ask = |host: &str| {
        server.request(&format!("GET /settings HTTP/1.1\r\nHost: {host}\r\n"), b"").status
    };
    assert_eq!((ask("DB.example:9000"), ask("db.example.evil.example")), (200, 403), "GD5");
    // The host of an absolute-form target counts.
    let absolute = "GET http://evil.example/settings HTTP/1.1\r\nHost: x\r\n";
    assert_eq!(server.request(absolute, b"").status, 403, "WI5");
    let mut admin = std::net::TcpStream::connect(server.admin).unwrap();
    let metrics = b"GET /metrics HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n";
    admin.write_all(metrics).unwrap();
    let mut answer = Vec::new();
    std::io::Read::read_to_end(&mut admin, &mut answer).unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 403 "), "GD5");
    server.stop();
}

// A proxy on the machine of the server made every client behind it an administrator.
#[test]
fn a_request_through_a_proxy_needs_a_login() {
    let world = World::new();
    let server = Server::start(&world);
    check(&exec(&server, "SELECT 1", ""), 200, "[[1]]");
    for field in ["X-Forwarded-For: 10.0.0.9", "Forwarded: for=10.0.0.9", "Via: 1.1 proxy"] {
        let refused = exec(&server, "SELECT 1", &format!("{field}\r\n"));
        check(&refused, 403, "TIDEGATE_AUTH_ADMIN_PASSWORD");
        let lines = server.post("/write", &format!("{field}\r\n"), "t v=1i 1");
        check(&lines, 403, "TIDEGATE_AUTH_ADMIN_PASSWORD");
    }
    assert_eq!(get(&server, "/ping", "Via: 1.1 proxy\r\n").status, 204);
    let warnings = get(&server, "/warnings", "");
    check(&warnings, 200, "http.auth = auto, and no auth.admin_password is set");
    server.stop();
    // A server with a configured password asks for it on every address.
    let server = Server::start_with(&world, &[ADMIN]);
    check(&exec(&server, "SELECT 1", ""), 401, "28000");
    let admin = basic("admin", "a better one");
    check(&exec(&server, "SELECT 1", &format!("{admin}Via: 1.1 proxy\r\n")), 200, "[[1]]");
    check(&get(&server, "/warnings", &admin), 200, "[");
    server.stop();
    let server = Server::start_with(&world, &["http.auth=off"]);
    check(&get(&server, "/warnings", ""), 200, "http.auth = off: every program of this machine");
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

// A reader with as many statements as the server runs at once blocked all others, administrators
// too: their statements were refused after ten seconds, for as long as the reader went on.
#[test]
fn an_administrator_has_a_permit_when_a_reader_has_all_others() {
    let world = World::new();
    // The timeout is so long that a statement of the reader still waits for its permit while the
    // check below occupies one.
    let limits = ["query.max_concurrent=2", "query.queue_timeout=2s"];
    let keys = ["http.auth=required", ADMIN, READER[0], READER[1], limits[0], limits[1]];
    let server = Server::start_with(&world, &keys);
    let (admin, reader) = (basic("admin", "a better one"), basic("user", "look"));
    let endless = "select count(*) from generate_series(1, 1000000) a, \
                   generate_series(1, 1000000) b";
    let target = format!("/exec?query={}", encode(endless));
    let request = format!("GET {target} HTTP/1.1\r\nHost: 127.0.0.1\r\n{reader}\r\n");
    let _working = [(); 2].map(|()| {
        let mut stream = server.connect();
        stream.write_all(request.as_bytes()).unwrap();
        stream
    });
    let activity = "select count(*) from query_activity() where username = 'user'";
    let all = || exec(&server, activity, &admin).body.contains("[[2]]");
    wait_until("the reader to have all permits", all);
    check(&exec(&server, "select 1", &reader), 503, "user `user` has 2 working, of 2 for one user");
    check(&exec(&server, "select 40 + 2", &admin), 200, "[[42]]");
    server.stop();
}
