//! COPY with an implementation of files that records each job: the parsed statement that it is
//! given, and the answers and errors that it returns.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use datafusion::arrow::datatypes::Schema;
use futures::TryStreamExt;
use tidegate_platform::SimDisk;
use tidegate_query::{
    Answer, BulkError, BulkExport, BulkFile, BulkImport, BulkIo, BulkJob, BulkOutcome,
    BulkProgress, BulkResult, BulkSink, CopyBuffer, CopyStream, Engine, Error,
    SendableRecordBatchStream, Session, StatementOptions,
};
use tidegate_storage::Class;

use crate::fixture::{
    TestDatabase, TestError, cells, engine_options, lasting_session, on_runtime, open, shown, taken,
};

const ID: &str = "00000000000000ab";
/// The columns of the answer to a COPY that waits.
const WAITED: &str = "id status rows_handled rows_imported errors";

/// Files in memory: each job ends at once.
#[derive(Clone, Debug, Default)]
struct RecordedFiles(Arc<Mutex<Recorded>>);

#[derive(Debug, Default)]
struct Recorded {
    calls: Vec<String>,
    /// The error of the next job.
    fails: Option<BulkError>,
    ends_with_statement: bool,
}

impl RecordedFiles {
    fn recorded(&self) -> MutexGuard<'_, Recorded> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, call: String) -> BulkResult<()> {
        let mut recorded = self.recorded();
        recorded.calls.push(call);
        recorded.fails.take().map_or(Ok(()), Err)
    }

    fn job(&self) -> Box<dyn BulkJob> {
        Box::new(EndedJob(self.clone()))
    }
}

struct EndedJob(RecordedFiles);

#[async_trait]
impl BulkJob for EndedJob {
    fn id(&self) -> &str {
        ID
    }

    async fn ended(&mut self) -> BulkResult<BulkOutcome> {
        self.0.note("waited".to_owned())?;
        Ok(BulkOutcome { rows_handled: 5, rows_imported: 4, errors: 1, notes: Vec::new() })
    }

    fn detach(self: Box<Self>) {
        // The only error is planned for a job that is waited for.
        let _ = self.0.note("detached".to_owned());
    }
}

struct RecordedSink {
    files: RecordedFiles,
    bytes: Vec<u8>,
}

#[async_trait]
impl BulkSink for RecordedSink {
    async fn push(&mut self, bytes: &[u8]) -> BulkResult<()> {
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    async fn finish(self: Box<Self>) -> BulkResult<BulkOutcome> {
        self.files.note(format!("bytes {}", String::from_utf8_lossy(&self.bytes)))?;
        Ok(BulkOutcome::default())
    }
}

/// The options that differ from their defaults.
fn options(options: &tidegate_query::CopyOptions) -> String {
    let text = format!("{options:?}");
    let text = text.trim_start_matches("CopyOptions { ").trim_end_matches(" }");
    let standard = format!("{:?}", tidegate_query::CopyOptions::default());
    let given = text.split(", ").filter(|field| !standard.contains(field));
    given.collect::<Vec<_>>().join(", ")
}

#[async_trait]
impl BulkIo for RecordedFiles {
    async fn import(&self, import: BulkImport, _: &Session) -> BulkResult<Box<dyn BulkJob>> {
        let BulkImport { table, columns, path, options: given } = import;
        self.note(format!(
            "import {} {columns:?} from {}: {}",
            table.text,
            path.text,
            options(&given)
        ))?;
        Ok(self.job())
    }

    async fn import_bytes(
        &self,
        import: BulkImport,
        buffer: Option<Arc<CopyBuffer>>,
        _: &Session,
    ) -> BulkResult<Box<dyn BulkSink>> {
        let buffered = if buffer.is_some() { " buffered" } else { "" };
        self.note(format!("bytes into {} {:?}{buffered}", import.table.text, import.columns))?;
        Ok(Box::new(RecordedSink { files: self.clone(), bytes: Vec::new() }))
    }

    async fn export(
        &self,
        export: BulkExport,
        rows: SendableRecordBatchStream,
        _: &Session,
    ) -> BulkResult<Box<dyn BulkJob>> {
        let batches = rows.try_collect::<Vec<_>>().await.expect("the query succeeds");
        let rows: Vec<String> = batches.iter().flat_map(cells).map(|row| row.join(" ")).collect();
        let BulkExport { what, path, options: given } = export;
        self.note(format!("export {what} to {}: {}: {rows:?}", path.text, options(&given)))?;
        Ok(self.job())
    }

    fn cancel(&self, id: &str, _: &Session) -> &'static str {
        if id == ID { "cancelled" } else { "unknown" }
    }

