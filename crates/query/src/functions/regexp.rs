//! Functions of regular expressions: `regexp_replace`, `regexp_match`, `regexp_count` and similar
//! functions.
//!
//! - They have the arguments, flags and references of PostgreSQL 15, and its meaning of `.`, which
//!   matches the end of a line too. Patterns are those of the `regex` crate: the first alternative
//!   that matches is taken, not the longest, and `\b` is a word boundary.
//! - regexp-1. Between two matches in a long text they check for cancellation: each may take as
//!   long as the text is (regex-1 bounds one of them).
//!
//! Not here: the operators `~` and `~*`, whose patterns `pattern_text` makes (`query_text::forms`).

mod compiled;

use std::sync::Arc;

use Argument::{Either, Integer, Text};
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Int64Array, Int64Builder, ListBuilder, StringViewArray,
    StringViewBuilder,
};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, Int64Type};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use regex::CaptureLocations;
use tidegate_model::limits::PATTERNS_AT_A_TIME;

use crate::error::ClauseProblem;
use crate::types::call_values::call_values;
use compiled::Compiled;

pub(super) use compiled::posix_class;
pub(crate) use compiled::{pattern_text, regex_of};

/// The type of an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Argument {
    Text,
    Integer,
    /// The fourth argument of `regexp_replace`: flags, or a start.
    Either,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Replace,
    Match,
    Matches,
    Count,
    Instr,
    Like,
    Substr,
    Split,
}

const FUNCTIONS: [(&str, Kind, usize, &[Argument]); 8] = [
    ("regexp_replace", Kind::Replace, 3, &[Text, Text, Text, Either, Integer, Text]),
    ("regexp_match", Kind::Match, 2, &[Text, Text, Text]),
    ("regexp_matches", Kind::Matches, 2, &[Text, Text, Text]),
    ("regexp_count", Kind::Count, 2, &[Text, Text, Integer, Text]),
    ("regexp_instr", Kind::Instr, 2, &[Text, Text, Integer, Integer, Integer, Text, Integer]),
    ("regexp_like", Kind::Like, 2, &[Text, Text, Text]),
    ("regexp_substr", Kind::Substr, 2, &[Text, Text, Integer, Integer, Text, Integer]),
    ("regexp_split_to_array", Kind::Split, 2, &[Text, Text, Text]),
];

/// Returns all functions.
pub(crate) fn regexp_functions() -> Vec<ScalarUDF> {
    let function = |&(name, kind, least, arguments): &(_, _, _, &'static [Argument])| {
        let signature = Signature::user_defined(Volatility::Immutable);
        ScalarUDF::new_from_impl(Regexp { name, kind, least, arguments, signature })
    };
    FUNCTIONS.iter().map(function).collect()
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Regexp {
    name: &'static str,
    kind: Kind,
    /// The minimal number of arguments.
    least: usize,
    arguments: &'static [Argument],
    signature: Signature,
}

fn item() -> Arc<Field> {
    Arc::new(Field::new_list_field(DataType::Utf8View, true))
}

impl ScalarUDFImpl for Regexp {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, args: &[DataType]) -> Result<Vec<DataType>> {
        if args.len() < self.least || self.arguments.len() < args.len() {
            let (least, most) = (self.least, self.arguments.len());
            return plan_err!("{} takes {least} to {most} arguments", self.name);
        }
        let is_text = |ty: &DataType| {
            let value = if let DataType::Dictionary(_, value) = ty { value } else { ty };
            value.is_string() || value.is_null()
        };
        let coerced = |(at, (ty, argument)): (usize, (&DataType, &Argument))| match argument {
            Text | Either if is_text(ty) => Ok(DataType::Utf8View),
            Integer | Either if ty.is_integer() || ty.is_null() => Ok(DataType::Int64),
            _ => plan_err!("{} does not take {ty} as its argument {}", self.name, at + 1),
        };
        args.iter().zip(self.arguments).enumerate().map(coerced).collect()
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(match self.kind {
            Kind::Replace | Kind::Substr => DataType::Utf8View,
            Kind::Match | Kind::Split => DataType::List(item()),
            Kind::Matches => {
                DataType::List(Arc::new(Field::new_list_field(DataType::List(item()), true)))
            }
            Kind::Count | Kind::Instr => DataType::Int64,
            Kind::Like => DataType::Boolean,
        })
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        call_values(&args.args, args.number_rows, |arrays, rows| {
            Rows::new(self.name, arrays, rows)?.values(self.kind)
        })
    }
}

