//! Signatures of functions and operators, from which open parameters get their types.
//!
//! - signatures-1. Each line of `signatures.txt` is a name and the types of its arguments: those of
//!   PostgreSQL 15, without the types that no value has here, and those of QuestDB's functions. Of
//!   these, `any` stands for each type, `common` for one type of all such arguments, and `list` for
//!   lists.
//! - signatures-2. Among them, one is chosen as in PostgreSQL ("Type Conversion", 10.2 and 10.3): a
//!   parameter, a text constant and NULL have no type yet, and a constant that fits is an INT.
//!
//! A TIMESTAMP is the preferred type of times: there are none with a time zone.
//!
//! Not here: types that follow from comparisons, casts, and columns that store a value
//! (`plan::describe`).

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use datafusion::arrow::datatypes::{DataType, Field, FieldRef, IntervalUnit, TimeUnit};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::logical_expr::expr::Placeholder;
use datafusion::logical_expr::{Expr, ExprSchemable};
use tidegate_storage::segment::arrow_type;

use crate::types::decimals::ANY_DIGITS;

/// The kind of an argument's type, of those that are told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Boolean,
    Int2,
    Int4,
    Int8,
    Float4,
    Float8,
    Numeric,
    Text,
    Bytes,
    Date,
    Time,
    Timestamp,
    Interval,
    List,
    Other,
}

/// The type of an argument in a signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Slot {
    Of(Kind),
    Any,
    Common,
}

/// The types of a call's arguments.
pub(crate) type Signature = &'static [Slot];

/// The result of looking for the signature of a call.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Resolution {
    One(Signature),
    /// Several signatures are as good as each other.
    Ambiguous,
    /// There is none, or none that takes the arguments.
    None,
}

static SIGNATURES: LazyLock<HashMap<&'static str, Vec<Vec<Slot>>>> = LazyLock::new(|| {
    let mut signatures = HashMap::<&str, Vec<Vec<Slot>>>::new();
    for line in include_str!("signatures.txt").lines() {
        let mut words = line.split(' ');
        let name = words.next().expect("a line begins with a name");
        signatures.entry(name).or_default().push(words.map(Slot::parse).collect());
    }
    signatures
});

/// Returns the signature of a call of a function or an operator; `None` is an argument without a
/// type (signatures-2).
pub(crate) fn resolve(name: &str, args: &[Option<Kind>]) -> Resolution {
    let all = SIGNATURES.get(name).map(Vec::as_slice).unwrap_or_default();
    let takes = |signature: &&Vec<Slot>| {
        let mut pairs = signature.iter().zip(args);
        signature.len() == args.len()
            && pairs.all(|(slot, arg)| arg.is_none_or(|kind| slot.takes(kind)))
    };
    let mut left = all.iter().filter(takes).map(Vec::as_slice).collect::<Vec<Signature>>();
    if !name.starts_with(|first: char| first.is_ascii_alphabetic())
        && let [Some(kind), None] | [None, Some(kind)] = args
        && let Some(same) = same_types(&left, *kind)
    {
        // An operator's operand without a type has that of the other, if there is such an operator.
        return Resolution::One(same);
    }
    let exact = |slot: Slot, kind: Kind| slot == Slot::Of(kind);
    keep_best(&mut left, args, exact);
    keep_best(&mut left, args, |slot, kind| exact(slot, kind) || slot.is_preferred_for(kind));
    if 1 < left.len() {
        keep_category(&mut left, args);
    }
    if 1 < left.len() {
        keep_same(&mut left, args);
    }
    match left.as_slice() {
        [] => Resolution::None,
        &[one] => Resolution::One(one),
        _ => Resolution::Ambiguous,
    }
}

/// Returns the signature with this type for all arguments.
fn same_types(signatures: &[Signature], kind: Kind) -> Option<Signature> {
    let is_it = |signature: &Signature| signature.iter().all(|slot| *slot == Slot::Of(kind));
    signatures.iter().copied().find(is_it)
}

/// Keeps the signatures with the most arguments of known types that match.
fn keep_best(
    left: &mut Vec<Signature>,
    args: &[Option<Kind>],
    matches: impl Fn(Slot, Kind) -> bool,
) {
    let count = |signature: &Signature| {
        let pairs = signature.iter().zip(args);
        pairs.filter(|(slot, arg)| arg.is_some_and(|kind| matches(**slot, kind))).count()
    };
    let most = left.iter().map(count).max().unwrap_or(0);
    left.retain(|signature| count(signature) == most);
}

