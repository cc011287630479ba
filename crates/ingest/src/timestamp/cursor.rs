//! A cursor over the text that is not parsed yet, and the small parsers that all forms share.

use super::moment::Offset;

/// The rest of a text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor<'a> {
    pub(super) rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub(super) fn new(text: &'a [u8]) -> Cursor<'a> {
        Cursor { rest: text }
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    /// Takes these bytes if they come next.
    pub(super) fn eat(&mut self, bytes: &[u8]) -> bool {
        match self.rest.strip_prefix(bytes) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    /// Takes these letters if they come next, in any case.
    pub(super) fn eat_word(&mut self, word: &str) -> bool {
        match self.rest.split_at_checked(word.len()) {
            Some((next, rest)) if next.eq_ignore_ascii_case(word.as_bytes()) => {
                self.rest = rest;
                true
            }
            _ => false,
        }
    }

    /// Takes as many digits as there are, up to `max` (at most 9); `None` if fewer than `min`.
    pub(super) fn digits(&mut self, min: usize, max: usize) -> Option<Digits> {
        let mut digits = Digits { value: 0, count: 0 };
        for byte in self.rest.iter().take(max).take_while(|byte| byte.is_ascii_digit()) {
            digits.value = digits.value * 10 + u32::from(byte - b'0');
            digits.count += 1;
        }
        self.rest = &self.rest[digits.count..];
        (min <= digits.count).then_some(digits)
    }

    /// The number of exactly so many digits.
    pub(super) fn number(&mut self, count: usize) -> Option<u32> {
        self.digits(count, count).map(|digits| digits.value)
    }

    /// Takes `Z`, `+01`, `+0100` or `+01:00`; `-` likewise.
    pub(super) fn offset(&mut self) -> Option<Offset> {
        if self.eat_word("Z") {
            return Some(Offset::UTC);
        }
        let is_behind = self.eat(b"-");
        if !is_behind && !self.eat(b"+") {
            return None;
        }
        let hours = self.number(2)?;
        let has_minutes = self.eat(b":") || self.rest.first().is_some_and(u8::is_ascii_digit);
        let minutes = if has_minutes { self.number(2)? } else { 0 };
        Some(Offset { is_behind, hours, minutes })
    }
}

/// A number of adjacent digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Digits {
    pub(super) value: u32,
    pub(super) count: usize,
}

impl Digits {
    /// The value of the digits as the first ones of `width` (at most 9): `5` of three is 500.
    pub(super) fn as_fraction(self, width: usize) -> u32 {
        (self.count..width).fold(self.value, |value, _| value * 10)
    }
}