/// Compiled patterns with their flags, at most `PATTERNS_AT_A_TIME`.
struct Known(Vec<(String, String, bool, Compiled)>);

/// The arguments of a call.
struct Rows {
    name: &'static str,
    count: usize,
    texts: StringViewArray,
    patterns: StringViewArray,
    others: Vec<ArrayRef>,
}

impl Rows {
    fn new(name: &'static str, arrays: &[ArrayRef], count: usize) -> Result<Rows> {
        let text = |array: &ArrayRef| -> Result<StringViewArray> {
            Ok(cast(array, &DataType::Utf8View)?.as_string_view().clone())
        };
        let [texts, patterns, others @ ..] = arrays else {
            return plan_err!("a regular expression has a text and a pattern");
        };
        let (texts, patterns) = (text(texts)?, text(patterns)?);
        Ok(Rows { name, count, texts, patterns, others: others.to_vec() })
    }

    fn is_null(&self, row: usize) -> bool {
        let is_null = |array: &ArrayRef| array.is_null(row);
        self.texts.is_null(row) || self.patterns.is_null(row) || self.others.iter().any(is_null)
    }

    /// Returns the text at this place among the arguments behind the pattern; an empty one if there
    /// is none.
    fn text(&self, at: usize, row: usize) -> &str {
        let array = self.others.get(at).filter(|it| *it.data_type() == DataType::Utf8View);
        array.map_or("", |array| array.as_string_view().value(row))
    }

    /// Returns the integer at this place, or `otherwise`.
    fn integer(&self, at: usize, row: usize, otherwise: i64) -> i64 {
        let array = self.others.get(at).filter(|it| *it.data_type() == DataType::Int64);
        array.map_or(otherwise, |array| array.as_primitive::<Int64Type>().value(row))
    }

