//! Answers to COPY, and lists of jobs and files.

use std::sync::Arc;

use datafusion::arrow::array::{Int64Array, RecordBatch, TimestampMicrosecondArray};

use super::{batch, counts, texts, times};
use crate::bulk::{BulkOutcome, BulkProgress};
use crate::context::StatementContext;
use crate::error::{Error, Result};

/// Returns the answer to a COPY that does not wait.
pub(crate) fn copy_queued(id: &str) -> Result<RecordBatch> {
    batch(vec![("id", texts([Some(id.to_owned())]))])
}

/// Returns the answer to a COPY that waits.
pub(crate) fn copied(id: &str, outcome: &BulkOutcome) -> Result<RecordBatch> {
    batch(vec![
        ("id", texts([Some(id.to_owned())])),
        ("status", texts([Some("finished".to_owned())])),
        ("rows_handled", counts([outcome.rows_handled])),
        ("rows_imported", counts([outcome.rows_imported])),
        ("errors", counts([outcome.errors])),
    ])
}

/// Returns the answer to `COPY 'id' CANCEL`.
pub(crate) fn copy_canceled(id: &str, status: &str) -> Result<RecordBatch> {
    let text = |text: &str| texts([Some(text.to_owned())]);
    batch(vec![("id", text(id)), ("status", text(status))])
}

pub(super) fn copy_progress(caller: &StatementContext) -> Result<RecordBatch> {
    let all = caller.system.bulk.jobs();
    let text = |of: fn(&BulkProgress) -> &str| texts(all.iter().map(|it| Some(of(it).to_owned())));
    let count = |of: fn(&BulkProgress) -> u64| counts(all.iter().map(of));
    let perhaps = |of: fn(&BulkProgress) -> Option<u64>| {
        let signed = |value| i64::try_from(value).unwrap_or(i64::MAX);
        let all = all.iter().map(|it| of(it).map(signed));
        Arc::new(all.collect::<Int64Array>()) as _
    };
    let started = all.iter().map(|it| it.started).collect::<TimestampMicrosecondArray>();
    batch(vec![
        ("id", text(|it| &it.id)),
        ("kind", text(|it| it.kind)),
        ("table_name", text(|it| &it.table_name)),
        ("file", text(|it| &it.file)),
        ("phase", texts(all.iter().map(|it| it.phase.map(str::to_owned)))),
        ("queue_position", perhaps(|it| it.queue_position)),
        ("bytes_read", count(|it| it.bytes_read)),
        ("bytes_total", perhaps(|it| it.bytes_total)),
        ("rows_handled", count(|it| it.rows_handled)),
        ("rows_rejected", count(|it| it.rows_rejected)),
        ("rows_per_second", count(|it| it.rows_per_second)),
        ("bytes_per_second", count(|it| it.bytes_per_second)),
        ("started", Arc::new(started)),
        ("eta_seconds", perhaps(|it| it.eta_seconds)),
    ])
}

pub(super) fn import_files(caller: &StatementContext) -> Result<RecordBatch> {
    let files = caller.system.bulk.files();
    let files = files.map_err(|source| Error::Bulk { position: None, source: Box::new(source) })?;
    batch(vec![
        ("path", texts(files.iter().map(|it| Some(it.path.clone())))),
        ("size", counts(files.iter().map(|it| it.bytes))),
        ("modified", times(files.iter().map(|it| it.modified))),
    ])
}
