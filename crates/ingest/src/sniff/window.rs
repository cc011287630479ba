//! Records from the middle of a file, whose first byte may be inside or outside of quotes.
//!
//! Both assumptions are tried: the wrong one reads text as records, and few of those have the right
//! number of cells. Records that do not fit are left out, since this is only a sample. If quoted
//! texts contain line ends, the wrong assumption can fit; then only the bytes around the window's
//! first quote decide: it opens or it closes, or the window is ignored.

use super::records::{Record, Records, Shape};

/// The number of bytes of a window that are read: many windows show more than long ones.
const BYTES: usize = 16 << 10;
/// The number of records that are read in any case, as far as the window has them.
const RECORDS: usize = 8;

/// The lines of quoted texts, as far as the head shows them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum QuotedLines {
    /// Each quoted text of the head is in one line.
    Single,
    /// Some quoted texts contain line ends.
    Several,
}

/// The records of a window that have `columns` cells, by the better of both assumptions.
pub(super) fn fitting<'a>(
    window: &'a [u8],
    shape: Shape,
    columns: usize,
    lines: QuotedLines,
) -> Vec<Record<'a>> {
    let fitting = |bytes| {
        let records = whole_records(bytes, shape);
        let whole = records.len();
        let fits = |record: &Record<'_>| {
            record.is_sound && !record.has_stray_quote && record.count == columns
        };
        (records.into_iter().filter(fits).collect::<Vec<_>>(), whole)
    };
    if lines == QuotedLines::Several {
        return match first_quote(window, shape) {
            Some(Side::Opens) => fitting(window).0,
            Some(Side::Closes) => {
                behind_open_quote(window, shape).map_or(Vec::new(), |behind| fitting(behind).0)
            }
            None => Vec::new(),
        };
    }
    let (outside, outside_whole) = fitting(window);
    if outside.len() == outside_whole && outside_whole != 0 {
        return outside;
    }
    let Some(behind) = behind_open_quote(window, shape) else { return outside };
    let (inside, inside_whole) = fitting(behind);
    // The share of records that fit decides, then their number.
    let outside_share = outside.len() * inside_whole.max(1);
    let inside_share = inside.len() * outside_whole.max(1);
    if (outside_share, outside.len()) < (inside_share, inside.len()) { inside } else { outside }
}

fn whole_records(bytes: &[u8], shape: Shape) -> Vec<Record<'_>> {
    let mut reader = Records::new(bytes, shape);
    reader.skip_rest_of_record();
    let mut records = Vec::new();
    while reader.offset() < BYTES || records.len() < RECORDS {
        match reader.next() {
            Some(record) if record.is_whole => records.push(record),
            _ => break,
        }
    }
    records
}

/// The role of a quote.
enum Side {
    Opens,
    Closes,
}

/// The role of the first quote of a window, if the bytes around it show it.
fn first_quote(window: &[u8], shape: Shape) -> Option<Side> {
    let quote = shape.quote?;
    let at = memchr::memchr(quote, window)?;
    let bounds = |byte: Option<&u8>| {
        byte.is_some_and(|byte| Some(*byte) == shape.delimiter || matches!(byte, b'\n' | b'\r'))
    };
    let before = at.checked_sub(1).and_then(|before| window.get(before));
    match (bounds(before), bounds(window.get(at + 1))) {
        (true, false) if window.get(at + 1) != Some(&quote) => Some(Side::Opens),
        (false, true) => Some(Side::Closes),
        _ => None,
    }
}

/// The bytes behind the quote that closes, if the window begins inside quotes.
fn behind_open_quote(window: &[u8], shape: Shape) -> Option<&[u8]> {
    let quote = shape.quote?;
    let mut at = 0;
    loop {
        at += memchr::memchr(quote, &window[at..])? + 1;
        if window.get(at) != Some(&quote) {
            return Some(&window[at..]);
        }
        at += 1;
    }
}
