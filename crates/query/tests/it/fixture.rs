//! Engines on simulated disks, the answers of statements as text, and random numbers.

use std::fmt;
use std::future::Future;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use futures::TryStreamExt;
use tidegate_model::ByteCount;
use tidegate_platform::{SimClock, SimDisk};
use tidegate_query::{
    Access, Answer, Engine, EngineOptions, Error, STACK_BYTES, Session, StatementOptions,
};
use tidegate_storage::{Database, OpenOptions};

/// Threads of a query: more than one, so that plans and scans are those of a real machine.
pub(crate) const THREADS: NonZeroUsize = NonZeroUsize::new(4).expect("4 is not 0");
pub(crate) const MEMORY_MAX: ByteCount = ByteCount(256 << 20);
/// Threads of the runtime: more than a statement has partitions. A join whose condition is not an
/// equality occupies a thread for a whole batch, and the task that ends such a statement needs a
/// thread too.
const WORKERS: usize = 8;
/// The start of the clock: 2025-03-01T00:00:00 in microseconds.
pub(crate) const NOW: i64 = 1_740_787_200_000_000;

/// Runs a test on a runtime of its own.
#[track_caller]
pub(crate) fn on_runtime<E: fmt::Display>(work: impl Future<Output = Result<(), E>>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .thread_stack_size(STACK_BYTES)
        .enable_time()
        .build()
        .expect("a runtime starts");
    if let Err(error) = runtime.block_on(work) {
        panic!("{error}");
    }
}

/// The message of an error and of its causes.
#[derive(Debug)]
pub(crate) struct TestError(pub(crate) String);

impl fmt::Display for TestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<E: std::error::Error + 'static> From<E> for TestError {
    fn from(error: E) -> TestError {
        TestError::of(&error)
    }
}

impl TestError {
    pub(crate) fn of(error: &(dyn std::error::Error + 'static)) -> TestError {
        let causes = std::iter::successors(Some(error), |error| error.source());
        TestError(causes.map(ToString::to_string).collect::<Vec<_>>().join(": "))
    }
}

/// A row of an answer as text; NULL is `NULL`.
pub(crate) type Cells = Vec<String>;

/// The outcome of a statement.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Output {
    /// A command tag, and the number of changed rows.
    Done { tag: String, count: u64, notices: Vec<String> },
    /// Rows, with the names of their columns.
    Rows { names: Cells, rows: Vec<Cells> },
}

impl Output {
    #[track_caller]
    pub(crate) fn rows(self) -> Vec<Cells> {
        match self {
            Output::Rows { rows, .. } => rows,
            Output::Done { tag, .. } => panic!("{tag} gives no rows"),
        }
    }

    #[track_caller]
    pub(crate) fn count(self) -> u64 {
        match self {
            Output::Done { count, .. } => count,
            Output::Rows { names, .. } => panic!("rows of {names:?}"),
        }
    }
}

/// A session that may have temporary tables.
pub(crate) fn lasting_session() -> Session {
    let session = Session::default();
    session.keep_lasting();
    session
}

/// The limits of an engine with the memory of these tests. It spills to the real disk.
pub(crate) fn engine_options() -> EngineOptions {
    EngineOptions::standard(THREADS, MEMORY_MAX, std::env::temp_dir())
}

/// Opens the database of a disk.
pub(crate) fn open(disk: &SimDisk) -> Result<Arc<Database>, TestError> {
    let options = OpenOptions::new(Arc::new(SimClock::new(NOW)));
    Ok(Database::open(Arc::new(disk.clone()), Path::new("/db"), &options)?)
}

/// A database on a simulated disk, with an engine and a session.
pub(crate) struct TestDatabase {
    pub(crate) disk: SimDisk,
    /// `None` only while the database is being reopened.
    engine: Option<Arc<Engine>>,
    /// The session of all statements.
    pub(crate) session: Session,
    options: EngineOptions,
}

impl TestDatabase {
    pub(crate) fn new() -> Result<TestDatabase, TestError> {
        TestDatabase::with(engine_options())
    }

    pub(crate) fn with(options: EngineOptions) -> Result<TestDatabase, TestError> {
        let disk = SimDisk::new(1);
        let engine = Some(Arc::new(Engine::new(open(&disk)?, &options)?));
        Ok(TestDatabase { disk, engine, session: lasting_session(), options })
    }

    /// A database after these statements.
    pub(crate) async fn after(statements: &[&str]) -> Result<TestDatabase, TestError> {
        let mut test = TestDatabase::new()?;
        for sql in statements {
            test.run(sql).await.map_err(|error| TestError(format!("{sql}: {error}")))?;
        }
        Ok(test)
    }

    pub(crate) fn engine(&self) -> &Arc<Engine> {
        self.engine.as_ref().expect("it is open")
    }

    pub(crate) fn database(&self) -> &Arc<Database> {
        self.engine().database()
    }

    /// Closes the database without an end of its work, and opens it again.
    pub(crate) fn reopen(&mut self) -> Result<(), TestError> {
        self.engine = None;
        self.engine = Some(Arc::new(Engine::new(open(&self.disk)?, &self.options)?));
        Ok(())
    }

