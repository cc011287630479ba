//! An optimizer rule that parses texts that are cast to times as all other times in statements:
//! DataFusion makes such casts of texts beside times, and Arrow knows fewer forms of them.
//!
//! - It stands before the rules that evaluate casts of constants.
//! - A text that is cast to a DATE may have a time of day, which is left out, as by PostgreSQL.
//!
//! Not here: constants that a statement casts itself, or compares with a time (`plan::coerce`).

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, Int64Array};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, TimeUnit as ArrowUnit};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::{Cast, ScalarFunction, TryCast};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, LogicalPlan, ReturnFieldArgs, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature, Volatility, lit,
};
use datafusion::optimizer::optimizer::ApplyOrder;
use tidegate_model::{ColumnType, TimeUnit};

use super::own_rules::LogicalRule;
use crate::error::{Error, TextProblem};
use crate::types::casts::OnBadText;
use crate::types::literal::is_printed;
use crate::types::time_text::{TimeScale, parse_time};
use crate::types::tree_changes::{ChangeParts, ChangePlan};
use crate::types::zone::Zone;

/// The rule, before all others.
pub(super) const TIME_TEXTS: LogicalRule =
    LogicalRule { name: "time_texts", order: ApplyOrder::TopDown, rewrite };

fn rewrite(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let mut is_concerned = false;
    plan.apply_expressions(|expr| {
        is_concerned |= expr.exists(|part| Ok(time_cast(part).is_some()))?;
        Ok(TreeNodeRecursion::Continue)
    })?;
    if !is_concerned {
        return Ok(Transformed::no(plan));
    }
    let schema = merge_schema(&plan.inputs());
    let names = NamePreserver::new(&plan);
    plan.change_exprs(&mut |expr| {
        let saved = names.save(&expr);
        let parsed = expr.change_parts(&mut |part| parsed(part, &schema))?;
        Ok(if parsed.transformed { parsed.update_data(|expr| saved.restore(expr)) } else { parsed })
    })
}

/// Converts a cast of a text to a time.
fn parsed(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Some((text, to, on_bad_text)) = time_cast(&expr) else { return Ok(Transformed::no(expr)) };
    if !text.get_type(schema).is_ok_and(|ty| ty.is_string()) {
        return Ok(Transformed::no(expr));
    }
    let signature = Signature::any(1, Volatility::Immutable);
    let function = TimeOfText { to: to.clone(), on_bad_text, signature };
    if let Expr::Literal(value, _) = text {
        let time = function.times(&value.to_array()?)?;
        let time = ScalarValue::try_from_array(&time, 0)?;
        if is_printed(&time) {
            return Ok(Transformed::yes(lit(time)));
        }
    }
    let function = Arc::new(ScalarUDF::new_from_impl(function));
    let call = ScalarFunction::new_udf(function, vec![text.clone()]);
    Ok(Transformed::yes(Expr::ScalarFunction(call)))
}

/// Returns the parts of a cast to a time.
fn time_cast(expr: &Expr) -> Option<(&Expr, &DataType, OnBadText)> {
    let (inner, field, on_bad_text) = match expr {
        Expr::Cast(Cast { expr, field }) => (expr, field, OnBadText::Fail),
        Expr::TryCast(TryCast { expr, field }) => (expr, field, OnBadText::Null),
        _ => return None,
    };
    is_time(field.data_type()).then(|| (inner.as_ref(), field.data_type(), on_bad_text))
}

