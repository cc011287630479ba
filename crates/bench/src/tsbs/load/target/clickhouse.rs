//! ClickHouse over HTTP, rows as tab-separated text: tags in a table of their own as in TSBS, or in
//! each measurement with `--layout wide`. With `--faithful` all columns are TSBS's, whose
//! `created_at` has seconds, beside the time as text.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use super::http::{Http, percent_encoded};
use super::tagged::{KnownTags, TagIds, TaggedRow, base_of, fields, json, pairs, rows};
use super::{Connection, Target, bad_answer};
use crate::error::{Error, Result};
use crate::tsbs::Nanos;
use crate::tsbs::load::args::{LayoutArgument, LoadArguments};
use crate::tsbs::load::rows::{Header, RowLayout};
use crate::tsbs::pipeline::lock;

/// Layout of the tables.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Layout {
    Tags,
    Wide,
    Faithful,
}

pub(super) struct ClickHouse {
    http: Http,
    db: String,
    create: bool,
    abort_on_exist: bool,
    layout: Layout,
    tags: Arc<TagIds>,
    header: Mutex<Option<Arc<Header>>>,
}

impl ClickHouse {
    pub(super) fn new(http: Http, arguments: &LoadArguments) -> Result<ClickHouse> {
        let layout = match (arguments.layout, arguments.faithful) {
            (LayoutArgument::Wide, true) => return Err(Error::WideIsNotFaithful),
            (LayoutArgument::Wide, false) => Layout::Wide,
            (LayoutArgument::Tags, true) => Layout::Faithful,
            (LayoutArgument::Tags, false) => Layout::Tags,
        };
        Ok(ClickHouse {
            http,
            db: arguments.db_name.clone(),
            create: arguments.do_create_db,
            abort_on_exist: arguments.do_abort_on_exist,
            layout,
            tags: Arc::default(),
            header: Mutex::default(),
        })
    }

    fn execute(&self, statement: &str) -> Result<String> {
        self.http.post("/", statement.as_bytes())
    }

    fn count_of(&self, statement: &str) -> Result<u64> {
        let text = self.execute(statement)?;
        let count = text.trim().parse();
        count.map_err(|_| bad_answer("count", text))
    }

    fn create_tables(&self, header: &Header) -> Result<()> {
        let db = quoted(&self.db);
        let tags = header.tags.iter().map(|(name, is_text)| {
            let ty = match (*is_text, self.layout) {
                (true, Layout::Wide) => "LowCardinality(Nullable(String))",
                (true, Layout::Tags | Layout::Faithful) => "Nullable(String)",
                (false, _) => "Nullable(Float32)",
            };
            format!("{} {ty}", quoted(name))
        });
        let tags: Vec<_> = tags.collect();
        let tags = tags.join(", ");
        let created = "created_date Date DEFAULT today(), created_at DateTime DEFAULT now()";
        match self.layout {
            Layout::Wide => {}
            Layout::Tags => drop(self.execute(&format!(
                "CREATE TABLE {db}.tags (id UInt32, {tags}) ENGINE = MergeTree ORDER BY id"
            ))?),
            Layout::Faithful => drop(self.execute(&format!(
                "CREATE TABLE {db}.tags ({created}, id UInt32, {tags}) \
                 ENGINE = MergeTree() PARTITION BY toYYYYMM(created_date) ORDER BY id"
            ))?),
        }
        for (name, fields) in &header.measurements {
            let table = format!("{db}.{}", quoted(name));
            let fields = fields.iter().map(|field| format!("{} Nullable(Float64)", quoted(field)));
            let fields: Vec<_> = fields.collect();
            let fields = fields.join(", ");
            let first = header.tags.first().map_or("created_at", |(name, _)| name.as_str());
            let own = "created_date Date DEFAULT toDate(created_at), \
                       created_at DateTime64(9, 'UTC')";
            self.execute(&match self.layout {
                Layout::Wide => format!(
                    "CREATE TABLE {table} ({own}, {tags}, {fields}, additional_tags String) \
                     ENGINE = MergeTree PARTITION BY toYYYYMMDD(created_at) \
                     ORDER BY ({}, created_at) SETTINGS allow_nullable_key = 1",
                    quoted(first)
                ),
                Layout::Tags => format!(
                    "CREATE TABLE {table} ({own}, tags_id UInt32, {fields}, \
                     additional_tags String) \
                     ENGINE = MergeTree PARTITION BY toYYYYMMDD(created_at) \
                     ORDER BY (tags_id, created_at)"
                ),
                Layout::Faithful => format!(
                    "CREATE TABLE {table} ({created}, time String, tags_id UInt32, {fields}, \
                     additional_tags String DEFAULT '') \
                     ENGINE = MergeTree() PARTITION BY toYYYYMMDD(created_date) \
                     ORDER BY (tags_id, created_at)"
                ),
            })?;
        }
        Ok(())
    }

