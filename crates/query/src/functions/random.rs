//! Random values for test data, as in QuestDB: `rnd_int`, `rnd_double`, `rnd_symbol`, `rnd_str`,
//! `rnd_timestamp` and similar functions.
//!
//! - random-1. Bounds are constants and inclusive; with a null rate of n one value in n is NULL,
//!   with 0 none.
//! - random-2. Each call of a statement has a seed of its own, and each batch another part of its
//!   sequence: two calls with the same arguments differ.
//! - Texts consist of the letters A to Z, at most `TEXT_MAX` of them.

use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use datafusion::arrow::array::{
    ArrayRef, BooleanArray, Float64Array, Int64Array, StringViewBuilder,
};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature,
    Volatility,
};

use tidegate_model::ColumnType;

use crate::error::ClauseProblem;
use crate::types::literal::value_of_text;

/// The maximal number of letters of a text: `repeat` makes longer ones.
pub(super) const TEXT_MAX: i64 = 10_000;
/// Steps of a sequence for each row: more than a row has values.
const STEPS_PER_ROW: u64 = 1 << 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Boolean,
    Byte,
    Short,
    Int,
    Long,
    Float,
    Double,
    Char,
    /// One of the given texts, or of a number of generated ones.
    Symbol,
    Text,
    Timestamp,
    Date,
}

const FUNCTIONS: [(&str, Kind); 13] = [
    ("rnd_boolean", Kind::Boolean),
    ("rnd_byte", Kind::Byte),
    ("rnd_short", Kind::Short),
    ("rnd_int", Kind::Int),
    ("rnd_long", Kind::Long),
    ("rnd_float", Kind::Float),
    ("rnd_double", Kind::Double),
    ("rnd_char", Kind::Char),
    ("rnd_symbol", Kind::Symbol),
    ("rnd_str", Kind::Text),
    ("rnd_varchar", Kind::Text),
    ("rnd_timestamp", Kind::Timestamp),
    ("rnd_date", Kind::Date),
];

/// Returns their names.
pub(crate) fn random_functions() -> impl Iterator<Item = &'static str> {
    FUNCTIONS.iter().map(|(name, _)| *name)
}

/// The number of calls so far (random-2).
static CALLS: AtomicU64 = AtomicU64::new(0);

/// Returns one of them, for one call in a query that is planned at this time.
pub(crate) fn random_function(name: &str, now: i64) -> Option<Arc<ScalarUDF>> {
    let (name, kind) = FUNCTIONS.iter().find(|(known, _)| *known == name)?;
    let call = CALLS.fetch_add(1, Ordering::Relaxed);
    let seed = mixed(now.cast_unsigned() ^ mixed(call));
    let signature = Signature::variadic_any(Volatility::Volatile);
    let signature = match kind {
        Kind::Boolean | Kind::Char => Signature::nullary(Volatility::Volatile),
        Kind::Symbol | Kind::Text | Kind::Timestamp | Kind::Date => signature,
        _ => Signature::one_of(
            vec![TypeSignature::Nullary, TypeSignature::VariadicAny],
            Volatility::Volatile,
        ),
    };
    let done = AtomicU64::new(0);
    Some(Arc::new(ScalarUDF::new_from_impl(Random { name, kind: *kind, seed, done, signature })))
}

#[derive(Debug)]
struct Random {
    name: &'static str,
    kind: Kind,
    seed: u64,
    /// The number of rows that have their values.
    done: AtomicU64,
    signature: Signature,
}

impl PartialEq for Random {
    fn eq(&self, other: &Random) -> bool {
        (self.name, self.seed) == (other.name, other.seed)
    }
}

impl Eq for Random {}

impl Hash for Random {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.name, self.seed).hash(state);
    }
}

fn micros() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, None)
}

