//! A filter: a condition that was checked and divided into conjuncts, once for all page frames.
//!
//! - filter_filter-1. A row is selected if every conjunct is TRUE. Conjuncts that cannot fail come
//!   first; the others follow in the order in which they were written, and are evaluated only for
//!   the rows that are left. So an error is reported only for rows where all earlier conjuncts are
//!   TRUE.
//! - filter_filter-2. Conditions that compare one column with constants become one conjunct, whose
//!   set of matching values is computed before any page frame is read.
//!
//! Not here: the translation of a conjunct into the codes of a page frame (`lower`).

use tidegate_model::types::Physical;
use tidegate_model::{ColumnType, PageFrame};

use crate::column::Column;
use crate::error::{Error, Result};
use crate::interpret::Node;
use crate::ir::{Expr, check};
use crate::jit::can_compile;
use crate::ranges::Truth;
use crate::scalar::Scalar;
use crate::text::SymbolText;

/// A condition over columns of known types.
#[derive(Debug, Clone)]
pub struct Filter {
    columns: Vec<ColumnType>,
    expr: Expr,
    conjuncts: Vec<Conjunct>,
}

/// A part of a filter (filter_filter-1).
#[derive(Debug, Clone)]
pub(crate) struct Conjunct {
    /// Its number in the filter; the parts of conjuncts are counted too.
    pub(crate) id: usize,
    /// The expression as it was written.
    expr: Expr,
    /// The expression with its types.
    pub(crate) node: Node,
    /// The columns that it reads, ascending.
    pub(crate) columns: Vec<usize>,
    /// True if its evaluation can fail.
    pub(crate) can_fail: bool,
    /// Its kind, which decides how it can be evaluated.
    pub(crate) kind: Kind,
}

/// The kind of a conjunct.
#[derive(Debug, Clone)]
pub(crate) enum Kind {
    /// It reads no column.
    Constant,
    /// It compares one column, whose values have keys, with constants (filter_filter-2).
    Keys(Truth<i128>),
    /// It compares one column of text or bytes with constants (filter_filter-2).
    Texts(Truth<Vec<u8>>),
    /// Any other condition on one column.
    One,
    /// TRUE if one of its parts is; none of them can fail.
    Any(Vec<Conjunct>),
    /// TRUE if all of its parts are; none of them can fail.
    Every(Vec<Conjunct>),
    /// Any other condition on several columns.
    Many,
}

impl Filter {
    /// Creates the filter of a condition whose columns have these types.
    ///
    /// # Errors
    /// If types do not fit, or if the condition is not supported by filters.
    pub fn new(columns: Vec<ColumnType>, expr: Expr) -> Result<Filter> {
        let given = check(&expr, &columns)?.ty;
        if given != ColumnType::Boolean {
            return Err(Error::Mismatch { wanted: ColumnType::Boolean, given });
        }
        let mut parts = Vec::new();
        flatten(&expr, &mut parts);
        let mut conjuncts = joined(&parts, &columns, Expr::And)?;
        number(&mut conjuncts, &mut 0);
        Ok(Filter { columns, expr, conjuncts })
    }

    /// The types of its columns.
    #[must_use]
    pub fn columns(&self) -> &[ColumnType] {
        &self.columns
    }

    /// The condition.
    #[must_use]
    pub fn expr(&self) -> &Expr {
        &self.expr
    }

    pub(crate) fn conjuncts(&self) -> &[Conjunct] {
        &self.conjuncts
    }

    /// One line for each conjunct, for EXPLAIN: the condition with these names of columns, and the
    /// way in which it is evaluated. `zones`: by the bounds of 4,096 rows; `kernel`: on codes;
    /// `dictionary`: once for every value; `compiled` and `interpreted`: row by row. Each way is
    /// used where the former ones cannot be.
    #[must_use]
    pub fn describe(&self, names: &[String]) -> Vec<String> {
        let line = |conjunct: &Conjunct| {
            format!("{} [{}]", conjunct.expr.named(names), self.methods(conjunct))
        };
        self.conjuncts.iter().map(line).collect()
    }

    fn methods(&self, conjunct: &Conjunct) -> String {
        let is_text = |&column: &usize| self.columns[column].physical() == Physical::Bytes;
        let method = match &conjunct.kind {
            Kind::Constant => "constant",
            Kind::Keys(_) | Kind::Texts(_) => "zones, kernel",
            Kind::Any(parts) | Kind::Every(parts) => {
                let word = if matches!(conjunct.kind, Kind::Any(_)) { " or " } else { " and " };
                let parts: Vec<String> = parts.iter().map(|part| self.methods(part)).collect();
                return format!("({})", parts.join(word));
            }
            Kind::One if conjunct.columns.iter().any(is_text) => "dictionary, kernel",
            Kind::One | Kind::Many if can_compile(&conjunct.node, &self.columns) => "compiled",
            Kind::One | Kind::Many => "interpreted",
        };
        method.to_owned()
    }

