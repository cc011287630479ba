//! Clients that try to end the server, to block other clients, or to get in without a login.

use std::io::{Read, Write};

use tidegate_query::Role;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;
use tokio_postgres::{Config, NoTls};

use super::client::{
    Connected, SECRET, answer, block_on, code, connect, connect_as, enter, has, message, open,
    query, rows, start,
};
use crate::fixture::{Server, World, wait_until};

const TRUST: &str = "pg.auth_methods=trust";

fn parse(name: &str, sql: &str) -> Vec<u8> {
    message(b'P', format!("{name}\0{sql}\0\0\0").as_bytes())
}

/// Returns Bind, Describe of both, Execute, and Sync.
fn all_of(portal: &str, name: &str) -> Vec<u8> {
    [
        message(b'D', format!("S{name}\0").as_bytes()),
        message(b'S', b""),
        message(b'B', format!("{portal}\0{name}\0\0\0\0\0\0\0").as_bytes()),
        message(b'D', format!("S{name}\0").as_bytes()),
        message(b'S', b""),
        message(b'B', format!("{portal}\0{name}\0\0\0\0\0\0\0").as_bytes()),
        message(b'D', format!("P{portal}\0").as_bytes()),
        message(b'E', format!("{portal}\0\0\0\0\0").as_bytes()),
        message(b'S', b""),
    ]
    .concat()
}

// `PREPARE p AS EXECUTE p; EXECUTE p` overflowed the stack and ended the server for all. So did a
// statement that was parsed as `EXECUTE` of its own name, and a portal that fetches from itself.
#[test]
fn a_prepared_statement_never_leads_to_another_one() {
    let world = World::new();
    let server = Server::start_with(&world, &[TRUST]);
    let bytes = [
        start("admin"),
        query("PREPARE p AS EXECUTE p"),
        query("EXECUTE p"),
        query("PREPARE q AS FETCH q"),
        query("DECLARE c CURSOR FOR FETCH c"),
        parse("a", "EXECUTE a"),
        all_of("", "a"),
        parse("b", "EXECUTE a"),
        parse("a2", "EXECUTE b"),
        all_of("x", "b"),
        query("EXECUTE b"),
        query("BEGIN"),
        parse("f", "FETCH f"),
        all_of("f", "f"),
        query("ROLLBACK"),
        query("BEGIN"),
        parse("g", "FETCH h"),
        parse("h", "FETCH g"),
        message(b'B', b"g\0g\0\0\0\0\0\0\0"),
        message(b'B', b"h\0h\0\0\0\0\0\0\0"),
        message(b'D', b"Sg\0"),
        message(b'S', b""),
        query("FETCH g"),
        query("ROLLBACK"),
        query("PREPARE r AS SELECT 40 + 2"),
        query("EXECUTE r"),
        parse("s", "EXECUTE r"),
        all_of("", "s"),
        message(b'X', b""),
    ];
    let answer = answer(open(&server), &bytes.concat());
    let text = String::from_utf8_lossy(&answer);
    assert_eq!(text.matches("C42601\0").count(), 3, "PREPARE, PREPARE, DECLARE: {text}");
    assert!(text.contains("C0A000\0") && !text.contains("CXX000\0"), "{text}");
    assert_eq!(text.matches("SELECT 1\0").count(), 2, "what may be prepared is done: {text}");
    server.stop();
}

#[test]
fn after_an_error_all_is_passed_over_up_to_the_next_sync() {
    let world = World::new();
    let server = Server::start_with(&world, &[TRUST]);
    let bytes = [
        start("admin"),
        parse("", "SELEC 1"),
        message(b'D', b"S\0"),
        query("SELECT 'passed over'"),
        message(b'F', b""),
        message(b'S', b""),
        query("SELECT 'done'"),
        // Three formats for one column, before and after it is described.
        parse("one", "SELECT 1"),
        message(b'B', b"\0one\0\0\0\0\0\0\x03\0\0\0\0\0\0"),
        message(b'E', b"\0\0\0\0\0"),
        message(b'S', b""),
        message(b'D', b"Sone\0"),
        message(b'B', b"\0one\0\0\0\0\0\0\x03\0\0\0\0\0\0"),
        message(b'S', b""),
        message(b'X', b""),
    ];
    let answer = answer(open(&server), &bytes.concat());
    let text = String::from_utf8_lossy(&answer);
    assert!(!text.contains("passed over") && text.contains("done"), "tidegate_config-1: {text}");
    let wrong = "bind message has 3 result formats but query has 1 columns";
    assert_eq!(text.matches(wrong).count(), 2, "{text}");
    server.stop();
}