    /// Reads the ids of the sets of tags in the table, which keep their ids (tagged-2).
    fn read_tags(&self, header: &Header) -> Result<()> {
        let columns: Vec<_> = header.tags.iter().map(|(name, _)| quoted(name)).collect();
        let table = format!("{}.tags", quoted(&self.db));
        let statement =
            format!("SELECT id, {} FROM {table} FORMAT TabSeparated", columns.join(", "));
        for line in self.execute(&statement)?.lines() {
            let mut cells = line.split('\t');
            let id = cells.next().unwrap_or_default();
            let id = id.parse().map_err(|_| Error::BadValue {
                place: "table tags",
                expected: "id of 32 bits",
                text: id.to_owned(),
            })?;
            let values = cells.map(|cell| (cell != "\\N").then_some(cell));
            self.tags.insert(id, base_of(header, values));
        }
        Ok(())
    }
}

fn quoted(name: &str) -> String {
    format!("`{}`", name.replace('\\', "\\\\").replace('`', "\\`"))
}

fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}

impl Target for ClickHouse {
    fn place(&self) -> String {
        self.http.base().to_owned()
    }

    fn layout(&self) -> RowLayout {
        RowLayout::TwoLines
    }

    fn acknowledges(&self) -> bool {
        true
    }

    fn streams(&self) -> bool {
        false
    }

    fn keeps_rows(&self) -> bool {
        true
    }

    fn prepare(&self, header: Option<&Header>) -> Result<()> {
        let header = header.expect("rows of two lines have a header");
        let db = quoted(&self.db);
        let name = literal(&self.db);
        let exists = format!("SELECT count() FROM system.databases WHERE name = {name}");
        if self.abort_on_exist && self.count_of(&exists)? != 0 {
            return Err(Error::Exists { name: self.db.clone() });
        }
        if self.create {
            self.execute(&format!("DROP DATABASE IF EXISTS {db}"))?;
            self.execute(&format!("CREATE DATABASE {db}"))?;
            self.create_tables(header)?;
        } else if self.layout != Layout::Wide {
            self.read_tags(header)?;
        }
        *lock(&self.header) = Some(Arc::new(header.clone()));
        Ok(())
    }

    fn connect(&self) -> Result<Box<dyn Connection>> {
        Ok(Box::new(InsertConnection {
            http: self.http.fresh(),
            db: quoted(&self.db),
            header: lock(&self.header).clone().expect("prepared before"),
            all: (self.layout != Layout::Wide).then(|| Arc::clone(&self.tags)),
            is_faithful: self.layout == Layout::Faithful,
            known: KnownTags::default(),
        }))
    }

    fn count(&self, table: &str) -> Result<Option<u64>> {
        let (db, name) = (literal(&self.db), literal(table));
        let exists =
            format!("SELECT count() FROM system.tables WHERE database = {db} AND name = {name}");
        if self.count_of(&exists)? == 0 {
            return Ok(Some(0));
        }
        let count = format!("SELECT count() FROM {}.{}", quoted(&self.db), quoted(table));
        self.count_of(&count).map(Some)
    }
}

struct InsertConnection {
    http: Http,
    db: String,
    header: Arc<Header>,
    /// The ids of all sets of tags; `None` in the wide layout.
    all: Option<Arc<TagIds>>,
    known: KnownTags,
    is_faithful: bool,
}

