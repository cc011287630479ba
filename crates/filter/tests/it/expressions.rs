//! Random conditions over given columns, with constants near the values of the columns.

use tidegate_filter::{ArithmeticOp, CompareOp, Expr};
use tidegate_model::types::Physical;
use tidegate_model::{ColumnType, Value};

use crate::frames::{OwnedColumn, random_float, range, word};
use crate::random::Random;

const COMPARE: [CompareOp; 6] =
    [CompareOp::Eq, CompareOp::Ne, CompareOp::Lt, CompareOp::Le, CompareOp::Gt, CompareOp::Ge];

const ARITHMETIC: [ArithmeticOp; 5] =
    [ArithmeticOp::Add, ArithmeticOp::Sub, ArithmeticOp::Mul, ArithmeticOp::Div, ArithmeticOp::Rem];

/// Makes expressions over columns.
pub(crate) struct Author<'a> {
    pub(crate) random: &'a mut Random,
    pub(crate) columns: &'a [OwnedColumn],
}

fn is_text(ty: ColumnType) -> bool {
    matches!(ty, ColumnType::Symbol | ColumnType::Varchar)
}

pub(crate) fn is_number(ty: ColumnType) -> bool {
    let is_integer = matches!(ty.physical(), Physical::Signed(_) | Physical::Unsigned(_));
    let is_other = matches!(ty, ColumnType::Timestamp(_) | ColumnType::Date | ColumnType::Ipv4);
    (is_integer && !is_other) || matches!(ty, ColumnType::Float32 | ColumnType::Float64)
}

