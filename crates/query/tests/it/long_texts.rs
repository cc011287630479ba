//! Scans of long texts: batches are bounded in bytes, and statements read tables that are larger
//! than their memory.

use std::collections::BTreeSet;

use datafusion::arrow::array::{AsArray, RecordBatch};
use futures::TryStreamExt;
use tidegate_model::ByteCount;
use tidegate_query::{Answer, Condition, EngineOptions};

use crate::fixture::{TestDatabase, TestError, engine_options, on_runtime};

const ROWS: usize = 64;
const TEXT_BYTES: u64 = 200_000;

/// The bytes of the texts of a batch.
const BATCH_BYTES_MAX: u64 = 4 << 20;

/// Inserts one zone of long texts, of the same times as those that are there.
async fn insert(test: &mut TestDatabase) -> Result<(), TestError> {
    let insert = format!(
        "INSERT INTO t SELECT TIMESTAMP '2025-03-01' + x * INTERVAL '1 second', x, \
         repeat(md5(x::VARCHAR), {}) FROM long_sequence({ROWS})",
        TEXT_BYTES / 32,
    );
    test.run(&insert).await.map(drop)
}

async fn table() -> Result<TestDatabase, TestError> {
    let create =
        "CREATE TABLE t (ts TIMESTAMP, n BIGINT, s VARCHAR) TIMESTAMP(ts) PARTITION BY DAY";
    let mut test = TestDatabase::after(&[create]).await?;
    insert(&mut test).await?;
    Ok(test)
}

async fn batches(test: &TestDatabase, sql: &str) -> Result<Vec<RecordBatch>, TestError> {
    let Answer::Rows { stream, .. } = test.engine().execute_with(sql, &test.options()).await?
    else {
        panic!("{sql}: no rows");
    };
    Ok(stream.try_collect().await?)
}

/// Checks the number of rows, and that no batch has texts of more bytes.
async fn check(test: &TestDatabase, sql: &str, rows: usize, most: u64) -> Result<(), TestError> {
    let batches = batches(test, sql).await?;
    assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), rows, "{sql}");
    let bytes = |batch: &RecordBatch| -> u64 {
        let texts = batch.column_by_name("s").expect("it is asked for");
        texts.as_string_view().lengths().map(u64::from).sum()
    };
    let largest = batches.iter().map(bytes).max();
    let is_bounded = largest.is_some_and(|bytes| bytes <= most);
    assert!(is_bounded, "text_memory-1, wide_rows-1: {sql}: {largest:?}");
    Ok(())
}

/// A zone of 3,000 texts of 200 KB was one batch of 600 MB.
#[test]
fn batches_of_long_texts_are_bounded_in_bytes() {
    on_runtime(async {
        let mut test = table().await?;
        // Joins gathered 8,192 rows of any width.
        let join = "SELECT a.s FROM t AS a JOIN t AS b ON a.n = b.n AND a.s || 'x' <> b.s";
        check(&test, join, ROWS, 2 * BATCH_BYTES_MAX).await?;
        for is_flushed in [false, true] {
            if is_flushed {
                test.flush("t")?;
            }
            for (sql, rows) in [
                ("SELECT s FROM t", ROWS),
                ("SELECT n, s FROM t WHERE s || 'x' <> 'y'", ROWS),
                ("SELECT s FROM t WHERE n % 2 = 0 AND abs(n) + 1 > 9", 28),
                ("SELECT s FROM t WHERE left(s, 1) = 'z' OR sqrt(n) = 4", 1),
                ("SELECT s FROM t ORDER BY ts DESC", ROWS),
            ] {
                check(&test, sql, rows, BATCH_BYTES_MAX).await?;
            }
        }
        // A merge holds a batch of each run besides those that are used up.
        insert(&mut test).await?;
        check(&test, "SELECT s FROM t ORDER BY ts", 2 * ROWS, 3 * BATCH_BYTES_MAX).await?;
        check(&test, "SELECT s FROM t ORDER BY ts DESC", 2 * ROWS, 3 * BATCH_BYTES_MAX).await
    });
}

/// Nothing was charged before the zone was decoded, and then all of it at once.
#[test]
fn statements_read_more_long_texts_than_they_have_memory_for() {
    on_runtime(async {
        let mut test = table().await?;
        test.run("CREATE TABLE u (s VARCHAR)").await?;
        test.run("INSERT INTO u SELECT repeat('x', 8000000)").await?;
        let statement_memory_max = ByteCount(6 << 20);
        let options = EngineOptions { statement_memory_max, ..engine_options() };
        for is_flushed in [false, true] {
            if is_flushed {
                test.flush("t")?;
            }
            test.reopen_with(options.clone())?;
            for (sql, expected) in [
                ("SELECT count(*) FROM t WHERE s || 'x' = 'y'", "0".to_owned()),
                ("SELECT max(length(s || 'x')) FROM t", (TEXT_BYTES + 1).to_string()),
                ("SELECT left(s, 4) FROM (SELECT s FROM t ORDER BY s LIMIT 1)", "02e7".to_owned()),
                (
                    "SELECT sum(n + length(s)) FROM (SELECT s, n FROM t ORDER BY n LIMIT 3)",
                    (3 * TEXT_BYTES + 6).to_string(),
                ),
                (
                    "SELECT sum(n + length(s)) FROM (SELECT s, n FROM t ORDER BY n DESC LIMIT 2)",
                    (2 * TEXT_BYTES + 127).to_string(),
                ),
                ("SELECT count(*) FROM (SELECT DISTINCT left(s, 32) FROM t)", ROWS.to_string()),
            ] {
                assert_eq!(test.rows(sql).await?, [[expected]], "{sql}");
            }
        }
        let sql = "SELECT count(*) FROM u WHERE s || 'x' = 'y'";
        let error = test.output(sql).await.expect_err("a text is larger than the memory");
        assert_eq!(error.condition(), Condition::OutOfMemory, "text_memory-2: {error}");
        assert!(error.to_string().contains("ScannedTexts"), "text_memory-2: {error}");
        Ok::<(), TestError>(())
    });
}

/// The rows of a join held all texts of its inputs, and operators above counted them.
#[test]
fn few_rows_of_a_join_leave_the_texts_of_others() {
    on_runtime(async {
        let test = table().await?;
        test.flush("t")?;
        let groups = "SELECT max(n) AS m FROM t GROUP BY n / 5";
        for sql in [
            format!("SELECT s FROM t WHERE n IN ({groups})"),
            format!("SELECT s FROM t JOIN ({groups}) AS q ON n = m"),
            format!("SELECT s FROM t JOIN ({groups}) AS q ON n - m = 0 * length(s)"),
        ] {
            let batches = batches(&test, &sql).await?;
            assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 13, "{sql}");
            let texts = || batches.iter().map(|batch| batch.column(0).as_string_view());
            let used = texts().map(|it| it.total_buffer_bytes_used()).sum::<usize>();
            // Batches may be parts of one.
            let buffers = texts().flat_map(|it| it.data_buffers().iter());
            let buffers = buffers.map(|it| (it.as_ptr(), it.len())).collect::<BTreeSet<_>>();
            let held = buffers.iter().map(|(_, bytes)| bytes).sum::<usize>();
            assert!(held <= 2 * used, "wide_rows-2: {sql}: {used} of {held}");
        }
        Ok::<(), TestError>(())
    });
}
