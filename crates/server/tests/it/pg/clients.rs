//! Statements, transactions, cursors and COPY, through a client of PostgreSQL's protocol.

use std::time::Duration;

use bytes::Bytes;
use futures::{SinkExt, TryStreamExt};
use tidegate_query::Role;
use tokio::time::Instant;
use tokio_postgres::NoTls;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;

use super::client::{SECRET, block_on, code, connect, connect_as, rows};
use crate::fixture::{Server, World};

const TABLE: &str = "CREATE TABLE t (ts TIMESTAMP, s SYMBOL, v DOUBLE, n INT, f FLOAT, \
    l BIGINT, i TINYINT, u UBIGINT, d DECIMAL(10,3), g UUID, b BINARY, ok BOOLEAN, ip IPV4, \
    day DATE, txt VARCHAR) TIMESTAMP(ts) PARTITION BY DAY";

const ROW: &str = "INSERT INTO t VALUES ('2025-03-01T00:00:00.5Z', 'oslo', 0.1, -5, 1.5, \
    9223372036854775807, -128, 18446744073709551615, '12.500', \
    '11111111-2222-3333-4444-555555555555', NULL, true, '10.0.0.1', '2025-02-28', 'a''b')";

#[test]
fn every_type_is_shown_as_postgresql_does() {
    let world = World::new();
    let server = Server::start_with(&world, &[SECRET]);
    block_on(async {
        let client = connect(&server).await;
        client.simple_query(TABLE).await.unwrap();
        client.simple_query(ROW).await.unwrap();
        let expected = "2025-03-01 00:00:00.5|oslo|0.1|-5|1.5|9223372036854775807|-128|\
                        18446744073709551615|12.500|11111111-2222-3333-4444-555555555555|NULL|t|\
                        10.0.0.1|2025-02-28|a'b";
        assert_eq!(rows(&client, "SELECT * FROM t").await, [expected]);
        let floats = "SELECT 1e15::DOUBLE, 1e-5::DOUBLE, 100000.0::DOUBLE, 'NaN'::DOUBLE, \
                      '-Infinity'::DOUBLE, 1e6::FLOAT, 0.25::DOUBLE";
        let expected = "1e+15|1e-05|100000|NaN|-Infinity|1e+06|0.25";
        assert_eq!(rows(&client, floats).await, [expected]);
        assert_eq!(rows(&client, "SELECT array_agg(x) FROM long_sequence(3)").await, ["{1,2,3}"]);
        let statement = client.prepare("SELECT * FROM t WHERE v > $1 AND s = $2").await.unwrap();
        assert_eq!(statement.params(), [Type::FLOAT8, Type::VARCHAR]);
        let types = statement.columns().iter().map(|column| column.type_().clone());
        let expected = [
            Type::TIMESTAMP,
            Type::VARCHAR,
            Type::FLOAT8,
            Type::INT4,
            Type::FLOAT4,
            Type::INT8,
            Type::INT2,
            Type::NUMERIC,
            Type::NUMERIC,
            Type::UUID,
            Type::BYTEA,
            Type::BOOL,
            Type::VARCHAR,
            Type::DATE,
            Type::VARCHAR,
        ];
        assert_eq!(types.collect::<Vec<_>>(), expected);
        let row = client.query_one(&statement, &[&0.0, &"oslo"]).await.unwrap();
        assert_eq!((row.get::<_, f64>("v"), row.get::<_, i32>("n")), (0.1, -5));
        assert_eq!((row.get::<_, i16>("i"), row.get::<_, bool>("ok")), (-128, true));
        let bytes = [1_u8, 0, 255];
        let insert = "INSERT INTO t (ts, s, b, l) VALUES ($1, $2, $3, $4)";
        let at = std::time::SystemTime::UNIX_EPOCH + Duration::from_micros(1_740_787_200_000_001);
        let done = client.execute(insert, &[&at, &"rome", &&bytes[..], &None::<i64>]).await;
        assert_eq!(done.unwrap(), 1);
        let row = client.query_one("SELECT ts, b, l FROM t WHERE s = 'rome'", &[]).await.unwrap();
        assert_eq!(row.get::<_, std::time::SystemTime>(0), at);
        assert_eq!(
            (row.get::<_, Vec<u8>>(1), row.get::<_, Option<i64>>(2)),
            (bytes.to_vec(), None)
        );
    });
    server.stop();
}

