//! Compilation of the two notations of a timestamp pattern: letters (`yyyy-MM-dd`) and strftime
//! (`%Y-%m-%d`): docs/import.md, Timestamps. Both become the same steps.

use super::{Field, FormatError, Step};

/// The maximum bytes of a pattern: the longest useful ones have about 40.
const PATTERN_BYTES: usize = 256;

/// The steps of a pattern in either notation.
pub(super) fn steps(text: &str) -> Result<Vec<Step>, FormatError> {
    if text.is_empty() {
        return Err(FormatError::Empty);
    }
    if text.len() > PATTERN_BYTES {
        return Err(FormatError::TooLong { bytes: text.len(), max: PATTERN_BYTES });
    }
    let mut steps = Steps::default();
    if text.contains('%') {
        steps.add_strftime(text)?;
    } else {
        steps.add_letters(text)?;
    }
    steps.finish()
}

#[derive(Default)]
struct Steps {
    steps: Vec<Step>,
    given: Parts,
}

/// A set of the parts of an instant, one bit each.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Parts(u16);

impl Parts {
    const YEAR: Parts = Parts(1);
    const MONTH: Parts = Parts(1 << 1);
    const DAY: Parts = Parts(1 << 2);
    const DATE: Parts = Parts(1 << 1 | 1 << 2);
    const DAY_OF_WEEK: Parts = Parts(1 << 3);
    const HOUR: Parts = Parts(1 << 4);
    const HOUR_OF_HALF: Parts = Parts(1 << 4 | 1 << 5);
    const HALF: Parts = Parts(1 << 6);
    const MINUTE: Parts = Parts(1 << 7);
    const SECOND: Parts = Parts(1 << 8);
    const MILLIS: Parts = Parts(1 << 9);
    const MICROS: Parts = Parts(1 << 10);
    const NANOS: Parts = Parts(1 << 11);
    const TO_MICROS: Parts = Parts(1 << 9 | 1 << 10);
    const TO_NANOS: Parts = Parts(1 << 9 | 1 << 10 | 1 << 11);
    const OFFSET: Parts = Parts(1 << 12);

    fn has(self, other: Parts) -> bool {
        self.0 & other.0 == other.0
    }
}

impl Steps {
    fn finish(self) -> Result<Vec<Step>, FormatError> {
        if self.given == Parts::default() {
            return Err(FormatError::NoField);
        }
        if self.given.has(Parts::HOUR_OF_HALF) && !self.given.has(Parts::HALF) {
            return Err(FormatError::NoHalfOfDay);
        }
        Ok(self.steps)
    }

    /// Adds a literal; adjacent literals become one step.
    fn push_literal(&mut self, text: &str) {
        if let Some(Step::Literal(bytes)) = self.steps.last_mut() {
            bytes.extend_from_slice(text.as_bytes());
        } else {
            self.steps.push(Step::Literal(text.as_bytes().to_vec()));
        }
    }

    fn push_field(
        &mut self,
        step: Step,
        parts: Parts,
        run: &str,
        at: usize,
    ) -> Result<(), FormatError> {
        if self.given.0 & parts.0 != 0 {
            return Err(FormatError::FieldTwice { run: run.to_owned(), at });
        }
        self.given.0 |= parts.0;
        self.steps.push(step);
        Ok(())
    }

    fn add_letters(&mut self, text: &str) -> Result<(), FormatError> {
        let mut at = 0;
        while let Some(letter) = text[at..].chars().next() {
            let rest = &text[at..];
            if letter == '\'' {
                at += self.add_quoted(rest, at)?;
                continue;
            }
            let run = run_of(rest, letter);
            if !"yMdDHhamsSUNZxzEuw".contains(letter) {
                self.push_literal(run);
            } else if let Some((step, parts)) = field_of_letters(run) {
                self.push_field(step, parts, run, at)?;
            } else {
                return Err(FormatError::UnknownField { run: run.to_owned(), at });
            }
            at += run.len();
        }
        Ok(())
    }

    /// Adds `'text'` or `''`, which is a quote. Returns the number of bytes that it takes.
    fn add_quoted(&mut self, rest: &str, at: usize) -> Result<usize, FormatError> {
        let len = rest[1..].find('\'').ok_or(FormatError::OpenQuote { at })?;
        let text = &rest[1..1 + len];
        self.push_literal(if text.is_empty() { "'" } else { text });
        Ok(len + 2)
    }

    fn add_strftime(&mut self, text: &str) -> Result<(), FormatError> {
        let mut at = 0;
        while let Some(first) = text[at..].chars().next() {
            let rest = &text[at..];
            if first != '%' {
                self.push_literal(&rest[..first.len_utf8()]);
                at += first.len_utf8();
                continue;
            }
            // `%-d` is `%d`: both parse one digit or two.
            let skipped = if rest.starts_with("%-") { 2 } else { 1 };
            let letter = rest[skipped..].chars().next();
            let len = skipped + letter.map_or(0, char::len_utf8);
            let run = &rest[..len];
            let unknown = || FormatError::UnknownField { run: run.to_owned(), at };
            let letter = letter.ok_or_else(unknown)?;
            // The number is padded with a space, as `date` and syslog write it.
            let padded = match letter {
                'e' => Some('d'),
                'k' => Some('H'),
                'l' => Some('I'),
                _ => None,
            };
            if padded.is_some() {
                self.steps.push(Step::Blanks);
            }
            if let Some((step, parts)) = field_of_strftime(padded.unwrap_or(letter)) {
                self.push_field(step, parts, run, at)?;
            } else {
                match letter {
                    '%' => self.push_literal("%"),
                    'n' | 't' => self.steps.push(Step::Blanks),
                    'F' => self.add_strftime("%Y-%m-%d").map_err(|_| twice(run, at))?,
                    'D' => self.add_strftime("%m/%d/%y").map_err(|_| twice(run, at))?,
                    'T' => self.add_strftime("%H:%M:%S").map_err(|_| twice(run, at))?,
                    'R' => self.add_strftime("%H:%M").map_err(|_| twice(run, at))?,
                    _ => return Err(unknown()),
                }
            }
            at += len;
        }
        Ok(())
    }
}

