//! Syntax trees of the expressions that catalog queries are rewritten to.

use datafusion::sql::sqlparser::ast::{
    DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList,
    FunctionArguments, Ident, ObjectName, ObjectNamePart, TimezoneInfo, Value,
};

pub(crate) fn null() -> Expr {
    Expr::Value(Value::Null.into())
}

/// The schema and the name; a database before them is ignored.
pub(crate) fn parts(name: &ObjectName) -> (Option<String>, String) {
    let text = |part: &ObjectNamePart| match part {
        ObjectNamePart::Identifier(ident) => ident.value.to_lowercase(),
        other => other.to_string(),
    };
    let texts = name.0.iter().map(text).collect::<Vec<_>>();
    match texts.as_slice() {
        [.., schema, table] => (Some(schema.clone()), table.clone()),
        [table] => (None, table.clone()),
        [] => (None, String::new()),
    }
}

/// The name of a type that SQL does not have, without its schema.
pub(crate) fn custom_name(ty: &DataType) -> Option<String> {
    match ty {
        DataType::Custom(name, _) => Some(parts(name).1),
        DataType::Regclass => Some("regclass".to_owned()),
        _ => None,
    }
}

pub(crate) fn catalog_type(name: &str) -> Option<DataType> {
    Some(match name {
        "name" | "char" | "text" | "varchar" | "bpchar" | "cstring" => DataType::Varchar(None),
        "oid" => {
            let oid = ObjectNamePart::Identifier(Ident::new("oid"));
            DataType::Custom(ObjectName(vec![oid]), Vec::new())
        }
        "xid" | "int8" => DataType::BigInt(None),
        "int2" => DataType::SmallInt(None),
        "int4" => DataType::Int(None),
        "bool" => DataType::Boolean,
        "float4" => DataType::Real,
        "numeric" => DataType::Numeric(datafusion::sql::sqlparser::ast::ExactNumberInfo::None),
        "date" => DataType::Date,
        "timestamp" | "timestamptz" => DataType::Timestamp(None, TimezoneInfo::None),
        "uuid" => DataType::Uuid,
        "float8" => DataType::Double(datafusion::sql::sqlparser::ast::ExactNumberInfo::None),
        _ => return None,
    })
}

pub(crate) fn call(name: &str, args: Vec<Expr>) -> Expr {
    let args = args.into_iter().map(|arg| FunctionArg::Unnamed(FunctionArgExpr::Expr(arg)));
    Expr::Function(Function {
        name: ObjectName(vec![ObjectNamePart::Identifier(Ident::new(name))]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args: args.collect(),
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}
