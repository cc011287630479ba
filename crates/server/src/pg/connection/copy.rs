//! COPY whose rows go over the connection, in either direction.
//!
//! - Received bytes go to the import at its own speed, and the client waits with them: none of them
//!   are kept here.
//! - connection_copy-1. CopyDone commits all rows with one commit. Any other end, by an error,
//!   CopyFail, a cancel or a client that goes away, leaves the table unchanged.
//! - connection_copy-2. Each row that is sent is a message of its own, as clients expect it. They
//!   are written on the engine's threads, a part at a time.
//! - In a transaction, CopyDone adds the rows to those that wait for COMMIT; an error leaves none
//!   of them.
//! - connection_copy-3. A client that does not read releases its admission permit, and is
//!   disconnected after `pg.send_timeout`; one that does not write is disconnected after
//!   `pg.copy_idle_timeout`. A cancel ends the wait for both.
//!
//! Not here: the meaning of the options, and the format of rows (`copy`, `results`, `binary_copy`).

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{DataType, Field, SchemaRef, TimeUnit};
use arrow::error::ArrowError;
use bytes::{BufMut, BytesMut};
use futures::StreamExt;
use tidegate_model::limits;
use tidegate_platform::sentence;
use tidegate_query::{
    BulkOutcome, BulkSink, CancelHandle, CopyFormat, CopyOptions, CopyStream, Error as QueryError,
    SendableRecordBatchStream, StatementOptions, Timeout,
};
use tokio::sync::mpsc::{Sender, channel};
use tokio::task::{spawn_blocking, yield_now};
use tokio::time::timeout;

use super::end_line::EndLine;
use super::execute::{Ending, canceled, check_depth, code_of, panicked};
use super::{Connection, End, LARGE_BYTES, Stopped};
use crate::admission::Claimant;
use crate::budget::{Account, Reservation};
use crate::copy::form_of;
use crate::execution_slot::{ExecutionSlot, ended_before_begin, overdue};
use crate::pg::binary_copy::BinaryReader;
use crate::pg::copy_fields::{HEADER, TRAILER};
use crate::pg::encode::{Format, Guard, Room, RowStopped, RowWriter, arrays};
use crate::pg::error_response::ErrorResponse;
use crate::pg::login::CLOSE_TIMEOUT;
use crate::pg::message_reader::Message;
use crate::pg::portal::{LIGHT_BYTES, Unwritten, weight_of};
use crate::results::{Delimited, ResultForm};
use crate::server_state::CountedQuery;

/// The most parts that wait for the client.
const QUEUE: usize = 2;
/// The bytes of a part.
const PART_BYTES: usize = 256 << 10;

/// The output of the engine's threads.
enum Part {
    /// Messages with the number of their rows and the count of their bytes.
    Rows {
        bytes: BytesMut,
        rows: u64,
        reservation: Reservation,
    },
    End,
    Failed(Box<ErrorResponse>),
}

/// Makes the warnings about columns that lose precision in the binary format (pg_encode-2).
fn cut_instants(schema: &SchemaRef) -> Vec<String> {
    let is_cut = |field: &&Arc<Field>| {
        matches!(field.data_type(), DataType::Timestamp(TimeUnit::Nanosecond, _))
    };
    let warning = |field: &Arc<Field>| {
        format!(
            "binary COPY cuts nanoseconds of column \"{}\" to microseconds: text and csv keep them",
            field.name()
        )
    };
    schema.fields().iter().filter(is_cut).map(warning).collect()
}

impl Connection {
    /// Executes a COPY FROM STDIN or TO STDOUT.
    pub(super) async fn copy(&mut self, sql: &str) -> Result<(), Stopped> {
        let counted = CountedQuery::begin(&self.server, "pg");
        let done = self.copy_rows(sql).await;
        counted.end(done.as_ref().map_or_else(code_of, |()| "00000"));
        done
    }

