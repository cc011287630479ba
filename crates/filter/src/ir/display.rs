//! Formatting of a filter expression as SQL, for EXPLAIN. A column is written as its name, or as
//! `#` and its position if the name is not known.

use std::fmt;

use tidegate_model::{ColumnType, Value};

use super::{ArithmeticOp, CompareOp, Expr, Literal};

impl ArithmeticOp {
    /// Returns the operator in SQL.
    #[must_use]
    pub fn sign(self) -> &'static str {
        match self {
            ArithmeticOp::Add => "+",
            ArithmeticOp::Sub => "-",
            ArithmeticOp::Mul => "*",
            ArithmeticOp::Div => "/",
            ArithmeticOp::Rem => "%",
        }
    }
}

impl fmt::Display for CompareOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CompareOp::Eq => "=",
            CompareOp::Ne => "<>",
            CompareOp::Lt => "<",
            CompareOp::Le => "<=",
            CompareOp::Gt => ">",
            CompareOp::Ge => ">=",
        })
    }
}

impl fmt::Display for Literal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            Value::Null => f.write_str("NULL"),
            Value::Bit(value) => write!(f, "{value}"),
            Value::Integer(value) => match self.ty {
                ColumnType::Decimal { scale, .. } => write_decimal(f, *value, scale),
                ColumnType::Timestamp(_) | ColumnType::Date | ColumnType::Ipv4 => {
                    write!(f, "{} {value}", self.ty.sql())
                }
                _ => write!(f, "{value}"),
            },
            Value::Float(value) => write!(f, "{value:?}"),
            Value::Bytes(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) if self.ty != ColumnType::Binary => write_text(f, text),
                _ => write_hex(f, bytes),
            },
            Value::Fixed16(bytes) => write_hex(f, bytes),
        }
    }
}

fn write_decimal(f: &mut fmt::Formatter<'_>, value: i128, scale: u8) -> fmt::Result {
    let power = 10_u128.pow(u32::from(scale.min(38)));
    let (whole, rest) = (value.unsigned_abs() / power, value.unsigned_abs() % power);
    let sign = if value < 0 { "-" } else { "" };
    if scale == 0 {
        return write!(f, "{sign}{whole}");
    }
    write!(f, "{sign}{whole}.{rest:0width$}", width = usize::from(scale))
}

fn write_text(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    write!(f, "'{}'", text.replace('\'', "''"))
}

fn write_hex(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    f.write_str("X'")?;
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
    f.write_str("'")
}

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.named(&[]).fmt(f)
    }
}

impl Expr {
    /// The expression with the names of its columns.
    #[must_use]
    pub fn named<'a>(&'a self, names: &'a [String]) -> NamedExpr<'a> {
        NamedExpr { expr: self, names }
    }
}

/// An expression and the names of its columns, by position; a column without a name is written as
/// `#` and its position.
#[derive(Debug, Clone, Copy)]
pub struct NamedExpr<'a> {
    expr: &'a Expr,
    names: &'a [String],
}

impl NamedExpr<'_> {
    fn of<'b>(&'b self, expr: &'b Expr) -> NamedExpr<'b> {
        NamedExpr { expr, names: self.names }
    }

    /// Writes `(a OR b)`, or the value of an empty list.
    fn joined(&self, f: &mut fmt::Formatter<'_>, list: &[Expr], word: &str) -> fmt::Result {
        let [first, rest @ ..] = list else {
            return write!(f, "{}", word == " AND ");
        };
        write!(f, "({}", self.of(first))?;
        rest.iter().try_for_each(|part| write!(f, "{word}{}", self.of(part)))?;
        f.write_str(")")
    }
}

