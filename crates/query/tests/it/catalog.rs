//! The relations of `pg_catalog` and `information_schema`, SHOW, and the functions that list the
//! objects of the database: all agree about the same tables.

use crate::fixture::{Cells, Random, TestDatabase, TestError, check_all, on_runtime};

const SETUP: &[&str] = &[
    "CREATE TABLE trades (ts TIMESTAMP, sym SYMBOL, price DOUBLE, n INT DEFAULT 7) \
     TIMESTAMP(ts) PARTITION BY DAY TTL 30 DAYS DEDUP UPSERT KEYS(ts, sym)",
    "CREATE TABLE \"Plain\" (a INT, \"b c\" VARCHAR(5), d DECIMAL(10,2))",
    "CREATE VIEW large AS SELECT ts, price FROM trades WHERE price > 10",
    "INSERT INTO trades VALUES ('2025-03-01', 'a', 1, 1), ('2025-03-02', 'b', 2, 2)",
    "COMMENT ON TABLE trades IS 'of the market'",
    "COMMENT ON COLUMN trades.price IS 'in euros'",
];

#[test]
fn relations_of_postgresql_list_tables_and_columns() {
    check_all(
        SETUP,
        &[
            (
                "SELECT c.relname, c.relkind, n.nspname FROM pg_class c JOIN pg_namespace n ON \
                 n.oid = c.relnamespace WHERE n.nspname = 'public' AND c.relkind IN ('r', 'v') \
                 ORDER BY 1",
                "Plain r public\nlarge v public\ntrades r public",
            ),
            (
                "SELECT a.attnum, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull \
                 FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid \
                 WHERE c.relname = 'Plain' AND a.attnum > 0 ORDER BY 1",
                "1 a integer false\n2 b c character varying(5) false\n3 d numeric(10,2) false",
            ),
            (
                "SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY 1",
                "Plain\ntrades",
            ),
            ("SELECT viewname FROM pg_views WHERE schemaname = 'public'", "large"),
            (
                "SELECT 'trades'::regclass::oid = (SELECT oid FROM pg_class WHERE relname = \
                    'trades')",
                "true",
            ),
            ("SELECT 'nope'::regclass", "UndefinedTable: table `nope` does not exist"),
            ("SELECT obj_description('trades'::regclass)", "of the market"),
            ("SELECT col_description('trades'::regclass, 3)", "in euros"),
            ("SELECT current_schema(), current_database()", "public tidegate"),
            ("SELECT typname FROM pg_type WHERE oid = 23", "int4"),
            ("SELECT count(*) > 10 FROM pg_type", "true"),
            (
                "SELECT nspname FROM pg_namespace ORDER BY 1",
                "information_schema\npg_catalog\npublic\nsys",
            ),
            ("SELECT setting FROM pg_settings WHERE name = 'TimeZone'", "UTC"),
            ("SELECT datname FROM pg_database", "tidegate"),
            ("SELECT count(*) FROM pg_index", "0"),
            ("SELECT count(*) FROM pg_constraint", "0"),
            ("SELECT has_table_privilege('trades', 'SELECT')", "true"),
            ("SELECT pg_table_is_visible('trades'::regclass)", "true"),
        ],
    );
}

#[test]
fn information_schema_lists_tables_and_columns() {
    check_all(
        SETUP,
        &[
            (
                "SELECT table_name, table_type FROM information_schema.tables \
                 WHERE table_schema = 'public' ORDER BY 1",
                "Plain BASE TABLE\nlarge VIEW\ntrades BASE TABLE",
            ),
            (
                "SELECT column_name, ordinal_position, data_type, is_nullable, column_default \
                 FROM information_schema.columns WHERE table_name = 'trades' ORDER BY 2",
                "ts 1 timestamp without time zone NO NULL\nsym 2 character varying YES \
                    NULL\nprice 3 double precision YES NULL\nn 4 integer YES 7",
            ),
            (
                "SELECT column_name, character_maximum_length, numeric_precision, numeric_scale \
                 FROM information_schema.columns WHERE table_name = 'Plain' ORDER BY \
                 ordinal_position",
                "a NULL 32 0\nb c 5 NULL NULL\nd NULL 10 2",
            ),
            (
                "SELECT schema_name FROM information_schema.schemata ORDER BY 1",
                "information_schema\npg_catalog\npublic\nsys",
            ),
            (
                "SELECT table_name FROM information_schema.views WHERE table_schema = 'public'",
                "large",
            ),
        ],
    );
}

