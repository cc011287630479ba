//! LIKE, ILIKE and the operators of regular expressions, as functions.
//!
//! - The work of a match may be as long as the text and the pattern multiplied. As functions they
//!   are processed a few rows at a time (bounded-2).
//! - A column keeps the name that the operator gives it.
//!
//! Short texts are matched by Arrow's kernels, and long ones by the pattern of filters, which
//! checks for cancellation. Not here: conditions of scans (`scan::condition`).

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, RecordBatch, RecordBatchOptions};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Schema};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::expr::{BinaryExpr, Like};
use datafusion::logical_expr::{
    ColumnarValue, Expr, Operator, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility,
};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{
    BinaryExpr as PhysicalBinary, Column, LikeExpr, Literal,
};
use tidegate_filter::Pattern;
use tidegate_model::limits::PAIR_STEPS;

use crate::account::{charge, check_canceled};
use crate::error::ClauseProblem;
use crate::types::call_values::{are_constant, constant_or_array};

/// The names of the functions, which no statement can call.
pub(super) const LIKE: &str = "LIKE";
pub(super) const ILIKE: &str = "ILIKE";
pub(super) const REGEX: &str = "~";

/// The maximal length in bytes and characters of a part with `_` that filters compare at every
/// place of a text.
const WALKED: usize = 64;

/// Returns the function of a match of LIKE or ILIKE, and its arguments; the match itself if its
/// escape character is not supported.
pub(crate) fn like(like: Like) -> std::result::Result<(ScalarUDF, Vec<Expr>), Like> {
    if like.escape_char.is_some_and(|escape| escape != '\\') {
        return Err(like);
    }
    let Like { negated, expr, pattern, escape_char, case_insensitive } = like;
    let op = match (case_insensitive, negated) {
        (false, false) => Operator::LikeMatch,
        (false, true) => Operator::NotLikeMatch,
        (true, false) => Operator::ILikeMatch,
        (true, true) => Operator::NotILikeMatch,
    };
    Ok((function(op, escape_char), vec![*expr, *pattern]))
}

/// Does the same for an operator of regular expressions.
pub(crate) fn regex(BinaryExpr { left, op, right }: BinaryExpr) -> (ScalarUDF, Vec<Expr>) {
    (function(op, None), vec![*left, *right])
}

/// Returns true for operators of regular expressions.
pub(crate) fn is_regex(op: Operator) -> bool {
    use Operator::{RegexIMatch, RegexMatch, RegexNotIMatch, RegexNotMatch};
    matches!(op, RegexMatch | RegexIMatch | RegexNotMatch | RegexNotIMatch)
}

/// Returns true if a match with a constant takes time linear in the text: the pattern is a text
/// between `%`, or filters match it (`is_of_filters`) and it is a filter of a column.
pub(crate) fn is_linear(like: &Like, is_filter: bool) -> bool {
    let Expr::Literal(pattern, _) = like.pattern.as_ref() else { return false };
    let Some(Some(text)) = pattern.try_as_str() else { return true };
    let inner = text.strip_prefix('%').unwrap_or(text);
    let inner = inner.strip_suffix('%').unwrap_or(inner);
    let is_text = !inner.contains(['%', '_', '\\']) && !like.case_insensitive;
    is_text || is_filter && is_column(&like.expr) && is_of_filters(text, like.case_insensitive)
}

fn is_column(expr: &Expr) -> bool {
    match expr {
        Expr::Column(_) => true,
        Expr::Cast(cast) => is_column(&cast.expr),
        _ => false,
    }
}

/// Returns true if filters know the pattern, and match it in time that depends on few of its bytes.
pub(crate) fn is_of_filters(pattern: &str, case_insensitive: bool) -> bool {
    let is_known = !case_insensitive || pattern.is_ascii();
    is_known && Pattern::new(pattern, case_insensitive).stepwise_length() <= WALKED
}

