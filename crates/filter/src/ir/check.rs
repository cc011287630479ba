//! Type check of a filter expression (ir-1), done once, before the expression is evaluated.

use tidegate_model::types::Physical;
use tidegate_model::{ColumnType, Value};

use super::{ArithmeticOp, DEPTH_MAX, Expr, Literal};
use crate::error::{Error, Result};

/// The results of checking an expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Checked {
    /// The type of its values.
    pub(crate) ty: ColumnType,
    /// True if it can fail for a row.
    pub(crate) can_fail: bool,
}

/// Checks an expression over these columns.
pub(crate) fn check(expr: &Expr, columns: &[ColumnType]) -> Result<Checked> {
    at_depth(expr, columns, 0)
}

/// Returns true if values of the two types can be compared with each other (ir-1).
pub(crate) fn comparable(a: ColumnType, b: ColumnType) -> bool {
    match (a, b) {
        (ColumnType::Symbol | ColumnType::Varchar, ColumnType::Symbol | ColumnType::Varchar) => {
            true
        }
        (ColumnType::Ipv4 | ColumnType::UInt32, ColumnType::Ipv4 | ColumnType::UInt32) => true,
        (ColumnType::Decimal { scale: a, .. }, ColumnType::Decimal { scale: b, .. }) => a == b,
        _ => a == b,
    }
}

fn at_depth(expr: &Expr, columns: &[ColumnType], depth: usize) -> Result<Checked> {
    if depth >= DEPTH_MAX {
        return Err(Error::TooDeep { max: DEPTH_MAX });
    }
    let below = |expr: &Expr| at_depth(expr, columns, depth + 1);
    match expr {
        Expr::Column(column) => {
            let ty = columns
                .get(*column)
                .ok_or(Error::NoSuchColumn { column: *column, columns: columns.len() })?;
            Ok(Checked { ty: *ty, can_fail: false })
        }
        Expr::Literal(literal) => check_literal(literal),
        Expr::Compare { left, right, .. } => {
            let (left, right) = (below(left)?, below(right)?);
            same_type(left.ty, right.ty)?;
            Ok(boolean(left.can_fail || right.can_fail))
        }
        Expr::And(list) | Expr::Or(list) => {
            let mut can_fail = false;
            for part in list {
                can_fail |= of_boolean(below(part)?)?.can_fail;
            }
            Ok(boolean(can_fail))
        }
        Expr::Not(expr) => of_boolean(below(expr)?),
        Expr::IsNull(expr) | Expr::IsNotNull(expr) => Ok(boolean(below(expr)?.can_fail)),
        Expr::InList { expr, list, .. } => {
            let mut checked = below(expr)?;
            if list.is_empty() {
                return Err(Error::NoOperands { operation: "IN" });
            }
            for value in list {
                let value = below(value)?;
                same_type(checked.ty, value.ty)?;
                checked.can_fail |= value.can_fail;
            }
            Ok(boolean(checked.can_fail))
        }
        Expr::Like { expr, pattern, case_insensitive, .. } => {
            check_like(below(expr)?, pattern, *case_insensitive)
        }
        Expr::Arithmetic { op, left, right } => {
            let checked = check_arithmetic(*op, below(left)?, below(right)?)?;
            let divides = matches!(op, ArithmeticOp::Div | ArithmeticOp::Rem);
            let fails = divides && checked.ty.is_integer() && !divides_safely(*op, right);
            Ok(Checked { can_fail: checked.can_fail || fails, ..checked })
        }
        Expr::Negate(expr) => {
            let checked = below(expr)?;
            match checked.ty.physical() {
                Physical::Signed(_) | Physical::Float32 | Physical::Float64
                    if is_number(checked.ty) =>
                {
                    Ok(checked)
                }
                _ => Err(Error::Unsupported { operation: "-", ty: checked.ty }),
            }
        }
        Expr::Cast { expr, to, is_try } => check_cast(below(expr)?, *to, *is_try),
        Expr::Case { branches, otherwise } => {
            let branches = branches
                .iter()
                .map(|(when, then)| Ok((below(when)?, below(then)?)))
                .collect::<Result<Vec<_>>>()?;
            check_case(&branches, otherwise.as_deref().map(below).transpose()?)
        }
    }
}

fn check_like(text: Checked, pattern: &str, case_insensitive: bool) -> Result<Checked> {
    let is_text = matches!(text.ty, ColumnType::Symbol | ColumnType::Varchar);
    if !is_text || (case_insensitive && !pattern.is_ascii()) {
        let operation = if is_text { "ILIKE beyond ASCII" } else { "LIKE" };
        return Err(Error::Unsupported { operation, ty: text.ty });
    }
    Ok(boolean(text.can_fail))
}

fn check_case(branches: &[(Checked, Checked)], otherwise: Option<Checked>) -> Result<Checked> {
    let Some((_, first)) = branches.first() else {
        return Err(Error::NoOperands { operation: "CASE" });
    };
    let mut whole = *first;
    for (when, then) in branches {
        whole.can_fail |= of_boolean(*when)?.can_fail | then.can_fail;
        same_type(first.ty, then.ty)?;
    }
    if let Some(otherwise) = otherwise {
        whole.can_fail |= otherwise.can_fail;
        same_type(first.ty, otherwise.ty)?;
    }
    Ok(whole)
}

