//! Counts of rows in InfluxDB, which counts values of fields and not rows.
//!
//! - influx-1. A row of the suite lacks one field at most, so one of two fields is in every row:
//!   the number of rows is the count of the first field, plus that of the second, minus that of
//!   rows with both. If no field is ever left out, one is enough.

use serde_json::Value;

use super::bad_answer;
use super::http::{Http, percent_encoded};
use crate::error::Result;
use crate::tsbs::options::UseCase;
use crate::tsbs::schema::Schema;

/// Query language of the counts.
pub(super) enum Dialect {
    /// InfluxQL of version 1, with the database.
    InfluxQl { db: String },
    /// Flux of version 2, with the organisation and the bucket.
    Flux { org: String, bucket: String },
}

impl Dialect {
    /// Counts the rows of a measurement; 0 if there is none of that name.
    pub(super) fn count(&self, http: &Http, table: &str) -> Result<u64> {
        match self {
            Dialect::InfluxQl { db } => count_by_influxql(http, db, table),
            Dialect::Flux { org, bucket } => count_by_flux(http, org, bucket, table),
        }
    }
}

/// Returns the field that every row has, or the two of which every row has one (influx-1). It is
/// empty for a measurement that is not of the suite.
fn telling_fields(table: &str) -> Vec<String> {
    let schemas = [UseCase::Devops, UseCase::Iot, UseCase::DevopsGeneric].map(|use_case| {
        let left_out = if use_case == UseCase::Iot { 2 } else { 1 };
        (Schema::new(use_case, 1), left_out)
    });
    for (schema, count) in &schemas {
        if let Some(found) = schema.measurements.iter().find(|found| found.name == table) {
            return found.fields.iter().take(*count).map(|field| field.to_string()).collect();
        }
    }
    Vec::new()
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('\\', "\\\\").replace('"', "\\\""))
}

/// Returns the statements of a count: the first two counts are added, the third is subtracted.
fn influxql(table: &str) -> Vec<String> {
    let name = quoted(table);
    let count = |field: &String| format!("SELECT count({}) FROM {name}", quoted(field));
    match telling_fields(table).as_slice() {
        [] => vec![format!("SELECT count(*) FROM {name}")],
        [one] => vec![count(one)],
        [one, other, ..] => vec![
            count(one),
            count(other),
            format!(
                "SELECT count(both) FROM (SELECT {} + {} AS both FROM {name})",
                quoted(one),
                quoted(other)
            ),
        ],
    }
}

fn count_by_influxql(http: &Http, db: &str, table: &str) -> Result<u64> {
    let query = percent_encoded(&influxql(table).join("; "));
    let path = format!("/query?db={}&q={query}", percent_encoded(db));
    let (status, body) = http.get_any(&path)?;
    let text = http.expect_good(&path, status, body)?;
    read_influxql(&text).ok_or_else(|| bad_answer("count", text))
}

/// Returns the count in an answer.
fn read_influxql(text: &str) -> Option<u64> {
    let answer: Value = serde_json::from_str(text).ok()?;
    let mut counts = Vec::new();
    for result in answer["results"].as_array()? {
        if result["error"].as_str().is_some_and(|error| !error.contains("not found")) {
            return None;
        }
        // The time comes first, and then a count for each requested field. Without rows there is no
        // series.
        let cells = result["series"][0]["values"][0].as_array();
        let counted = cells.map(|cells| cells.iter().skip(1).filter_map(Value::as_u64).max());
        counts.push(counted.unwrap_or(Some(0))?);
    }
    match counts.as_slice() {
        [one] => Some(*one),
        [one, other, both] => (one + other).checked_sub(*both),
        _ => None,
    }
}

