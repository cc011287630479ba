//! Writers of rows and tags to PostgreSQL: by binary COPY, or by INSERT.

use std::fmt::Write;
use std::pin::pin;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value};
use tokio_postgres::Client;
use tokio_postgres::binary_copy::BinaryCopyInWriter;
use tokio_postgres::types::{ToSql, Type};

use super::super::tagged::{TaggedRow, fields, float, json, pairs};
use super::{failed, quoted};
use crate::error::{Error, Result};
use crate::tsbs::Nanos;
use crate::tsbs::load::rows::Header;

/// Rows of one measurement, with the ids of their tags.
pub(super) type Rows<'a> = [(u32, TaggedRow<'a>)];

/// Writes sets of tags, one column for each tag.
pub(super) async fn copy_tags(
    client: &Client,
    header: &Header,
    new: &[(u32, String)],
) -> Result<()> {
    let names: Vec<_> = header.tags.iter().map(|(name, _)| quoted(name)).collect();
    let statement = format!("COPY tags (id, {}) FROM STDIN BINARY", names.join(", "));
    let mut types = vec![Type::INT4];
    let ty = |is_text: bool| if is_text { Type::TEXT } else { Type::FLOAT4 };
    types.extend(header.tags.iter().map(|(_, is_text)| ty(*is_text)));
    let sink = client.copy_in(&statement).await.map_err(failed("copy tags"))?;
    let mut writer = pin!(BinaryCopyInWriter::new(sink, &types));
    for (id, base) in new {
        let id = id.cast_signed();
        let mut texts = Vec::new();
        for ((_, value), (_, is_text)) in pairs(base).zip(&header.tags) {
            let number = if *is_text { None } else { float(value)? };
            let text = (*is_text && !value.is_empty()).then_some(value);
            texts.push((*is_text, text, number.map(to_f32)));
        }
        let mut values: Vec<&(dyn ToSql + Sync)> = vec![&id];
        values.extend(texts.iter().map(|(is_text, text, number)| {
            let value: &(dyn ToSql + Sync) = if *is_text { text } else { number };
            value
        }));
        writer.as_mut().write(&values).await.map_err(failed("copy tags"))?;
    }
    writer.finish().await.map_err(failed("copy tags"))?;
    Ok(())
}

/// Writes sets of tags, each as one JSON object.
pub(super) async fn insert_json_tags(
    client: &Client,
    header: &Header,
    new: &[(u32, String)],
) -> Result<()> {
    let mut ids = Vec::new();
    let mut objects = Vec::new();
    for (id, base) in new {
        let mut object = Map::new();
        for ((key, value), (_, is_text)) in pairs(base).zip(&header.tags) {
            let value = match (value.is_empty(), *is_text) {
                (true, _) => Value::Null,
                (false, true) => value.into(),
                (false, false) => json_number(value)?,
            };
            object.insert(key.to_owned(), value);
        }
        ids.push(id.cast_signed());
        objects.push(Value::Object(object).to_string());
    }
    let statement = "INSERT INTO tags (id, tagset) \
                     SELECT * FROM unnest($1::int4[], $2::text[]::jsonb[])";
    client.execute(statement, &[&ids, &objects]).await.map_err(failed("insert tags"))?;
    Ok(())
}

/// Returns a number as JSON; `1500` stays a whole number.
fn json_number(text: &str) -> Result<Value> {
    serde_json::from_str(text).ok().filter(Value::is_number).ok_or_else(|| Error::BadValue {
        place: "a tag",
        expected: "number",
        text: text.to_owned(),
    })
}

/// Returns the table of some rows, its columns, and the names of its fields.
fn columns<'a>(
    header: &'a Header,
    rows: &Rows<'_>,
    tag_in_table: bool,
) -> Result<(String, String, &'a [String])> {
    let name = rows.first().map_or("", |(_, row)| row.name);
    let fields = fields(header, name)?;
    let mut columns = vec!["time".to_owned(), "tags_id".to_owned(), "additional_tags".to_owned()];
    columns.extend(fields.iter().map(|field| quoted(field)));
    if let Some((tag, _)) = header.tags.first().filter(|_| tag_in_table) {
        columns.push(quoted(tag));
    }
    Ok((quoted(name), columns.join(", "), fields))
}

