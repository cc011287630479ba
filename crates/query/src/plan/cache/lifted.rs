//! Lifted literals: the constants in the conditions of a query, taken as parameters, so that the
//! same query with other constants has the same plan template, whatever protocol it came by.
//!
//! - A literal is lifted where it stands alone in a condition of WHERE: behind a comparison, in a
//!   list of IN, or as a bound of BETWEEN. All else of the text stays part of the key.
//! - Only the key has parameters: the query is planned with its own literals, so that nothing but
//!   time depends on what is lifted. Whether other values may take their places is decided as for
//!   any parameter (`parameters`).
//! - A query with parameters of its own keeps its literals.
//!
//! It reads tokens and no syntax tree: it is done for each query whose text is not known.

use datafusion::sql::sqlparser::tokenizer::Location;

use super::TEXT_BYTES_MAX;
use super::key::PlanKey;
use crate::parse::{Token, TokenKind, next_token};
use crate::plan::parameters::{Parameter, Places};
use crate::position::Position;

/// So many digits are exact in an integer, and those of a fraction in a double.
const INTEGER_DIGITS: usize = 18;
const FRACTION_DIGITS: usize = 15;

/// The words that end the conditions of WHERE.
const ENDS: [&str; 16] = [
    "GROUP",
    "ORDER",
    "SAMPLE",
    "LATEST",
    "LIMIT",
    "HAVING",
    "UNION",
    "EXCEPT",
    "INTERSECT",
    "WINDOW",
    "QUALIFY",
    "FETCH",
    "OFFSET",
    "FILL",
    "ALIGN",
    "PARTITION",
];

/// A query whose literals are lifted.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Lifted {
    /// The query with `$1`, `$2`, ... in place of its literals.
    sql: String,
    values: Vec<Parameter>,
    /// The bytes before each of them in the text as it was written.
    offsets: Vec<usize>,
}

impl Lifted {
    /// Lifts the literals of a query; `None` if it has none to be lifted, or parameters.
    pub(crate) fn of(sql: &str) -> Option<Lifted> {
        if TEXT_BYTES_MAX < sql.len() {
            return None;
        }
        let mut lifter = Lifter::default();
        let mut lifted = Lifted { sql: String::new(), values: Vec::new(), offsets: Vec::new() };
        let (mut copied, mut offset) = (0, 0);
        let mut ahead = next_token(sql, 0).ok()?;
        while let Some(token) = ahead {
            offset = token.end().max(offset);
            ahead = next_token(sql, offset).ok()?;
            if token.is_sign('$') {
                return None;
            }
            if let Some(value) = lifter.value(&token, ahead.as_ref()) {
                lifted.values.push(value);
                lifted.offsets.push(token.offset);
                lifted.sql.push_str(&sql[copied..token.offset]);
                lifted.sql.push_str(&format!("${}", lifted.values.len()));
                copied = token.end();
            }
            lifter.pass(&token);
        }
        lifted.sql.push_str(&sql[copied..]);
        (!lifted.values.is_empty()).then_some(lifted)
    }

    /// Returns its key, for any values.
    pub(super) fn key(&self) -> PlanKey<'_> {
        PlanKey { sql: &self.sql, parameters: &self.values }
    }

    /// Returns the values of its literals.
    pub(crate) fn values(&self) -> &[Parameter] {
        &self.values
    }

    /// Returns the places of the values in the text as it was written.
    pub(crate) fn places(&self, sql: &str) -> Places {
        let place = |(index, &offset): (usize, &usize)| {
            let Position { line, column, .. } = Position::at(sql, offset);
            (Location { line: line as u64, column: column as u64 }, index)
        };
        self.offsets.iter().enumerate().map(place).collect()
    }
}

/// The tokens before the next one, and the clauses that they are in.
#[derive(Default)]
struct Lifter {
    /// The depth of brackets.
    depth: usize,
    /// The depth of WHERE, while its conditions last.
    conditions: Option<usize>,
    /// The depth within the brackets of IN, while its list lasts.
    list: Option<usize>,
    /// True between BETWEEN and its AND.
    is_between: bool,
    before: Before,
}

/// The tokens before the next one, as far as they matter.
#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum Before {
    #[default]
    Other,
    /// A name, or a word that may be one.
    Name,
    /// A comparison behind a name: `=`, `<`, `<=`, `>` or `>=`.
    Comparison,
    /// IN.
    In,
    /// The bracket or a comma of its list.
    ListItem,
    /// BETWEEN, or its AND.
    Bound,
}