    fn compiled<'k>(
        &self,
        known: &'k mut Known,
        row: usize,
        flags: &str,
        replacement: &str,
    ) -> Result<&'k mut Compiled> {
        let pattern = self.patterns.value(row);
        // One replacement alone has an algorithm of its own.
        let is_group = replacement == "\\1";
        let is_it = |it: &(String, String, bool, Compiled)| {
            is_same(&it.1, flags) && it.2 == is_group && it.0 == pattern
        };
        let at = match known.0.iter().position(is_it) {
            Some(at) => at,
            None => {
                if PATTERNS_AT_A_TIME <= known.0.len() {
                    known.0.clear();
                }
                let compiled = Compiled::new(self.name, pattern, flags, is_group)?;
                known.0.push((pattern.to_owned(), flags.to_owned(), is_group, compiled));
                known.0.len() - 1
            }
        };
        Ok(&mut known.0[at].3)
    }

    fn values(&self, kind: Kind) -> Result<ArrayRef> {
        let known = &mut Known(Vec::new());
        match kind {
            Kind::Replace => self.replaced(known),
            Kind::Match => self.matched(known),
            Kind::Matches => self.all_matched(known),
            Kind::Count => self.counted(known),
            Kind::Instr => self.positions(known),
            Kind::Like => self.like_matched(known),
            Kind::Substr => self.cut_out(known),
            Kind::Split => self.split(known),
        }
    }

    fn replaced(&self, known: &mut Known) -> Result<ArrayRef> {
        let mut builder = StringViewBuilder::with_capacity(self.count);
        let texts = &self.texts;
        let news = self.others.first().cloned().unwrap_or_else(|| Arc::new(texts.clone()));
        let news = news.as_string_view();
        let has_start = self.others.get(1).is_some_and(|it| *it.data_type() == DataType::Int64);
        let (mut parsed, mut made) = (None::<(&str, Vec<Piece<'_>>)>, String::new());
        for row in 0..self.count {
            if self.is_null(row) {
                builder.append_null();
                continue;
            }
            let (text, new) = (texts.value(row), news.value(row));
            let flags = self.text(if has_start { 3 } else { 1 }, row);
            let start = start(self.name, text, self.integer(1, row, 1))?;
            let wanted = non_negative(self.name, self.integer(2, row, 1))?;
            if parsed.as_ref().is_none_or(|(parsed, _)| *parsed != new) {
                parsed = Some((new, pieces(new)));
            }
            let pieces = parsed.as_ref().map_or(&[][..], |(_, pieces)| pieces);
            let compiled = self.compiled(known, row, flags, new)?;
            if compiled.is_cut {
                match compiled.regex.captures_read(&mut compiled.locations, text) {
                    Some(_) => {
                        let group = compiled.locations.get(1);
                        builder.append_value(group.map_or("", |(from, to)| &text[from..to]));
                    }
                    None => builder.append_value(text),
                }
                continue;
            }
            // With a start, only the match with this number is replaced; 0 stands for all.
            let is_all = if has_start { wanted == 0 } else { compiled.is_global };
            let (mut number, mut done) = (0, 0);
            made.clear();
            compiled.each(text, start, |locations, (from, to)| {
                number += 1;
                if !is_all && number < wanted {
                    return Ok(true);
                }
                made.push_str(&text[done..from]);
                pieces.iter().for_each(|piece| piece.push(text, locations, &mut made));
                done = to;
                Ok(is_all)
            })?;
            made.push_str(&text[done..]);
            builder.append_value(&made);
        }
        Ok(Arc::new(builder.finish()))
    }

    /// Returns a list for each row, to which `of_row` adds texts; NULL if that returns false.
    fn lists(
        &self,
        known: &mut Known,
        mut of_row: impl FnMut(&str, &mut Compiled, &mut StringViewBuilder) -> Result<bool>,
    ) -> Result<ArrayRef> {
        let mut builder = ListBuilder::new(StringViewBuilder::new()).with_field(item());
        for row in 0..self.count {
            if self.is_null(row) {
                builder.append(false);
                continue;
            }
            let compiled = self.compiled(known, row, self.text(0, row), "")?;
            let is_valid = of_row(self.texts.value(row), compiled, builder.values())?;
            builder.append(is_valid);
        }
        Ok(Arc::new(builder.finish()))
    }

    fn matched(&self, known: &mut Known) -> Result<ArrayRef> {
        self.lists(known, |text, compiled, groups| {
            if compiled.is_global {
                return plan_err!(
                    "{} does not take the flag g: regexp_matches gives them all",
                    self.name
                );
            }
            let found = compiled.regex.captures_read(&mut compiled.locations, text);
            if found.is_some() {
                push_groups(text, &compiled.locations, groups);
            }
            Ok(found.is_some())
        })
    }

    fn all_matched(&self, known: &mut Known) -> Result<ArrayRef> {
        let inner = ListBuilder::new(StringViewBuilder::new()).with_field(item());
        let field = Field::new_list_field(DataType::List(item()), true);
        let mut builder = ListBuilder::new(inner).with_field(Arc::new(field));
        let texts = &self.texts;
        for row in 0..self.count {
            if self.is_null(row) {
                builder.append(false);
                continue;
            }
            let (text, flags) = (texts.value(row), self.text(0, row));
            let compiled = self.compiled(known, row, flags, "")?;
            let is_global = compiled.is_global;
            let found = builder.values();
            compiled.each(text, 0, |locations, _| {
                push_groups(text, locations, found.values());
                found.append(true);
                Ok(is_global)
            })?;
            builder.append(true);
        }
        Ok(Arc::new(builder.finish()))
    }

    fn counted(&self, known: &mut Known) -> Result<ArrayRef> {
        let texts = &self.texts;
        let mut counts = Int64Builder::with_capacity(self.count);
        for row in 0..self.count {
            if self.is_null(row) {
                counts.append_null();
                continue;
            }
            let (text, flags) = (texts.value(row), self.text(1, row));
            let start = start(self.name, text, self.integer(0, row, 1))?;
            let compiled = self.compiled(known, row, flags, "")?;
            let mut count = 0;
            compiled.each(text, start, |_, _| {
                count += 1;
                Ok(true)
            })?;
            counts.append_value(count);
        }
        Ok(Arc::new(counts.finish()))
    }

    /// Returns the place in bytes of the requested match, or of a group of it.
    fn place(
        &self,
        known: &mut Known,
        row: usize,
        text: &str,
        flags: usize,
        group: usize,
    ) -> Result<Option<(usize, usize)>> {
        let flags = self.text(flags, row);
        let start = start(self.name, text, self.integer(0, row, 1))?;
        let wanted = positive(self.name, self.integer(1, row, 1))?;
        let group = usize::try_from(non_negative(self.name, self.integer(group, row, 0))?);
        let compiled = self.compiled(known, row, flags, "")?;
        let (mut number, mut place) = (0, None);
        compiled.each(text, start, |locations, _| {
            number += 1;
            if number == wanted {
                place =
                    group.ok().filter(|it| *it < locations.len()).and_then(|it| locations.get(it));
            }
            Ok(number < wanted)
        })?;
        Ok(place)
    }

    fn positions(&self, known: &mut Known) -> Result<ArrayRef> {
        let texts = &self.texts;
        let place = |row: usize| -> Result<Option<i64>> {
            if self.is_null(row) {
                return Ok(None);
            }
            let text = texts.value(row);
            let is_behind = match self.integer(2, row, 0) {
                0 => false,
                1 => true,
                _ => return plan_err!("the fifth argument of {} is 0 or 1", self.name),
            };
            let place = self.place(known, row, text, 3, 4)?;
            let at = |(from, to)| if is_behind { to } else { from };
            let count = |at: usize| i64::try_from(text[..at].chars().count()).unwrap_or(i64::MAX);
            Ok(Some(place.map_or(0, |place| count(at(place)) + 1)))
        };
        Ok(Arc::new((0..self.count).map(place).collect::<Result<Int64Array>>()?))
    }

    fn like_matched(&self, known: &mut Known) -> Result<ArrayRef> {
        let texts = &self.texts;
        let is_match = |row: usize| -> Result<Option<bool>> {
            if self.is_null(row) {
                return Ok(None);
            }
            let flags = self.text(0, row);
            let compiled = self.compiled(known, row, flags, "")?;
            if compiled.is_global {
                return plan_err!("{} does not take the flag g", self.name);
            }
            Ok(Some(compiled.regex.is_match(texts.value(row))))
        };
        Ok(Arc::new((0..self.count).map(is_match).collect::<Result<BooleanArray>>()?))
    }

    fn cut_out(&self, known: &mut Known) -> Result<ArrayRef> {
        let texts = &self.texts;
        let mut builder = StringViewBuilder::with_capacity(self.count);
        for row in 0..self.count {
            let place = match self.is_null(row) {
                true => None,
                false => self.place(known, row, texts.value(row), 2, 3)?,
            };
            builder.append_option(place.map(|(from, to)| &texts.value(row)[from..to]));
        }
        Ok(Arc::new(builder.finish()))
    }

    fn split(&self, known: &mut Known) -> Result<ArrayRef> {
        self.lists(known, |text, compiled, parts| {
            if compiled.is_global {
                return plan_err!(
                    "{} does not take the flag g: it splits at all matches",
                    self.name
                );
            }
            let mut done = 0;
            compiled.each(text, 0, |_, (from, to)| {
                // An empty match splits nothing at the ends of the text or of another part.
                if from != to || done < from && from < text.len() {
                    parts.append_value(&text[done..from]);
                    done = to;
                }
                Ok(true)
            })?;
            parts.append_value(&text[done..]);
            Ok(true)
        })
    }
}

/// Compares flags, which mostly are empty. Before it compares no bytes, the `memcmp` of glibc for
/// AVX-512 loads none from the address of an empty text, which is not mapped: that takes 100 ns.
fn is_same(known: &str, flags: &str) -> bool {
    known.len() == flags.len() && (flags.is_empty() || known == flags)
}

/// Adds the groups of a match, or all of it if it has none.
fn push_groups(text: &str, locations: &CaptureLocations, builder: &mut StringViewBuilder) {
    let groups = if locations.len() == 1 { 0..1 } else { 1..locations.len() };
    for group in groups {
        builder.append_option(locations.get(group).map(|(from, to)| &text[from..to]));
    }
}

/// A part of a replacement.
enum Piece<'a> {
    Text(&'a str),
    Group(usize),
}

impl Piece<'_> {
    fn push(&self, text: &str, locations: &CaptureLocations, made: &mut String) {
        match self {
            Piece::Text(piece) => made.push_str(piece),
            Piece::Group(group) if *group < locations.len() => {
                made.push_str(locations.get(*group).map_or("", |(from, to)| &text[from..to]));
            }
            Piece::Group(_) => {}
        }
    }
}