#[test]
fn shows_answer_about_objects_and_settings() {
    check_all(
        SETUP,
        &[
            ("SHOW TABLES", "large\nPlain\ntrades"),
            (
                "SHOW COLUMNS FROM trades",
                "ts TIMESTAMP false 0 false NULL 0 true true NULL NULL\nsym SYMBOL false 0 true \
                    NULL 2 false true NULL NULL\nprice DOUBLE false 0 false NULL 0 false false \
                    NULL NULL\nn INT false 0 false NULL 0 false false NULL NULL",
            ),
            (
                "SHOW CREATE TABLE trades",
                "CREATE TABLE trades (\n    ts TIMESTAMP,\n    sym SYMBOL,\n    price DOUBLE,\n    \
                     n INT DEFAULT 7\n) TIMESTAMP(ts) PARTITION BY DAY TTL 30 DAYS DEDUP UPSERT \
                     KEYS(ts, sym);",
            ),
            (
                "SHOW CREATE VIEW large",
                "CREATE VIEW large (ts, price) AS\nSELECT ts, price FROM trades WHERE price > 10;",
            ),
            (
                "SHOW PARTITIONS FROM trades",
                "0 DAY 2025-03-01 2025-03-01T00:00:00 2025-03-01T00:00:00 1 0 0 B false false \
                    true false false false false NULL 0 24\n1 DAY 2025-03-02 2025-03-02T00:00:00 \
                    2025-03-02T00:00:00 1 0 0 B false true true false false false false NULL 0 24",
            ),
            (
                "SHOW COLUMNS FROM nope",
                "UndefinedTable at 1:19: line 1, column 19: table `nope` does not exist",
            ),
            ("SHOW PARTITIONS FROM \"Plain\"", ""),
            ("SHOW server_version", "16.0"),
            ("SHOW search_path", "\"$user\", public"),
            ("SHOW TimeZone", "UTC"),
            ("SHOW transaction_isolation", "read committed"),
            ("SHOW PARAMETERS", ""),
            ("SELECT current_setting('DateStyle')", "ISO, MDY"),
            ("SELECT set_config('application_name', 'test', false)", "test"),
            ("SHOW application_name", "test"),
            ("SET application_name TO DEFAULT", "SET"),
            ("SHOW application_name", ""),
        ],
    );
}

#[test]
fn table_functions_describe_the_storage() {
    check_all(
        SETUP,
        &[
            (
                "SELECT table_name, partition_by, row_count FROM tables() ORDER BY 1",
                "UndefinedColumn at 1:20: line 1, column 20: column `partition_by` does not \
                    exist, is `partitionby` meant?",
            ),
            (
                "SELECT \"column\", type FROM table_columns('trades')",
                "ts TIMESTAMP\nsym SYMBOL\nprice DOUBLE\nn INT",
            ),
            (
                "SELECT name, num_rows FROM table_partitions('trades')",
                "UndefinedColumn at 1:14: line 1, column 14: column `num_rows` does not exist, is \
                    `numrows` meant?",
            ),
            ("SELECT x FROM long_sequence(3)", "1\n2\n3"),
            ("SELECT * FROM generate_series(1, 7, 3)", "1\n4\n7"),
            (
                "SELECT state, query FROM query_activity()",
                "planning SELECT state, query FROM query_activity()",
            ),
            ("SELECT count(*) FROM memory_metrics()", "5"),
            (
                "SELECT count(*) FROM nope()",
                "UndefinedFunction at 1:22: line 1, column 22: Invalid function 'nope'",
            ),
        ],
    );
}

/// Creates, renames and drops random tables, and compares all lists of tables.
#[test]
fn all_lists_have_the_same_tables() {
    const LISTS: [&str; 4] = [
        "SELECT table_name FROM tables() ORDER BY 1",
        "SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY 1",
        "SELECT relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
         WHERE n.nspname = 'public' AND relkind = 'r' ORDER BY 1",
        "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public' \
         AND table_type = 'BASE TABLE' ORDER BY 1",
    ];
    on_runtime(async {
        let mut test = TestDatabase::new()?;
        let (mut random, mut tables) = (Random(4), Vec::<(String, u64)>::new());
        for step in 0..25 {
            match random.below(5) {
                0 if !tables.is_empty() => {
                    let at = random.one_of(&tables).0;
                    let (name, _) = tables.remove(at);
                    test.run(&format!("DROP TABLE {name}")).await?;
                }
                1 if !tables.is_empty() => {
                    let at = random.one_of(&tables).0;
                    let new = format!("r{step}");
                    test.run(&format!("RENAME TABLE {} TO {new}", tables[at].0)).await?;
                    tables[at].0 = new;
                }
                2 if !tables.is_empty() => {
                    let at = random.one_of(&tables).0;
                    let sql = format!("ALTER TABLE {} ADD COLUMN x{step} INT", tables[at].0);
                    test.run(&sql).await?;
                    tables[at].1 += 1;
                }
                3 => test.reopen()?,
                _ => {
                    let name = format!("t{step}");
                    test.run(&format!("CREATE TABLE {name} (a INT, b VARCHAR)")).await?;
                    tables.push((name, 2));
                }
            }
            tables.sort();
            let expected: Vec<Cells> = tables.iter().map(|it| vec![it.0.clone()]).collect();
            for list in LISTS {
                assert_eq!(test.rows(list).await?, expected, "seed 4, step {step}: {list}");
            }
            let counts = "SELECT table_name, count(*) FROM information_schema.columns WHERE \
                 table_schema = 'public' GROUP BY 1 ORDER BY 1";
            let expected: Vec<Cells> =
                tables.iter().map(|it| vec![it.0.clone(), it.1.to_string()]).collect();
            assert_eq!(test.rows(counts).await?, expected, "seed 4, step {step}");
        }
        Ok::<(), TestError>(())
    });
}
