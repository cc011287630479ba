//! COPY: files are read and written through `bulk`, and queries are planned as all others are.
//!
//! - Rows of a table or a query are as of the moment in which the statement was planned,
//!   even if they are written later.
//! - copy-2. A statement that waits for its job ends the job with itself: by its timeout, a cancel,
//!   or the disconnect of its client. A statement that does not wait has no further effect on the
//!   job.
//! - Rows that come over a connection in a transaction, or for a temporary table, are
//!   buffered, as those of INSERT are (`transaction_buffer`); rows imported from a file are
//!   committed at once.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{Field, Schema as ArrowSchema, SchemaRef};
use datafusion::common::DataFusionError;
use datafusion::common::runtime::SpawnedTask;
use datafusion::execution::SendableRecordBatchStream;
use tidegate_model::schema::same_name;
use tidegate_model::{Schema, is_system_table};
use tidegate_storage::Error as StorageError;
use tidegate_storage::segment::arrow_field;

use crate::answer::Answer;
use crate::bulk::{BulkExport, BulkImport, BulkIo, BulkJob, BulkOutcome, BulkSink};
use crate::cancel::{CancelState, Timeout};
use crate::engine::Engine;
use crate::error::{BulkError, Error, Result};
use crate::names::{SYSTEM_SCHEMA, TEMPORARY_SCHEMA};
use crate::parse::copy_options::{CopyFormat, CopyOptions, Placed};
use crate::parse::statement::copy::{Copy, CopyPlace, CopySource};
use crate::parse::{Name, Statement, blanked, parse_statement};
use crate::position::Position;
use crate::session::{Session, StatementOptions};
use crate::system_tables::{copied, copy_canceled, copy_queued, snapshot};
use crate::transaction_buffer::CopyBuffer;

/// A COPY whose rows go over the connection of its client.
pub enum CopyStream {
    /// `COPY ... FROM STDIN`.
    In {
        /// Takes the bytes of the text or csv format.
        sink: Box<dyn BulkSink>,
        /// The format of the client. The caller decodes the binary format: `sink` takes text then.
        format: CopyFormat,
        /// The number of columns of a row; 0 if the import creates the table.
        columns: usize,
        /// The columns; empty if the import creates the table.
        fields: SchemaRef,
        /// In a transaction or for a temporary table, the buffer that gets the rows when `sink` has
        /// finished.
        buffer: Option<Arc<CopyBuffer>>,
    },
    /// `COPY ... TO STDOUT`.
    Out {
        /// The names and types of the columns.
        schema: SchemaRef,
        /// The rows, as they are computed. Dropping it stops the statement.
        stream: SendableRecordBatchStream,
        /// The format: csv, text or binary.
        format: CopyFormat,
        /// The other options of the format.
        options: Box<CopyOptions>,
    },
}

impl std::fmt::Debug for CopyStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            CopyStream::In { format, .. } => f.debug_struct("In").field("format", format).finish(),
            CopyStream::Out { format, .. } => {
                f.debug_struct("Out").field("format", format).finish()
            }
        }
    }
}

impl Engine {
    /// Starts a COPY over a connection: FROM STDIN or TO STDOUT. `None` for any other statement,
    /// which [`execute_with`](Self::execute_with) executes.
    ///
    /// # Errors
    /// As those of `execute_with`.
    pub async fn copy_stream(
        &self,
        sql: &str,
        options: &StatementOptions,
    ) -> Result<Option<CopyStream>> {
        let statement = parse_statement(sql)?;
        self.admit(&options.session, &statement, sql)?;
        let Statement::Copy(copy) = statement else { return Ok(None) };
        match *copy {
            Copy::Import {
                table,
                columns,
                from: CopyPlace::Connection { offset },
                options: copy_options,
            } => {
                if options.session.is_read_only() {
                    return Err(Error::ReadOnly { statement: "COPY" });
                }
                let path = Placed { text: "STDIN".to_owned(), offset };
                let begun = self.copy_in(sql, table, columns, path, copy_options, &options.session);
                Ok(Some(begun.await?))
            }
            Copy::Export { what, to: CopyPlace::Connection { offset }, options: copy_options } => {
                let format = copy_options.format.unwrap_or(CopyFormat::Text);
                if !matches!(format, CopyFormat::Csv | CopyFormat::Text | CopyFormat::Binary) {
                    let feature = "COPY TO STDOUT in a format other than csv, text and binary";
                    let position = Some(Position::at(sql, offset));
                    return Err(Error::NotSupported { position, feature });
                }
                let (query, _) = self.query_of(sql, &options.session, &what)?;
                let Answer::Rows { schema, stream, .. } =
                    self.execute_with(&query, options).await?
                else {
                    return Err(not_a_query(sql, &what));
                };
                Ok(Some(CopyStream::Out {
                    schema,
                    stream,
                    format,
                    options: Box::new(copy_options),
                }))
            }
            _ => Ok(None),
        }
    }