/// Returns true for the types of times in UTC.
fn is_time(ty: &DataType) -> bool {
    match ty {
        DataType::Date32 => true,
        DataType::Timestamp(ArrowUnit::Microsecond | ArrowUnit::Nanosecond, zone) => {
            zone.as_ref().is_none_or(|zone| Zone::parse(zone) == Some(Zone::Fixed(0)))
        }
        _ => false,
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct TimeOfText {
    to: DataType,
    on_bad_text: OnBadText,
    signature: Signature,
}

impl ScalarUDFImpl for TimeOfText {
    fn name(&self) -> &'static str {
        "cast varchar as time"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.to.clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let is_nullable = self.on_bad_text == OnBadText::Null || args.arg_fields[0].is_nullable();
        Ok(Arc::new(Field::new(self.name(), self.to.clone(), is_nullable)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let texts = args.args[0].to_array(args.number_rows)?;
        Ok(ColumnarValue::Array(self.times(&texts)?))
    }
}

impl TimeOfText {
    fn times(&self, texts: &ArrayRef) -> Result<ArrayRef> {
        let ty = match self.to {
            DataType::Date32 => ColumnType::Date,
            DataType::Timestamp(ArrowUnit::Nanosecond, _) => ColumnType::Timestamp(TimeUnit::Nanos),
            _ => ColumnType::Timestamp(TimeUnit::Micros),
        };
        let scale = TimeScale::of(ty).expect("these types hold times");
        let parse = |text: &str| match parse_time(text, scale) {
            Ok(day) if scale == TimeScale::Days => Ok(day_of(text).or(Some(day))),
            Ok(time) => Ok(Some(time)),
            Err(TextProblem::HasTimeOfDay) if day_of(text).is_some() => Ok(day_of(text)),
            Err(_) if self.on_bad_text == OnBadText::Null => Ok(None),
            Err(reason) => {
                Err(Error::BadText { position: None, text: text.to_owned(), ty, reason })
            }
        };
        let texts = cast(texts, &DataType::Utf8View)?;
        let times = texts.as_string_view().iter();
        let times = times.map(|text| text.map_or(Ok(None), parse));
        let times = times.collect::<std::result::Result<Int64Array, Error>>()?;
        Ok(match self.to {
            DataType::Date32 => cast(&cast(&times, &DataType::Int32)?, &self.to)?,
            _ => cast(&times, &self.to)?,
        })
    }
}

/// Returns the day of a text with a time of day, as it is written.
fn day_of(text: &str) -> Option<i64> {
    let day = text.trim_start().split(['T', 't', ' ']).next()?;
    parse_time(day, TimeScale::Days).ok()
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::StringViewArray;
    use datafusion::arrow::util::display::array_value_to_string;

    use super::*;

    #[track_caller]
    fn check(text: &str, to: &DataType, expected: &str) {
        let signature = Signature::any(1, Volatility::Immutable);
        let on_bad_text = OnBadText::Fail;
        let function = TimeOfText { to: to.clone(), on_bad_text, signature };
        let texts: ArrayRef = Arc::new(StringViewArray::from(vec![Some(text), None]));
        let shown = match function.times(&texts) {
            Ok(times) => array_value_to_string(&times, 0).unwrap(),
            Err(_) => "error".to_owned(),
        };
        assert_eq!(shown, expected, "{text}");
    }

    #[test]
    fn texts_of_columns_have_all_forms() {
        let instant = DataType::Timestamp(ArrowUnit::Microsecond, Some("+00:00".into()));
        let micros = DataType::Timestamp(ArrowUnit::Microsecond, None);
        assert!(is_time(&instant) && is_time(&micros) && is_time(&DataType::Date32));
        check("2025-01-02 05:00", &micros, "2025-01-02T05:00:00");
        check("2025-1-2 5:00+02", &instant, "2025-01-02T03:00:00Z");
        check("0001-01-01", &micros, "0001-01-01T00:00:00");
        check("20250102T0930", &DataType::Date32, "2025-01-02");
        check("2025-01-02 23:00-05", &DataType::Date32, "2025-01-02");
        check("2025-01-02 23:00-01", &DataType::Date32, "2025-01-02");
        check("yesterday", &micros, "error");
        let berlin = DataType::Timestamp(ArrowUnit::Microsecond, Some("Europe/Berlin".into()));
        assert!(!is_time(&berlin) && !is_time(&DataType::Utf8));
    }
}
