//! The tables of PostgreSQL, as TSBS creates them, with the changes of its flags.

use std::time::Duration;

use super::super::tagged::{TagIds, base_of};
use super::{Session, quoted};
use crate::error::{Error, Result};
use crate::tsbs::load::args::PostgresArguments;
use crate::tsbs::load::rows::Header;

/// Layout of the tables.
#[derive(Clone)]
pub(super) struct Schema {
    hypertable_chunk: Option<Duration>,
    time_index: bool,
    partition_index: bool,
    /// Number of fields of each table, the first ones, that have an index; `None` is all.
    field_indexes: Option<usize>,
    /// True if tags are one JSON object instead of one column each.
    pub(super) json_tags: bool,
    /// True if each table has the first tag too.
    pub(super) tag_in_table: bool,
}

impl Schema {
    pub(super) fn new(arguments: &PostgresArguments) -> Schema {
        Schema {
            hypertable_chunk: arguments.use_hypertable.then_some(arguments.chunk_time),
            time_index: arguments.time_index,
            partition_index: arguments.partition_index,
            field_indexes: usize::try_from(arguments.field_index_count).ok(),
            json_tags: arguments.use_jsonb_tags,
            tag_in_table: arguments.in_table_partition_tag,
        }
    }

    /// Returns the statements that create the tables.
    pub(super) fn statements(&self, header: &Header) -> String {
        let mut statements = self.tags_statements(header);
        if self.hypertable_chunk.is_some() {
            statements.push_str("CREATE EXTENSION IF NOT EXISTS timescaledb CASCADE;\n");
        }
        for (name, fields) in &header.measurements {
            self.push_table(header, name, fields, &mut statements);
        }
        statements
    }

    fn tags_statements(&self, header: &Header) -> String {
        if self.json_tags {
            return "CREATE TABLE tags (id serial PRIMARY KEY, tagset jsonb);\n\
                    CREATE UNIQUE INDEX tags_all ON tags (tagset);\n\
                    CREATE INDEX tags_first ON tags USING gin (tagset jsonb_path_ops);\n"
                .to_owned();
        }
        let columns = header.tags.iter().map(|(name, is_text)| {
            format!("{} {}", quoted(name), if *is_text { "text" } else { "real" })
        });
        let columns: Vec<_> = columns.collect();
        let names: Vec<_> = header.tags.iter().map(|(name, _)| quoted(name)).collect();
        format!(
            "CREATE TABLE tags (id serial PRIMARY KEY, {});\n\
             CREATE UNIQUE INDEX tags_all ON tags ({});\n\
             CREATE INDEX tags_first ON tags ({});\n",
            columns.join(", "),
            names.join(", "),
            names.first().map_or("id", String::as_str),
        )
    }

    fn push_table(&self, header: &Header, name: &str, fields: &[String], out: &mut String) {
        let table = quoted(name);
        let names: Vec<_> = fields.iter().map(|field| quoted(field)).collect();
        let tag = match header.tags.first().filter(|_| self.tag_in_table) {
            Some((tag, _)) => format!("{} text, ", quoted(tag)),
            None => String::new(),
        };
        out.push_str(&format!(
            "CREATE TABLE {table} (time timestamptz NOT NULL, tags_id integer, {tag}\
             additional_tags json, {} double precision);\n",
            names.join(" double precision, "),
        ));
        if self.partition_index {
            out.push_str(&format!("CREATE INDEX ON {table} (tags_id, time DESC);\n"));
        }
        if self.time_index {
            out.push_str(&format!("CREATE INDEX ON {table} (time DESC);\n"));
        }
        for field in names.iter().take(self.field_indexes.unwrap_or(usize::MAX)) {
            out.push_str(&format!("CREATE INDEX ON {table} ({field}, time DESC);\n"));
        }
        if let Some(chunk) = self.hypertable_chunk {
            out.push_str(&format!(
                "SELECT create_hypertable('{table}'::regclass, 'time'::name, \
                 chunk_time_interval => {}, create_default_indexes => false);\n",
                chunk.as_micros(),
            ));
        }
    }

    /// Reads the ids of the sets of tags in the table, which keep their ids (tagged-2).
    pub(super) fn read_tags(
        &self,
        session: &Session,
        header: &Header,
        tags: &TagIds,
    ) -> Result<()> {
        let columns = header.tags.iter().map(|(name, is_text)| match (self.json_tags, is_text) {
            (true, _) => format!("tagset->>'{}'", name.replace('\'', "''")),
            (false, true) => format!("{}::text", quoted(name)),
            // Floats are written with as few digits as they need, as rows have them.
            (false, false) => format!("{}::real::text", quoted(name)),
        });
        let columns: Vec<_> = columns.collect();
        let statement = format!(
            "SET extra_float_digits = 1; SELECT id::int8::text, {} FROM tags",
            columns.join(", ")
        );
        let answer = session.wait("read the tags", session.client.simple_query(&statement));
        for message in answer? {
            let tokio_postgres::SimpleQueryMessage::Row(row) = message else { continue };
            let id = row.get(0).unwrap_or_default();
            let id = id.parse().map_err(|_| Error::BadValue {
                place: "table tags",
                expected: "id of 32 bits",
                text: id.to_owned(),
            })?;
            tags.insert(id, base_of(header, (0..header.tags.len()).map(|tag| row.get(1 + tag))));
        }
        Ok(())
    }
}
