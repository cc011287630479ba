//! Round trips: stored values come back unchanged, in every type, every format, and by every import
//! path.

use std::process::Command;

use crate::world::World;

const SCHEMA: &str = "CREATE TABLE t (ts TIMESTAMP, ns TIMESTAMP_NS, ok BOOLEAN, a TINYINT, \
     b SMALLINT, c INT, d BIGINT, e UTINYINT, f USMALLINT, g UINT, h UBIGINT, x FLOAT, y DOUBLE, \
     m DECIMAL(20,4), day DATE, s SYMBOL, v VARCHAR, raw BINARY, id UUID, ip IPV4) \
     TIMESTAMP(ts) PARTITION BY DAY";

/// Rows in time order, so that they come out in the order of the input. All values of the third row
/// except its timestamp are NULL.
const ROWS: &str = concat!(
    "ts,ns,ok,a,b,c,d,e,f,g,h,x,y,m,day,s,v,raw,id,ip\n",
    "1969-12-31T23:59:59.999999Z,1969-12-31T23:59:59.999999999Z,true,-128,-32768,-2147483648,",
    "-9223372036854775808,0,0,0,0,1.5,0.1,-0.0001,1969-12-31,sym,",
    "\"a \"\"quoted\"\" text, with\na line end\",",
    "\\x00ff,00010203-0405-0607-0809-0a0b0c0d0e0f,0.0.0.0\n",
    "2025-03-01T09:00:00.000000Z,2025-03-01T09:00:00.000000001Z,false,127,32767,2147483647,",
    "9223372036854775807,255,65535,4294967295,18446744073709551615,NaN,-Infinity,",
    "9999999999999999.9999,2025-03-01,\"\",x,\\x,ffffffff-ffff-ffff-ffff-ffffffffffff,",
    "255.255.255.255\n",
    "2025-03-01T09:00:00.000001Z,,,,,,,,,,,,,,,,,,,\n",
    "2025-03-02T00:00:00.000000Z,1970-01-01T00:00:00.000000000Z,true,1,1,1,1,1,1,1,1,1e-7,1e300,",
    "1.0000,2000-02-29,sym2,\"\",\\x01,00000000-0000-0000-0000-000000000000,127.0.0.1\n",
);

fn with_rows() -> World {
    let world = World::new();
    world.run(&["sql", SCHEMA]).succeeds();
    world.file("rows.csv", ROWS);
    world.run(&["import", "rows.csv", "--table", "t", "--progress", "none"]).succeeds();
    world
}

#[test]
fn csv_of_every_type_comes_out_as_it_went_in() {
    let world = with_rows();
    let out = world.run(&["sql", "SELECT * FROM t", "--format", "csv"]).succeeds();
    assert_eq!(out, ROWS);
}

#[test]
fn an_export_imported_again_gives_equal_rows() {
    let world = with_rows();
    let export = ["sql", "SELECT * FROM t", "--output"];
    for format in ["csv", "parquet"] {
        let file = format!("out.{format}");
        world.run(&[&export[..], &[&file, "--format", format]].concat()).succeeds();
        let copy = format!("copy_{format}");
        world.run(&["sql", &SCHEMA.replacen("TABLE t ", &format!("TABLE {copy} "), 1)]).succeeds();
        world.run(&["import", &file, "--table", &copy, "--progress", "none"]).succeeds();
        let sql = format!("SELECT * FROM {copy}");
        let out = world.run(&["sql", &sql, "--format", "csv"]).succeeds();
        assert_eq!(out, ROWS, "{format}");
    }
}

#[test]
fn compressed_files_patterns_and_pipes_are_ways_in() {
    let world = World::new();
    let csv = |first: u32| -> String {
        let rows = (first..first + 100).map(|n| format!("2025-01-01T00:00:{:02}Z,{n}\n", n % 60));
        std::iter::once("ts,n\n".to_owned()).chain(rows).collect()
    };
    world.file("part-1.csv", csv(0));
    world.file("part-2.csv", csv(100));
    let third = world.file("part-3.csv", csv(200));
    assert!(Command::new("gzip").arg(third).status().expect("gzip").success());
    // The pattern is quoted, so that the shell does not expand it.
    let import = ["import", "part-*", "--table", "t", "--timestamp", "ts", "--progress", "none"];
    let summary = world.run(&import).succeeds();
    assert!(summary.starts_with("300 rows imported into t, which is new\n"), "{summary}");
    let import = ["import", "-", "--table", "t", "--progress", "none"];
    world.run_with(&import, csv(300).as_bytes()).succeeds();
    assert_eq!(world.ask("SELECT count(*), min(n), max(n), sum(n) FROM t"), "400,0,399,79800");
}

#[test]
fn a_file_without_end_of_line_header_or_order_is_fine() {
    let world = World::new();
    world.run(&["sql", "CREATE TABLE t (ts TIMESTAMP, n INT) TIMESTAMP(ts)"]).succeeds();
    world.file("x.csv", "2025-01-02,2\n2025-01-01,1\r\n2025-01-03,3");
    let import = ["import", "x.csv", "--table", "t", "--no-header", "--progress", "none"];
    world.run(&import).succeeds();
    assert_eq!(world.ask("SELECT n FROM t"), "1\n2\n3");
}