impl fmt::Display for NamedExpr<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let not = |negated: &bool| if *negated { " NOT" } else { "" };
        match self.expr {
            Expr::Column(column) => match self.names.get(*column) {
                Some(name) => f.write_str(name),
                None => write!(f, "#{column}"),
            },
            Expr::Literal(literal) => literal.fmt(f),
            Expr::Compare { op, left, right } => {
                write!(f, "{} {op} {}", self.of(left), self.of(right))
            }
            Expr::And(list) => self.joined(f, list, " AND "),
            Expr::Or(list) => self.joined(f, list, " OR "),
            Expr::Not(expr) => write!(f, "NOT ({})", self.of(expr)),
            Expr::IsNull(expr) => write!(f, "{} IS NULL", self.of(expr)),
            Expr::IsNotNull(expr) => write!(f, "{} IS NOT NULL", self.of(expr)),
            Expr::InList { expr, list, negated } => {
                write!(f, "{}{} IN ", self.of(expr), not(negated))?;
                match list.as_slice() {
                    [one] => write!(f, "({})", self.of(one)),
                    list => self.joined(f, list, ", "),
                }
            }
            Expr::Like { expr, pattern, negated, case_insensitive } => {
                let like = if *case_insensitive { "ILIKE" } else { "LIKE" };
                write!(f, "{}{} {like} ", self.of(expr), not(negated))?;
                write_text(f, pattern)
            }
            Expr::Arithmetic { op, left, right } => {
                write!(f, "({} {} {})", self.of(left), op.sign(), self.of(right))
            }
            Expr::Negate(expr) => write!(f, "(- {})", self.of(expr)),
            Expr::Cast { expr, to, is_try } => {
                let cast = if *is_try { "TRY_CAST" } else { "CAST" };
                write!(f, "{cast}({} AS {})", self.of(expr), to.sql())
            }
            Expr::Case { branches, otherwise } => {
                f.write_str("CASE")?;
                for (when, then) in branches {
                    write!(f, " WHEN {} THEN {}", self.of(when), self.of(then))?;
                }
                if let Some(otherwise) = otherwise {
                    write!(f, " ELSE {}", self.of(otherwise))?;
                }
                f.write_str(" END")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(expr: &Expr, expected: &str) {
        assert_eq!(expr.named(&["a".to_owned()]).to_string(), expected);
    }

    #[test]
    fn expressions_read_as_sql() {
        let column = || Box::new(Expr::Column(0));
        let literal = |ty, value| Expr::literal(ty, value);
        let money = ColumnType::Decimal { precision: 9, scale: 2 };
        let cents = literal(money, Value::Integer(-105));
        check(&Expr::compare(CompareOp::Ge, Expr::Column(0), cents), "a >= -1.05");
        let text = literal(ColumnType::Varchar, Value::Bytes(b"it's".to_vec()));
        check(&Expr::compare(CompareOp::Ne, Expr::Column(1), text), "#1 <> 'it''s'");
        let one = || literal(ColumnType::Int8, Value::Integer(1));
        let none = literal(ColumnType::Int8, Value::Null);
        let list = vec![one(), none];
        check(&Expr::InList { expr: column(), list, negated: true }, "a NOT IN (1, NULL)");
        let like = |negated, case_insensitive| Expr::Like {
            expr: column(),
            pattern: "x%".to_owned(),
            negated,
            case_insensitive,
        };
        check(&like(false, true), "a ILIKE 'x%'");
        check(&like(true, false), "a NOT LIKE 'x%'");
        let cast = Expr::Cast { expr: column(), to: ColumnType::Float64, is_try: true };
        let branches = vec![(Expr::IsNull(column()), one())];
        check(&Expr::Case { branches, otherwise: None }, "CASE WHEN a IS NULL THEN 1 END");
        check(&Expr::Negate(Box::new(cast)), "(- TRY_CAST(a AS DOUBLE))");
        check(&Expr::And(vec![]), "true");
        check(&Expr::Or(vec![]), "false");
        let blob = literal(ColumnType::Binary, Value::Bytes(vec![0, 0xAB]));
        check(&blob, "X'00ab'");
    }
}
