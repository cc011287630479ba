//! The rows of the pg_catalog and information_schema relations.
//!
//! - The OID of a table is `FIRST_TABLE` plus its own number; so it never changes, and no two
//!   tables have the same. Other OIDs are PostgreSQL's own, where it has them.

use std::sync::Arc;

use tidegate_model::schema::same_name;
use tidegate_model::{
    Column, ColumnDefault, SYSTEM_PREFIX, Schema, TableId, ViewRead, is_system_table,
};
use tidegate_storage::{Error as StorageError, Snapshot, VisibleTables};

use super::rows::{Cell, Row};
use super::types::{self, TYPES};
use crate::changes::{Changes, TemporaryTable};
use crate::context::StatementContext;
use crate::error::Result;
use crate::names::{KEYWORDS, KEYWORDS_BEHIND_AS, TEMPORARY_SCHEMA};
use crate::oid::{FIRST_TABLE, table_oid};
use crate::role::Role;
use crate::running_queries::RunningQuery;
use crate::session::{Shown, all_settings};

pub(super) const PG_CATALOG: u32 = 11;
pub(super) const PUBLIC: u32 = 2_200;
const INFORMATION_SCHEMA: u32 = 13_000;
const SYS: u32 = 13_001;
/// The schema of temporary tables; it is listed if there are some.
const TEMPORARY: u32 = 13_002;
const DATABASE: u32 = 5;
pub(super) const OWNER: u32 = 10;
const HEAP: u32 = 2;
const BTREE: u32 = 403;
const TABLESPACE: u32 = 1_663;
/// The OID of `pg_class`, the catalog of tables in `pg_description`.
const CLASS_OF_TABLES: u32 = 1_259;
/// The OID of `pg_rewrite`, the catalog of rules.
const CLASS_OF_RULES: u32 = 2_618;
const UTF8: i64 = 6;

/// The schemas, with their numbers.
pub(super) const SCHEMAS: [(&str, u32); 4] = [
    ("pg_catalog", PG_CATALOG),
    ("public", PUBLIC),
    ("information_schema", INFORMATION_SCHEMA),
    ("sys", SYS),
];

/// A table that is shown.
pub(super) struct Table {
    pub(super) oid: u32,
    pub(super) schema: &'static str,
    pub(super) name: String,
    pub(super) snapshot: Arc<Snapshot>,
}

impl Table {
    /// The query of a view, ended as a statement; `None` for a table.
    pub(super) fn definition(&self) -> Option<String> {
        self.snapshot.schema.view().map(|view| format!("{};", view.query))
    }

    fn is_view(&self) -> bool {
        self.snapshot.schema.view().is_some()
    }

    /// The comment on it, if there is one.
    pub(super) fn comment(&self) -> Option<String> {
        self.snapshot.schema.comments().table.clone()
    }
}

