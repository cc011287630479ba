//! Functions of PostgreSQL's catalog that its clients call.
//!
//! - They read the state of the engine when they run, and are created for each statement: their
//!   plans are not cached (`plan::cache`).
//! - Objects that Tidegate does not have (constraints, triggers, rules) have no definition: NULL.

mod rights;

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, new_empty_array};
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::execution::SessionState;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature,
    Volatility,
};
use tidegate_model::{Column, ColumnDefault};
use tidegate_storage::Snapshot;

use super::objects::{
    self, SeenTables, Table, column_description, owner, schema_oid, table, table_name, table_of,
    tables,
};
use super::relations::{self, Relation};
use super::types::{self, format_type};
use crate::context::{StatementContext, parameter};
use crate::error::{Error, SettingProblem};
use crate::names::quote_ident;
use crate::numbers::sequence_name;
use crate::position;
use crate::role::Role;
use crate::session::shown;
use crate::types::call_values::are_constant;
use rights::{column_right, role_right, schema_right, table_right};

/// The result type of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gives {
    Text,
    Texts,
    Oids,
    Flag,
    Oid,
    Int,
    Long,
    /// A list of privileges, always empty.
    Rights,
    /// A list of numbered elements, always empty.
    Elements,
}

/// The arguments of a call, with the session that made it.
struct Call<'a> {
    caller: &'a StatementContext,
    args: &'a [ScalarValue],
}

