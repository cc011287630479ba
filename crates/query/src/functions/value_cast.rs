//! Casts that copy texts or write lists as texts, as functions.
//!
//! - A cast of a value without a fixed width to another type makes the value again, and as text it
//!   may be larger. As a function its values are charged (bounded-1).
//! - value_cast-1. A column keeps the name that the cast gives it, which is that of its argument.
//!
//! Not here: casts to and from UUID, IPV4 and the like (`types::casts`).

use std::sync::Arc;

use datafusion::arrow::compute::CastOptions;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::arrow::util::display::FormatOptions;
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};

/// The name of casts of lists, maps and structs.
pub(super) const CAST_LIST: &str = "cast list";
/// The name of casts of texts and bytes that copy them.
pub(super) const CAST_TEXT: &str = "cast text";

/// The kind of a cast whose values have to be charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ValueCast {
    List,
    Text,
}

fn has_bytes(ty: &DataType) -> bool {
    ty.is_string() || ty.is_binary() || ty.is_nested()
}

impl ValueCast {
    /// Returns false if no cast to the type makes values that have to be charged.
    pub(super) fn may_be_to(ty: &DataType) -> bool {
        has_bytes(ty)
    }

    /// Returns the kind of a cast; `None` if its values are of a fixed width, or share the bytes of
    /// its argument.
    pub(super) fn of(from: &DataType, to: &DataType) -> Option<ValueCast> {
        let is_view = |ty: &DataType| matches!(ty, DataType::Utf8View | DataType::BinaryView);
        let from = match from {
            DataType::Dictionary(_, values) => values.as_ref(),
            from => from,
        };
        if !has_bytes(from) || !has_bytes(to) || from == to {
            return None;
        }
        match from.is_nested() || to.is_nested() {
            true => Some(ValueCast::List),
            false => (!is_view(to)).then_some(ValueCast::Text),
        }
    }

    /// Returns the cast of one argument.
    pub(super) fn function(self, field: &FieldRef, on_failure: OnFailure) -> ScalarUDF {
        let signature = Signature::any(1, Volatility::Immutable);
        let field = Arc::clone(field);
        ScalarUDF::new_from_impl(CastCall { kind: self, field, on_failure, signature })
    }
}

/// The result for a value that the new type cannot hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum OnFailure {
    Fail,
    Null,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct CastCall {
    kind: ValueCast,
    field: FieldRef,
    on_failure: OnFailure,
    signature: Signature,
}

impl ScalarUDFImpl for CastCall {
    fn name(&self) -> &'static str {
        match self.kind {
            ValueCast::List => CAST_LIST,
            ValueCast::Text => CAST_TEXT,
        }
    }

    // value_cast-1.
    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let Some(arg) = args.first() else { return internal_err!("a cast has an argument") };
        Ok(arg.schema_name().to_string())
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.field.data_type().clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let is_nullable = self.on_failure == OnFailure::Null
            || args.arg_fields.iter().any(|field| field.is_nullable());
        let field = Field::new(self.name(), self.field.data_type().clone(), is_nullable);
        Ok(Arc::new(field.with_metadata(self.field.metadata().clone())))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let Some(value) = args.args.first() else {
            return internal_err!("a cast has an argument");
        };
        let options = CastOptions {
            safe: self.on_failure == OnFailure::Null,
            format_options: FormatOptions::default(),
        };
        value.cast_to(self.field.data_type(), Some(&options))
    }
}
