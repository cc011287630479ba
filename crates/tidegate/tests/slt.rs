//! Runs every `tests/slt/*.slt` in process, each on a database of its own that is removed
//! afterwards.
//!
//! Column types: `B` boolean, `D` date, `I` integer, `P` timestamp, `R` number with a point, `T`
//! text, `?` any other. NULL is shown as `NULL`, empty text as `(empty)`. `<slt:ignore>` matches
//! any text. With `TIDEGATE_SLT_COMPLETE=1` in the environment the expectations are written anew.
//!
//! Rows come in by two statements that only this harness knows:
//! - `import FILE table=T [timestamp=C] [partition=UNIT] [symbols=A,B]` imports
//!   `tests/slt/data/FILE`;
//! - `import into T [timestamp=C] [partition=UNIT] [symbols=A,B] as QUERY` imports the rows of a
//!   query.
//!
//! Each is one commit. `reopen` closes the database and opens it again, `names of QUERY` gives the
//! names of the columns of a query, and `notices of STATEMENT` its notices. `with VALUE, ..: QUERY`
//! gives values to `$1`, `$2`, ...
//!
//! `begin`, `commit`, `rollback`, `savepoint NAME`, `rollback to NAME` and `release NAME` act on
//! the transaction of the session; another session runs `other: STATEMENT`.

#![expect(clippy::disallowed_methods, reason = "these tests are about databases on a real disk")]

#[path = "slt/host.rs"]
mod host;
#[path = "slt/foreign.rs"]
mod foreign;
#[path = "it/reasons.rs"]
mod reasons;

use std::fmt::Write as _;
use std::net::Ipv4Addr;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{
    DataType, Date32Type, Field, SchemaRef, TimeUnit as ArrowUnit, TimestampMicrosecondType,
    TimestampNanosecondType, UInt32Type,
};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use futures::TryStreamExt;
use libtest_mimic::{Arguments, Failed, Trial};
use sqllogictest::{AsyncDB, ColumnType, DBOutput, Runner};
use tidegate_ingest::{
    ColumnSource, DialectOptions, EmptyFields, Existing, ExtraFields, FileFormat, Header,
    ImportOptions, MissingFields, OnError, Progress, Quote, RejectList, RowsTo, Source,
};
use tidegate_model::time::{CivilDate, IsoTimestamp};
use tidegate_model::{ByteCount, PartitionUnit, TimeUnit, Timestamp};
use tidegate_platform::{IoMode, RealDisk, SystemClock};
use tidegate_query::{
    Access, Answer, Engine, EngineOptions, Parameter, STACK_BYTES, Session, StatementOptions,
};
use tidegate_storage::{Database, OpenOptions, TYPE_KEY};

use host::TestHost;

/// Threads of the runtime: more than a statement has partitions. A join whose condition is not an
/// equality occupies a thread for a whole batch, and the task that ends such a statement needs a
/// thread too.
const WORKERS: usize = 8;

/// Threads of a query: more than one, so that plans and scans are those of a real machine.
const THREADS: NonZeroUsize = NonZeroUsize::new(4).expect("4 is not 0");
const MEMORY_MAX: ByteCount = ByteCount(256 << 20);

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let folder = slt_folder();
    let mut files = Vec::new();
    for entry in std::fs::read_dir(&folder).expect("tests/slt is there") {
        let path = entry.expect("tests/slt can be listed").path();
        if path.extension().is_some_and(|extension| extension == "slt") {
            files.push(path);
        }
    }
    files.sort();
    let is_complete = std::env::var_os("TIDEGATE_SLT_COMPLETE").is_some_and(|value| value == "1");
    let trials = files.into_iter().map(|path| {
        let name = path.file_stem().expect("it has a name").to_string_lossy().into_owned();
        Trial::test(format!("slt::{name}"), move || run_file(&path, is_complete))
    });
    let mut trials = trials.collect::<Vec<_>>();
    trials.push(Trial::test(
        "foreign::the_suite_of_datafusion_differs_only_as_listed",
        foreign::the_suite_of_datafusion_differs_only_as_listed,
    ));
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn slt_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/slt")
}

fn run_file(path: &Path, is_complete: bool) -> Result<(), Failed> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .thread_stack_size(STACK_BYTES)
        .enable_time()
        .build()?;
    runtime.block_on(async {
        let mut runner = Runner::new(|| async { TestDatabase::new(MEMORY_MAX) });
        runner.with_column_validator(sqllogictest::strict_column_validator);
        if is_complete {
            let written = runner
                .update_test_file(
                    path,
                    " ",
                    sqllogictest::default_validator,
                    sqllogictest::default_normalizer,
                    sqllogictest::strict_column_validator,
                )
                .await;
            return written.map_err(|error| Failed::from(error.to_string()));
        }
        runner.run_file_async(path).await.map_err(|error| Failed::from(error.to_string()))
    })
}