type Work = fn(&Call<'_>) -> Result<ScalarValue>;

/// A function: its name, its result type, its implementation.
struct Function(&'static str, Gives, Work);

const FUNCTIONS: &[Function] = &[
    Function("current_database", Gives::Text, |it| text(it.caller.session.database())),
    Function("current_catalog", Gives::Text, |it| text(it.caller.session.database())),
    Function("current_schema", Gives::Text, |_| text("public")),
    Function("current_schemas", Gives::Texts, current_schemas),
    Function("current_user", Gives::Text, |it| text(owner(it.caller))),
    Function("current_role", Gives::Text, |it| text(owner(it.caller))),
    Function("session_user", Gives::Text, |it| text(owner(it.caller))),
    Function("user", Gives::Text, |it| text(owner(it.caller))),
    Function("pg_get_userbyid", Gives::Text, |it| text(owner(it.caller))),
    Function("pg_backend_pid", Gives::Int, |it| int(it.caller.session.process())),
    Function("pg_is_in_recovery", Gives::Flag, |_| flag(false)),
    Function("pg_is_other_temp_schema", Gives::Flag, |_| flag(false)),
    Function("pg_relation_is_publishable", Gives::Flag, |_| flag(false)),
    Function("pg_my_temp_schema", Gives::Oid, |it| {
        oid(Some(objects::temporary_schema(&SeenTables::of(it.caller)).unwrap_or(0)))
    }),
    Function("txid_current", Gives::Long, |_| long(Some(1))),
    Function("pg_try_advisory_lock", Gives::Flag, |it| match lock_key(it) {
        Some(key) => flag(it.caller.system.locks.take(&it.caller.session, key)?),
        None => Ok(ScalarValue::Boolean(None)),
    }),
    Function("pg_advisory_lock", Gives::Text, |it| match lock_key(it) {
        Some(key) => taken(it.caller.system.locks.take(&it.caller.session, key)?),
        None => text(""),
    }),
    Function("pg_try_advisory_xact_lock", Gives::Flag, |it| match lock_key(it) {
        Some(key) => flag(it.caller.system.locks.take_for_transaction(&it.caller.session, key)?),
        None => Ok(ScalarValue::Boolean(None)),
    }),
    Function("pg_advisory_xact_lock", Gives::Text, |it| match lock_key(it) {
        Some(key) => taken(it.caller.system.locks.take_for_transaction(&it.caller.session, key)?),
        None => text(""),
    }),
    Function("pg_advisory_unlock", Gives::Flag, |it| match lock_key(it) {
        Some(key) => flag(it.caller.system.locks.give(&it.caller.session, key)),
        None => Ok(ScalarValue::Boolean(None)),
    }),
    Function("pg_advisory_unlock_all", Gives::Text, |it| {
        it.caller.system.locks.give_all(&it.caller.session);
        text("")
    }),
    Function("pg_table_is_visible", Gives::Flag, |it| {
        let seen = SeenTables::of(it.caller);
        flag(it.table()?.is_none_or(|table| objects::is_visible(&seen, &table)))
    }),
    Function("pg_type_is_visible", Gives::Flag, |_| flag(true)),
    Function("pg_function_is_visible", Gives::Flag, |_| flag(true)),
    Function("pg_opclass_is_visible", Gives::Flag, |_| flag(true)),
    Function("has_schema_privilege", Gives::Flag, schema_right),
    Function("has_table_privilege", Gives::Flag, table_right),
    Function("has_any_column_privilege", Gives::Flag, table_right),
    Function("has_column_privilege", Gives::Flag, column_right),
    Function("has_database_privilege", Gives::Flag, schema_right),
    Function("has_function_privilege", Gives::Flag, |_| flag(true)),
    Function("pg_has_role", Gives::Flag, role_right),
    Function("pg_get_expr", Gives::Text, |it| Ok(ScalarValue::Utf8View(it.text(0)))),
    Function("pg_get_indexdef", Gives::Text, |_| no_text()),
    Function("pg_get_constraintdef", Gives::Text, |_| no_text()),
    Function("pg_get_viewdef", Gives::Text, view_definition),
    Function("pg_get_partkeydef", Gives::Text, |_| no_text()),
    Function("pg_get_triggerdef", Gives::Text, |_| no_text()),
    Function("pg_get_ruledef", Gives::Text, |_| no_text()),
    Function("pg_get_functiondef", Gives::Text, |_| no_text()),
    Function("pg_get_function_sqlbody", Gives::Text, |_| no_text()),
    Function("pg_get_function_arg_default", Gives::Text, |_| no_text()),
    Function("pg_get_partition_constraintdef", Gives::Text, |_| no_text()),
    Function("pg_get_statisticsobjdef", Gives::Text, |_| no_text()),
    Function("pg_tablespace_size", Gives::Long, |it| {
        long(Some(all_tables(it.caller)?.iter().map(|table| bytes_of(&table.snapshot)).sum()))
    }),
    Function("pg_char_to_encoding", Gives::Int, |it| {
        let is_ours = it.text(0).is_some_and(|name| name.eq_ignore_ascii_case("utf8"));
        Ok(ScalarValue::Int32(Some(if is_ours { 6 } else { -1 })))
    }),
    Function("pg_postmaster_start_time", Gives::Text, |_| no_text()),
    Function("pg_conf_load_time", Gives::Text, |_| no_text()),
    Function("inet_client_addr", Gives::Text, |_| no_text()),
    Function("inet_server_addr", Gives::Text, |_| no_text()),
    Function("pg_is_wal_replay_paused", Gives::Flag, |_| flag(false)),
    Function("pg_ts_config_is_visible", Gives::Flag, |_| flag(true)),
    Function("pg_ts_dict_is_visible", Gives::Flag, |_| flag(true)),
    Function("pg_ts_parser_is_visible", Gives::Flag, |_| flag(true)),
    Function("pg_ts_template_is_visible", Gives::Flag, |_| flag(true)),
    Function("has_server_privilege", Gives::Flag, |_| flag(true)),
    Function("has_foreign_data_wrapper_privilege", Gives::Flag, |_| flag(true)),
    Function("has_parameter_privilege", Gives::Flag, |_| flag(true)),
    Function("row_security_active", Gives::Flag, |_| flag(false)),
    Function("pg_relation_filenode", Gives::Oid, |it| oid(it.table()?.map(|table| table.oid))),
    Function("pg_stat_get_dead_tuples", Gives::Long, |_| long(Some(0))),
    Function("pg_stat_get_tuples_inserted", Gives::Long, |_| long(Some(0))),
    Function("pg_stat_get_tuples_updated", Gives::Long, |_| long(Some(0))),
    Function("pg_stat_get_tuples_deleted", Gives::Long, |_| long(Some(0))),
    Function("pg_get_function_result", Gives::Text, |_| no_text()),
    Function("pg_get_function_arguments", Gives::Text, |_| no_text()),
    Function("pg_get_function_identity_arguments", Gives::Text, |_| no_text()),
    Function("pg_get_statisticsobjdef_columns", Gives::Text, |_| no_text()),
    Function("pg_get_serial_sequence", Gives::Text, |it| {
        let (Some(table), Some(column)) = (it.table()?, it.text(1)) else { return no_text() };
        let schema = &table.snapshot.schema;
        let column = schema.find(&column);
        let is_filled =
            |column: &&Column| schema.default_of(column.id) == Some(&ColumnDefault::NextNumber);
        let name = column.filter(is_filled).map(|it| sequence_name(&table.name, &it.name));
        let written = |name: String| format!("{}.{}", table.schema, quote_ident(&name));
        Ok(ScalarValue::Utf8View(name.map(written)))
    }),
    Function("pg_tablespace_location", Gives::Text, |_| text("")),
    Function("obj_description", Gives::Text, describe_object),
    Function("shobj_description", Gives::Text, |_| no_text()),
    Function("col_description", Gives::Text, describe_column),
    Function("pg_encoding_to_char", Gives::Text, |it| {
        text(if it.number(0) == Some(6) { "UTF8" } else { "" })
    }),
    Function("format_type", Gives::Text, |it| {
        let Some(ty) = it.oid(0) else { return no_text() };
        text(format_type(ty, it.number(1).and_then(|it| i32::try_from(it).ok())))
    }),
    Function("pg_typeof", Gives::Text, |it| text(typeof_name(&it.args[0].data_type()))),
    Function("pg_relation_size", Gives::Long, table_bytes),
    Function("pg_table_size", Gives::Long, table_bytes),
    Function("pg_total_relation_size", Gives::Long, table_bytes),
    Function("pg_indexes_size", Gives::Long, |_| long(Some(0))),
    Function("pg_database_size", Gives::Long, |it| {
        long(Some(all_tables(it.caller)?.iter().map(|table| bytes_of(&table.snapshot)).sum()))
    }),
    Function("pg_size_pretty", Gives::Text, |it| match it.number(0) {
        Some(bytes) => text(pretty(bytes)),
        None => no_text(),
    }),
    Function("quote_ident", Gives::Text, |it| it.map_text(quote_ident)),
    Function("quote_literal", Gives::Text, |it| {
        it.map_text(|it| format!("'{}'", it.replace('\'', "''")))
    }),
    Function("current_setting", Gives::Text, current_setting),
    Function("set_config", Gives::Text, set_config),
    Function("pg_cancel_backend", Gives::Flag, |it| flag(cancel(it)?)),
    Function("pg_terminate_backend", Gives::Flag, |it| flag(terminate(it)?)),
    Function("to_regclass", Gives::Text, |it| {
        let Some(name) = it.text(0) else { return no_text() };
        let found = find_table(it.caller, &name)?;
        Ok(ScalarValue::Utf8View(found.map(|table| table.name)))
    }),
    Function("to_regtype", Gives::Text, |it| {
        let found = it.text(0).and_then(|name| types::by_name(&name));
        Ok(ScalarValue::Utf8View(found.map(|ty| ty.sql.to_owned())))
    }),
    Function("array_upper", Gives::Int, |it| match it.length() {
        Some(length) if 0 < length => int(u32::try_from(length).unwrap_or(u32::MAX)),
        _ => Ok(ScalarValue::Int32(None)),
    }),
    Function("array_lower", Gives::Int, |it| match it.length() {
        Some(length) if 0 < length => int(1),
        _ => Ok(ScalarValue::Int32(None)),
    }),
    Function("pg_collation_is_visible", Gives::Flag, |_| flag(true)),
    Function("pg_operator_is_visible", Gives::Flag, |_| flag(true)),
    Function("pg_opfamily_is_visible", Gives::Flag, |_| flag(true)),
    Function("pg_conversion_is_visible", Gives::Flag, |_| flag(true)),
    Function("pg_statistics_obj_is_visible", Gives::Flag, |_| flag(true)),
    Function("has_sequence_privilege", Gives::Flag, |_| flag(true)),
    Function("has_tablespace_privilege", Gives::Flag, |_| flag(true)),
    Function("has_type_privilege", Gives::Flag, |_| flag(true)),
    Function("has_language_privilege", Gives::Flag, |_| flag(true)),
    Function("parse_ident", Gives::Texts, parse_ident),
    Function("bpchar", Gives::Text, |it| Ok(ScalarValue::Utf8View(it.text(0)))),
    // There is no waiting for locks.
    Function("pg_blocking_pids", Gives::Oids, |_| ScalarValue::try_from(&Gives::Oids.data_type())),
    Function("tidegate_no_acl", Gives::Rights, |_| {
        ScalarValue::try_from(&Gives::Rights.data_type())
    }),
    Function("tidegate_no_elements", Gives::Elements, |_| {
        ScalarValue::try_from(&Gives::Elements.data_type())
    }),
    Function("oidvectortypes", Gives::Text, |_| no_text()),
    Function("getdatabaseencoding", Gives::Text, |_| text("UTF8")),
    Function("host", Gives::Text, |it| Ok(ScalarValue::Utf8View(it.text(0)))),
    Function("tidegate_no_oids", Gives::Oids, |_| ScalarValue::try_from(&Gives::Oids.data_type())),
    // Casts to and from names of objects become calls of these (`rewrite`).
    Function("tidegate_regclass", Gives::Oid, regclass),
    Function("tidegate_regclass_name", Gives::Text, regclass_name),
    Function("tidegate_regtype", Gives::Oid, regtype),
    Function("tidegate_regtype_name", Gives::Text, |it| match it.oid(0) {
        Some(ty) => text(format_type(ty, None)),
        None => no_text(),
    }),
    Function("tidegate_to_regtype", Gives::Oid, |it| {
        oid(it.text(0).and_then(|name| types::by_name(&name)).map(|ty| ty.oid))
    }),
    Function("tidegate_to_regclass", Gives::Oid, |it| {
        let Some(name) = it.text(0) else { return oid(None) };
        oid(find_table(it.caller, &name)?.map(|table| table.oid))
    }),
    Function("tidegate_regnamespace", Gives::Oid, |it| {
        oid(it.text(0).and_then(|name| schema_oid(&name)))
    }),
    Function("tidegate_regnamespace_name", Gives::Text, |it| {
        let oid = it.oid(0);
        let found = objects::SCHEMAS.iter().find(|(_, number)| Some(*number) == oid);
        Ok(ScalarValue::Utf8View(found.map(|(name, _)| (*name).to_owned())))
    }),
    Function("tidegate_regproc_name", Gives::Text, |it| match it.oid(0) {
        Some(oid) => text(types::function_name(oid)),
        None => no_text(),
    }),
    Function("pg_stat_get_numscans", Gives::Long, |_| long(Some(0))),
    Function("pg_stat_get_live_tuples", Gives::Long, |it| {
        let rows = it.table()?.map_or(0, |table| table.snapshot.rows().0);
        long(Some(i64::try_from(rows).unwrap_or(i64::MAX)))
    }),
];

/// Functions that do something: each call does it once, and not when the query is planned.
const DOING: [&str; 9] = [
    "pg_try_advisory_lock",
    "pg_advisory_lock",
    "pg_try_advisory_xact_lock",
    "pg_advisory_xact_lock",
    "pg_advisory_unlock",
    "pg_advisory_unlock_all",
    "pg_cancel_backend",
    "pg_terminate_backend",
    "set_config",
];

/// Returns the answer of a function that would wait for a lock in PostgreSQL.
fn taken(is_taken: bool) -> Result<ScalarValue> {
    match is_taken {
        true => text(""),
        false => plan_err!("another session holds this lock: try again when it is free"),
    }
}

/// The key of a lock, of one or two numbers.
fn lock_key(call: &Call<'_>) -> Option<(i64, i64)> {
    let first = call.number(0)?;
    // One number of 64 bits is a different lock from two of 32.
    if call.args.len() < 2 { Some((i64::MAX, first)) } else { Some((first, call.number(1)?)) }
}

/// The names of the functions that users can call.
pub(crate) fn catalog_functions() -> impl Iterator<Item = &'static str> {
    let is_ours = |name: &&str| !name.starts_with("tidegate_");
    FUNCTIONS.iter().map(|function| function.0).filter(is_ours)
}

/// A function, for the session that runs the statement.
pub(crate) fn catalog_function(state: &SessionState, name: &str) -> Option<Arc<ScalarUDF>> {
    let function = FUNCTIONS.iter().find(|function| function.0 == name)?;
    let any = vec![TypeSignature::Nullary, TypeSignature::VariadicAny];
    let does = DOING.contains(&function.0);
    let volatility = if does { Volatility::Volatile } else { Volatility::Stable };
    let signature = Signature::one_of(any, volatility);
    let udf = CatalogFunction { function, signature, caller: StatementContext::of(state) };
    Some(Arc::new(ScalarUDF::new_from_impl(udf)))
}

struct CatalogFunction {
    function: &'static Function,
    signature: Signature,
    caller: Arc<StatementContext>,
}

impl std::fmt::Debug for CatalogFunction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.function.0)
    }
}

