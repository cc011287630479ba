//! PostgreSQL and TimescaleDB, by COPY: a table `tags`, and for each measurement one with the time,
//! the id of its tags, further tags as JSON, and a double for each field.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::runtime::{Builder, Runtime};
use tokio_postgres::binary_copy::BinaryCopyInWriter;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Config, NoTls};

use super::tagged::{KnownTags, TagIds, TaggedRow, fields, float, json, pairs, rows};
use super::{Connection, Target};
use crate::error::{Error, Result};
use crate::tsbs::load::args::LoadArguments;
use crate::tsbs::load::rows::{Header, RowLayout};
use crate::tsbs::options::parse_duration;
use crate::tsbs::pipeline::lock;

pub(super) struct Postgres {
    /// To the database that is loaded into.
    config: Config,
    place: String,
    db: String,
    create: bool,
    abort_on_exist: bool,
    hypertable_chunk: Option<Duration>,
    time_index: bool,
    partition_index: bool,
    tags: Arc<TagIds>,
    header: std::sync::Mutex<Option<Arc<Header>>>,
}

/// A client and what drives it.
struct Session {
    runtime: Runtime,
    client: Client,
}

impl Session {
    fn open(config: &Config) -> Result<Session> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|source| Error::Thread { source })?;
        let connected = runtime.block_on(config.connect(NoTls));
        let (client, connection) = connected.map_err(failed("connect to PostgreSQL"))?;
        // What goes wrong with it, the client is told too.
        runtime.spawn(async { drop(connection.await) });
        Ok(Session { runtime, client })
    }

    fn execute(&self, purpose: &'static str, statements: &str) -> Result<()> {
        self.runtime.block_on(self.client.batch_execute(statements)).map_err(failed(purpose))
    }

    fn count(&self, statement: &str) -> Result<i64> {
        let row = self.runtime.block_on(self.client.query_one(statement, &[]));
        Ok(row.map_err(failed("count"))?.get(0))
    }
}

fn failed(purpose: &'static str) -> impl Fn(tokio_postgres::Error) -> Error {
    move |source| Error::Postgres { purpose, source: Box::new(source) }
}

impl Postgres {
    pub(super) fn new(arguments: &LoadArguments, timeout: Duration) -> Result<Postgres> {
        let place = &arguments.place;
        let mut config = Config::new();
        config.host(&place.host).port(place.port).dbname(&arguments.db_name);
        config.user(place.user.as_deref().unwrap_or("postgres")).connect_timeout(timeout);
        if let Some(pass) = &place.pass {
            config.password(pass);
        }
        let postgres = &arguments.postgres;
        let chunk = Duration::from_nanos(parse_duration(&postgres.chunk_time)?);
        Ok(Postgres {
            config,
            place: format!("{}:{}", place.host, place.port),
            db: arguments.db_name.clone(),
            create: arguments.do_create_db,
            abort_on_exist: arguments.do_abort_on_exist,
            hypertable_chunk: postgres.use_hypertable.then_some(chunk),
            time_index: postgres.time_index,
            partition_index: postgres.partition_index,
            tags: Arc::default(),
            header: std::sync::Mutex::default(),
        })
    }

    fn create_database(&self) -> Result<()> {
        let mut config = self.config.clone();
        config.dbname("postgres");
        let session = Session::open(&config)?;
        let name = quoted(&self.db);
        let literal = self.db.replace('\'', "''");
        let statement = format!("SELECT count(*) FROM pg_database WHERE datname = '{literal}'");
        let exists = session.count(&statement)? != 0;
        if exists && self.abort_on_exist {
            return Err(Error::Exists { name: self.db.clone() });
        }
        if self.create {
            session.execute("drop the database", &format!("DROP DATABASE IF EXISTS {name}"))?;
            session.execute("create the database", &format!("CREATE DATABASE {name}"))?;
        }
        Ok(())
    }

    fn table_statements(&self, header: &Header) -> String {
        let columns = header.tags.iter().map(|(name, is_text)| {
            format!("{} {}", quoted(name), if *is_text { "text" } else { "real" })
        });
        let columns: Vec<_> = columns.collect();
        let names: Vec<_> = header.tags.iter().map(|(name, _)| quoted(name)).collect();
        let mut statements = format!(
            "CREATE TABLE tags (id serial PRIMARY KEY, {});\n\
             CREATE UNIQUE INDEX tags_all ON tags ({});\n\
             CREATE INDEX tags_first ON tags ({});\n",
            columns.join(", "),
            names.join(", "),
            names.first().map_or("id", String::as_str),
        );
        if self.hypertable_chunk.is_some() {
            statements.push_str("CREATE EXTENSION IF NOT EXISTS timescaledb CASCADE;\n");
        }
        for (name, fields) in &header.measurements {
            let fields = fields.iter().map(|field| format!("{} double precision", quoted(field)));
            let fields: Vec<_> = fields.collect();
            let table = quoted(name);
            statements.push_str(&format!(
                "CREATE TABLE {table} (time timestamptz NOT NULL, tags_id integer, \
                 additional_tags json, {});\n",
                fields.join(", "),
            ));
            if self.partition_index {
                statements.push_str(&format!("CREATE INDEX ON {table} (tags_id, time DESC);\n"));
            }
            if self.time_index {
                statements.push_str(&format!("CREATE INDEX ON {table} (time DESC);\n"));
            }
            if let Some(chunk) = self.hypertable_chunk {
                statements.push_str(&format!(
                    "SELECT create_hypertable('{table}'::regclass, 'time'::name, \
                     chunk_time_interval => {}, create_default_indexes => false);\n",
                    chunk.as_micros(),
                ));
            }
        }
        statements
    }
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

impl Target for Postgres {
    fn place(&self) -> String {
        self.place.clone()
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
        self.create_database()?;
        let session = Session::open(&self.config)?;
        let exists = session.count("SELECT count(*) FROM pg_tables WHERE tablename = 'tags'")?;
        if exists == 0 {
            session.execute("create the tables", &self.table_statements(header))?;
        } else {
            self.tags.start_after(session.count("SELECT coalesce(max(id), 0)::int8 FROM tags")?);
        }
        *lock(&self.header) = Some(Arc::new(header.clone()));
        Ok(())
    }