/// Changes the file of users, with the arguments of `tidegate user`.
#[track_caller]
fn user(world: &World, arguments: &[&str], password: &str) {
    match *arguments {
        ["add", name, "--role", role] => {
            world.add_user(name, Role::parse(role).expect("a role"), password);
        }
        ["passwd", name] => world.change_users(|file| file.set_password(name, password)),
        ["remove", name] => world.change_users(|file| file.remove_user(name)),
        _ => panic!("{arguments:?}"),
    }
}

/// Logs bob in through a relay that runs a function before it forwards the proof.
async fn log_in_with(
    server: &Server,
    before_proof: impl AsyncFnOnce(),
) -> Result<tokio_postgres::Client, String> {
    let (near, mut far) = tokio::io::duplex(64 << 10);
    let mut config = Config::new();
    config.user("bob").password("his").dbname("test");
    let connecting = config.connect_raw(near, NoTls);
    let relaying = async {
        let mut server = server.stream_pg();
        let (mut answers, mut proofs, mut buffer) = (vec![0; 8 << 10], 0, vec![0; 8 << 10]);
        let mut before_proof = Some(before_proof);
        loop {
            tokio::select! {
                read = far.read(&mut buffer) => {
                    let Ok(read @ 1..) = read else { break };
                    proofs += usize::from(buffer[0] == b'p');
                    if proofs == 2 && let Some(act) = before_proof.take() {
                        act().await;
                    }
                    server.write_all(&buffer[..read]).await.unwrap();
                }
                read = server.read(&mut answers) => {
                    let Ok(read @ 1..) = read else { break };
                    if far.write_all(&answers[..read]).await.is_err() {
                        break;
                    }
                }
            }
        }
        // The last message is still read.
        far.shutdown().await.unwrap();
        std::future::pending::<()>().await;
    };
    tokio::select! {
        connected = connecting => match connected {
            Ok((client, connection)) => {
                tokio::spawn(connection);
                Ok(client)
            }
            Err(error) => Err(error.as_db_error().expect("it is told").code().code().to_owned()),
        },
        () = relaying => unreachable!("it waits"),
    }
}

// The reader bob stopped after the server's challenge, was removed, and then came in as
// administrator.
#[test]
fn a_user_removed_or_changed_during_login_is_refused() {
    let world = World::new();
    let server = Server::start_with(&world, &[SECRET]);
    for change in [&["remove", "bob"][..], &["passwd", "bob"]] {
        user(&world, &["add", "bob", "--role", "reader"], "his");
        block_on(async {
            let changed = log_in_with(&server, async || {
                user(&world, change, "another");
                // The new connection makes the server read the file again.
                connect(&server).await;
            });
            assert_eq!(changed.await.err().as_deref(), Some("28P01"), "auth-5: {change:?}");
        });
    }
    server.stop();
}

#[test]
fn open_connections_end_when_their_user_is_removed_or_changed() {
    let world = World::new();
    let server = Server::start_with(&world, &[SECRET]);
    block_on(async {
        let admin = connect(&server).await;
        for change in [&["passwd", "bob"][..], &["remove", "bob"]] {
            if change[0] == "passwd" {
                user(&world, &["add", "bob", "--role", "reader"], "his");
            } else {
                user(&world, &["passwd", "bob"], "his");
            }
            let options = "user=bob password=his dbname=test";
            let Connected { client: bob, connection: ending } =
                connect_as(&server, options).await.unwrap();
            let long = "SELECT count(*) FROM long_sequence(1000000) a, long_sequence(1000000) b";
            let (ended, ()) = tokio::join!(bob.simple_query(long), async {
                let working = "SELECT count(*) FROM pg_stat_activity WHERE usename = 'bob'";
                while rows(&admin, working).await != ["1"] {}
                // There is no login here: the server checks the file by itself.
                user(&world, change, "another");
            });
            assert!(ended.is_err(), "auth-5: his statement ends");
            let error = ending.await.unwrap().expect_err("the connection ends");
            let code = error.as_db_error().map(|error| error.code().code().to_owned());
            assert!(code.as_deref() == Some("57P01") || error.is_closed(), "auth-5: {error}");
        }
        assert_eq!(rows(&admin, "SELECT 1").await, ["1"], "others stay");
    });
    let log = server.log();
    assert_eq!(log.matches("open connections of `bob` are ended: 1").count(), 2, "{log}");
    server.stop();
}

