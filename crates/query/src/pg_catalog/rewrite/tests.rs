//! Tests of the rewriting: each form of a catalog query with its rewritten SQL.

use super::*;

#[track_caller]
fn check(sql: &str, expected: &str) {
    let parser = Parser::new(&GenericDialect {}).try_with_sql(sql);
    let mut query = parser.and_then(|mut parser| parser.parse_query()).unwrap();
    rewrite(&mut query);
    assert_eq!(query.to_string(), expected, "{sql}");
}

#[test]
fn forms_of_the_catalog_become_known_ones() {
    check(
        "SELECT pg_catalog.f(a) FROM t WHERE b OPERATOR(pg_catalog.~) '^x$' COLLATE \
         pg_catalog.default",
        "SELECT f(a) FROM t WHERE b ~ '^x$'",
    );
    check("SELECT 1 WHERE a = ANY(ARRAY['r', 'p'])", "SELECT 1 WHERE a IN ('r', 'p')");
    check("SELECT 1 WHERE a <> ALL('{x,y}')", "SELECT 1 WHERE a NOT IN ('x', 'y')");
    check(
        "SELECT 't'::regclass, c.oid::pg_catalog.regclass::pg_catalog.text FROM c",
        "SELECT tidegate_regclass_name(tidegate_regclass('t')) AS regclass, \
         tidegate_regclass_name(c.oid)::VARCHAR FROM c",
    );
    check("SELECT 1 WHERE a = 't'::regclass", "SELECT 1 WHERE a = tidegate_regclass('t')");
    check("SELECT '23'::pg_catalog.oid", "SELECT '23'::oid");
    check(
        "SELECT 1 FROM pg_type t WHERE t.oid = to_regtype('varchar')",
        "SELECT 1 FROM pg_type t WHERE t.oid = tidegate_to_regtype('varchar')",
    );
    check("SELECT current_schema", "SELECT current_schema()");
    check(
        "SELECT c.tableoid, n.tableoid AS x FROM pg_class c JOIN pg_namespace n ON true",
        "SELECT 1259 AS tableoid, 2615 AS x FROM pg_class c JOIN pg_namespace n ON true",
    );
    check("SELECT tableoid FROM t", "SELECT tableoid FROM t");
}

/// TypeORM sends the first of these on each connection; it was an unknown function
/// (scalar_tables-1).
#[test]
fn a_scalar_function_in_from_is_a_table_of_one_row() {
    let from = |from: &str, expected: &str| {
        check(&format!("SELECT * FROM {from}"), &format!("SELECT * FROM {expected}"));
    };
    from("current_schema()", "(SELECT current_schema() AS current_schema) AS current_schema");
    from("pg_catalog.version() AS v", "(SELECT version() AS v) AS v");
    from("t, lower('A') AS x (y)", "t, (SELECT lower('A') AS x) AS x (y)");
    for other in ["nope()", "tables()", "generate_series(1, 2)", "range(1, 2)", "t, lower(t.a)"] {
        from(other, other);
    }
}

/// The rewritten form of `a = ANY(list)`: NULL if there is no match, but a NULL in the list.
fn any_of(list: &str) -> String {
    format!(
        "(CASE WHEN array_has({list}, a) THEN true WHEN array_position({list}, NULL) IS NOT NULL \
         THEN NULL ELSE array_has({list}, a) END)"
    )
}

