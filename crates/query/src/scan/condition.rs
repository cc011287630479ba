//! Translation of DataFusion's conditions to those of `filter`, where they mean the same.
//!
//! - A condition is translated whole or not at all, and the translation selects the rows that
//!   DataFusion would select; only for NaN and -0 the rules are those of `filter` (ir-3).
//!
//! Other conditions stay with DataFusion, on decoded rows (`read`).

use datafusion::arrow::datatypes::{DataType, SchemaRef, TimeUnit as ArrowUnit};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::expr::{Between, BinaryExpr, Case, InList, Like};
use datafusion::logical_expr::{Expr, Operator};
use tidegate_filter::{ArithmeticOp, CompareOp, Expr as Condition, Filter};
use tidegate_model::{ColumnType, Schema, TimeUnit, Value};

use crate::functions::matching::is_of_filters;
use crate::types::casts::cast_to_integer;
use crate::types::float_order::inside_logical_sort_key;

/// A translator of conditions over one table.
pub(super) struct Translator<'a> {
    table: &'a Schema,
    /// The table's fields as DataFusion sees them.
    fields: SchemaRef,
    /// Positions in the table of the columns that conditions have named so far.
    pub(super) columns: Vec<usize>,
}

impl<'a> Translator<'a> {
    pub(super) fn new(table: &'a Schema, fields: SchemaRef) -> Translator<'a> {
        Translator { table, fields, columns: Vec::new() }
    }

    /// Returns the condition for a filter; `None` if there is none.
    pub(super) fn condition(&mut self, expr: &Expr) -> Option<Condition> {
        self.checked(|translator| translator.translate(expr))
    }

    /// Returns the result of `translate` if a filter can evaluate it; otherwise no column is added.
    pub(super) fn checked(
        &mut self,
        translate: impl FnOnce(&mut Translator<'a>) -> Option<Condition>,
    ) -> Option<Condition> {
        let known = self.columns.len();
        let condition = translate(self)
            .filter(|condition| Filter::new(self.types(), condition.clone()).is_ok());
        if condition.is_none() {
            self.columns.truncate(known);
        }
        condition
    }

    /// Returns the types of `columns`.
    pub(super) fn types(&self) -> Vec<ColumnType> {
        self.columns.iter().map(|&at| self.table.columns()[at].ty).collect()
    }

    fn translate(&mut self, expr: &Expr) -> Option<Condition> {
        match expr {
            Expr::Alias(alias) => self.translate(&alias.expr),
            Expr::Column(column) => self.column(&column.name),
            Expr::Literal(value, _) => literal(value),
            Expr::BinaryExpr(binary) => self.binary(binary),
            Expr::Not(inner) => Some(Condition::Not(self.boxed(inner)?)),
            Expr::IsNull(inner) => Some(Condition::IsNull(self.boxed(inner)?)),
            Expr::IsNotNull(inner) => Some(Condition::IsNotNull(self.boxed(inner)?)),
            Expr::IsTrue(inner) => {
                let inner = self.translate(inner)?;
                Some(Condition::And(vec![Condition::IsNotNull(Box::new(inner.clone())), inner]))
            }
            Expr::Negative(inner) => Some(Condition::Negate(self.boxed(inner)?)),
            Expr::Between(between) => self.between(between),
            Expr::InList(list) => self.in_list(list),
            Expr::Like(like) => self.like(like),
            Expr::Cast(cast) => self.cast(&cast.expr, cast.field.data_type(), false),
            Expr::TryCast(cast) => self.cast(&cast.expr, cast.field.data_type(), true),
            Expr::ScalarFunction(call) => {
                // A filter has one NaN and one zero anyway.
                if let Some(inner) = inside_logical_sort_key(call) {
                    return self.translate(inner);
                }
                let (to, is_try) = cast_to_integer(&call.func)?;
                Some(Condition::Cast { expr: self.boxed(call.args.first()?)?, to, is_try })
            }
            Expr::Case(case) => self.case(case),
            _ => None,
        }
    }

    fn boxed(&mut self, expr: &Expr) -> Option<Box<Condition>> {
        self.translate(expr).map(Box::new)
    }

    fn all(&mut self, exprs: &[Expr]) -> Option<Vec<Condition>> {
        exprs.iter().map(|expr| self.translate(expr)).collect()
    }

    pub(super) fn column(&mut self, name: &str) -> Option<Condition> {
        let at = self.fields.index_of(name).ok()?;
        let known = self.columns.iter().position(|&column| column == at);
        Some(Condition::Column(known.unwrap_or_else(|| {
            self.columns.push(at);
            self.columns.len() - 1
        })))
    }

    fn binary(&mut self, binary: &BinaryExpr) -> Option<Condition> {
        let BinaryExpr { left, op, right } = binary;
        if matches!(op, Operator::And | Operator::Or) {
            let both = vec![self.translate(left)?, self.translate(right)?];
            let is_and = *op == Operator::And;
            return Some(if is_and { Condition::And(both) } else { Condition::Or(both) });
        }
        let arithmetic = match op {
            Operator::Plus => Some(ArithmeticOp::Add),
            Operator::Minus => Some(ArithmeticOp::Sub),
            Operator::Multiply => Some(ArithmeticOp::Mul),
            Operator::Divide => Some(ArithmeticOp::Div),
            Operator::Modulo => Some(ArithmeticOp::Rem),
            _ => None,
        };
        if let Some(op) = arithmetic {
            let (left, right) = (self.boxed(left)?, self.boxed(right)?);
            return Some(Condition::Arithmetic { op, left, right });
        }
        let op = compare_op(*op)?;
        Some(Condition::compare(op, self.translate(left)?, self.translate(right)?))
    }

    fn between(&mut self, between: &Between) -> Option<Condition> {
        let value = self.translate(&between.expr)?;
        let (low, high) = (self.translate(&between.low)?, self.translate(&between.high)?);
        let inside = Condition::And(vec![
            Condition::compare(CompareOp::Ge, value.clone(), low),
            Condition::compare(CompareOp::Le, value, high),
        ]);
        Some(if between.negated { Condition::Not(Box::new(inside)) } else { inside })
    }

    fn in_list(&mut self, list: &InList) -> Option<Condition> {
        let (expr, negated) = (self.boxed(&list.expr)?, list.negated);
        let list = self.all(&list.list)?;
        (!list.is_empty()).then_some(Condition::InList { expr, list, negated })
    }

    fn like(&mut self, like: &Like) -> Option<Condition> {
        let Like { negated, expr, pattern, escape_char, case_insensitive } = like;
        let Expr::Literal(pattern, _) = &**pattern else { return None };
        let pattern = pattern.try_as_str()??.to_owned();
        if escape_char.is_some_and(|escape| escape != '\\') {
            return None;
        }
        if !is_of_filters(&pattern, *case_insensitive) {
            return None;
        }
        let (expr, negated) = (self.boxed(expr)?, *negated);
        Some(Condition::Like { expr, pattern, negated, case_insensitive: *case_insensitive })
    }

    fn cast(&mut self, expr: &Expr, to: &DataType, is_try: bool) -> Option<Condition> {
        let to = column_type(to)?;
        Some(Condition::Cast { expr: self.boxed(expr)?, to, is_try })
    }

    fn case(&mut self, case: &Case) -> Option<Condition> {
        if case.expr.is_some() {
            return None;
        }
        let mut branches = Vec::with_capacity(case.when_then_expr.len());
        for (when, then) in &case.when_then_expr {
            branches.push((self.translate(when)?, self.translate(then)?));
        }
        let otherwise = match &case.else_expr {
            None => None,
            Some(expr) => Some(self.boxed(expr)?),
        };
        Some(Condition::Case { branches, otherwise })
    }
}

pub(super) fn compare_op(op: Operator) -> Option<CompareOp> {
    Some(match op {
        Operator::Eq => CompareOp::Eq,
        Operator::NotEq => CompareOp::Ne,
        Operator::Lt => CompareOp::Lt,
        Operator::LtEq => CompareOp::Le,
        Operator::Gt => CompareOp::Gt,
        Operator::GtEq => CompareOp::Ge,
        _ => return None,
    })
}

/// Returns the type of columns with the values of an Arrow type.
pub(super) fn column_type(ty: &DataType) -> Option<ColumnType> {
    Some(match ty {
        DataType::Boolean => ColumnType::Boolean,
        DataType::Int8 => ColumnType::Int8,
        DataType::Int16 => ColumnType::Int16,
        DataType::Int32 => ColumnType::Int32,
        DataType::Int64 => ColumnType::Int64,
        DataType::UInt8 => ColumnType::UInt8,
        DataType::UInt16 => ColumnType::UInt16,
        DataType::UInt32 => ColumnType::UInt32,
        DataType::UInt64 => ColumnType::UInt64,
        DataType::Float32 => ColumnType::Float32,
        DataType::Float64 => ColumnType::Float64,
        DataType::Date32 => ColumnType::Date,
        DataType::Timestamp(ArrowUnit::Microsecond, None) => {
            ColumnType::Timestamp(TimeUnit::Micros)
        }
        DataType::Timestamp(ArrowUnit::Nanosecond, None) => ColumnType::Timestamp(TimeUnit::Nanos),
        DataType::Decimal128(precision, scale) => {
            ColumnType::Decimal { precision: *precision, scale: u8::try_from(*scale).ok()? }
        }
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => ColumnType::Varchar,
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => ColumnType::Binary,
        DataType::FixedSizeBinary(16) => ColumnType::Uuid,
        _ => return None,
    })
}

pub(super) fn literal(value: &ScalarValue) -> Option<Condition> {
    let ty = column_type(&value.data_type())?;
    if value.is_null() {
        return Some(Condition::literal(ty, Value::Null));
    }
    let value = match value {
        ScalarValue::Boolean(Some(value)) => Value::Bit(*value),
        ScalarValue::Int8(Some(n)) => Value::Integer((*n).into()),
        ScalarValue::Int16(Some(n)) => Value::Integer((*n).into()),
        ScalarValue::Int32(Some(n)) | ScalarValue::Date32(Some(n)) => Value::Integer((*n).into()),
        ScalarValue::Int64(Some(n))
        | ScalarValue::TimestampMicrosecond(Some(n), None)
        | ScalarValue::TimestampNanosecond(Some(n), None) => Value::Integer((*n).into()),
        ScalarValue::UInt8(Some(n)) => Value::Integer((*n).into()),
        ScalarValue::UInt16(Some(n)) => Value::Integer((*n).into()),
        ScalarValue::UInt32(Some(n)) => Value::Integer((*n).into()),
        ScalarValue::UInt64(Some(n)) => Value::Integer((*n).into()),
        ScalarValue::Float32(Some(x)) => Value::Float((*x).into()),
        ScalarValue::Float64(Some(x)) => Value::Float(*x),
        ScalarValue::Decimal128(Some(n), ..) => Value::Integer(*n),
        ScalarValue::Utf8(Some(text))
        | ScalarValue::LargeUtf8(Some(text))
        | ScalarValue::Utf8View(Some(text)) => Value::Bytes(text.clone().into_bytes()),
        ScalarValue::Binary(Some(bytes))
        | ScalarValue::LargeBinary(Some(bytes))
        | ScalarValue::BinaryView(Some(bytes)) => Value::Bytes(bytes.clone()),
        ScalarValue::FixedSizeBinary(16, Some(bytes)) => {
            Value::Fixed16(bytes.as_slice().try_into().ok()?)
        }
        _ => return None,
    };
    Some(Condition::literal(ty, value))
}
