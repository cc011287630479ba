//! Parts of an expression that are hidden from rules: each is an argument of a function that no
//! rule knows, until it is shown again.
//!
//! - The function has the type and the name of the part, so that the columns of a plan keep theirs.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::expr::{Case, ScalarFunction};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};

/// The kinds of hidden parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    /// A part that rules do not compare with others, or look into.
    Separate,
    /// A part that is taken for nullable.
    MayBeNull,
    /// A constant that rules do not know.
    Constant,
    /// A boolean CASE; the arguments are its conditions and values in turn, and that of ELSE.
    Case { has_else: bool, is_nullable: bool },
}

/// Hides a part.
pub(super) fn hide(part: &mut Expr, kind: Kind) {
    *part = hidden(kind, vec![std::mem::take(part)]);
}

/// Hides a CASE without an operand.
pub(super) fn hidden_case(case: Case, is_nullable: bool) -> Expr {
    let kind = Kind::Case { has_else: case.else_expr.is_some(), is_nullable };
    let pairs = case.when_then_expr.into_iter().flat_map(|(when, then)| [*when, *then]);
    hidden(kind, pairs.chain(case.else_expr.map(|it| *it)).collect())
}

pub(super) fn is_hidden(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarFunction(call) if call.func.inner().is::<Hidden>())
}

/// Returns the part that an expression hides, and any other expression as it is.
pub(super) fn shown(expr: Expr) -> Result<Expr> {
    let Expr::ScalarFunction(ScalarFunction { func, mut args }) = expr else { return Ok(expr) };
    let Some(kind) = func.inner().downcast_ref::<Hidden>().map(|it| it.kind) else {
        return Ok(Expr::ScalarFunction(ScalarFunction { func, args }));
    };
    match kind {
        Kind::Case { has_else, .. } => Ok(shown_case(args, has_else)),
        Kind::Separate | Kind::MayBeNull | Kind::Constant => match args.pop() {
            Some(part) => Ok(part),
            None => internal_err!("`{}` hides nothing", func.name()),
        },
    }
}

/// Returns the one part that an expression hides, if it does.
pub(super) fn inside(expr: &Expr) -> Option<&Expr> {
    match expr {
        Expr::ScalarFunction(call) if call.func.inner().is::<Hidden>() => match &call.args[..] {
            [part] => Some(part),
            _ => None,
        },
        _ => None,
    }
}

fn hidden(kind: Kind, parts: Vec<Expr>) -> Expr {
    let volatility = match kind {
        Kind::Separate | Kind::MayBeNull => Volatility::Immutable,
        // The function of constants would be replaced by its value.
        Kind::Constant | Kind::Case { .. } => Volatility::Volatile,
    };
    let signature = Signature::any(parts.len(), volatility);
    let function = Arc::new(ScalarUDF::new_from_impl(Hidden { kind, signature }));
    Expr::ScalarFunction(ScalarFunction::new_udf(function, parts))
}

fn shown_case(mut parts: Vec<Expr>, has_else: bool) -> Expr {
    let else_expr = if has_else { parts.pop().map(Box::new) } else { None };
    let mut parts = parts.into_iter();
    let mut when_then_expr = Vec::new();
    while let (Some(when), Some(then)) = (parts.next(), parts.next()) {
        when_then_expr.push((Box::new(when), Box::new(then)));
    }
    Expr::Case(Case { expr: None, when_then_expr, else_expr })
}

/// The function that stands for a part.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Hidden {
    kind: Kind,
    signature: Signature,
}

impl ScalarUDFImpl for Hidden {
    fn name(&self) -> &'static str {
        "hidden part"
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        match (self.kind, args) {
            (Kind::Case { has_else, .. }, args) => {
                Ok(shown_case(args.to_vec(), has_else).schema_name().to_string())
            }
            (_, [part]) => Ok(part.schema_name().to_string()),
            _ => internal_err!("`{}` has one argument", self.name()),
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, args: &[DataType]) -> Result<DataType> {
        Ok(match self.kind {
            Kind::Case { .. } => DataType::Boolean,
            _ => args[0].clone(),
        })
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let field = &args.arg_fields[0];
        Ok(match self.kind {
            Kind::Case { is_nullable, .. } => {
                Arc::new(Field::new(self.name(), DataType::Boolean, is_nullable))
            }
            Kind::MayBeNull => Arc::new(field.as_ref().clone().with_nullable(true)),
            Kind::Separate | Kind::Constant => Arc::clone(field),
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match self.kind {
            Kind::Separate | Kind::MayBeNull | Kind::Constant => Ok(args.args[0].clone()),
            Kind::Case { .. } => internal_err!("a hidden CASE is shown before it is evaluated"),
        }
    }
}
