//! Rewrites SQL that queries on the catalog use into forms that DataFusion knows.
//!
//! - A query without any of these forms stays as it is, and none of them has another meaning in a
//!   query on tables.
//! - Casts between names of objects and OIDs are calls: `'t'::regclass` is a number, and
//!   `c.oid::regclass` the name that is shown. A column of the answer that is only `'t'::regclass`
//!   shows the name.
//!
//! Not here: positions in errors, which stay those of the text.

mod scalar_tables;

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    AccessExpr, BinaryOperator, DataType, Expr, FunctionArg, FunctionArgExpr, FunctionArguments,
    GroupByExpr, Ident, ObjectName, ObjectNamePart, Query, SelectItem, SetExpr, TableFactor,
    TableWithJoins, Value, ValueWithSpan, VisitMut, VisitorMut,
};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::Parser;

use super::lists::{self, list_of, list_of_rows, query_of_array};
use super::relations;
use crate::pg_catalog::tree::{call, catalog_type, custom_name, null, parts};
use crate::sql::visit::visit_mut;
use scalar_tables::{reads_columns, select_scalar};

/// Rewrites a query in place.
pub(crate) fn rewrite(query: &mut Query) {
    if let SetExpr::Select(select) = query.body.as_mut() {
        select.projection.iter_mut().for_each(show_name);
    }
    let mut rewriter = Rewriter { is_catalog: names_catalog(query), numbers: Vec::new() };
    if rewriter.is_catalog
        && let SetExpr::Select(select) = query.body.as_mut()
    {
        select.projection.iter_mut().for_each(show_function);
    }
    let _ = visit_mut(query, &mut rewriter);
    if rewriter.is_catalog {
        order_columns(query);
    }
}

/// Sorts columns by table and position where the query has no order, as PostgreSQL's plans return
/// them: clients build tables from them.
fn order_columns(query: &mut Query) {
    let SetExpr::Select(select) = query.body.as_ref() else { return };
    let aggregates = ["count(", "max(", "min(", "sum(", "avg(", "_agg(", "bool_or(", "bool_and("];
    let is_aggregate = |item: &SelectItem| {
        let text = item.to_string().to_lowercase();
        aggregates.iter().any(|call| text.contains(call))
    };
    let is_plain = select.distinct.is_none()
        && matches!(&select.group_by, GroupByExpr::Expressions(by, _) if by.is_empty())
        && !select.projection.iter().any(is_aggregate);
    let Some(from) = select.from.first().filter(|_| is_plain && query.order_by.is_none()) else {
        return;
    };
    let TableFactor::Table { name, alias, args: None, .. } = &from.relation else { return };
    if parts(name).1 != "pg_attribute" || from.joins.is_empty() && select.from.len() == 1 {
        return;
    }
    let called = alias.as_ref().map_or_else(|| name.to_string(), |alias| alias.name.to_string());
    let sql = format!("SELECT 1 ORDER BY {called}.attrelid, {called}.attnum");
    let parser = Parser::new(&GenericDialect {}).try_with_sql(&sql);
    if let Ok(ordered) = parser.and_then(|mut parser| parser.parse_query()) {
        query.order_by = ordered.order_by;
    }
}

/// Columns of `pg_type` with functions, which are shown by name.
const OF_FUNCTIONS: [&str; 4] = ["typinput", "typoutput", "typreceive", "typsend"];

/// The column of functions that an expression names, if it does.
fn function_column(expr: &Expr) -> Option<&str> {
    let name = match expr {
        Expr::Identifier(name) => name,
        Expr::CompoundIdentifier(path) => path.last()?,
        _ => return None,
    };
    OF_FUNCTIONS.contains(&name.value.as_str()).then_some(name.value.as_str())
}

/// Shows a function of a type as its name, not as its OID.
fn show_function(item: &mut SelectItem) {
    let SelectItem::UnnamedExpr(expr) = &mut *item else { return };
    let Some(name) = function_column(expr) else { return };
    let alias = Ident::new(name);
    let expr = call("tidegate_regproc_name", vec![std::mem::replace(expr, null())]);
    *item = SelectItem::ExprWithAlias { expr, alias };
}