    async fn copy_rows(&mut self, sql: &str) -> Result<(), Stopped> {
        let cancel_handle = CancelHandle::default();
        let _cancelable = self.backend.begin(&cancel_handle);
        let options = StatementOptions {
            timeout: None,
            session: self.session.clone(),
            cancel_handle: Some(cancel_handle.clone()),
        };
        let (services, text) = (Arc::clone(&self.services), sql.to_owned());
        let lane = services.lanes.take(&Claimant::of(&self.session)).await;
        let mut lane = lane.map_err(|error| ErrorResponse::new(error.code(), error.to_string()))?;
        let begun =
            lane.threads().spawn(async move { services.engine.copy_stream(&text, &options).await });
        let _ending = Ending(begun.abort_handle());
        let stream = tokio::select! {
            biased;
            stream = begun => stream.map_err(|_| Stopped::from(panicked()))?,
            () = self.wire.closed() => {
                cancel_handle.cancel();
                return Err(Stopped::Disconnected);
            }
            // One that waits for a job to end has no time limit.
            reason = ended_before_begin(&cancel_handle, Timeout::Never) => {
                let error = QueryError::Canceled { reason };
                return Err(ErrorResponse::of_query(&error, sql, 0).into());
            }
        };
        match stream.map_err(|error| ErrorResponse::of_query(&error, sql, 0))? {
            Some(CopyStream::In { sink, format, columns, fields, buffer }) => {
                // From now on, the statement waits for the rows of its client.
                lane.pause();
                let reader = (format == CopyFormat::Binary).then(|| BinaryReader::new(&fields));
                self.wire.writer.copy(b'G', columns, format_of(format));
                self.is_copying = true;
                let ends = (format == CopyFormat::Csv).then(EndLine::default);
                let outcome = self.copy_in(sink, reader, ends, &cancel_handle).await;
                self.is_copying = false;
                let outcome = outcome?;
                if let Some(buffer) = buffer {
                    buffer
                        .add_to_session()
                        .map_err(|error| ErrorResponse::of_query(&error, sql, 0))?;
                }
                self.copied(&outcome);
                Ok(())
            }
            Some(CopyStream::Out { schema, stream, format, options }) => {
                check_depth(&schema)?;
                // Threads are taken after admission (execution_slot-3).
                drop(lane);
                let slot = self.admit(&cancel_handle).await?;
                self.wire.writer.copy(b'H', schema.fields().len(), format_of(format));
                let rows = match format {
                    CopyFormat::Binary => {
                        self.notices(&cut_instants(&schema));
                        OutRows::Binary(schema)
                    }
                    _ => {
                        let style = self.session.setting("IntervalStyle");
                        let formats =
                            vec![Format::of_style(style.as_deref()); schema.fields().len()];
                        OutRows::Delimited(delimited(&options, &schema)?, schema, formats)
                    }
                };
                self.copy_out(stream, rows, slot, &cancel_handle).await
            }
            None => Err(ErrorResponse::new("42601", "COPY has neither STDIN nor STDOUT").into()),
        }
    }

    async fn copy_in(
        &mut self,
        mut sink: Box<dyn BulkSink>,
        mut reader: Option<BinaryReader>,
        mut ends: Option<EndLine>,
        cancel_handle: &CancelHandle,
    ) -> Result<BulkOutcome, Stopped> {
        let failed =
            |error: tidegate_query::BulkError| ErrorResponse::new(error.code, error.message);
        let mut text = Vec::new();
        let mut reservation = self.account.reserve(0).map_err(ErrorResponse::from)?;
        loop {
            let message = tokio::select! {
                biased;
                message = self.next() => message,
                error = canceled(cancel_handle) => return Err(error.into()),
            };
            let message = match message {
                Ok(message) => message,
                Err(End::Disconnected) => return Err(Stopped::Disconnected),
                Err(End::Notified) => {
                    // The wait for a client that does not read is bounded.
                    let _ = timeout(CLOSE_TIMEOUT, self.wire.flush()).await;
                    return Err(Stopped::Disconnected);
                }
            };
            if cancel_handle.is_canceled() {
                return Err(ErrorResponse::canceled().into());
            }
            match message {
                Message::CopyData(bytes) => match &mut reader {
                    None => {
                        let (before, bytes) = match &mut ends {
                            Some(ends) => ends.push(&bytes),
                            None => (Vec::new(), &bytes[..]),
                        };
                        sink.push(&before).await.map_err(failed)?;
                        sink.push(bytes).await.map_err(failed)?;
                    }
                    // A large message is read in parts, and other tasks run in between.
                    Some(reader) => {
                        for bytes in bytes.chunks(LARGE_BYTES) {
                            text.clear();
                            reader.read(bytes, &mut text)?;
                            reservation
                                .try_resize(reader.pending_bytes() + text.capacity())
                                .map_err(ErrorResponse::from)?;
                            sink.push(&text).await.map_err(failed)?;
                            yield_now().await;
                        }
                    }
                },
                Message::CopyDone => break,
                Message::CopyFail(reason) => {
                    let reason = String::from_utf8_lossy(&reason);
                    let message = format!("COPY from stdin failed: {reason}");
                    return Err(ErrorResponse::new("57014", message).into());
                }
                // They may stand between the rows, and have no effect.
                Message::Flush | Message::Sync => {}
                Message::Terminate => return Err(Stopped::Disconnected),
                _ => {
                    let message = "a message that is no part of a COPY";
                    return Err(ErrorResponse::fatal("08P01", message).into());
                }
            }
        }
        if let Some(reader) = reader {
            reader.end()?;
        }
        if let Some(ends) = ends {
            sink.push(&ends.end()).await.map_err(failed)?;
        }
        Ok(sink.finish().await.map_err(failed)?)
    }

