//! The text of a plan, as EXPLAIN shows it: an operator a line, indented by two blanks more than
//! the one above it.
//!
//! Cancel checks are not shown, nor other operators that are added to every plan (cancel_check-1).

use std::fmt;

use datafusion::physical_plan::{DisplayFormatType, ExecutionPlan};

use super::cancel_check::is_cancel_check;

/// A plan to be shown.
#[derive(Clone, Copy)]
pub(crate) struct PlanText<'a> {
    pub(crate) plan: &'a dyn ExecutionPlan,
    pub(crate) format: DisplayFormatType,
    /// True if the metrics of its run are shown.
    pub(crate) has_metrics: bool,
}

impl fmt::Display for PlanText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, 0)
    }
}

impl PlanText<'_> {
    fn write(self, f: &mut fmt::Formatter<'_>, depth: usize) -> fmt::Result {
        let is_shown = !is_cancel_check(self.plan);
        if is_shown {
            write!(f, "{:indent$}", "", indent = 2 * depth)?;
            self.plan.fmt_as(self.format, f)?;
            if self.has_metrics {
                let metrics = self.plan.metrics().unwrap_or_default();
                let metrics = metrics.aggregate_by_name().sorted_for_display();
                write!(f, ", metrics=[{}]", metrics.timestamps_removed())?;
            }
            writeln!(f)?;
        }
        let depth = depth + usize::from(is_shown);
        let mut inputs = self.plan.children().into_iter();
        inputs.try_for_each(|input| PlanText { plan: input.as_ref(), ..self }.write(f, depth))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::datatypes::Schema;
    use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
    use datafusion::physical_plan::displayable;
    use datafusion::physical_plan::placeholder_row::PlaceholderRowExec;
    use datafusion::physical_plan::union::UnionExec;

    use super::*;
    use crate::cancel::{CancelState, Timeout};
    use crate::control::with_cancel_checks;

    #[test]
    fn plans_are_shown_without_cancel_checks() {
        let row = || Arc::new(PlaceholderRowExec::new(Arc::new(Schema::empty())));
        let one = Arc::new(CoalescePartitionsExec::new(row()));
        let plan = UnionExec::try_new(vec![one, row()]).unwrap();
        let stop = Arc::new(CancelState::new(Timeout::Never));
        let checked = with_cancel_checks(Arc::clone(&plan), &stop).unwrap();
        assert!(displayable(checked.as_ref()).indent(false).to_string().contains("CancelCheck"));
        for (format, is_verbose) in
            [(DisplayFormatType::Default, false), (DisplayFormatType::Verbose, true)]
        {
            let text = PlanText { plan: checked.as_ref(), format, has_metrics: false }.to_string();
            let expected = displayable(plan.as_ref()).indent(is_verbose).to_string();
            assert_eq!(text, expected, "cancel_check-1");
        }
    }
}