/// Shows a text that is cast to a table or type as that name, not as its OID.
fn show_name(item: &mut SelectItem) {
    let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = &mut *item
    else {
        return;
    };
    let Expr::Cast { expr: inner, data_type, .. } = &*expr else { return };
    let is_text = matches!(inner.as_ref(), Expr::Value(value)
        if matches!(value.value, Value::SingleQuotedString(_)));
    let (name, function) = match custom_name(data_type).as_deref() {
        Some("regclass") if is_text => ("regclass", "tidegate_regclass_name"),
        Some("regtype") if is_text => ("regtype", "tidegate_regtype_name"),
        _ => return,
    };
    *expr = call(function, vec![std::mem::replace(expr, null())]);
    if let SelectItem::UnnamedExpr(expr) = item {
        let expr = std::mem::replace(expr, null());
        *item = SelectItem::ExprWithAlias { expr, alias: Ident::new(name) };
    }
}

/// Makes results of `to_regtype` and `to_regclass` numbers in a comparison, and also texts that are
/// cast to names.
fn compare_number(side: &mut Expr) {
    let Expr::Function(function) = side else { return };
    let number = match parts(&function.name).1.as_str() {
        "to_regtype" => "tidegate_to_regtype",
        "to_regclass" => "tidegate_to_regclass",
        "tidegate_regclass_name" => "tidegate_regclass",
        "tidegate_regtype_name" => "tidegate_regtype",
        _ => return,
    };
    function.name = ObjectName(vec![ObjectNamePart::Identifier(Ident::new(number))]);
}

struct Rewriter {
    /// True if the query reads the catalog.
    is_catalog: bool,
    /// The names and aliases of catalog relations in the query, with their OIDs.
    numbers: Vec<(String, u32)>,
}

impl Rewriter {
    /// The replacement of an expression on columns that only PostgreSQL's catalog rows have.
    fn of_rows(&self, expr: &mut Expr) -> Option<Expr> {
        if let Some(none) = no_elements(expr) {
            return Some(none);
        }
        if let Some(number) = self.tableoid(expr) {
            return Some(Expr::Value(Value::Number(number.to_string(), false).into()));
        }
        field_of_row(expr)
    }

    /// The OID of the relation whose `tableoid` an expression is, if it is one; 0 for the other
    /// system columns of PostgreSQL.
    fn tableoid(&self, expr: &Expr) -> Option<u32> {
        let (relation, name) = match expr {
            Expr::Identifier(name) => (None, name),
            Expr::CompoundIdentifier(path) => match path.as_slice() {
                [relation, name] => (Some(relation), name),
                _ => return None,
            },
            _ => return None,
        };
        let is_tableoid = name.value.eq_ignore_ascii_case("tableoid");
        // Catalog rows have no versions.
        let is_other = ["xmin", "xmax", "cmin", "cmax"].contains(&name.value.as_str());
        if !is_tableoid && !is_other {
            return None;
        }
        let is_it = |(known, _): &&(String, u32)| {
            relation.is_none_or(|relation| relation.value.eq_ignore_ascii_case(known))
        };
        let found = self.numbers.iter().find(is_it).map(|(_, number)| *number);
        if is_other { found.map(|_| 0) } else { found }
    }

    /// Collects the names and aliases of catalog relations in a query.
    fn number_relations(&mut self, body: &SetExpr) {
        match body {
            SetExpr::Select(select) => {
                for from in &select.from {
                    let joined = from.joins.iter().map(|join| &join.relation);
                    for factor in [&from.relation].into_iter().chain(joined) {
                        let TableFactor::Table { name, alias, .. } = factor else { continue };
                        let (schema, table) = parts(name);
                        if relations::find(schema.as_deref(), &table).is_none() {
                            continue;
                        }
                        let alias = alias.as_ref().map(|alias| alias.name.value.clone());
                        let number = relations::number(&table);
                        self.numbers.push((alias.unwrap_or(table), number));
                    }
                }
            }
            SetExpr::SetOperation { left, right, .. } => {
                self.number_relations(left);
                self.number_relations(right);
            }
            _ => {}
        }
    }