    fn connect(&self) -> Result<Box<dyn Connection>> {
        let header = lock(&self.header).clone().expect("prepared before");
        Ok(Box::new(CopyConnection {
            session: Session::open(&self.config)?,
            header,
            all: Arc::clone(&self.tags),
            known: KnownTags::default(),
        }))
    }

    fn count(&self, table: &str) -> Result<Option<u64>> {
        let session = Session::open(&self.config)?;
        let literal = table.replace('\'', "''");
        let exists = format!("SELECT count(*) FROM pg_tables WHERE tablename = '{literal}'");
        if session.count(&exists)? == 0 {
            return Ok(Some(0));
        }
        let count = session.count(&format!("SELECT count(*) FROM {}", quoted(table)))?;
        Ok(u64::try_from(count).ok())
    }
}

struct CopyConnection {
    session: Session,
    header: Arc<Header>,
    all: Arc<TagIds>,
    known: KnownTags,
}

impl Connection for CopyConnection {
    fn send(&mut self, text: &[u8], (_, acked): (u64, &AtomicU64)) -> Result<()> {
        let mut tables: BTreeMap<&str, Vec<(u32, TaggedRow<'_>)>> = BTreeMap::new();
        let mut new = Vec::new();
        for row in rows(text, self.header.tags.len()) {
            let row = row?;
            let id = self.known.id(&self.all, row.base, &mut new);
            tables.entry(row.name).or_default().push((id, row));
        }
        self.session.runtime.block_on(async {
            if !new.is_empty() {
                copy_tags(&self.session.client, &self.header, &new).await?;
            }
            for (name, rows) in &tables {
                let count = copy_rows(&self.session.client, fields(&self.header, name)?, rows);
                acked.fetch_add(count.await?, Relaxed);
            }
            Ok(())
        })
    }

    fn finish(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

async fn copy_tags(client: &Client, header: &Header, new: &[(u32, String)]) -> Result<()> {
    let names: Vec<_> = header.tags.iter().map(|(name, _)| quoted(name)).collect();
    let statement = format!("COPY tags (id, {}) FROM STDIN BINARY", names.join(", "));
    let mut types = vec![Type::INT4];
    let ty = |is_text: bool| if is_text { Type::TEXT } else { Type::FLOAT4 };
    types.extend(header.tags.iter().map(|(_, is_text)| ty(*is_text)));
    let sink = client.copy_in(&statement).await.map_err(failed("copy tags"))?;
    let mut writer = pin!(BinaryCopyInWriter::new(sink, &types));
    for (id, base) in new {
        let id = id.cast_signed();
        let mut texts = Vec::new();
        for ((_, value), (_, is_text)) in pairs(base).zip(&header.tags) {
            let number = if *is_text { None } else { float(value)? };
            let text = (*is_text && !value.is_empty()).then_some(value);
            texts.push((*is_text, text, number.map(single)));
        }
        let mut values: Vec<&(dyn ToSql + Sync)> = vec![&id];
        values.extend(texts.iter().map(|(is_text, text, number)| {
            let value: &(dyn ToSql + Sync) = if *is_text { text } else { number };
            value
        }));
        writer.as_mut().write(&values).await.map_err(failed("copy tags"))?;
    }
    writer.finish().await.map_err(failed("copy tags"))?;
    Ok(())
}

/// Returns how many rows the server says that it took.
async fn copy_rows(
    client: &Client,
    fields: &[String],
    rows: &[(u32, TaggedRow<'_>)],
) -> Result<u64> {
    let name = rows.first().map_or("", |(_, row)| row.name);
    let names: Vec<_> = fields.iter().map(|field| quoted(field)).collect();
    let columns = format!("time, tags_id, additional_tags, {}", names.join(", "));
    let statement = format!("COPY {} ({columns}) FROM STDIN BINARY", quoted(name));
    // The binary form of JSON is its text.
    let mut types = vec![Type::TIMESTAMPTZ, Type::INT4, Type::TEXT];
    types.resize(3 + fields.len(), Type::FLOAT8);
    let sink = client.copy_in(&statement).await.map_err(failed("copy rows"))?;
    let mut writer = pin!(BinaryCopyInWriter::new(sink, &types));
    let mut cells = Vec::new();
    for (id, row) in rows {
        let (time, id, extra) = (time(row.ts), id.cast_signed(), json(row.extra));
        cells.clear();
        for cell in row.cells.split(',').take(fields.len()) {
            cells.push(float(cell)?);
        }
        // Hosts of devops-generic have fewer cells than the header has names.
        cells.resize(fields.len(), None);
        let mut values: Vec<&(dyn ToSql + Sync)> = vec![&time, &id, &extra];
        values.extend(cells.iter().map(|cell| cell as &(dyn ToSql + Sync)));
        writer.as_mut().write(&values).await.map_err(failed("copy rows"))?;
    }
    writer.finish().await.map_err(failed("copy rows"))
}

fn time(ts: i64) -> SystemTime {
    let distance = Duration::from_nanos(ts.unsigned_abs());
    if ts < 0 { UNIX_EPOCH - distance } else { UNIX_EPOCH + distance }
}

#[expect(clippy::cast_possible_truncation, reason = "the tag was a 32-bit float")]
fn single(number: f64) -> f32 {
    number as f32
}
