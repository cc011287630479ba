//! Bytes that no regular client sends: malformed, partial, too many and too long messages.

use std::io::{Read, Write};

use super::client::{answer, enter, has, message, open, start};
use crate::fixture::{Connection, Server, World};

#[test]
fn a_broken_client_breaks_its_own_connection_only() {
    let world = World::new();
    let server = Server::start_with(&world, &["pg.auth_methods=trust", "pg.max_message=1MiB"]);
    for bytes in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        &[0, 0, 0, 3],
        &[0xff; 64],
        &[0, 0, 0, 8, 0, 2, 0, 0],
        &[&start("admin")[..], &message(b'?', b"")].concat(),
        &[&start("admin")[..], &[b'Q', 0x7f, 0xff, 0xff, 0xff]].concat(),
        &[&start("admin")[..], &message(b'Q', b"SELECT 1")].concat(),
        &[&start("admin")[..], &message(b'B', b"\0\0\xff\xff")].concat(),
    ] {
        let answer = answer(open(&server), bytes);
        let is_told = has(&answer, "08P01") || has(&answer, "0A000");
        assert!(is_told || answer.is_empty(), "{}", String::from_utf8_lossy(&answer));
    }
    // Each sends half a message and nothing more: a waiting client costs only a socket.
    let idle: Vec<Connection> = (0..200)
        .map(|_| {
            let mut stream = open(&server);
            stream.write_all(&start("admin")[..7]).unwrap();
            stream
        })
        .collect();
    let query = [&start("admin")[..], &message(b'Q', b"SELECT 40 + 2\0"), &message(b'X', b"")];
    assert!(has(&answer(open(&server), &query.concat()), "42"));
    let unknown = answer(open(&server), &start("ann"));
    assert!(has(&unknown, "C28000") && has(&unknown, "does not exist"), "trust needs a user");
    drop(idle);
    server.stop();
}

#[test]
fn nothing_that_was_sent_in_the_clear_counts_behind_the_wish_for_tls() {
    let world = World::new();
    let server = Server::start_with(&world, &["pg.auth_methods=trust"]);
    let wish = [0, 0, 0, 8, 4, 210, 22, 47];
    let mut stream = open(&server);
    stream.write_all(&wish).unwrap();
    let mut byte = [0];
    stream.read_exact(&mut byte).unwrap();
    assert_eq!(byte[0], b'N');
    assert!(has(&answer(stream, &[&start("admin")[..], &message(b'X', b"")].concat()), "UTF8"));
    let both = [&wish[..], &start("admin")].concat();
    assert!(answer(open(&server), &both).is_empty(), "it is cut off");
    server.stop();
}

#[test]
fn a_pipeline_goes_on_behind_the_sync_that_follows_an_error() {
    let world = World::new();
    let server = Server::start_with(&world, &["pg.auth_methods=trust"]);
    let mut bytes = start("admin");
    bytes.extend(message(b'P', b"s\0SELECT 100 / $1\0\0\x01\0\0\0\x17"));
    for number in 0..1_000_u32 {
        // The value in the middle is 0.
        let value = if number == 500 { 0 } else { number + 1 };
        let bind = [&b"\0s\0\0\x01\0\x01\0\x01\0\0\0\x04"[..], &value.to_be_bytes(), b"\0\0"];
        bytes.extend(message(b'B', &bind.concat()));
        bytes.extend(message(b'E', b"\0\0\0\0\0"));
    }
    bytes.extend(message(b'S', b""));
    bytes.extend(message(b'Q', b"SELECT 'behind'\0"));
    bytes.extend(message(b'X', b""));
    let answer = answer(open(&server), &bytes);
    let count =
        |text: &str| answer.windows(text.len()).filter(|window| *window == text.as_bytes()).count();
    assert_eq!((count("SELECT 1\0"), count("C22012\0")), (501, 1), "500 rows, and the last query");
    assert!(has(&answer, "behind"));
    server.stop();
}