/// All tables as they are now, without those that are dropped in the meantime. A damaged table is
/// listed like the others, with its columns.
pub(super) fn tables(seen: &SeenTables<'_>) -> Result<Vec<Table>> {
    let mut tables = Vec::new();
    for table in seen.visible.tables() {
        match seen.visible.describe(&table.name) {
            Ok(table) => tables.push(shown(table.snapshot)),
            Err(StorageError::NoSuchTable { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    if let Some(changes) = &seen.changes {
        for table in changes.temporary_tables() {
            tables.push(shown_temporary(changes, table)?);
        }
    }
    Ok(tables)
}

/// The tables that a session sees: those of the database, and its own.
pub(super) struct SeenTables<'a> {
    visible: VisibleTables<'a>,
    changes: Option<Changes>,
}

impl SeenTables<'_> {
    pub(super) fn of(caller: &StatementContext) -> SeenTables<'_> {
        let visible = caller.session.visible(&caller.system.database);
        SeenTables { visible, changes: caller.session.own_changes() }
    }

    fn temporary_of(&self, oid: u32) -> Option<&Arc<TemporaryTable>> {
        let mut tables = self.changes.as_ref()?.temporary_tables();
        tables.find(|table| table_oid(table.id) == oid)
    }
}

fn shown_temporary(changes: &Changes, table: &TemporaryTable) -> Result<Table> {
    let (oid, name) = (table_oid(table.id), table.name.clone());
    Ok(Table { oid, schema: TEMPORARY_SCHEMA, name, snapshot: changes.rows_of(table)? })
}

fn shown(snapshot: Arc<Snapshot>) -> Table {
    let (schema, name) = match is_system_table(&snapshot.name) {
        true => ("sys", snapshot.name.trim_start_matches("sys.").to_owned()),
        false => ("public", snapshot.name.clone()),
    };
    Table { oid: table_oid(snapshot.table), schema, name, snapshot }
}

/// A table by its OID. Functions call it for each row of a relation, so it reads no other table.
pub(super) fn table(seen: &SeenTables<'_>, oid: u32) -> Result<Option<Table>> {
    if let (Some(changes), Some(table)) = (&seen.changes, seen.temporary_of(oid)) {
        return shown_temporary(changes, table).map(Some);
    }
    match table_name(seen, oid) {
        Some(name) => table_called(&seen.visible, &name),
        None => Ok(None),
    }
}

/// A table by the name that it is stored under.
fn table_called(visible: &VisibleTables<'_>, name: &str) -> Result<Option<Table>> {
    match visible.describe(name) {
        Ok(table) => Ok(Some(shown(table.snapshot))),
        Err(StorageError::NoSuchTable { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// A table by its schema and its name there, regardless of case.
pub(super) fn table_of(seen: &SeenTables<'_>, schema: &str, name: &str) -> Result<Option<Table>> {
    if schema == TEMPORARY_SCHEMA {
        let changes = seen.changes.as_ref();
        let temporary = changes.and_then(|changes| Some((changes, changes.find(name)?)));
        return temporary.map(|(changes, table)| shown_temporary(changes, table)).transpose();
    }
    match schema {
        "public" if !is_system_table(name) => table_called(&seen.visible, name),
        "sys" => table_called(&seen.visible, &format!("{SYSTEM_PREFIX}{name}")),
        _ => Ok(None),
    }
}

/// A table by its name alone: a temporary one before those that all sessions see.
pub(super) fn visible_table(seen: &SeenTables<'_>, name: &str) -> Result<Option<Table>> {
    let hiding = seen.changes.as_ref().is_some_and(|changes| changes.find(name).is_some());
    table_of(seen, if hiding { TEMPORARY_SCHEMA } else { "public" }, name)
}

/// True if the table's name alone refers to it.
pub(super) fn is_visible(seen: &SeenTables<'_>, table: &Table) -> bool {
    match table.schema {
        TEMPORARY_SCHEMA => true,
        "public" => seen.changes.as_ref().is_none_or(|changes| changes.find(&table.name).is_none()),
        _ => false,
    }
}

/// The OID of the schema of temporary tables, if there are some.
pub(super) fn temporary_schema(seen: &SeenTables<'_>) -> Option<u32> {
    seen.changes.as_ref()?.temporary_tables().next().map(|_| TEMPORARY)
}

/// The name of a table by its OID as it is stored: with its schema, unless that is `public`.
pub(super) fn table_name(seen: &SeenTables<'_>, oid: u32) -> Option<String> {
    if let Some(table) = seen.temporary_of(oid) {
        return Some(format!("{TEMPORARY_SCHEMA}.{}", table.name));
    }
    seen.visible.table_name(TableId(oid.checked_sub(FIRST_TABLE)?.into()))
}

pub(super) fn schema_oid(name: &str) -> Option<u32> {
    if name == TEMPORARY_SCHEMA {
        return Some(TEMPORARY);
    }
    SCHEMAS.iter().find(|(schema, _)| *schema == name).map(|(_, oid)| *oid)
}

/// The rows of a relation.
pub(super) fn rows(caller: &StatementContext, relation: &str, schema: &str) -> Result<Vec<Row>> {
    let database = &SeenTables::of(caller);
    let name = caller.session.database();
    if schema == "information_schema" {
        return Ok(match relation {
            "schemata" => SCHEMAS.iter().map(|(schema, _)| schema_row(name, schema)).collect(),
            "tables" => tables(database)?.iter().map(|it| table_row(name, it)).collect(),
            "views" => tables(database)?.iter().filter_map(|it| view_row(name, it)).collect(),
            "columns" => {
                let of = |table: &Table| {
                    columns_of(table, |(at, column)| column_row(name, table, at, column))
                };
                tables(database)?.iter().flat_map(of).collect()
            }
            "character_sets" => vec![character_set(name)],
            _ => Vec::new(),
        });
    }
    Ok(match relation {
        "pg_am" => access_methods(),
        "pg_attrdef" => tables(database)?.iter().flat_map(expressions).collect(),
        "pg_attribute" => {
            let of = |table: &Table| columns_of(table, |(at, column)| attribute(table, at, column));
            tables(database)?.iter().flat_map(of).collect()
        }
        "pg_class" => tables(database)?.iter().map(class).collect(),
        "pg_collation" => collations(),
        "pg_database" => vec![database_row(name)],
        "pg_depend" => {
            let tables = tables(database)?;
            tables.iter().flat_map(|view| dependencies(view, &tables)).collect()
        }
        "pg_description" => tables(database)?.iter().flat_map(descriptions).collect(),
        "pg_get_keywords" => keywords(),
        "pg_language" => vec![Row::new().with("oid", 12_u32).with("lanname", "internal")],
        "pg_namespace" => {
            let own = temporary_schema(database).map(|oid| (TEMPORARY_SCHEMA, oid));
            SCHEMAS.into_iter().chain(own).map(|(name, oid)| namespace(name, oid)).collect()
        }
        "pg_rewrite" => tables(database)?.iter().filter_map(rule).collect(),
        "pg_roles" => vec![role(caller)],
        "pg_settings" => settings(caller),
        "pg_stat_activity" => activity(caller),
        "pg_tables" => {
            let tables = tables(database)?;
            tables.iter().filter(|it| !it.is_view()).map(|it| pg_table(caller, it)).collect()
        }
        "pg_views" => tables(database)?.iter().filter_map(|it| pg_view(caller, it)).collect(),
        "pg_tablespace" => tablespaces(),
        "pg_stat_user_tables" | "pg_stat_all_tables" => {
            let all = relation == "pg_stat_all_tables";
            let is_shown = |it: &&Table| !it.is_view() && (all || it.schema == "public");
            let tables = tables(database)?;
            tables.iter().filter(is_shown).map(statistics).collect()
        }
        "pg_proc" => types::all_functions().map(|(oid, name)| function_row(oid, name)).collect(),
        "pg_type" => {
            let of_rows = tables(database)?;
            TYPES.iter().flat_map(type_rows).chain(of_rows.iter().map(row_type)).collect()
        }
        "pg_user" => vec![user(caller)],
        _ => Vec::new(),
    })
}

/// The owner of everything: the user of the session.
pub(super) fn owner(caller: &StatementContext) -> String {
    caller.session.origin().user.clone().unwrap_or_else(|| "admin".to_owned())
}

fn columns_of(table: &Table, row: impl Fn((usize, &Column)) -> Row) -> Vec<Row> {
    table.snapshot.schema.columns().iter().enumerate().map(row).collect()
}

fn number(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn class(table: &Table) -> Row {
    let Table { oid, schema, name, snapshot } = table;
    let is_view = table.is_view();
    let (kind, files, method) = if is_view { ("v", 0, 0) } else { ("r", *oid, HEAP) };
    Row::new()
        .with("oid", *oid)
        .with("relname", name.as_str())
        .with("relnamespace", schema_oid(schema).unwrap_or(PUBLIC))
        .with("reltype", row_type_oid(table))
        .with("relowner", OWNER)
        .with("relam", method)
        .with("relfilenode", files)
        .with("reltuples", -1_i64)
        .with("relpersistence", if *schema == TEMPORARY_SCHEMA { "t" } else { "p" })
        .with("relkind", kind)
        .with("relhasrules", is_view)
        .with("relnatts", number(snapshot.schema.columns().len()))
        .with("relispopulated", true)
        .with("relreplident", "d")
}

fn attribute(table: &Table, at: usize, column: &Column) -> Row {
    let (ty, modifier) = column_type(&table.snapshot.schema, column);
    let is_text = ty.category == 'S';
    let default = table.snapshot.schema.default_of(column.id);
    Row::new()
        .with("attrelid", table.oid)
        .with("attname", column.name.as_str())
        .with("atttypid", ty.oid)
        .with("attlen", i64::from(ty.size))
        .with("attnum", number(at + 1))
        .with("attcacheoff", -1_i64)
        .with("atttypmod", i64::from(modifier))
        .with("attbyval", (1..=8).contains(&ty.size))
        .with("attalign", if ty.size == 8 { "d" } else { "i" })
        .with("attstorage", if ty.size < 0 { "x" } else { "p" })
        .with("attnotnull", table.snapshot.schema.designated() == Some(column.id))
        .with("atthasdef", matches!(default, Some(ColumnDefault::Expression(_))))
        .with("attidentity", if default == Some(&ColumnDefault::NextNumber) { "d" } else { "" })
        .with("attislocal", true)
        .with("attstattarget", -1_i64)
        .with("attcollation", if is_text { 100_u32 } else { 0 })
}

/// The default expressions of columns.
fn expressions(table: &Table) -> Vec<Row> {
    let schema = &table.snapshot.schema;
    let row = |(at, column): (usize, &Column)| {
        let Some(ColumnDefault::Expression(text)) = schema.default_of(column.id) else {
            return None;
        };
        let row = Row::new().with("oid", table.oid).with("adrelid", table.oid);
        Some(row.with("adnum", number(at + 1)).with("adbin", text.as_str()))
    };
    schema.columns().iter().enumerate().filter_map(row).collect()
}

/// The type of a column, with its maximal length.
fn column_type(schema: &Schema, column: &Column) -> (&'static types::PgType, i32) {
    let (ty, modifier) = types::of_column(column.ty);
    let length = schema.lengths().iter().find(|length| length.column == column.id);
    let longest = length.and_then(|length| i32::try_from(length.max).ok());
    (ty, longest.map_or(modifier, |longest| longest.saturating_add(4)))
}

/// The rule of a view, as PostgreSQL has it: reading the view reads its query.
fn rule(view: &Table) -> Option<Row> {
    let row = Row::new().with("oid", rule_oid(view)).with("rulename", "_RETURN");
    let row = row.with("ev_class", view.oid).with("ev_type", "1").with("ev_enabled", "O");
    view.is_view().then(|| row.with("is_instead", true))
}

/// The dependencies of a view's rule: the view itself, and all that its query reads, by the tables
/// that its names refer to now.
fn dependencies(view: &Table, tables: &[Table]) -> Vec<Row> {
    let Some(query) = view.snapshot.schema.view() else { return Vec::new() };
    let row = |oid: u32, kind: &str| {
        Row::new()
            .with("classid", CLASS_OF_RULES)
            .with("objid", rule_oid(view))
            .with("refclassid", CLASS_OF_TABLES)
            .with("refobjid", oid)
            .with("deptype", kind)
    };
    let read = |read: &ViewRead| {
        let by_id = tables.iter().find(|table| table.snapshot.table == read.table);
        let is_called = |table: &&Table| same_name(&table.snapshot.name, &read.name);
        by_id.or_else(|| tables.iter().find(is_called)).map(|table| row(table.oid, "n"))
    };
    let own = row(view.oid, "i");
    [own].into_iter().chain(query.reads.iter().filter_map(read)).collect()
}

/// The OID of a rule: that of its view, moved far from those of tables.
fn rule_oid(view: &Table) -> u32 {
    view.oid ^ 1 << 30
}

/// The comments on a table and its columns. A designated timestamp without one gets a description.
fn descriptions(table: &Table) -> Vec<Row> {
    let columns = table.snapshot.schema.columns().iter().enumerate();
    let of_columns = columns.filter_map(|(at, column)| {
        Some((at + 1, column_description(&table.snapshot.schema, column)?))
    });
    let row = |(at, text): (usize, String)| {
        Row::new()
            .with("objoid", table.oid)
            .with("classoid", CLASS_OF_TABLES)
            .with("objsubid", number(at))
            .with("description", text)
    };
    table.comment().map(|text| (0, text)).into_iter().chain(of_columns).map(row).collect()
}

pub(super) fn column_description(schema: &Schema, column: &Column) -> Option<String> {
    if let Some(comment) = schema.comments().of_column(column.id) {
        return Some(comment.to_owned());
    }
    let is_time = schema.designated() == Some(column.id);
    is_time.then(|| match schema.view() {
        Some(_) => "designated timestamp".to_owned(),
        None => format!("designated timestamp, partitioned by {}", schema.partition_by().sql()),
    })
}

fn namespace(name: &str, oid: u32) -> Row {
    Row::new().with("oid", oid).with("nspname", name).with("nspowner", OWNER)
}

fn database_row(name: &str) -> Row {
    Row::new()
        .with("oid", DATABASE)
        .with("datname", name)
        .with("datdba", OWNER)
        .with("encoding", UTF8)
        .with("datlocprovider", "c")
        .with("datallowconn", true)
        .with("datconnlimit", -1_i64)
        .with("dattablespace", TABLESPACE)
        .with("datcollate", "C")
        .with("datctype", "C")
}

fn tablespaces() -> Vec<Row> {
    let space = |(oid, name): (u32, &str)| {
        Row::new().with("oid", oid).with("spcname", name).with("spcowner", OWNER)
    };
    [(TABLESPACE, "pg_default"), (1_664, "pg_global")].map(space).into()
}

fn access_methods() -> Vec<Row> {
    let method = |(oid, name, ty): (u32, &str, &str)| {
        Row::new().with("oid", oid).with("amname", name).with("amtype", ty)
    };
    [(HEAP, "heap", "t"), (BTREE, "btree", "i")].map(method).into()
}

fn collations() -> Vec<Row> {
    let collation = |(oid, name, provider): (u32, &str, &str)| {
        Row::new()
            .with("oid", oid)
            .with("collname", name)
            .with("collnamespace", PG_CATALOG)
            .with("collowner", OWNER)
            .with("collprovider", provider)
            .with("collisdeterministic", true)
            .with("collencoding", -1_i64)
    };
    [(100, "default", "d"), (950, "C", "c"), (951, "POSIX", "c")].map(collation).into()
}

/// The only role that a user sees: its own, with its privileges.
fn role(caller: &StatementContext) -> Row {
    let is_admin = caller.session.origin().role == Role::Admin;
    Row::new()
        .with("rolname", owner(caller))
        .with("rolsuper", is_admin)
        .with("rolinherit", true)
        .with("rolcreaterole", is_admin)
        .with("rolcreatedb", is_admin)
        .with("rolcanlogin", true)
        .with("rolconnlimit", -1_i64)
        .with("rolpassword", "********")
        .with("rolbypassrls", is_admin)
        .with("oid", OWNER)
}

fn user(caller: &StatementContext) -> Row {
    let is_admin = caller.session.origin().role == Role::Admin;
    Row::new()
        .with("usename", owner(caller))
        .with("usesysid", OWNER)
        .with("usecreatedb", is_admin)
        .with("usesuper", is_admin)
        .with("usebypassrls", is_admin)
        .with("passwd", "********")
}

fn settings(caller: &StatementContext) -> Vec<Row> {
    let all = all_settings(&caller.session, caller.system.timeout);
    let row = |setting: Shown| {
        Row::new()
            .with("name", setting.name)
            .with("setting", setting.value.as_str())
            .with("category", "Tidegate")
            .with("short_desc", setting.about)
            .with("context", "user")
            .with("vartype", "string")
            .with("source", "session")
            .with("reset_val", setting.value.as_str())
    };
    all.into_iter().map(row).collect()
}

/// The keywords, except for those that can name everything.
fn keywords() -> Vec<Row> {
    let of_category = |(code, words): (&'static str, &'static str)| {
        words.split(' ').map(move |word| (word, code))
    };
    let mut all = KEYWORDS.into_iter().flat_map(of_category).collect::<Vec<_>>();
    all.sort_unstable();
    let row = |(word, code): (&str, &str)| {
        let is_label = !KEYWORDS_BEHIND_AS.split(' ').any(|it| it == word);
        let category = match code {
            "R" => "reserved",
            "T" => "reserved (can be function or type name)",
            _ => "unreserved (cannot be function or type name)",
        };
        Row::new()
            .with("word", word)
            .with("catcode", code)
            .with("barelabel", is_label)
            .with("catdesc", category)
            .with("baredesc", if is_label { "can be bare label" } else { "requires AS" })
    };
    all.into_iter().map(row).collect()
}

/// Returns a row for each statement. Of those that the caller may not see it has as much as in
/// PostgreSQL: numbers, names, and that the rest is hidden.
fn activity(caller: &StatementContext) -> Vec<Row> {
    let all = caller.system.running_queries.list();
    let row = |running: &Arc<RunningQuery>| {
        let origin = running.session.origin();
        let row = Row::new()
            .with("datid", DATABASE)
            .with("datname", running.session.database())
            .with("pid", i64::from(running.process()))
            .with("usesysid", OWNER)
            .with("usename", origin.user.clone().unwrap_or_default())
            .with(
                "application_name",
                running.session.setting("application_name").unwrap_or_default(),
            );
        if !caller.session.reaches(&running.session) {
            return row.with("query", "<insufficient privilege>");
        }
        row.with("client_addr", origin.peer.clone())
            .with("state", "active")
            .with("query", running.sql.to_string())
            .with("backend_type", "client backend")
    };
    all.iter().map(row).collect()
}

fn pg_table(caller: &StatementContext, table: &Table) -> Row {
    Row::new()
        .with("schemaname", table.schema)
        .with("tablename", table.name.as_str())
        .with("tableowner", owner(caller))
}

fn pg_view(caller: &StatementContext, view: &Table) -> Option<Row> {
    let definition = view.definition()?;
    let row = Row::new().with("schemaname", view.schema).with("viewname", view.name.as_str());
    Some(row.with("viewowner", owner(caller)).with("definition", definition))
}

/// The rows of a type and of its array type.
fn type_rows(ty: &types::PgType) -> Vec<Row> {
    let row = |oid: u32, name: String| {
        Row::new()
            .with("oid", oid)
            .with("typname", name)
            .with("typnamespace", PG_CATALOG)
            .with("typowner", OWNER)
            .with("typisdefined", true)
            .with("typdelim", ",")
            .with("typalign", "i")
            .with("typtypmod", -1_i64)
            .with("typtype", "b")
    };
    let own = row(ty.oid, ty.name.to_owned())
        .with("typlen", i64::from(ty.size))
        .with("typbyval", (1..=8).contains(&ty.size))
        .with("typcategory", ty.category.to_string())
        .with("typispreferred", matches!(ty.name, "text" | "float8" | "timestamptz" | "bool"))
        .with("typarray", ty.array)
        .with("typcollation", if ty.category == 'S' { 100_u32 } else { 0 });
    let own = with_functions(own, types::functions_of(ty));
    if ty.array == 0 {
        return vec![own];
    }
    let array = row(ty.array, format!("_{}", ty.name))
        .with("typlen", -1_i64)
        .with("typcategory", "A")
        .with("typelem", ty.oid);
    vec![own, with_functions(array, &types::ARRAY_FUNCTIONS)]
}

fn with_functions(row: Row, functions: &types::TypeFunctions) -> Row {
    row.with("typinput", functions.input)
        .with("typoutput", functions.output)
        .with("typreceive", functions.receive)
        .with("typsend", functions.send)
}

/// The type of a table's rows, which `pg_class.reltype` refers to. No value has this type.
fn row_type(table: &Table) -> Row {
    let row = Row::new()
        .with("oid", row_type_oid(table))
        .with("typname", table.name.as_str())
        .with("typnamespace", schema_oid(table.schema).unwrap_or(PUBLIC))
        .with("typowner", OWNER)
        .with("typlen", -1_i64)
        .with("typtype", "c")
        .with("typcategory", "C")
        .with("typisdefined", true)
        .with("typdelim", ",")
        .with("typrelid", table.oid)
        .with("typalign", "d")
        .with("typstorage", "x")
        .with("typtypmod", -1_i64);
    with_functions(row, &types::ROW_FUNCTIONS)
}

/// The OID of a row type: that of its table with the highest bit, which no table reaches.
fn row_type_oid(table: &Table) -> u32 {
    table.oid | 1 << 31
}

/// The row of a function that reads or writes values of a type.
fn function_row(oid: u32, name: String) -> Row {
    Row::new()
        .with("oid", oid)
        .with("proname", name.as_str())
        .with("pronamespace", PG_CATALOG)
        .with("proowner", OWNER)
        .with("prolang", 12_u32)
        .with("prokind", "f")
        .with("proisstrict", true)
        .with("provolatile", "i")
        .with("proparallel", "s")
        .with("pronargs", 1_i64)
        .with("prosrc", name)
}

/// The row of a table in `pg_stat_user_tables`. Reads and changes are not counted by table: they
/// are 0.
fn statistics(table: &Table) -> Row {
    Row::new()
        .with("relid", table.oid)
        .with("schemaname", table.schema)
        .with("relname", table.name.as_str())
        .with("n_live_tup", i64::try_from(table.snapshot.rows().0).unwrap_or(i64::MAX))
}

fn schema_row(database: &str, schema: &str) -> Row {
    Row::new()
        .with("catalog_name", database)
        .with("schema_name", schema)
        .with("schema_owner", "admin")
}

fn table_row(database: &str, table: &Table) -> Row {
    let is_temporary = table.schema == TEMPORARY_SCHEMA;
    let takes_rows = (is_temporary || table.schema == "public") && !table.is_view();
    let kind = match (table.is_view(), is_temporary) {
        (true, _) => "VIEW",
        (false, true) => "LOCAL TEMPORARY",
        (false, false) => "BASE TABLE",
    };
    Row::new()
        .with("table_catalog", database)
        .with("table_schema", table.schema)
        .with("table_name", table.name.as_str())
        .with("table_type", kind)
        .with("is_insertable_into", if takes_rows { "YES" } else { "NO" })
        .with("is_typed", "NO")
}

fn view_row(database: &str, view: &Table) -> Option<Row> {
    let definition = view.definition()?;
    let row = Row::new()
        .with("table_catalog", database)
        .with("table_schema", view.schema)
        .with("table_name", view.name.as_str())
        .with("view_definition", definition)
        .with("check_option", "NONE");
    let no = [
        "is_updatable",
        "is_insertable_into",
        "is_trigger_updatable",
        "is_trigger_deletable",
        "is_trigger_insertable_into",
    ];
    Some(no.into_iter().fold(row, |row, name| row.with(name, "NO")))
}

fn column_row(database: &str, table: &Table, at: usize, column: &Column) -> Row {
    let schema = &table.snapshot.schema;
    let (ty, modifier) = column_type(schema, column);
    let is_key = schema.designated() == Some(column.id);
    let bits = match ty.name {
        "int2" => Some(16_i64),
        "int4" => Some(32),
        "int8" => Some(64),
        "float4" => Some(24),
        "float8" => Some(53),
        _ => None,
    };
    let digits = (ty.name == "numeric").then(|| i64::from((modifier - 4) >> 16));
    let scale = match ty.name {
        "numeric" => Some(i64::from((modifier - 4) & 0xffff)),
        "int2" | "int4" | "int8" => Some(0),
        _ => None,
    };
    let is_varchar = ty.name == "varchar" && 4 <= modifier;
    let default = schema.default_of(column.id);
    let has_numbers = default == Some(&ColumnDefault::NextNumber);
    let expression = match default {
        Some(ColumnDefault::Expression(text)) => Some(text.as_str()),
        _ => None,
    };
    Row::new()
        .with("table_catalog", database)
        .with("table_schema", table.schema)
        .with("table_name", table.name.as_str())
        .with("column_name", column.name.as_str())
        .with("ordinal_position", number(at + 1))
        .with("is_nullable", if is_key { "NO" } else { "YES" })
        .with("data_type", ty.sql)
        .with("character_maximum_length", is_varchar.then(|| i64::from(modifier - 4)))
        .with("numeric_precision", bits.or(digits))
        .with("numeric_precision_radix", bits.map(|_| 2_i64).or(digits.map(|_| 10)))
        .with("numeric_scale", scale)
        .with("datetime_precision", (ty.category == 'D').then_some(6_i64))
        .with("udt_catalog", database)
        .with("udt_schema", "pg_catalog")
        .with("udt_name", ty.name)
        .with("dtd_identifier", (at + 1).to_string())
        .with("is_self_referencing", "NO")
        .with("column_default", expression)
        .with("is_identity", if has_numbers { "YES" } else { "NO" })
        .with("identity_generation", has_numbers.then_some("BY DEFAULT"))
        .with("identity_start", has_numbers.then_some("1"))
        .with("identity_increment", has_numbers.then_some("1"))
        .with("identity_minimum", has_numbers.then_some("1"))
        .with("identity_cycle", "NO")
        .with("is_generated", "NEVER")
        .with("is_updatable", if table.is_view() { "NO" } else { "YES" })
}

fn character_set(database: &str) -> Row {
    Row::new()
        .with("character_set_name", "UTF8")
        .with("character_repertoire", "UCS")
        .with("form_of_use", "UTF8")
        .with("default_collate_catalog", database)
        .with("default_collate_schema", "pg_catalog")
        .with("default_collate_name", "C")
        .with("character_set_schema", Cell::Null)
}