#[test]
fn errors_have_their_number_and_their_place() {
    let world = World::new();
    let server = Server::start_with(&world, &[SECRET]);
    block_on(async {
        let client = connect(&server).await;
        client.simple_query("CREATE TABLE t (ts TIMESTAMP, n INT) TIMESTAMP(ts)").await.unwrap();
        for (sql, expected, position) in [
            ("selec 1", "42601", Some(1)),
            ("SELECT 1; SELECT nope FROM t", "42703", Some(18)),
            ("SELECT * FROM nope", "42P01", Some(15)),
            ("SELECT nope(1)", "42883", Some(8)),
            ("SELECT 'x'::int", "22P02", Some(8)),
            ("SELECT 1/0", "22012", Some(9)),
            ("CREATE TABLE t (ts TIMESTAMP)", "42P07", None),
            ("EXECUTE nope", "26000", None),
            ("FETCH nope", "34000", None),
            ("DECLARE c CURSOR FOR SELECT 1", "25P01", None),
            ("SAVEPOINT a", "25P01", None),
            ("COPY nope TO STDOUT", "42P01", None),
            ("SET nope = 1", "42704", Some(5)),
            ("SELECT ts, n, count(*) FROM t GROUP BY ts", "42803", Some(12)),
            ("SELECT n FROM t WHERE sum(n) > 1", "42803", None),
            ("SELECT n FROM t ORDER BY 7", "42P10", Some(26)),
            ("SELECT n FROM t GROUP BY 9", "42P10", Some(26)),
            ("SELECT n FROM t LIMIT n", "42P10", Some(23)),
            ("WITH a AS (SELECT 1), a AS (SELECT 2) SELECT * FROM a", "42712", Some(23)),
            ("SELECT * FROM t a, t a", "42712", None),
            ("SELECT (SELECT x FROM long_sequence(2))", "21000", None),
            ("SELECT 'a' ~ '('", "2201B", None),
            (
                "SELECT sum(n) OVER (ORDER BY ts RANGE INTERVAL '-1 day' PRECEDING) FROM t",
                "22013",
                None,
            ),
            ("SELECT s ~ '(a{1000}){1000}' FROM (SELECT 'a' || random() AS s)", "54000", None),
            ("SELECT 1 UNION SELECT 1, 2", "42601", None),
            ("SET client_encoding = 'LATIN1'", "22023", Some(5)),
        ] {
            let (code, at) = code(&client, sql).await;
            assert_eq!(code, expected, "{sql}");
            if position.is_some() {
                assert_eq!(at, position, "{sql}");
            }
        }
        assert_eq!(rows(&client, "SELECT 1").await, ["1"], "the connection goes on");
    });
    server.stop();
}

#[test]
fn rows_come_and_go_by_copy() {
    let world = World::new();
    let server = Server::start_with(&world, &[SECRET]);
    block_on(async {
        let client = connect(&server).await;
        let table = "CREATE TABLE t (ts TIMESTAMP, n INT, s VARCHAR) TIMESTAMP(ts)";
        client.simple_query(table).await.unwrap();
        let copy = async |parts: &[&'static str]| {
            let sink = client.copy_in("COPY t FROM STDIN WITH (FORMAT csv)").await.unwrap();
            let mut sink = std::pin::pin!(sink);
            for part in parts {
                sink.send(Bytes::from_static(part.as_bytes())).await.unwrap();
            }
            sink.finish().await
        };
        // The boundaries of rows are not those of messages.
        let parts = ["2025-01-01,1,\"a,", "b\"\n2025-01-02,,\n2025-01-", "03,3,\"x\ny\"\n"];
        assert_eq!(copy(&parts).await.unwrap(), 3);
        let error = copy(&["2025-01-04,4,z\n2025-01-05,five,z\n"]).await.unwrap_err();
        let error = error.as_db_error().unwrap();
        assert_eq!(error.code().code(), "22P02", "connection_copy-1: {error}");
        // A COPY that is not ended has changed nothing.
        drop(client.copy_in::<_, Bytes>("COPY t FROM STDIN").await.unwrap());
        assert_eq!(rows(&client, "SELECT count(*) FROM t").await, ["3"], "connection_copy-1");
        let out = client.copy_out("COPY (SELECT n, s FROM t) TO STDOUT").await.unwrap();
        let out = out.try_collect::<Vec<_>>().await.unwrap();
        assert_eq!(out, ["1\ta,b\n", "\\N\t\\N\n", "3\tx\\ny\n"], "connection_copy-2");
        let csv = "COPY t TO STDOUT WITH CSV HEADER";
        let out = client.copy_out(csv).await.unwrap().try_collect::<Vec<_>>().await.unwrap();
        assert_eq!(out.len(), 4, "connection_copy-2");
        assert_eq!(out[0], "ts,n,s\n");
    });
    server.stop();
}