/// Parses a replacement: `\1` to `\9` are groups, `\&` is the match, `\\` a backslash.
fn pieces(replacement: &str) -> Vec<Piece<'_>> {
    let (mut pieces, mut rest) = (Vec::new(), replacement);
    while let Some(at) = rest.find('\\') {
        let digit = rest.as_bytes().get(at + 1).copied();
        let (piece, from, to) = match digit {
            Some(b'\\') => (None, at + 1, at + 2),
            Some(b'&') => (Some(Piece::Group(0)), at, at + 2),
            Some(digit @ b'1'..=b'9') => (Some(Piece::Group((digit - b'0').into())), at, at + 2),
            _ => (None, at + 1, at + 1),
        };
        pieces.push(Piece::Text(&rest[..from]));
        pieces.extend(piece);
        rest = &rest[to..];
    }
    pieces.push(Piece::Text(rest));
    pieces
}

/// Returns the byte of the character to begin at, counted from 1; for a start behind the text, the
/// byte behind its end.
fn start(function: &str, text: &str, start: i64) -> Result<usize> {
    let before = usize::try_from(positive(function, start)? - 1).unwrap_or(usize::MAX);
    if before == 0 {
        return Ok(0);
    }
    let mut letters = text.char_indices();
    Ok(match letters.nth(before) {
        Some((at, _)) => at,
        None if before == text.chars().count() => text.len(),
        None => text.len() + 1,
    })
}