fn flux(bucket: &str, table: &str) -> String {
    let fields = telling_fields(table);
    let is_field: Vec<_> =
        fields.iter().map(|field| format!("r._field == {}", quoted(field))).collect();
    let fields_wanted = match is_field.is_empty() {
        true => String::new(),
        false => format!(" and ({})", is_field.join(" or ")),
    };
    let rows = format!(
        "from(bucket: {}) |> range(start: 1678-01-01T00:00:00Z, stop: 2262-01-01T00:00:00Z) \
         |> filter(fn: (r) => r._measurement == {}{fields_wanted})",
        quoted(bucket),
        quoted(table),
    );
    match fields.len() {
        1 => format!("{rows} |> group() |> count()"),
        // The pivot puts all fields of a row into one record.
        _ => format!(
            "{rows} |> pivot(rowKey: [\"_time\"], columnKey: [\"_field\"], \
             valueColumn: \"_value\") |> group() |> count(column: \"_time\")"
        ),
    }
}

fn count_by_flux(http: &Http, org: &str, bucket: &str, table: &str) -> Result<u64> {
    let path = format!("/api/v2/query?org={}", percent_encoded(org));
    let mut http = http.clone();
    http.add_header("Content-Type", "application/vnd.flux".to_owned());
    http.add_header("Accept", "application/csv".to_owned());
    let text = http.post(&path, flux(bucket, table).as_bytes())?;
    read_flux(&text).ok_or_else(|| bad_answer("count", text))
}

/// Returns the count in an answer in CSV, whose column has the name of the counted field; 0 without
/// a table.
fn read_flux(text: &str) -> Option<u64> {
    let mut lines = text.lines().map(str::trim_end);
    let mut lines = lines.by_ref().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let Some(names) = lines.next() else { return Some(0) };
    let column = names.split(',').position(|name| name == "_value" || name == "_time")?;
    let Some(row) = lines.next() else { return Some(0) };
    row.split(',').nth(column)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_counted_by_a_field_that_it_has() {
        assert_eq!(influxql("cpu"), ["SELECT count(\"usage_user\") FROM \"cpu\""]);
        assert_eq!(
            influxql("generic_metrics")[0],
            "SELECT count(\"metric_0\") FROM \"generic_metrics\""
        );
        assert_eq!(influxql("weather"), ["SELECT count(*) FROM \"weather\""]);
        let readings = influxql("readings");
        assert_eq!(readings[1], "SELECT count(\"longitude\") FROM \"readings\"", "influx-1");
        assert!(readings[2].contains("(SELECT \"latitude\" + \"longitude\" AS both FROM"));
        assert!(flux("b", "cpu").ends_with(
            "r._measurement == \"cpu\" and (r._field == \"usage_user\")) |> group() |> count()"
        ));
        assert!(
            flux("b", "diagnostics").contains(
                "(r._field == \"fuel_state\" or r._field == \"current_load\")) |> pivot("
            )
        );
    }

    #[test]
    fn answers_of_influxql_are_read() {
        let series = |count: u64| {
            format!(r#"{{"series":[{{"columns":["time","count"],"values":[[0,{count}]]}}]}}"#)
        };
        let answer = |results: &[String]| format!(r#"{{"results":[{}]}}"#, results.join(","));
        let none = r#"{"statement_id":0}"#.to_owned();
        let missing = r#"{"error":"database not found: benchmark"}"#.to_owned();
        for (text, expected) in [
            (answer(&[series(3_600)]), Some(3_600)),
            (answer(&[none]), Some(0)),
            (answer(&[missing]), Some(0)),
            (answer(&[r#"{"error":"out of memory"}"#.to_owned()]), None),
            (answer(&[series(95), series(90), series(85)]), Some(100)),
            (r#"{"results":[{"series":[{"values":[[0,5,7,6]]}]}]}"#.to_owned(), Some(7)),
            (answer(&[]), None),
            ("nonsense".to_owned(), None),
        ] {
            assert_eq!(read_influxql(&text), expected, "{text}");
        }
    }

    #[test]
    fn answers_of_flux_are_read() {
        for (text, expected) in [
            (",result,table,_value\r\n,_result,0,3600\r\n\r\n", Some(3_600)),
            ("#datatype,string,long,long\n,result,table,_time\n,,0,17\n", Some(17)),
            ("\r\n", Some(0)),
            (",result,table,_value\r\n\r\n", Some(0)),
            (",error,reference\r\n,bad,1\r\n", None),
        ] {
            assert_eq!(read_flux(text), expected, "{text}");
        }
    }
}