    /// The columns of a page frame, after a check that they are those of the filter.
    pub(crate) fn columns_of<'a>(
        &self,
        frame: &'a PageFrame<'a>,
        symbols: &'a dyn SymbolText,
    ) -> Result<Vec<Column<'a>>> {
        let given = frame.columns().len();
        if given != self.columns.len() {
            return Err(Error::FrameColumns { wanted: self.columns.len(), given });
        }
        let column = |(position, (slice, ty)): (usize, (&'a _, &ColumnType))| {
            let slice: &tidegate_model::ColumnSlice<'a> = slice;
            if slice.ty != *ty {
                return Err(Error::Mismatch { wanted: *ty, given: slice.ty });
            }
            Column::new(position, slice, symbols)
        };
        frame.columns().iter().zip(&self.columns).enumerate().map(column).collect()
    }

    /// Evaluates the filter by its definition alone: a row at a time and slowly. The results of all
    /// faster ways are compared with this.
    ///
    /// # Errors
    /// The first error of a row, or the damage of the page frame.
    pub fn interpret(&self, frame: &PageFrame<'_>, symbols: &dyn SymbolText) -> Result<Vec<bool>> {
        let columns = self.columns_of(frame, symbols)?;
        let selects = |row| -> Result<bool> {
            for conjunct in &self.conjuncts {
                if !conjunct.selects(&columns, row)? {
                    return Ok(false);
                }
            }
            Ok(true)
        };
        (0..frame.rows()).map(selects).collect()
    }
}

impl Conjunct {
    /// Returns true if the conjunct is TRUE for a row.
    pub(crate) fn selects(&self, columns: &[Column<'_>], row: usize) -> Result<bool> {
        let value = self.node.value(&|column| columns[column].cell(row))?;
        Ok(value.truth() == Some(true))
    }

    /// Returns true if the conjunct is TRUE when its only column has this value.
    pub(crate) fn selects_value(&self, value: &Scalar<'static>) -> Result<bool> {
        let value = self.node.value(&|_| Ok(value.clone()))?;
        Ok(value.truth() == Some(true))
    }
}

/// Collects the parts of nested ANDs.
fn flatten<'a>(expr: &'a Expr, parts: &mut Vec<&'a Expr>) {
    match expr {
        Expr::And(list) => list.iter().for_each(|part| flatten(part, parts)),
        other => parts.push(other),
    }
}

/// The conjuncts of an AND or an OR, which `join` makes: comparisons of one column are folded into
/// one (filter_filter-2), and those that can fail come last (filter_filter-1).
fn joined(
    parts: &[&Expr],
    types: &[ColumnType],
    join: fn(Vec<Expr>) -> Expr,
) -> Result<Vec<Conjunct>> {
    let mut comparing: Vec<(usize, Vec<Expr>)> = Vec::new();
    let mut conjuncts = Vec::new();
    for part in parts {
        let conjunct = Conjunct::new((*part).clone(), types)?;
        match (&conjunct.kind, conjunct.columns.as_slice()) {
            (Kind::Keys(_) | Kind::Texts(_), &[column]) => {
                match comparing.iter_mut().find(|(of, _)| *of == column) {
                    Some((_, parts)) => parts.push(conjunct.expr),
                    None => comparing.push((column, vec![conjunct.expr])),
                }
            }
            _ => conjuncts.push(conjunct),
        }
    }
    for (_, mut parts) in comparing.into_iter().rev() {
        let expr = if parts.len() == 1 { parts.remove(0) } else { join(parts) };
        conjuncts.insert(0, Conjunct::new(expr, types)?);
    }
    conjuncts.sort_by_key(|conjunct| conjunct.can_fail); // Stable.
    Ok(conjuncts)
}

/// Gives every conjunct and every part of a conjunct its own number.
fn number(conjuncts: &mut [Conjunct], next: &mut usize) {
    for conjunct in conjuncts {
        conjunct.id = *next;
        *next += 1;
        if let Kind::Any(parts) | Kind::Every(parts) = &mut conjunct.kind {
            number(parts, next);
        }
    }
}

