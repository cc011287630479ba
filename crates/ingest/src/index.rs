//! Structural index of delimited text: the ends of fields and rows, found 64 bytes at a time.
//!
//! - index-1. `field_ends` has the position of every delimiter and line end outside of quotes,
//!   ascending; `row_ends` has the indexes, in `field_ends`, of the line ends.
//! - index-4. All kernels give the same index as `scalar`, for any bytes, if quotes are regular.
//! - index-2. A quote that opens anywhere but at the start of a field is irregular: it is text, and
//!   only the scalar kernel, a state machine, finds the bounds of the quotes around it.
//! - index-3. Vector kernels reserve a position for every byte and `SLACK` more, and write less
//!   than that beyond the length. Memory is touched only where positions are written.
//!
//! Not here: the state at the first byte of a chunk (`split`), the meaning of fields (`convert`).

mod scalar;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;

/// The bytes that structure a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Structure {
    /// The byte between fields.
    pub delimiter: u8,
    /// The byte around fields; `None` if there are no quotes.
    pub quote: Option<u8>,
    /// The byte behind records.
    pub line_end: u8,
}

/// The state of a position with respect to quotes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuoteState {
    /// Between fields, or in an unquoted field.
    Outside,
    /// In a quoted field.
    Inside,
}

/// The index of a stretch of text (index-1). Its memory is reused for the next stretch.
#[derive(Debug, Default)]
pub struct FieldIndex {
    /// Positions of delimiters and line ends.
    pub field_ends: Vec<u32>,
    /// Indexes of line ends in `field_ends`.
    pub row_ends: Vec<u32>,
}

/// The results of indexing beside the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexOutcome {
    /// The state behind the last byte.
    pub end: Start,
    /// True if every quote opened at the start of a field (index-2). If not, the index is useless.
    pub is_regular: bool,
}

/// The numbers of quotes and line ends in a stretch, wherever they stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StructuralCounts {
    /// The number of quotes.
    pub quotes: u64,
    /// The number of line ends.
    pub line_ends: u64,
}

/// The implementation that indexes, chosen once for the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kernel {
    /// Byte by byte; the only one that supports irregular quotes.
    Scalar,
    /// 32 bytes at a time.
    Avx2,
    /// 64 bytes at a time, positions by compression.
    Avx512,
}

/// The number of indexes behind the last one that kernels may write before the length is set.
const SLACK: usize = 64;

impl Kernel {
    /// Detects the fastest kernel of this machine.
    #[must_use]
    pub fn detect() -> Kernel {
        *Kernel::available().last().expect("scalar is always there")
    }

    /// All kernels of this machine, the fastest last.
    #[must_use]
    pub fn available() -> Vec<Kernel> {
        let mut kernels = vec![Kernel::Scalar];
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("pclmulqdq") {
                kernels.push(Kernel::Avx2);
            }
            if is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512vl")
                && is_x86_feature_detected!("avx512vbmi2")
                && is_x86_feature_detected!("pclmulqdq")
            {
                kernels.push(Kernel::Avx512);
            }
        }
        kernels
    }

    /// Counts quotes and line ends: the counts of a chunk are needed before its successor can be
    /// indexed.
    #[must_use]
    pub fn count(self, text: &[u8], structure: &Structure) -> StructuralCounts {
        match self {
            Kernel::Scalar => scalar::count(text, structure),
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx2 => avx2::count(text, structure),
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx512 => avx512::count(text, structure),
            #[cfg(not(target_arch = "x86_64"))]
            Kernel::Avx2 | Kernel::Avx512 => scalar::count(text, structure),
        }
    }

    /// Replaces `index` by the index of `text`, which begins in the state `start`.
    ///
    /// # Panics
    /// If `text` has 4 GiB or more.
    pub fn index(
        self,
        text: &[u8],
        start: Start,
        structure: &Structure,
        index: &mut FieldIndex,
    ) -> IndexOutcome {
        assert!(u32::try_from(text.len()).is_ok(), "positions have four bytes");
        index.field_ends.clear();
        index.row_ends.clear();
        match self {
            Kernel::Scalar => scalar::index(text, start, structure, index),
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx2 => avx2::index(text, start, structure, index),
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx512 => avx512::index(text, start, structure, index),
            #[cfg(not(target_arch = "x86_64"))]
            Kernel::Avx2 | Kernel::Avx512 => scalar::index(text, start, structure, index),
        }
    }
}

/// The state before the first byte of a stretch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Start {
    /// The quote state of the first byte.
    pub state: QuoteState,
    /// The kind of the byte before: it decides whether a quote opens a field or is a doubled one.
    pub after: Before,
}

/// The kind of the byte before a stretch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Before {
    /// A delimiter, a line end, or the start of the text: a quote may open here.
    FieldStart,
    /// A quote: a further one makes it a doubled quote.
    Quote,
    /// Any other byte of an unquoted field, or behind a closing quote.
    Text,
}

impl Before {
    /// The kind of `byte`, the last one of the stretch before.
    #[must_use]
    pub fn of(byte: u8, structure: &Structure) -> Before {
        if byte == structure.delimiter || byte == structure.line_end {
            Before::FieldStart
        } else if Some(byte) == structure.quote {
            Before::Quote
        } else {
            Before::Text
        }
    }
}

/// The masks of 64 bytes and their combination, which AVX2 and AVX-512 share.
#[cfg(target_arch = "x86_64")]
#[derive(Debug, Clone, Copy)]
struct Masks {
    delimiters: u64,
    line_ends: u64,
    quotes: u64,
}

