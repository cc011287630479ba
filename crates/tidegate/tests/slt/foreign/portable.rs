//! Translation of DataFusion's statements into standard SQL: unsigned types, tables with columns
//! and rows in one statement, and casts to types of Arrow.

/// Returns the statements that replace one.
pub(super) fn ours_of(sql: &str) -> Vec<String> {
    let sql = sql.trim().trim_end_matches(';').trim();
    let sql = without_arrow_casts(sql);
    match table_as(&sql) {
        Some(statements) => statements,
        None => vec![sql],
    }
}

/// Translates `CREATE TABLE t (columns) AS query` into a table and an INSERT.
fn table_as(sql: &str) -> Option<Vec<String>> {
    let start = sql.to_lowercase();
    let rest = start.strip_prefix("create ")?.trim_start();
    let rest = rest.strip_prefix("or replace ").unwrap_or(rest);
    let rest = rest.strip_prefix("table ")?;
    let open = sql.len() - rest.len() + rest.find('(')?;
    let name = sql[sql.len() - rest.len()..open].trim();
    let name = name.strip_prefix("if not exists ").unwrap_or(name);
    if name.contains(char::is_whitespace) {
        // The rest is `t AS (query)` or `t AS VALUES (..)`.
        let (name, query) = name.split_once(char::is_whitespace)?;
        let is_values = query.trim().eq_ignore_ascii_case("as values");
        let values = is_values.then(|| format!("CREATE TABLE {name} AS (VALUES {})", &sql[open..]));
        return values.map(|statement| vec![statement]);
    }
    let close = open + closing(&sql[open..])?;
    let columns = sql[open..=close].to_lowercase();
    let mut columns = columns.split_whitespace().collect::<Vec<_>>().join(" ");
    for (theirs, ours) in [
        ("bigint unsigned", "bigint"),
        ("int unsigned", "bigint"),
        ("smallint unsigned", "int"),
        ("tinyint unsigned", "smallint"),
        ("varbinary", "binary"),
        ("bytea", "binary"),
        (" string", " text"),
    ] {
        columns = columns.replace(theirs, ours);
    }
    let mut statements = vec![format!("CREATE TABLE {name} {columns}")];
    let rest = sql[close + 1..].trim_start();
    if let Some(query) = rest.get(..2).filter(|word| word.eq_ignore_ascii_case("as")) {
        statements.push(format!("INSERT INTO {name} {}", &rest[query.len()..]));
    }
    Some(statements)
}

/// Translates `arrow_cast(x, 'Int64')` into `CAST(x AS BIGINT)`, if there is such a type.
fn without_arrow_casts(sql: &str) -> String {
    let Some(at) = sql.to_lowercase().rfind("arrow_cast(") else { return sql.to_owned() };
    let open = at + "arrow_cast".len();
    let Some(end) = closing(&sql[open..]) else { return sql.to_owned() };
    let call = &sql[open + 1..open + end];
    let Some((value, ty)) = call.rsplit_once(", '").or_else(|| call.rsplit_once(",'")) else {
        return sql.to_owned();
    };
    let ty = ty.trim_end().trim_end_matches('\'');
    let ours = match ty {
        "Utf8" | "LargeUtf8" | "Utf8View" | "Dictionary(Int32, Utf8)" => "TEXT",
        "Int8" => "TINYINT",
        "Int16" | "UInt8" => "SMALLINT",
        "Int32" | "UInt16" => "INT",
        "Int64" | "UInt32" | "UInt64" => "BIGINT",
        "Float16" | "Float32" => "REAL",
        "Float64" => "DOUBLE",
        "Boolean" => "BOOLEAN",
        "Date32" => "DATE",
        "Binary" | "LargeBinary" | "BinaryView" => "BINARY",
        ty if ty.starts_with("Timestamp(ns") || ty.starts_with("Timestamp(Nano") => "TIMESTAMP_NS",
        // For a number the type also gives the unit, so only texts are translated.
        ty if ty.starts_with("Timestamp(") && is_text(value) => "TIMESTAMP",
        ty if ty.starts_with("List(Int") || ty.starts_with("LargeList(Int") => "BIGINT[]",
        _ => return sql.to_owned(),
    };
    // The text before this cast may contain further ones.
    let head = without_arrow_casts(&sql[..at]);
    format!("{head}CAST({value} AS {ours}){}", &sql[open + end + 1..])
}

fn is_text(value: &str) -> bool {
    let value = value.trim_start();
    value.starts_with('\'') || value.to_lowercase().starts_with("timestamp '")
}

/// Returns the position of the bracket that closes the one at the start of the text.
fn closing(text: &str) -> Option<usize> {
    let (mut depth, mut quote) = (0, None);
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (None, '(') => depth += 1,
            (None, ')') => depth -= 1,
            (None, '\'' | '"') => quote = Some(c),
            (Some(open), _) if c == open => quote = None,
            _ => {}
        }
        if depth == 0 {
            return Some(at);
        }
    }
    None
}
