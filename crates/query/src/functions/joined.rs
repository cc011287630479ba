//! `string_agg` over moving frames: DataFusion's own cannot remove rows.
//!
//! - joined-1. The separator of a row stands before its text, and the first text of a frame has
//!   none, as in PostgreSQL. NULL texts are left out, and a NULL separator is empty.

use std::collections::VecDeque;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::expr::WindowFunctionParams;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Signature};

/// Returns our window function in place of DataFusion's `string_agg`.
pub(crate) fn moving_texts(
    inner: &Arc<AggregateUDF>,
    params: &WindowFunctionParams,
) -> Option<Arc<AggregateUDF>> {
    let is_known = inner.inner().is::<Joined>() || params.distinct;
    (inner.name() == "string_agg" && !is_known)
        .then(|| Arc::new(AggregateUDF::new_from_impl(Joined(Arc::clone(inner)))))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Joined(Arc<AggregateUDF>);

impl AggregateUDFImpl for Joined {
    delegate! { 0:
        fn name(&self) -> &str;
        fn signature(&self) -> &Signature;
        fn return_type(&self, args: &[DataType]) -> Result<DataType>;
        fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>>;
    }

    fn accumulator(&self, _: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(Frame::default()))
    }

    fn create_sliding_accumulator(&self, _: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(Frame::default()))
    }
}

/// A row of a frame; `text` is `None` for NULL.
#[derive(Debug)]
struct Row {
    text: Option<String>,
    separator: String,
}

impl Row {
    fn bytes(&self) -> usize {
        size_of::<Row>()
            + self.text.as_ref().map_or(0, String::capacity)
            + self.separator.capacity()
    }
}

/// The rows of a frame.
#[derive(Debug, Default)]
struct Frame {
    rows: VecDeque<Row>,
    bytes: usize,
}

impl Accumulator for Frame {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let texts = cast(&values[0], &DataType::Utf8View)?;
        let separators = cast(&values[1], &DataType::Utf8View)?;
        for (text, separator) in texts.as_string_view().iter().zip(separators.as_string_view()) {
            let separator = separator.unwrap_or_default().to_owned();
            let row = Row { text: text.map(str::to_owned), separator };
            self.bytes += row.bytes();
            self.rows.push_back(row);
        }
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for _ in 0..values[0].len() {
            let Some(row) = self.rows.pop_front() else {
                return internal_err!("a row leaves a frame that does not contain it");
            };
            self.bytes -= row.bytes();
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    // joined-1.
    fn evaluate(&mut self) -> Result<ScalarValue> {
        let mut joined: Option<String> = None;
        for row in &self.rows {
            match (&row.text, &mut joined) {
                (None, _) => {}
                (Some(text), None) => joined = Some(text.clone()),
                (Some(text), Some(joined)) => {
                    joined.push_str(&row.separator);
                    joined.push_str(text);
                }
            }
        }
        Ok(ScalarValue::LargeUtf8(joined))
    }

    fn size(&self) -> usize {
        size_of::<Frame>() + self.bytes
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn merge_batch(&mut self, _: &[ArrayRef]) -> Result<()> {
        internal_err!("the frames of a window have no parts")
    }
}
