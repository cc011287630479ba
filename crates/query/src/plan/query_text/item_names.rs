//! The name of a column whose item has none: as PostgreSQL and QuestDB name it, the name of its
//! function (`count`, `max`, `version`), of what is cast, or of its form (`case`).
//!
//! Clients read rows by these names: `rows[0].count`. An item that has no such name, such as a
//! constant or a calculation, is called `?column?` in a subquery, as in PostgreSQL; in the answer,
//! it is called after its text.
//! Source: FigureColname of PostgreSQL 15.

use datafusion::sql::sqlparser::ast::{
    AccessExpr, ArrayElemTypeDef, DataType, Expr, Query, SelectItem, SetExpr, TimezoneInfo,
    TrimWhereField, TypedString,
};

/// The name of a column of a subquery that has no other.
const UNKNOWN: &str = "?column?";

/// Returns the name of an item of the answer without AS.
pub(super) fn item_name(expr: &Expr) -> String {
    own_name(expr).unwrap_or_else(|| expr.to_string())
}

/// Returns the name of an item without AS as the statement around it finds it.
pub(super) fn inner_name(expr: &Expr) -> String {
    own_name(expr).unwrap_or_else(|| UNKNOWN.to_owned())
}

/// Returns the name that an expression has of itself; `None` if it has none.
fn own_name(expr: &Expr) -> Option<String> {
    figured(expr).map(|it| it.name)
}

/// A name, and whether a cast or a CASE around its expression has that name.
struct Figured {
    name: String,
    is_kept: bool,
}

fn figured(expr: &Expr) -> Option<Figured> {
    let kept = |name: String| Some(Figured { name, is_kept: true });
    let fixed = |name: &str| Some(Figured { name: name.to_owned(), is_kept: true });
    let of_type = |ty: &DataType| type_name(ty).map(|name| Figured { name, is_kept: false });
    match expr {
        Expr::Identifier(name) => kept(name.value.clone()),
        Expr::CompoundIdentifier(path) => kept(path.last()?.value.clone()),
        Expr::Function(function) => {
            let name = function.name.0.last()?.as_ident()?;
            kept(match name.quote_style {
                Some(_) => name.value.clone(),
                None => name.value.to_lowercase(),
            })
        }
        Expr::Nested(inner) | Expr::Collate { expr: inner, .. } => figured(inner),
        Expr::CompoundFieldAccess { root, access_chain } => {
            let field = access_chain.iter().rev().find_map(|access| match access {
                AccessExpr::Dot(Expr::Identifier(name)) => Some(name.value.clone()),
                _ => None,
            });
            field.map_or_else(|| figured(root), kept)
        }
        Expr::Cast { expr, data_type, .. } => match figured(expr) {
            Some(inner) if inner.is_kept => Some(inner),
            inner => of_type(data_type).or(inner),
        },
        Expr::TypedString(TypedString { data_type, .. }) => of_type(data_type),
        Expr::Interval(_) => Some(Figured { name: "interval".to_owned(), is_kept: false }),
        Expr::Case { else_result, .. } => {
            let of_else = else_result.as_ref().and_then(|expr| figured(expr));
            let case = Figured { name: "case".to_owned(), is_kept: false };
            Some(of_else.filter(|it| it.is_kept).unwrap_or(case))
        }
        Expr::Subquery(query) => of_query(query),
        Expr::Exists { .. } => fixed("exists"),
        Expr::Array(_) => fixed("array"),
        Expr::Tuple(_) => fixed("row"),
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
fn of_query(query: &Query) -> Option<Figured> {
    let SetExpr::Select(select) = query.body.as_ref() else { return None };
    match select.projection.first()? {
        SelectItem::UnnamedExpr(expr) => figured(expr),
        SelectItem::ExprWithAlias { alias, .. } => {
            Some(Figured { name: alias.value.clone(), is_kept: true })
        }
        _ => None,
    }
}

/// Returns PostgreSQL's name of a type that a constant is cast to.
fn type_name(ty: &DataType) -> Option<String> {
    let name = match ty {
        DataType::SmallInt(_) | DataType::Int2(_) => "int2",
        DataType::Int(_) | DataType::Integer(_) | DataType::Int4(_) => "int4",
        DataType::BigInt(_) | DataType::Int8(_) => "int8",
        DataType::Real | DataType::Float4 => "float4",
        DataType::Double(_) | DataType::DoublePrecision | DataType::Float8 => "float8",
        DataType::Boolean | DataType::Bool => "bool",
        DataType::Numeric(_) | DataType::Decimal(_) => "numeric",
        DataType::Text => "text",
        DataType::Varchar(_) | DataType::CharacterVarying(_) => "varchar",
        DataType::Char(_) | DataType::Character(_) => "bpchar",
        DataType::Date => "date",
        DataType::Timestamp(_, TimezoneInfo::WithTimeZone | TimezoneInfo::Tz) => "timestamptz",
        DataType::Timestamp(..) => "timestamp",
        DataType::Time(..) => "time",
        DataType::Interval { .. } => "interval",
        DataType::Uuid => "uuid",
        DataType::Bytea => "bytea",
        DataType::JSON => "json",
        DataType::Array(ArrayElemTypeDef::SquareBracket(element, _)) => return type_name(element),
        DataType::Custom(name, _) => return Some(name.0.last()?.as_ident()?.value.to_lowercase()),
        _ => return None,
    };
    Some(name.to_owned())
}