impl Author<'_> {
    /// A random condition; most are an AND of comparisons, as in real queries.
    pub(crate) fn condition(&mut self) -> Expr {
        match self.random.below(3) {
            0 => self.boolean(3),
            _ => {
                let parts = 1 + self.random.below(4);
                Expr::And((0..parts).map(|_| self.boolean(1)).collect())
            }
        }
    }

    fn boolean(&mut self, depth: usize) -> Expr {
        if depth == 0 {
            return self.comparison(0);
        }
        let below = depth - 1;
        match self.random.below(12) {
            0 => Expr::And((0..self.random.below(4)).map(|_| self.boolean(below)).collect()),
            1 | 2 => Expr::Or((0..self.random.below(4)).map(|_| self.boolean(below)).collect()),
            3 => Expr::Not(Box::new(self.boolean(below))),
            4 => {
                let ty = self.some_type();
                let value = Box::new(self.value(ty, below));
                if self.random.once_in(2) { Expr::IsNull(value) } else { Expr::IsNotNull(value) }
            }
            5 => self.membership(below),
            6 => self.like().unwrap_or_else(|| self.comparison(below)),
            7 => self.value(ColumnType::Boolean, below),
            _ => self.comparison(below),
        }
    }

    fn some_type(&mut self) -> ColumnType {
        self.random.choose(self.columns).ty
    }

    fn comparison(&mut self, depth: usize) -> Expr {
        let ty = self.some_type();
        let left = self.value(ty, depth);
        let right = if self.random.once_in(4) { self.value(ty, depth) } else { self.literal(ty) };
        let op = *self.random.choose(&COMPARE);
        if self.random.once_in(4) {
            return Expr::compare(op, right, left);
        }
        Expr::compare(op, left, right)
    }

    fn membership(&mut self, depth: usize) -> Expr {
        let ty = self.some_type();
        let most = *self.random.choose(&[3, 12, 40]);
        let count = 1 + self.random.below(most);
        Expr::InList {
            expr: Box::new(self.value(ty, depth)),
            list: (0..count).map(|_| self.literal(ty)).collect(),
            negated: self.random.once_in(2),
        }
    }

    fn like(&mut self) -> Option<Expr> {
        let column = self.columns.iter().position(|column| is_text(column.ty))?;
        let text = word(self.random.below(600));
        let piece: String = text.chars().skip(self.random.below(4)).take(5).collect();
        let pattern = match self.random.below(6) {
            0 => format!("{piece}%"),
            1 => format!("%{piece}"),
            2 => format!("%{piece}%"),
            3 => format!("_{piece}%0%"),
            4 => "host%".to_owned(),
            _ => text,
        };
        let case_insensitive = pattern.is_ascii() && self.random.once_in(3);
        let expr = Box::new(Expr::Column(column));
        Some(Expr::Like { expr, pattern, negated: self.random.once_in(3), case_insensitive })
    }

    /// A value of the type.
    fn value(&mut self, ty: ColumnType, depth: usize) -> Expr {
        let columns: Vec<usize> =
            (0..self.columns.len()).filter(|&at| self.columns[at].ty == ty).collect();
        if depth == 0 || self.random.once_in(2) {
            return match columns.as_slice() {
                [] => self.literal(ty),
                columns => Expr::Column(*self.random.choose(columns)),
            };
        }
        let below = depth - 1;
        match self.random.below(6) {
            0 | 1 if is_number(ty) => Expr::Arithmetic {
                op: *self.random.choose(&ARITHMETIC),
                left: Box::new(self.value(ty, below)),
                right: Box::new(self.value(ty, below)),
            },
            2 if is_number(ty) && !matches!(ty.physical(), Physical::Unsigned(_)) => {
                Expr::Negate(Box::new(self.value(ty, below)))
            }
            3 | 4 => self.cast(ty, below),
            _ => {
                let branches = (0..1 + self.random.below(2))
                    .map(|_| (self.comparison(below), self.value(ty, below)))
                    .collect();
                let otherwise = self.random.once_in(2).then(|| Box::new(self.value(ty, below)));
                Expr::Case { branches, otherwise }
            }
        }
    }

    fn cast(&mut self, to: ColumnType, depth: usize) -> Expr {
        let from = self.some_type();
        let timestamp = |ty| matches!(ty, ColumnType::Timestamp(_));
        let number_like = |ty| is_number(ty) || timestamp(ty);
        let is_known = match (from, to) {
            (from, to) if from == to => true,
            (ColumnType::Boolean, to) => is_number(to),
            (from, ColumnType::Boolean) => is_number(from),
            (ColumnType::Date, to) => timestamp(to) || to == ColumnType::Int32,
            (from, ColumnType::Date) => timestamp(from) || from == ColumnType::Int64,
            (from, to) => number_like(from) && number_like(to),
        };
        if !is_known {
            return self.literal(to);
        }
        let expr = Box::new(self.value(from, depth));
        Expr::Cast { expr, to, is_try: !self.random.once_in(3) }
    }

    /// A constant: one of the column's values, a neighbour of it, or an end of the type.
    fn literal(&mut self, ty: ColumnType) -> Expr {
        if self.random.once_in(25) {
            return Expr::literal(ty, Value::Null);
        }
        let column =
            self.columns.iter().find(|column| column.ty == ty && !column.values.is_empty());
        let seen = column.map(|column| self.random.choose(&column.values).clone());
        let value = match (seen, ty.physical()) {
            (Some(Value::Bytes(text)), _) => Value::Bytes(self.text_near(text, ty)),
            (Some(seen @ (Value::Bit(_) | Value::Fixed16(_))), _) => seen,
            (Some(Value::Float(seen)), _) if !self.random.once_in(3) => {
                Value::Float(self.float_near(seen, ty))
            }
            (seen, Physical::Signed(_) | Physical::Unsigned(_) | Physical::Wide) => {
                let (min, max) = range(ty);
                let near = match seen {
                    Some(Value::Integer(seen)) => seen,
                    _ => min,
                };
                let value = match self.random.below(10) {
                    0 => min,
                    1 => max,
                    2 => 0,
                    3 => near + 1,
                    4 => near - 1,
                    5 => near + 500,
                    _ => near,
                };
                Value::Integer(value.clamp(min, max))
            }
            (_, Physical::Float32 | Physical::Float64) => {
                Value::Float(random_float(self.random, ty))
            }
            (_, Physical::Bit) => Value::Bit(self.random.once_in(2)),
            (_, Physical::Bytes) => Value::Bytes(word(self.random.below(600)).into_bytes()),
            (_, Physical::Fixed16) => Value::Fixed16([7; 16]),
        };
        Expr::literal(ty, value)
    }

    fn float_near(&mut self, seen: f64, ty: ColumnType) -> f64 {
        #[expect(clippy::cast_possible_truncation, reason = "rounding is what is wanted")]
        match (self.random.below(4), ty) {
            (0, ColumnType::Float32) => (seen as f32).next_up().into(),
            (1, ColumnType::Float32) => (seen as f32).next_down().into(),
            (0, _) => seen.next_up(),
            (1, _) => seen.next_down(),
            _ => seen,
        }
    }

    fn text_near(&mut self, mut text: Vec<u8>, ty: ColumnType) -> Vec<u8> {
        match self.random.below(5) {
            0 => text.push(b'0'),
            1 => text.clear(),
            2 if ty == ColumnType::Binary || text.is_ascii() => text.truncate(text.len() / 2),
            _ => {}
        }
        text
    }
}
