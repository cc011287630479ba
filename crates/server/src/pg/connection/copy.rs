//! COPY whose rows come or go over the connection.
//!
//! - CY1. Bytes go to the import as they come, which takes them at its own pace, and the client
//!   waits with them: nothing of them is kept here.
//! - CY2. CopyDone makes all rows one commit. Whatever else ends it, an error, CopyFail, a cancel
//!   or a client that goes away, leaves the table as it was.
//! - CY3. Each row that goes out is a message of its own, as clients expect it. They are written on
//!   the engine's threads, a part at a time.
//!
//! - CY4. In a transaction, CopyDone puts the rows to those that wait for COMMIT; an error leaves
//!   none of them.
//!
//! Not here: what the options say, and what rows look like (`copy`, `results`, `binary_copy`).

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use bytes::{BufMut, BytesMut};
use futures::StreamExt;
use tidegate_platform::sentence;
use tidegate_query::{
    BulkOutcome, BulkSink, Canceler, CopyFormat, CopyOptions, CopyStream, Error as QueryError,
    SendableRecordBatchStream, StatementOptions,
};
use tokio::runtime::Handle;
use tokio::sync::mpsc::{Sender, channel};
use tokio::time::timeout;

use super::run::{Ending, code_of, panicked};
use super::{Connection, End, Stopped};
use crate::copy::form_of;
use crate::pg::binary_copy::BinaryReader;
use crate::pg::copy_frame::{HEADER, TRAILER};
use crate::pg::encode::{Format, RowWriter, arrays};
use crate::pg::fault::Fault;
use crate::pg::frame::Message;
use crate::pg::login::PARTING;
use crate::results::{Delimited, ResultForm};
use crate::shared::CountedQuery;

/// Parts that wait for the client.
const QUEUE: usize = 2;
/// Bytes of a part.
const PART_BYTES: usize = 256 << 10;

/// What the engine's threads have written.
enum Part {
    /// Messages, and how many rows they are.
    Rows(BytesMut, u64),
    End,
    Failed(Box<Fault>),
}

impl Connection {
    /// Does a COPY FROM STDIN or TO STDOUT.
    pub(super) async fn copy(&mut self, sql: &str) -> Result<(), Stopped> {
        let counted = CountedQuery::begin(&self.shared, "pg");
        let done = self.copy_rows(sql).await;
        counted.end(done.as_ref().map_or_else(code_of, |()| "00000"));
        done
    }

    async fn copy_rows(&mut self, sql: &str) -> Result<(), Stopped> {
        let canceler = Canceler::default();
        let _cancelable = self.backend.begin(&canceler);
        let options = StatementOptions {
            timeout: None,
            session: self.session.clone(),
            canceler: Some(canceler.clone()),
        };
        let (services, text) = (Arc::clone(&self.services), sql.to_owned());
        let lane = services.lanes.take().await;
        let lane = lane.map_err(|error| Fault::new(error.code(), error.to_string()))?;
        let begun =
            lane.threads().spawn(async move { services.engine.copy_stream(&text, &options).await });
        let _ending = Ending(begun.abort_handle());
        let stream = tokio::select! {
            biased;
            stream = begun => stream.map_err(|_| Stopped::from(panicked()))?,
            () = self.wire.closed() => return Err(Stopped::Gone),
        };
        match stream.map_err(|error| Fault::of_query(&error, sql, 0))? {
            Some(CopyStream::In { sink, format, columns, fields, keeper }) => {
                let reader = (format == CopyFormat::Binary).then(|| BinaryReader::new(&fields));
                self.wire.out.copy(b'G', columns, format_of(format));
                let outcome = self.copy_in((sink, reader), &canceler).await?;
                if let Some(keeper) = keeper {
                    keeper.hold().map_err(|error| Fault::of_query(&error, sql, 0))?;
                }
                self.copied(&outcome);
                Ok(())
            }
            Some(CopyStream::Out { schema, stream, format, options }) => {
                let _turn = self.turn(&canceler).await?;
                self.wire.out.copy(b'H', schema.fields().len(), format_of(format));
                let rows = match format {
                    CopyFormat::Binary => OutRows::Binary(schema),
                    _ => OutRows::Delimited(delimited(&options, &schema)?, schema),
                };
                self.copy_out((stream, rows), lane.threads()).await
            }
            None => Err(Fault::new("42601", "COPY has neither STDIN nor STDOUT").into()),
        }
    }

