//! The language of filters: expressions over the columns of a page frame.
//!
//! - R1. A checked expression has one type, and both sides of a comparison or of an operator have
//!   the same one: who builds the expression puts casts where they are wanted. TEXT is SYMBOL and
//!   VARCHAR alike, an IPV4 compares as the UINT it is.
//! - R2. Logic is three-valued. Integers wrap on `+ - *` and unary `-`; a division by zero and
//!   `MIN / -1` are errors, `MIN % -1` is 0. Floats are IEEE. A cast that loses range is an error,
//!   or NULL if it is a TRY_CAST; floats become integers by rounding, half to even.
//! - R3. NaN equals NaN and is greater than every number; -0 equals 0. Text and bytes compare by
//!   their bytes.
//!
//! Not here: what an expression gives for a row (`interpret`), how it becomes fast (`filter`).

mod check;
mod display;

pub(crate) use check::{check, integer_range};

use tidegate_model::{ColumnType, Value};

/// Levels of an expression: every walk over one is recursive.
pub const DEPTH_MAX: usize = 500;

/// An expression, of which a filter's is a BOOLEAN one.
#[derive(Debug, Clone, PartialEq)]
pub enum Expr {
    /// A column, by its position in the filter's own list.
    Column(usize),
    /// A constant.
    Literal(Literal),
    /// A comparison of two values of one type (R3).
    Compare {
        /// How.
        op: CompareOp,
        /// The left side.
        left: Box<Expr>,
        /// The right side.
        right: Box<Expr>,
    },
    /// TRUE if all are; of none, TRUE.
    And(Vec<Expr>),
    /// TRUE if one is; of none, FALSE.
    Or(Vec<Expr>),
    /// The opposite; NULL of NULL.
    Not(Box<Expr>),
    /// Whether there is no value. Never NULL.
    IsNull(Box<Expr>),
    /// Whether there is a value. Never NULL.
    IsNotNull(Box<Expr>),
    /// Whether the value equals one of the list.
    InList {
        /// The value.
        expr: Box<Expr>,
        /// What it may equal; not empty.
        list: Vec<Expr>,
        /// NOT IN.
        negated: bool,
    },
    /// Whether a text matches: `%` is any text, `_` any character, `\` takes the next as it is.
    Like {
        /// The text.
        expr: Box<Expr>,
        /// What it shall look like.
        pattern: String,
        /// NOT LIKE.
        negated: bool,
        /// ILIKE; then the pattern has to be ASCII.
        case_insensitive: bool,
    },
    /// Two numbers of one type (R2).
    Arithmetic {
        /// What is done with them.
        op: ArithmeticOp,
        /// The left side.
        left: Box<Expr>,
        /// The right side.
        right: Box<Expr>,
    },
    /// Unary minus (R2).
    Negate(Box<Expr>),
    /// The value as another type (R2).
    Cast {
        /// The value.
        expr: Box<Expr>,
        /// The type.
        to: ColumnType,
        /// TRY_CAST: NULL instead of an error.
        is_try: bool,
    },
    /// The value behind the first condition that is TRUE.
    Case {
        /// Conditions and values; not empty.
        branches: Vec<(Expr, Expr)>,
        /// The value if none is; NULL without one.
        otherwise: Option<Box<Expr>>,
    },
}

/// A constant and its type, which NULL has too.
#[derive(Debug, Clone, PartialEq)]
pub struct Literal {
    /// The type.
    pub ty: ColumnType,
    /// The value, in the range of the type.
    pub value: Value,
}

/// How two values are compared.
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

/// What is done with two numbers.
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
    /// The operator that says the same with the sides exchanged.
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

    /// Whether it holds between two values that compare as `ordering`.
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

    /// The expressions directly below.
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

    /// Adds the columns below to `columns`, ascending, each once.
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