fn function(op: Operator, escape_char: Option<char>) -> ScalarUDF {
    let signature = Signature::any(2, Volatility::Immutable);
    ScalarUDF::new_from_impl(Matching { op, escape_char, signature })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Matching {
    op: Operator,
    escape_char: Option<char>,
    signature: Signature,
}

impl Matching {
    /// Returns true for NOT, and true for ILIKE; `None` for regular expressions.
    fn of_like(&self) -> Option<(bool, bool)> {
        match self.op {
            Operator::LikeMatch => Some((false, false)),
            Operator::NotLikeMatch => Some((true, false)),
            Operator::ILikeMatch => Some((false, true)),
            Operator::NotILikeMatch => Some((true, true)),
            _ => None,
        }
    }
}

impl ScalarUDFImpl for Matching {
    fn name(&self) -> &'static str {
        match self.of_like() {
            Some((_, false)) => LIKE,
            Some((_, true)) => ILIKE,
            None => REGEX,
        }
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let [text, pattern] = args else { return internal_err!("a match has two arguments") };
        let (text, pattern) = (Box::new(text.clone()), Box::new(pattern.clone()));
        let escape_char = self.escape_char;
        let expr = match self.of_like() {
            Some((negated, case_insensitive)) => {
                Expr::Like(Like::new(negated, text, pattern, escape_char, case_insensitive))
            }
            None => Expr::BinaryExpr(BinaryExpr::new(text, self.op, pattern)),
        };
        Ok(expr.schema_name().to_string())
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let is_nullable = args.arg_fields.iter().any(|field| field.is_nullable());
        Ok(Arc::new(Field::new(self.name(), DataType::Boolean, is_nullable)))
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let (mut fields, mut columns) = (Vec::new(), Vec::<ArrayRef>::new());
        let operand = |arg: &ColumnarValue| -> Arc<dyn PhysicalExpr> {
            match arg {
                ColumnarValue::Array(values) => {
                    let name = columns.len().to_string();
                    fields.push(Field::new(&name, values.data_type().clone(), true));
                    columns.push(Arc::clone(values));
                    Arc::new(Column::new(&name, columns.len() - 1))
                }
                ColumnarValue::Scalar(value) => Arc::new(Literal::new(value.clone())),
            }
        };
        let operands = args.args.iter().map(operand).collect::<Vec<_>>();
        let [text, pattern] = operands.as_slice() else {
            return internal_err!("a match has two arguments");
        };
        let (text, pattern) = (Arc::clone(text), Arc::clone(pattern));
        let options = RecordBatchOptions::new().with_row_count(Some(args.number_rows));
        let schema = Arc::new(Schema::new(fields));
        let batch = RecordBatch::try_new_with_options(schema, columns, &options)?;
        match self.of_like() {
            Some((negated, case_insensitive)) => {
                LikeExpr::new(negated, case_insensitive, text, pattern).evaluate(&batch)
            }
            None => PhysicalBinary::new(text, self.op, pattern).evaluate(&batch),
        }
    }
}

/// Matches one row of LIKE or ILIKE whose text or pattern is long.
pub(crate) fn match_long(function: &ScalarUDF, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
    let matching = function.inner().downcast_ref::<Matching>();
    let Some((negated, case_insensitive)) = matching.and_then(Matching::of_like) else {
        return internal_err!("{} is no LIKE", function.name());
    };
    let is_constant = are_constant(&args.args);
    let bytes = |arg: &ColumnarValue| -> Result<ArrayRef> {
        Ok(cast(&cast(&arg.to_array(1)?, &DataType::Utf8View)?, &DataType::BinaryView)?)
    };
    let values = args.args.iter().map(bytes).collect::<Result<Vec<_>>>()?;
    if values.iter().any(|values| values.is_null(0)) {
        return function.invoke_with_args(args);
    }
    let [text, pattern] = values.as_slice() else {
        return internal_err!("a match has two arguments");
    };
    let (text, pattern) = (text.as_binary_view().value(0), pattern.as_binary_view().value(0));
    let pattern = std::str::from_utf8(pattern).expect("it is cast from a text");
    let steps = (text.len() as u64).saturating_mul(pattern.len() as u64);
    if case_insensitive && !pattern.is_ascii() {
        // The regular expression defines the letters that fold to one of another alphabet.
        if steps <= PAIR_STEPS {
            return function.invoke_with_args(args);
        }
        let (function, steps) = (function.name().to_owned(), PAIR_STEPS);
        return Err(ClauseProblem::TextsTooLong { function, steps }.into());
    }
    if case_insensitive {
        charge(function.name(), text.len() as u64)?;
    }
    let matches =
        Pattern::new(pattern, case_insensitive).matches_while(text, || check_canceled().is_ok());
    let Some(matches) = matches else {
        check_canceled()?;
        return internal_err!("it goes on");
    };
    constant_or_array(ScalarValue::Boolean(Some(matches != negated)).to_array()?, is_constant)
}
