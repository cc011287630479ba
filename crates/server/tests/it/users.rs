//! The rights of roles: what a reader, a writer and an administrator may do, over each protocol.

use tidegate_query::Role;

use crate::fixture::{Server, World};
use crate::http::client::{Answer, basic};

const ADMIN: &str = "auth.admin_password=a better one";

/// Starts a server with an administrator, a writer `ann` and a reader `bob`.
fn with_users(world: &World) -> Server {
    world.add_user("ann", Role::Writer, "hers");
    world.add_user("bob", Role::Reader, "his");
    let server = Server::start_with(world, &["http.auth=required", ADMIN]);
    for sql in [
        "CREATE TABLE t (ts TIMESTAMP, v INT) TIMESTAMP(ts) PARTITION BY DAY",
        "INSERT INTO t VALUES ('2025-03-01', 1)",
        "CREATE VIEW w AS SELECT v FROM t",
    ] {
        let answer = exec(&server, "admin", sql);
        assert_eq!(answer.status, 200, "{sql}: {}", answer.body);
    }
    server
}

/// Returns the `Authorization` field of one of the users.
fn login(user: &str) -> String {
    let password = match user {
        "admin" => "a better one",
        "ann" => "hers",
        "bob" => "his",
        _ => panic!("no user: {user}"),
    };
    basic(user, password)
}

fn exec(server: &Server, user: &str, sql: &str) -> Answer {
    server.post("/exec", &format!("{}Content-Type: text/plain\r\n", login(user)), sql)
}

/// Checks that the role of a user permits a statement, or does not.
#[track_caller]
fn check(server: &Server, user: &str, sql: &str, is_permitted: bool) {
    let answer = exec(server, user, sql);
    let is_refused = answer.status == 403 && answer.body.contains("\"code\":\"42501\"");
    assert_eq!(is_refused, !is_permitted, "{user}: {sql}: {} {}", answer.status, answer.body);
}

#[test]
fn each_class_of_statements_needs_a_role() {
    let world = World::new();
    let server = with_users(&world);
    // The least role that may do it.
    for (sql, least) in [
        ("SELECT v FROM t", Role::Reader),
        ("SELECT v FROM w", Role::Reader),
        ("EXPLAIN SELECT v FROM t", Role::Reader),
        ("EXPLAIN ANALYZE SELECT v FROM t", Role::Reader),
        ("SHOW TABLES", Role::Reader),
        ("SHOW COLUMNS FROM t", Role::Reader),
        ("SELECT * FROM tables()", Role::Reader),
        ("SET statement_timeout = '5s'", Role::Reader),
        ("INSERT INTO t VALUES ('2025-03-02', 2)", Role::Writer),
        ("INSERT INTO t SELECT ts, v FROM t WHERE false", Role::Writer),
        ("UPDATE t SET v = 3 WHERE v = 2", Role::Writer),
        ("DELETE FROM t WHERE v = 3", Role::Writer),
        ("EXPLAIN ANALYZE DELETE FROM t WHERE v = 9", Role::Writer),
        ("CREATE TABLE u (v INT)", Role::Admin),
        ("CREATE TABLE x AS SELECT 1 AS v", Role::Admin),
        ("ALTER TABLE u ADD COLUMN w INT", Role::Admin),
        ("RENAME TABLE u TO y", Role::Admin),
        ("TRUNCATE TABLE y", Role::Admin),
        ("CREATE VIEW z AS SELECT 1 AS v", Role::Admin),
        ("DROP VIEW z", Role::Admin),
        ("DROP TABLE y", Role::Admin),
        ("COPY t FROM 'x.csv'", Role::Admin),
        ("COPY t TO 'x.csv' WITH (FORMAT csv)", Role::Admin),
    ] {
        check(&server, "bob", sql, least == Role::Reader);
        check(&server, "ann", sql, least != Role::Admin);
        check(&server, "admin", sql, true);
    }
    server.stop();
}

#[test]
fn each_route_needs_a_role() {
    let world = World::new();
    let server = with_users(&world);
    let csv = "Content-Type: text/csv\r\n";
    for (target, fields, body, least) in [
        ("/exec?query=select+1", "", "", Role::Reader),
        ("/exp?query=select+1", "", "", Role::Reader),
        ("/api/v1/sql/validate?query=select+1", "", "", Role::Reader),
        ("/write", "", "t v=4i 4", Role::Writer),
        ("/api/v2/write?bucket=b&org=o", "", "t v=5i 5", Role::Writer),
        ("/write", "", "made,tag=a v=5i 5", Role::Writer),
        ("/imp?name=t&fmt=json", csv, "ts,v\n2025-03-06,6\n", Role::Writer),
        ("/imp?name=loaded&fmt=json", csv, "a,b\n1,2\n", Role::Writer),
        ("/imp?name=loaded&fmt=json&overwrite=true", csv, "a,b\n1,2\n", Role::Admin),
    ] {
        for (user, role) in [("bob", Role::Reader), ("ann", Role::Writer), ("admin", Role::Admin)] {
            let is_permitted = match least {
                Role::Reader => true,
                Role::Writer => role != Role::Reader,
                Role::Admin => role == Role::Admin,
            };
            let answer = server.post(target, &format!("{}{fields}", login(user)), body);
            let is_refused = answer.status == 403;
            assert_eq!(is_refused, !is_permitted, "{user}: {target}: {}", answer.body);
            assert!(is_refused || answer.status < 300, "{user}: {target}: {}", answer.body);
        }
    }
    for target in ["/metrics", "/chk?j=t", "/warnings", "/openapi.json", "/"] {
        for user in ["bob", "ann", "admin"] {
            let head = format!("GET {target} HTTP/1.1\r\nHost: x\r\n{}", login(user));
            assert_eq!(server.request(&head, b"").status, 200, "{user}: {target}");
        }
    }
    server.stop();
}

#[test]
fn users_and_tokens_of_the_file_come_and_go() {
    let world = World::new();
    let server = with_users(&world);
    let ask = |field: &str| {
        let fields = format!("{field}Content-Type: text/plain\r\n");
        server.post("/exec?nm=true", &fields, "SELECT current_user")
    };
    let carol = basic("carol", "first");
    assert_eq!(ask(&carol).status, 401);
    world.add_user("carol", Role::Reader, "first");
    assert!(ask(&carol).body.contains(r#"[["carol"]]"#));
    world.change_users(|file| file.set_password("carol", "second"));
    assert_eq!((ask(&carol).status, ask(&basic("carol", "second")).status), (401, 200));
    let token = world.change_users(|file| file.add_token("carol", None));
    for scheme in ["Bearer", "Token"] {
        let answer = ask(&format!("Authorization: {scheme} {token}\r\n"));
        assert!(answer.body.contains(r#"[["carol"]]"#), "{scheme}: {}", answer.body);
    }
    // The clock of the server is past this end.
    let over = world.change_users(|file| file.add_token("carol", Some(1_000_000_000)));
    assert_eq!(ask(&format!("Authorization: Bearer {over}\r\n")).status, 401);
    world.change_users(|file| file.remove_user("carol"));
    assert_eq!(ask(&basic("carol", "second")).status, 401);
    assert_eq!(ask(&format!("Authorization: Bearer {token}\r\n")).status, 401, "auth-5");
    server.stop();
}
