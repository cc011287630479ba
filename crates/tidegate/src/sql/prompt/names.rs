//! Completion: the words that can follow the input so far.

use std::cell::RefCell;
use std::time::Duration;

use tidegate_storage::Database;

use crate::sql::remote::Remote;
use crate::sql::runner::Runner;

/// Keywords, and frequently used functions.
const KEYWORDS: &str = "ALTER TABLE ADD COLUMN AND ANALYZE AS ASC ASOF BETWEEN BY CASE CAST \
    COUNT CREATE CROSS DATE_TRUNC DELETE DESC DESCRIBE DISTINCT DROP ELSE END EXISTS EXPLAIN \
    EXTRACT FALSE FILL FROM FULL GROUP HAVING IF ILIKE IN INNER INSERT INTERVAL INTO IS JOIN \
    LATEST LEFT LIKE LIMIT MAX MIN NOT NOW NULL OFFSET ON OR ORDER OUTER OVER PARTITION RENAME \
    RIGHT SAMPLE SELECT SHOW COLUMNS SUM AVG TABLE TABLES THEN TIMESTAMP TO TRUE TRUNCATE UNION \
    UPDATE USING VALUES WHEN WHERE WITH";
const COMMANDS: [&str; 5] = ["\\d", "\\dt", "\\timing", "\\?", "\\q"];
/// Words that a table name follows.
const BEFORE_TABLES: [&str; 7] = ["FROM", "JOIN", "TABLE", "INTO", "DESCRIBE", "COLUMNS", "\\D"];

/// Query for the columns of a server, with a bound: more names are no help for a choice.
const COLUMNS: &str = "SELECT table_name, column_name FROM information_schema.columns \
    WHERE table_schema = 'public' ORDER BY table_name, ordinal_position LIMIT 20000";
/// Time limit for the names of a server after Tab is pressed.
const TIMEOUT: Duration = Duration::from_secs(2);

/// The names of a database, read again after its schemas have changed; those of a server, read
/// again after a change by this prompt.
pub(super) struct Names<'a> {
    runner: &'a Runner,
    known: RefCell<Option<(u64, Vec<Table>)>>,
}

#[derive(Clone, Debug)]
struct Table {
    name: String,
    columns: Vec<String>,
}

impl Names<'_> {
    pub(super) fn new(runner: &Runner) -> Names<'_> {
        Names { runner, known: RefCell::new(None) }
    }

    /// Returns the completions of `word` behind `before` in `line`.
    pub(super) fn completions(&self, line: &str, before: &str, word: &str) -> Vec<String> {
        let (database, server) = (self.runner.database(), self.runner.server());
        let epoch = match database {
            Some(database) => database.schema_epoch(),
            None => server.map_or(0, Remote::changes),
        };
        let mut known = self.known.borrow_mut();
        if known.as_ref().is_none_or(|(read, _)| *read != epoch) {
            let tables = match database {
                Some(database) => read(database),
                None => server.map_or_else(Vec::new, ask),
            };
            *known = Some((epoch, tables));
        }
        let (_, tables) = known.as_ref().expect("read above");
        completions(tables, line, before, word)
    }
}

fn read(database: &Database) -> Vec<Table> {
    let table = |name: String| {
        // A table that was dropped meanwhile has no columns to offer.
        let columns = database.snapshot(&name).map_or(Vec::new(), |snapshot| {
            snapshot.schema.columns().iter().map(|column| column.name.clone()).collect()
        });
        Table { name, columns }
    };
    database.tables().into_iter().map(|entry| table(entry.name)).collect()
}

fn ask(server: &Remote) -> Vec<Table> {
    let mut tables: Vec<Table> = Vec::new();
    for [name, column] in server.texts(COLUMNS, TIMEOUT) {
        match tables.last_mut() {
            Some(table) if table.name == name => table.columns.push(column),
            _ => tables.push(Table { name, columns: vec![column] }),
        }
    }
    tables
}

fn completions(tables: &[Table], line: &str, before: &str, word: &str) -> Vec<String> {
    if word.starts_with('\\') {
        return COMMANDS
            .into_iter()
            .filter(|name| name.starts_with(word))
            .map(str::to_owned)
            .collect();
    }
    let starts = |name: &str| name.to_lowercase().starts_with(&word.to_lowercase());
    let table_names = tables.iter().map(|table| &table.name).filter(|name| starts(name));
    let previous = before.split_whitespace().next_back().unwrap_or_default().to_uppercase();
    if BEFORE_TABLES.contains(&previous.as_str()) {
        return table_names.map(|name| quoted(name)).collect();
    }
    // Columns come from the tables that the statement names, or from all tables if it names none
    // yet.
    let lower = line.to_lowercase();
    let is_named = |table: &&Table| lower.contains(&table.name.to_lowercase());
    let named: Vec<&Table> = tables.iter().filter(is_named).collect();
    let of = if named.is_empty() { tables.iter().collect() } else { named };
    let columns = of.into_iter().flat_map(|table| &table.columns).filter(|name| starts(name));
    let mut words: Vec<String> = columns.chain(table_names).map(|name| quoted(name)).collect();
    words.sort();
    words.dedup();
    if !word.is_empty() {
        let is_lower = !word.contains(char::is_uppercase);
        let keywords = KEYWORDS.split_whitespace().filter(|keyword| starts(keyword));
        words.extend(keywords.map(|keyword| match is_lower {
            true => keyword.to_lowercase(),
            false => keyword.to_owned(),
        }));
    }
    words
}

/// Quotes a name if a statement needs that.
fn quoted(name: &str) -> String {
    let is_plain = name.chars().all(|c| c.is_alphanumeric() || c == '_')
        && !name.starts_with(|c: char| c.is_numeric());
    if is_plain { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tables() -> Vec<Table> {
        let table = |name: &str, columns: &[&str]| Table {
            name: name.to_owned(),
            columns: columns.iter().map(ToString::to_string).collect(),
        };
        vec![table("Hits", &["EventTime", "URL"]), table("trips", &["fare", "odd name"])]
    }

    #[track_caller]
    fn check(line: &str, expected: &[&str]) {
        let start = line.trim_end_matches(|c: char| c.is_alphanumeric() || c == '\\').len();
        let words = completions(&tables(), line, &line[..start], &line[start..]);
        assert_eq!(words, expected, "{line}");
    }

    #[test]
    fn tables_follow_from_and_columns_follow_the_tables_named() {
        check("select * from h", &["Hits"]);
        check("select * from ", &["Hits", "trips"]);
        check("select fa", &["fare", "false"]);
        check(
            "select * from trips where o",
            &["\"odd name\"", "offset", "on", "or", "order", "outer", "over"],
        );
        check("SELECT URL FROM Hits WHERE Ev", &["EventTime"]);
    }

    #[test]
    fn keywords_follow_the_case_that_is_typed() {
        check("sel", &["select"]);
        check("SEL", &["SELECT"]);
        check("\\d", &["\\d", "\\dt"]);
    }
}
