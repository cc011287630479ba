//! Lists of BINARY values and dates as lists of their texts.
//!
//! - A value in a list has the text that it has alone: `\x` and its digits, or a date.
//!   DataFusion writes no value, or digits alone, and dates up to the year 9999.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, GenericListArray, OffsetSizeTrait};
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::Result;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::call_values::call_values;
use super::casts::{binary_texts, date_texts};

/// The name of the function, which no query can write.
pub(crate) const LIST_TEXTS: &str = "cast list as texts";

/// Returns a list of BINARY values or dates as one of texts; `Err` with any other expression.
pub(crate) fn with_texts(list: Expr, ty: &DataType) -> std::result::Result<Expr, Expr> {
    if !ty.is_list() || type_of_texts(ty).is_none() {
        return Err(list);
    }
    let signature = Signature::any(1, Volatility::Immutable);
    let function = Arc::new(ScalarUDF::new_from_impl(ListTexts { signature }));
    Ok(Expr::ScalarFunction(ScalarFunction::new_udf(function, vec![list])))
}

/// Returns the type of the texts of values of a type; `None` if no BINARY and no date is in them.
fn type_of_texts(ty: &DataType) -> Option<DataType> {
    let item = |field: &Field| {
        let texts = type_of_texts(field.data_type())?;
        Some(Arc::new(Field::new_list_field(texts, true)))
    };
    Some(match ty {
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::Date32 => {
            DataType::Utf8View
        }
        DataType::List(field) => DataType::List(item(field)?),
        DataType::LargeList(field) => DataType::LargeList(item(field)?),
        _ => return None,
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct ListTexts {
    signature: Signature,
}

impl ScalarUDFImpl for ListTexts {
    fn name(&self) -> &'static str {
        LIST_TEXTS
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, args: &[DataType]) -> Result<DataType> {
        Ok(type_of_texts(&args[0]).unwrap_or_else(|| args[0].clone()))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        call_values(&args.args, args.number_rows, |lists, _| texts(&lists[0]))
    }
}

/// Returns the texts of values, in the same lists.
fn texts(values: &ArrayRef) -> Result<ArrayRef> {
    match values.data_type() {
        DataType::List(_) => texts_of_lists::<i32>(values),
        DataType::LargeList(_) => texts_of_lists::<i64>(values),
        DataType::Date32 => date_texts(values),
        _ => binary_texts(values),
    }
}

fn texts_of_lists<O: OffsetSizeTrait>(lists: &ArrayRef) -> Result<ArrayRef> {
    let lists: &GenericListArray<O> = lists.as_list();
    let texts = texts(lists.values())?;
    let item = Arc::new(Field::new_list_field(texts.data_type().clone(), true));
    let (offsets, nulls) = (lists.offsets().clone(), lists.nulls().cloned());
    Ok(Arc::new(GenericListArray::<O>::try_new(item, offsets, texts, nulls)?))
}