    async fn copy_in(
        &self,
        sql: &str,
        table: Name,
        columns: Vec<Name>,
        path: Placed,
        mut options: CopyOptions,
        session: &Session,
    ) -> Result<CopyStream> {
        let format = *options.format.get_or_insert(CopyFormat::Text);
        match format {
            CopyFormat::Csv | CopyFormat::Text => {}
            CopyFormat::Binary => options.format = Some(CopyFormat::Text),
            CopyFormat::Parquet | CopyFormat::Jsonl | CopyFormat::Arrow => {
                let feature = "COPY FROM STDIN in a format other than csv, text and binary";
                let position = Some(Position::at(sql, path.offset));
                return Err(Error::NotSupported { position, feature });
            }
        }
        let temporary = session.own_changes().and_then(|seen| seen.named(&table).map(Arc::clone));
        if let Some(view) = temporary.as_ref().filter(|it| it.is_view()) {
            return Err(StorageError::IsView { view: view.name.clone() }.into());
        }
        let visible = session.visible(self.database());
        let known = match &temporary {
            Some(temporary) => Some(Arc::clone(&temporary.schema)),
            None => visible.schema_of(&table.text),
        };
        let is_held = temporary.is_some() || session.is_in_transaction();
        // Only the text formats can create a table, and a table that does not exist cannot be
        // buffered for.
        if known.is_none() && (is_held || format == CopyFormat::Binary) {
            let position = Some(Position::at(sql, table.offset));
            return Err(Error::NoSuchTable { position, table: table.text });
        }
        if let Some(schema) = &known {
            check_filled(sql, &table, &columns, schema)?;
        }
        let fields = known.as_ref().map(|known| fields_of(sql, known, &columns));
        let fields = fields.transpose()?.unwrap_or_default();
        let count = if columns.is_empty() { fields.len() } else { columns.len() };
        let id = temporary.map(|it| it.id).or_else(|| visible.table_id(&table.text));
        let buffer = match (id, known) {
            (Some(id), Some(schema)) if is_held => {
                Some(Arc::new(CopyBuffer::new(session, id, &table.text, schema)))
            }
            _ if is_held => {
                let position = Some(Position::at(sql, table.offset));
                return Err(Error::NoSuchTable { position, table: table.text });
            }
            _ => None,
        };
        let import = bulk_import(sql, table, columns, path, options)?;
        let sink = self.bulk().import_bytes(import, buffer.clone(), session).await;
        let sink = sink.map_err(|error| placed(sql, error))?;
        let fields = Arc::new(ArrowSchema::new(fields));
        Ok(CopyStream::In { sink, format, columns: count, fields, buffer })
    }