/// Keeps the signatures whose types, at the places of arguments without one, are of the category
/// that all have there, or texts; and among these the preferred type of the category.
fn keep_category(left: &mut Vec<Signature>, args: &[Option<Kind>]) {
    let mut kept = left.clone();
    for (at, _) in args.iter().enumerate().filter(|(_, arg)| arg.is_none()) {
        let mut categories = left.iter().map(|it| it[at].category());
        let Some(first) = categories.next() else { return };
        let category = match left.iter().any(|it| it[at].category() == Category::Text) {
            true => Category::Text,
            false if categories.all(|it| it == first) => first,
            false => return,
        };
        let is_preferred = |it: &Signature| it[at].is_preferred() && it[at].category() == category;
        let has_preferred = left.iter().any(is_preferred);
        kept.retain(|it| it[at].category() == category && (!has_preferred || is_preferred(it)));
    }
    if !kept.is_empty() {
        *left = kept;
    }
}

/// Keeps the one signature that takes the type of all known arguments at the other places too.
fn keep_same(left: &mut Vec<Signature>, args: &[Option<Kind>]) {
    let mut known = args.iter().flatten();
    let Some(kind) = known.next() else { return };
    if !known.all(|other| other == kind) {
        return;
    }
    let takes =
        |it: &&Signature| it.iter().zip(args).all(|(slot, arg)| arg.is_some() || slot.takes(*kind));
    let mut taking = left.iter().filter(takes);
    if let (Some(one), None) = (taking.next(), taking.next()) {
        *left = vec![*one];
    }
}

/// Returns the open parameters among the arguments of a call, with the types that its signature
/// gives them.
pub(crate) fn open_parameters(
    name: &str,
    args: &[Expr],
    schema: &DFSchema,
) -> Vec<(String, FieldRef)> {
    if !SIGNATURES.contains_key(name) || !args.iter().any(is_open) {
        return Vec::new();
    }
    let kinds = args.iter().map(|arg| kind_in(arg, schema)).collect::<Vec<_>>();
    let Resolution::One(signature) = resolve(name, &kinds) else { return Vec::new() };
    let mut common = None;
    for ((slot, kind), arg) in signature.iter().zip(&kinds).zip(args) {
        if *slot == Slot::Common && kind.is_some() && common.is_none() {
            common = arg.to_field(schema).ok().map(|(_, field)| field);
        }
    }
    let of = |(slot, arg): (&Slot, &Expr)| {
        let Expr::Placeholder(Placeholder { id, field: None }) = arg else { return None };
        let field = match slot {
            Slot::Of(kind) => kind.field(),
            Slot::Common => common.clone(),
            Slot::Any => None,
        };
        field.map(|field| (id.clone(), field))
    };
    signature.iter().zip(args).filter_map(of).collect()
}

/// Returns true for a parameter without a type.
pub(crate) fn is_open(expr: &Expr) -> bool {
    matches!(expr, Expr::Placeholder(Placeholder { field: None, .. }))
}

/// Returns the kind of an expression's type; `None` if it has none yet (signatures-2).
pub(crate) fn kind_in(expr: &Expr, schema: &DFSchema) -> Option<Kind> {
    match expr {
        Expr::Literal(value, _) if value.is_null() || value.try_as_str().is_some() => None,
        Expr::Literal(ScalarValue::Int64(Some(value)), _) if i32::try_from(*value).is_ok() => {
            Some(Kind::Int4)
        }
        expr if is_open(expr) => None,
        expr => match expr.get_type(schema) {
            Ok(DataType::Null) => None,
            Ok(ty) => Some(Kind::of(&ty)),
            Err(_) => Some(Kind::Other),
        },
    }
}

/// The categories of types in PostgreSQL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Category {
    Boolean,
    Number,
    Text,
    Time,
    Interval,
    Bytes,
    List,
    Pseudo,
}