impl PartialEq for CatalogFunction {
    fn eq(&self, other: &CatalogFunction) -> bool {
        self.function.0 == other.function.0 && Arc::ptr_eq(&self.caller, &other.caller)
    }
}

impl Eq for CatalogFunction {}

impl Hash for CatalogFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.function.0.hash(state);
    }
}

impl Gives {
    fn data_type(self) -> DataType {
        match self {
            Gives::Text => DataType::Utf8View,
            Gives::Texts => {
                let field = Field::new_list_field(DataType::Utf8View, true);
                DataType::List(Arc::new(field))
            }
            // The field's name tells `server::pg::types` that the elements are OIDs.
            Gives::Oids => {
                let field = Field::new("oid", DataType::UInt32, true);
                DataType::List(Arc::new(field))
            }
            Gives::Flag => DataType::Boolean,
            Gives::Oid => DataType::UInt32,
            Gives::Int => DataType::Int32,
            Gives::Long => DataType::Int64,
            Gives::Rights => rows_of(vec![
                ("grantor", DataType::UInt32),
                ("grantee", DataType::UInt32),
                ("privilege_type", DataType::Utf8View),
                ("is_grantable", DataType::Boolean),
            ]),
            Gives::Elements => rows_of(vec![("x", DataType::Int64), ("n", DataType::Int32)]),
        }
    }
}