    /// Keeps the column names of `tableoid` expressions, which become numbers.
    fn name_tableoids(&self, body: &mut SetExpr) {
        match body {
            SetExpr::Select(select) => {
                for item in &mut select.projection {
                    if let SelectItem::UnnamedExpr(expr) = item
                        && self.tableoid(expr).is_some()
                        && let Some(alias) = column_name(expr)
                    {
                        let expr = std::mem::replace(expr, null());
                        *item = SelectItem::ExprWithAlias { expr, alias };
                    }
                }
            }
            SetExpr::SetOperation { left, right, .. } => {
                self.name_tableoids(left);
                self.name_tableoids(right);
            }
            _ => {}
        }
    }
}

impl VisitorMut for Rewriter {
    type Break = ();

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if self.is_catalog {
            numbered_elements(factor);
        }
        if let TableFactor::Table { name, args, .. } = factor {
            if self.is_catalog {
                qualify(name);
            }
            if args.is_some() {
                remove_schema(name);
                let relation = of_function(name);
                if let Some(relation) = relation {
                    let schema = ObjectNamePart::Identifier(Ident::new("pg_catalog"));
                    let table = ObjectNamePart::Identifier(Ident::new(relation));
                    (*name, *args) = (ObjectName(vec![schema, table]), None);
                }
            }
        }
        select_scalar(factor);
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if self.is_catalog {
            self.number_relations(query.body.as_ref());
            self.name_tableoids(query.body.as_mut());
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        lists::compare_with_rows(expr, self.is_catalog, has_no_element);
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if self.is_catalog
            && let Some(known) = self.of_rows(expr)
        {
            *expr = known;
            return ControlFlow::Continue(());
        }
        match expr {
            Expr::Function(call) => {
                remove_schema(&mut call.name);
                if parts(&call.name).1 == "generate_subscripts" {
                    number_elements(expr);
                } else if let Some(query) = query_of_array(expr) {
                    let is_empty = self.is_catalog && has_no_element(query);
                    let list = if is_empty { Some(no_texts()) } else { list_of_rows(query) };
                    if let Some(list) = list {
                        *expr = list;
                    }
                }
            }
            Expr::InSubquery { expr: inside, subquery, negated }
                if self.is_catalog && reads_search_path(subquery) =>
            {
                let schema = Value::SingleQuotedString("public".to_owned());
                let (list, negated) = (vec![Expr::Value(schema.into())], *negated);
                let inside = std::mem::replace(inside, Box::new(null()));
                *expr = Expr::InList { expr: inside, list, negated };
            }
            // Arrays of the catalog are NULL, and equal to nothing.
            Expr::BinaryOp { op: BinaryOperator::Eq, right, .. }
                if self.is_catalog && list_of(right).is_some_and(|it| !it.is_empty()) =>
            {
                *expr = null();
            }
            // There is one collation.
            Expr::Collate { expr: inner, .. } => *expr = std::mem::replace(inner, null()),
            Expr::BinaryOp { op, left, right } => {
                let compares = matches!(op, BinaryOperator::Eq | BinaryOperator::NotEq);
                if self.is_catalog && compares && !is_string(left) && !is_string(right) {
                    compare_number(left);
                    compare_number(right);
                }
                if let BinaryOperator::PGCustomBinaryOperator(path) = op
                    && path.first().is_some_and(|schema| schema == "pg_catalog")
                    && let Some(known) = path.last().and_then(|name| operator(name))
                {
                    *op = known;
                }
            }
            Expr::Identifier(name) if name.quote_style.is_none() => {
                let registers = ["current_schema", "current_role"];
                if registers.contains(&name.value.as_str()) {
                    *expr = call(&name.value.clone(), Vec::new());
                }
            }
            Expr::AnyOp { .. } | Expr::AllOp { .. } => lists::rewrite_comparison(expr),
            Expr::Like { pattern, escape_char, .. } | Expr::ILike { pattern, escape_char, .. } => {
                escape_by_backslash(pattern, escape_char);
            }
            // The subquery returns one row, but DataFusion must be able to prove it.
            Expr::Subquery(query) if self.is_catalog && lists_types(query) => {
                *expr = call("tidegate_no_oids", Vec::new());
            }
            Expr::Subquery(query) if self.is_catalog && has_no_row(query) => *expr = null(),
            Expr::Subquery(query) if self.is_catalog => one_row(query),
            Expr::Cast { .. } => {
                lists::rewrite_cast(expr);
                rewrite_cast(expr);
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// The name of a column in a select list.
fn column_name(expr: &Expr) -> Option<Ident> {
    match expr {
        Expr::Identifier(name) => Some(name.clone()),
        Expr::CompoundIdentifier(path) => path.last().cloned(),
        _ => None,
    }
}

/// Table functions that return the rows of a relation.
const OF_RELATIONS: [(&str, &str); 6] = [
    ("pg_available_extensions", "pg_available_extensions"),
    ("pg_show_all_settings", "pg_settings"),
    ("pg_lock_status", "pg_locks"),
    ("pg_cursor", "pg_cursors"),
    ("pg_get_keywords", "pg_get_keywords"),
    ("pg_timezone_names", "pg_timezone_names"),
];

fn of_function(name: &ObjectName) -> Option<&'static str> {
    let name = parts(name).1;
    OF_RELATIONS.iter().find(|(function, _)| *function == name).map(|(_, relation)| *relation)
}

/// Replaces `unnest(column) WITH ORDINALITY AS t(..)`, and the privileges of a list, by no rows:
/// arrays of the catalog are NULL.
fn numbered_elements(factor: &mut TableFactor) {
    let (alias, list) = match factor {
        TableFactor::UNNEST { alias: Some(alias), array_exprs, with_ordinality: true, .. }
            if array_exprs.iter().all(is_column) =>
        {
            let columns = alias.columns.iter().map(|column| {
                let name = column.name.value.replace('"', "\"\"");
                format!("CAST(NULL AS BIGINT) AS \"{name}\"")
            });
            let list = columns.collect::<Vec<_>>().join(", ");
            (alias, list)
        }
        TableFactor::Table { name, args: Some(_), alias: Some(alias), .. }
        | TableFactor::Function { name, alias: Some(alias), .. }
            if parts(name).1 == "aclexplode" =>
        {
            let list = "CAST(NULL AS BIGINT) AS grantor, CAST(NULL AS BIGINT) AS grantee, \
                        CAST(NULL AS VARCHAR) AS privilege_type, CAST(NULL AS BOOLEAN) AS \
                        is_grantable";
            (alias, list.to_owned())
        }
        _ => return,
    };
    let list = if list.is_empty() { "1".to_owned() } else { list };
    let parser = Parser::new(&GenericDialect {})
        .try_with_sql(&format!("SELECT {list} FROM (VALUES (1)) AS none (one) WHERE false"));
    let Ok(subquery) = parser.and_then(|mut parser| parser.parse_query()) else { return };
    let mut alias = alias.clone();
    alias.columns.clear();
    *factor = TableFactor::Derived { lateral: false, subquery, alias: Some(alias), sample: None };
}

fn is_column(expr: &Expr) -> bool {
    matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_))
}

/// Replacements without rows of functions that return a row for each element of a list of the
/// catalog: there are no such lists.
const OF_LISTS: [(&str, &str); 2] =
    [("aclexplode", "tidegate_no_acl"), ("_pg_expandarray", "tidegate_no_elements")];

fn no_elements(expr: &Expr) -> Option<Expr> {
    let Expr::Function(function) = expr else { return None };
    let name = parts(&function.name).1;
    let (_, list) = OF_LISTS.iter().find(|(known, _)| *known == name)?;
    Some(call("unnest", vec![call(list, Vec::new())]))
}

/// Rewrites the field access `(x).name` of a row.
fn field_of_row(expr: &mut Expr) -> Option<Expr> {
    let Expr::CompoundFieldAccess { root, access_chain } = expr else { return None };
    let [AccessExpr::Dot(Expr::Identifier(name))] = access_chain.as_slice() else { return None };
    let name = string(&name.value);
    Some(call("get_field", vec![std::mem::replace(root.as_mut(), null()), name]))
}

fn string(text: &str) -> Expr {
    Expr::Value(Value::SingleQuotedString(text.to_owned()).into())
}

/// A list of texts without an element.
fn no_texts() -> Expr {
    call("string_to_array", vec![string(""), string(",")])
}

/// Relations without rows in subqueries as values. `pg_collation` counts as empty: columns have the
/// collation of their type, and clients show only other ones.
const EMPTY: [&str; 11] = [
    "pg_collation",
    "pg_constraint",
    "pg_foreign_table",
    "pg_index",
    "pg_inherits",
    "pg_partitioned_table",
    "pg_policy",
    "pg_publication_rel",
    "pg_sequence",
    "pg_statistic_ext",
    "pg_trigger",
];

/// True if a subquery as a value has no row: it reads an empty relation, or the elements of an
/// array of the catalog (there are none), or is recursive over domains (there are none).
fn has_no_row(query: &Query) -> bool {
    if query.with.as_ref().is_some_and(|with| with.recursive) {
        return true;
    }
    let SetExpr::Select(select) = query.body.as_ref() else { return false };
    let counts = select.projection.iter().any(|item| match item {
        SelectItem::UnnamedExpr(Expr::Function(call))
        | SelectItem::ExprWithAlias { expr: Expr::Function(call), .. } => {
            parts(&call.name).1 == "count"
        }
        _ => false,
    });
    let is_empty = |factor: &TableFactor| match factor {
        TableFactor::Table { args: Some(_), .. }
        | TableFactor::Function { .. }
        | TableFactor::UNNEST { .. } => true,
        TableFactor::Table { name, .. } => EMPTY.contains(&parts(name).1.as_str()),
        TableFactor::Derived { subquery, .. } => has_no_row(subquery),
        _ => false,
    };
    !counts && select.from.iter().any(|from| is_empty(&from.relation))
}

/// True if a list of the rows of a query has no element. A function that is called with constants
/// has rows.
fn has_no_element(query: &Query) -> bool {
    has_no_row(query) && !calls_with_constants(query)
}

fn calls_with_constants(query: &Query) -> bool {
    let SetExpr::Select(select) = query.body.as_ref() else { return false };
    let is_call = |from: &TableWithJoins| {
        matches!(
            from.relation,
            TableFactor::Table { args: Some(_), .. }
                | TableFactor::Function { .. }
                | TableFactor::UNNEST { .. }
        )
    };
    select.from.iter().any(is_call) && !reads_columns(&select.from)
}

/// True if a subquery lists the column types of a composite type: there are none, and clients
/// expect a list of OIDs.
fn lists_types(query: &Query) -> bool {
    let SetExpr::Select(select) = query.body.as_ref() else { return false };
    let [SelectItem::UnnamedExpr(Expr::Function(call))] = select.projection.as_slice() else {
        return false;
    };
    parts(&call.name).1 == "array_agg" && call.args.to_string().contains(".atttypid")
}

/// True if a subquery returns the schemas of the search path: there is one.
fn reads_search_path(query: &Query) -> bool {
    let SetExpr::Select(select) = query.body.as_ref() else { return false };
    let is_it = |factor: &TableFactor| {
        let text = factor.to_string();
        text.contains("current_setting") && text.contains("'search_path'")
    };
    select.from.iter().any(|from| is_it(&from.relation))
}

/// True for a query, or a part of one, that names a relation of the catalog.
pub(crate) fn names_catalog(query: &mut impl VisitMut) -> bool {
    struct Finder(bool);
    impl VisitorMut for Finder {
        type Break = ();

        fn pre_visit_relation(&mut self, name: &mut ObjectName) -> ControlFlow<()> {
            let (schema, table) = parts(name);
            self.0 |=
                relations::find(schema.as_deref(), &table).is_some() || of_function(name).is_some();
            if self.0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        }
    }
    let mut finder = Finder(false);
    let _ = visit_mut(query, &mut finder);
    finder.0
}

/// Removes the database of `database.schema.table`.
fn qualify(name: &mut ObjectName) {
    if name.0.len() == 3 {
        name.0.remove(0);
    }
}

/// Removes the schema of `pg_catalog.f`.
fn remove_schema(name: &mut ObjectName) {
    let is_catalog = |part: &ObjectNamePart| match part {
        ObjectNamePart::Identifier(ident) => {
            matches!(ident.value.as_str(), "pg_catalog" | "information_schema")
        }
        _ => false,
    };
    if name.0.len() == 2 && is_catalog(&name.0[0]) {
        name.0.remove(0);
    }
}

fn operator(name: &str) -> Option<BinaryOperator> {
    Some(match name {
        "~" => BinaryOperator::PGRegexMatch,
        "~*" => BinaryOperator::PGRegexIMatch,
        "!~" => BinaryOperator::PGRegexNotMatch,
        "!~*" => BinaryOperator::PGRegexNotIMatch,
        "~~" => BinaryOperator::PGLikeMatch,
        "!~~" => BinaryOperator::PGNotLikeMatch,
        "=" => BinaryOperator::Eq,
        "<>" => BinaryOperator::NotEq,
        "<" => BinaryOperator::Lt,
        ">" => BinaryOperator::Gt,
        "<=" => BinaryOperator::LtEq,
        ">=" => BinaryOperator::GtEq,
        "+" => BinaryOperator::Plus,
        "-" => BinaryOperator::Minus,
        "*" => BinaryOperator::Multiply,
        "/" => BinaryOperator::Divide,
        "||" => BinaryOperator::StringConcat,
        _ => return None,
    })
}

/// Rewrites `generate_subscripts(list, 1)` into a row for each element, by `unnest`.
fn number_elements(expr: &mut Expr) {
    let Expr::Function(function) = expr else { return };
    let FunctionArguments::List(list) = &mut function.args else { return };
    let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(of))) = list.args.first_mut() else {
        return;
    };
    let length = call("array_length", vec![std::mem::replace(of, null())]);
    let one = Expr::Value(Value::Number("1".to_owned(), false).into());
    *expr = call("unnest", vec![call("generate_series", vec![one, length])]);
}