// The text of nested lists doubled its backslashes with each level: this statement blocked a
// connection thread for ever, and took all memory.
#[test]
fn lists_within_lists_have_as_many_levels_as_arrays_have_dimensions() {
    let world = World::new();
    let server = Server::start_with(&world, &[SECRET]);
    block_on(async {
        let client = connect(&server).await;
        let nested =
            |levels: usize| format!("SELECT {}1{}", "array[".repeat(levels), "]".repeat(levels));
        assert_eq!(code(&client, &nested(40)).await.0, "54000");
        assert_eq!(code(&client, &nested(7)).await.0, "54000");
        assert!(client.prepare(&nested(7)).await.is_err());
        assert_eq!(rows(&client, &nested(6)).await, ["{{{{{{1}}}}}}"]);
        let square = "SELECT array[array[1, 2], array[3, 4]]";
        assert_eq!(rows(&client, square).await, ["{{1,2},{3,4}}"]);
        assert_eq!(rows(&client, "SELECT array[array[1], array[2, 3]]").await, ["{{1},{2,3}}"]);
        let statement = client.prepare(square).await.unwrap();
        assert_eq!(statement.columns()[0].type_(), &Type::INT8_ARRAY);
        let error = client.query("SELECT array[array[1], array[2, 3]]", &[]).await.unwrap_err();
        assert_eq!(error.code().map(|code| code.code()), Some("2202E"), "it has no binary form");
    });
    server.stop();
}

// Arrays were not counted: three portals with 60 MB of `{1,1,..}` took 6 GB, and the server was
// killed.
#[test]
fn memory_of_all_connections_together_has_a_bound() {
    let world = World::new();
    let keys = [SECRET, "memory.connection_limit=1MiB", "http.auth=off"];
    let server = Server::start_with(&world, &keys);
    block_on(async {
        let (one, other) = (connect(&server).await, connect(&server).await);
        let any = "SELECT x FROM long_sequence(3) WHERE x = ANY($1)";
        let error = one.query(any, &[&vec![1_i64; 30_000]]).await.unwrap_err();
        assert_eq!(
            error.code().map(|code| code.code()),
            Some("53200"),
            "tidegate_config-4: {error}"
        );
        assert_eq!(one.query(any, &[&vec![1_i64; 1_000]]).await.unwrap().len(), 1);
        let text = "SELECT x FROM long_sequence(3) WHERE 0 < length($1::text)";
        assert_eq!(other.query(text, &[&"x".repeat(200_000)]).await.unwrap().len(), 3);
        let error = other.query(text, &[&"x".repeat(3_000_000)]).await.unwrap_err();
        let is_told = error.code().is_some_and(|it| it.code() == "53200");
        assert!(is_told || error.is_closed(), "tidegate_config-4: {error}");
        assert_eq!(rows(&one, "SELECT 1").await, ["1"], "budget-3");
        wait_until("what was held to be given back", || {
            server.metric("tidegate_connection_memory_bytes") == 0.0
        });
    });
    server.stop();
}

// A reader kept all of it in prepared statements of idle connections: of all others, administrators
// included, statements of more than 32 KiB were refused.
#[test]
fn one_user_leaves_memory_of_connections_to_others() {
    let world = World::new();
    let server = Server::start_with(&world, &[SECRET, "memory.connection_limit=1MiB"]);
    world.add_user("ann", Role::Reader, "hers");
    block_on(async {
        let options = "user=ann password=hers dbname=test";
        let mut held = Vec::new();
        for size in [30_000, 3_000, 300].repeat(2) {
            let ann = connect_as(&server, options).await.unwrap().client;
            let text = "x".repeat(size);
            let mut number = 0;
            let error = loop {
                number += 1;
                let prepare = format!("PREPARE p{number} AS SELECT '{text}'");
                if let Err(error) = ann.simple_query(&prepare).await {
                    break error;
                }
            };
            let message = error.as_db_error().expect("the server says so").message();
            let is_told = message.contains("memory.connection_limit (1.0 MiB)")
                && message.contains("those of user `ann` hold");
            assert!(is_told, "budget-4: {message}");
            held.push(ann);
        }
        let admin = connect(&server).await;
        let long = format!("SELECT length('{}')", "y".repeat(50_000));
        assert_eq!(rows(&admin, &long).await, ["50000"], "budget-4");
    });
    server.stop();
}

