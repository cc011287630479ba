//! ClickHouse over HTTP, rows as tab-separated text: tags in a table of their own as TSBS has them,
//! or with `--layout wide` in each measurement.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::http::{Http, percent_encoded};
use super::tagged::{KnownTags, TagIds, TaggedRow, fields, json, pairs, rows};
use super::{Connection, Target};
use crate::error::{Error, Result};
use crate::tsbs::load::args::{LayoutArgument, LoadArguments};
use crate::tsbs::load::rows::{Header, RowLayout};
use crate::tsbs::options::parse_duration;
use crate::tsbs::pipeline::lock;

pub(super) struct ClickHouse {
    http: Http,
    timeout: Duration,
    db: String,
    create: bool,
    abort_on_exist: bool,
    is_wide: bool,
    tags: Arc<TagIds>,
    header: Mutex<Option<Arc<Header>>>,
}

impl ClickHouse {
    pub(super) fn new(mut http: Http, arguments: &LoadArguments) -> ClickHouse {
        if let Some(user) = &arguments.place.user {
            http.authorize(user, arguments.place.pass.as_deref().unwrap_or_default());
        }
        let timeout = parse_duration(&arguments.timeout).unwrap_or(60_000_000_000);
        ClickHouse {
            http,
            timeout: Duration::from_nanos(timeout),
            db: arguments.db_name.clone(),
            create: arguments.do_create_db,
            abort_on_exist: arguments.do_abort_on_exist,
            is_wide: arguments.layout == LayoutArgument::Wide,
            tags: Arc::default(),
            header: Mutex::default(),
        }
    }

    fn execute(&self, statement: &str) -> Result<String> {
        self.http.post("/", statement.as_bytes())
    }

    fn count_of(&self, statement: &str) -> Result<u64> {
        let text = self.execute(statement)?;
        let count = text.trim().parse();
        count.map_err(|_| Error::BadValue {
            place: "the answer to a count",
            expected: "number",
            text,
        })
    }

    fn create_tables(&self, header: &Header) -> Result<()> {
        let db = quoted(&self.db);
        let tags = header.tags.iter().map(|(name, is_text)| {
            let ty = match (*is_text, self.is_wide) {
                (true, true) => "LowCardinality(Nullable(String))",
                (true, false) => "Nullable(String)",
                (false, _) => "Nullable(Float32)",
            };
            format!("{} {ty}", quoted(name))
        });
        let tags: Vec<_> = tags.collect();
        let tags = tags.join(", ");
        if !self.is_wide {
            self.execute(&format!(
                "CREATE TABLE {db}.tags (id UInt32, {tags}) ENGINE = MergeTree ORDER BY id"
            ))?;
        }
        for (name, fields) in &header.measurements {
            let fields = fields.iter().map(|field| format!("{} Nullable(Float64)", quoted(field)));
            let fields: Vec<_> = fields.collect();
            let first = header.tags.first().map_or("created_at", |(name, _)| name.as_str());
            let (key, order) = match self.is_wide {
                true => (tags.clone(), quoted(first)),
                false => ("tags_id UInt32".to_owned(), "tags_id".to_owned()),
            };
            self.execute(&format!(
                "CREATE TABLE {db}.{} (created_date Date DEFAULT toDate(created_at), \
                 created_at DateTime64(9, 'UTC'), {key}, {}, additional_tags String) \
                 ENGINE = MergeTree PARTITION BY toYYYYMMDD(created_at) \
                 ORDER BY ({order}, created_at) SETTINGS allow_nullable_key = 1",
                quoted(name),
                fields.join(", "),
            ))?;
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
        } else if !self.is_wide {
            let last = self.count_of(&format!("SELECT max(id) FROM {db}.tags"))?;
            self.tags.start_after(i64::try_from(last).unwrap_or(0));
        }
        *lock(&self.header) = Some(Arc::new(header.clone()));
        Ok(())
    }

    fn connect(&self) -> Result<Box<dyn Connection>> {
        Ok(Box::new(InsertConnection {
            http: self.http.fresh(self.timeout),
            db: quoted(&self.db),
            header: lock(&self.header).clone().expect("prepared before"),
            all: (!self.is_wide).then(|| Arc::clone(&self.tags)),
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
    /// `None` in the wide layout.
    all: Option<Arc<TagIds>>,
    known: KnownTags,
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
            let (seconds, nanos) =
                (row.ts.div_euclid(1_000_000_000), row.ts.rem_euclid(1_000_000_000));
            write!(body, "{seconds}.{nanos:09}").expect("memory takes it");
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
        match self.all {
            Some(_) => columns.push("tags_id".to_owned()),
            None => columns.extend(self.tag_columns()),
        }
        columns.extend(fields.iter().map(|field| quoted(field)));
        columns.push("additional_tags".to_owned());
        self.insert(name, &columns, &body)
    }
}

/// Each behind a tab; empty ones as NULL.
fn push_cells<'a>(body: &mut String, cells: impl Iterator<Item = &'a str>) {
    for cell in cells {
        body.push('\t');
        body.push_str(if cell.is_empty() { "\\N" } else { cell });
    }
}

impl Connection for InsertConnection {
    fn send(&mut self, text: &[u8], (_, acked): (u64, &AtomicU64)) -> Result<()> {
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

    fn finish(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}
