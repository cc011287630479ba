//! Statements of tools that no test can run: Grafana with its PostgreSQL and QuestDB data sources,
//! and TSBS. They come from the query builders, pickers, checks and macros of these tools.

use std::time::{Duration, SystemTime};

use tokio_postgres::types::ToSql;

use super::super::server::Server;
use super::{SECRET, block_on, code, connect, rows};
use crate::world::World;

const TABLE: &str = "CREATE TABLE cpu (timestamp TIMESTAMP, hostname SYMBOL, usage_user DOUBLE, \
                     usage_system DOUBLE, n INT) TIMESTAMP(timestamp) PARTITION BY DAY";
const ROWS: &str = "INSERT INTO cpu VALUES \
                    ('2025-03-01T00:00:00Z', 'host_0', 91, 1, 1), \
                    ('2025-03-01T00:00:30Z', 'host_1', 20, 2, 2), \
                    ('2025-03-01T00:05:00Z', 'host_0', 95, 3, 3), \
                    ('2025-03-01T01:10:00Z', 'host_1', 40, 4, 4)";
const DAY: &str = "timestamp BETWEEN '2025-03-01T00:00:00Z' AND '2025-03-02T00:00:00Z'";

/// Checks that each statement gives these rows.
fn check(statements: &[(&str, &[&str])]) {
    let world = World::new();
    let server = Server::start_with(&world, &[SECRET]);
    block_on(async {
        let client = connect(&server).await;
        client.simple_query(TABLE).await.unwrap();
        client.simple_query(ROWS).await.unwrap();
        for (sql, expected) in statements {
            let sql = sql.replace("$__timeFilter", DAY);
            assert_eq!(rows(&client, &sql).await, *expected, "{sql}");
        }
    });
    server.stop();
}

/// Grafana's condition for a schema in which names are searched.
const SEARCHED: &str = "quote_ident(table_schema) IN (SELECT CASE WHEN trim(s[i]) = '\"$user\"' \
    THEN user ELSE trim(s[i]) END FROM generate_series( \
    array_lower(string_to_array(current_setting('search_path'),','),1), \
    array_upper(string_to_array(current_setting('search_path'),','),1)) as i, \
    string_to_array(current_setting('search_path'),',') s)";

#[test]
fn grafana_finds_tables_and_columns() {
    let tables = format!(
        "SELECT CASE WHEN {SEARCHED} THEN quote_ident(table_name) ELSE quote_ident(table_schema) \
         || '.' || quote_ident(table_name) END AS \"table\" FROM information_schema.tables WHERE \
         quote_ident(table_schema) NOT IN ('information_schema','pg_catalog') ORDER BY CASE WHEN \
         {SEARCHED} THEN 0 ELSE 1 END, 1"
    );
    let columns = format!(
        "SELECT quote_ident(column_name) AS \"column\", data_type AS \"type\" FROM \
         information_schema.columns WHERE CASE WHEN array_length(parse_ident('cpu'),1) = 2 THEN \
         quote_ident(table_schema) = (parse_ident('cpu'))[1] AND quote_ident(table_name) = \
         (parse_ident('cpu'))[2] ELSE quote_ident(table_name) = 'cpu' AND {SEARCHED} END"
    );
    check(&[
        ("SELECT current_setting('server_version_num')::int/100 as version", &["1600"]),
        ("SELECT extversion FROM pg_extension WHERE extname = 'timescaledb'", &[]),
        (&tables, &["cpu"]),
        (
            &columns,
            &[
                "\"timestamp\"|timestamp without time zone",
                "hostname|character varying",
                "usage_user|double precision",
                "usage_system|double precision",
                "n|integer",
            ],
        ),
        ("SELECT DISTINCT hostname FROM cpu ORDER BY 1", &["host_0", "host_1"]),
        (
            "SELECT hostname AS __text, max(n) AS __value FROM cpu GROUP BY 1 ORDER BY 1",
            &["host_0|3", "host_1|4"],
        ),
    ]);
}

#[test]
fn grafana_draws_panels_and_annotations() {
    check(&[
        (
            "SELECT floor(extract(epoch from timestamp)/300)*300 AS \"time\", hostname AS metric, \
             avg(usage_user) AS value FROM cpu WHERE $__timeFilter GROUP BY 1,2 ORDER BY 1,2",
            &[
                "1740787200|host_0|91",
                "1740787200|host_1|20",
                "1740787500|host_0|95",
                "1740791400|host_1|40",
            ],
        ),
        (
            "SELECT timestamp AS \"time\", usage_user FROM cpu WHERE $__timeFilter AND hostname IN \
             ('host_0') ORDER BY 1",
            &["2025-03-01 00:00:00|91", "2025-03-01 00:05:00|95"],
        ),
        (
            "SELECT extract(epoch from timestamp) AS time, hostname AS text, 'a,b' AS tags FROM \
             cpu WHERE extract(epoch from timestamp) BETWEEN 1740787200 AND 1740787230",
            &["1740787200|host_0|a,b", "1740787230|host_1|a,b"],
        ),
        (
            "SELECT AVG(usage_user), hostname FROM cpu WHERE n > 1 GROUP BY hostname ORDER BY 2 \
          LIMIT 50",
            &["95|host_0", "30|host_1"],
        ),
    ]);
}