impl InsertConnection {
    fn insert(&self, table: &str, columns: &[String], body: &str) -> Result<()> {
        let columns = columns.join(", ");
        let statement =
            format!("INSERT INTO {}.{} ({columns}) FORMAT TabSeparated", self.db, quoted(table));
        let path = format!("/?query={}", percent_encoded(&statement));
        self.http.post(&path, body.as_bytes()).map(drop)
    }

    fn tag_columns(&self) -> impl Iterator<Item = String> {
        self.header.tags.iter().map(|(name, _)| quoted(name))
    }

    fn insert_tags(&self, new: &[(u32, String)]) -> Result<()> {
        let mut body = String::new();
        for (id, base) in new {
            write!(body, "{id}").expect("memory takes it");
            push_cells(&mut body, pairs(base).map(|(_, value)| value));
            body.push('\n');
        }
        let columns: Vec<_> = std::iter::once("id".to_owned()).chain(self.tag_columns()).collect();
        self.insert("tags", &columns, &body)
    }

    fn insert_rows(&self, rows: &[(u32, TaggedRow<'_>)]) -> Result<()> {
        let name = rows.first().map_or("", |(_, row)| row.name);
        let fields = fields(&self.header, name)?;
        let mut body = String::new();
        for (id, row) in rows {
            self.push_time(row.ts, &mut body);
            match self.all {
                Some(_) => write!(body, "\t{id}").expect("memory takes it"),
                None => push_cells(&mut body, pairs(row.base).map(|(_, value)| value)),
            }
            let cells = row.cells.split(',').chain(std::iter::repeat(""));
            push_cells(&mut body, cells.take(fields.len()));
            body.push('\t');
            body.push_str(&json(row.extra).unwrap_or_default());
            body.push('\n');
        }
        let mut columns = vec!["created_at".to_owned()];
        if self.is_faithful {
            columns = ["created_date", "created_at", "time"].map(str::to_owned).to_vec();
        }
        match self.all {
            Some(_) => columns.push("tags_id".to_owned()),
            None => columns.extend(self.tag_columns()),
        }
        columns.extend(fields.iter().map(|field| quoted(field)));
        columns.push("additional_tags".to_owned());
        self.insert(name, &columns, &body)
    }
}

impl InsertConnection {
    /// Writes the time: seconds since 1970 with nine decimals, or, for TSBS's columns, a day, whole
    /// seconds, and the time as text with microseconds, all of them in UTC.
    fn push_time(&self, ts: i64, body: &mut String) {
        let (seconds, nanos) = (ts.div_euclid(1_000_000_000), ts.rem_euclid(1_000_000_000));
        if !self.is_faithful {
            write!(body, "{seconds}.{nanos:09}").expect("memory takes it");
            return;
        }
        let text = Nanos(ts - nanos % 1_000).to_string();
        let (day, time) = text.split_once('T').expect("RFC 3339 has a T");
        let time = time.trim_end_matches('Z');
        write!(body, "{day}\t{seconds}\t{day} {time} +0000").expect("memory takes it");
    }
}

/// Writes each cell behind a tab; an empty one as NULL.
fn push_cells<'a>(body: &mut String, cells: impl Iterator<Item = &'a str>) {
    for cell in cells {
        body.push('\t');
        body.push_str(if cell.is_empty() { "\\N" } else { cell });
    }
}

impl Connection for InsertConnection {
    fn send(&mut self, text: &[u8], _row_count: u64, acked: &AtomicU64) -> Result<()> {
        let mut tables: BTreeMap<&str, Vec<(u32, TaggedRow<'_>)>> = BTreeMap::new();
        let mut new = Vec::new();
        for row in rows(text, self.header.tags.len()) {
            let row = row?;
            let id = match &self.all {
                Some(all) => self.known.id(all, row.base, &mut new),
                None => 0,
            };
            tables.entry(row.name).or_default().push((id, row));
        }
        if !new.is_empty() {
            self.insert_tags(&new)?;
        }
        for rows in tables.values() {
            self.insert_rows(rows)?;
            acked.fetch_add(rows.len() as u64, Relaxed);
        }
        Ok(())
    }
}