/// The state that is carried from 64 bytes to the next.
#[cfg(target_arch = "x86_64")]
#[derive(Debug, Clone, Copy)]
struct Carry {
    /// All ones inside of quotes.
    inside: u64,
    /// Bit 0 is set if a quote may open at the first byte.
    may_open: u64,
    /// Quotes that opened where none may open.
    irregular: u64,
}

#[cfg(target_arch = "x86_64")]
impl Carry {
    fn new(start: Start) -> Carry {
        Carry {
            inside: if start.state == QuoteState::Inside { u64::MAX } else { 0 },
            may_open: u64::from(start.after != Before::Text),
            irregular: 0,
        }
    }

    /// Field ends among 64 bytes; `prefix` is the running parity of the quotes.
    #[inline]
    fn step(&mut self, masks: Masks, prefix: u64) -> (u64, u64) {
        let inside = prefix ^ self.inside;
        let opening = masks.quotes & inside;
        // A quote opens behind a delimiter or line end; behind a quote it is a doubled quote.
        let openers = masks.delimiters | masks.line_ends | masks.quotes;
        let may_open = openers << 1 | self.may_open;
        self.irregular |= opening & !may_open;
        self.may_open = openers >> 63;
        self.inside = (inside.cast_signed() >> 63).cast_unsigned();
        let outside = !inside;
        ((masks.delimiters | masks.line_ends) & outside, masks.line_ends & outside)
    }

    fn outcome(self, text: &[u8], start: Start, structure: &Structure) -> IndexOutcome {
        let state = if self.inside == 0 { QuoteState::Outside } else { QuoteState::Inside };
        let after = text.last().map_or(start.after, |&last| Before::of(last, structure));
        IndexOutcome { end: Start { state, after }, is_regular: self.irregular == 0 }
    }
}

/// Appends the indexes of line ends: `field_count` fields ended before these 64 bytes.
#[cfg(target_arch = "x86_64")]
#[inline]
fn push_row_ends(field_count: usize, ends: u64, mut line_ends: u64, row_ends: &mut Vec<u32>) {
    while line_ends != 0 {
        let below = (line_ends & line_ends.wrapping_neg()) - 1;
        let idx = field_count + (ends & below).count_ones() as usize;
        row_ends.push(u32::try_from(idx).expect("fewer fields than bytes"));
        line_ends &= line_ends - 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CSV: Structure = Structure { delimiter: b',', quote: Some(b'"'), line_end: b'\n' };

    fn indexed(kernel: Kernel, text: &[u8], start: Start) -> (Vec<u32>, Vec<u32>, IndexOutcome) {
        let mut index = FieldIndex::default();
        let outcome = kernel.index(text, start, &CSV, &mut index);
        (index.field_ends, index.row_ends, outcome)
    }

    #[test]
    fn every_kernel_agrees_with_the_state_machine_on_random_text() {
        let mut seed = 3_u64;
        let mut next = |below: usize| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
            (seed >> 33) as usize % below
        };
        let mut regular = 0;
        for round in 0..6_000 {
            let alphabet: &[u8] = if round % 3 == 0 { b"ab,\n\"" } else { b"abcdefghijklm,,\n" };
            let mut text: Vec<u8> = Vec::new();
            while text.len() < round % 400 {
                match next(6) {
                    0 => text.extend_from_slice(b",\"x,\"\"\ny\","),
                    _ => text.push(alphabet[next(alphabet.len())]),
                }
            }
            for state in [QuoteState::Outside, QuoteState::Inside] {
                for after in [Before::FieldStart, Before::Quote, Before::Text] {
                    let start = Start { state, after };
                    let expected = indexed(Kernel::Scalar, &text, start);
                    let counts = Kernel::Scalar.count(&text, &CSV);
                    for kernel in Kernel::available() {
                        assert_eq!(kernel.count(&text, &CSV), counts, "{kernel:?}");
                        let actual = indexed(kernel, &text, start);
                        assert_eq!(
                            actual.2.is_regular, expected.2.is_regular,
                            "index-2 {kernel:?}"
                        );
                        if expected.2.is_regular {
                            regular += 1;
                            assert_eq!(actual, expected, "index-4 {kernel:?} {start:?} {text:?}");
                        }
                    }
                }
            }
        }
        assert!(regular > 10_000, "{regular}");
    }

    #[test]
    fn delimiters_and_line_ends_in_quotes_do_not_count() {
        let start = Start { state: QuoteState::Outside, after: Before::FieldStart };
        for kernel in Kernel::available() {
            let (fields, rows, outcome) = indexed(kernel, b"a,\"b,\n\"\"\",c\nd\n", start);
            assert_eq!(fields, [1, 9, 11, 13], "{kernel:?}");
            assert_eq!(rows, [2, 3], "{kernel:?}");
            assert_eq!(outcome, IndexOutcome { end: start, is_regular: true });
        }
    }

    #[test]
    fn a_quote_inside_an_unquoted_field_is_text() {
        let start = Start { state: QuoteState::Outside, after: Before::FieldStart };
        for kernel in Kernel::available() {
            let (fields, rows, outcome) = indexed(kernel, b"6\" pipe,1\n", start);
            assert!(!outcome.is_regular, "{kernel:?}");
            if kernel == Kernel::Scalar {
                assert_eq!((fields, rows), (vec![7, 9], vec![1]));
                assert_eq!(outcome.end, start);
            }
        }
    }
}
