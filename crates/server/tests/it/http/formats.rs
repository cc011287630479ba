//! Values in the formats of HTTP: the JSON of `/exec`, the CSV and NDJSON of `/exp`; the limits of
//! both; and the answers of `/imp` in JSON.

use super::client::encode;
use crate::fixture::{Server, World};

/// A value, and its text in each format.
struct Written {
    sql: &'static str,
    /// The type that `/exec` gives to the column.
    ty: &'static str,
    json: &'static str,
    csv: &'static str,
    ndjson: &'static str,
}

/// Values that are the same in JSON and NDJSON.
const fn plain(
    sql: &'static str,
    ty: &'static str,
    json: &'static str,
    csv: &'static str,
) -> Written {
    Written { sql, ty, json, csv, ndjson: json }
}

const VALUES: &[Written] = &[
    plain("true", "BOOLEAN", "true", "true"),
    plain("null::boolean", "BOOLEAN", "null", ""),
    plain("1::byte", "BYTE", "1", "1"),
    plain("(-32768)::short", "SHORT", "-32768", "-32768"),
    plain("2147483647::int", "INT", "2147483647", "2147483647"),
    plain("null::int", "INT", "null", ""),
    plain("9223372036854775807", "LONG", "9223372036854775807", "9223372036854775807"),
    plain("null::long", "LONG", "null", ""),
    plain("1.5::float", "FLOAT", "1.5", "1.5"),
    plain("'NaN'::float", "FLOAT", "null", "NaN"),
    plain("0.1::double", "DOUBLE", "0.1", "0.1"),
    plain("-0.0::double", "DOUBLE", "-0.0", "-0.0"),
    plain("1e300::double", "DOUBLE", "1e300", "1e300"),
    plain("'NaN'::double", "DOUBLE", "null", "NaN"),
    plain("'Infinity'::double", "DOUBLE", "null", "Infinity"),
    plain("'-Infinity'::double", "DOUBLE", "null", "-Infinity"),
    plain("null::double", "DOUBLE", "null", ""),
    plain("1.10::decimal(10,2)", "DECIMAL(10,2)", r#""1.10""#, "1.10"),
    plain("null::decimal(10,2)", "DECIMAL(10,2)", "null", ""),
    plain("'a\"b'", "VARCHAR", r#""a\"b""#, r#""a""b""#),
    plain("'a,b'", "VARCHAR", r#""a,b""#, r#""a,b""#),
    plain("'x\ny'", "VARCHAR", r#""x\ny""#, "\"x\ny\""),
    plain("''", "VARCHAR", r#""""#, r#""""#),
    plain("null::varchar", "VARCHAR", "null", ""),
    plain("'x'::symbol", "SYMBOL", r#""x""#, r#""x""#),
    Written {
        sql: "'2025-03-01'::date",
        ty: "DATE",
        json: r#""2025-03-01T00:00:00.000Z""#,
        csv: r#""2025-03-01T00:00:00.000Z""#,
        ndjson: r#""2025-03-01""#,
    },
    plain(
        "'2025-03-01T01:02:03.000004'::timestamp",
        "TIMESTAMP",
        r#""2025-03-01T01:02:03.000004Z""#,
        r#""2025-03-01T01:02:03.000004Z""#,
    ),
    plain("null::timestamp", "TIMESTAMP", "null", ""),
    plain(
        "'2025-03-01T01:02:03.000004005'::timestamp_ns",
        "TIMESTAMP_NS",
        r#""2025-03-01T01:02:03.000004005Z""#,
        r#""2025-03-01T01:02:03.000004005Z""#,
    ),
    plain(
        "'11111111-1111-1111-1111-111111111111'::uuid",
        "UUID",
        r#""11111111-1111-1111-1111-111111111111""#,
        r#""11111111-1111-1111-1111-111111111111""#,
    ),
    plain("null::uuid", "UUID", "null", ""),
    plain("'1.2.3.4'::ipv4", "IPv4", r#""1.2.3.4""#, r#""1.2.3.4""#),
    plain("null::ipv4", "IPv4", "null", ""),
    plain("[1.5, 2.5]", "VARCHAR", "[1.5,2.5]", r#""[1.5,2.5]""#),
    plain("[1, null]", "VARCHAR", "[1,null]", r#""[1,null]""#),
    plain("interval '1' day", "VARCHAR", r#""1 day""#, r#""1 day""#),
    Written {
        sql: r"'\x0102'::bytea",
        ty: "BINARY",
        json: r#""AQI=""#,
        csv: r#""\x0102""#,
        ndjson: r#""\\x0102""#,
    },
];

#[test]
fn a_value_of_each_type_is_written_in_each_format() {
    let world = World::new();
    let server = Server::start(&world);
    for Written { sql, ty, json, csv, ndjson } in VALUES {
        let query = encode(&format!("select {sql} as v"));
        let found = server.get(&format!("/exec?query={query}")).body;
        let columns = format!(r#""columns":[{{"name":"v","type":"{ty}"}}]"#);
        assert!(found.contains(&columns), "{sql}: {found}");
        assert!(found.ends_with(&format!(r#""dataset":[[{json}]],"count":1}}"#)), "{sql}: {found}");
        let found = server.get(&format!("/exp?query={query}")).body;
        assert_eq!(found, format!("\"v\"\r\n{csv}\r\n"), "{sql}");
        let found = server.get(&format!("/exp?fmt=ndjson&query={query}")).body;
        assert_eq!(found, format!("{{\"v\":{ndjson}}}\n"), "{sql}");
    }
    server.stop();
}

#[test]
fn values_that_json_does_not_have_are_strings_on_request() {
    let world = World::new();
    let server = Server::start(&world);
    for (sql, expected) in [
        ("'NaN'::double", r#""NaN""#),
        ("'NaN'::float", r#""NaN""#),
        ("'Infinity'::double", r#""Infinity""#),
        ("'-Infinity'::double", r#""-Infinity""#),
        ("null::double", "null"),
        ("1.5::double", "1.5"),
        // Numbers of 64 bits are strings, and smaller ones are numbers.
        ("9223372036854775807", r#""9223372036854775807""#),
        ("null::long", "null"),
        ("2147483647::int", "2147483647"),
        ("(-32768)::short", "-32768"),
    ] {
        let query = encode(&format!("select {sql} as v"));
        let target = format!("/exec?nm=true&nonfinite=string&quoteLargeNum=true&query={query}");
        let expected = format!(r#"{{"dataset":[[{expected}]],"count":1}}"#);
        assert_eq!(server.get(&target).body, expected, "{sql}");
    }
    server.stop();
}

// `/exec` counts rows from 1 and includes both ends; `/exp` counts from 0, excludes the end, and
// can begin at the end of the result.
#[test]
fn limits_of_answers_and_of_exports_differ() {
    let world = World::new();
    let server = Server::start(&world);
    let query = encode("select x from long_sequence(10)");
    for (limit, exec, exp) in [
        ("3", Some("1 2 3"), Some("1 2 3")),
        ("0", Some(""), Some("")),
        ("0,2", Some("1 2"), Some("1 2")),
        ("2,5", Some("2 3 4 5"), Some("3 4 5")),
        ("8,100", Some("8 9 10"), Some("9 10")),
        ("5,2", Some(""), Some("")),
        ("100", Some("1 2 3 4 5 6 7 8 9 10"), Some("1 2 3 4 5 6 7 8 9 10")),
        ("-3", None, Some("8 9 10")),
        ("-100", None, Some("1 2 3 4 5 6 7 8 9 10")),
        (",3", None, None),
        ("3,", None, None),
        ("1,2,3", None, None),
        ("2,-1", None, None),
        ("-2,-1", None, None),
        ("+3", None, None),
    ] {
        let parameters = format!("nm=true&query={query}&limit={}", encode(limit));
        let answer = server.get(&format!("/exec?{parameters}"));
        if let Some(rows) = exec {
            let rows = rows.split_whitespace().map(|row| format!("[{row}]")).collect::<Vec<_>>();
            let (count, rows) = (rows.len(), rows.join(","));
            let expected = format!("{{\"dataset\":[{rows}],\"count\":{count}}}");
            assert_eq!((answer.status, answer.body), (200, expected), "/exec {limit}");
        } else {
            let is_told = answer.body.contains(r#""code":"22023""#);
            assert!(answer.status == 400 && is_told, "/exec {limit}: {}", answer.body);
        }
        let answer = server.get(&format!("/exp?{parameters}"));
        if let Some(rows) = exp {
            let expected = rows.split_whitespace().map(|row| format!("{row}\r\n"));
            let expected = expected.collect::<Vec<_>>().concat();
            assert_eq!((answer.status, answer.body), (200, expected), "/exp {limit}");
        } else {
            let is_told = answer.body.contains(r#""code":"22023""#);
            assert!(answer.status == 400 && is_told, "/exp {limit}: {}", answer.body);
        }
    }
    server.stop();
}

#[test]
fn an_upload_answers_how_many_rows_and_errors_there_were() {
    let world = World::new();
    let server = Server::start(&world);
    assert_eq!(server.exec("create table t (a long, b varchar)").status, 200);
    for (parameters, body, status, expected) in [
        ("", "a,b\n1,x\n2,y\n", 200, r#""rowsRejected":0,"rowsImported":2,"header":true"#),
        ("", "a,b\n1,x\n", 200, r#"{"name":"a","type":"LONG","size":8,"errors":0}"#),
        // A bad value is NULL, costs its row, or ends the import.
        ("", "a,b\nz,x\n9,w\n", 200, r#""rowsRejected":0,"rowsImported":2"#),
        ("&atomicity=skipCol", "a,b\nz,x\n9,w\n", 200, r#""rowsRejected":0,"rowsImported":2"#),
        ("&atomicity=skipCol", "a,b\nz,x\n9,w\n", 200, r#""type":"LONG","size":8,"errors":1"#),
        ("&atomicity=skipRow", "a,b\nz,x\n9,w\n", 200, r#""rowsRejected":1,"rowsImported":1"#),
        ("&atomicity=abort", "a,b\nz,x\n9,w\n", 400, r#""code":"22P02","line":2,"column":"a"}"#),
        ("&atomicity=x", "a,b\n1,x\n", 400, "atomicity is skipCol, skipRow or abort, not 'x'"),
        ("&overwrite=x", "a,b\n1,x\n", 400, "overwrite is true or false, not 'x'"),
        ("&partitionBy=x", "a,b\n1,x\n", 400, "partitionBy cannot be 'x'"),
        ("&skipLines=1", "a,b\n1,x\n", 200, "there is no parameter `skipLines`, ignored"),
        ("", "", 200, r#""rowsImported":0,"header":false,"warnings":["no records"]"#),
    ] {
        let target = format!("/imp?name=t&fmt=json{parameters}");
        let answer = server.post(&target, "Content-Type: text/csv\r\n", body);
        assert_eq!(answer.status, status, "{target} {body}: {}", answer.body);
        assert!(answer.body.contains(expected), "{target} {body}: {}", answer.body);
    }
    // The rows of the eight imports that succeeded: 2 + 1 + 2 + 2 + 2 + 1 + 1 + 0.
    assert_eq!(server.rows("select count(*), count(a) from t"), "[[11,8]]");
    server.stop();
}

#[test]
fn an_upload_may_give_its_new_table_a_time() {
    let world = World::new();
    let server = Server::start(&world);
    let csv = "Content-Type: text/csv\r\n";
    let rows = "t,v\n2025-03-01T00:00:00Z,1\n";
    let answer = server.post("/imp?name=x&fmt=json&timestamp=t&partitionBy=DAY", csv, rows);
    assert_eq!(answer.status, 200, "{}", answer.body);
    let expected = r#""partitionBy":"DAY","timestamp":"t","warnings":[]"#;
    assert!(answer.body.contains(expected), "{}", answer.body);
    assert_eq!(server.rows("select t, v from x"), r#"[["2025-03-01T00:00:00.000000Z",1]]"#);
    let answer = server.post("/imp?name=y&fmt=json&timestamp=nope", csv, rows);
    assert_eq!(answer.status, 400, "{}", answer.body);
    assert!(answer.body.contains(r#""code":"42703""#), "{}", answer.body);
    assert_eq!(server.count("y"), None, "a failed upload makes no table");
    server.stop();
}