    /// Closes the database, and opens it again with an engine of other limits.
    pub(crate) fn reopen_with(&mut self, options: EngineOptions) -> Result<(), TestError> {
        self.options = options;
        self.reopen()
    }

    pub(crate) fn flush(&self, table: &str) -> Result<(), TestError> {
        Ok(self.database().flush_table(table)?)
    }

    pub(crate) fn compact(&self, table: &str) -> Result<(), TestError> {
        Ok(self.database().compact_table(table)?)
    }

    pub(crate) fn maintain(&self) -> Result<(), TestError> {
        Ok(self.database().maintain().map(drop)?)
    }

    pub(crate) fn options(&self) -> StatementOptions {
        StatementOptions { session: self.session.clone(), ..StatementOptions::default() }
    }

    /// Executes a statement, or a word of a transaction: `begin`, `commit`, `rollback`,
    /// `savepoint NAME`, `rollback to NAME`, `release NAME`.
    pub(crate) async fn run(&mut self, sql: &str) -> Result<Output, TestError> {
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
            _ => return Ok(self.output(sql).await?),
        };
        match is_known {
            true => Ok(Output::Done { tag: sql.to_uppercase(), count: 0, notices: Vec::new() }),
            false => Err(TestError(format!("{sql}: there is no such savepoint"))),
        }
    }

    /// Executes a statement, and takes all rows of its answer.
    pub(crate) async fn output(&self, sql: &str) -> Result<Output, Error> {
        let options = self.options();
        taken(self.engine().execute_with(sql, &options).await?).await
    }

    pub(crate) async fn rows(&self, sql: &str) -> Result<Vec<Cells>, TestError> {
        let output = self.output(sql).await;
        Ok(output.map_err(|error| TestError(format!("{sql}: {}", TestError::of(&error))))?.rows())
    }

    /// Checks the outcome of a statement, as a text (`shown`).
    #[track_caller]
    pub(crate) fn check<'a>(
        &'a self,
        sql: &'a str,
        expected: &'a str,
    ) -> impl Future<Output = ()> + 'a {
        let place = std::panic::Location::caller();
        async move {
            let found = shown(self.output(sql).await);
            assert_eq!(found, expected, "{place}: {sql}");
        }
    }
}

/// Checks statements one after the other on one database, and shows all outcomes that are not the
/// expected ones.
#[track_caller]
pub(crate) fn check_all(setup: &[&str], cases: &[(&str, &str)]) {
    on_runtime(async {
        let test = TestDatabase::after(setup).await?;
        let mut wrong = Vec::new();
        for (sql, expected) in cases {
            let found = shown(test.output(sql).await);
            if found != *expected {
                wrong.push(format!("{sql}\n  expected {expected:?}\n  found    {found:?}"));
            }
        }
        match wrong.is_empty() {
            true => Ok(()),
            false => Err(TestError(wrong.join("\n"))),
        }
    });
}

/// Takes all rows of an answer.
pub(crate) async fn taken(answer: Answer) -> Result<Output, Error> {
    let (schema, mut stream) = match answer {
        Answer::Done { tag, rows, notices } => {
            return Ok(Output::Done { tag, count: rows.unwrap_or_default(), notices });
        }
        Answer::Rows { schema, stream, .. } => (schema, stream),
    };
    let mut rows = Vec::new();
    while let Some(batch) = stream.try_next().await? {
        assert_eq!(batch.schema(), schema, "batches have the columns that were announced");
        rows.extend(cells(&batch));
    }
    let names = schema.fields().iter().map(|field| field.name().clone()).collect();
    Ok(Output::Rows { names, rows })
}

/// An outcome as text: rows a line each with blanks between cells, or the command tag with its
/// notices, or the condition, the message and the position of an error.
pub(crate) fn shown(outcome: Result<Output, Error>) -> String {
    match outcome {
        Ok(Output::Rows { rows, .. }) => {
            rows.iter().map(|row| row.join(" ")).collect::<Vec<_>>().join("\n")
        }
        Ok(Output::Done { tag, notices, .. }) => {
            std::iter::once(tag).chain(notices).collect::<Vec<_>>().join("; ")
        }
        Err(error) => {
            let place = error.position().map_or(String::new(), |position| {
                format!(" at {}:{}", position.line, position.column)
            });
            format!("{:?}{place}: {error}", error.condition())
        }
    }
}

/// The rows of a batch as text.
pub(crate) fn cells(batch: &RecordBatch) -> Vec<Cells> {
    let options = FormatOptions::default().with_null("NULL");
    let columns = batch.columns().iter();
    let formatters = columns.map(|column| {
        ArrayFormatter::try_new(column.as_ref(), &options).expect("every type has a text")
    });
    let formatters = formatters.collect::<Vec<_>>();
    let row = |at: usize| formatters.iter().map(|column| column.value(at).to_string()).collect();
    (0..batch.num_rows()).map(row).collect()
}

/// A random sequence that depends only on its seed: `SplitMix64`.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % bound
    }

    /// Returns one of the elements, with its position.
    pub(crate) fn one_of<'a, T>(&mut self, all: &'a [T]) -> (usize, &'a T) {
        let at = usize::try_from(self.below(all.len() as u64)).expect("it is below");
        (at, &all[at])
    }
}
