//! A buffer that text is written to. Numbers are written eight digits at a time, and short texts
//! are copied together with the bytes behind them, which the next text overwrites.

use std::io::Write;

/// A buffer that is reused: it keeps its largest length, and holds text from `begin` up to `at`.
#[derive(Default)]
pub(crate) struct Cursor {
    bytes: Vec<u8>,
    begin: usize,
    at: usize,
}

/// A text of at most 32 bytes.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Label {
    bytes: [u8; Label::BYTES],
    length: usize,
}

impl Label {
    pub(crate) const BYTES: usize = 32;

    pub(crate) fn new(text: &str) -> Label {
        let mut bytes = [0; Label::BYTES];
        bytes[..text.len()].copy_from_slice(text.as_bytes());
        Label { bytes, length: text.len() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.length == 0
    }
}

impl Cursor {
    /// Returns the text.
    pub(crate) fn written(&self) -> &[u8] {
        &self.bytes[self.begin..self.at]
    }

    /// Returns the text, to change it in place.
    pub(crate) fn written_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.begin..self.at]
    }

    pub(crate) fn clear(&mut self) {
        self.begin = 0;
        self.at = 0;
    }

    /// Drops the first `count` bytes of the text.
    pub(crate) fn discard(&mut self, count: usize) {
        self.begin += count;
        assert!(self.begin <= self.at, "only what was written is discarded");
        if self.begin == self.at {
            self.clear();
        }
    }

    /// Returns the `count` bytes behind the text, for a caller that has made room and fills them.
    pub(crate) fn room(&mut self, count: usize) -> &mut [u8] {
        &mut self.bytes[self.at..self.at + count]
    }

    /// Appends the bytes `from..to` of `room` to the text.
    pub(crate) fn keep(&mut self, from: usize, to: usize) {
        if self.begin == self.at {
            self.begin = self.at + from;
            self.at += to;
            return;
        }
        self.bytes.copy_within(self.at + from..self.at + to, self.at);
        self.at += to - from;
    }

    /// Makes room for `count` bytes, and 32 more.
    #[inline]
    pub(crate) fn make_room(&mut self, count: usize) {
        let needed = self.at + count + Label::BYTES;
        if self.bytes.len() < needed {
            self.grow(needed);
        }
    }

    #[cold]
    fn grow(&mut self, needed: usize) {
        self.bytes.copy_within(self.begin..self.at, 0);
        self.at -= self.begin;
        let needed = needed - self.begin;
        self.begin = 0;
        if self.bytes.len() < needed {
            self.bytes.resize(needed.next_power_of_two(), 0);
        }
    }

    #[inline]
    pub(crate) fn put(&mut self, text: &[u8]) {
        self.bytes[self.at..self.at + text.len()].copy_from_slice(text);
        self.at += text.len();
    }

    #[inline]
    pub(crate) fn put_byte(&mut self, byte: u8) {
        self.bytes[self.at] = byte;
        self.at += 1;
    }

    #[inline]
    pub(crate) fn put_label(&mut self, label: &Label) {
        self.bytes[self.at..self.at + Label::BYTES].copy_from_slice(&label.bytes);
        self.at += label.length;
    }

    #[inline]
    pub(crate) fn put_integer(&mut self, number: i64) {
        if number < 0 {
            self.put_byte(b'-');
        }
        self.put_unsigned(number.unsigned_abs());
    }

    #[inline]
    fn put_unsigned(&mut self, number: u64) {
        if number < 100_000_000 {
            let (text, length) = short_text(number);
            self.put_eight(text, length);
        } else {
            self.put_long(number);
        }
    }

    fn put_long(&mut self, number: u64) {
        self.put_unsigned(number / 100_000_000);
        self.put_eight(eight_digits(number % 100_000_000) | ASCII, 8);
    }

    /// Writes a label, an integer, and the `i` that line protocol puts behind it.
    #[inline]
    pub(crate) fn put_field(&mut self, label: &Label, number: i64) {
        let Ok(unsigned @ 0..100_000_000) = u64::try_from(number) else {
            self.put_label(label);
            self.put_integer(number);
            return self.put_byte(b'i');
        };
        let (text, length) = short_text(unsigned);
        // One bounds check covers all three.
        let room = &mut self.bytes[self.at..self.at + 2 * Label::BYTES];
        room[..Label::BYTES].copy_from_slice(&label.bytes);
        let begin = label.length.min(Label::BYTES);
        let length = length.min(8);
        room[begin..begin + 8].copy_from_slice(&text.to_le_bytes());
        room[begin + length] = b'i';
        self.at += begin + length + 1;
    }

    /// Writes a label and `scaled / 10^PLACES` without zeros at its end.
    #[inline]
    pub(crate) fn put_decimal_field<const PLACES: u8>(&mut self, label: &Label, scaled: i64) {
        let magnitude = scaled.unsigned_abs();
        if 100_000_000 <= magnitude {
            self.put_label(label);
            return self.put_decimal(scaled, PLACES);
        }
        let power = const { 10_u64.pow(PLACES as u32) };
        let (text, length) = short_text(magnitude / power);
        // One bounds check covers all parts: label, sign, eight digits, point, eight digits.
        let room = &mut self.bytes[self.at..self.at + 2 * Label::BYTES];
        room[..Label::BYTES].copy_from_slice(&label.bytes);
        let mut at = label.length.min(Label::BYTES);
        room[at] = b'-';
        at += usize::from(scaled < 0);
        room[at..at + 8].copy_from_slice(&text.to_le_bytes());
        at += length.min(8);
        let fraction = magnitude % power;
        if 0 < PLACES && fraction != 0 {
            room[at] = b'.';
            let digits = eight_digits(fraction);
            let text = (digits | ASCII) >> (8 * (8 - PLACES));
            room[at + 1..at + 9].copy_from_slice(&text.to_le_bytes());
            at += 1 + usize::from(PLACES) - (digits.leading_zeros() / 8) as usize;
        }
        self.at += at;
    }

    /// Writes `scaled / 10^places` without zeros at its end.
    #[inline]
    pub(crate) fn put_decimal(&mut self, scaled: i64, places: u8) {
        if scaled < 0 {
            self.put_byte(b'-');
        }
        let magnitude = scaled.unsigned_abs();
        let power = 10_u64.pow(u32::from(places));
        self.put_unsigned(magnitude / power);
        let fraction = magnitude % power;
        if fraction != 0 {
            self.put_byte(b'.');
            let digits = eight_digits(fraction);
            let length = usize::from(places) - (digits.leading_zeros() / 8) as usize;
            self.put_eight((digits | ASCII) >> (8 * (8 - usize::from(places))), length);
        }
    }

    /// Writes the first `length` of eight characters, the first one in the lowest byte.
    #[inline]
    fn put_eight(&mut self, text: u64, length: usize) {
        self.bytes[self.at..self.at + 8].copy_from_slice(&text.to_le_bytes());
        self.at += length;
    }

    /// Writes the shortest text that is read back as the same float, without an exponent.
    pub(crate) fn put_float(&mut self, number: f64) {
        let mut rest = &mut self.bytes[self.at..];
        let before = rest.len();
        write!(rest, "{number}").expect("room was made, format-1");
        self.at += before - rest.len();
    }
}

