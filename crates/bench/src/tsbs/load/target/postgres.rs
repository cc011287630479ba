//! PostgreSQL and TimescaleDB as targets, by COPY or INSERT: a table `tags`, and for each
//! measurement a table with the time, the id of its tags, further tags as JSON, and a double for
//! each field.

mod schema;
mod rows;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio_postgres::{Client, Config, NoTls};

use self::rows::{copy_rows, copy_tags, insert_json_tags, insert_rows};
use self::schema::Schema;
use super::tagged::{self, KnownTags, TagIds, TaggedRow};
use super::{Connection, Target, quoted};
use crate::error::{Error, Result};
use crate::tsbs::load::args::LoadArguments;
use crate::tsbs::load::rows::{Header, RowLayout};
use crate::tsbs::pipeline::lock;

pub(super) struct Postgres {
    /// Connection settings for the database that is loaded.
    config: Config,
    server: Server,
    db: String,
    create: bool,
    abort_on_exist: bool,
    schema: Schema,
    /// True if rows go by INSERT instead of COPY.
    inserts: bool,
    tags: Arc<TagIds>,
    header: Mutex<Option<Arc<Header>>>,
    /// The connection that counts rows; it stays open.
    counting: Mutex<Option<Session>>,
}

/// A client with the runtime that drives its connection.
struct Session {
    runtime: Runtime,
    client: Client,
    server: Server,
}

/// The address of the server, and the time limit of requests to it.
#[derive(Clone)]
struct Server {
    address: String,
    timeout: Duration,
}

impl Server {
    fn wait<T>(
        &self,
        runtime: &Runtime,
        purpose: &'static str,
        work: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let timed = async { tokio::time::timeout(self.timeout, work).await };
        runtime.block_on(timed).unwrap_or_else(|_| {
            Err(Error::NoAnswer { purpose, address: self.address.clone(), timeout: self.timeout })
        })
    }
}

impl Session {
    fn open(config: &Config, server: &Server) -> Result<Session> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|source| Error::Thread { source })?;
        let purpose = "connect to PostgreSQL";
        let connect = async {
            config.connect(NoTls).await.map_err(|source| Error::ConnectPostgres {
                address: server.address.clone(),
                source: Box::new(source),
            })
        };
        let (client, connection) = server.wait(&runtime, purpose, connect)?;
        // An error of the connection is also reported to the client.
        runtime.spawn(async { drop(connection.await) });
        Ok(Session { runtime, client, server: server.clone() })
    }

    fn wait<T>(
        &self,
        purpose: &'static str,
        work: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T> {
        let work = async { work.await.map_err(failed(purpose)) };
        self.server.wait(&self.runtime, purpose, work)
    }

    fn execute(&self, purpose: &'static str, statements: &str) -> Result<()> {
        self.wait(purpose, self.client.batch_execute(statements))
    }

    fn count(&self, statement: &str) -> Result<i64> {
        self.wait("count", self.client.query_one(statement, &[])).map(|row| row.get(0))
    }
}

fn failed(purpose: &'static str) -> impl Fn(tokio_postgres::Error) -> Error {
    move |source| Error::Postgres { purpose, source: Box::new(source) }
}

impl Postgres {
    pub(super) fn new(arguments: &LoadArguments) -> Postgres {
        let place = &arguments.place;
        let mut config = Config::new();
        let port = place.port.unwrap_or(5_432);
        config.host(&place.host).port(port).dbname(&arguments.db_name);
        config.user(place.user.as_deref().unwrap_or("postgres"));
        if let Some(pass) = &place.pass {
            config.password(pass);
        }
        let address = format!("{}:{port}", place.host);
        Postgres {
            config,
            server: Server { address, timeout: arguments.timeout },
            db: arguments.db_name.clone(),
            create: arguments.do_create_db,
            abort_on_exist: arguments.do_abort_on_exist,
            schema: Schema::new(&arguments.postgres),
            inserts: arguments.postgres.use_insert,
            tags: Arc::default(),
            header: Mutex::default(),
            counting: Mutex::default(),
        }
    }

    fn create_database(&self) -> Result<()> {
        if !self.create && !self.abort_on_exist {
            return Ok(());
        }
        let mut config = self.config.clone();
        config.dbname("postgres");
        let session = Session::open(&config, &self.server)?;
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
}

impl Target for Postgres {
    fn place(&self) -> String {
        self.server.address.clone()
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
        let session = Session::open(&self.config, &self.server)?;
        let exists = session.count("SELECT count(*) FROM pg_tables WHERE tablename = 'tags'")?;
        if exists == 0 {
            session.execute("create the tables", &self.schema.statements(header))?;
        } else {
            self.schema.read_tags(&session, header, &self.tags)?;
        }
        *lock(&self.header) = Some(Arc::new(header.clone()));
        Ok(())
    }

    fn connect(&self) -> Result<Box<dyn Connection>> {
        let header = lock(&self.header).clone().expect("prepared before");
        Ok(Box::new(RowConnection {
            session: Session::open(&self.config, &self.server)?,
            header,
            all: Arc::clone(&self.tags),
            known: KnownTags::default(),
            json_tags: self.schema.json_tags,
            tag_in_table: self.schema.tag_in_table,
            inserts: self.inserts,
        }))
    }

    fn count(&self, table: &str) -> Result<Option<u64>> {
        let mut counting = lock(&self.counting);
        let session = match counting.take() {
            Some(session) => session,
            None => Session::open(&self.config, &self.server)?,
        };
        let literal = table.replace('\'', "''");
        let exists = format!("SELECT count(*) FROM pg_tables WHERE tablename = '{literal}'");
        let count = match session.count(&exists)? {
            0 => 0,
            _ => session.count(&format!("SELECT count(*) FROM {}", quoted(table)))?,
        };
        // A connection that failed is not used again.
        *counting = Some(session);
        Ok(u64::try_from(count).ok())
    }
}

struct RowConnection {
    session: Session,
    header: Arc<Header>,
    all: Arc<TagIds>,
    known: KnownTags,
    json_tags: bool,
    tag_in_table: bool,
    inserts: bool,
}

impl RowConnection {
    async fn write_tags(&self, new: &[(u32, String)]) -> Result<()> {
        match self.json_tags {
            true => insert_json_tags(&self.session.client, &self.header, new).await,
            false => copy_tags(&self.session.client, &self.header, new).await,
        }
    }

    /// Writes rows, and returns the number that the server reports.
    async fn write_rows(&self, rows: &rows::Rows<'_>) -> Result<u64> {
        let (client, header) = (&self.session.client, &*self.header);
        match self.inserts {
            true => insert_rows(client, header, self.tag_in_table, rows).await,
            false => copy_rows(client, header, self.tag_in_table, rows).await,
        }
    }
}

impl Connection for RowConnection {
    fn send(&mut self, text: &[u8], _row_count: u64, acked: &AtomicU64) -> Result<()> {
        let mut tables: BTreeMap<&str, Vec<(u32, TaggedRow<'_>)>> = BTreeMap::new();
        let mut new = Vec::new();
        for row in tagged::rows(text, self.header.tags.len()) {
            let row = row?;
            let id = self.known.id(&self.all, row.base, &mut new);
            tables.entry(row.name).or_default().push((id, row));
        }
        let work = async {
            if !new.is_empty() {
                self.write_tags(&new).await?;
            }
            for rows in tables.values() {
                acked.fetch_add(self.write_rows(rows).await?, Relaxed);
            }
            Ok(())
        };
        self.session.server.wait(&self.session.runtime, "write rows", work)
    }
}