    fn jobs(&self) -> Vec<BulkProgress> {
        let progress = BulkProgress {
            id: ID.to_owned(),
            kind: "import",
            table_name: "t".to_owned(),
            file: "a.csv".to_owned(),
            phase: Some("parsing"),
            bytes_read: 7,
            bytes_total: Some(9),
            ..BulkProgress::default()
        };
        vec![progress]
    }

    fn files(&self) -> BulkResult<Vec<BulkFile>> {
        Ok(vec![BulkFile { path: "a.csv".to_owned(), bytes: 9, modified: 1_000_000 }])
    }

    fn ends_with_its_statement(&self) -> bool {
        self.recorded().ends_with_statement
    }
}

async fn engine() -> Result<(Engine, RecordedFiles), TestError> {
    let files = RecordedFiles::default();
    let engine = Engine::new(open(&SimDisk::new(1))?, &engine_options())?;
    let engine = engine.with_bulk(Arc::new(files.clone()));
    for sql in [
        "CREATE TABLE t (ts TIMESTAMP, a INT, b VARCHAR) TIMESTAMP(ts)",
        "INSERT INTO t VALUES (1, 10, 'x'), (2, 20, NULL)",
        "CREATE TABLE d (a INT, b INT DEFAULT 7)",
    ] {
        engine.execute(sql).await?;
    }
    Ok((engine, files))
}

async fn outcome(engine: &Engine, sql: &str) -> String {
    match engine.execute(sql).await {
        Ok(answer) => shown(taken(answer).await),
        Err(error) => shown(Err(error)),
    }
}

#[test]
fn a_copy_that_does_not_wait_lets_its_job_go_on() {
    on_runtime(async {
        let (engine, files) = engine().await?;
        assert_eq!(outcome(&engine, "COPY t FROM 'a.csv'").await, ID);
        assert_eq!(files.recorded().calls, ["import t [] from a.csv: ", "detached"]);
        Ok::<(), TestError>(())
    });
}

/// Returns the names of the columns of an answer, and of its description.
async fn described(engine: &Engine, sql: &str) -> Result<(String, String), TestError> {
    let names = |schema: &Schema| {
        let names = schema.fields().iter().map(|field| field.name().as_str());
        names.collect::<Vec<_>>().join(" ")
    };
    let described = engine.describe(sql, &[], &StatementOptions::default()).await?;
    let described = described.columns.map_or("none".to_owned(), |schema| names(&schema));
    match engine.execute(sql).await? {
        Answer::Rows { schema, .. } => Ok((described, names(&schema))),
        Answer::Done { .. } => Ok((described, "none".to_owned())),
    }
}

#[test]
fn a_copy_answers_the_columns_that_it_is_described_with() {
    on_runtime(async {
        let (engine, files) = engine().await?;
        for (sql, ends_with_statement, expected) in [
            ("COPY t FROM 'a.csv'", false, "id"),
            ("COPY t FROM 'a.csv' WITH (WAIT)", false, WAITED),
            ("COPY t FROM 'a.csv'", true, WAITED),
            ("COPY t TO 'a.csv' WITH (FORMAT csv)", false, "id"),
            ("COPY (SELECT a FROM t) TO 'a.csv' WITH (FORMAT csv, WAIT)", false, WAITED),
            ("COPY '00000000000000ab' CANCEL", false, "id status"),
        ] {
            files.recorded().ends_with_statement = ends_with_statement;
            let found = described(&engine, sql).await?;
            assert_eq!(found, (expected.to_owned(), expected.to_owned()), "{sql}");
        }
        for sql in ["COPY t FROM STDIN", "COPY t TO STDOUT"] {
            let described = engine.describe(sql, &[], &StatementOptions::default()).await?;
            assert!(described.columns.is_none(), "{sql}");
        }
        Ok::<(), TestError>(())
    });
}

/// A program that ends with the statement has no background jobs: every COPY waits.
#[test]
fn a_copy_waits_if_jobs_end_with_the_statement() {
    on_runtime(async {
        let (engine, files) = engine().await?;
        files.recorded().ends_with_statement = true;
        assert_eq!(outcome(&engine, "COPY t FROM 'a.csv'").await, format!("{ID} finished 5 4 1"));
        assert_eq!(files.recorded().calls[1..], ["waited"]);
        Ok::<(), TestError>(())
    });
}

#[test]
fn an_error_of_a_job_keeps_its_place_and_class() {
    on_runtime(async {
        let sql = "COPY t FROM 'a.csv' WITH WAIT";
        for (offset, class) in [(Some(12), Class::Caller), (None, Class::Environment)] {
            let (engine, files) = engine().await?;
            let message = "no such file".to_owned();
            files.recorded().fails = Some(BulkError { code: "58P01", message, offset, class });
            let error = engine.execute(sql).await.expect_err(sql);
            assert_eq!(error.position().map(|it| it.offset), offset);
            assert_eq!(error.class(), class);
            assert!(error.to_string().ends_with("no such file"), "{error}");
        }
        Ok::<(), TestError>(())
    });
}