/// Rewrites `x LIKE 'a/_b' ESCAPE '/'` with a backslash, as DataFusion needs it. A pattern that is
/// not a literal stays, and is refused.
fn escape_by_backslash(pattern: &mut Expr, escape: &mut Option<ValueWithSpan>) {
    let Some(Value::SingleQuotedString(sign)) = escape.as_ref().map(|it| &it.value) else { return };
    let mut signs = sign.chars();
    let (Some(sign), None) = (signs.next(), signs.next()) else { return };
    if sign != '\\' && escape_texts(pattern, sign) {
        *escape = None;
    }
}

/// Escapes a pattern by backslashes; false if it is not made of literals only.
fn escape_texts(pattern: &mut Expr, sign: char) -> bool {
    match pattern {
        Expr::Nested(inner) | Expr::Cast { expr: inner, .. } => escape_texts(inner, sign),
        Expr::BinaryOp { left, op: BinaryOperator::StringConcat, right } => {
            escape_texts(left, sign) && escape_texts(right, sign)
        }
        Expr::Value(value) => {
            let Value::SingleQuotedString(text) = &mut value.value else { return false };
            let mut escaped = String::with_capacity(text.len());
            let mut chars = text.chars();
            while let Some(char) = chars.next() {
                match char {
                    '\\' => escaped.push_str("\\\\"),
                    _ if char == sign => match chars.next() {
                        Some(next @ ('%' | '_' | '\\')) => escaped.extend(['\\', next]),
                        Some(next) => escaped.push(next),
                        None => return false,
                    },
                    _ => escaped.push(char),
                }
            }
            *text = escaped;
            true
        }
        _ => false,
    }
}