/// The offset that turns eight small numbers into eight digits.
const ASCII: u64 = 0x3030_3030_3030_3030;

/// Returns the text of a number below 10^8, and its length.
#[inline]
fn short_text(number: u64) -> (u64, usize) {
    // Most numbers of TSBS are percentages: a table of 8 KB costs less than arithmetic.
    if let Some(&text) = usize::try_from(number).ok().and_then(|number| SMALL.get(number)) {
        return (text & u64::MAX >> 8, (text >> 56) as usize);
    }
    let digits = eight_digits(number);
    let zeros = digits.trailing_zeros() / 8;
    ((digits | ASCII) >> (8 * zeros), (8 - zeros) as usize)
}

/// The texts of the numbers below 1000, with their lengths in the highest byte.
static SMALL: [u64; 1_000] = small_texts();

const fn small_texts() -> [u64; 1_000] {
    let mut texts = [0; 1_000];
    let mut number = 0;
    while number < 1_000 {
        let digits = eight_digits(number as u64);
        let zeros = if number == 0 { 7 } else { digits.trailing_zeros() / 8 };
        texts[number] = (digits | ASCII) >> (8 * zeros) | (8 - zeros as u64) << 56;
        number += 1;
    }
    texts
}

/// Returns the eight decimal digits of a number below 10^8 as bytes, the first one in the lowest.
#[inline]
const fn eight_digits(number: u64) -> u64 {
    let (high, low) = (number / 10_000, number % 10_000);
    let fours = high | low << 32;
    // 10486 / 2^20 is 1/100 for all numbers of four digits, and 103 / 2^10 is 1/10 below 100.
    let hundreds = (fours * 10_486) >> 20 & 0x0000_007f_0000_007f;
    let pairs = hundreds | (fours - hundreds * 100) << 16;
    let tens = (pairs * 103) >> 10 & 0x000f_000f_000f_000f;
    tens | (pairs - tens * 10) << 8
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(write: impl FnOnce(&mut Cursor)) -> String {
        let mut cursor = Cursor::default();
        cursor.make_room(64);
        write(&mut cursor);
        String::from_utf8(cursor.written().to_vec()).unwrap()
    }

    #[test]
    fn integers_are_written_as_the_library_does() {
        let mut numbers: Vec<i64> = (0..20_000).collect();
        let mut power = 1_i64;
        for _ in 0..18 {
            power *= 10;
            numbers.extend([power - 1, power, power + 1, power * 5 + 7]);
        }
        numbers.extend([i64::MAX, i64::MIN, 99_999_999, 1_000_000_000_000_000_001]);
        for number in numbers {
            for number in [number, number.wrapping_neg()] {
                assert_eq!(text(|cursor| cursor.put_integer(number)), number.to_string());
            }
        }
    }

    #[test]
    fn decimals_are_written_as_the_shortest_float() {
        for places in [0, 1, 5] {
            let power = 10_f64.powi(i32::from(places));
            for scaled in (-200_000..200_000).step_by(37).chain([
                18_000_000,
                -17_999_999,
                4_700_000,
                99_999_999,
                100_000_000,
                -1 << 40,
            ]) {
                let float = scaled as f64 / power;
                let expected = if scaled == 0 { "0".to_owned() } else { float.to_string() };
                assert_eq!(text(|cursor| cursor.put_decimal(scaled, places)), expected);
                let label = Label::new("x=");
                let field = text(|cursor| match places {
                    0 => cursor.put_decimal_field::<0>(&label, scaled),
                    1 => cursor.put_decimal_field::<1>(&label, scaled),
                    _ => cursor.put_decimal_field::<5>(&label, scaled),
                });
                assert_eq!(field, format!("x={expected}"));
            }
        }
    }

    #[test]
    fn floats_and_labels_end_where_they_end() {
        let actual = text(|cursor| {
            cursor.put_label(&Label::new(",used_percent="));
            cursor.put_float(15.607654908671975);
            cursor.put_label(&Label::new(" 1\n"));
        });
        assert_eq!(actual, ",used_percent=15.607654908671975 1\n");
    }
}