    fn copied(&mut self, outcome: &BulkOutcome) {
        if 0 < outcome.errors {
            let warning = format!("{} rows or values were left out", outcome.errors);
            self.wire.writer.error_response(&ErrorResponse::warning(warning));
        }
        self.notices(&outcome.notes);
        self.wire.writer.complete(&format!("COPY {}", outcome.rows_imported));
    }

    async fn copy_out(
        &mut self,
        stream: SendableRecordBatchStream,
        rows: OutRows,
        mut slot: ExecutionSlot,
        cancel_handle: &CancelHandle,
    ) -> Result<(), Stopped> {
        let (sender, mut parts) = channel(QUEUE);
        let out = CopyOutput {
            rows,
            account: Arc::clone(&self.account),
            cancel_handle: cancel_handle.clone(),
        };
        let work = slot.threads().spawn(write(stream, out, sender));
        let mut count = 0;
        let ended = loop {
            let part = tokio::select! {
                biased;
                part = parts.recv() => part,
                () = self.wire.closed() => break Err(Stopped::Disconnected),
                reason = overdue(cancel_handle) => {
                    let error = QueryError::Canceled { reason };
                    break Err(ErrorResponse::of_query(&error, "", 0).into());
                }
            };
            match part {
                Some(Part::Rows { bytes, rows, reservation }) => {
                    count += rows;
                    self.wire.writer.bytes.unsplit(bytes);
                    let sent = self.send(Some(&mut slot), cancel_handle).await;
                    drop(reservation);
                    if let Err(stopped) = sent {
                        break Err(stopped);
                    }
                }
                Some(Part::End) => break Ok(()),
                Some(Part::Failed(error)) => break Err(Stopped::Error(error)),
                None => break Err(panicked().into()),
            }
        };
        // Work on a long row must end, too.
        if ended.is_err() {
            cancel_handle.cancel();
        }
        work.abort();
        ended?;
        self.wire.writer.empty(b'c');
        self.wire.writer.complete(&format!("COPY {count}"));
        Ok(())
    }
}

/// The format of rows that are sent.
enum OutRows {
    /// Values as PostgreSQL writes them.
    Delimited(Delimited, SchemaRef, Vec<Format>),
    Binary(SchemaRef),
}

fn delimited(options: &CopyOptions, schema: &SchemaRef) -> Result<Delimited, ErrorResponse> {
    let form = form_of(options);
    match form.map_err(|error| ErrorResponse::new(error.cause.code, error.cause.message))? {
        ResultForm::Delimited(form) => Ok(Delimited::new(form, Arc::clone(schema))),
        _ => Err(ErrorResponse::not_supported("COPY TO STDOUT but as csv, text and binary")),
    }
}

fn format_of(format: CopyFormat) -> Format {
    if format == CopyFormat::Binary { Format::Binary } else { Format::Text }
}

impl OutRows {
    /// Writes the part before all rows.
    fn header(&self, parts: &mut Parts) {
        match self {
            OutRows::Delimited(rows, ..) => {
                let mut text = String::new();
                rows.header(&mut text);
                if !text.is_empty() {
                    push(&mut parts.part, text.as_bytes());
                }
            }
            // Clients expect it in one message with the first row.
            OutRows::Binary(_) => parts.lead = &HEADER,
        }
    }

    /// Writes the part after all rows.
    fn trailer(&self, parts: &mut Parts) {
        if let OutRows::Binary(_) = self {
            let last = [parts.lead, &TRAILER].concat();
            push(&mut parts.part, &last);
        }
    }

    /// Writes rows of a batch, up to a full part. Returns the next row.
    fn rows(
        &self,
        arrays: &[ArrayRef],
        rows: Range<usize>,
        parts: &mut Parts,
    ) -> Result<usize, Unwritten> {
        let end = rows.end;
        match self {
            OutRows::Delimited(form, schema, formats) => {
                let writer = RowWriter::new(schema, arrays, formats)?;
                let (mut value, mut text) = (BytesMut::new(), String::new());
                for row in rows {
                    text.clear();
                    for (at, column) in writer.columns().iter().enumerate() {
                        value.clear();
                        if column.is_null(row) {
                            form.push_field(at, None, &mut text);
                            continue;
                        }
                        let mut room = Room::new(&mut value, &mut parts.guard);
                        column.push(row, &mut room);
                        room.end()?;
                        form.push_field(at, Some(&String::from_utf8_lossy(&value)), &mut text);
                    }
                    form.end_record(&mut text);
                    if limits::ROW_BYTES < text.len() {
                        return Err(RowStopped::TooLarge.into());
                    }
                    push(&mut parts.part, text.as_bytes());
                    if parts.row_ends() {
                        return Ok(row + 1);
                    }
                }
            }
            OutRows::Binary(schema) => {
                let formats = vec![Format::Binary; arrays.len()];
                let writer = RowWriter::new(schema, arrays, &formats)?;
                for row in rows {
                    let lead = std::mem::take(&mut parts.lead);
                    let mut room = Room::new(&mut parts.part, &mut parts.guard);
                    writer.push_copied(row, lead, &mut room)?;
                    if parts.row_ends() {
                        return Ok(row + 1);
                    }
                }
            }
        }
        Ok(end)
    }
}