#[test]
fn a_transaction_is_all_or_nothing() {
    let world = World::new();
    let server = Server::start_with(&world, &[SECRET]);
    block_on(async {
        let (client, other) = (connect(&server).await, connect(&server).await);
        for name in ["a", "b"] {
            let sql = format!("CREATE TABLE {name} (ts TIMESTAMP, n INT) TIMESTAMP(ts)");
            client.simple_query(&sql).await.unwrap();
        }
        let count = "SELECT (SELECT count(*) FROM a), (SELECT count(*) FROM b)";
        client.simple_query("BEGIN; INSERT INTO a VALUES ('2025', 1)").await.unwrap();
        client.simple_query("INSERT INTO b VALUES ('2025', 1)").await.unwrap();
        assert_eq!(rows(&other, count).await, ["0|0"]);
        client.simple_query("ROLLBACK").await.unwrap();
        assert_eq!(rows(&client, count).await, ["0|0"]);
        let both = "INSERT INTO a (n, ts) VALUES (1, '2025'), (2, '2026'); \
                    INSERT INTO b (ts) VALUES ('2025')";
        client.simple_query(&format!("BEGIN; {both}; COMMIT")).await.unwrap();
        assert_eq!(rows(&other, count).await, ["2|1"]);
        assert_eq!(code(&client, &format!("{both}; SELECT 1/0")).await.0, "22012");
        assert_eq!(rows(&client, count).await, ["2|1"], "statements that come together are one");
        client.simple_query("BEGIN; INSERT INTO a VALUES ('2025', 9)").await.unwrap();
        assert_eq!(code(&client, "COPY a FROM 'x.csv'").await.0, "25001");
        assert_eq!(code(&client, "SELECT 1").await.0, "25P02");
        client.simple_query("COMMIT").await.unwrap();
        assert_eq!(rows(&client, count).await, ["2|1"], "COMMIT of a failed one is a ROLLBACK");
        client.simple_query("BEGIN; INSERT INTO a VALUES ('2027', 3); SAVEPOINT x").await.unwrap();
        client.simple_query("INSERT INTO a VALUES ('2028', 4)").await.unwrap();
        assert_eq!(code(&client, "SELECT 1/0").await.0, "22012");
        client.simple_query("ROLLBACK TO x; INSERT INTO a VALUES ('2029', 5)").await.unwrap();
        client.simple_query("RELEASE x; COMMIT").await.unwrap();
        assert_eq!(rows(&client, "SELECT n FROM a").await, ["1", "2", "3", "5"]);
        client.simple_query("DELETE FROM a WHERE n > 2").await.unwrap();
        let begin = "BEGIN READ ONLY; INSERT INTO a VALUES ('2025', 9)";
        assert_eq!(code(&client, begin).await.0, "25006");
        client.simple_query("ROLLBACK").await.unwrap();
        client.simple_query("BEGIN; INSERT INTO a VALUES ('2027', 3)").await.unwrap();
        drop(client);
        assert_eq!(rows(&other, count).await, ["2|1"], "who goes away has not committed");
        // Buffered rows are for the table that had the name then, and not for another one that has
        // it now.
        let client = connect(&server).await;
        client.simple_query("BEGIN; INSERT INTO b VALUES ('2027', 3)").await.unwrap();
        other.simple_query("DROP TABLE b").await.unwrap();
        let anew = "CREATE TABLE b (ts TIMESTAMP, n INT) TIMESTAMP(ts)";
        other.simple_query(anew).await.unwrap();
        assert!(client.simple_query("COMMIT").await.is_err());
        assert_eq!(rows(&other, count).await, ["2|0"]);
    });
    server.stop();
}