/// The error of a record: the message of the error and of its causes.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct TestError(String);

impl TestError {
    fn of(error: &(dyn std::error::Error + 'static)) -> TestError {
        let causes = std::iter::successors(Some(error), |error| error.source());
        TestError(causes.map(ToString::to_string).collect::<Vec<_>>().join(": "))
    }
}

impl From<tidegate_query::Error> for TestError {
    fn from(error: tidegate_query::Error) -> TestError {
        TestError::of(&error)
    }
}

/// The type of a column of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Letter(char);

impl ColumnType for Letter {
    fn from_char(value: char) -> Option<Letter> {
        "BDIPRT?".contains(value).then_some(Letter(value))
    }

    fn to_char(&self) -> char {
        self.0
    }
}

impl Letter {
    fn of(field: &Field) -> Letter {
        let named = field.metadata().get(TYPE_KEY).map(String::as_str);
        Letter(match field.data_type() {
            _ if matches!(named, Some("uuid" | "ipv4")) => 'T',
            DataType::Boolean => 'B',
            DataType::Date32 => 'D',
            ty if ty.is_integer() => 'I',
            DataType::Timestamp(..) => 'P',
            DataType::Float32 | DataType::Float64 | DataType::Decimal128(..) => 'R',
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => 'T',
            _ => '?',
        })
    }
}

/// A database in a temporary directory, which is removed with it.
struct TestDatabase {
    /// `None` only while the database is being reopened.
    engine: Option<Arc<Engine>>,
    /// The session of all statements.
    session: Session,
    folder: tempfile::TempDir,
    /// Memory limit of queries.
    memory_max: ByteCount,
    imports: usize,
}

impl TestDatabase {
    fn new(memory_max: ByteCount) -> Result<TestDatabase, TestError> {
        let folder = tempfile::tempdir().map_err(|error| TestError::of(&error))?;
        let engine = Some(open(folder.path(), memory_max)?);
        Ok(TestDatabase { engine, session: lasting_session(), folder, memory_max, imports: 0 })
    }

    fn engine(&self) -> &Arc<Engine> {
        self.engine.as_ref().expect("it is open")
    }

    fn options(&self) -> StatementOptions {
        StatementOptions { timeout: None, session: self.session.clone(), cancel_handle: None }
    }

    async fn rows(&self, sql: &str) -> Result<(SchemaRef, Vec<RecordBatch>), TestError> {
        match self.engine().execute_with(sql, &self.options()).await? {
            Answer::Rows { schema, stream, .. } => {
                let batches = stream.try_collect::<Vec<_>>().await;
                let batches = batches.map_err(tidegate_query::Error::from)?;
                for batch in &batches {
                    assert_eq!(batch.schema(), schema, "batches have the schema of the answer");
                }
                Ok((schema, batches))
            }
            Answer::Done { tag, .. } => Err(TestError(format!("{tag} gives no rows"))),
        }
    }

    /// Runs a statement on transactions; `None` if it is another statement.
    async fn transaction(&mut self, sql: &str) -> Result<Option<DBOutput<Letter>>, TestError> {
        let session = &self.session;
        let is_known = match sql.split(' ').collect::<Vec<_>>()[..] {
            ["begin"] => {
                session.begin(Access::ReadWrite);
                true
            }
            ["commit"] => {
                self.engine().commit(session).await?;
                true
            }
            ["rollback"] => {
                session.roll_back();
                true
            }
            ["savepoint", name] => session.set_savepoint(name),
            ["rollback", "to", name] => session.roll_back_to(name),
            ["release", name] => session.release_savepoint(name),
            _ => return Ok(None),
        };
        match is_known {
            true => Ok(Some(DBOutput::StatementComplete(0))),
            false => Err(TestError(format!("{sql}: there is no such savepoint"))),
        }
    }

    /// Runs `import ..`: see the top of this file.
    async fn import(&mut self, text: &str) -> Result<DBOutput<Letter>, TestError> {
        let (head, query) = match text.split_once(" as ") {
            Some((head, query)) => (head, Some(query)),
            None => (text, None),
        };
        let mut words = head.split_whitespace();
        let first = words.next().unwrap_or_default().to_owned();
        let mut options = import_options(self.folder.path());
        if first == "into" {
            words.next().unwrap_or_default().clone_into(&mut options.table);
        }
        for word in words {
            let (key, value) = word.split_once('=').unwrap_or((word, ""));
            match key {
                "table" => value.clone_into(&mut options.table),
                "timestamp" => options.timestamp = Some(value.to_owned()),
                "partition" => options.partition_by = PartitionUnit::parse(value),
                "symbols" => options.symbols = value.split(',').map(str::to_owned).collect(),
                _ => return Err(TestError(format!("import has no option {key}"))),
            }
        }
        let path = match query {
            None => slt_folder().join("data").join(&first),
            Some(query) => self.write_csv(query).await?,
        };
        options.source = Source::Files(vec![path]);
        let database = Arc::clone(self.engine().database());
        let progress = Arc::new(Progress::new());
        let summary =
            tidegate_ingest::import(&database, &options, &progress, &AtomicBool::new(false));
        let summary = summary.map_err(|error| TestError::of(&error))?;
        Ok(DBOutput::StatementComplete(summary.rows_imported))
    }