// `'{}'` was a list of one empty text: rows with such a text were found, and no number could be
// compared with it. Quoted elements were split at their commas, and NULL was a text.
#[test]
fn a_text_of_a_list_has_the_elements_of_postgresql() {
    let any = |text: &str, expected: &str| {
        check(&format!("SELECT 1 WHERE a = ANY({text})"), &format!("SELECT 1 WHERE {expected}"))
    };
    any("'{}'", "false");
    any("'{ }'::INT[]", "false");
    any("ARRAY[]", "false");
    check("SELECT 1 WHERE a <> ALL('{}')", "SELECT 1 WHERE true");
    any(r#"'{"a,b",c}'"#, "a IN ('a,b', 'c')");
    any(r#"'{ a b , "", "NULL" , null}'"#, "a IN ('a b', '', 'NULL', NULL)");
    any(r#"'{"say \"x\"","\\",a\,b}'"#, r#"a IN ('say "x"', '\', 'a,b')"#);
    // A text that is not a list stays, and planning refuses it.
    for bad in [r#"'{"a}'"#, "'{a,}'", "'{,a}'", "'{{1},{2}}'", r#"'{"a"b}'"#, "'a'"] {
        any(bad, &any_of(bad));
    }
}

#[test]
fn lists_are_rewritten_to_plain_sql() {
    check("SELECT 1 WHERE a = ANY($1)", "SELECT 1 WHERE a = $1[]");
    check("SELECT 1 WHERE a = ANY($1::INT[])", "SELECT 1 WHERE a = $1[]::INT");
    check("SELECT 1 WHERE a = ANY('{}')", "SELECT 1 WHERE false");
    check("SELECT 1 WHERE a <> ALL(ARRAY[])", "SELECT 1 WHERE true");
    check("SELECT 1 WHERE a < ANY(ARRAY[1, 2])", "SELECT 1 WHERE (a < 1 OR a < 2)");
    check("SELECT 1 WHERE a = ANY(b)", &format!("SELECT 1 WHERE {}", any_of("b")));
    check("SELECT '{1,NULL}'::INT[]", "SELECT ARRAY['1'::INT, NULL::INT]");
    check("SELECT CAST(ARRAY[a] AS UUID[])", "SELECT ARRAY[CAST(a AS UUID)]");
    check("SELECT ARRAY[]::INT[]", "SELECT ARRAY[]::INT[]");
    check("SELECT generate_subscripts(a, 1)", "SELECT unnest(generate_series(1, array_length(a)))");
    check(
        "SELECT 1 WHERE a LIKE 'p/_q' || '//%' ESCAPE '/'",
        "SELECT 1 WHERE a LIKE 'p\\_q' || '/%'",
    );
}

#[test]
fn a_list_of_rows_is_an_aggregate_of_them() {
    let rows = |query: &str| {
        format!(
            "coalesce((SELECT array_agg(\"column 1\") FROM ({query}) AS \"rows\" \
             (\"column 1\")), make_array())"
        )
    };
    for from in ["t", "pg_class"] {
        let query = format!("SELECT a FROM {from} ORDER BY b");
        let list = format!("SELECT ARRAY({query})");
        check(&list, &format!("SELECT {}", rows(&query)));
        let any = format!("SELECT 1 WHERE a = ANY(ARRAY({query}))");
        check(&any, &format!("SELECT 1 WHERE a IN ({query})"));
        let all = format!("SELECT 1 WHERE a <> ALL(ARRAY({query}))");
        check(&all, &format!("SELECT 1 WHERE a NOT IN ({query})"));
    }
    check("SELECT a < ANY(ARRAY(SELECT b FROM t))", "SELECT a < ANY(SELECT b FROM t)");
    // A subquery as a value gave the greatest of its rows.
    check("SELECT a = ANY(SELECT b FROM pg_class)", "SELECT a IN (SELECT b FROM pg_class)");
    check("SELECT a = ANY(SELECT b FROM unnest(c.d) x) FROM pg_index c", {
        "SELECT false FROM pg_index c"
    });
    check("SELECT a <> ALL(SELECT b FROM pg_index)", "SELECT true");
}

#[test]
fn a_subquery_on_the_catalog_has_one_row() {
    check(
        "SELECT (SELECT d.a FROM pg_catalog.pg_type d WHERE d.b = x LIMIT 1) FROM t",
        "SELECT (SELECT max(d.a) FROM pg_catalog.pg_type d WHERE d.b = x) FROM t",
    );
    check(
        "SELECT (SELECT f(d.a) FROM pg_index d WHERE d.b = x), array(SELECT 1 FROM pg_index)",
        "SELECT NULL, string_to_array('', ',')",
    );
    check("SELECT (SELECT a FROM u) FROM t", "SELECT (SELECT a FROM u) FROM t");
}