#[test]
fn a_transaction_sees_what_it_changes_and_others_do_not() {
    let world = World::new();
    let server = Server::start_with(&world, &[SECRET]);
    block_on(async {
        let (client, other) = (connect(&server).await, connect(&server).await);
        let create = "CREATE TABLE a (ts TIMESTAMP, n INT) TIMESTAMP(ts) PARTITION BY DAY";
        client.simple_query(create).await.unwrap();
        let all = "SELECT n FROM a";
        client.simple_query("INSERT INTO a VALUES ('2025', 1), ('2026', 2)").await.unwrap();
        client.simple_query("BEGIN; INSERT INTO a VALUES ('2027', 3)").await.unwrap();
        // A prepared UPDATE is described, and its rows are those of its RETURNING.
        let update =
            client.prepare("UPDATE a SET n = n * $1 WHERE n > 1 RETURNING n").await.unwrap();
        assert_eq!(update.columns().len(), 1);
        let found = client.query(&update, &[&10_i32]).await.unwrap();
        assert_eq!(found.iter().map(|row| row.get(0)).collect::<Vec<i32>>(), [20, 30]);
        assert_eq!(rows(&client, "DELETE FROM a WHERE n = 20 RETURNING n, ts").await.len(), 1);
        assert_eq!(
            (rows(&client, all).await, rows(&other, all).await),
            (vec!["1".to_owned(), "30".to_owned()], vec!["1".to_owned(), "2".to_owned()],)
        );
        // The other session commits a change of the same row first.
        other.simple_query("UPDATE a SET n = 5 WHERE n = 2").await.unwrap();
        assert_eq!(code(&client, "COMMIT").await.0, "40001");
        assert_eq!(rows(&client, all).await, ["1", "5"], "nothing of it is there");
        // Statements of one message are one transaction.
        let both = "UPDATE a SET n = 6 WHERE n = 5; DELETE FROM a WHERE n = 1; SELECT 1/0";
        assert_eq!(code(&client, both).await.0, "22012");
        assert_eq!(rows(&client, all).await, ["1", "5"]);
        // Temporary tables belong to a connection.
        client.simple_query("CREATE TEMP TABLE a AS SELECT 7 AS n").await.unwrap();
        assert_eq!(
            (rows(&client, all).await, rows(&other, all).await),
            (vec!["7".to_owned()], vec!["1".to_owned(), "5".to_owned()],)
        );
        assert_eq!(rows(&client, "SELECT n FROM public.a").await, ["1", "5"]);
        client.simple_query("DISCARD ALL").await.unwrap();
        assert_eq!(rows(&client, all).await, ["1", "5"]);
        // A cursor that outlives its transaction returns the rows of that transaction.
        client.simple_query("BEGIN; INSERT INTO a VALUES ('2028', 8)").await.unwrap();
        let declare = "DECLARE c CURSOR WITH HOLD FOR SELECT n FROM a";
        client.simple_query(declare).await.unwrap();
        client.simple_query("COMMIT; DELETE FROM a").await.unwrap();
        assert_eq!(rows(&client, "FETCH 2 FROM c").await, ["1", "5"]);
        assert_eq!(rows(&client, "FETCH ALL FROM c").await, ["8"]);
        client.simple_query("CLOSE c; BEGIN").await.unwrap();
        client.simple_query(declare).await.unwrap();
        client.simple_query("ROLLBACK").await.unwrap();
        assert_eq!(code(&client, "FETCH 1 FROM c").await.0, "34000");
    });
    server.stop();
}