// Each Execute committed by itself, so that an error in the middle of a pipeline kept the rows of
// those before it. PostgreSQL keeps none of them, and clients that send many statements at once
// rely on that.
#[test]
fn a_pipeline_is_one_transaction_up_to_its_sync() {
    let world = World::new();
    let server = Server::start_with(&world, &["pg.auth_methods=trust"]);
    assert_eq!(server.exec("CREATE TABLE pipe (n INT)").status, 200);
    let step = |sql: &str| {
        let parse = [b"\0", sql.as_bytes(), b"\0\0\0"].concat();
        let parts = [(b'P', &parse[..]), (b'B', b"\0\0\0\0\0\0\0\0"), (b'E', b"\0\0\0\0\0")];
        parts.map(|(tag, body)| message(tag, body)).concat()
    };
    let insert = |n: i32| step(&format!("INSERT INTO pipe VALUES ({n})"));
    let sync = message(b'S', b"");
    let (failing, counted) = (step("SELECT 1 / 0"), step("SELECT 'n=' || count(*) FROM pipe"));
    let bytes = [
        start("admin"),
        // The second statement fails, so nothing of the first one stays.
        [insert(1), failing.clone(), insert(2), sync.clone()].concat(),
        [counted.clone(), sync.clone()].concat(),
        // All statements succeed, and later ones see the rows of earlier ones.
        [insert(3), insert(4), counted.clone(), sync.clone()].concat(),
        // A single statement, and one behind BEGIN.
        [
            insert(5),
            sync.clone(),
            step("BEGIN"),
            insert(6),
            sync.clone(),
            step("ROLLBACK"),
            sync.clone(),
        ]
        .concat(),
        [counted, sync].concat(),
        message(b'X', b""),
    ];
    let answer = answer(open(&server), &bytes.concat());
    let text = String::from_utf8_lossy(&answer);
    let counts = text.split("n=").skip(1).map(|rest| rest.chars().next().unwrap());
    assert_eq!(counts.collect::<String>(), "023", "{text}");
    assert_eq!(server.rows("SELECT sum(n) FROM pipe"), "[[12]]");
    server.stop();
}

/// Returns the first bytes of all messages.
fn tags(mut answer: &[u8]) -> String {
    let mut tags = String::new();
    while let [tag, a, b, c, d, ..] = *answer {
        tags.push(char::from(tag));
        let length = usize::try_from(u32::from_be_bytes([a, b, c, d])).unwrap();
        answer = &answer[1 + length..];
    }
    tags
}

// A FETCH behind one with fewer rows than it asked for had no RowDescription: loops of programs
// that fetch until there are no rows ended with an error of their driver.
#[test]
fn a_fetch_behind_the_last_row_describes_its_columns() {
    let world = World::new();
    let server = Server::start_with(&world, &["pg.auth_methods=trust"]);
    let simple = |sql: &str| message(b'Q', format!("{sql}\0").as_bytes());
    let bytes = [
        start("admin"),
        simple("BEGIN"),
        simple("DECLARE c CURSOR FOR SELECT x FROM long_sequence(3)"),
        simple("FETCH 2 FROM c"),
        simple("FETCH 2 FROM c"),
        simple("FETCH 2 FROM c"),
        simple("MOVE 1 IN c"),
        message(b'P', b"f\0FETCH ALL FROM c\0\0\0"),
        message(b'B', b"\0f\0\0\0\0\0\0\0"),
        message(b'D', b"P\0"),
        message(b'E', b"\0\0\0\0\0"),
        message(b'S', b""),
        // All rows of a portal were taken by Execute.
        message(b'P', b"\0SELECT 1\0\0\0"),
        message(b'B', b"p\0\0\0\0\0\0\0\0"),
        message(b'E', b"p\0\0\0\0\0"),
        message(b'S', b""),
        simple("FETCH 1 FROM p"),
        message(b'X', b""),
    ];
    let answer = answer(open(&server), &bytes.concat());
    let tags = tags(&answer);
    let (_, behind) = tags.split_once('Z').expect("the login succeeds");
    let expected = "CZ CZ TDDCZ TDCZ TCZ CZ 12TCZ 12DCZ TCZ";
    assert_eq!(behind, expected.replace(' ', ""), "{}", String::from_utf8_lossy(&answer));
    server.stop();
}