/// Returns the value of the first tag.
fn first_tag<'a>(row: &TaggedRow<'a>) -> Option<&'a str> {
    pairs(row.base).next().map(|(_, value)| value).filter(|value| !value.is_empty())
}

/// Writes rows with COPY, and returns the number that the server reports.
pub(super) async fn copy_rows(
    client: &Client,
    header: &Header,
    tag_in_table: bool,
    rows: &Rows<'_>,
) -> Result<u64> {
    let (table, columns, fields) = columns(header, rows, tag_in_table)?;
    let statement = format!("COPY {table} ({columns}) FROM STDIN BINARY");
    // The binary form of JSON is its text.
    let mut types = vec![Type::TIMESTAMPTZ, Type::INT4, Type::TEXT];
    types.resize(3 + fields.len(), Type::FLOAT8);
    types.extend(tag_in_table.then_some(Type::TEXT));
    let sink = client.copy_in(&statement).await.map_err(failed("copy rows"))?;
    let mut writer = pin!(BinaryCopyInWriter::new(sink, &types));
    let mut cells = Vec::new();
    for (id, row) in rows {
        let (time, id, extra) = (system_time(row.ts), id.cast_signed(), json(row.extra));
        let tag = first_tag(row);
        read_cells(row, fields.len(), &mut cells)?;
        let mut values: Vec<&(dyn ToSql + Sync)> = vec![&time, &id, &extra];
        values.extend(cells.iter().map(|cell| cell as &(dyn ToSql + Sync)));
        if tag_in_table {
            values.push(&tag);
        }
        writer.as_mut().write(&values).await.map_err(failed("copy rows"))?;
    }
    writer.finish().await.map_err(failed("copy rows"))
}

/// Writes rows with one INSERT.
pub(super) async fn insert_rows(
    client: &Client,
    header: &Header,
    tag_in_table: bool,
    rows: &Rows<'_>,
) -> Result<u64> {
    let (table, columns, fields) = columns(header, rows, tag_in_table)?;
    let mut statement = format!("INSERT INTO {table} ({columns}) VALUES ");
    let mut cells = Vec::new();
    for (index, (id, row)) in rows.iter().enumerate() {
        let comma = if index == 0 { "" } else { "," };
        let extra = json(row.extra);
        write!(statement, "{comma}('{}',{id},{}", Nanos(row.ts), literal(extra.as_deref()))
            .expect("a String takes everything");
        read_cells(row, fields.len(), &mut cells)?;
        for cell in &cells {
            match cell {
                Some(cell) => write!(statement, ",{cell}").expect("a String takes everything"),
                None => statement.push_str(",NULL"),
            }
        }
        if tag_in_table {
            statement.push(',');
            statement.push_str(&literal(first_tag(row)));
        }
        statement.push(')');
    }
    client.execute(&statement, &[]).await.map_err(failed("insert rows"))
}

fn literal(text: Option<&str>) -> String {
    text.map_or("NULL".to_owned(), |text| format!("'{}'", text.replace('\'', "''")))
}

/// Reads one cell per field: hosts of devops-generic have fewer than the header has names.
fn read_cells(row: &TaggedRow<'_>, fields: usize, cells: &mut Vec<Option<f64>>) -> Result<()> {
    cells.clear();
    for cell in row.cells.split(',').take(fields) {
        cells.push(float(cell)?);
    }
    cells.resize(fields, None);
    Ok(())
}

fn system_time(ts_nanos: i64) -> SystemTime {
    let distance = Duration::from_nanos(ts_nanos.unsigned_abs());
    if ts_nanos < 0 { UNIX_EPOCH - distance } else { UNIX_EPOCH + distance }
}

#[expect(clippy::cast_possible_truncation, reason = "the tag was a 32-bit float")]
fn to_f32(number: f64) -> f32 {
    number as f32
}