    async fn copy_in(
        &mut self,
        (mut sink, mut reader): (Box<dyn BulkSink>, Option<BinaryReader>),
        canceler: &Canceler,
    ) -> Result<BulkOutcome, Stopped> {
        let failed = |error: tidegate_query::BulkError| Fault::new(error.code, error.message);
        let mut text = Vec::new();
        loop {
            let message = match self.next().await {
                Ok(message) => message,
                Err(End::Gone) => return Err(Stopped::Gone),
                Err(End::Told) => {
                    // A client that does not listen is not waited for.
                    let _ = timeout(PARTING, self.wire.flush()).await;
                    return Err(Stopped::Gone);
                }
            };
            if canceler.is_canceled() {
                return Err(Fault::canceled().into());
            }
            match message {
                Message::CopyData(bytes) => match &mut reader {
                    None => sink.push(&bytes).await.map_err(failed)?,
                    Some(reader) => {
                        text.clear();
                        reader.read(&bytes, &mut text)?;
                        sink.push(&text).await.map_err(failed)?;
                    }
                },
                Message::CopyDone => break,
                Message::CopyFail(reason) => {
                    let reason = String::from_utf8_lossy(&reason);
                    let message = format!("COPY from stdin failed: {reason}");
                    return Err(Fault::new("57014", message).into());
                }
                // They may stand between the others, and mean nothing.
                Message::Flush | Message::Sync => {}
                Message::Terminate => return Err(Stopped::Gone),
                _ => {
                    let message = "a message that is no part of a COPY";
                    return Err(Fault::fatal("08P01", message).into());
                }
            }
        }
        if let Some(reader) = reader {
            reader.end()?;
        }
        Ok(sink.finish().await.map_err(failed)?)
    }

    fn copied(&mut self, outcome: &BulkOutcome) {
        if 0 < outcome.errors {
            let warning = format!("{} rows or values were left out", outcome.errors);
            self.wire.out.fault(&Fault::warning(warning));
        }
        self.wire.out.complete(&format!("COPY {}", outcome.rows_imported));
    }

    async fn copy_out(
        &mut self,
        (stream, rows): (SendableRecordBatchStream, OutRows),
        threads: &Handle,
    ) -> Result<(), Stopped> {
        let (sender, mut parts) = channel(QUEUE);
        let work = threads.spawn(write(stream, rows, sender));
        let mut count = 0;
        let ended = loop {
            let part = tokio::select! {
                biased;
                part = parts.recv() => part,
                () = self.wire.closed() => break Err(Stopped::Gone),
            };
            match part {
                Some(Part::Rows(bytes, rows)) => {
                    count += rows;
                    self.wire.out.bytes.extend_from_slice(&bytes);
                    if let Err(error) = self.wire.flush().await {
                        break Err(error.into());
                    }
                }
                Some(Part::End) => break Ok(()),
                Some(Part::Failed(fault)) => break Err(Stopped::Fault(fault)),
                None => break Err(panicked().into()),
            }
        };
        work.abort();
        ended?;
        self.wire.out.empty(b'c');
        self.wire.out.complete(&format!("COPY {count}"));
        Ok(())
    }
}

/// How rows that go out are written.
enum OutRows {
    /// Their values as PostgreSQL writes them.
    Delimited(Delimited, SchemaRef),
    Binary(SchemaRef),
}

fn delimited(options: &CopyOptions, schema: &SchemaRef) -> Result<Delimited, Fault> {
    let form = form_of(options);
    match form.map_err(|fault| Fault::new(fault.error.code, fault.error.message))? {
        ResultForm::Delimited(form) => Ok(Delimited::new(form, Arc::clone(schema))),
        _ => Err(Fault::not_supported("COPY TO STDOUT but as csv, text and binary")),
    }
}

fn format_of(format: CopyFormat) -> Format {
    if format == CopyFormat::Binary { Format::Binary } else { Format::Text }
}