// The query of a cursor was planned at its first FETCH: its rows had the changes that others had
// committed since DECLARE, and a cursor FOR UPDATE had read nothing before.
#[test]
fn a_cursor_has_the_rows_of_its_declare() {
    let world = World::new();
    let server = Server::start_with(&world, &[SECRET]);
    block_on(async {
        let (client, other) = (connect(&server).await, connect(&server).await);
        let create = "CREATE TABLE a (ts TIMESTAMP, n INT) TIMESTAMP(ts) PARTITION BY DAY";
        client.simple_query(create).await.unwrap();
        client.simple_query("INSERT INTO a VALUES ('2025', 1), ('2026', 2)").await.unwrap();
        let declare = "DECLARE c CURSOR FOR SELECT n FROM a";
        client.simple_query("BEGIN").await.unwrap();
        client.simple_query(declare).await.unwrap();
        other.simple_query("INSERT INTO a VALUES ('2027', 3)").await.unwrap();
        other.simple_query("DELETE FROM a WHERE n = 1").await.unwrap();
        client.simple_query("INSERT INTO a VALUES ('2028', 4)").await.unwrap();
        assert_eq!(rows(&client, "FETCH ALL FROM c").await, ["1", "2"], "portal-6");
        client.simple_query("ROLLBACK").await.unwrap();
        // It has read them for a change.
        client.simple_query("BEGIN").await.unwrap();
        client.simple_query(&format!("{declare} FOR UPDATE")).await.unwrap();
        other.simple_query("UPDATE a SET n = 5 WHERE n = 3").await.unwrap();
        client.simple_query("INSERT INTO a VALUES ('2028', 4)").await.unwrap();
        assert_eq!(code(&client, "COMMIT").await.0, "40001");
        // DECLARE says what is wrong with its query.
        client.simple_query("BEGIN").await.unwrap();
        let wrong = "DECLARE c CURSOR FOR SELECT nope FROM a";
        assert_eq!(code(&client, wrong).await, ("42703".to_owned(), Some(29)));
        client.simple_query("ROLLBACK").await.unwrap();
    });
    server.stop();
}

// A cursor that has read the changes behind a savepoint would show rows that are undone.
#[test]
fn a_cursor_ends_with_the_savepoint_before_it() {
    let world = World::new();
    let server = Server::start_with(&world, &[SECRET]);
    block_on(async {
        let client = connect(&server).await;
        let declare = "DECLARE c CURSOR FOR SELECT x FROM long_sequence(2)";
        for (before, is_there) in [
            (vec!["SAVEPOINT s", declare], false),
            (vec![declare, "SAVEPOINT s"], true),
            (vec!["SAVEPOINT r", declare, "SAVEPOINT s"], true),
            (vec!["SAVEPOINT s", "SAVEPOINT r", declare, "RELEASE r"], false),
            (vec!["SAVEPOINT r", declare, "RELEASE r", "SAVEPOINT s"], true),
            (vec!["SAVEPOINT s", "ROLLBACK TO s", declare], false),
        ] {
            client.simple_query("BEGIN").await.unwrap();
            for statement in &before {
                client.simple_query(statement).await.unwrap();
            }
            client.simple_query("ROLLBACK TO s").await.unwrap();
            match is_there {
                true => assert_eq!(rows(&client, "FETCH 1 FROM c").await, ["1"], "{before:?}"),
                false => assert_eq!(code(&client, "FETCH c").await.0, "34000", "{before:?}"),
            }
            client.simple_query("ROLLBACK").await.unwrap();
        }
    });
    server.stop();
}