/// Rewrites `(SELECT x FROM ..)` into `(SELECT max(x) FROM ..)`: there is at most one row.
fn one_row(query: &mut Query) {
    let SetExpr::Select(select) = query.body.as_mut() else { return };
    let is_grouped = !matches!(&select.group_by, GroupByExpr::Expressions(by, _) if by.is_empty());
    let [item] = select.projection.as_mut_slice() else { return };
    if is_grouped || select.from.is_empty() {
        return;
    }
    let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = item else {
        return;
    };
    let aggregates = ["count", "max", "min", "sum", "avg", "string_agg", "array_agg", "bool_or"];
    let is_aggregate = matches!(&*expr, Expr::Function(call)
        if aggregates.contains(&parts(&call.name).1.as_str()));
    if !is_aggregate {
        let inside = std::mem::replace(expr, null());
        *expr = call("max", vec![inside]);
    }
    // A single row needs no order and no limit.
    (query.order_by, query.limit_clause, query.fetch) = (None, None, None);
}

fn is_string(expr: &Expr) -> bool {
    matches!(expr, Expr::Value(value) if matches!(value.value, Value::SingleQuotedString(_)))
}

/// Rewrites casts to names of objects, and to types of the catalog.
fn rewrite_cast(expr: &mut Expr) {
    let Expr::Cast { expr: inner, data_type, .. } = expr else { return };
    if is_number_type(data_type) {
        compare_number(inner);
    }
    if is_text_type(data_type) && function_column(inner).is_some() {
        *expr = call("tidegate_regproc_name", vec![std::mem::replace(inner.as_mut(), null())]);
        return;
    }
    let Some(name) = custom_name(data_type) else { return };
    let is_text = matches!(inner.as_ref(), Expr::Value(value)
        if matches!(value.value, Value::SingleQuotedString(_)));
    let function = match (name.as_str(), is_text) {
        ("regclass", true) => "tidegate_regclass",
        ("regclass", false) => "tidegate_regclass_name",
        ("regtype", true) => "tidegate_regtype",
        ("regtype", false) => "tidegate_regtype_name",
        ("regnamespace", true) => "tidegate_regnamespace",
        ("regnamespace", false) => "tidegate_regnamespace_name",
        (
            "regproc" | "regprocedure" | "regoper" | "regoperator" | "regrole" | "regconfig"
            | "regdictionary" | "regcollation",
            _,
        ) => "tidegate_regproc_name",
        _ => {
            if let Some(known) = catalog_type(&name) {
                *data_type = known;
            }
            return;
        }
    };
    let inside = std::mem::replace(inner.as_mut(), null());
    // A number that comes from a text does not become a text again.
    let is_number = matches!(&inside, Expr::Function(call)
        if parts(&call.name).1.starts_with("tidegate_reg"));
    *expr = if is_number { inside } else { call(function, vec![inside]) };
}

fn is_number_type(ty: &DataType) -> bool {
    matches!(ty, DataType::Int(_) | DataType::Integer(_) | DataType::BigInt(_))
        || custom_name(ty).is_some_and(|name| matches!(name.as_str(), "oid" | "int4" | "int8"))
}

fn is_text_type(ty: &DataType) -> bool {
    matches!(ty, DataType::Text | DataType::Varchar(_))
        || custom_name(ty).is_some_and(|name| matches!(name.as_str(), "text" | "name" | "varchar"))
}

#[cfg(test)]
mod tests;