#[test]
fn grafana_speaks_to_questdb() {
    check(&[
        (
            "select table_name, partitionBy, designatedTimestamp, walEnabled, dedup  from tables()",
            &["cpu|DAY|timestamp|t|f"],
        ),
        (
            "select \"column\", type, designated from table_columns('cpu')",
            &[
                "timestamp|TIMESTAMP|t",
                "hostname|SYMBOL|f",
                "usage_user|DOUBLE|f",
                "usage_system|DOUBLE|f",
                "n|INT|f",
            ],
        ),
        (
            "SELECT timestamp AS time, max(usage_user) FROM cpu WHERE timestamp >= \
             cast(1740787200000000 as timestamp) AND timestamp <= cast(1740873600000000 as \
             timestamp) SAMPLE BY 300s",
            &["2025-03-01 00:00:00|91", "2025-03-01 00:05:00|95", "2025-03-01 01:10:00|40"],
        ),
        (
            "SELECT hostname, n FROM cpu LATEST ON timestamp PARTITION BY hostname",
            &["host_0|3", "host_1|4"],
        ),
        ("SELECT hostname, n FROM cpu LATEST BY hostname", &["host_0|3", "host_1|4"]),
    ]);
}

/// TSBS's statements for cpu-only have a list of hosts as one parameter; each gives the same rows
/// as a query in plain SQL.
#[test]
fn tsbs_asks_in_the_dialect_of_questdb() {
    let world = World::new();
    let server = Server::start_with(&world, &[SECRET]);
    block_on(async {
        let client = connect(&server).await;
        client.simple_query(TABLE).await.unwrap();
        client.simple_query(ROWS).await.unwrap();
        let hosts = vec!["host_0", "host_1"];
        let start = SystemTime::UNIX_EPOCH + Duration::from_secs(1_740_787_200);
        let end = start + Duration::from_hours(1);
        let three: &[&(dyn ToSql + Sync)] = &[&hosts, &start, &end];
        for (sql, parameters, plain) in [
            (
                "SELECT max(usage_user) AS max_usage_user FROM cpu WHERE hostname IN $1 AND \
                 timestamp >= $2 AND timestamp < $3 SAMPLE BY 1m",
                three,
                "SELECT max(usage_user) FROM cpu WHERE (hostname = 'host_0' OR hostname = \
                 'host_1') AND timestamp >= '2025-03-01T00:00:00Z' AND timestamp < \
                 '2025-03-01T01:00:00Z' \
                 GROUP BY date_trunc('minute', timestamp) ORDER BY date_trunc('minute', timestamp)",
            ),
            (
                "SELECT * FROM cpu WHERE usage_user > 90.0 AND hostname IN $1 AND timestamp >= \
                 $2 AND timestamp < $3",
                three,
                "SELECT * FROM cpu WHERE usage_user > 90 AND n < 4",
            ),
            (
                "SELECT hostname, avg(usage_user) AS avg_usage_user FROM cpu WHERE timestamp >= \
                 $1 AND timestamp < $2 SAMPLE BY 1h",
                &three[1..],
                "SELECT hostname, avg(usage_user) FROM cpu WHERE n < 4 GROUP BY hostname",
            ),
            (
                "SELECT * FROM cpu latest by hostname",
                &[][..],
                "SELECT * FROM cpu WHERE n IN (3, 4)",
            ),
        ] {
            let asked = texts(&client.query(sql, parameters).await.expect(sql));
            let mut expected = texts(&client.query(plain, &[]).await.expect(plain));
            assert!(!asked.is_empty(), "{sql}");
            let mut asked = asked;
            asked.sort();
            expected.sort();
            assert_eq!(asked, expected, "{sql}");
        }
    });
    server.stop();
}

/// Returns the numbers and texts of rows.
fn texts(rows: &[tokio_postgres::Row]) -> Vec<String> {
    let cell = |row: &tokio_postgres::Row, at: usize| {
        let number = row.try_get::<_, Option<f64>>(at).map(|it| format!("{it:?}"));
        let text = || row.try_get::<_, Option<String>>(at).map(|it| format!("{it:?}"));
        let whole = |_| row.try_get::<_, Option<i32>>(at).map(|it| format!("{it:?}"));
        number.or_else(|_| text()).or_else(whole).unwrap_or_default()
    };
    let row = |row: &tokio_postgres::Row| {
        (0..row.len()).map(|at| cell(row, at)).collect::<Vec<_>>().join("|")
    };
    rows.iter().map(row).collect()
}

#[test]
fn connections_are_ended_by_their_number() {
    let world = World::new();
    let server = Server::start_with(&world, &[SECRET]);
    block_on(async {
        let (client, other) = (connect(&server).await, connect(&server).await);
        let number = rows(&other, "SELECT pg_backend_pid()").await.remove(0);
        let shown = "SELECT count(*) FROM pg_stat_activity WHERE pid = pg_backend_pid()";
        assert_eq!(rows(&other, shown).await, ["1"]);
        assert_eq!(rows(&client, "SELECT pg_terminate_backend(0)").await, ["f"]);
        let end = format!("SELECT pg_terminate_backend({number})");
        assert_eq!(rows(&client, &end).await, ["t"]);
        let gone = other.simple_query("SELECT 1").await.expect_err("it is gone");
        assert!(gone.is_closed() || gone.code().is_some_and(|it| it.code() == "57P01"), "{gone}");
        assert_eq!(code(&client, "SELECT nope").await.0, "42703");
    });
    server.stop();
}

#[test]
fn rails_sets_up_its_connection() {
    check(&[
        ("SET client_min_messages TO 'warning'", &[]),
        ("SET standard_conforming_strings = on", &[]),
        ("SET intervalstyle = iso_8601", &[]),
        ("SET SESSION timezone TO 'UTC'", &[]),
        ("SELECT INTERVAL '1 day 2 hours', ARRAY[INTERVAL '1 month']", &["P1DT2H|{P1M}"]),
        ("SHOW intervalstyle", &["iso_8601"]),
    ]);
}
