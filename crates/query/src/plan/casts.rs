//! Casts between text and the types that Arrow does not know: UUID and IPV4.
//!
//! They stand in a plan as functions whose names no query can write.

use std::fmt::Write;
use std::net::Ipv4Addr;
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, FixedSizeBinaryBuilder, StringViewArray, StringViewBuilder,
    UInt32Array,
};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, UInt32Type};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use tidegate_model::{Column, ColumnId, ColumnType};
use tidegate_storage::segment::arrow_field;

use super::literal::value_of_text;
use crate::error::Error;

/// What becomes of a text that is no value of the type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum OnBadText {
    /// An error: CAST.
    Fail,
    /// NULL: TRY_CAST.
    Null,
}

/// The cast as a function call, if it is one of those that this file has.
pub(crate) fn special_cast(
    expr: &Expr,
    from: ColumnType,
    to: ColumnType,
    on_bad_text: OnBadText,
) -> Option<Expr> {
    let is_special = |ty| matches!(ty, ColumnType::Uuid | ColumnType::Ipv4);
    let is_text = |ty| matches!(ty, ColumnType::Varchar | ColumnType::Symbol);
    if !(is_special(from) && is_text(to) || is_text(from) && is_special(to)) {
        return None;
    }
    let signature = Signature::any(1, Volatility::Immutable);
    let function = SpecialCast { from, to, on_bad_text, signature };
    let function = Arc::new(ScalarUDF::new_from_impl(function));
    Some(Expr::ScalarFunction(ScalarFunction::new_udf(function, vec![expr.clone()])))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct SpecialCast {
    from: ColumnType,
    to: ColumnType,
    on_bad_text: OnBadText,
    signature: Signature,
}

impl ScalarUDFImpl for SpecialCast {
    fn name(&self) -> &'static str {
        match (self.from, self.to) {
            (ColumnType::Uuid, _) => "cast uuid as varchar",
            (ColumnType::Ipv4, _) => "cast ipv4 as varchar",
            (_, ColumnType::Uuid) => "cast varchar as uuid",
            _ => "cast varchar as ipv4",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.field().data_type().clone())
    }

    fn return_field_from_args(&self, _: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        Ok(Arc::new(self.field()))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let values = args.args[0].to_array(args.number_rows)?;
        Ok(ColumnarValue::Array(match (self.from, self.to) {
            (ColumnType::Uuid, _) => uuid_texts(&values),
            (ColumnType::Ipv4, _) => ipv4_texts(&values),
            (_, ColumnType::Uuid) => self.uuids(texts(&values)?.as_string_view())?,
            _ => self.addresses(texts(&values)?.as_string_view())?,
        }))
    }
}

impl SpecialCast {
    fn field(&self) -> Field {
        arrow_field(&Column { id: ColumnId(0), name: self.name().to_owned(), ty: self.to })
    }

    /// The value of a text; `None` is NULL.
    fn parsed(&self, text: &str) -> Result<Option<ScalarValue>> {
        let value = value_of_text(text, self.to).expect("UUID and IPV4 are parsed");
        match (value, self.on_bad_text) {
            (Ok(value), _) => Ok(Some(value)),
            (Err(_), OnBadText::Null) => Ok(None),
            (Err(reason), OnBadText::Fail) => {
                let text = text.to_owned();
                Err(Error::BadText { position: None, text, ty: self.to, reason }.into())
            }
        }
    }

    fn uuids(&self, texts: &StringViewArray) -> Result<ArrayRef> {
        let mut builder = FixedSizeBinaryBuilder::with_capacity(texts.len(), 16);
        for text in texts {
            match text.map(|text| self.parsed(text)).transpose()?.flatten() {
                Some(ScalarValue::FixedSizeBinary(_, Some(bytes))) => {
                    builder.append_value(bytes)?
                }
                _ => builder.append_null(),
            }
        }
        Ok(Arc::new(builder.finish()))
    }

    fn addresses(&self, texts: &StringViewArray) -> Result<ArrayRef> {
        let mut addresses = Vec::with_capacity(texts.len());
        for text in texts {
            addresses.push(match text.map(|text| self.parsed(text)).transpose()?.flatten() {
                Some(ScalarValue::UInt32(address)) => address,
                _ => None,
            });
        }
        Ok(Arc::new(UInt32Array::from(addresses)))
    }
}

fn texts(values: &ArrayRef) -> Result<ArrayRef> {
    Ok(cast(values, &DataType::Utf8View)?)
}

fn uuid_texts(values: &ArrayRef) -> ArrayRef {
    let values = values.as_fixed_size_binary();
    let mut builder = StringViewBuilder::with_capacity(values.len());
    let mut text = String::new();
    for row in 0..values.len() {
        if values.is_null(row) {
            builder.append_null();
            continue;
        }
        text.clear();
        for (at, byte) in values.value(row).iter().enumerate() {
            let hyphen = if matches!(at, 4 | 6 | 8 | 10) { "-" } else { "" };
            // Writing to a String cannot fail.
            let _ = write!(text, "{hyphen}{byte:02x}");
        }
        builder.append_value(&text);
    }
    Arc::new(builder.finish())
}

fn ipv4_texts(values: &ArrayRef) -> ArrayRef {
    let texts = values.as_primitive::<UInt32Type>().iter();
    let texts = texts.map(|bits| bits.map(|bits| Ipv4Addr::from_bits(bits).to_string()));
    Arc::new(texts.collect::<StringViewArray>())
}
