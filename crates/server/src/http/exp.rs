//! `/exp`: the rows of a query as a file.
//!
//! - exp-1. Rows are sent as they are computed, in bounded memory, like those of `/exec` (exec-1,
//!   exec-2).
//! - exp-2. An answer that ends regularly is complete: if the query fails, the answer ends without
//!   its last chunk, and for HTTP/1.0, which has no chunks, with a reset of the connection.
//! - exp-3. No parameter adds a header field to the answer, or a directory to the file name.
//! - exp-4. The last rows of a query are counted in the memory budget of connections.
//! - exp-5. At most about `WRITTEN_BYTES` of rows wait for the client in the written form; the rest
//!   of their batch is charged to the statement.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use futures::StreamExt;
use tidegate_query::{
    Answer, CancelHandle, Error as QueryError, Parameter, SendableRecordBatchStream, Session,
    StatementOptions, Timeout,
};
use tokio::sync::mpsc::Sender;

use super::compression::{Coding, Compressor};
use super::exec::{
    PART_BYTES, Piece, Place, Refusal, Running, STATEMENT_TIMEOUT, Stopped, TIMEOUT, Unbegun,
    Unsent, canceled, deliver, read_params, rows_of, send_last, services_for, session, timeout_of,
    wait_until_taken,
};
use super::params::Params;
use super::response::Response;
use super::route::ParameterSpec;
use super::route::ParameterType::{Flag, Integer, OneOf, Text};
use super::streaming_slot::{StreamingSlot, room};
use super::{Flow, RequestContext};
use crate::admission::Claimant;
use crate::budget::{Account, OverBudget};
use crate::results::{DelimitedForm, ParquetForm, ResultForm, ResultWriter};
use crate::server_state::{CountedQuery, Services};

/// The most rows of a request for the last rows: they are held until the end of the query.
const LAST_ROWS_MAX: u64 = 1_000_000;
/// The most bytes of those rows for one request (exp-4).
const LAST_BYTES_MAX: usize = 256 << 20;
/// The least timeout of a file that the client keeps, unless the client sets another one.
const FILE_TIMEOUT: Duration = Duration::from_mins(5);

/// The parameters of `/exp`.
pub(super) const PARAMETERS: &[ParameterSpec] = &[
    ParameterSpec::query("query", Text, "A statement that returns rows."),
    ParameterSpec::query(
        "limit",
        Text,
        "The first n rows, rows lo,hi from 0 without hi, or the last n as -n.",
    ),
    ParameterSpec::query("nm", Flag, "Leave out the header."),
    ParameterSpec::query("delimiter", Text, "One ASCII character between fields."),
    ParameterSpec::query("filename", Text, "The name of the file."),
    ParameterSpec::query(
        "fmt",
        OneOf(&["csv", "ndjson", "jsonl", "parquet", "arrow"]),
        "The format of the file.",
    ),
    ParameterSpec::query("compression_codec", Text, "The compression of Parquet."),
    ParameterSpec::query("compression_level", Integer, "The compression level of Parquet."),
    ParameterSpec::query("row_group_size", Integer, "The rows of a row group of Parquet."),
    TIMEOUT,
    STATEMENT_TIMEOUT,
];

/// A query and the options of its file.
#[derive(Clone, Debug, PartialEq)]
struct ExportRequest {
    sql: String,
    /// The values of `$1`, `$2`, ...
    parameters: Vec<Parameter>,
    rows: Rows,
    form: ResultForm,
    content_type: &'static str,
    file_name: String,
    timeout: Option<Timeout>,
}

/// The rows that are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rows {
    /// The rows from `skip` on, before `end`.
    Range {
        skip: u64,
        end: u64,
    },
    Last(u64),
}