/// The type of lists of rows with these columns.
fn rows_of(columns: Vec<(&str, DataType)>) -> DataType {
    let fields = columns.into_iter().map(|(name, ty)| Field::new(name, ty, true));
    let row = DataType::Struct(fields.collect());
    DataType::List(Arc::new(Field::new_list_field(row, true)))
}

impl ScalarUDFImpl for CatalogFunction {
    fn name(&self) -> &str {
        self.function.0
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.function.1.data_type())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_scalar = are_constant(&args.args);
        let rows = if is_scalar { 1 } else { args.number_rows };
        let arrays = args.args.iter().map(|arg| arg.to_array(rows)).collect::<Result<Vec<_>>>()?;
        let mut values = Vec::with_capacity(rows);
        for row in 0..rows {
            let args = arrays.iter().map(|array| ScalarValue::try_from_array(array, row));
            let args = args.collect::<Result<Vec<_>>>()?;
            values.push((self.function.2)(&Call { caller: &self.caller, args: &args })?);
        }
        if is_scalar {
            return Ok(ColumnarValue::Scalar(values.remove(0)));
        }
        let array: ArrayRef = match values.is_empty() {
            true => new_empty_array(&self.function.1.data_type()),
            false => ScalarValue::iter_to_array(values)?,
        };
        Ok(ColumnarValue::Array(array))
    }
}