    /// Executes a COPY that needs no connection.
    pub(crate) async fn copy(
        &self,
        sql: &str,
        copy: Copy,
        stop: &CancelState,
        options: &StatementOptions,
    ) -> Result<RecordBatch> {
        let session = &options.session;
        let (job, waits) = match copy {
            Copy::Cancel { id } => {
                check_id(sql, &id)?;
                let (bulk, text, session) =
                    (Arc::clone(self.bulk()), id.text.clone(), session.clone());
                // Blocking, because cancelling writes the outcome of the job.
                let canceled = SpawnedTask::spawn_blocking(move || bulk.cancel(&text, &session));
                let status = canceled.join_unwind().await.map_err(|error| {
                    Error::from(DataFusionError::ExecutionJoin(Box::new(error)))
                })?;
                return copy_canceled(&id.text, status);
            }
            Copy::Import { from: CopyPlace::Connection { offset }, .. } => {
                let (feature, instead) = ("COPY FROM STDIN by this protocol", "see /imp");
                let position = Position::at(sql, offset);
                return Err(Error::Refused { position, feature, instead });
            }
            Copy::Export { to: CopyPlace::Connection { offset }, .. } => {
                let (feature, instead) = ("COPY TO STDOUT by this protocol", "see /exp");
                let position = Position::at(sql, offset);
                return Err(Error::Refused { position, feature, instead });
            }
            Copy::Import { table, columns, from: CopyPlace::File(path), options } => {
                let waits = options.wait;
                if let Some(schema) = self.database().schema_of(&table.text) {
                    check_filled(sql, &table, &columns, &schema)?;
                }
                let import = bulk_import(sql, table, columns, path, options)?;
                (self.bulk().import(import, session).await, waits)
            }
            Copy::Export { what, to: CopyPlace::File(path), options: copy_options } => {
                let waits = copy_options.wait;
                let (query, name) = self.query_of(sql, session, &what)?;
                // copy-2: without `wait`, the rows have no timeout.
                let timeout = if waits { options.timeout } else { Some(Timeout::Never) };
                let of_rows = StatementOptions { timeout, ..options.clone() };
                let answer = Box::pin(self.execute_with(&query, &of_rows)).await?;
                let Answer::Rows { stream, .. } = answer else {
                    return Err(not_a_query(sql, &what));
                };
                let export = BulkExport { what: name, path, options: copy_options };
                (self.bulk().export(export, stream, session).await, waits)
            }
        };
        let job = job.map_err(|error| placed(sql, error))?;
        if !self.waits(waits) {
            let id = job.id().to_owned();
            job.detach();
            return copy_queued(&id);
        }
        let (id, outcome) = wait(job, stop).await?;
        copied(&id, &outcome.map_err(|error| placed(sql, error))?)
    }

    /// Returns the columns of the answer to a COPY; `None` if it needs a connection.
    pub(crate) fn copy_columns(&self, copy: &Copy) -> Result<Option<SchemaRef>> {
        let waits = match copy {
            Copy::Cancel { .. } => return Ok(Some(copy_canceled("", "")?.schema())),
            Copy::Import { from: CopyPlace::File(_), options, .. }
            | Copy::Export { to: CopyPlace::File(_), options, .. } => self.waits(options.wait),
            Copy::Import { .. } | Copy::Export { .. } => return Ok(None),
        };
        let answer = if waits { copied("", &BulkOutcome::default()) } else { copy_queued("") };
        Ok(Some(answer?.schema()))
    }

    /// Returns true if a COPY with or without the option `wait` waits for its job.
    fn waits(&self, option: bool) -> bool {
        option || self.bulk().ends_with_its_statement()
    }

    /// The query for the rows of an export, and its name for messages.
    fn query_of(
        &self,
        sql: &str,
        session: &Session,
        what: &CopySource,
    ) -> Result<(String, String)> {
        match what {
            // Blanks keep the positions in errors.
            CopySource::Query(query) => {
                Ok((blanked(&sql[..query.end], query.start), "query".to_owned()))
            }
            CopySource::Table { table, columns } => {
                let visible = session.visible(self.database());
                let snapshot_of_table = snapshot(&visible, session, sql, table)?;
                for column in columns {
                    if snapshot_of_table.schema.find(&column.text).is_none() {
                        let position = Some(Position::at(sql, column.offset));
                        let column = column.text.clone();
                        return Err(Error::NoSuchColumn { position, column, similar: None });
                    }
                }
                let list: Vec<String> = columns.iter().map(|it| quoted(&it.text)).collect();
                let list = if list.is_empty() { "*".to_owned() } else { list.join(", ") };
                let system = format!("{SYSTEM_SCHEMA}.");
                let temporary = format!("{TEMPORARY_SCHEMA}.");
                let in_schema = [system, temporary].into_iter().find_map(|schema| {
                    let name = table.text.strip_prefix(&schema)?;
                    Some(format!("{schema}{}", quoted(name)))
                });
                let name = in_schema.unwrap_or_else(|| match table.is_public {
                    true => format!("public.{}", quoted(&table.text)),
                    false => quoted(&table.text),
                });
                Ok((format!("SELECT {list} FROM {name}"), snapshot_of_table.name.clone()))
            }
        }
    }
}