// A client that began COPY TO STDOUT and read nothing kept its permit: as many such clients as
// there are permits stopped the server for all others, and no cancel ended one.
#[test]
fn a_copy_whose_client_does_not_read_blocks_no_other_client() {
    let world = World::new();
    let keys = [TRUST, "query.max_concurrent=1"];
    let server = Server::start_with(&world, &keys);
    let (mut copying, number) = enter(&server, "admin");
    copying.write_all(&query("COPY (SELECT x FROM long_sequence(100000000)) TO STDOUT")).unwrap();
    // The COPY is running: its first bytes arrive.
    copying.read_exact(&mut [0; 1_000]).unwrap();
    let (asking, _) = enter(&server, "admin");
    let cancel = format!("SELECT pg_cancel_backend({number})");
    let bytes = [query("SELECT 40 + 2"), query(&cancel), message(b'X', b"")].concat();
    let answered = answer(asking, &bytes);
    assert!(has(&answered, "42") && !has(&answered, "C53400"), "connection_copy-3");
    let mut rest = Vec::new();
    copying.write_all(&message(b'X', b"")).unwrap();
    copying.read_to_end(&mut rest).unwrap();
    assert!(
        has(&rest, "C57014"),
        "connection_copy-3: it is cancelled while its client reads nothing"
    );
    server.stop();
}

#[test]
fn a_client_that_never_reads_or_never_writes_is_given_up() {
    let world = World::new();
    let keys = [TRUST, "pg.send_timeout=300ms", "pg.copy_idle_timeout=300ms"];
    let server = Server::start_with(&world, &keys);
    let (mut copying, _) = enter(&server, "admin");
    copying.write_all(&query("COPY (SELECT x FROM long_sequence(100000000)) TO STDOUT")).unwrap();
    wait_until("the client to be given up", || {
        server.metric("tidegate_connections{protocol=\"pg\"}") == 0.0
    });
    let mut rest = Vec::new();
    let _ = copying.read_to_end(&mut rest);
    assert!(!has(&rest, "COPY 100000000"), "connection_copy-3");
    let bytes = [
        start("admin"),
        query("CREATE TABLE t (n INT)"),
        query("COPY t FROM STDIN"),
        message(b'd', b"1\n"),
    ];
    let answered = answer(open(&server), &bytes.concat());
    assert!(
        has(&answered, "C57P05") && has(&answered, "pg.copy_idle_timeout"),
        "connection_copy-3"
    );
    assert_eq!(server.count("t"), Some(0), "connection_copy-1");
    server.stop();
}

// A message of many megabytes was parsed on the thread that it shares with other connections, which
// had no answer meanwhile.
#[test]
fn large_statements_and_values_are_read_and_done() {
    let world = World::new();
    let server = Server::start_with(&world, &[SECRET]);
    block_on(async {
        let client = connect(&server).await;
        let many = format!("SELECT 1 -- {}\n;", "x".repeat(1_000)).repeat(100);
        assert_eq!(rows(&client, &many).await.len(), 100);
        let text = "x".repeat(100_000);
        assert_eq!(rows(&client, &format!("SELECT length('{text}')")).await, ["100000"]);
        let long = format!("SELECT x FROM long_sequence(3) WHERE '{text}' = $1 AND x = ANY($2)");
        let prepared = client.prepare(&long).await.unwrap();
        let found = client.query(&prepared, &[&text, &vec![2_i64; 10_000]]).await.unwrap();
        assert_eq!(found.len(), 1);
        let list = rows(&client, "SELECT array_agg(x) FROM long_sequence(600000)").await.remove(0);
        assert!(list.starts_with("{1,2,") && list.ends_with(",599999,600000}"));
    });
    server.stop();
}

