//! Traits of the texts of a column: the evidence for a header where all columns are text, such as
//! `city` above `Rome`, `Oslo` and `Bern`.

/// The traits that all texts of a column have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct TextShape {
    all: u16,
}

impl Default for TextShape {
    /// The traits of no text: all.
    fn default() -> TextShape {
        TextShape { all: u16::MAX }
    }
}

impl TextShape {
    pub(super) fn add(&mut self, text: &[u8]) {
        self.all &= traits(text);
    }

    pub(super) fn merge(&mut self, other: &TextShape) {
        self.all &= other.all;
    }

    /// Returns true if a text lacks a trait that all of the others have.
    pub(super) fn is_unlike(&self, text: &[u8]) -> bool {
        self.all & !traits(text) != 0
    }
}

/// The number of bytes of a text that are inspected: names are no longer, and later bytes show
/// little.
const NAME_BYTES: usize = 64;

/// A bit for each kind of character that the text has, and for the kind of its first.
fn traits(text: &[u8]) -> u16 {
    let kind = |byte: u8| match byte {
        b'a'..=b'z' => 0,
        b'A'..=b'Z' => 1,
        b'0'..=b'9' => 2,
        b' ' => 3,
        b'@' => 4,
        b'-' => 5,
        b'.' => 6,
        b':' => 7,
        b'/' => 8,
        0x80.. => 9,
        _ => 10,
    };
    let first = match text.first() {
        Some(b'a'..=b'z') => 1 << 11,
        Some(b'A'..=b'Z') => 1 << 12,
        Some(b'0'..=b'9') => 1 << 13,
        _ => 0,
    };
    text.iter().take(NAME_BYTES).fold(first, |bits, &byte| bits | 1 << kind(byte)) & !(1 << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_told_from_texts_that_have_something_in_common() {
        let shape = |texts: &[&str]| {
            let mut shape = TextShape::default();
            texts.iter().for_each(|text| shape.add(text.as_bytes()));
            shape
        };
        assert!(shape(&["Rome", "Oslo"]).is_unlike(b"city"));
        assert!(shape(&["a@b.c", "d@e.f"]).is_unlike(b"mail"));
        assert!(shape(&["ab 1", "cd 2"]).is_unlike(b"code"));
        assert!(!shape(&["Rome", "Oslo"]).is_unlike(b"City"));
        assert!(!shape(&["rome", "Oslo"]).is_unlike(b"City"));
        assert!(!shape(&["berlin", "oslo"]).is_unlike(b"rome"));
    }
}