impl Call<'_> {
    fn text(&self, at: usize) -> Option<String> {
        let value = self.args.get(at)?;
        match value.try_as_str() {
            Some(text) => text.map(str::to_owned),
            None if value.is_null() => None,
            None => Some(value.to_string()),
        }
    }

    fn number(&self, at: usize) -> Option<i64> {
        match self.args.get(at)?.cast_to(&DataType::Int64) {
            Ok(ScalarValue::Int64(number)) => number,
            _ => None,
        }
    }

    fn oid(&self, at: usize) -> Option<u32> {
        self.number(at).and_then(|number| u32::try_from(number).ok())
    }

    fn is_true(&self, at: usize) -> bool {
        matches!(self.args.get(at), Some(ScalarValue::Boolean(Some(true))))
    }

    /// The table of the first argument, which is its OID or its name.
    fn table(&self) -> Result<Option<Table>> {
        let by_name = || match self.text(0) {
            Some(name) => find_table(self.caller, &name),
            None => Ok(None),
        };
        let Some(oid) = self.oid(0) else { return by_name() };
        Ok(table(&SeenTables::of(self.caller), oid)?)
    }

    fn map_text(&self, map: impl FnOnce(&str) -> String) -> Result<ScalarValue> {
        Ok(ScalarValue::Utf8View(self.text(0).map(|text| map(&text))))
    }

    /// The number of elements of a list.
    fn length(&self) -> Option<usize> {
        match self.args.first()? {
            ScalarValue::List(list) if !list.is_null(0) => Some(list.value(0).len()),
            _ => None,
        }
    }
}