impl ScalarUDFImpl for Random {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(match self.kind {
            Kind::Boolean => DataType::Boolean,
            Kind::Byte => DataType::Int8,
            Kind::Short => DataType::Int16,
            Kind::Int => DataType::Int32,
            Kind::Long => DataType::Int64,
            Kind::Float => DataType::Float32,
            Kind::Double => DataType::Float64,
            Kind::Char | Kind::Symbol | Kind::Text => DataType::Utf8View,
            Kind::Timestamp | Kind::Date => micros(),
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let constant = |arg: &ColumnarValue| match arg {
            ColumnarValue::Scalar(value) => Ok(value.clone()),
            ColumnarValue::Array(_) => plan_err!("the arguments of {} are constants", self.name),
        };
        let given = args.args.iter().map(constant).collect::<Result<Vec<_>>>()?;
        let rows = args.number_rows;
        let first = self.done.fetch_add(rows as u64, Ordering::Relaxed);
        let chance = |row: usize| {
            Chance(mixed(self.seed ^ mixed((first + row as u64).wrapping_mul(STEPS_PER_ROW))))
        };
        let ty = args.return_field.data_type();
        let values: ArrayRef = match self.kind {
            Kind::Boolean => Arc::new(
                (0..rows).map(|row| Some(chance(row).below(2) == 1)).collect::<BooleanArray>(),
            ),
            Kind::Byte | Kind::Short | Kind::Int | Kind::Long => {
                let Bounds { low, high, rate } = self.bounds(&given, &DataType::Int64)?;
                let value = |row| chance(row).or_null(rate, |it| it.between(low, high));
                Arc::new((0..rows).map(value).collect::<Int64Array>())
            }
            Kind::Timestamp | Kind::Date => {
                let Bounds { low, high, rate } = self.bounds(&given, &micros())?;
                let value = |row| chance(row).or_null(rate, |it| it.between(low, high));
                Arc::new((0..rows).map(value).collect::<Int64Array>())
            }
            Kind::Float | Kind::Double => {
                let rate = match given.as_slice() {
                    [] => 0,
                    [rate] => self.rate(rate)?,
                    _ => return plan_err!("{} takes a null rate", self.name),
                };
                let value = |row| chance(row).or_null(rate, Chance::part);
                Arc::new((0..rows).map(value).collect::<Float64Array>())
            }
            Kind::Char | Kind::Symbol | Kind::Text => {
                let texts = self.texts(&given)?;
                let mut builder = StringViewBuilder::with_capacity(rows);
                (0..rows).for_each(|row| builder.append_option(texts.one(chance(row), self.seed)));
                Arc::new(builder.finish())
            }
        };
        Ok(ColumnarValue::Array(cast(&values, ty)?))
    }
}

/// The least and the greatest value, and the null rate.
struct Bounds {
    low: i64,
    high: i64,
    rate: u64,
}

impl Random {
    fn refused<T>(&self, value: String, what: &'static str) -> Result<T> {
        Err(ClauseProblem::ArgumentValue { function: self.name.to_owned(), value, what }.into())
    }

    fn integer(&self, value: &ScalarValue, ty: &DataType) -> Result<i64> {
        let micros = ColumnType::Timestamp(tidegate_model::TimeUnit::Micros);
        let value = match value.try_as_str().flatten() {
            Some(text) if ty.is_temporal() => match value_of_text(text, micros) {
                Some(Ok(value)) => value,
                _ => return self.refused(format!("'{text}'"), "its bounds are times"),
            },
            _ => value.cast_to(ty)?,
        };
        match value.cast_to(&DataType::Int64)? {
            ScalarValue::Int64(Some(value)) => Ok(value),
            _ => self.refused("NULL".to_owned(), "its arguments are values"),
        }
    }

    fn rate(&self, value: &ScalarValue) -> Result<u64> {
        let rate = self.integer(value, &DataType::Int64)?;
        match u64::try_from(rate) {
            Ok(rate) => Ok(rate),
            Err(_) => {
                self.refused(rate.to_string(), "one value in so many is NULL, and for 0 none")
            }
        }
    }

    fn bounds(&self, given: &[ScalarValue], ty: &DataType) -> Result<Bounds> {
        let (least, most) = match self.kind {
            Kind::Byte => (i8::MIN.into(), i8::MAX.into()),
            Kind::Short => (i16::MIN.into(), i16::MAX.into()),
            Kind::Int => (i32::MIN.into(), i32::MAX.into()),
            _ => (i64::MIN, i64::MAX),
        };
        let (low, high, rate) = match given {
            [] => return Ok(Bounds { low: least, high: most, rate: 0 }),
            [low, high] => (low, high, None),
            [low, high, rate] => (low, high, Some(rate)),
            _ => return plan_err!("{} takes two bounds and perhaps a null rate", self.name),
        };
        let (low, high) = (self.integer(low, ty)?, self.integer(high, ty)?);
        if high < low || low < least || most < high {
            let what = "the first bound is not above the second, and both are of its type";
            return self.refused(format!("{low} to {high}"), what);
        }
        let rate = rate.map_or(Ok(0), |rate| self.rate(rate))?;
        Ok(Bounds { low, high, rate })
    }