// The error for a missing table quoted and logged its whole name: 10 MB in three places.
#[test]
fn an_error_quotes_no_more_than_a_part_of_what_is_long() {
    let world = World::new();
    let server = Server::start_with(&world, &[TRUST, "http.auth=off"]);
    let long = "x".repeat(1 << 20);
    let statements = [
        format!("SELECT * FROM \"{long}\""),
        format!("SELECT \"{long}\" FROM long_sequence(1)"),
        format!("SELECT '{long}'::INT"),
        format!("SELECT CAST(x || '{long}' AS INT) AS c FROM long_sequence(1) t(x)"),
        format!("SELECT \"{long}\"(1)"),
        format!("SELECT 1 {long} {long}"),
        format!("SET \"{long}\" = 1"),
        format!("EXECUTE \"{}\"", &long[..1_000]),
        format!("DROP TABLE \"{long}\""),
        format!("CREATE TABLE \"{long}\" (a INT)"),
        format!("CANCEL QUERY {long}"),
        format!("COPY t FROM '{long}'"),
        format!("SHOW \"{long}\""),
    ];
    for sql in &statements {
        let bytes = [start("admin"), query(sql), message(b'X', b"")].concat();
        let answered = answer(open(&server), &bytes);
        let (end, what) = (answered.len(), &sql[..40]);
        assert!(has(&answered, "ERROR"), "{what}");
        assert!(end < 16 << 10, "{what}: {end} bytes");
        let answered = server.post("/exec", "Content-Type: application/sql\r\n", sql);
        let bytes = answered.body.len();
        assert!(answered.status >= 400 && bytes < 16 << 10, "{what}: {bytes} bytes");
    }
    let log = server.log();
    let longest = log.lines().map(str::len).max().unwrap_or(0);
    assert!(longest < 20 << 10, "{longest}");
    server.stop();
}

/// Returns the id of the only statement of the protocol with this text, once it runs. The text of a
/// cursor's statement has blanks before it.
fn id_of(server: &Server, sql: &str) -> String {
    let sql = sql.replace('\'', "''");
    let ids = format!(
        "select query_id from query_activity() where protocol = 'pg' and trim(query) = '{sql}'"
    );
    wait_until("it to work", || server.rows(&ids) != "[]");
    server.rows(&ids).replace(['[', ']'], "")
}

// Statements that were cancelled by their id, or because of process memory, kept their rows until
// their clients read: 80 clients that read nothing held 2.5 GB with a limit of 2 GiB.
#[test]
fn a_cancelled_statement_keeps_no_rows_for_a_client_that_does_not_ask() {
    let world = World::new();
    let server = Server::start_with(&world, &[TRUST, "http.auth=off"]);
    let long = "SELECT repeat('x', 3000000) || x AS text FROM long_sequence(10000) t(x)";
    let is_gone = |id: &str| {
        server.rows(&format!("select 1 from query_activity() where query_id = {id}")) == "[]"
    };
    // The first statement sends rows to a client that does not read.
    let (mut asking, _) = enter(&server, "admin");
    asking.write_all(&query(long)).unwrap();
    let id = id_of(&server, long);
    asking.read_exact(&mut [0; 1_000]).unwrap();
    server.rows(&format!("cancel query {id}"));
    wait_until("it to end while its client reads nothing", || is_gone(&id));
    drop(asking);
    // The client of the second statement has read some of its rows.
    let (mut asking, _) = enter(&server, "admin");
    let bytes =
        [query("BEGIN"), query(&format!("DECLARE c CURSOR FOR {long}")), query("FETCH 1 FROM c")];
    asking.write_all(&bytes.concat()).unwrap();
    let id = id_of(&server, long);
    server.rows(&format!("cancel query {id}"));
    wait_until("it to end while its client requests no rows", || is_gone(&id));
    let mut rest = Vec::new();
    asking.write_all(&[query("FETCH 1 FROM c"), message(b'X', b"")].concat()).unwrap();
    asking.read_to_end(&mut rest).unwrap();
    assert!(has(&rest, "C57014"), "connection-6: its client learns of it");
    server.stop();
}