impl OutRows {
    /// What stands before all rows.
    fn header(&self, parts: &mut Parts) {
        match self {
            OutRows::Delimited(rows, _) => {
                let mut text = String::new();
                rows.header(&mut text);
                if !text.is_empty() {
                    push(&mut parts.part, text.as_bytes());
                }
            }
            // Clients expect it in one message with what comes next.
            OutRows::Binary(_) => parts.lead = &HEADER,
        }
    }

    /// What stands behind them.
    fn trailer(&self, parts: &mut Parts) {
        if let OutRows::Binary(_) = self {
            let last = [parts.lead, &TRAILER].concat();
            push(&mut parts.part, &last);
        }
    }

    /// The rows of a batch.
    fn rows(&self, batch: &RecordBatch, parts: &mut Parts) -> Result<(), ArrowError> {
        let arrays = arrays(batch)?;
        match self {
            OutRows::Delimited(rows, schema) => {
                let writer = RowWriter::new(schema, &arrays, &[])?;
                let (mut value, mut text) = (BytesMut::new(), String::new());
                for row in 0..batch.num_rows() {
                    text.clear();
                    for (at, column) in writer.columns().iter().enumerate() {
                        value.clear();
                        if column.is_null(row) {
                            rows.push_field(at, None, &mut text);
                            continue;
                        }
                        column.push(row, &mut value);
                        rows.push_field(at, Some(&String::from_utf8_lossy(&value)), &mut text);
                    }
                    rows.end_record(&mut text);
                    push(&mut parts.part, text.as_bytes());
                    parts.row_ends();
                }
            }
            OutRows::Binary(schema) => {
                let formats = vec![Format::Binary; arrays.len()];
                let writer = RowWriter::new(schema, &arrays, &formats)?;
                for row in 0..batch.num_rows() {
                    writer.push_copied(row, std::mem::take(&mut parts.lead), &mut parts.part);
                    parts.row_ends();
                }
            }
        }
        Ok(())
    }
}

/// Messages that are written, and how many rows they are.
struct Parts {
    full: Vec<(BytesMut, u64)>,
    part: BytesMut,
    rows: u64,
    /// What the next message begins with.
    lead: &'static [u8],
}

impl Parts {
    fn new() -> Parts {
        let part = BytesMut::with_capacity(2 * PART_BYTES);
        Parts { full: Vec::new(), part, rows: 0, lead: &[] }
    }

    fn row_ends(&mut self) {
        self.rows += 1;
        if PART_BYTES <= self.part.len() {
            let part = std::mem::replace(&mut self.part, BytesMut::with_capacity(2 * PART_BYTES));
            self.full.push((part, std::mem::take(&mut self.rows)));
        }
    }
}

/// Writes the rows of a stream as messages (CY3).
async fn write(stream: SendableRecordBatchStream, rows: OutRows, sender: Sender<Part>) {
    let end = match write_all(stream, rows, &sender).await {
        Ok(()) => Part::End,
        Err(fault) => Part::Failed(Box::new(fault)),
    };
    // If nobody waits for it any more, nobody needs to know.
    let _ = sender.send(end).await;
}

async fn write_all(
    mut stream: SendableRecordBatchStream,
    rows: OutRows,
    sender: &Sender<Part>,
) -> Result<(), Fault> {
    let mut parts = Parts::new();
    rows.header(&mut parts);
    while let Some(batch) = stream.next().await {
        let batch = batch.map_err(|error| {
            let error = QueryError::from(error);
            Fault::new(crate::sqlstate::of_query(&error), sentence(&error))
        })?;
        let written = rows.rows(&batch, &mut parts);
        written.map_err(|error| Fault::new("0A000", error.to_string()))?;
        for (part, count) in parts.full.drain(..) {
            if sender.send(Part::Rows(part, count)).await.is_err() {
                return Ok(());
            }
        }
    }
    rows.trailer(&mut parts);
    let _ = sender.send(Part::Rows(parts.part, parts.rows)).await;
    Ok(())
}

/// A CopyData message.
fn push(part: &mut BytesMut, row: &[u8]) {
    part.put_u8(b'd');
    part.put_u32(u32::try_from(row.len() + 4).expect("rows are shorter than 4 GiB"));
    part.put_slice(row);
}