/// Refuses COPY FROM with a column list that lacks a column with a default: COPY fills no columns.
fn check_filled(sql: &str, table: &Name, columns: &[Name], schema: &Schema) -> Result<()> {
    let is_given = |name: &str| columns.iter().any(|it| same_name(&it.text, name));
    let filled = schema.defaults().iter().filter_map(|(id, _)| schema.column(*id));
    match filled.map(|column| &column.name).find(|name| !is_given(name)) {
        Some(_) if !columns.is_empty() => Err(Error::Refused {
            position: Position::at(sql, table.offset),
            feature: "COPY FROM without a column that has a DEFAULT or an identity",
            instead: "name the column and give its values, or INSERT the rows",
        }),
        _ => Ok(()),
    }
}

/// The Arrow fields of the columns of an import.
fn fields_of(sql: &str, schema: &Schema, columns: &[Name]) -> Result<Vec<Field>> {
    if columns.is_empty() {
        return Ok(schema.columns().iter().map(arrow_field).collect());
    }
    let field = |name: &Name| match schema.find(&name.text) {
        Some(column) => Ok(arrow_field(column)),
        None => {
            let (position, column) = (Some(Position::at(sql, name.offset)), name.text.clone());
            Err(Error::NoSuchColumn { position, column, similar: None })
        }
    };
    columns.iter().map(field).collect()
}

/// Waits for the end of a job, and ends it with the statement (copy-2).
async fn wait(
    mut job: Box<dyn BulkJob>,
    stop: &CancelState,
) -> Result<(String, std::result::Result<BulkOutcome, BulkError>)> {
    let id = job.id().to_owned();
    tokio::select! {
        biased;
        outcome = job.ended() => Ok((id, outcome)),
        reason = stop.ended() => Err(reason.into()),
    }
}

fn bulk_import(
    sql: &str,
    table: Name,
    columns: Vec<Name>,
    path: Placed,
    options: CopyOptions,
) -> Result<BulkImport> {
    let Name { text, offset, .. } = table;
    if is_system_table(&text) {
        let position = Some(Position::at(sql, offset));
        return Err(Error::SystemTable { position, table: text });
    }
    for (at, column) in columns.iter().enumerate() {
        let is_same = |other: &Name| other.text.to_lowercase() == column.text.to_lowercase();
        if columns[..at].iter().any(is_same) {
            let position = Position::at(sql, column.offset);
            return Err(Error::ColumnTwice { position, column: column.text.clone() });
        }
    }
    let columns = columns.into_iter().map(|column| column.text).collect();
    Ok(BulkImport { table: Placed { text, offset }, columns, path, options })
}

fn check_id(sql: &str, id: &Placed) -> Result<()> {
    let is_id = id.text.len() == 16 && id.text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_id {
        return Ok(());
    }
    let (position, option) = (Position::at(sql, id.offset), "COPY CANCEL");
    let expected = "the id of a job, 16 hex digits".to_owned();
    Err(Error::CopyOption { position, option, expected })
}

fn not_a_query(sql: &str, what: &CopySource) -> Error {
    let offset = match what {
        CopySource::Query(query) => query.start,
        CopySource::Table { table, .. } => table.offset,
    };
    let (option, expected) = ("COPY TO", "a query that gives rows".to_owned());
    Error::CopyOption { position: Position::at(sql, offset), option, expected }
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn placed(sql: &str, error: BulkError) -> Error {
    let position = error.offset.map(|offset| Position::at(sql, offset));
    Error::Bulk { position, source: Box::new(error) }
}

impl Engine {
    pub(crate) fn bulk(&self) -> &Arc<dyn BulkIo> {
        &self.system().bulk
    }
}