    /// Writes the rows of a query to a file, with a header.
    async fn write_csv(&mut self, query: &str) -> Result<PathBuf, TestError> {
        let (schema, batches) = self.rows(query).await?;
        let names = schema.fields().iter().map(|field| quoted(field.name()));
        let mut csv = names.collect::<Vec<_>>().join(",") + "\n";
        for batch in batches {
            let columns = cells(&batch)?;
            for row in 0..batch.num_rows() {
                let cells = columns.iter().map(|column| match &column[row] {
                    None => String::new(),
                    Some(text) => quoted(text),
                });
                csv.push_str(&cells.collect::<Vec<_>>().join(","));
                csv.push('\n');
            }
        }
        self.imports += 1;
        let path = self.folder.path().join(format!("import-{}.csv", self.imports));
        std::fs::write(&path, csv).map_err(|error| TestError::of(&error))?;
        Ok(path)
    }
}

fn lasting_session() -> Session {
    let session = Session::default();
    session.keep_lasting();
    session
}

fn open(folder: &Path, memory_max: ByteCount) -> Result<Arc<Engine>, TestError> {
    let options = OpenOptions::new(Arc::new(SystemClock));
    let database = Database::open(Arc::new(RealDisk), &folder.join("db"), &options);
    let database = database.map_err(|error| TestError::of(&error))?;
    engine(database, folder.join("spill"), memory_max)
}

fn engine(
    database: Arc<Database>,
    spill_dir: PathBuf,
    memory_max: ByteCount,
) -> Result<Arc<Engine>, TestError> {
    let options = EngineOptions::standard(THREADS, memory_max, spill_dir);
    Ok(Arc::new(Engine::new(database, &options)?.with_server_info(Arc::new(TestHost))))
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\"\""))
}

fn import_options(folder: &Path) -> ImportOptions {
    ImportOptions {
        source: Source::Files(Vec::new()),
        table: String::new(),
        columns: ColumnSource::Infer,
        fields: None,
        existing: Existing::Add,
        lengths: Vec::new(),
        timestamp: None,
        partition_by: None,
        symbols: Vec::new(),
        skip_columns: Vec::new(),
        format: FileFormat::Csv,
        dialect: DialectOptions {
            delimiter: Some(b','),
            quote: Quote::Standard,
            header: Header::Present,
            null_text: None,
            empty_fields: EmptyFields::Null,
            skip_lines: 0,
            missing_fields: MissingFields::Reject,
            extra_fields: ExtraFields::Reject,
        },
        timestamp_format: None,
        column_formats: Vec::new(),
        on_error: OnError::Abort,
        errors_max: None,
        rejects: RejectList::File(folder.join("rejects.ndjson")),
        rows_to: RowsTo::Table,
        workers: NonZeroUsize::new(2).expect("2 is not 0"),
        memory_max: MEMORY_MAX,
        io: IoMode::Auto,
    }
}

#[async_trait::async_trait]
impl AsyncDB for TestDatabase {
    type Error = TestError;
    type ColumnType = Letter;

