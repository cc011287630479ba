//! The interpreter: the meaning of a filter, evaluated a row at a time. It is the oracle for
//! everything faster, and the fallback for conditions that nothing faster supports.
//!
//! - AND, OR, CASE and IN evaluate their parts from left to right, and stop as soon as the
//!   result is known; a part that is not evaluated raises no error.
//!
//! Not here: the choice of the rows (`evaluate`).

use tidegate_model::{ColumnType, Value};

use crate::error::Result;
use crate::ir::{ArithmeticOp, CompareOp, Expr, check};
use crate::pattern::Pattern;
use crate::scalar::{Scalar, calculate, cast, negate};

/// An expression with its types and its prepared patterns.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Node {
    Column(usize),
    Literal(ColumnType, Value),
    Compare { op: CompareOp, left: Box<Node>, right: Box<Node> },
    And(Vec<Node>),
    Or(Vec<Node>),
    Not(Box<Node>),
    IsNull(Box<Node>),
    In { expr: Box<Node>, list: Vec<Node> },
    Like { expr: Box<Node>, pattern: Pattern },
    Arithmetic { op: ArithmeticOp, ty: ColumnType, left: Box<Node>, right: Box<Node> },
    Negate { ty: ColumnType, expr: Box<Node> },
    Cast { from: ColumnType, to: ColumnType, is_try: bool, expr: Box<Node> },
    Case { branches: Vec<(Node, Node)>, otherwise: Option<Box<Node>> },
}

impl Node {
    /// Checks an expression over columns of these types and prepares it.
    pub(crate) fn new(expr: &Expr, columns: &[ColumnType]) -> Result<Node> {
        check(expr, columns)?;
        let below = |expr: &Expr| Node::new(expr, columns);
        let boxed = |expr: &Expr| Node::new(expr, columns).map(Box::new);
        let each = |list: &[Expr]| list.iter().map(below).collect::<Result<Vec<_>>>();
        Ok(match expr {
            Expr::Column(column) => Node::Column(*column),
            Expr::Literal(literal) => Node::Literal(literal.ty, literal.value.clone()),
            Expr::Compare { op, left, right } => {
                Node::Compare { op: *op, left: boxed(left)?, right: boxed(right)? }
            }
            Expr::And(list) => Node::And(each(list)?),
            Expr::Or(list) => Node::Or(each(list)?),
            Expr::Not(expr) => Node::Not(boxed(expr)?),
            Expr::IsNull(expr) => Node::IsNull(boxed(expr)?),
            Expr::IsNotNull(expr) => Node::Not(Box::new(Node::IsNull(boxed(expr)?))),
            Expr::InList { expr, list, negated } => {
                Node::In { expr: boxed(expr)?, list: each(list)? }.negated_if(*negated)
            }
            Expr::Like { expr, pattern, negated, case_insensitive } => {
                let pattern = Pattern::new(pattern, *case_insensitive);
                Node::Like { expr: boxed(expr)?, pattern }.negated_if(*negated)
            }
            Expr::Arithmetic { op, left, right } => {
                let ty = check(left, columns)?.ty;
                Node::Arithmetic { op: *op, ty, left: boxed(left)?, right: boxed(right)? }
            }
            Expr::Negate(expr) => Node::Negate { ty: check(expr, columns)?.ty, expr: boxed(expr)? },
            Expr::Cast { expr, to, is_try } => {
                let from = check(expr, columns)?.ty;
                Node::Cast { from, to: *to, is_try: *is_try, expr: boxed(expr)? }
            }
            Expr::Case { branches, otherwise } => Node::Case {
                branches: branches
                    .iter()
                    .map(|(when, then)| Ok((below(when)?, below(then)?)))
                    .collect::<Result<_>>()?,
                otherwise: otherwise.as_deref().map(boxed).transpose()?,
            },
        })
    }

    /// The child nodes, in the order in which they are evaluated.
    pub(crate) fn children(&self) -> Vec<&Node> {
        match self {
            Node::Column(_) | Node::Literal(..) => vec![],
            Node::Compare { left, right, .. } | Node::Arithmetic { left, right, .. } => {
                vec![left, right]
            }
            Node::And(list) | Node::Or(list) => list.iter().collect(),
            Node::Not(expr)
            | Node::IsNull(expr)
            | Node::Like { expr, .. }
            | Node::Negate { expr, .. }
            | Node::Cast { expr, .. } => vec![expr],
            Node::In { expr, list } => std::iter::once(&**expr).chain(list).collect(),
            Node::Case { branches, otherwise } => branches
                .iter()
                .flat_map(|(when, then)| [when, then])
                .chain(otherwise.as_deref())
                .collect(),
        }
    }

    fn negated_if(self, negated: bool) -> Node {
        if negated { Node::Not(Box::new(self)) } else { self }
    }

