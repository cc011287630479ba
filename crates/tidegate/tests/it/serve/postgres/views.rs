//! Views and comments as clients see them: their types and lists, prepared statements, and the
//! refusal of writes to views.

use std::process::{Command, Stdio};

use bytes::{Bytes, BytesMut};
use futures::{SinkExt, TryStreamExt};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, NoTls};

use super::super::server::Server;
use super::{PASSWORD, SECRET, block_on, code, connect, rows};
use crate::world::World;

const TABLE: &str = "CREATE TABLE cpu (ts TIMESTAMP, host SYMBOL, v DOUBLE, n INT) TIMESTAMP(ts) \
                     PARTITION BY DAY";
const ROWS: &str = "INSERT INTO cpu VALUES ('2025-03-01', 'a', 1, 1), ('2025-03-02', 'b', 2, 2)";
const VIEW: &str = "CREATE VIEW warm AS SELECT ts, host, v AS value FROM cpu WHERE v > 1";

async fn fill(client: &Client) {
    for sql in [TABLE, ROWS, VIEW, "COMMENT ON VIEW warm IS 'above one'"] {
        client.simple_query(sql).await.expect(sql);
    }
}

#[test]
fn a_statement_that_was_prepared_heeds_the_view_as_it_is_now() {
    let world = World::new();
    let server = Server::start_with(&world, &[SECRET]);
    block_on(async {
        let client = connect(&server).await;
        fill(&client).await;
        let sql = "SELECT * FROM warm WHERE value < $1";
        let statement = client.prepare(sql).await.unwrap();
        assert_eq!(statement.params(), [Type::FLOAT8]);
        let types = statement.columns().iter().map(|it| (it.name(), it.type_().clone()));
        let expected = [("ts", Type::TIMESTAMP), ("host", Type::VARCHAR), ("value", Type::FLOAT8)];
        assert_eq!(types.collect::<Vec<_>>(), expected);
        let oid = rows(&client, "SELECT 'warm'::regclass::oid").await;
        let named = statement.columns().iter().map(|column| column.table_oid().unwrap_or(0));
        assert!(named.map(|it| it.to_string()).all(|it| [it] == oid[..]), "columns of the view");
        // Several executions, so that the plan comes from the plan cache.
        for _ in 0..4 {
            assert_eq!(client.query(&statement, &[&9.0]).await.unwrap().len(), 1);
        }
        let all = "CREATE OR REPLACE VIEW warm AS SELECT ts, host, v AS value FROM cpu";
        client.simple_query(all).await.unwrap();
        assert_eq!(client.query(&statement, &[&9.0]).await.unwrap().len(), 2);
        client.simple_query("ALTER TABLE cpu RENAME TO processors").await.unwrap();
        assert_eq!(client.query(&statement, &[&9.0]).await.unwrap().len(), 2);
        client.simple_query("ALTER TABLE processors DROP COLUMN v").await.unwrap();
        let error = client.query(&statement, &[&9.0]).await.unwrap_err();
        assert_eq!(error.code(), Some(&SqlState::UNDEFINED_COLUMN), "{error:?}");
        client.simple_query("DROP VIEW warm").await.unwrap();
        let error = client.query(&statement, &[&9.0]).await.unwrap_err();
        assert_eq!(error.code(), Some(&SqlState::UNDEFINED_TABLE), "{error:?}");
    });
    server.stop();
}

#[test]
fn rows_of_a_query_that_has_begun_are_all_there_when_its_view_goes() {
    let world = World::new();
    let server = Server::start_with(&world, &[SECRET]);
    block_on(async {
        let (reader, other) = (connect(&server).await, connect(&server).await);
        let view = "CREATE VIEW numbers AS SELECT x FROM long_sequence(2000000)";
        reader.simple_query(view).await.unwrap();
        let params: [i64; 0] = [];
        let rows = reader.query_raw("SELECT x FROM numbers", params).await.unwrap();
        let mut rows = std::pin::pin!(rows);
        rows.try_next().await.unwrap().expect("a first row");
        other.simple_query("DROP VIEW numbers").await.unwrap();
        let mut count = 1;
        while rows.try_next().await.unwrap().is_some() {
            count += 1;
        }
        assert_eq!(count, 2_000_000);
    });
    server.stop();
}

