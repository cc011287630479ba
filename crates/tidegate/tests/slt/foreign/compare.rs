//! Rows as DataFusion's tests write them, and their comparison.
//!
//! Numbers are the same if they differ in the twelfth digit at most, as in DataFusion's own tests.
//! Rows may come in any order: the sort of a query often leaves ties, and Tidegate's own tests
//! check the order.

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::DataType;
use arrow::util::display::{ArrayFormatter, DurationFormat, FormatOptions};
use sqllogictest::SortMode;

/// Relative tolerance for equal numbers.
const PRECISION: f64 = 1e-12;

/// The expected rows of a query.
pub(super) struct Rows {
    rows: Vec<String>,
    sort_mode: SortMode,
}

impl Rows {
    pub(super) fn of(rows: Vec<String>, sort_mode: SortMode) -> Rows {
        Rows { rows, sort_mode }
    }

    /// Returns the first row that differs, of each side.
    pub(super) fn difference(&self, ours: Vec<String>) -> Option<(String, String)> {
        let values = |rows: &[String]| {
            let values = rows.iter().flat_map(|row| row.split_whitespace());
            values.map(str::to_owned).collect::<Vec<_>>()
        };
        let (mut theirs, mut ours) = match self.sort_mode {
            SortMode::ValueSort => (values(&self.rows), values(&ours)),
            _ => (self.rows.clone(), ours),
        };
        if all_same(&theirs, &ours) {
            return None;
        }
        theirs.sort_by_cached_key(|row| sort_key(row));
        ours.sort_by_cached_key(|row| sort_key(row));
        if all_same(&theirs, &ours) {
            return None;
        }
        let count = theirs.len().max(ours.len());
        let row = |rows: &[String], at: usize| rows.get(at).map_or("no row", |row| row).to_owned();
        let pairs = (0..count).map(|at| (row(&theirs, at), row(&ours, at)));
        let mut differing = pairs.filter(|(theirs, ours)| !is_same(theirs, ours));
        differing.next()
    }
}

/// Returns a sort key that is the same for rows with the same numbers, however they are written.
fn sort_key(row: &str) -> String {
    let value = |value: &str| match value.parse::<f64>() {
        Ok(number) => format!("{:.9e}", number + 0.0),
        Err(_) => value.to_owned(),
    };
    row.split_whitespace().map(value).collect::<Vec<_>>().join(" ")
}

fn all_same(theirs: &[String], ours: &[String]) -> bool {
    theirs.len() == ours.len()
        && theirs.iter().zip(ours).all(|(theirs, ours)| is_same(theirs, ours))
}

fn is_same(theirs: &str, ours: &str) -> bool {
    let signs = [',', '[', ']', '{', '}', '(', ')'];
    let (theirs, ours) = (theirs.split_whitespace(), ours.split_whitespace());
    theirs.clone().count() == ours.clone().count()
        && theirs.zip(ours).all(|(theirs, ours)| {
            let numbers = |text: &str| text.split(signs).map(str::to_owned).collect::<Vec<_>>();
            let (theirs, ours) = (numbers(theirs), numbers(ours));
            theirs.len() == ours.len()
                && theirs.iter().zip(&ours).all(|(theirs, ours)| is_same_value(theirs, ours))
        })
}

fn is_same_value(theirs: &str, ours: &str) -> bool {
    if theirs == ours {
        return true;
    }
    // Every digit of an integer counts.
    if let (Ok(theirs), Ok(ours)) = (theirs.parse::<i128>(), ours.parse::<i128>()) {
        return theirs == ours;
    }
    match (theirs.parse::<f64>(), ours.parse::<f64>()) {
        (Ok(theirs), Ok(ours)) => {
            let scale = theirs.abs().max(ours.abs()).max(1.0);
            theirs == ours || (theirs - ours).abs() <= scale * PRECISION
        }
        _ => false,
    }
}

/// Returns the rows of an answer, a text each.
pub(super) fn shown_rows(batches: &[RecordBatch]) -> Vec<String> {
    let mut rows = Vec::new();
    for batch in batches {
        let columns = batch.columns().iter().map(shown).collect::<Vec<_>>();
        for row in 0..batch.num_rows() {
            let cells = columns.iter().map(|column| column[row].as_str()).collect::<Vec<_>>();
            match cells[..] {
                [.., last] if last.contains('\n') => {
                    let lines = last.split('\n').enumerate();
                    rows.push(cells[..cells.len() - 1].join(" "));
                    rows.extend(lines.map(|(at, line)| {
                        let text = line.trim_start();
                        format!("{:02}){}{text}", at + 1, "-".repeat(line.len() - text.len()))
                    }));
                }
                _ => rows.push(cells.join(" ").trim_end().to_owned()),
            }
        }
    }
    rows
}

fn shown(column: &ArrayRef) -> Vec<String> {
    let options = FormatOptions::default().with_null("NULL");
    let options = options.with_duration_format(DurationFormat::Pretty);
    let formatter = ArrayFormatter::try_new(column.as_ref(), &options);
    let formatter = formatter.expect("it has a text");
    let cell = |row: usize| match column.data_type() {
        _ if column.is_null(row) => "NULL".to_owned(),
        DataType::Utf8 => text(column.as_string::<i32>().value(row)),
        DataType::LargeUtf8 => text(column.as_string::<i64>().value(row)),
        DataType::Utf8View => text(column.as_string_view().value(row)),
        _ => formatter.value(row).to_string().replace("inf", "Infinity"),
    };
    (0..column.len()).map(cell).collect()
}

fn text(value: &str) -> String {
    match value {
        "" => "(empty)".to_owned(),
        _ => value.trim_end_matches('\n').replace('\0', "\\0"),
    }
}
