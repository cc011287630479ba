//! `tidegate demo`: generates rows, imports them, runs five queries, and explains the results.
//!
//! - demo-1. It touches only the table `visits` of its own database and a temporary directory for
//!   the file, which is removed at the end, also after an error, unless `--keep` is given.
//! - demo-2. It can be run again: the table is dropped and created anew.

mod file;
mod rows;

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use tidegate_ingest::{
    ColumnSource, DialectOptions, EmptyFields, Existing, ExtraFields, FileFormat, Header,
    ImportOptions, ImportSummary, MissingFields, OnError, Quote, RejectList, RowsTo, Source,
};
use tidegate_model::schema::same_name;
use tidegate_model::{ByteCount, PartitionUnit};
use tidegate_platform::{Disk, IoMode, OpenMode, free_disk_bytes};
use tidegate_query::{TableDefinition, parse_create_table};
use tidegate_storage::Database;

use crate::args::{DemoArguments, ResourceArguments};
use crate::environment::stdout_columns;
use crate::error::{Error, Exit, Result};
use crate::import::import;
use crate::output::{Form, Format, Layout, Target};
use crate::progress::ProgressStyle;
use crate::session::Session;
use crate::sql::{self, Runner, outcome_line};
use crate::text::{bytes, count, counted, elapsed};

const TABLE: &str = "visits";
/// Upper bound for the size of stored rows: their CSV divided by this.
const STORED_PART: u64 = 2;

/// The queries, each with a question that explains it.
const QUESTIONS: [(&str, &str); 5] = [
    (
        "How many visits are there, and from when to when? Footers of files tell; no row is read.",
        "SELECT count(*) AS visits, min(time) AS first, max(time) AS last FROM visits",
    ),
    (
        "Where did visitors come from on one day? Only that day's partition is read.",
        "SELECT country, count(*) AS visits, round(avg(duration_ms), 1) AS mean_ms\n  \
         FROM visits\n WHERE time >= '2025-06-15' AND time < '2025-06-16'\n \
         GROUP BY country ORDER BY visits DESC LIMIT 5",
    ),
    (
        "What did the shop earn each week? The rows are grouped by week.",
        "SELECT date_trunc('week', time) AS week, count(revenue) AS orders,\n       \
         round(sum(revenue), 2) AS revenue\n  FROM visits\n WHERE site = 'shop.example'\n \
         GROUP BY week ORDER BY week",
    ),
    (
        "Which pages failed most often? Text with few values is stored as small numbers.",
        "SELECT site, page, count(*) AS errors, max(time) AS last\n  FROM visits\n \
         WHERE status >= 500\n GROUP BY site, page ORDER BY errors DESC, site, page LIMIT 5",
    ),
    (
        "What did one visitor do last? A search through all rows, decoding only what it needs.",
        "SELECT time, site, page, status, duration_ms\n  FROM visits\n WHERE visitor = 4711\n \
         ORDER BY time DESC LIMIT 5",
    ),
];

pub(crate) fn run(arguments: &DemoArguments, session: &Session) -> Result<Exit> {
    let interrupted = session.catch_interrupts();
    let rows = arguments.rows;
    let size = ByteCount(rows * rows::ROW_BYTES);
    let dir = arguments.dir.as_ref().unwrap_or(&session.environment.temp_dir);
    require_space(dir, size, "use --dir for another directory, or --rows for fewer rows")?;
    let database = session.open()?;
    let stored = ByteCount(size.0 / STORED_PART);
    require_space(&session.db, stored, "use --db for another directory, or --rows for fewer rows")?;

    sql::print(&format!(
        "This demo imports {} of a month, in the order in which they arrived:\n\
         most within seconds, some after hours.\n\n",
        counted(rows, "page view")
    ))?;
    let demo = Demo { session, interrupted: &interrupted, rows };
    let folder = Folder::create(dir, Arc::clone(&session.disk), arguments.keep)?;
    let csv = folder.path.join("visits.csv");
    demo.make(&csv)?;
    demo.load(&database, &csv)?;
    drop(folder);
    demo.ask(database)?;

    let db = session.db.display();
    let kept =
        if arguments.keep { format!("The file is {}. ", csv.display()) } else { String::new() };
    sql::print(&format!(
        "{kept}The database stays in {db}. Run more queries with\n\n    tidegate --db {db} sql\n\n\
         or import a file of your own:\n\n    \
         tidegate import FILE.csv --table NAME --timestamp COLUMN --partition-by day\n"
    ))?;
    Ok(Exit::Done)
}

/// Returns the definition of the table for the rows.
fn definition() -> Result<TableDefinition> {
    Ok(parse_create_table(&format!("CREATE TABLE {TABLE} ({})", rows::COLUMNS))?)
}

/// The state that every step needs.
struct Demo<'a> {
    session: &'a Session,
    interrupted: &'a Arc<AtomicBool>,
    rows: u64,
}