    async fn run(&mut self, sql: &str) -> Result<DBOutput<Letter>, TestError> {
        if let Some(text) = sql.strip_prefix("import ") {
            return self.import(&text.replace('\n', " ")).await;
        }
        if sql.trim() == "reopen" {
            self.engine = None;
            self.engine = Some(open(self.folder.path(), self.memory_max)?);
            return Ok(DBOutput::StatementComplete(0));
        }
        if let Some(query) = sql.strip_prefix("names of ") {
            let (schema, _) = self.rows(query).await?;
            let names = schema.fields().iter().map(|field| field.name().as_str());
            let rows = vec![vec![names.collect::<Vec<_>>().join(", ")]];
            return Ok(DBOutput::Rows { types: vec![Letter('T')], rows });
        }
        if let Some(statement) = sql.strip_prefix("notices of ") {
            let options = self.options();
            let notices = match self.engine().execute_with(statement, &options).await? {
                Answer::Done { notices, .. } | Answer::Rows { notices, .. } => notices,
            };
            let rows = notices.into_iter().map(|notice| vec![notice]).collect();
            return Ok(DBOutput::Rows { types: vec![Letter('T')], rows });
        }
        if let Some(done) = self.transaction(sql.trim()).await? {
            return Ok(done);
        }
        if let Some(sql) = sql.strip_prefix("other: ") {
            let session = std::mem::replace(&mut self.session, lasting_session());
            let done = Box::pin(self.run(sql)).await;
            self.session = session;
            return done;
        }
        let (parameters, sql) = match sql.strip_prefix("with ").and_then(|it| it.split_once(": ")) {
            Some((values, sql)) => (values.split(", ").map(parameter).collect(), sql),
            None => (Vec::new(), sql),
        };
        let options = self.options();
        let (schema, batches) =
            match self.engine().execute_bound(sql, &parameters, &options).await? {
                Answer::Done { rows, .. } => {
                    return Ok(DBOutput::StatementComplete(rows.unwrap_or_default()));
                }
                Answer::Rows { schema, stream, .. } => {
                    let batches = stream.try_collect::<Vec<_>>().await;
                    (schema, batches.map_err(tidegate_query::Error::from)?)
                }
            };
        let mut rows = Vec::new();
        for batch in &batches {
            let columns = cells(batch)?;
            for row in 0..batch.num_rows() {
                let shown = columns.iter().map(|column| match column[row].as_deref() {
                    None => "NULL".to_owned(),
                    Some("") => "(empty)".to_owned(),
                    Some(text) => text.to_owned(),
                });
                match &shown.collect::<Vec<_>>()[..] {
                    // A text of several lines is shown on several lines.
                    [text] => rows.extend(text.lines().map(|line| vec![line.to_owned()])),
                    texts => rows.push(texts.to_vec()),
                }
            }
        }
        let types = schema.fields().iter().map(|field| Letter::of(field)).collect();
        Ok(DBOutput::Rows { types, rows })
    }

    async fn shutdown(&mut self) {}
}

/// Parses a value of `with VALUE, .. : QUERY`.
fn parameter(text: &str) -> Parameter {
    let integer = || text.parse().ok().map(Parameter::Integer);
    let double = || text.parse().ok().map(Parameter::Double);
    match text {
        "NULL" => Parameter::Null,
        "true" | "false" => Parameter::Boolean(text == "true"),
        _ => integer().or_else(double).unwrap_or_else(|| Parameter::Text(text.to_owned())),
    }
}

/// Returns the values of a batch as text, column by column; `None` is NULL.
fn cells(batch: &RecordBatch) -> Result<Vec<Vec<Option<String>>>, TestError> {
    let schema = batch.schema();
    let columns = schema.fields().iter().zip(batch.columns());
    columns.map(|(field, column)| column_cells(field, column)).collect()
}

fn column_cells(field: &Field, column: &ArrayRef) -> Result<Vec<Option<String>>, TestError> {
    let named = field.metadata().get(TYPE_KEY).map(String::as_str);
    let iso = |value, unit| IsoTimestamp(Timestamp(value), unit).to_string();
    let options = FormatOptions::default();
    let formatter = ArrayFormatter::try_new(column.as_ref(), &options);
    let formatter = formatter.map_err(|error| TestError::of(&error))?;
    let cell = |row: usize| match (named, column.data_type()) {
        (Some("uuid"), _) => uuid(column.as_fixed_size_binary().value(row)),
        (Some("ipv4"), _) => {
            Ipv4Addr::from_bits(column.as_primitive::<UInt32Type>().value(row)).to_string()
        }
        (_, DataType::Timestamp(ArrowUnit::Microsecond, _)) => {
            iso(column.as_primitive::<TimestampMicrosecondType>().value(row), TimeUnit::Micros)
        }
        (_, DataType::Timestamp(ArrowUnit::Nanosecond, _)) => {
            iso(column.as_primitive::<TimestampNanosecondType>().value(row), TimeUnit::Nanos)
        }
        (_, DataType::Date32) => date(column.as_primitive::<Date32Type>().value(row)),
        (_, DataType::BinaryView) => {
            let mut hex = "\\x".to_owned();
            for byte in column.as_binary_view().value(row) {
                let _ = write!(hex, "{byte:02x}");
            }
            hex
        }
        _ => formatter.value(row).to_string(),
    };
    Ok((0..column.len()).map(|row| column.is_valid(row).then(|| cell(row))).collect())
}

fn date(days: i32) -> String {
    let CivilDate { year, month, day } = CivilDate::from_days(i64::from(days));
    format!("{year:04}-{month:02}-{day:02}")
}

fn uuid(bytes: &[u8]) -> String {
    let mut text = String::new();
    for (at, byte) in bytes.iter().enumerate() {
        let hyphen = if matches!(at, 4 | 6 | 8 | 10) { "-" } else { "" };
        let _ = write!(text, "{hyphen}{byte:02x}");
    }
    text
}