impl Conjunct {
    fn new(expr: Expr, types: &[ColumnType]) -> Result<Conjunct> {
        let can_fail = check(&expr, types)?.can_fail;
        let node = Node::new(&expr, types)?;
        let mut columns = Vec::new();
        expr.collect_columns(&mut columns);
        let kind = match (columns.as_slice(), &expr) {
            ([], _) => Kind::Constant,
            ([column], _) => kind_of_one(&node, types[*column]),
            (_, Expr::Or(list)) if !can_fail => {
                Kind::Any(joined(&list.iter().collect::<Vec<_>>(), types, Expr::Or)?)
            }
            (_, Expr::And(_)) if !can_fail => {
                let mut parts = Vec::new();
                flatten(&expr, &mut parts);
                Kind::Every(joined(&parts, types, Expr::And)?)
            }
            _ => Kind::Many,
        };
        Ok(Conjunct { id: 0, expr, node, columns, can_fail, kind })
    }
}

fn kind_of_one(node: &Node, ty: ColumnType) -> Kind {
    if ty.physical() == Physical::Bytes {
        let key = |value: &Scalar<'_>| match value {
            Scalar::Bytes(bytes) => Some(bytes.to_vec()),
            _ => None,
        };
        return Truth::of(node, &key).map_or(Kind::One, Kind::Texts);
    }
    let key = |value: &Scalar<'_>| value.order_key();
    Truth::of(node, &key).map_or(Kind::One, Kind::Keys)
}

#[cfg(test)]
mod tests {
    use tidegate_model::Value;

    use super::*;
    use crate::ir::{ArithmeticOp, CompareOp, DEPTH_MAX};

    fn int(value: i128) -> Expr {
        Expr::literal(ColumnType::Int32, Value::Integer(value))
    }

    fn at_least(column: usize, value: i128) -> Expr {
        Expr::compare(CompareOp::Ge, Expr::Column(column), int(value))
    }

    fn remainder(column: usize) -> Expr {
        let (left, right) = (Box::new(Expr::Column(column)), Box::new(int(7)));
        let rem = Expr::Arithmetic { op: ArithmeticOp::Rem, left, right };
        Expr::compare(CompareOp::Eq, rem, int(3))
    }

    #[test]
    fn comparisons_of_one_column_fold_and_fallible_conditions_come_last() {
        let below = Expr::compare(CompareOp::Lt, Expr::Column(1), int(9));
        let expr =
            Expr::And(vec![remainder(0), at_least(1, 2), Expr::And(vec![at_least(0, 4), below])]);
        let filter = Filter::new(vec![ColumnType::Int32; 2], expr).expect("types fit");
        let names = ["a".to_owned(), "b".to_owned()];
        let lines = filter.describe(&names);
        assert_eq!(lines.len(), 3);
        assert_eq!(lines[0], "(b >= 2 AND b < 9) [zones, kernel]");
        assert_eq!(lines[1], "a >= 4 [zones, kernel]");
        assert!(lines[2].starts_with("(a % 7) = 3 ["), "{}", lines[2]);
    }

    #[test]
    fn alternatives_over_several_columns_are_taken_apart() {
        let either = Expr::Or(vec![
            at_least(0, 40),
            Expr::And(vec![at_least(1, 2), remainder(0)]),
            Expr::Not(Box::new(at_least(0, 3))),
        ]);
        let filter = Filter::new(vec![ColumnType::Int32; 2], either).expect("types fit");
        let lines = filter.describe(&["a".to_owned(), "b".to_owned()]);
        let methods = "[(zones, kernel or (zones, kernel and compiled))]";
        let expected = format!("(a >= 40 OR (b >= 2 AND (a % 7) = 3) OR NOT (a >= 3)) {methods}");
        assert_eq!(lines, [expected]);
    }

    #[test]
    fn types_that_do_not_fit_are_refused() {
        let refused = |columns: &[ColumnType], expr| Filter::new(columns.to_vec(), expr).err();
        let int64 = [ColumnType::Int64];
        let (wanted, given) = (ColumnType::Int64, ColumnType::Int32);
        assert_eq!(refused(&int64, at_least(0, 1)), Some(Error::Mismatch { wanted, given }));
        let missing = Error::NoSuchColumn { column: 3, columns: 1 };
        assert_eq!(refused(&int64, at_least(3, 1)), Some(missing));
        let wanted = ColumnType::Boolean;
        assert_eq!(refused(&[], int(1)), Some(Error::Mismatch { wanted, given }));
        let deep = (0..1_000).fold(at_least(0, 1), |expr, _| Expr::Not(Box::new(expr)));
        assert_eq!(refused(&[ColumnType::Int32], deep), Some(Error::TooDeep { max: DEPTH_MAX }));
        let value = Value::Integer(1 << 40);
        let wide = Expr::literal(ColumnType::Int32, value.clone());
        let expr = Expr::compare(CompareOp::Eq, Expr::Column(0), wide);
        let refusal = Error::NotOfType { value, ty: ColumnType::Int32 };
        assert_eq!(refused(&[ColumnType::Int32], expr), Some(refusal));
    }
}