fn boolean(can_fail: bool) -> Checked {
    Checked { ty: ColumnType::Boolean, can_fail }
}

fn of_boolean(checked: Checked) -> Result<Checked> {
    same_type(ColumnType::Boolean, checked.ty).map(|()| checked)
}

fn same_type(wanted: ColumnType, given: ColumnType) -> Result<()> {
    if comparable(wanted, given) { Ok(()) } else { Err(Error::Mismatch { wanted, given }) }
}

/// Returns true for integers and floats, false for types that are only stored as integers.
pub(crate) fn is_number(ty: ColumnType) -> bool {
    ty.is_integer() || matches!(ty, ColumnType::Float32 | ColumnType::Float64)
}

/// Returns true if the divisor is a constant with which the division cannot fail.
fn divides_safely(op: ArithmeticOp, right: &Expr) -> bool {
    match right {
        Expr::Literal(Literal { value: Value::Integer(divisor), .. }) => {
            *divisor != 0 && (*divisor != -1 || op == ArithmeticOp::Rem)
        }
        _ => false,
    }
}

fn check_arithmetic(op: ArithmeticOp, left: Checked, right: Checked) -> Result<Checked> {
    if !is_number(left.ty) {
        return Err(Error::Unsupported { operation: op.sign(), ty: left.ty });
    }
    if left.ty != right.ty {
        return Err(Error::Mismatch { wanted: left.ty, given: right.ty });
    }
    Ok(Checked { ty: left.ty, can_fail: left.can_fail || right.can_fail })
}

fn check_cast(from: Checked, to: ColumnType, is_try: bool) -> Result<Checked> {
    let number_like = |ty| is_number(ty) || matches!(ty, ColumnType::Timestamp(_));
    let known = match (from.ty, to) {
        (from, to) if comparable(from, to) => true,
        (ColumnType::Boolean, to) => is_number(to),
        (from, ColumnType::Boolean) => is_number(from),
        (ColumnType::Date, ColumnType::Int32 | ColumnType::Int64 | ColumnType::Timestamp(_))
        | (ColumnType::Int32 | ColumnType::Int64 | ColumnType::Timestamp(_), ColumnType::Date) => {
            true
        }
        (from, to) => number_like(from) && number_like(to),
    };
    if !known {
        return Err(Error::NoCast { from: from.ty, to });
    }
    Ok(Checked { ty: to, can_fail: from.can_fail || (!is_try && !always_fits(from.ty, to)) })
}

/// Returns true if every value of one type can be cast to the other.
fn always_fits(from: ColumnType, to: ColumnType) -> bool {
    let float = |ty| matches!(ty, ColumnType::Float32 | ColumnType::Float64);
    if comparable(from, to) || to == ColumnType::Boolean || float(to) {
        return true;
    }
    if to == ColumnType::Date {
        return matches!(from, ColumnType::Int32 | ColumnType::Timestamp(_));
    }
    if let (ColumnType::Timestamp(from), ColumnType::Timestamp(to)) = (from, to) {
        return from == to || to == tidegate_model::TimeUnit::Micros;
    }
    match (from.physical(), to.physical()) {
        (Physical::Bit, _) => true,
        _ if from == ColumnType::Date => {
            to != ColumnType::Timestamp(tidegate_model::TimeUnit::Nanos)
                && to != ColumnType::Timestamp(tidegate_model::TimeUnit::Micros)
        }
        (Physical::Signed(from), Physical::Signed(to))
        | (Physical::Unsigned(from), Physical::Unsigned(to)) => from <= to,
        (Physical::Unsigned(from), Physical::Signed(to)) => from < to,
        _ => false,
    }
}

fn check_literal(literal: &Literal) -> Result<Checked> {
    let ty = literal.ty;
    let fits = match (&literal.value, ty.physical()) {
        (Value::Null, _)
        | (Value::Bit(_), Physical::Bit)
        | (Value::Float(_), Physical::Float64)
        | (Value::Fixed16(_), Physical::Fixed16)
        | (Value::Integer(_), Physical::Wide) => true,
        #[expect(clippy::cast_possible_truncation, reason = "asks whether anything is lost")]
        (Value::Float(value), Physical::Float32) => {
            value.is_nan() || f64::from(*value as f32) == *value
        }
        (Value::Integer(value), Physical::Signed(_) | Physical::Unsigned(_)) => {
            integer_range(ty).is_some_and(|(min, max)| min <= *value && *value <= max)
        }
        (Value::Bytes(bytes), Physical::Bytes) => {
            ty == ColumnType::Binary || std::str::from_utf8(bytes).is_ok()
        }
        _ => false,
    };
    if !fits {
        return Err(Error::NotOfType { value: literal.value.clone(), ty });
    }
    Ok(Checked { ty, can_fail: false })
}

/// The minimum and the maximum of a type that is stored as an integer of up to eight bytes.
pub(crate) fn integer_range(ty: ColumnType) -> Option<(i128, i128)> {
    match ty.physical() {
        Physical::Signed(bytes) => {
            let half = 1_i128 << (u32::from(bytes) * 8 - 1);
            Some((-half, half - 1))
        }
        Physical::Unsigned(bytes) => Some((0, (1_i128 << (u32::from(bytes) * 8)) - 1)),
        Physical::Bit => Some((0, 1)),
        _ => None,
    }
}
