//! DataFusion's own SQL tests, run in a database of Tidegate: the files of the crate
//! `datafusion-sqllogictest`, in the version of the linked DataFusion.
//!
//! The crate is not a dependency: `cargo info datafusion-sqllogictest@VERSION` puts its files into
//! the registry's directory, as `.ci/run` does; if they are missing, the test says that it was
//! skipped. Each file has a database of its own. The rows of a query are compared; of one that
//! should fail, only the failure; plans are not.
//!
//! `foreign.differences.txt` has the differences, with the reasons. A difference that is not listed
//! fails the test, and so does a listed one that is gone: the list only shrinks. With
//! `TIDEGATE_FOREIGN_COMPLETE=1` in the environment the list is written anew; a difference without
//! a reason then stands under `NEW`, and fails the test until it has one.

#[path = "foreign/portable.rs"]
mod portable;
#[path = "foreign/compare.rs"]
mod compare;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use futures::TryStreamExt;
use libtest_mimic::Failed;
use sqllogictest::{
    ColumnType, Condition as RecordCondition, QueryExpect, Record, SortMode, StatementExpect,
};
use tidegate_query::{Answer, Condition, Error, STACK_BYTES, StatementOptions, Timeout};

use self::compare::{Rows, shown_rows};
use self::portable::ours_of;
use super::{MEMORY_MAX, TestDatabase, TestError, WORKERS};
use crate::reasons::Reasons;

/// Files that run at a time.
const FILES: usize = 2;
/// Time limit of a statement: long enough for all that should end.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Most characters of a statement, and of a row, in a line of the list.
const SQL_MAX: usize = 160;
const ROW_MAX: usize = 60;

/// Directories and files that are not about the rows of queries: functions of Spark, files, plans,
/// settings and catalogs of DataFusion, and types that only Arrow has.
const LEFT_OUT: [&str; 42] = [
    "spark/",
    "tpch/",
    "avro",
    "arrow_",
    "parquet",
    "encrypted_parquet",
    "csv_files",
    "json",
    "copy",
    "create_external",
    "insert_to_external",
    "explain",
    "metadata",
    "options",
    "information_schema",
    "set_variable",
    "describe",
    "listing_",
    "run_end",
    "union_function",
    "map",
    "struct",
    "dictionary_struct",
    "range_partitioning",
    "repartition",
    "sort_pushdown",
    "projection_pushdown",
    "push_down_filter_parquet",
    "preserve_file",
    "schema_evolution",
    "file_row_index",
    "input_file_name",
    "dynamic_",
    "imdb",
    "clickbench",
    "array/arrays_zip",
    "prepare",
    "cast_extension",
    "slt_features",
    "create_function",
    "float16",
    "to_timestamp_timezone",
];

/// Names in statements to leave out: those about Arrow's types or DataFusion's catalog, and those
/// whose rows the test runner of DataFusion replaces.
const NOT_OURS: [&str; 5] =
    ["arrow_typeof", "arrow_cast", "arrow_metadata", "information_schema", "current_time"];

/// The type of a column, which is not compared: the values show it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct AnyType(char);

impl ColumnType for AnyType {
    fn from_char(value: char) -> Option<AnyType> {
        Some(AnyType(value))
    }

    fn to_char(&self) -> char {
        self.0
    }
}

/// The results of all files together.
#[derive(Debug, Default)]
struct Summary {
    queries: usize,
    same: usize,
    /// Queries of tables that no statement of Tidegate could create.
    unreachable: usize,
    /// Lines of the list.
    differences: BTreeSet<String>,
    /// Number of refused queries by error, each with the first of these queries.
    refused: BTreeMap<String, (usize, String)>,
}

/// Returns the version of DataFusion in `Cargo.lock`.
fn version() -> &'static str {
    let lock = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.lock"));
    let (_, rest) = lock.split_once("name = \"datafusion\"\nversion = \"").expect("it is locked");
    rest.split('"').next().expect("a version")
}

/// Returns the directory of the files, if the registry has it.
fn suite() -> Option<PathBuf> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")))?;
    let registries = std::fs::read_dir(home.join("registry/src")).ok()?;
    let name = format!("datafusion-sqllogictest-{}/test_files", version());
    registries.flatten().map(|entry| entry.path().join(&name)).find(|path| path.is_dir())
}

fn files_of(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(from) = folders.pop() {
        for entry in std::fs::read_dir(&from).expect("it can be listed").flatten() {
            let path = entry.path();
            let name = path.strip_prefix(folder).expect("it is inside").to_string_lossy();
            let is_left_out = LEFT_OUT.iter().any(|left_out| {
                name.starts_with(left_out) || format!("{name}/").starts_with(left_out)
            });
            match (is_left_out, path.is_dir()) {
                (true, _) => {}
                (false, true) => folders.push(path),
                (false, false) if name.ends_with(".slt") => files.push(path),
                (false, false) => {}
            }
        }
    }
    files.sort();
    files
}