impl Lifter {
    /// Returns the value of a literal that is to be lifted.
    fn value(&self, token: &Token<'_>, ahead: Option<&Token<'_>>) -> Option<Parameter> {
        self.conditions?;
        let is_end = |ahead: &Token<'_>| match self.before {
            Before::ListItem => ahead.is_sign(',') || ahead.is_sign(')'),
            _ => {
                let is_and = ahead.is_word("AND");
                is_and || ahead.is_sign(')') || ahead.is_sign(';') || is_clause(ahead)
            }
        };
        let is_operand =
            matches!(self.before, Before::Comparison | Before::ListItem | Before::Bound);
        (is_operand && ahead.is_none_or(is_end)).then(|| literal(token))?
    }

    fn pass(&mut self, token: &Token<'_>) {
        let first = token.text.chars().next().unwrap_or_default();
        self.before = match token.kind {
            TokenKind::Sign => self.after_sign(first),
            TokenKind::Word => self.after_word(token),
            TokenKind::QuotedName => Before::Name,
            TokenKind::Text | TokenKind::Number => Before::Other,
        };
    }

    fn after_sign(&mut self, sign: char) -> Before {
        match (sign, self.before) {
            ('(', before) => {
                self.depth += 1;
                if before == Before::In {
                    self.list = Some(self.depth);
                    return Before::ListItem;
                }
                Before::Other
            }
            (')', _) => {
                self.depth = self.depth.saturating_sub(1);
                self.list = self.list.filter(|&list| list <= self.depth);
                self.conditions = self.conditions.filter(|&depth| depth <= self.depth);
                Before::Other
            }
            (',', _) if self.list == Some(self.depth) => Before::ListItem,
            // The second one is the second character of `<=` and `>=`, or of `==`; `<>` and other
            // operators are no comparisons here.
            ('=' | '<' | '>', Before::Name) | ('=', Before::Comparison) => Before::Comparison,
            _ => Before::Other,
        }
    }

    fn after_word(&mut self, word: &Token<'_>) -> Before {
        if word.is_word("WHERE") {
            self.conditions = Some(self.depth);
        } else if self.conditions == Some(self.depth) && is_clause(word) {
            self.conditions = None;
        } else if word.is_word("IN") {
            return Before::In;
        } else if word.is_word("BETWEEN") {
            self.is_between = true;
            return Before::Bound;
        } else if word.is_word("AND") && std::mem::take(&mut self.is_between) {
            return Before::Bound;
        }
        Before::Name
    }
}

fn is_clause(token: &Token<'_>) -> bool {
    ENDS.iter().any(|word| token.is_word(word))
}

/// Returns the value of a token that is a text in single quotes without escapes, or a number that
/// is exact.
fn literal(token: &Token<'_>) -> Option<Parameter> {
    let text = token.text;
    match token.kind {
        TokenKind::Text if text.starts_with('\'') => Some(Parameter::Text(token.unquoted())),
        TokenKind::Number => {
            let is_digit = |c: char| c.is_ascii_digit();
            if text.len() <= INTEGER_DIGITS && text.chars().all(is_digit) {
                return text.parse().ok().map(Parameter::Integer);
            }
            let (whole, fraction) = text.split_once('.')?;
            let is_number =
                !fraction.is_empty() && (whole.chars().chain(fraction.chars())).all(is_digit);
            let is_exact = text.len() <= FRACTION_DIGITS + 1;
            (is_number && is_exact).then(|| text.parse().ok().map(Parameter::Double))?
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(sql: &str, expected: &str, values: &[&str]) {
        let lifted = Lifted::of(sql);
        let found = lifted.as_ref().map_or(sql, |it| it.sql.as_str());
        assert_eq!(found, expected, "{sql}");
        let texts = lifted.iter().flat_map(Lifted::values).map(ToString::to_string);
        assert_eq!(texts.collect::<Vec<_>>(), values, "{sql}");
    }

    #[test]
    fn literals_of_conditions_are_lifted() {
        check(
            "SELECT max(x) FROM t WHERE h = 'it''s' AND ts >= '2025-01-01T00:00:00' and n<5",
            "SELECT max(x) FROM t WHERE h = $1 AND ts >= $2 and n<$3",
            &["\"it's\"", "\"2025-01-01T00:00:00\"", "5"],
        );
        check(
            "select x from t where h IN ('a' , 'b') sample by 5m limit 10",
            "select x from t where h IN ($1 , $2) sample by 5m limit 10",
            &["\"a\"", "\"b\""],
        );
        check(
            "select x from t where n between 1 and 20 and x > 90.5 order by 1;",
            "select x from t where n between $1 and $2 and x > $3 order by 1;",
            &["1", "20", "double 4056a00000000000"],
        );
        check(
            "select x from (select 1 as x from u where \"y\" = 1) where (x = 5)",
            "select x from (select 1 as x from u where \"y\" = $1) where (x = $2)",
            &["1", "5"],
        );
    }

    #[test]
    fn other_literals_stay_in_the_text() {
        for sql in [
            "select 5 from t limit 5",
            "select x = 5 from t group by x having max(x) = 7",
            "select x from t where h <> 'a'",
            "select x from t where h != 'a' or h = 'b' || 'c'",
            "select x from t where ts = '2025-01-01'::date",
            "select x from t where ts in '2025-01'",
            "select x from t where ts > dateadd('d', -1, now())",
            "select x from t where n = -5 and n = 1_000 and n = 1e3 and n = 5 + 5",
            "select x from t where h like 'a%' and s = E'a' and f(x, 5)",
            "select x from t where n = 1234567890123456789 and x < 0.12345678901234567",
            "select x from t where n = $1 and m = 5",
            "select x from t where n <=> 5 and 1 = 1 and f(n) = 5",
            "select 'open",
        ] {
            check(sql, sql, &[]);
        }
    }

    #[test]
    fn places_are_those_of_the_written_text() {
        let sql = "select x\nfrom t where \u{e9} = 'a'\n and n = 5";
        let places = Lifted::of(sql).unwrap().places(sql);
        assert_eq!(places.get(&Location { line: 2, column: 18 }), Some(&0), "{places:?}");
        assert_eq!(places.get(&Location { line: 3, column: 10 }), Some(&1), "{places:?}");
    }
}