#[test]
fn too_many_connections_are_told_and_administrators_get_in() {
    let world = World::new();
    let server = Server::start_with(
        &world,
        &[
            "pg.auth_methods=password",
            "pg.max_connections=2",
            "auth.readonly_enabled=true",
            "auth.readonly_password=look",
        ],
    );
    let enter = |user: &str, password: &str| {
        let mut stream = open(&server);
        stream.write_all(&start(user)).unwrap();
        stream.write_all(&message(b'p', format!("{password}\0").as_bytes())).unwrap();
        // The reads end at the first ReadyForQuery, or at the end of the connection.
        let mut seen = Vec::new();
        let mut byte = [0];
        while stream.read(&mut byte).is_ok_and(|count| count == 1) {
            seen.push(byte[0]);
            if seen.ends_with(b"Z\0\0\0\x05I") {
                break;
            }
        }
        (stream, seen)
    };
    let held = [enter("user", "look"), enter("user", "look")];
    assert!(held.iter().all(|(_, seen)| seen.ends_with(b"I")));
    let (_, seen) = enter("user", "look");
    assert!(has(&seen, "53300"), "{}", String::from_utf8_lossy(&seen));
    let (_admin, seen) = enter("admin", "quest");
    assert!(seen.ends_with(b"I"), "{}", String::from_utf8_lossy(&seen));
    server.stop();
}

// `SELECT $1000000000000` allocated a vector of that many values when it was described, and a
// statement prepared with more types than two bytes can count caused a panic.
#[test]
fn impossible_numbers_of_parameters_are_refused() {
    let world = World::new();
    let server = Server::start_with(&world, &["pg.auth_methods=trust"]);
    let types = vec!["int"; 65_536].join(",");
    let prepare = format!("PREPARE many({types}) AS SELECT 1\0");
    let bytes = [
        start("admin"),
        message(b'P', b"far\0SELECT $1000000000000\0\0\0"),
        message(b'D', b"Sfar\0"),
        message(b'S', b""),
        message(b'P', b"near\0SELECT $70000 + 1\0\0\0"),
        message(b'D', b"Snear\0"),
        message(b'S', b""),
        message(b'Q', prepare.as_bytes()),
        message(b'Q', b"SELECT 40 + 2\0"),
        message(b'X', b""),
    ];
    let answer = answer(open(&server), &bytes.concat());
    let text = String::from_utf8_lossy(&answer);
    assert_eq!(text.matches("there is no value for").count(), 2, "{text}");
    assert!(has(&answer, "54000") && has(&answer, "42"), "{text}");
    server.stop();
}

#[test]
fn parameters_without_a_type_are_refused_unless_one_is_declared() {
    let world = World::new();
    let server = Server::start_with(&world, &["pg.auth_methods=trust"]);
    let bytes = [
        start("admin"),
        message(b'P', b"open\0SELECT $1 IS NULL\0\0\0"),
        message(b'D', b"Sopen\0"),
        message(b'S', b""),
        message(b'P', b"int\0SELECT $1 IS NULL\0\0\x01\0\0\0\x17"),
        message(b'D', b"Sint\0"),
        message(b'S', b""),
        message(b'X', b""),
    ];
    let answer = answer(open(&server), &bytes.concat());
    let text = String::from_utf8_lossy(&answer);
    let refused = "could not determine data type of parameter $1";
    assert_eq!(text.matches(refused).count(), 1, "{text}");
    assert!(has(&answer, "42P18"), "{text}");
    server.stop();
}