impl ExportRequest {
    fn new(
        params: &Params,
        timeout: Option<Timeout>,
        now_micros: i64,
    ) -> Result<ExportRequest, Refusal> {
        let sql = params.find("query").unwrap_or_default().to_owned();
        let refuse = |code, message: String| Refusal::new(code, message).of(&sql);
        if sql.trim().is_empty() {
            return Err(refuse("42601", "empty query".to_owned()));
        }
        let rows = match params.find("limit").filter(|text| !text.is_empty()) {
            None => Rows::Range { skip: 0, end: u64::MAX },
            Some(text) => limit(text).ok_or_else(|| {
                let forms = "a number, two like 10,20, or up to 1000000 of the last like -10";
                refuse("22023", format!("limit '{text}' is not {forms}"))
            })?,
        };
        let (form, ending, content_type) = form(params).map_err(|refusal| refusal.of(&sql))?;
        let file_name = match params.find("filename").map(harmless).filter(|it| !it.is_empty()) {
            Some(name) => name,
            None => format!("tidegate-query-{}.{ending}", now_micros.div_euclid(1_000)),
        };
        let parameters = params.bound.clone();
        Ok(ExportRequest { sql, parameters, rows, form, content_type, file_name, timeout })
    }

    /// Returns the timeout, given that of statements that set none.
    fn timeout(&self, usual: Timeout) -> Timeout {
        let is_file = !matches!(self.form, ResultForm::Delimited(_));
        match (self.timeout, usual) {
            (Some(timeout), _) => timeout,
            (None, Timeout::After(usual)) if is_file => Timeout::After(usual.max(FILE_TIMEOUT)),
            (None, usual) => usual,
        }
    }
}

/// Parses `n`, `lo,hi` or `-n`.
fn limit(text: &str) -> Option<Rows> {
    let number = |text: &str| {
        let text = text.trim();
        if text.starts_with('+') { None } else { text.parse::<u64>().ok() }
    };
    if let Some(last) = text.trim().strip_prefix('-') {
        return number(last).filter(|&rows| rows <= LAST_ROWS_MAX).map(Rows::Last);
    }
    Some(match text.split_once(',') {
        None => Rows::Range { skip: 0, end: number(text)? },
        Some((low, high)) => Rows::Range { skip: number(low)?, end: number(high)? },
    })
}

/// Returns the format of the file, its suffix, and its content type.
fn form(params: &Params) -> Result<(ResultForm, &'static str, &'static str), Refusal> {
    Ok(match params.find("fmt").unwrap_or("csv") {
        "csv" | "" => (ResultForm::Delimited(csv(params)?), "csv", "text/csv; charset=utf-8"),
        "ndjson" | "jsonl" => (ResultForm::Ndjson, "ndjson", "application/x-ndjson"),
        "arrow" => (ResultForm::ArrowStream, "arrow", "application/vnd.apache.arrow.stream"),
        "parquet" => {
            (ResultForm::Parquet(parquet(params)?), "parquet", "application/vnd.apache.parquet")
        }
        other => {
            let message = format!("fmt is csv, ndjson, parquet or arrow, not '{other}'");
            return Err(Refusal::new("22023", message));
        }
    })
}

fn csv(params: &Params) -> Result<DelimitedForm, Refusal> {
    let delimiter = match params.find("delimiter").map(str::as_bytes) {
        None | Some([]) => b',',
        Some(&[byte]) if byte.is_ascii() && !matches!(byte, b'"' | b'\r' | b'\n' | 0) => byte,
        Some(_) => {
            let message = "delimiter is one ASCII character, and neither a quote nor a line end";
            return Err(Refusal::new("22023", message));
        }
    };
    Ok(DelimitedForm { delimiter, header: !params.is_on("nm"), ..DelimitedForm::questdb() })
}

fn parquet(params: &Params) -> Result<ParquetForm, Refusal> {
    let refuse =
        |name: &str| Refusal::new("22023", format!("parameter `{name}` does not take this value"));
    let number = |name: &str| match params.find(name) {
        None => Ok(None),
        Some(text) => text.parse::<u32>().map(Some).map_err(|_| refuse(name)),
    };
    let level = number("compression_level")?;
    let mut form = ParquetForm::default();
    if let Some(codec) = params.find("compression_codec").or(level.map(|_| "zstd")) {
        form = form.with_codec(codec, level).ok_or_else(|| refuse("compression_codec"))?;
    }
    Ok(match number("row_group_size")? {
        Some(rows) => form.with_group_rows(rows.into()),
        None => form,
    })
}