/// Checks that the results differ only as the list says.
#[expect(clippy::print_stderr, reason = "a test that is skipped says so")]
pub(super) fn the_suite_of_datafusion_differs_only_as_listed() -> Result<(), Failed> {
    let Some(folder) = suite() else {
        let version = version();
        eprintln!("skipped: run `cargo info datafusion-sqllogictest@{version}` outside of here");
        return Ok(());
    };
    let files = Mutex::new(files_of(&folder));
    let found = Mutex::new(Summary::default());
    std::thread::scope(|scope| {
        for _ in 0..FILES {
            scope.spawn(|| {
                loop {
                    let Some(file) = files.lock().expect("no panic").pop() else { break };
                    run_file(&folder, &file, &found);
                }
            });
        }
    });
    let found = found.into_inner().expect("no panic");
    let Summary { queries, same, unreachable, .. } = found;
    eprintln!("{queries} queries of others: {same} as expected, {unreachable} without tables");
    let refused = found.refused.iter();
    let refused = refused.map(|(why, (count, sql))| format!("refused {count}: {why} | {sql}"));
    let found = Reasons::without_reasons(found.differences.into_iter().chain(refused));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/slt/foreign.differences.txt");
    let listed = Reasons::parse(&std::fs::read_to_string(&path).unwrap_or_default());
    if std::env::var_os("TIDEGATE_FOREIGN_COMPLETE").is_some_and(|value| value == "1") {
        std::fs::write(&path, found.with_reasons_of(&listed))?;
        return Ok(());
    }
    let problems = listed.compare(&found);
    match problems.is_empty() {
        true => Ok(()),
        false => Err(format!("{}:\n{}", path.display(), problems.join("\n")).into()),
    }
}

/// Runs a file on a database of its own.
fn run_file(folder: &Path, file: &Path, found: &Mutex<Summary>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .thread_stack_size(STACK_BYTES)
        .enable_time()
        .build()
        .expect("a runtime");
    let name = file.strip_prefix(folder).expect("it is inside").display().to_string();
    let records = sqllogictest::parse_file::<AnyType>(file);
    let records = records.unwrap_or_else(|error| panic!("{name}: {error}"));
    runtime.block_on(async {
        let mut test = Foreign { database: TestDatabase::new(MEMORY_MAX).expect("it opens"), name };
        for record in records {
            test.run(record, found).await;
        }
    });
}

/// The execution of the records of a file.
struct Foreign {
    database: TestDatabase,
    name: String,
}

impl Foreign {
    async fn run(&mut self, record: Record<AnyType>, found: &Mutex<Summary>) {
        match record {
            Record::Statement { conditions, sql, expected, .. } if is_theirs(&conditions) => {
                let is_error = matches!(expected, StatementExpect::Error(_));
                let mut outcome = Ok(Vec::new());
                for sql in ours_of(&sql) {
                    if outcome.is_ok() {
                        outcome = self.ask(&sql).await;
                    }
                }
                match outcome {
                    Ok(rows) if is_error && is_query(&sql) => {
                        self.add(found, &sql, "error", &first(&rows));
                    }
                    Err(_) if !is_error => self.forget(&sql).await,
                    _ => {}
                }
            }
            Record::Query { conditions, sql, expected, .. }
                if is_theirs(&conditions) && is_query(&sql) =>
            {
                let [sql] = &ours_of(&sql)[..] else { return };
                let outcome = self.ask(sql).await;
                if outcome.is_err() {
                    self.forget(sql).await;
                }
                self.judge(sql, expected, outcome, found);
            }
            _ => {}
        }
    }

    /// Returns the rows of a query, or the row count of a statement that changes rows.
    async fn ask(&self, sql: &str) -> Result<Vec<String>, Error> {
        let session = self.database.session.clone();
        let options = StatementOptions {
            timeout: Some(Timeout::After(TIMEOUT)),
            session,
            cancel_handle: None,
        };
        match self.database.engine().execute_with(sql, &options).await? {
            Answer::Rows { stream, .. } => Ok(shown_rows(&stream.try_collect::<Vec<_>>().await?)),
            Answer::Done { rows, .. } => Ok(rows.iter().map(ToString::to_string).collect()),
        }
    }

