//! The name of a column of an answer whose item has none: as PostgreSQL and QuestDB name it, the
//! name of its function (`count`, `max`, `version`), of what is cast, or of its form (`case`).
//!
//! Clients read rows by these names: `rows[0].count`. An item that has no such name, such as a
//! constant or a calculation, is called after its text, where PostgreSQL calls it `?column?`.
//! Source: FigureColname of PostgreSQL 15.

use datafusion::sql::sqlparser::ast::{
    DataType, Expr, Query, SelectItem, SetExpr, TrimWhereField, TypedString,
};

/// Returns the name of an item without AS.
pub(super) fn item_name(expr: &Expr) -> String {
    figured(expr).unwrap_or_else(|| expr.to_string())
}

/// Returns the name that an expression has of itself; `None` if it has none.
fn figured(expr: &Expr) -> Option<String> {
    let fixed = |name: &str| Some(name.to_owned());
    match expr {
        Expr::Identifier(name) => Some(name.value.clone()),
        Expr::CompoundIdentifier(path) => path.last().map(|name| name.value.clone()),
        Expr::Function(function) => {
            let name = function.name.0.last()?.as_ident()?;
            Some(match name.quote_style {
                Some(_) => name.value.clone(),
                None => name.value.to_lowercase(),
            })
        }
        Expr::Nested(inner) | Expr::Collate { expr: inner, .. } => figured(inner),
        Expr::CompoundFieldAccess { root, .. } => figured(root),
        Expr::Cast { expr, data_type, .. } => figured(expr).or_else(|| type_name(data_type)),
        Expr::TypedString(TypedString { data_type, .. }) => type_name(data_type),
        Expr::Case { else_result, .. } => {
            let of_else = else_result.as_ref().and_then(|expr| figured(expr));
            of_else.or_else(|| fixed("case"))
        }
        Expr::Subquery(query) => of_query(query),
        Expr::Exists { .. } => fixed("exists"),
        Expr::Array(_) => fixed("array"),
        Expr::Interval(_) => fixed("interval"),
        Expr::AtTimeZone { .. } => fixed("timezone"),
        Expr::Extract { .. } => fixed("extract"),
        Expr::Ceil { .. } => fixed("ceil"),
        Expr::Floor { .. } => fixed("floor"),
        Expr::Position { .. } => fixed("position"),
        Expr::Substring { .. } => fixed("substring"),
        Expr::Overlay { .. } => fixed("overlay"),
        Expr::Trim { trim_where, .. } => fixed(match trim_where {
            Some(TrimWhereField::Leading) => "ltrim",
            Some(TrimWhereField::Trailing) => "rtrim",
            Some(TrimWhereField::Both) | None => "btrim",
        }),
        _ => None,
    }
}

/// Returns the name of the first column of a subquery.
fn of_query(query: &Query) -> Option<String> {
    let SetExpr::Select(select) = query.body.as_ref() else { return None };
    match select.projection.first()? {
        SelectItem::UnnamedExpr(expr) => figured(expr),
        SelectItem::ExprWithAlias { alias, .. } => Some(alias.value.clone()),
        _ => None,
    }
}

/// Returns PostgreSQL's name of a type that a constant is cast to.
fn type_name(ty: &DataType) -> Option<String> {
    let name = match ty {
        DataType::SmallInt(_) => "int2",
        DataType::Int(_) | DataType::Integer(_) => "int4",
        DataType::BigInt(_) => "int8",
        DataType::Real | DataType::Float4 => "float4",
        DataType::Double(_) | DataType::DoublePrecision | DataType::Float8 => "float8",
        DataType::Boolean => "bool",
        DataType::Numeric(_) | DataType::Decimal(_) => "numeric",
        DataType::Text => "text",
        DataType::Varchar(_) => "varchar",
        DataType::Date => "date",
        DataType::Timestamp(..) => "timestamp",
        DataType::Time(..) => "time",
        DataType::Interval { .. } => "interval",
        DataType::Uuid => "uuid",
        _ => return None,
    };
    Some(name.to_owned())
}