impl Kind {
    pub(crate) fn of(ty: &DataType) -> Kind {
        match ty {
            DataType::Boolean => Kind::Boolean,
            DataType::Int8 | DataType::Int16 | DataType::UInt8 => Kind::Int2,
            DataType::Int32 | DataType::UInt16 => Kind::Int4,
            DataType::Int64 | DataType::UInt32 => Kind::Int8,
            DataType::Float16 | DataType::Float32 => Kind::Float4,
            DataType::Float64 => Kind::Float8,
            DataType::UInt64 | DataType::Decimal128(..) | DataType::Decimal256(..) => Kind::Numeric,
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Kind::Text,
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView => Kind::Bytes,
            DataType::Date32 | DataType::Date64 => Kind::Date,
            DataType::Time32(_) | DataType::Time64(_) => Kind::Time,
            DataType::Timestamp(..) => Kind::Timestamp,
            DataType::Interval(_) | DataType::Duration(_) => Kind::Interval,
            DataType::List(_) | DataType::LargeList(_) => Kind::List,
            DataType::Dictionary(_, values) => Kind::of(values),
            _ => Kind::Other,
        }
    }

    /// Returns a field of this type; `None` for kinds of several types.
    pub(crate) fn field(self) -> Option<FieldRef> {
        let ty = match self {
            Kind::Boolean => DataType::Boolean,
            Kind::Int2 => DataType::Int16,
            Kind::Int4 => DataType::Int32,
            Kind::Int8 => DataType::Int64,
            Kind::Float4 => DataType::Float32,
            Kind::Float8 => DataType::Float64,
            Kind::Numeric => arrow_type(ANY_DIGITS),
            Kind::Text => DataType::Utf8View,
            Kind::Bytes => DataType::BinaryView,
            Kind::Date => DataType::Date32,
            Kind::Time => DataType::Time64(TimeUnit::Nanosecond),
            Kind::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, None),
            Kind::Interval => DataType::Interval(IntervalUnit::MonthDayNano),
            Kind::List | Kind::Other => return None,
        };
        Some(Arc::new(Field::new("", ty, true)))
    }

    /// Returns true if values become those of another type without a cast.
    fn becomes(self, to: Kind) -> bool {
        const NUMBERS: [Kind; 6] =
            [Kind::Int2, Kind::Int4, Kind::Int8, Kind::Numeric, Kind::Float4, Kind::Float8];
        let place = |kind| NUMBERS.iter().position(|it| *it == kind);
        match (place(self), place(to)) {
            (Some(from), Some(to)) => from <= to,
            _ => {
                self == to
                    || matches!(
                        (self, to),
                        (Kind::Date, Kind::Timestamp) | (Kind::Time, Kind::Interval)
                    )
            }
        }
    }

    fn category(self) -> Category {
        match self {
            Kind::Boolean => Category::Boolean,
            Kind::Int2 | Kind::Int4 | Kind::Int8 => Category::Number,
            Kind::Float4 | Kind::Float8 | Kind::Numeric => Category::Number,
            Kind::Text => Category::Text,
            Kind::Date | Kind::Time | Kind::Timestamp => Category::Time,
            Kind::Interval => Category::Interval,
            Kind::Bytes => Category::Bytes,
            Kind::List => Category::List,
            Kind::Other => Category::Pseudo,
        }
    }
}

impl Slot {
    fn parse(word: &str) -> Slot {
        Slot::Of(match word {
            "bool" => Kind::Boolean,
            "int2" => Kind::Int2,
            "int4" => Kind::Int4,
            "int8" => Kind::Int8,
            "float4" => Kind::Float4,
            "float8" => Kind::Float8,
            "numeric" => Kind::Numeric,
            "text" => Kind::Text,
            "bytea" => Kind::Bytes,
            "date" => Kind::Date,
            "time" => Kind::Time,
            "timestamp" => Kind::Timestamp,
            "interval" => Kind::Interval,
            "list" => Kind::List,
            "any" => return Slot::Any,
            "common" => return Slot::Common,
            _ => unreachable!("signatures.txt has a type `{word}`"),
        })
    }

    fn takes(self, kind: Kind) -> bool {
        match self {
            Slot::Of(own) => kind.becomes(own),
            Slot::Any | Slot::Common => true,
        }
    }

    fn category(self) -> Category {
        match self {
            Slot::Of(kind) => kind.category(),
            Slot::Any | Slot::Common => Category::Pseudo,
        }
    }