// Without a check at COMMIT, a transaction that had read the row before the other one committed
// wrote its own sum over that of the other.
#[test]
fn of_two_transactions_that_read_a_row_to_change_it_none_loses_the_change_of_the_other() {
    let world = World::new();
    let server = Server::start_with(&world, &[SECRET]);
    block_on(async {
        let clients = [connect(&server).await, connect(&server).await];
        let create = "CREATE TABLE a (ts TIMESTAMP, n INT) TIMESTAMP(ts) PARTITION BY DAY";
        clients[0].simple_query(create).await.unwrap();
        clients[0].simple_query("INSERT INTO a VALUES ('2025', 0)").await.unwrap();
        let mut sum = 0;
        // All orders of the three steps of both: each bit says whose step is next.
        for order in (0_u32..64).filter(|order| order.count_ones() == 3) {
            let (mut steps, mut found, mut committed) = ([0; 2], [0; 2], Vec::new());
            let mut is_serial = false;
            for at in 0..6 {
                let one = usize::from(order >> at & 1 == 1);
                let client = &clients[one];
                match steps[one] {
                    0 => {
                        let read = rows(client, "BEGIN; SELECT n FROM a FOR UPDATE").await;
                        found[one] = read[0].parse::<i32>().unwrap();
                    }
                    1 => {
                        let update = format!("UPDATE a SET n = {}", found[one] + 1);
                        client.simple_query(&update).await.unwrap();
                    }
                    _ => {
                        is_serial |= steps[1 - one] == 0;
                        committed.push(match client.simple_query("COMMIT").await {
                            Ok(_) => true,
                            Err(error) => {
                                let conflict = Some(&SqlState::T_R_SERIALIZATION_FAILURE);
                                assert_eq!(error.code(), conflict, "order {order:b}");
                                false
                            }
                        });
                    }
                }
                steps[one] += 1;
            }
            assert_eq!(committed, [true, is_serial], "order {order:b}");
            sum += 1 + i32::from(is_serial);
            let now = rows(&clients[0], "SELECT n FROM a").await;
            assert_eq!(now, [sum.to_string()], "order {order:b}");
        }
        // A plan that was made before remembers nothing.
        let [client, other] = &clients;
        let read = client.prepare("SELECT n FROM a WHERE n > $1 FOR UPDATE").await.unwrap();
        for _ in 0..5 {
            assert_eq!(client.query(&read, &[&0_i32]).await.unwrap().len(), 1);
        }
        client.simple_query("BEGIN").await.unwrap();
        client.query(&read, &[&0_i32]).await.unwrap();
        other.simple_query("UPDATE a SET n = n + 1").await.unwrap();
        client.simple_query("INSERT INTO a VALUES ('2026', 0)").await.unwrap();
        assert_eq!(code(client, "COMMIT").await.0, "40001");
        let read_only = "BEGIN READ ONLY; SELECT n FROM a FOR SHARE";
        assert_eq!(code(client, read_only).await.0, "25006");
        client.simple_query("ROLLBACK").await.unwrap();
        assert_eq!(code(client, "SELECT max(n) FROM a FOR UPDATE").await.0, "0A000");
        let unknown = code(client, "SELECT n FROM a FOR UPDATE OF b").await;
        assert_eq!(unknown, ("42P01".to_owned(), Some(31)));
    });
    server.stop();
}

#[test]
fn cursors_prepared_statements_and_portals_go_step_by_step() {
    let world = World::new();
    let server = Server::start_with(&world, &[SECRET]);
    block_on(async {
        let mut client = connect(&server).await;
        client.simple_query("PREPARE p (int) AS SELECT $1 + 1").await.unwrap();
        assert_eq!(rows(&client, "EXECUTE p (41)").await, ["42"]);
        client.simple_query("DEALLOCATE p").await.unwrap();
        let declare = "BEGIN; DECLARE c CURSOR FOR SELECT x FROM long_sequence(5)";
        client.simple_query(declare).await.unwrap();
        assert_eq!(rows(&client, "FETCH 2 FROM c").await, ["1", "2"]);
        client.simple_query("MOVE 1 IN c").await.unwrap();
        assert_eq!(rows(&client, "FETCH ALL FROM c").await, ["4", "5"]);
        assert_eq!(rows(&client, "FETCH c").await, [""; 0]);
        client.simple_query("CLOSE c; COMMIT").await.unwrap();
        let transaction = client.transaction().await.unwrap();
        let large = transaction.bind("SELECT x FROM long_sequence(100000)", &[]).await.unwrap();
        let small = transaction.bind("SELECT x FROM long_sequence(3)", &[]).await.unwrap();
        let (mut seen, mut last) = (0, 0);
        loop {
            let rows = transaction.query_portal(&large, 30_000).await.unwrap();
            let Some(row) = rows.last() else { break };
            (seen, last) = (seen + rows.len(), row.get::<_, i64>(0));
            let rows = transaction.query_portal(&small, 1).await.unwrap();
            assert!(rows.len() <= 1, "portals take turns");
        }
        assert_eq!((seen, last), (100_000, 100_000));
        transaction.commit().await.unwrap();
        client.simple_query("DISCARD ALL").await.unwrap();
    });
    server.stop();
}