impl Demo<'_> {
    fn threads(&self) -> NonZeroUsize {
        self.session.environment.cores
    }

    fn make(&self, csv: &Path) -> Result<()> {
        let start = self.session.clock.monotonic_nanos();
        let written = self
            .session
            .disk
            .open(csv, OpenMode::CreateNew)
            .and_then(|file| file::write(&*file, self.rows, self.threads(), self.interrupted))
            .map_err(Error::disk("write the file"))?;
        let Some(size) = written else {
            return Err(Error::Interrupted { consequence: "; the file was removed" });
        };
        let nanos = self.session.clock.monotonic_nanos() - start;
        sql::print(&format!("1. Wrote {}: {} in {}.\n", csv.display(), bytes(size), elapsed(nanos)))
    }

    fn load(&self, database: &Arc<Database>, csv: &Path) -> Result<()> {
        // demo-2.
        if database.tables().iter().any(|table| same_name(&table.name, TABLE)) {
            // A table with these columns comes from an earlier demo; any other is the user's own.
            let schema = Arc::clone(&database.snapshot(TABLE)?.schema);
            let own = schema.columns().iter().map(|column| (column.name.clone(), column.ty));
            if !own.eq(definition()?.columns) {
                return Err(Error::DemoTable { table: TABLE, dir: self.session.db.clone() });
            }
            database.drop_tables(&[TABLE])?;
        }
        let options = self.options(csv)?;
        let drawing = match ProgressStyle::Bar.drawing(&self.session.environment) {
            drawing if self.session.environment.stderr_is_terminal => drawing,
            _ => crate::progress::Drawing::Nothing,
        };
        let start = self.session.clock.monotonic_nanos();
        let summary = import(database, &options, drawing, self.session, self.interrupted)?;
        let nanos = self.session.clock.monotonic_nanos() - start;
        sql::print(&imported(&summary, nanos))
    }

    /// Returns the options that `tidegate import` would use.
    fn options(&self, csv: &Path) -> Result<ImportOptions> {
        let definition = definition()?;
        Ok(ImportOptions {
            source: Source::Files(vec![csv.to_path_buf()]),
            table: TABLE.to_owned(),
            columns: ColumnSource::Given(definition.columns),
            fields: None,
            existing: Existing::Add,
            lengths: Vec::new(),
            timestamp: Some("time".to_owned()),
            partition_by: Some(PartitionUnit::Day),
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
            rejects: RejectList::File(csv.with_extension("rejects.ndjson")),
            rows_to: RowsTo::Table,
            workers: self.threads(),
            memory_max: ByteCount(self.session.environment.memory.0 / 4),
            io: IoMode::Auto,
        })
    }

    fn ask(&self, database: Arc<Database>) -> Result<()> {
        sql::print("3. Ran five queries.\n\n")?;
        let resources = ResourceArguments { memory: None, threads: None };
        let runner = sql::runner(database, &resources, self.session)?;
        for (purpose, question) in QUESTIONS {
            sql::print(&format!("{purpose}\n\n{}\n\n", indented(question)))?;
            let line = self.answer(&runner, question)?;
            sql::print(&format!("{line}\n\n"))?;
        }
        Ok(())
    }

    fn answer(&self, runner: &Runner, question: &str) -> Result<String> {
        let layout = if self.session.environment.stdout_is_terminal {
            Layout::Terminal { columns: stdout_columns() }
        } else {
            Layout::Plain
        };
        let form = Form { format: Format::Table, layout, is_file: false };
        let mut target = Target::stdout();
        let outcome = runner.run(question, form, &mut target, self.interrupted, &mut 0)?;
        let place = target.place().to_owned();
        target.finish().map_err(|error| Error::Output { place, source: error.into() })?;
        Ok(outcome_line(&outcome))
    }
}

fn imported(summary: &ImportSummary, nanos: u64) -> String {
    let seconds = nanos as f64 / 1e9;
    #[expect(clippy::cast_possible_truncation, reason = "a rate, for people")]
    let rate = |amount: u64| (amount as f64 / seconds) as u64;
    let per_cent = summary.bytes_written * 100 / summary.bytes_read.max(1);
    format!(
        "2. Imported into the table {TABLE}: {} in {} ({} rows/s, {}/s).\n   \
         They are in {}, one file each, sorted by time, and take {} on disk,\n   \
         {per_cent} % of the CSV. All rows were added by one commit.\n",
        counted(summary.rows_imported, "row"),
        elapsed(nanos),
        count(rate(summary.rows_imported)),
        bytes(rate(summary.bytes_read)),
        counted(summary.partitions, "partition"),
        bytes(summary.bytes_written),
    )
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n")
}

/// Fails before any work if the disk has too little free space.
fn require_space(dir: &Path, needed: ByteCount, advice: &'static str) -> Result<()> {
    let free = ByteCount(free_disk_bytes(dir).map_err(Error::disk("look for free space"))?);
    if free < needed {
        return Err(Error::NoSpace { dir: dir.to_path_buf(), needed, free, advice });
    }
    Ok(())
}

/// The directory of the file, removed on drop (demo-1).
struct Folder {
    path: PathBuf,
    disk: Arc<dyn Disk>,
    is_kept: bool,
}

impl Folder {
    fn create(dir: &Path, disk: Arc<dyn Disk>, is_kept: bool) -> Result<Folder> {
        let path = dir.join(format!("tidegate-demo-{}", std::process::id()));
        // A killed process with the same process id may have left its directory.
        disk.remove_dir_all(&path).map_err(Error::disk("make room for the file"))?;
        disk.create_dir_all(&path).map_err(Error::disk("make a folder for the file"))?;
        Ok(Folder { path, disk, is_kept })
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !self.is_kept {
            // The result of the demo, or its error, matters more than this one.
            let _ = self.disk.remove_dir_all(&self.path);
        }
    }
}