fn text(value: impl Into<String>) -> Result<ScalarValue> {
    Ok(ScalarValue::Utf8View(Some(value.into())))
}

fn no_text() -> Result<ScalarValue> {
    Ok(ScalarValue::Utf8View(None))
}

fn flag(value: bool) -> Result<ScalarValue> {
    Ok(ScalarValue::Boolean(Some(value)))
}

fn oid(value: Option<u32>) -> Result<ScalarValue> {
    Ok(ScalarValue::UInt32(value))
}

fn int(value: u32) -> Result<ScalarValue> {
    Ok(ScalarValue::Int32(i32::try_from(value).ok()))
}

fn long(value: Option<i64>) -> Result<ScalarValue> {
    Ok(ScalarValue::Int64(value))
}

fn all_tables(caller: &StatementContext) -> Result<Vec<Table>> {
    Ok(tables(&SeenTables::of(caller))?)
}

/// Finds a table by `t`, `public.t` or `"T"`.
fn find_table(caller: &StatementContext, name: &str) -> Result<Option<Table>> {
    let parts = name_parts(name);
    let seen = SeenTables::of(caller);
    match parts.as_slice() {
        [table] => Ok(objects::visible_table(&seen, &table.text)?),
        [.., schema, table] => Ok(table_of(&seen, &schema.text, &table.text)?),
        [] => Ok(None),
    }
}

/// A part of a name as written.
#[derive(Default)]
struct NamePart {
    text: String,
    is_quoted: bool,
}

/// The parts of a name, separated by points, without the white space around them. In quotes any
/// character is text, and a doubled quote is one quote.
fn name_parts(name: &str) -> Vec<NamePart> {
    let (mut parts, mut within) = (vec![NamePart::default()], false);
    let mut chars = name.chars().peekable();
    while let Some(char) = chars.next() {
        if char == '.' && !within {
            parts.push(NamePart::default());
            continue;
        }
        let Some(part) = parts.last_mut() else { continue };
        match char {
            '"' if within && chars.next_if_eq(&'"').is_some() => part.text.push('"'),
            '"' => (within, part.is_quoted) = (!within, true),
            _ if char.is_whitespace() && !within && (part.is_quoted || part.text.is_empty()) => {}
            _ => part.text.push(char),
        }
    }
    for part in parts.iter_mut().filter(|part| !part.is_quoted) {
        part.text.truncate(part.text.trim_end().len());
    }
    parts
}