async fn stream(engine: &Engine, sql: &str, session: &Session) -> Result<CopyStream, Error> {
    let options = StatementOptions { session: session.clone(), ..StatementOptions::default() };
    engine.copy_stream(sql, &options).await.map(|stream| stream.expect("it is a COPY"))
}

#[test]
fn bytes_of_a_connection_go_to_a_sink() {
    on_runtime(async {
        let (engine, files) = engine().await?;
        let session = lasting_session();
        for (sql, expected) in [
            ("COPY t FROM STDIN", "Text 3 [ts, a, b]; bytes into t []"),
            (
                "COPY t (a, ts) FROM STDIN WITH CSV HEADER",
                "Csv 2 [a, ts]; bytes into t [\"a\", \"ts\"]",
            ),
            ("COPY t FROM STDIN (FORMAT binary)", "Binary 3 [ts, a, b]; bytes into t []"),
            ("COPY new FROM STDIN", "Text 0 []; bytes into new []"),
        ] {
            files.recorded().calls.clear();
            let CopyStream::In { mut sink, format, columns, fields, buffer } =
                stream(&engine, sql, &session).await?
            else {
                panic!("{sql} takes rows");
            };
            let names = fields.fields().iter().map(|field| field.name().as_str());
            let names = names.collect::<Vec<_>>().join(", ");
            let found = format!("{format:?} {columns} [{names}]; {}", files.recorded().calls[0]);
            assert_eq!(found, expected, "{sql}");
            assert!(buffer.is_none(), "{sql}");
            sink.push(b"1\t").await.expect("memory takes it");
            sink.push(b"2\n").await.expect("memory takes it");
            sink.finish().await.expect("memory takes it");
            assert_eq!(files.recorded().calls[1], "bytes 1\t2\n", "{sql}");
        }
        Ok::<(), TestError>(())
    });
}

/// In a transaction, and for a temporary table, the rows are buffered.
#[test]
fn rows_of_a_transaction_are_buffered() {
    on_runtime(async {
        let (engine, files) = engine().await?;
        let session = lasting_session();
        session.begin(tidegate_query::Access::ReadWrite);
        let CopyStream::In { buffer, .. } = stream(&engine, "COPY t FROM STDIN", &session).await?
        else {
            panic!("it takes rows");
        };
        assert!(buffer.is_some());
        assert_eq!(files.recorded().calls, ["bytes into t [] buffered"]);
        for (sql, expected) in [(
            "COPY new FROM STDIN",
            "UndefinedTable at 1:6: line 1, column 6: table `new` does not exist",
        )] {
            let error = match stream(&engine, sql, &session).await {
                Err(error) => shown(Err(error)),
                Ok(stream) => format!("{stream:?}"),
            };
            assert_eq!(error, expected, "{sql}");
        }
        Ok::<(), TestError>(())
    });
}

#[test]
fn rows_go_out_in_the_format_of_the_connection() {
    on_runtime(async {
        let (engine, _) = engine().await?;
        let session = lasting_session();
        for (sql, expected) in [
            (
                "COPY t TO STDOUT",
                "Text 1970-01-01T00:00:00.000001 10 x, 1970-01-01T00:00:00.000002 20 NULL",
            ),
            ("COPY t (b) TO STDOUT WITH CSV", "Csv x, NULL"),
            ("COPY (SELECT max(a) FROM t) TO STDOUT (FORMAT binary)", "Binary 20"),
        ] {
            let CopyStream::Out { schema, stream, format, .. } =
                stream(&engine, sql, &session).await?
            else {
                panic!("{sql} gives rows");
            };
            let answer = Answer::Rows { schema, designated: None, stream, notices: Vec::new() };
            let rows = taken(answer).await?.rows();
            let rows = rows.iter().map(|row| row.join(" ")).collect::<Vec<_>>().join(", ");
            assert_eq!(format!("{format:?} {rows}"), expected, "{sql}");
        }
        Ok::<(), TestError>(())
    });
}

/// An engine without an implementation of files refuses each COPY.
#[test]
fn without_files_every_copy_is_refused() {
    on_runtime(async {
        let test = TestDatabase::after(&["CREATE TABLE t (a INT)"]).await?;
        for sql in ["COPY t FROM 'a.csv'", "COPY t TO 'a.csv' (FORMAT csv)"] {
            let error = test.output(sql).await.expect_err(sql);
            assert_eq!(error.to_string(), "this program does not copy files", "{sql}");
        }
        test.check("import_files()", "").await;
        test.check("copy_progress()", "").await;
        Ok::<(), TestError>(())
    });
}