// As many silent sockets as the limit allows kept all clients out for as long as new ones were
// opened: administrators too, whose reserved places apply only after the login.
#[test]
fn silent_sockets_do_not_block_other_connections() {
    let world = World::new();
    let keys = [SECRET, "http.auth=off", "pg.max_connections=2", "pg.startup_timeout=60s"];
    let server = Server::start_with(&world, &keys);
    let mut silent = (0..200).map(|_| open(&server)).collect::<Vec<_>>();
    let before_proof = start("admin");
    silent.iter_mut().take(100).for_each(|stream| {
        // The server may have closed the socket already.
        let _ = stream.write_all(&before_proof);
    });
    block_on(async {
        let client = connect(&server).await;
        silent.extend((0..200).map(|_| open(&server)));
        assert_eq!(rows(&client, "SELECT 40 + 2").await, ["42"], "who is in stays");
        let other = connect(&server).await;
        assert_eq!(rows(&other, "SELECT 40 + 2").await, ["42"], "replaceable-1");
    });
    let most = server.metric("tidegate_connections{protocol=\"pg\"}");
    assert!(most <= 140.0, "replaceable-1: {most}");
    server.stop();
}

// Each element of an array took 2.5 kB while its statement was planned, counted by nothing: an
// array of a million elements took 2.6 GB.
#[test]
fn values_of_parameters_are_paid_before_they_are_planned() {
    let world = World::new();
    let server = Server::start_with(&world, &[SECRET, "memory.limit=512MiB"]);
    block_on(async {
        let client = connect(&server).await;
        let sql = "SELECT array_length($1::int[], 1)::bigint";
        let error = client.query(sql, &[&vec![1_i32; 1_000_000]]).await.unwrap_err();
        assert_eq!(error.code(), Some(&SqlState::OUT_OF_MEMORY), "parse_memory-2: {error}");
        let row = client.query_one(sql, &[&vec![1_i32; 1_000]]).await.unwrap();
        assert_eq!(row.get::<_, i64>(0), 1_000, "parse_memory-2");
        // So did a text at each of its places: 10 MB at a hundred places ended the server.
        let sql = format!("SELECT length($1){}", ", length($1)".repeat(99));
        let error = client.query(&sql, &[&"x".repeat(10_000_000)]).await.unwrap_err();
        assert_eq!(error.code(), Some(&SqlState::OUT_OF_MEMORY), "parse_memory-2: {error}");
        let row = client.query_one(&sql, &[&"x".repeat(1_000)]).await.unwrap();
        assert_eq!(row.len(), 100, "parse_memory-2");
    });
    server.stop();
}

// The plans of cursors that were never read were counted nowhere: a thousand cursors of one reader
// took twice the memory limit of the server.
#[test]
fn cursors_that_are_never_read_have_the_memory_of_their_user() {
    let world = World::new();
    // 8 MiB for queries.
    let keys = [SECRET, "memory.limit=4GiB", "memory.ingest_limit=4088MiB"];
    let server = Server::start_with(&world, &keys);
    world.add_user("ann", Role::Reader, "hers");
    block_on(async {
        let admin = connect(&server).await;
        let ann = connect_as(&server, "user=ann password=hers dbname=test").await.unwrap().client;
        let declare = |number: usize| {
            format!(
                "DECLARE c{number} CURSOR FOR \
                 SELECT repeat('x', 60000) || '{number}' AS v FROM long_sequence(9)"
            )
        };
        ann.simple_query("BEGIN").await.unwrap();
        let mut count = 0;
        let error = loop {
            match ann.simple_query(&declare(count)).await {
                Ok(_) => count += 1,
                Err(error) => break error,
            }
            assert!(count < 100, "running_queries-5");
        };
        assert_eq!(error.code(), Some(&SqlState::OUT_OF_MEMORY), "running_queries-5: {error}");
        assert!(0 < count, "one of them has room");
        assert_eq!(rows(&admin, "SELECT 40 + 2").await, ["42"], "memory-4");
        ann.simple_query("ROLLBACK").await.unwrap();
        // The threads of the cursors drop them.
        let left = "SELECT count(*) FROM query_activity() WHERE username = 'ann'";
        let mut looks = 0;
        while rows(&admin, left).await != ["0"] {
            looks += 1;
            assert!(looks < 10_000, "its cursors are closed");
        }
        ann.simple_query(&format!("BEGIN; {}", declare(0))).await.unwrap();
        assert_eq!(rows(&ann, "FETCH ALL FROM c0").await.len(), 9, "running_queries-5");
    });
    server.stop();
}