fn twice(run: &str, at: usize) -> FormatError {
    FormatError::FieldTwice { run: run.to_owned(), at }
}

/// One letter as often as it is repeated; `U+` and `N+` are runs too.
fn run_of(rest: &str, letter: char) -> &str {
    let len = rest.chars().take_while(|&next| next == letter).count() * letter.len_utf8();
    let plus = usize::from(matches!(&rest[..len], "U" | "N") && rest[len..].starts_with('+'));
    &rest[..len + plus]
}

fn number(field: Field, min: usize, max: usize) -> Step {
    Step::Number { field, min, max }
}

fn field_of_letters(run: &str) -> Option<(Step, Parts)> {
    Some(match run {
        "yyyy" => (number(Field::Year, 4, 4), Parts::YEAR),
        "yy" => (number(Field::YearOf2000, 2, 2), Parts::YEAR),
        "y" => (number(Field::YearAsWritten, 1, 4), Parts::YEAR),
        "MM" => (number(Field::Month, 2, 2), Parts::MONTH),
        "M" => (number(Field::Month, 1, 2), Parts::MONTH),
        "MMM" | "MMMM" => (Step::MonthName, Parts::MONTH),
        "dd" => (number(Field::Day, 2, 2), Parts::DAY),
        "d" => (number(Field::Day, 1, 2), Parts::DAY),
        "D" => (number(Field::DayOfYear, 1, 3), Parts::DATE),
        "ww" => (number(Field::Week, 2, 2), Parts::DATE),
        "w" => (number(Field::Week, 1, 2), Parts::DATE),
        "E" => (Step::DayName, Parts::DAY_OF_WEEK),
        "u" => (number(Field::DayOfWeek, 1, 1), Parts::DAY_OF_WEEK),
        "HH" => (number(Field::Hour, 2, 2), Parts::HOUR),
        "H" => (number(Field::Hour, 1, 2), Parts::HOUR),
        "hh" => (number(Field::HourOfHalf, 2, 2), Parts::HOUR_OF_HALF),
        "h" => (number(Field::HourOfHalf, 1, 2), Parts::HOUR_OF_HALF),
        "a" => (Step::HalfOfDay, Parts::HALF),
        "mm" => (number(Field::Minute, 2, 2), Parts::MINUTE),
        "m" => (number(Field::Minute, 1, 2), Parts::MINUTE),
        "ss" => (number(Field::Second, 2, 2), Parts::SECOND),
        "s" => (number(Field::Second, 1, 2), Parts::SECOND),
        "SSS" => (Step::Fraction { min: 3, width: 3, nanos: 1_000_000 }, Parts::MILLIS),
        "S" => (Step::Fraction { min: 1, width: 3, nanos: 1_000_000 }, Parts::MILLIS),
        "UUU" => (Step::Fraction { min: 3, width: 3, nanos: 1_000 }, Parts::MICROS),
        "U" => (Step::Fraction { min: 1, width: 3, nanos: 1_000 }, Parts::MICROS),
        "U+" => (Step::Fraction { min: 1, width: 6, nanos: 1_000 }, Parts::TO_MICROS),
        "NNN" => (Step::Fraction { min: 3, width: 3, nanos: 1 }, Parts::NANOS),
        "N" => (Step::Fraction { min: 1, width: 3, nanos: 1 }, Parts::NANOS),
        "N+" => (Step::Fraction { min: 1, width: 9, nanos: 1 }, Parts::TO_NANOS),
        "Z" | "x" => (Step::Offset, Parts::OFFSET),
        "z" => (Step::Zone, Parts::OFFSET),
        _ => return None,
    })
}

fn field_of_strftime(letter: char) -> Option<(Step, Parts)> {
    Some(match letter {
        'Y' | 'G' => (number(Field::Year, 4, 4), Parts::YEAR),
        'y' => (number(Field::YearOfPosix, 2, 2), Parts::YEAR),
        'm' => (number(Field::Month, 1, 2), Parts::MONTH),
        'b' | 'B' | 'h' => (Step::MonthName, Parts::MONTH),
        'd' => (number(Field::Day, 1, 2), Parts::DAY),
        'j' => (number(Field::DayOfYear, 1, 3), Parts::DATE),
        'V' => (number(Field::Week, 1, 2), Parts::DATE),
        'a' | 'A' => (Step::DayName, Parts::DAY_OF_WEEK),
        'u' => (number(Field::DayOfWeek, 1, 1), Parts::DAY_OF_WEEK),
        'H' => (number(Field::Hour, 1, 2), Parts::HOUR),
        'I' => (number(Field::HourOfHalf, 1, 2), Parts::HOUR_OF_HALF),
        'p' | 'P' => (Step::HalfOfDay, Parts::HALF),
        'M' => (number(Field::Minute, 1, 2), Parts::MINUTE),
        'S' => (number(Field::Second, 1, 2), Parts::SECOND),
        'f' => (Step::Fraction { min: 1, width: 9, nanos: 1 }, Parts::TO_NANOS),
        'z' => (Step::Offset, Parts::OFFSET),
        'Z' => (Step::Zone, Parts::OFFSET),
        _ => return None,
    })
}