fn positive(function: &str, number: i64) -> Result<i64> {
    at_least(function, number, 1, "a start and a number of a match are 1 or more")
}

fn non_negative(function: &str, number: i64) -> Result<i64> {
    at_least(function, number, 0, "numbers of matches and groups are 0 or more")
}

fn at_least(function: &str, number: i64, least: i64, what: &'static str) -> Result<i64> {
    if least <= number {
        return Ok(number);
    }
    let (function, value) = (function.to_owned(), number.to_string());
    Err(ClauseProblem::ArgumentValue { function, value, what }.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_matched_while_the_statement_goes_on() {
        use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryPool};

        use crate::account::Account;
        use crate::cancel::{CancelState, Timeout};

        // Each match looks at the whole rest of the text: a quadratic number of steps.
        let texts: ArrayRef = Arc::new(StringViewArray::from(vec!["A".repeat(1 << 20)]));
        let patterns: ArrayRef = Arc::new(StringViewArray::from(vec![".*[^A-Z]|A"]));
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(1 << 30));
        let stop = Arc::new(CancelState::new(Timeout::Never));
        let account = Account::new(&stop, &pool);
        let _entered = account.enter();
        stop.cancel();
        let rows = Rows::new("regexp_count", &[texts, patterns], 1).unwrap();
        assert!(rows.values(Kind::Count).is_err(), "regexp-1");
    }
}