fn current_schemas(call: &Call<'_>) -> Result<ScalarValue> {
    let names = if call.is_true(0) { &["pg_catalog", "public"][..] } else { &["public"] };
    let values = names.iter().map(|name| ScalarValue::Utf8View(Some((*name).to_owned())));
    let values = values.collect::<Vec<_>>();
    Ok(ScalarValue::List(ScalarValue::new_list_nullable(&values, &DataType::Utf8View)))
}

/// The parts of a name: in lower case, unless they are quoted.
fn parse_ident(call: &Call<'_>) -> Result<ScalarValue> {
    let Some(name) = call.text(0) else {
        return ScalarValue::try_from(&Gives::Texts.data_type());
    };
    let parts = name_parts(&name).into_iter().map(|part| match part.is_quoted {
        true => part.text,
        false => part.text.to_lowercase(),
    });
    let values = parts.map(|it| ScalarValue::Utf8View(Some(it))).collect::<Vec<_>>();
    Ok(ScalarValue::List(ScalarValue::new_list_nullable(&values, &DataType::Utf8View)))
}

fn describe_column(call: &Call<'_>) -> Result<ScalarValue> {
    let Some(table) = call.table()? else { return no_text() };
    let schema = &table.snapshot.schema;
    let at = call.number(1).and_then(|number| usize::try_from(number - 1).ok());
    let column = at.and_then(|at| schema.columns().get(at));
    let description = column.and_then(|column| column_description(schema, column));
    Ok(ScalarValue::Utf8View(description))
}

/// `obj_description(oid[, catalog])`: only comments of tables are known, not those of other
/// catalogs.
fn describe_object(call: &Call<'_>) -> Result<ScalarValue> {
    let is_of_tables = call.text(1).is_none_or(|catalog| catalog == "pg_class");
    let table = if is_of_tables { call.table()? } else { None };
    Ok(ScalarValue::Utf8View(table.and_then(|table| table.comment())))
}

/// `pg_get_viewdef(view[, pretty])`.
fn view_definition(call: &Call<'_>) -> Result<ScalarValue> {
    let definition = call.table()?.and_then(|table| table.definition());
    Ok(ScalarValue::Utf8View(definition))
}

fn table_bytes(call: &Call<'_>) -> Result<ScalarValue> {
    long(call.table()?.map(|table| bytes_of(&table.snapshot)))
}

/// The bytes of a table on disk.
fn bytes_of(snapshot: &Snapshot) -> i64 {
    let on_disk = snapshot.segments().filter(|run| !run.is_in_memory());
    i64::try_from(on_disk.map(|run| run.meta.bytes.0).sum::<u64>()).unwrap_or(i64::MAX)
}

/// Formats a size as PostgreSQL: in the first unit in which it is below 10,240, or in the last.
fn pretty(bytes: i64) -> String {
    const UNITS: [&str; 6] = ["bytes", "kB", "MB", "GB", "TB", "PB"];
    let (mut value, mut unit) = (i128::from(bytes), 0);
    while 10_240 <= value.abs() && unit + 1 < UNITS.len() {
        (value, unit) = ((value + value.signum() * 512) / 1_024, unit + 1);
    }
    format!("{value} {}", UNITS[unit])
}

fn current_setting(call: &Call<'_>) -> Result<ScalarValue> {
    let Some(name) = call.text(0) else { return no_text() };
    match shown(&call.caller.session, call.caller.system.timeout, &name) {
        Some(shown) => text(shown.value),
        None if call.is_true(1) => no_text(),
        None => Err(setting_error(SettingProblem::Unknown { name })),
    }
}

fn set_config(call: &Call<'_>) -> Result<ScalarValue> {
    let (Some(name), Some(value)) = (call.text(0), call.text(1)) else { return no_text() };
    if parameter(&call.caller.system, &name).is_some() {
        return Err(setting_error(SettingProblem::OfConfiguration { name }));
    }
    call.caller.session.set(&name, &value).map_err(setting_error)?;
    let shown = shown(&call.caller.session, call.caller.system.timeout, &name);
    Ok(ScalarValue::Utf8View(shown.map(|shown| shown.value)))
}

