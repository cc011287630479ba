//! CrateDB as a load target: INSERT of many rows per request to the HTTP endpoint `_sql`. A row is
//! an object of tags, a timestamp, and a double for each field.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::http::Http;
use super::tagged::fields;
use super::{Connection, Target, bad_answer, quoted};
use crate::error::{Error, Result};
use crate::tsbs::load::args::LoadArguments;
use crate::tsbs::load::rows::{Header, RowLayout};
use crate::tsbs::pipeline::lock;

pub(super) struct CrateDb {
    http: Http,
    /// Name of the database, which CrateDB calls a schema.
    db: String,
    create: bool,
    abort_on_exist: bool,
    shards: u32,
    replicas: u32,
    header: Mutex<Option<Arc<Header>>>,
}

impl CrateDb {
    pub(super) fn new(mut http: Http, arguments: &LoadArguments) -> CrateDb {
        http.add_header("Content-Type", "application/json".to_owned());
        CrateDb {
            http,
            db: arguments.db_name.clone(),
            create: arguments.do_create_db,
            abort_on_exist: arguments.do_abort_on_exist,
            shards: arguments.shards,
            replicas: arguments.replicas,
            header: Mutex::default(),
        }
    }

    fn table(&self, name: &str) -> String {
        format!("{}.{}", quoted(&self.db), quoted(name))
    }

    fn create_table(&self, header: &Header, name: &str, fields: &[String]) -> Result<()> {
        let tags = header.tags.iter().map(|(name, is_text)| {
            format!("{} {}", quoted(name), if *is_text { "TEXT" } else { "DOUBLE" })
        });
        let tags: Vec<_> = tags.collect();
        let fields: Vec<_> =
            fields.iter().map(|field| format!("{} DOUBLE", quoted(field))).collect();
        execute(
            &self.http,
            &json!({"stmt": format!(
                "CREATE TABLE {} (tags OBJECT(DYNAMIC) AS ({}), ts TIMESTAMP WITH TIME ZONE, {}) \
                 CLUSTERED INTO {} SHARDS WITH (number_of_replicas = {})",
                self.table(name),
                tags.join(", "),
                fields.join(", "),
                self.shards,
                self.replicas,
            )}),
        )?;
        Ok(())
    }

    fn exists(&self, table: &str) -> Result<bool> {
        let answer = execute(
            &self.http,
            &json!({
                "stmt": "SELECT count(*) FROM information_schema.tables \
                         WHERE table_schema = ? AND table_name = ?",
                "args": [self.db, table],
            }),
        )?;
        Ok(answer["rows"][0][0].as_u64() != Some(0))
    }
}

fn execute(http: &Http, statement: &Value) -> Result<Value> {
    let text = http.post("/_sql", statement.to_string().as_bytes())?;
    serde_json::from_str(&text).map_err(|_| bad_answer("JSON", text))
}

impl Target for CrateDb {
    fn place(&self) -> String {
        self.http.base().to_owned()
    }

    fn layout(&self) -> RowLayout {
        RowLayout::Tabs
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
        let header = header.expect("tab-separated rows have a header");
        for (name, fields) in &header.measurements {
            if self.abort_on_exist && self.exists(name)? {
                return Err(Error::Exists { name: self.table(name) });
            }
            if self.create {
                let drop = format!("DROP TABLE IF EXISTS {}", self.table(name));
                execute(&self.http, &json!({"stmt": drop}))?;
                self.create_table(header, name, fields)?;
            }
        }
        *lock(&self.header) = Some(Arc::new(header.clone()));
        Ok(())
    }

    fn connect(&self) -> Result<Box<dyn Connection>> {
        let header = lock(&self.header).clone().expect("`prepare` runs before `connect`");
        let http = self.http.fresh();
        Ok(Box::new(BulkConnection { http, db: self.db.clone(), header }))
    }

    fn count(&self, table: &str) -> Result<Option<u64>> {
        if !self.exists(table)? {
            return Ok(Some(0));
        }
        // Rows become visible with a refresh, which CrateDB does by itself only once a second.
        execute(&self.http, &json!({"stmt": format!("REFRESH TABLE {}", self.table(table))}))?;
        let count = format!("SELECT count(*) FROM {}", self.table(table));
        let answer = execute(&self.http, &json!({"stmt": count}))?;
        Ok(answer["rows"][0][0].as_u64())
    }
}

struct BulkConnection {
    http: Http,
    db: String,
    header: Arc<Header>,
}

impl Connection for BulkConnection {
    fn send(&mut self, text: &[u8], _row_count: u64, acked: &AtomicU64) -> Result<()> {
        let mut tables: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
        let text = std::str::from_utf8(text).unwrap_or_default();
        for line in text.lines() {
            let (name, row) = self.row(line)?;
            tables.entry(name).or_default().push(row);
        }
        for (name, rows) in tables {
            let fields = fields(&self.header, name)?;
            let names: Vec<_> = fields.iter().map(|field| quoted(field)).collect();
            let statement = format!(
                "INSERT INTO {}.{} (tags, ts, {}) VALUES (?, ?{})",
                quoted(&self.db),
                quoted(name),
                names.join(", "),
                ", ?".repeat(fields.len()),
            );
            let answer = execute(&self.http, &json!({"stmt": statement, "bulk_args": rows}))?;
            let results = answer["results"].as_array().map_or(&[][..], Vec::as_slice);
            let inserted = results.iter().filter(|result| result["rowcount"] == 1).count() as u64;
            acked.fetch_add(inserted, Relaxed);
            if inserted != rows.len() as u64 {
                let failed = results.iter().find(|result| result["rowcount"] != 1);
                let body = failed.map_or_else(String::new, Value::to_string);
                return Err(Error::Refused { url: self.http.base().to_owned(), status: 200, body });
            }
        }
        Ok(())
    }
}

impl BulkConnection {
    /// Returns the table of a row, and its values in the order of the INSERT.
    fn row<'a>(&self, line: &'a str) -> Result<(&'a str, Value)> {
        let bad = |expected, text: &str| Error::BadValue {
            place: "a row",
            expected,
            text: text.to_owned(),
        };
        let mut cells = line.split('\t');
        let name = cells.next().unwrap_or_default();
        let tags = cells.next().unwrap_or_default();
        let mut tags: Value = serde_json::from_str(tags).map_err(|_| bad("JSON", tags))?;
        for (name, is_text) in &self.header.tags {
            let Some(value) = tags.get_mut(name) else { continue };
            let text = value.as_str().unwrap_or_default();
            *value = match (text.is_empty(), *is_text) {
                (true, _) => Value::Null,
                (false, true) => continue,
                (false, false) => text.parse::<f64>().map_err(|_| bad("number", text))?.into(),
            };
        }
        let time = cells.next().unwrap_or_default();
        let nanos: i64 = time.parse().map_err(|_| bad("time", time))?;
        // A timestamp of CrateDB has milliseconds.
        let mut row = vec![tags, (nanos / 1_000_000).into()];
        let fields = fields(&self.header, name)?;
        for cell in cells.chain(std::iter::repeat("")).take(fields.len()) {
            row.push(match cell {
                "" => Value::Null,
                cell => cell.parse::<f64>().map_err(|_| bad("number", cell))?.into(),
            });
        }
        Ok((name, row.into()))
    }
}
