//! The answer to an upload.

use std::fmt::Write as _;

use tidegate_ingest::ImportSummary;
use tidegate_model::types::Physical;
use tidegate_model::{Column, ColumnType, TimeUnit};

use super::request::{AnswerForm, ImportRequest};
use crate::copy::{CopyError, Ended, of_imp};
use crate::http::response::{JSON, Response, TEXT};
use crate::json::push_string;
use crate::sqlstate;

/// Makes the answer to a successful import.
pub(super) fn success(form: AnswerForm, ended: &Ended, request: &ImportRequest) -> Response {
    match form {
        AnswerForm::Json => Response::new(200, JSON, json(ended, request)),
        AnswerForm::Text => Response::new(200, TEXT, text(ended, request)),
    }
}

/// Makes the answer to a failed import.
pub(super) fn failure(form: AnswerForm, status: Option<u16>, error: &CopyError) -> Response {
    let status = status.unwrap_or_else(|| sqlstate::status(error.cause.code));
    let response = match form {
        AnswerForm::Text => Response::new(status, TEXT, of_imp(&error.cause.message)),
        AnswerForm::Json => {
            let mut body = String::from("{\"status\":");
            push_string(&of_imp(&error.cause.message), &mut body);
            body.push_str(&format!(",\"code\":\"{}\"", error.cause.code));
            if let Some(line) = error.line {
                body.push_str(&format!(",\"line\":{line}"));
            }
            if let Some(column) = &error.column {
                body.push_str(",\"column\":");
                push_string(column, &mut body);
            }
            body.push('}');
            Response::new(status, JSON, body)
        }
    };
    if status == 503 { response.with("Retry-After", "1") } else { response }
}

fn json(ended: &Ended, request: &ImportRequest) -> String {
    let mut body = String::from("{\"status\":\"OK\",\"location\":");
    push_string(&request.table, &mut body);
    let (rejected, imported) = rows(ended);
    write!(body, ",\"rowsRejected\":{rejected},\"rowsImported\":{imported}").expect(FITS);
    let has_header = ended.summary.as_ref().is_some_and(|summary| summary.has_header);
    write!(body, ",\"header\":{has_header}").expect(FITS);
    if let Some(summary) = &ended.summary {
        let (partition_by, timestamp) = order(summary);
        write!(body, ",\"partitionBy\":\"{partition_by}\"").expect(FITS);
        if let Some(timestamp) = timestamp {
            body.push_str(",\"timestamp\":");
            push_string(timestamp, &mut body);
        }
    }
    body.push_str(",\"warnings\":[");
    for (at, warning) in warnings(ended, request).enumerate() {
        body.push_str(if at == 0 { "" } else { "," });
        push_string(&warning, &mut body);
    }
    body.push_str("],\"columns\":[");
    for (at, (column, errors)) in columns(ended).enumerate() {
        body.push_str(if at == 0 { "{\"name\":" } else { ",{\"name\":" });
        push_string(&column.name, &mut body);
        let (ty, size) = (type_name(column.ty), size(column.ty));
        write!(body, ",\"type\":\"{ty}\",\"size\":{size},\"errors\":{errors}}}").expect(FITS);
    }
    write!(body, "],\"importId\":\"{}\"}}", request.import_id).expect(FITS);
    body
}

fn text(ended: &Ended, request: &ImportRequest) -> String {
    let (rejected, imported) = rows(ended);
    let mut body = format!(
        "status: OK\nlocation: {}\nrowsRejected: {rejected}\nrowsImported: {imported}\n",
        request.table
    );
    if let Some(summary) = &ended.summary {
        let (partition_by, timestamp) = order(summary);
        writeln!(body, "header: {}", summary.has_header).expect(FITS);
        writeln!(body, "partitionBy: {partition_by}").expect(FITS);
        if let Some(timestamp) = timestamp {
            writeln!(body, "timestamp: {timestamp}").expect(FITS);
        }
    }
    for warning in warnings(ended, request) {
        writeln!(body, "warning: {warning}").expect(FITS);
    }
    for (column, errors) in columns(ended) {
        let ty = type_name(column.ty);
        writeln!(body, "column: {} {ty}, errors {errors}", column.name).expect(FITS);
    }
    writeln!(body, "importId: {}", request.import_id).expect(FITS);
    body
}

const FITS: &str = "a String takes everything";

/// Returns the numbers of rejected and of imported rows.
fn rows(ended: &Ended) -> (u64, u64) {
    let outcome = &ended.outcome;
    (outcome.rows_handled - outcome.rows_imported, outcome.rows_imported)
}

/// Returns the partitioning of the table, and its designated timestamp.
fn order(summary: &ImportSummary) -> (&'static str, Option<&str>) {
    let schema = &summary.schema;
    let timestamp = schema.designated_column().map(|(column, _)| column.name.as_str());
    (schema.partition_by().sql(), timestamp)
}

fn warnings(ended: &Ended, request: &ImportRequest) -> impl Iterator<Item = String> {
    let notes = ended.summary.iter().flat_map(|summary| &summary.notes);
    let nothing = ended.summary.is_none().then(|| ended.message.clone());
    let notes = notes.map(|note| of_imp(note));
    request.warnings.iter().cloned().chain(notes).chain(nothing)
}

/// Returns the columns of the table, each with the number of its bad values.
fn columns(ended: &Ended) -> impl Iterator<Item = (&Column, u64)> {
    ended.summary.iter().flat_map(|summary| {
        summary.schema.columns().iter().map(|column| {
            let reasons = summary.reject_reasons.iter();
            let own = reasons.filter(|(name, _, _)| name.as_deref() == Some(&column.name));
            (column, own.map(|(_, _, count)| count).sum())
        })
    })
}

/// Returns the name of a type in QuestDB's clients.
fn type_name(ty: ColumnType) -> String {
    let name = match ty {
        ColumnType::Int8 => "BYTE",
        ColumnType::Int16 => "SHORT",
        ColumnType::Int64 => "LONG",
        ColumnType::Timestamp(TimeUnit::Nanos) => "TIMESTAMP_NS",
        ColumnType::Ipv4 => "IPv4",
        other => return other.sql(),
    };
    name.to_owned()
}

/// Returns the bytes of a value; 0 if they vary.
fn size(ty: ColumnType) -> u8 {
    if ty == ColumnType::Symbol {
        return 4;
    }
    match ty.physical() {
        Physical::Bit => 1,
        Physical::Signed(bytes) | Physical::Unsigned(bytes) => bytes,
        Physical::Float32 => 4,
        Physical::Float64 => 8,
        Physical::Wide | Physical::Fixed16 => 16,
        Physical::Bytes => 0,
    }
}