/// Removes all signs that may not stand in a file name (exp-3).
fn harmless(name: &str) -> String {
    let is_fine = |char: &char| (' '..='~').contains(char) && !matches!(char, '"' | '\\' | '/');
    name.chars().filter(is_fine).take(200).collect()
}

/// Answers a request to `/exp`.
pub(super) async fn export(context: &mut RequestContext<'_>) -> Flow {
    let counted = CountedQuery::begin(context.server, "http");
    let (flow, code) = match prepare(context).await {
        Ok((request, services)) => run(context, request, &services).await,
        Err(stopped) => stopped.answer(context).await,
    };
    counted.end(code);
    flow
}

async fn prepare(
    context: &mut RequestContext<'_>,
) -> Result<(ExportRequest, Arc<Services>), Stopped> {
    let params = read_params(context, PARAMETERS).await?;
    let max = context.server.config.query.timeout_max;
    let timeout = timeout_of(context.head, &params, max);
    let timeout = timeout.map_err(|message| Refusal::new("22023", message))?;
    let request = ExportRequest::new(&params, timeout, context.now())?;
    let services = services_for(context, &request.sql)?;
    Ok((request, services))
}

async fn run(
    context: &mut RequestContext<'_>,
    mut request: ExportRequest,
    services: &Arc<Services>,
) -> (Flow, &'static str) {
    // Parquet is compressed already.
    let coding = match request.form {
        ResultForm::Parquet(_) => Coding::Plain,
        _ => Coding::of(context.head),
    };
    let head = coding
        .describe(Response::new(200, request.content_type, ""))
        .with("Content-Disposition", format!("attachment; filename=\"{}\"", request.file_name));
    let timeout = request.timeout(services.timeout);
    request.timeout = Some(timeout);
    let (sql, id) = (request.sql.clone(), context.request_id.clone());
    let (session, work) = (session(context), Arc::clone(services));
    let account = context.server.budget.account(Claimant::of(&session));
    // Only statements with rows can be exported; others must not be executed.
    session.keep_read_only();
    let (engine, own) = (Arc::clone(services), session.clone());
    let cancel_handle = CancelHandle::default();
    let ending = cancel_handle.clone();
    let unbegun = Unbegun::new(&sql, &id, request.timeout, &session, services);
    let running = Running::admitted(
        Place::Lane,
        ending,
        engine,
        own,
        unbegun,
        move |sender, slot| async move {
            let bytes = Bytes::default();
            let compressor = coding.compressor();
            let (slot, refusal) = match slot {
                Ok(slot) => (slot, None),
                Err(refusal) => (None, Some(refusal.of(&request.sql))),
            };
            let mut writing = Writing {
                sender,
                cancel_handle,
                slot,
                sent_any: false,
                bytes,
                compressor,
                account,
            };
            let done = match refusal {
                Some(refusal) => Err(refusal),
                None => writing.run(&request, session, &work).await,
            };
            let last = match done {
                Ok(last) => last,
                Err(refusal) if !writing.sent_any => {
                    Some(Piece::Whole(refusal.response(&id), refusal.code))
                }
                Err(refusal) => Some(Piece::Cut(refusal.code)), // exp-2
            };
            send_last(last, &writing.sender, &mut writing.slot).await;
        },
    );
    deliver(context, running, head, timeout, &sql).await
}

/// The bytes that a writer has written and that are not sent yet.
#[derive(Clone, Debug, Default)]
struct Bytes(Arc<Mutex<Vec<u8>>>);