// `pg_stat_activity` had a number of its own for each statement, so that none was the one known to
// the client, and `pg_cancel_backend` found nothing. DISCARD ALL dropped the settings that the
// connection had started with, so that the next user of a pooled connection had no timeout and
// could write.
#[test]
fn a_connection_keeps_its_number_and_what_it_began_with() {
    let world = World::new();
    let server = Server::start_with(&world, &[SECRET]);
    block_on(async {
        let options = "user=admin password='a better one' dbname=test \
                       options='-c statement_timeout=5s'";
        let client = connect_as(&server, options).await.unwrap().client;
        let own = "SELECT count(*) FROM pg_stat_activity WHERE pid = pg_backend_pid()";
        assert_eq!(rows(&client, own).await, ["1"]);
        let other = connect(&server).await;
        let pid = rows(&other, "SELECT pg_backend_pid()").await.remove(0);
        let long = "SELECT count(*) FROM long_sequence(1000000) a, long_sequence(1000000) b";
        let cancel = async {
            let cancel = format!("SELECT pg_cancel_backend({pid})");
            while rows(&client, &cancel).await != ["t"] {}
        };
        assert_eq!(tokio::join!(code(&other, long), cancel).0.0, "57014");
        let timeout = "SHOW statement_timeout";
        for again in ["DISCARD ALL", "RESET ALL", "SET statement_timeout TO DEFAULT"] {
            client.simple_query("SET statement_timeout = 1234").await.unwrap();
            assert_eq!(rows(&client, timeout).await, ["1234ms"]);
            client.simple_query(again).await.unwrap();
            assert_eq!(rows(&client, timeout).await, ["5s"], "{again}");
        }
    });
    server.stop();
}

#[test]
fn functions_of_the_catalog_find_tables_by_number_and_name() {
    let world = World::new();
    let server = Server::start_with(&world, &[SECRET, "http.auth=off"]);
    // A rejected line creates the table of rejects.
    assert_eq!(server.post("/write", "", "t v=x\n").status, 400);
    server.wait_for_rows("sys.ilp_rejects", 1);
    block_on(async {
        let client = connect(&server).await;
        client.simple_query("CREATE TABLE \"Some\" (n INT)").await.unwrap();
        let found = "SELECT c.oid::regclass, pg_table_is_visible(c.oid), \
             c.oid = (CASE c.relname WHEN 'Some' THEN 'public.\"some\"'::regclass \
                 ELSE 'sys.ilp_rejects'::regclass END) \
             FROM pg_class c WHERE relname IN ('Some', 'ilp_rejects') ORDER BY relname";
        assert_eq!(rows(&client, found).await, ["Some|t|t", "sys.ilp_rejects|f|t"]);
        for nowhere in ["ilp_rejects", "sys.some", "x.some"] {
            assert_eq!(rows(&client, &format!("SELECT to_regclass('{nowhere}')")).await, ["NULL"]);
        }
        assert_eq!(rows(&client, "SELECT 1::regclass, 99999999::regclass").await, ["1|99999999"]);
    });
    server.stop();
}

#[test]
fn a_changed_table_makes_clients_prepare_again() {
    let world = World::new();
    let server = Server::start_with(&world, &[SECRET]);
    block_on(async {
        let client = connect(&server).await;
        client.simple_query("CREATE TABLE t (ts TIMESTAMP, n INT) TIMESTAMP(ts)").await.unwrap();
        let statement = client.prepare("SELECT * FROM t").await.unwrap();
        assert!(client.query(&statement, &[]).await.unwrap().is_empty());
        client.simple_query("ALTER TABLE t ADD COLUMN m INT").await.unwrap();
        let error = client.query(&statement, &[]).await.unwrap_err();
        let error = error.as_db_error().unwrap();
        assert_eq!(error.code(), &SqlState::FEATURE_NOT_SUPPORTED);
        assert_eq!(error.message(), "cached plan must not change result type");
        assert_eq!(error.routine(), Some("RevalidateCachedQuery"));
    });
    server.stop();
}