#[test]
fn no_way_leads_rows_into_a_view() {
    let world = World::new();
    let server = Server::start_with(&world, &[SECRET]);
    block_on(async {
        let client = connect(&server).await;
        fill(&client).await;
        for sql in [
            "INSERT INTO warm VALUES ('2025-03-01', 'a', 1)",
            "UPDATE warm SET host = 'x'",
            "DELETE FROM warm",
            "TRUNCATE warm",
            "ALTER TABLE warm ADD COLUMN x INT",
            "DROP TABLE warm",
            "COMMENT ON TABLE warm IS 'x'",
        ] {
            assert_eq!(code(&client, sql).await.0, "42809", "{sql}");
        }
        let sink = client.copy_in("COPY warm FROM STDIN WITH (FORMAT csv)").await;
        let error = match sink {
            Err(error) => error,
            Ok(sink) => {
                let mut sink = std::pin::pin!(sink);
                let _ = sink.send(Bytes::from_static(b"2025-01-01,a,3\n")).await;
                sink.finish().await.unwrap_err()
            }
        };
        assert_eq!(error.code(), Some(&SqlState::WRONG_OBJECT_TYPE), "{error:?}");
        for sql in ["COPY (SELECT host FROM warm) TO STDOUT", "COPY warm (host) TO STDOUT"] {
            let stream = client.copy_out(sql).await.expect(sql);
            let bytes: BytesMut = stream.try_collect().await.unwrap();
            assert_eq!(&bytes[..], b"b\n", "{sql}");
        }
    });
    server.stop();
    let server = Server::start(&world);
    let answer = server.post("/write", "", "warm,host=c value=3 1740787200000000000\n");
    assert_eq!(answer.status, 400, "{}", answer.body);
    assert!(
        answer.body.contains("'warm' is a view: rows can be written to tables only"),
        "{}",
        answer.body
    );
    assert_eq!(server.rows("SELECT count(*) FROM warm"), "[[1]]");
    server.stop();
}

#[test]
fn a_reader_reads_views_and_makes_none() {
    let world = World::new();
    let server = Server::start_with(&world, &[SECRET]);
    let added = world.run_with(&["user", "add", "ann", "--role", "reader"], b"hers");
    assert_eq!(added.code, Some(0), "{}", added.stderr);
    block_on(async {
        let admin = connect(&server).await;
        fill(&admin).await;
        let (host, port) = (server.pg.ip(), server.pg.port());
        let ann = format!("host={host} port={port} user=ann password=hers dbname=test");
        let (ann, connection) = tokio_postgres::connect(&ann, NoTls).await.unwrap();
        tokio::spawn(connection);
        assert_eq!(rows(&ann, "SELECT host, value FROM warm").await, ["b|2"]);
        for sql in [
            "CREATE VIEW v AS SELECT 1 AS x",
            "CREATE OR REPLACE VIEW warm AS SELECT 1 AS x",
            "DROP VIEW warm",
            "ALTER VIEW warm RENAME TO v",
            "COMMENT ON VIEW warm IS 'mine'",
        ] {
            assert_eq!(code(&ann, sql).await.0, "42501", "{sql}");
        }
    });
    server.stop();
}

/// Returns the output of psql for a command, with its titles; nothing if there is no psql.
fn psql(server: &Server, command: &str) -> Option<String> {
    let mut psql = Command::new("psql");
    psql.args(["-X", "-A", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1", "-U", "admin"]);
    psql.args(["-d", "test", "-p", &server.pg.port().to_string(), "-c", command]);
    let output = psql.env("PGPASSWORD", PASSWORD).stdin(Stdio::null()).output().ok()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!errors.contains("ERROR"), "{command}: {errors}");
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn psql_describes_views_and_comments() {
    let world = World::new();
    let server = Server::start_with(&world, &[SECRET]);
    block_on(async {
        let client = connect(&server).await;
        fill(&client).await;
        for sql in ["COMMENT ON TABLE cpu IS 'all'", "COMMENT ON COLUMN warm.value IS 'its load'"] {
            client.simple_query(sql).await.expect(sql);
        }
    });
    for (command, expected) in [
        ("\\d", "public|warm|view|admin"),
        ("\\dv", "public|warm|view|admin"),
        ("\\dv+", "|above one"),
        ("\\dt+", "|all"),
        ("\\d warm", "value|double precision|"),
        ("\\d+ warm", "|its load"),
        ("\\d+ warm", "SELECT ts, host, v AS value FROM cpu WHERE v > 1;"),
    ] {
        let Some(stdout) = psql(&server, command) else { return };
        assert!(stdout.contains(expected), "{command} lacks {expected}: {stdout}");
    }
    let tables = psql(&server, "\\dt").expect("it is there");
    assert!(!tables.contains("warm"), "{tables}");
    server.stop();
}