impl Bytes {
    /// Takes the bytes, if there are at least this many.
    fn take(&self, least: usize) -> Option<Vec<u8>> {
        let mut bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (least <= bytes.len()).then(|| std::mem::take(&mut *bytes))
    }
}

impl Write for Bytes {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The engine's side of a file.
struct Writing {
    sender: Sender<Piece>,
    cancel_handle: CancelHandle,
    /// `None` until the statement is admitted.
    slot: Option<StreamingSlot>,
    sent_any: bool,
    bytes: Bytes,
    compressor: Compressor,
    account: Arc<Account>,
}

/// A function that compresses bytes: some of the answer, or the last ones.
type Compress = fn(&mut Compressor, Vec<u8>) -> Vec<u8>;

impl Writing {
    /// Runs the query, and returns the last part to be sent, if any.
    async fn run(
        &mut self,
        request: &ExportRequest,
        session: Session,
        services: &Services,
    ) -> Result<Option<Piece>, Refusal> {
        let sql = request.sql.as_str();
        let cancel_handle = Some(self.cancel_handle.clone());
        let options = StatementOptions { timeout: request.timeout, session, cancel_handle };
        let answer = services.engine.execute_bound(sql, &request.parameters, &options).await;
        let no_rows =
            || Refusal::new("42601", "only statements that give rows can be exported").of(sql);
        let answer = answer.map_err(|error| match error {
            // The session is read-only.
            QueryError::ReadOnly { .. } => no_rows(),
            error => Refusal::of_error(&error, sql),
        })?;
        let Answer::Rows { schema, stream, .. } = answer else { return Err(no_rows()) };
        if self.sender.send(Piece::Running).await.is_err() {
            return Ok(None);
        }
        match self.file(request, schema, stream).await {
            Ok(()) => Ok(Some(Piece::End)),
            Err(Ended::Abandoned) => Ok(None),
            Err(Ended::Failed(error)) => Err(Refusal::of_error(&error, sql)),
            Err(Ended::TooLarge) => {
                let message = format!("the last rows have more than {LAST_BYTES_MAX} bytes");
                Err(Refusal::new("53200", message).of(sql))
            }
            Err(Ended::NoMemory(error)) => Err(Refusal::new("53200", error.to_string()).of(sql)),
            Err(Ended::NotWritten(message)) => Err(Refusal::new("0A000", message).of(sql)),
            Err(Ended::NotFinished(message)) => Err(Refusal::new("XX000", message).of(sql)),
        }
    }

    async fn file(
        &mut self,
        request: &ExportRequest,
        schema: SchemaRef,
        stream: SendableRecordBatchStream,
    ) -> Result<(), Ended> {
        let writer = request.form.writer(self.bytes.clone(), schema);
        let mut writer = writer.map_err(|error| Ended::NotWritten(error.to_string()))?;
        match request.rows {
            Rows::Range { skip, end } => self.range(writer.as_mut(), stream, skip, end).await?,
            Rows::Last(rows) => self.last(writer.as_mut(), stream, rows).await?,
        }
        writer.finish().map_err(|error| Ended::NotFinished(error.to_string()))?;
        // Without this part, an answer without bytes would not begin.
        let rest = self.bytes.take(0).unwrap_or_default();
        self.send(rest, Compressor::finish).await
    }

    async fn range(
        &mut self,
        writer: &mut (dyn ResultWriter + Send),
        mut stream: SendableRecordBatchStream,
        skip: u64,
        end: u64,
    ) -> Result<(), Ended> {
        let mut seen = 0_u64;
        while seen < end {
            let Some(batch) = stream.next().await else { break };
            let batch = batch.map_err(|error| Ended::Failed(QueryError::from(error)))?;
            let rows = batch.num_rows() as u64;
            let from = skip.saturating_sub(seen).min(rows);
            let to = (end - seen).min(rows).max(from);
            seen += rows;
            self.write(writer, &slice(&batch, from, to)).await?;
        }
        Ok(())
    }