fn setting_error(what: SettingProblem) -> datafusion::common::DataFusionError {
    let position = position::Position { offset: 0, line: 1, column: 1 };
    Error::Setting { position, what }.into()
}

/// Ends a connection by its process number; only administrators can.
fn terminate(call: &Call<'_>) -> Result<bool> {
    let StatementContext { system, session } = call.caller;
    session.check_effect("pg_terminate_backend()")?;
    let number = call.number(0).and_then(|number| u32::try_from(number).ok());
    let may = session.origin().role == Role::Admin;
    Ok(number.is_some_and(|number| may && system.server_info.end_connection(number)))
}

/// Cancels a statement by its number in `pg_stat_activity`.
fn cancel(call: &Call<'_>) -> Result<bool> {
    let StatementContext { system, session } = call.caller;
    session.check_effect("pg_cancel_backend()")?;
    let process = call.oid(0);
    let all = system.running_queries.list();
    let found = all.iter().find(|running| Some(running.process()) == process);
    Ok(found.is_some_and(|running| system.running_queries.cancel(running.id, session)))
}

/// The OID of a table that a text names.
fn regclass(call: &Call<'_>) -> Result<ScalarValue> {
    let Some(name) = call.text(0) else { return oid(None) };
    if let Ok(number) = name.parse() {
        return oid(Some(number));
    }
    match find_table(call.caller, &name)? {
        Some(table) => oid(Some(table.oid)),
        None if catalog_relation(&name).is_some() => {
            oid(catalog_relation(&name).map(|relation| relations::number(relation.name)))
        }
        None => Err(Error::NoSuchTable { position: None, table: name }.into()),
    }
}

/// The relation of `pg_catalog` that a text names.
fn catalog_relation(name: &str) -> Option<&'static Relation> {
    let parts = name_parts(name);
    let (schema, table) = match parts.as_slice() {
        [table] => (None, table),
        [.., schema, table] => (Some(schema.text.as_str()), table),
        [] => return None,
    };
    relations::find(schema, &table.text)
}

fn regclass_name(call: &Call<'_>) -> Result<ScalarValue> {
    let Some(number) = call.oid(0) else { return Ok(ScalarValue::Utf8View(call.text(0))) };
    let name = table_name(&SeenTables::of(call.caller), number);
    let name = name.or_else(|| relations::numbered(number).map(str::to_owned));
    text(name.unwrap_or_else(|| if number == 0 { "-".to_owned() } else { number.to_string() }))
}

fn regtype(call: &Call<'_>) -> Result<ScalarValue> {
    let Some(name) = call.text(0) else { return oid(None) };
    if let Ok(number) = name.parse() {
        return oid(Some(number));
    }
    let (name, is_array) = match name.strip_suffix("[]") {
        Some(element) => (element, true),
        None => (name.as_str(), false),
    };
    match types::by_name(name) {
        Some(ty) => oid(Some(if is_array { ty.array } else { ty.oid })),
        None => plan_err!("type \"{name}\" does not exist"),
    }
}

/// PostgreSQL's type for values of an Arrow type.
fn typeof_name(ty: &DataType) -> &'static str {
    match ty {
        DataType::Null => "unknown",
        DataType::Boolean => "boolean",
        DataType::Int8 | DataType::Int16 | DataType::UInt8 => "smallint",
        DataType::Int32 | DataType::UInt16 => "integer",
        DataType::Int64 | DataType::UInt32 => "bigint",
        DataType::UInt64 => "numeric",
        DataType::Float16 | DataType::Float32 => "real",
        DataType::Float64 => "double precision",
        DataType::Decimal128(..) | DataType::Decimal256(..) => "numeric",
        DataType::Timestamp(_, None) => "timestamp without time zone",
        DataType::Timestamp(_, Some(_)) => "timestamp with time zone",
        DataType::Date32 | DataType::Date64 => "date",
        DataType::Interval(_) | DataType::Duration(_) => "interval",
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => "bytea",
        DataType::FixedSizeBinary(16) => "uuid",
        DataType::List(_) | DataType::LargeList(_) => "anyarray",
        _ => "character varying",
    }
}

#[cfg(test)]
mod tests;