    fn texts(&self, given: &[ScalarValue]) -> Result<Texts> {
        if self.kind == Kind::Char {
            return Ok(Texts::Made { pool: None, least: 1, most: 1, rate: 0 });
        }
        if given.first().is_some_and(|first| first.try_as_str().is_some()) {
            let text = |value: &ScalarValue| match value.is_null() {
                true => Some(None),
                false => value.try_as_str().map(|it| it.map(str::to_owned)),
            };
            let texts = given.iter().map(text).collect::<Option<Vec<_>>>();
            return match texts {
                Some(texts) => Ok(Texts::Given(texts)),
                None => plan_err!("{} takes texts, or lengths and a null rate", self.name),
            };
        }
        let numbers = given.iter().map(|it| self.integer(it, &DataType::Int64));
        let (pool, least, most, rate) = match numbers.collect::<Result<Vec<_>>>()?[..] {
            [pool, least, most, rate] => (Some(pool), least, most, rate),
            [least, most, rate] if self.kind == Kind::Text => (None, least, most, rate),
            _ => return plan_err!("{} takes texts, or lengths and a null rate", self.name),
        };
        let pool = pool.map(u64::try_from).transpose().ok();
        let is_fine = 0 <= least && least <= most && most <= TEXT_MAX && pool != Some(Some(0));
        let (Some(pool), true, Ok(rate)) = (pool, is_fine, u64::try_from(rate)) else {
            let what = "lengths are 0 to 10000, and the count 1 or more";
            return self.refused(format!("lengths of {least} to {most}"), what);
        };
        Ok(Texts::Made { pool, least, most, rate })
    }
}

/// The texts of a call.
enum Texts {
    Given(Vec<Option<String>>),
    Made { pool: Option<u64>, least: i64, most: i64, rate: u64 },
}

impl Texts {
    fn one(&self, mut chance: Chance, seed: u64) -> Option<String> {
        match self {
            Texts::Given(texts) => {
                let at = usize::try_from(chance.below(texts.len() as u64)).unwrap_or(0);
                texts.get(at).cloned().flatten()
            }
            Texts::Made { pool, least, most, rate } => chance.or_null(*rate, |chance| {
                // A number of the pool always has the same text.
                let mut letters = match pool {
                    Some(pool) => Chance(mixed(seed ^ mixed(chance.below(*pool)))),
                    None => Chance(chance.next()),
                };
                let length = letters.between(*least, *most);
                (0..length).map(|_| char::from(b'A' + letters.letter())).collect()
            }),
        }
    }
}

/// A sequence of random numbers: splitmix64.
#[derive(Debug, Clone, Copy)]
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mixed(self.0)
    }

    /// Returns a number below a bound that is not 0.
    fn below(&mut self, bound: u64) -> u64 {
        let wide = u128::from(self.next()) * u128::from(bound);
        u64::try_from(wide >> 64).expect("it is below the bound")
    }

    fn between(&mut self, low: i64, high: i64) -> i64 {
        match high.wrapping_sub(low).cast_unsigned().checked_add(1) {
            Some(count) => low.wrapping_add(self.below(count).cast_signed()),
            None => self.next().cast_signed(),
        }
    }

    fn letter(&mut self) -> u8 {
        u8::try_from(self.below(26)).expect("it is below 26")
    }

    /// Returns a number from 0 to below 1.
    fn part(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn or_null<T>(mut self, rate: u64, value: impl FnOnce(&mut Chance) -> T) -> Option<T> {
        let is_null = rate != 0 && self.below(rate) == 0;
        (!is_null).then(|| value(&mut self))
    }
}

fn mixed(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_within_their_bounds() {
        let mut chance = Chance(7);
        for _ in 0..1_000 {
            assert!((3..=5).contains(&chance.between(3, 5)), "random-1");
            assert!((0.0..1.0).contains(&chance.part()), "random-1");
        }
        chance.between(i64::MIN, i64::MAX);
        let nulls = (0..1_000).filter(|_| Chance(chance.next()).or_null(4, |_| ()).is_none());
        assert!((150..350).contains(&nulls.count()), "random-1");
    }

    #[test]
    fn calls_and_batches_differ() {
        let (a, b) = (random_function("rnd_long", 1), random_function("rnd_long", 1));
        assert_ne!(a, b, "random-2");
    }
}