    async fn last(
        &mut self,
        writer: &mut (dyn ResultWriter + Send),
        mut stream: SendableRecordBatchStream,
        wanted: u64,
    ) -> Result<(), Ended> {
        let (mut held, mut rows, mut bytes) = (VecDeque::new(), 0_u64, 0_usize);
        let mut counted = self.account.reserve(0).map_err(Ended::NoMemory)?;
        while let Some(batch) = stream.next().await {
            let batch: RecordBatch =
                batch.map_err(|error| Ended::Failed(QueryError::from(error)))?;
            rows += batch.num_rows() as u64;
            bytes += batch.get_array_memory_size();
            held.push_back(batch);
            while let Some(first) = held.front()
                && wanted + first.num_rows() as u64 <= rows
            {
                rows -= first.num_rows() as u64;
                bytes -= first.get_array_memory_size();
                held.pop_front();
            }
            if LAST_BYTES_MAX < bytes {
                return Err(Ended::TooLarge);
            }
            counted.try_resize(bytes).map_err(Ended::NoMemory)?;
        }
        for batch in held {
            let count = batch.num_rows() as u64;
            let from = rows.saturating_sub(wanted).min(count);
            rows -= from;
            self.write(writer, &slice(&batch, from, count)).await?;
        }
        Ok(())
    }

    async fn write(
        &mut self,
        writer: &mut (dyn ResultWriter + Send),
        batch: &RecordBatch,
    ) -> Result<(), Ended> {
        let rows = batch.num_rows();
        let at_a_time = rows_of(batch, WRITTEN_BYTES);
        for from in (0..rows).step_by(at_a_time) {
            let part = batch.slice(from, at_a_time.min(rows - from));
            writer.write(&part).map_err(|error| Ended::NotWritten(error.to_string()))?;
            if let Some(bytes) = self.bytes.take(PART_BYTES) {
                self.send(bytes, Compressor::push).await?;
            }
        }
        Ok(())
    }

    async fn send(&mut self, bytes: Vec<u8>, compress: Compress) -> Result<(), Ended> {
        let room = match &mut self.slot {
            Some(slot) => slot.room(&self.sender, &self.cancel_handle).await,
            None => room(&self.sender, &self.cancel_handle).await,
        };
        let room = room.ok_or_else(|| Ended::Failed(canceled(&self.cancel_handle)))?;
        let room = room.map_err(|_| Ended::Abandoned)?;
        self.sent_any = true;
        let is_large = WRITTEN_BYTES * 2 <= bytes.len();
        room.send(Piece::Rows(compress(&mut self.compressor, bytes)));
        if is_large {
            return Ok(wait_until_taken(&mut self.slot, &self.sender, &self.cancel_handle).await?);
        }
        Ok(())
    }
}

/// The bytes of rows that are written at a time: they wait for the client without being charged to
/// the statement, as the batch is (exp-5).
const WRITTEN_BYTES: usize = 256 << 10;

/// The reason why there are no more rows.
enum Ended {
    /// The receiver has gone.
    Abandoned,
    Failed(QueryError),
    /// The rows that have to be held are too many bytes (exp-1).
    TooLarge,
    /// The budget of connections has no room for them (exp-4).
    NoMemory(OverBudget),
    /// The format cannot represent one of the values.
    NotWritten(String),
    /// The end of the file could not be written.
    NotFinished(String),
}

impl From<Unsent> for Ended {
    fn from(unsent: Unsent) -> Ended {
        match unsent {
            Unsent::Abandoned => Ended::Abandoned,
            Unsent::Canceled(reason) => Ended::Failed(QueryError::Canceled { reason }),
        }
    }
}

fn slice(batch: &RecordBatch, from: u64, to: u64) -> RecordBatch {
    let count = |rows: u64| usize::try_from(rows).expect("rows of a batch");
    batch.slice(count(from), count(to - from))
}

#[cfg(test)]
mod tests {
    use arrow::array::StringArray;
    use bytes::BytesMut;

    use super::super::params::tests::check_read;
    use super::super::wire::Head;
    use super::*;