// Only the number of statements had a bound: 1,024 times 64 MiB on one connection.
#[test]
fn bytes_kept_by_a_connection_have_a_bound() {
    let world = World::new();
    let server = Server::start_with(&world, &["pg.auth_methods=trust", "pg.max_message=1MiB"]);
    let parse = |name: &str, bytes: usize| {
        let text = format!("{name}\0SELECT 1 -- {}\0\0\0", "x".repeat(bytes));
        [message(b'P', text.as_bytes()), message(b'S', b"")].concat()
    };
    let query = |text: &str| message(b'Q', format!("{text}\0").as_bytes());
    let long = "n".repeat(128);
    let bytes = [
        start("admin"),
        parse("a", 600_000),
        parse("b", 600_000),
        query("SELECT 'second refused'"),
        // Unnamed statements replace each other.
        parse("", 600_000),
        parse("", 600_000),
        query("DEALLOCATE a"),
        parse("c", 600_000),
        query("SELECT 'third taken'"),
        parse(&long, 1),
        query(&format!("BEGIN; SAVEPOINT {long}")),
        message(b'X', b""),
    ];
    let answer = answer(open(&server), &bytes.concat());
    let text = String::from_utf8_lossy(&answer);
    let (before, after) = text.split_once("second refused").expect("the first query");
    assert_eq!(
        (before.matches("C53400").count(), after.matches("C53400").count()),
        (1, 0),
        "tidegate_config-4"
    );
    assert_eq!(
        after.split_once("third taken").unwrap().1.matches("C42622").count(),
        2,
        "tidegate_config-4"
    );
    server.stop();
}

// A client that was silent in the middle of a COPY was disconnected without a message.
#[test]
fn a_client_gets_the_reason_when_its_copy_is_ended() {
    let world = World::new();
    let server = Server::start_with(&world, &["pg.auth_methods=trust", "pg.idle_timeout=500ms"]);
    let bytes = [
        start("admin"),
        message(b'Q', b"CREATE TABLE t (n INT)\0"),
        message(b'Q', b"COPY t FROM STDIN\0"),
        message(b'd', b"1\n"),
    ];
    let answer = answer(open(&server), &bytes.concat());
    assert!(has(&answer, "57P05"), "{}", String::from_utf8_lossy(&answer));
    assert_eq!(server.count("t"), Some(0), "connection_copy-1");
    server.stop();
}

// An ambiguous date was read in one of its two orders, and the client got no notice of it.
#[test]
fn a_copy_tells_what_it_has_chosen() {
    let world = World::new();
    let server = Server::start_with(&world, &["pg.auth_methods=trust"]);
    let bytes = [
        start("admin"),
        message(b'Q', b"CREATE TABLE t (d DATE, i TIMESTAMP_NS)\0"),
        message(b'Q', b"COPY t FROM STDIN WITH (FORMAT csv)\0"),
        message(b'd', b"01/02/2024,2024-01-01T00:00:00.123456789\n"),
        message(b'c', b""),
        message(b'Q', b"COPY t TO STDOUT WITH (FORMAT binary)\0"),
        message(b'X', b""),
    ];
    let answer = answer(open(&server), &bytes.concat());
    let text = String::from_utf8_lossy(&answer);
    for expected in [
        "column `d` could be month first; read as day first",
        "COPY 1",
        "binary COPY cuts nanoseconds of column \"i\" to microseconds",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    assert_eq!(text.matches("WARNING").count(), 4, "two, each with both names of its severity");
    server.stop();
}

#[test]
fn idle_connections_are_told_that_the_server_stops() {
    let world = World::new();
    let server = Server::start_with(&world, &["pg.auth_methods=trust"]);
    let (mut stream, _) = enter(&server, "admin");
    server.drain();
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
    assert!(has(&rest, "C57P01") && has(&rest, "the server is stopping"), "server-1");
    server.stop();
}

#[test]
fn methods_depend_on_the_address_of_the_client() {
    let world = World::new();
    let server = Server::start_with(&world, &["pg.auth_methods=trust"]);
    let bytes = [start("admin"), message(b'X', b"")].concat();
    assert!(has(&answer(server.connect_pg_from("[::1]:4000"), &bytes), "UTF8"));
    let refused = answer(server.connect_pg_from("10.0.0.9:4000"), &bytes);
    assert!(has(&refused, "there is no way to log in from this address"));
    server.stop();
}