    /// Drops the table or view of a refused statement, because later queries of it would prove
    /// nothing.
    async fn forget(&self, sql: &str) {
        let words = sql.split(|c: char| c.is_whitespace() || c == '(');
        let words = words.filter(|word| !word.is_empty()).collect::<Vec<_>>();
        let known = ["if", "not", "exists", "or", "replace"];
        let is_before = |word: &str| ["table", "view", "into"].contains(&word);
        let Some(at) = words.iter().position(|word| is_before(&word.to_lowercase())) else {
            return;
        };
        let mut names = words[at + 1..].iter();
        if let Some(name) = names.find(|word| !known.contains(&word.to_lowercase().as_str())) {
            for kind in ["VIEW", "TABLE"] {
                let _ = self.ask(&format!("DROP {kind} IF EXISTS {name}")).await;
            }
        }
    }

    fn judge(
        &self,
        sql: &str,
        expected: QueryExpect<AnyType>,
        outcome: Result<Vec<String>, Error>,
        found: &Mutex<Summary>,
    ) {
        found.lock().expect("no panic").queries += 1;
        let (results, sort_mode) = match expected {
            QueryExpect::Results { results, sort_mode, .. } => (results, sort_mode),
            QueryExpect::Error(_) => match outcome {
                Ok(rows) => return self.add(found, sql, "error", &first(&rows)),
                Err(error) if error.condition() == Condition::Internal => {
                    return self.add(found, sql, "error", &TestError::of(&error).to_string());
                }
                Err(_) => return found.lock().expect("no panic").same += 1,
            },
        };
        let rows = match outcome {
            Ok(rows) => rows,
            Err(error) => return self.refused(sql, &error, found),
        };
        if results.first().is_some_and(|row| row.contains(" values hashing to ")) {
            return;
        }
        let theirs = Rows::of(results, sort_mode.unwrap_or(SortMode::NoSort));
        match theirs.difference(rows) {
            None => found.lock().expect("no panic").same += 1,
            Some((theirs, ours)) => self.add(found, sql, &theirs, &ours),
        }
    }

    fn refused(&self, sql: &str, error: &Error, found: &Mutex<Summary>) {
        let condition = error.condition();
        let text = TestError::of(error).to_string();
        if condition == Condition::Internal || condition == Condition::QueryCanceled {
            return self.add(found, sql, "rows", &text);
        }
        let mut found = found.lock().expect("no panic");
        if condition == Condition::UndefinedTable {
            found.unreachable += 1;
            return;
        }
        let query = format!("{} | {}", self.name, short(sql, SQL_MAX));
        let (count, least) = found.refused.entry(kind_of_error(&text)).or_default();
        *count += 1;
        if least.is_empty() || query < *least {
            *least = query;
        }
    }

    fn add(&self, found: &Mutex<Summary>, sql: &str, theirs: &str, ours: &str) {
        let (theirs, ours) = (short(theirs, ROW_MAX), short(ours, ROW_MAX));
        let line = format!("{} | {} | {theirs} | {ours}", self.name, short(sql, SQL_MAX));
        found.lock().expect("no panic").differences.insert(line);
    }
}

/// Returns the first characters of a text, in one line.
fn short(text: &str, max: usize) -> String {
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match words.char_indices().nth(max) {
        Some((end, _)) => format!("{}..", &words[..end]),
        None => words,
    }
}

/// True if a record applies to DataFusion.
fn is_theirs(conditions: &[RecordCondition]) -> bool {
    conditions.iter().all(|condition| match condition {
        RecordCondition::OnlyIf { label } => label.eq_ignore_ascii_case("datafusion"),
        RecordCondition::SkipIf { label } => !label.eq_ignore_ascii_case("datafusion"),
    })
}

/// True if a statement is about rows rather than plans, settings or the catalog.
fn is_query(sql: &str) -> bool {
    let first = sql.trim_start().split(|c: char| !c.is_alphabetic()).next().unwrap_or_default();
    let words = ["explain", "describe", "show", "set", "copy", "create", "drop", "prepare"];
    let sql = sql.to_lowercase();
    !words.contains(&first.to_lowercase().as_str())
        && !NOT_OURS.iter().any(|name| sql.contains(name))
}

/// Returns the smallest row, because rows may come in any order.
fn first(rows: &[String]) -> String {
    rows.iter().min().map_or("no row".to_owned(), Clone::clone)
}

/// Returns the message of an error without the names and numbers in it, except the name of a
/// function.
fn kind_of_error(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    let line = line.split(" Did you mean").next().unwrap_or_default();
    // The properties of a field are listed in no fixed order.
    let line = line.split(" {").next().unwrap_or_default();
    let mut kind = String::new();
    for (at, part) in line.split(['`', '\'']).enumerate() {
        match at % 2 == 0 || kind.ends_with("function ") {
            true => kind.push_str(part),
            false => kind.push_str(".."),
        }
    }
    kind.chars().filter(|c| !c.is_ascii_digit()).take(SQL_MAX).collect()
}