    fn request(text: &str) -> Result<ExportRequest, Refusal> {
        ExportRequest::new(&Params::parse(text, PARAMETERS).unwrap(), None, 1_763_792_405_123_456)
    }

    #[test]
    fn all_parameters_are_read() {
        let head = Head::of_text(&mut BytesMut::from("GET /exp HTTP/1.0\r\n\r\n"));
        check_read(PARAMETERS, &["query=x", "query=x&fmt=parquet"], |params| {
            timeout_of(&head, params, FILE_TIMEOUT).unwrap();
            ExportRequest::new(params, None, 0).unwrap();
        });
    }

    #[test]
    fn limits_are_rows_from_zero_on() {
        for (text, expected) in [
            ("10", Some(Rows::Range { skip: 0, end: 10 })),
            ("2, 5", Some(Rows::Range { skip: 2, end: 5 })),
            ("-3", Some(Rows::Last(3))),
            ("-1000001", None),
            ("x", None),
            ("+1", None),
            ("1,", None),
        ] {
            assert_eq!(limit(text), expected, "{text}");
        }
    }

    // A timeout of five minutes replaced `query.timeout`, even where that was longer.
    #[test]
    fn a_file_has_as_long_as_any_statement_or_longer() {
        let after = |minutes| Timeout::After(Duration::from_mins(minutes));
        for (form, usual, expected) in [
            ("csv", after(1), after(1)),
            ("parquet", after(1), after(5)),
            ("parquet", after(30), after(30)),
            ("ndjson", Timeout::Never, Timeout::Never),
        ] {
            let request = request(&format!("query=x&fmt={form}")).unwrap();
            assert_eq!(request.timeout(usual), expected, "{form}");
            let limited = ExportRequest { timeout: Some(after(2)), ..request };
            assert_eq!(limited.timeout(usual), after(2), "{form}");
        }
    }

    /// Fifty clients that read nothing of wide rows had 31 MB each, which no limit saw.
    #[test]
    fn few_wide_rows_are_written_at_a_time() {
        let batch = |bytes: usize, rows: usize| {
            let texts = StringArray::from_iter_values((0..rows).map(|_| "x".repeat(bytes)));
            RecordBatch::try_from_iter([("t", Arc::new(texts) as _)]).unwrap()
        };
        assert_eq!(rows_of(&batch(1, 1_000), WRITTEN_BYTES), 1_000, "exp-5");
        let wide = rows_of(&batch(16 << 10, 100), WRITTEN_BYTES);
        assert!((8..=16).contains(&wide), "exp-5: {wide}");
        assert_eq!(rows_of(&batch(1 << 20, 3), WRITTEN_BYTES), 1, "exp-5");
        assert_eq!(rows_of(&batch(1, 0), WRITTEN_BYTES), 1, "exp-5");
    }

    #[test]
    fn no_name_does_harm() {
        let name = |text: &str| request(text).unwrap().file_name;
        let evil = name("query=x&filename=../../x%0d%0aSet-Cookie:a%22");
        assert_eq!(evil, "....xSet-Cookie:a", "exp-3");
        assert_eq!(name("query=x"), "tidegate-query-1763792405123.csv");
        assert_eq!(name("query=x&fmt=parquet&filename="), "tidegate-query-1763792405123.parquet");
    }

    #[test]
    fn invalid_formats_of_an_export_are_refused() {
        for text in ["fmt=xml", "delimiter=ab", "delimiter=%22", "fmt=parquet&compression_codec=x"]
        {
            let refusal = request(&format!("query=x&{text}")).unwrap_err();
            assert_eq!(refusal.code, "22023", "{text}");
        }
        assert_eq!(request("query= ").unwrap_err().code, "42601");
        let form = request("query=x&nm=true&delimiter=;").unwrap().form;
        let ResultForm::Delimited(form) = form else { panic!("CSV") };
        assert_eq!((form.header, form.delimiter), (false, b';'));
    }
}