#[test]
fn statements_end_when_they_are_cancelled_or_too_slow() {
    const SLOW: &str = "SELECT sum(a.x * b.x) FROM long_sequence(1000000) a, \
                        long_sequence(1000000) b";
    let world = World::new();
    let server = Server::start_with(&world, &[SECRET]);
    block_on(async {
        let client = connect(&server).await;
        let start = Instant::now();
        client.simple_query("SET statement_timeout = 50").await.unwrap();
        assert_eq!(code(&client, SLOW).await.0, "57014");
        assert!(start.elapsed() < Duration::from_secs(10));
        client.simple_query("SET statement_timeout = 0").await.unwrap();
        let (token, stream) = (client.cancel_token(), server.stream_pg());
        let cancel = tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(300)).await;
            token.cancel_query_raw(stream, NoTls).await
        });
        assert_eq!(code(&client, SLOW).await.0, "57014");
        cancel.await.unwrap().unwrap();
        assert_eq!(rows(&client, "SELECT 1").await, ["1"], "the next statement is not hit");
    });
    server.stop();
}

#[test]
fn a_login_needs_the_password() {
    let world = World::new();
    let server = Server::start_with(
        &world,
        &[SECRET, "auth.readonly_enabled=true", "auth.readonly_password=look"],
    );
    block_on(async {
        let refused = async |user: &str, password: &str| {
            let options = format!("user={user} password={password} dbname=test");
            let error = connect_as(&server, &options).await.err().expect("it is refused");
            let error = error.as_db_error().expect("the server says so").clone();
            (error.code().code().to_owned(), error.message().replace(user, "?"))
        };
        let wrong = refused("admin", "quest").await;
        assert_eq!(wrong.0, "28P01");
        assert_eq!(wrong, refused("nobody", "quest").await, "nobody is told who there is");
        let reader = "user=user password=look dbname=test";
        let client = connect_as(&server, reader).await.unwrap().client;
        assert_eq!(rows(&client, "SELECT current_user, current_database()").await, ["user|test"]);
        assert_eq!(code(&client, "CREATE TABLE t (ts TIMESTAMP)").await.0, "42501");
        let set = "SET default_transaction_read_only = off; CREATE TABLE t (ts TIMESTAMP)";
        assert_eq!(code(&client, set).await.0, "42501");
    });
    server.stop();
}

#[test]
fn a_writer_writes_and_makes_no_tables() {
    let world = World::new();
    let server = Server::start_with(&world, &[SECRET]);
    world.add_user("ann", Role::Writer, "hers");
    block_on(async {
        let admin = connect(&server).await;
        let table = "CREATE TABLE t (ts TIMESTAMP, n INT) TIMESTAMP(ts)";
        admin.simple_query(table).await.unwrap();
        let ann = connect_as(&server, "user=ann password=hers dbname=test").await.unwrap().client;
        ann.simple_query("INSERT INTO t VALUES (1, 1); UPDATE t SET n = 2").await.unwrap();
        let sink = ann.copy_in("COPY t FROM STDIN WITH (FORMAT csv)").await.unwrap();
        let mut sink = std::pin::pin!(sink);
        sink.send(Bytes::from_static(b"2025-01-01,3\n")).await.unwrap();
        assert_eq!(sink.finish().await.unwrap(), 1);
        for sql in [table, "DROP TABLE t", "COPY t FROM 'x.csv'", "ALTER TABLE t ADD COLUMN m INT"]
        {
            assert_eq!(code(&ann, sql).await.0, "42501", "{sql}");
        }
        // The privileges of a prepared statement are checked when it is executed.
        let error = ann.execute("TRUNCATE TABLE t", &[]).await.unwrap_err();
        assert_eq!(error.code(), Some(&SqlState::INSUFFICIENT_PRIVILEGE));
        assert_eq!(rows(&ann, "SELECT n FROM t ORDER BY n").await, ["2", "3"]);
    });
    server.stop();
}