    fn is_preferred(self) -> bool {
        let preferred = [Kind::Boolean, Kind::Float8, Kind::Text, Kind::Timestamp, Kind::Interval];
        matches!(self, Slot::Of(kind) if preferred.contains(&kind))
    }

    fn is_preferred_for(self, kind: Kind) -> bool {
        self.is_preferred() && self.category() == kind.category()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::sources::LISTED;

    const TS: Option<Kind> = Some(Kind::Timestamp);
    const DAY: Option<Kind> = Some(Kind::Date);
    const LENGTH: Option<Kind> = Some(Kind::Interval);
    const INT: Option<Kind> = Some(Kind::Int4);
    const BIGINT: Option<Kind> = Some(Kind::Int8);
    const NUMBER: Option<Kind> = Some(Kind::Numeric);
    const DOUBLE: Option<Kind> = Some(Kind::Float8);
    const TEXT: Option<Kind> = Some(Kind::Text);

    /// Checks the types of all arguments; none if PostgreSQL says that they are not unique.
    #[track_caller]
    fn check(name: &str, args: &[Option<Kind>], expected: &[Kind]) {
        let found = match resolve(name, args) {
            Resolution::One(signature) => signature.to_vec(),
            Resolution::Ambiguous => Vec::new(),
            Resolution::None => panic!("{name}: no signature takes {args:?}"),
        };
        let expected = expected.iter().map(|kind| Slot::Of(*kind)).collect::<Vec<_>>();
        assert_eq!(found, expected, "signatures-2: {name} {args:?}");
    }

    // As PostgreSQL 15 describes them.
    #[test]
    fn calls_have_the_signatures_of_postgresql() {
        use Kind::{Bytes, Date, Float8, Int4, Int8, Interval, Numeric, Text, Timestamp};
        for (op, args, expected) in [
            ("+", [TS, None], &[Timestamp, Interval][..]),
            ("+", [None, TS], &[Interval, Timestamp]),
            ("-", [TS, None], &[Timestamp, Timestamp]),
            ("+", [DAY, None], &[]),
            ("-", [DAY, None], &[Date, Date]),
            ("+", [LENGTH, None], &[Interval, Interval]),
            ("*", [LENGTH, None], &[Interval, Float8]),
            ("*", [None, LENGTH], &[Float8, Interval]),
            ("/", [LENGTH, None], &[Interval, Float8]),
            ("+", [INT, None], &[Int4, Int4]),
            ("*", [NUMBER, None], &[Numeric, Numeric]),
            ("<<", [BIGINT, None], &[Int8, Int4]),
            ("+", [None, None], &[]),
        ] {
            check(op, &args, expected);
        }
        check("round", &[None, INT], &[Numeric, Int4]);
        check("round", &[None], &[Float8]);
        check("power", &[None, INT], &[Float8, Float8]);
        check("power", &[NUMBER, None], &[Numeric, Numeric]);
        check("mod", &[BIGINT, None], &[Int8, Int8]);
        check("width_bucket", &[DOUBLE, None, None, None], &[Float8, Float8, Float8, Int4]);
        check("length", &[None], &[Text]);
        check("encode", &[None, None], &[Bytes, Text]);
        check("substr", &[TEXT, None, None], &[Text, Int4, Int4]);
        check("to_timestamp", &[None], &[Float8]);
        check("to_timestamp", &[None, None], &[Text, Text]);
        check("to_char", &[None, None], &[]);
        check("date_trunc", &[None, None], &[]);
        check("date_trunc", &[None, TS], &[Text, Timestamp]);
        check("date_trunc", &[None, None, None], &[Text, Timestamp, Text]);
        check("generate_series", &[INT, None], &[Int4, Int4]);
        check("generate_series", &[TS, None, None], &[Timestamp, Timestamp, Interval]);
        check("generate_series", &[None, None, None], &[]);
    }

    #[test]
    fn every_signature_is_that_of_a_function_or_operator() {
        for name in SIGNATURES.keys().filter(|name| name.starts_with(char::is_alphabetic)) {
            assert!(LISTED.iter().any(|it| it.name == *name), "signatures-1: {name}");
        }
        let lines = include_str!("signatures.txt").lines();
        assert!(lines.is_sorted(), "signatures-1");
    }
}
