//! Conversion of UTF-16 to UTF-8, a block at a time.
//!
//! - utf16-1. The first two bytes are a byte order mark, which is dropped.
//! - utf16-2. A surrogate without its other half, and half a unit at the end, become bytes that are
//!   not UTF-8: their cell is rejected, and no replacement character is inserted.
//!
//! Places in the text are those in the resulting UTF-8.

use std::io::Read;

/// The number of bytes that are read at a time.
const BLOCK_BYTES: usize = 32 << 10;

/// A reader that gives UTF-16 as UTF-8.
#[derive(Debug)]
pub(crate) struct Utf16Reader<R> {
    stream: R,
    /// The byte order; `None` before the byte order mark.
    is_big_endian: Option<bool>,
    block: Vec<u8>,
    /// The number of bytes of the block that wait for the next ones.
    left: usize,
    /// A high surrogate that waits for its other half.
    high: Option<u16>,
    text: Vec<u8>,
    /// The number of bytes of `text` that were read.
    given: usize,
    is_at_end: bool,
}

impl<R: Read> Utf16Reader<R> {
    pub(crate) fn new(stream: R) -> Utf16Reader<R> {
        Utf16Reader {
            stream,
            is_big_endian: None,
            block: vec![0; BLOCK_BYTES],
            left: 0,
            high: None,
            text: Vec::new(),
            given: 0,
            is_at_end: false,
        }
    }

    /// Reads and converts a block.
    fn fill(&mut self) -> std::io::Result<()> {
        self.text.clear();
        self.given = 0;
        let read = loop {
            match self.stream.read(&mut self.block[self.left..]) {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                read => break read?,
            }
        };
        let bytes = self.left + read;
        self.is_at_end = read == 0;
        let (units, rest) = self.block[..bytes].as_chunks::<2>();
        for unit in units {
            let Some(is_big_endian) = self.is_big_endian else {
                self.is_big_endian = Some(*unit == [0xFE, 0xFF]); // utf16-1
                continue;
            };
            let unit =
                if is_big_endian { u16::from_be_bytes(*unit) } else { u16::from_le_bytes(*unit) };
            push_unit(unit, &mut self.high, &mut self.text);
        }
        self.left = rest.len();
        if let &[half] = rest {
            self.block[0] = half;
        }
        if self.is_at_end {
            // A surrogate without its other half (utf16-2).
            self.text.extend(self.high.take().map(surrogate).into_iter().flatten());
            self.text.extend((self.left > 0).then_some(0xFF));
        }
        Ok(())
    }
}

/// Appends a unit, or keeps it until its other half comes.
fn push_unit(unit: u16, high: &mut Option<u16>, text: &mut Vec<u8>) {
    let waiting = high.take();
    if let (Some(first), 0xDC00..=0xDFFF) = (waiting, unit) {
        let code = 0x1_0000 + ((u32::from(first) & 0x3FF) << 10) + (u32::from(unit) & 0x3FF);
        push_char(code, text);
        return;
    }
    text.extend(waiting.map(surrogate).into_iter().flatten());
    match unit {
        0xD800..=0xDBFF => *high = Some(unit),
        0xDC00..=0xDFFF => text.extend(surrogate(unit)),
        unit => push_char(u32::from(unit), text),
    }
}

fn push_char(code: u32, text: &mut Vec<u8>) {
    let char = char::from_u32(code).expect("no surrogate, and within the planes");
    text.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes());
}

/// A surrogate encoded like a character, which is not UTF-8.
fn surrogate(unit: u16) -> [u8; 3] {
    let [high, low] = unit.to_be_bytes();
    [0xE0 | high >> 4, 0x80 | (high & 0xF) << 2 | low >> 6, 0x80 | low & 0x3F]
}

impl<R: Read> Read for Utf16Reader<R> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        while self.given == self.text.len() && !self.is_at_end {
            self.fill()?;
        }
        let given = (self.text.len() - self.given).min(into.len());
        into[..given].copy_from_slice(&self.text[self.given..self.given + given]);
        self.given += given;
        Ok(given)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stream that gives few bytes at a time.
    struct Slow<'a>(&'a [u8], usize);

    impl Read for Slow<'_> {
        fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
            let bytes = self.1.min(into.len());
            let mut part = &self.0[..bytes.min(self.0.len())];
            self.0 = &self.0[part.len()..];
            part.read(into)
        }
    }

    fn read(bytes: &[u8], step: usize) -> Vec<u8> {
        let mut text = Vec::new();
        Utf16Reader::new(Slow(bytes, step)).read_to_end(&mut text).expect("no error");
        text
    }

    #[test]
    fn both_orders_become_utf8_however_they_are_cut() {
        let text = "a,\u{e4}\n\u{20ac},\u{1f600}\n";
        for is_big in [false, true] {
            let units = std::iter::once(0xFEFF).chain(text.encode_utf16());
            let bytes: Vec<u8> = units
                .flat_map(|unit: u16| if is_big { unit.to_be_bytes() } else { unit.to_le_bytes() })
                .collect();
            for step in 1..7 {
                assert_eq!(read(&bytes, step), text.as_bytes(), "{is_big} {step}");
            }
        }
        let long: Vec<u8> = std::iter::once(0xFEFF_u16)
            .chain("\u{1f600}x".repeat(50_000).encode_utf16())
            .flat_map(u16::to_le_bytes)
            .collect();
        assert_eq!(read(&long, 10_007), "\u{1f600}x".repeat(50_000).as_bytes());
    }

    #[test]
    fn invalid_utf_16_is_decoded_to_invalid_utf_8() {
        let le = |units: &[u16]| -> Vec<u8> {
            std::iter::once(&0xFEFF).chain(units).flat_map(|unit| unit.to_le_bytes()).collect()
        };
        for units in [&[0xD800][..], &[0xDC00], &[0xD800, 0x41], &[0x41, 0xD83D, 0xD83D, 0x2C]] {
            let text = read(&le(units), 3);
            assert!(std::str::from_utf8(&text).is_err(), "{text:?}");
        }
        let mut odd = le(&[0x41]);
        odd.push(0x42);
        assert_eq!(read(&odd, 2), b"A\xFF");
        assert_eq!(read(b"", 1), b"");
    }
}