/// Written messages, and the number of their rows.
struct Parts {
    part: BytesMut,
    rows: u64,
    guard: Guard,
    /// The bytes before the next message.
    lead: &'static [u8],
}

impl Parts {
    /// Counts a row, and returns whether the part is full.
    fn row_ends(&mut self) -> bool {
        self.rows += 1;
        PART_BYTES <= self.part.len()
    }
}

/// The writer of the rows of a COPY.
struct CopyOutput {
    rows: OutRows,
    account: Arc<Account>,
    cancel_handle: CancelHandle,
}

impl CopyOutput {
    fn parts(&self, lead: &'static [u8]) -> Result<Parts, ErrorResponse> {
        let guard = Guard::new(self.account.reserve(0)?, &self.cancel_handle);
        Ok(Parts { part: BytesMut::with_capacity(2 * PART_BYTES), rows: 0, guard, lead })
    }
}

/// Writes the rows of a stream as messages (connection_copy-2).
async fn write(stream: SendableRecordBatchStream, out: CopyOutput, sender: Sender<Part>) {
    let end = match write_all(stream, Arc::new(out), &sender).await {
        Ok(()) => Part::End,
        Err(error) => Part::Failed(Box::new(error)),
    };
    // If the client has gone, there is no receiver.
    let _ = sender.send(end).await;
}

async fn write_all(
    mut stream: SendableRecordBatchStream,
    out: Arc<CopyOutput>,
    sender: &Sender<Part>,
) -> Result<(), ErrorResponse> {
    let mut parts = out.parts(&[])?;
    out.rows.header(&mut parts);
    while let Some(batch) = stream.next().await {
        let batch = batch.map_err(|error| {
            let error = QueryError::from(error);
            ErrorResponse::new(crate::sqlstate::of_query(&error), sentence(&error))
        })?;
        let is_heavy = LIGHT_BYTES < weight_of(&batch);
        let mut next = Batch { batch, arrays: Vec::new(), row: 0, parts };
        while next.row < next.batch.num_rows() {
            let of = Arc::clone(&out);
            next = match is_heavy {
                false => next.write(&of)?,
                true => spawn_blocking(move || next.write(&of)).await.map_err(|_| panicked())??,
            };
            if PART_BYTES <= next.parts.part.len() {
                let full = std::mem::replace(&mut next.parts, out.parts(&[])?);
                if send(full, sender).await.is_err() {
                    return Ok(());
                }
            }
        }
        parts = next.parts;
    }
    out.rows.trailer(&mut parts);
    let _ = send(parts, sender).await;
    Ok(())
}

/// The receiver of the rows has gone.
struct Abandoned;

async fn send(parts: Parts, sender: &Sender<Part>) -> Result<(), Abandoned> {
    let Parts { part: bytes, rows, guard, .. } = parts;
    let mut reservation = guard.into_reservation();
    // The bytes were counted when they were written.
    let _ = reservation.try_resize(bytes.len());
    sender.send(Part::Rows { bytes, rows, reservation }).await.map_err(|_| Abandoned)
}

/// A batch of rows that is being written.
struct Batch {
    batch: RecordBatch,
    /// The arrays as they are written; empty before the first row.
    arrays: Vec<ArrayRef>,
    row: usize,
    parts: Parts,
}

impl Batch {
    /// Writes rows up to a full part.
    fn write(mut self, out: &CopyOutput) -> Result<Batch, ErrorResponse> {
        if self.arrays.is_empty() {
            let arrays = arrays(&self.batch);
            self.arrays = arrays.map_err(|error| match error {
                ArrowError::ArithmeticOverflow(_) => Unwritten::from(error).into(),
                error => ErrorResponse::new("0A000", error.to_string()),
            })?;
        }
        let rows = self.row..self.batch.num_rows();
        self.row = out.rows.rows(&self.arrays, rows, &mut self.parts)?;
        Ok(self)
    }
}

/// Appends a CopyData message.
fn push(part: &mut BytesMut, row: &[u8]) {
    part.put_u8(b'd');
    part.put_u32(u32::try_from(row.len() + 4).expect("rows are shorter than 4 GiB"));
    part.put_slice(row);
}