    /// The value for a row; `cell` reads the columns of the row.
    pub(crate) fn value<'a>(&'a self, cell: &Cell<'_, 'a>) -> Result<Scalar<'a>> {
        match self {
            Node::Column(column) => cell(*column),
            Node::Literal(_, value) => Ok(Scalar::of(value)),
            Node::Compare { op, left, right } => {
                let ordering = left.value(cell)?.compare(&right.value(cell)?);
                Ok(bit(ordering.map(|ordering| op.holds(ordering))))
            }
            Node::And(list) => joined(list, cell, false),
            Node::Or(list) => joined(list, cell, true),
            Node::Not(expr) => Ok(bit(expr.value(cell)?.truth().map(|truth| !truth))),
            Node::IsNull(expr) => Ok(Scalar::Bit(expr.value(cell)? == Scalar::Null)),
            Node::In { expr, list } => is_in(&expr.value(cell)?, list, cell),
            Node::Like { expr, pattern } => Ok(match expr.value(cell)? {
                Scalar::Bytes(text) => Scalar::Bit(pattern.matches(&text)),
                _ => Scalar::Null,
            }),
            Node::Arithmetic { op, ty, left, right } => {
                calculate(*op, *ty, &left.value(cell)?, &right.value(cell)?)
            }
            Node::Negate { ty, expr } => Ok(negate(*ty, &expr.value(cell)?)),
            Node::Cast { from, to, is_try, expr } => {
                let result = cast(*from, *to, expr.value(cell)?);
                if *is_try { Ok(result.unwrap_or(Scalar::Null)) } else { result }
            }
            Node::Case { branches, otherwise } => {
                for (when, then) in branches {
                    if when.value(cell)?.truth() == Some(true) {
                        return then.value(cell);
                    }
                }
                otherwise.as_ref().map_or(Ok(Scalar::Null), |otherwise| otherwise.value(cell))
            }
        }
    }
}

/// A function that reads a column of the present row.
pub(crate) type Cell<'c, 'a> = dyn Fn(usize) -> Result<Scalar<'a>> + 'c;

fn bit<'a>(truth: Option<bool>) -> Scalar<'a> {
    truth.map_or(Scalar::Null, Scalar::Bit)
}

/// Evaluates AND and OR: a part that is `decisive` gives the result; else a NULL part gives NULL;
/// else the result is the opposite of `decisive`.
fn joined<'a>(list: &'a [Node], cell: &Cell<'_, 'a>, decisive: bool) -> Result<Scalar<'a>> {
    let mut truth = Some(!decisive);
    for part in list {
        match part.value(cell)?.truth() {
            Some(part) if part == decisive => return Ok(Scalar::Bit(decisive)),
            Some(_) => {}
            None => truth = None,
        }
    }
    Ok(bit(truth))
}

fn is_in<'a>(value: &Scalar<'a>, list: &'a [Node], cell: &Cell<'_, 'a>) -> Result<Scalar<'a>> {
    let mut truth = Some(false);
    for part in list {
        match value.compare(&part.value(cell)?) {
            Some(ordering) if ordering.is_eq() => return Ok(Scalar::Bit(true)),
            Some(_) => {}
            None => truth = None,
        }
    }
    Ok(bit(truth))
}

#[cfg(test)]
mod tests {
    use tidegate_model::Value;

    use super::*;
    use crate::error::Error;

    fn int(value: i128) -> Expr {
        Expr::literal(ColumnType::Int64, Value::Integer(value))
    }

    fn null() -> Expr {
        Expr::literal(ColumnType::Int64, Value::Null)
    }

    fn truth(value: Option<bool>) -> Expr {
        Expr::literal(ColumnType::Boolean, value.map_or(Value::Null, Value::Bit))
    }

    #[track_caller]
    fn check_value(expr: Expr, expected: Result<Scalar<'static>>) {
        let node = Node::new(&expr, &[]).expect("well typed");
        let given = node.value(&|_| Ok(Scalar::Null));
        assert_eq!(given, expected, "{expr}");
    }

    #[test]
    fn logic_is_three_valued() {
        let all = [Some(true), Some(false), None];
        for a in all {
            for b in all {
                let and = if a == Some(false) || b == Some(false) {
                    Some(false)
                } else if a.is_none() || b.is_none() {
                    None
                } else {
                    Some(true)
                };
                check_value(Expr::And(vec![truth(a), truth(b)]), Ok(bit(and)));
                let not = |truth: Option<bool>| truth.map(|truth| !truth);
                let or = Expr::Or(vec![truth(not(a)), truth(not(b))]);
                check_value(or, Ok(bit(not(and))));
            }
        }
    }

    #[test]
    fn in_is_null_only_where_a_null_could_have_matched() {
        let within = |expr, list, negated| Expr::InList { expr: Box::new(expr), list, negated };
        check_value(within(int(1), vec![null(), int(1)], false), Ok(Scalar::Bit(true)));
        check_value(within(int(1), vec![null(), int(2)], false), Ok(Scalar::Null));
        check_value(within(int(1), vec![null(), int(1)], true), Ok(Scalar::Bit(false)));
        check_value(within(null(), vec![int(1)], true), Ok(Scalar::Null));
        check_value(within(int(1), vec![int(2)], true), Ok(Scalar::Bit(true)));
    }

    #[test]
    fn errors_count_only_where_they_are_looked_at() {
        let failing = || {
            let op = ArithmeticOp::Div;
            let div = Expr::Arithmetic { op, left: Box::new(int(1)), right: Box::new(int(0)) };
            Expr::compare(CompareOp::Eq, div, int(1))
        };
        check_value(Expr::And(vec![truth(Some(false)), failing()]), Ok(Scalar::Bit(false)));
        check_value(Expr::Or(vec![truth(Some(true)), failing()]), Ok(Scalar::Bit(true)));
        check_value(Expr::And(vec![truth(None), failing()]), Err(Error::DivideByZero));
        let branches = vec![(truth(Some(true)), truth(Some(false))), (failing(), truth(None))];
        check_value(Expr::Case { branches, otherwise: None }, Ok(Scalar::Bit(false)));
    }

    #[test]
    fn casts_fail_or_try() {
        let cast = |is_try| Expr::Cast { expr: Box::new(int(300)), to: ColumnType::Int8, is_try };
        check_value(cast(true), Ok(Scalar::Null));
        let error = Error::CastRange { value: Value::Integer(300), to: ColumnType::Int8 };
        check_value(cast(false), Err(error));
    }
}
