//! The language of filters: expressions over the columns of a page frame.
//!
//! - ir-1. A checked expression has one type, and both sides of a comparison or of an operator have
//!   the same type: the builder of the expression adds the casts. TEXT stands for SYMBOL and
//!   VARCHAR; an IPV4 compares as the UINT that it is.
//! - ir-2. Logic is three-valued. Integers wrap on `+ - *` and unary `-`; a division by zero and
//!   `MIN / -1` are errors, `MIN % -1` is 0. Floats are IEEE. A cast that loses range is an error,
//!   or NULL if it is a TRY_CAST; floats become integers by rounding, half to even.
//! - ir-3. NaN equals NaN and is greater than every number; -0 equals 0. Text and bytes compare by
//!   their bytes.
//!
//! Not here: the value of an expression for a row (`interpret`), its fast evaluation (`filter`).

mod check;
mod display;

pub(crate) use check::{check, integer_range};

use tidegate_model::{ColumnType, Value};

/// The maximum depth of an expression: all functions that walk one are recursive.
pub const DEPTH_MAX: usize = 500;

/// An expression; that of a filter is a BOOLEAN.
#[derive(Debug, Clone, PartialEq)]
pub enum Expr {
    /// A column, by its position in the filter's own list.
    Column(usize),
    /// A constant.
    Literal(Literal),
    /// A comparison of two values of one type (ir-3).
    Compare {
        /// The operator.
        op: CompareOp,
        /// The left side.
        left: Box<Expr>,
        /// The right side.
        right: Box<Expr>,
    },
    /// TRUE if all parts are TRUE; TRUE if there is no part.
    And(Vec<Expr>),
    /// TRUE if one part is TRUE; FALSE if there is no part.
    Or(Vec<Expr>),
    /// The negation; NULL for NULL.
    Not(Box<Expr>),
    /// TRUE if there is no value. Never NULL.
    IsNull(Box<Expr>),
    /// TRUE if there is a value. Never NULL.
    IsNotNull(Box<Expr>),
    /// TRUE if the value equals one of the list.
    InList {
        /// The value.
        expr: Box<Expr>,
        /// The values of the list; not empty.
        list: Vec<Expr>,
        /// NOT IN.
        negated: bool,
    },
    /// TRUE if a text matches a pattern: `%` is any text, `_` any character, `\` escapes the next
    /// character.
    Like {
        /// The text.
        expr: Box<Expr>,
        /// The pattern.
        pattern: String,
        /// NOT LIKE.
        negated: bool,
        /// ILIKE; then the pattern has to be ASCII.
        case_insensitive: bool,
    },
    /// An operation on two numbers of one type (ir-2).
    Arithmetic {
        /// The operator.
        op: ArithmeticOp,
        /// The left side.
        left: Box<Expr>,
        /// The right side.
        right: Box<Expr>,
    },
    /// Unary minus (ir-2).
    Negate(Box<Expr>),
    /// The value as another type (ir-2).
    Cast {
        /// The value.
        expr: Box<Expr>,
        /// The type.
        to: ColumnType,
        /// TRY_CAST: NULL instead of an error.
        is_try: bool,
    },
    /// CASE: the value of the first condition that is TRUE.
    Case {
        /// Conditions and values; not empty.
        branches: Vec<(Expr, Expr)>,
        /// The value if no condition is TRUE; without it, NULL.
        otherwise: Option<Box<Expr>>,
    },
}

/// A constant and its type; a NULL has a type too.
#[derive(Debug, Clone, PartialEq)]
pub struct Literal {
    /// The type.
    pub ty: ColumnType,
    /// The value, in the range of the type.
    pub value: Value,
}

/// A comparison operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompareOp {
    /// `=`
    Eq,
    /// `<>`
    Ne,
    /// `<`
    Lt,
    /// `<=`
    Le,
    /// `>`
    Gt,
    /// `>=`
    Ge,
}

/// An arithmetic operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArithmeticOp {
    /// `+`
    Add,
    /// `-`
    Sub,
    /// `*`
    Mul,
    /// `/`
    Div,
    /// `%`, with the sign of the left side.
    Rem,
}

impl CompareOp {
    /// The operator that gives the same result with the sides exchanged.
    #[must_use]
    pub fn flipped(self) -> CompareOp {
        match self {
            CompareOp::Eq => CompareOp::Eq,
            CompareOp::Ne => CompareOp::Ne,
            CompareOp::Lt => CompareOp::Gt,
            CompareOp::Le => CompareOp::Ge,
            CompareOp::Gt => CompareOp::Lt,
            CompareOp::Ge => CompareOp::Le,
        }
    }

    /// Returns true if the comparison holds for two values whose order is `ordering`.
    #[must_use]
    pub fn holds(self, ordering: std::cmp::Ordering) -> bool {
        match self {
            CompareOp::Eq => ordering.is_eq(),
            CompareOp::Ne => ordering.is_ne(),
            CompareOp::Lt => ordering.is_lt(),
            CompareOp::Le => ordering.is_le(),
            CompareOp::Gt => ordering.is_gt(),
            CompareOp::Ge => ordering.is_ge(),
        }
    }
}

impl Expr {
    /// A constant.
    #[must_use]
    pub fn literal(ty: ColumnType, value: Value) -> Expr {
        Expr::Literal(Literal { ty, value })
    }

    /// A comparison.
    #[must_use]
    pub fn compare(op: CompareOp, left: Expr, right: Expr) -> Expr {
        Expr::Compare { op, left: Box::new(left), right: Box::new(right) }
    }

    /// The child expressions.
    pub(crate) fn children(&self) -> Vec<&Expr> {
        match self {
            Expr::Column(_) | Expr::Literal(_) => vec![],
            Expr::Compare { left, right, .. } | Expr::Arithmetic { left, right, .. } => {
                vec![left, right]
            }
            Expr::And(list) | Expr::Or(list) => list.iter().collect(),
            Expr::Not(expr)
            | Expr::IsNull(expr)
            | Expr::IsNotNull(expr)
            | Expr::Negate(expr)
            | Expr::Like { expr, .. }
            | Expr::Cast { expr, .. } => vec![expr],
            Expr::InList { expr, list, .. } => std::iter::once(&**expr).chain(list).collect(),
            Expr::Case { branches, otherwise } => branches
                .iter()
                .flat_map(|(when, then)| [when, then])
                .chain(otherwise.as_deref())
                .collect(),
        }
    }

    /// Adds the columns of the expression to `columns`, ascending, each once.
    pub(crate) fn collect_columns(&self, columns: &mut Vec<usize>) {
        if let Expr::Column(column) = self
            && let Err(at) = columns.binary_search(column)
        {
            columns.insert(at, *column);
        }
        for child in self.children() {
            child.collect_columns(columns);
        }
    }
}
