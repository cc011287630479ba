//! Records from the midst of a file, where nobody says whether the first byte is inside quotes.
//!
//! Both answers are tried: the wrong one reads text as records, and few of those have the right
//! number of cells. Whatever does not fit is left out, since this is a sample and nothing more.

use super::records::{Record, Records, Shape};

/// The records of a window that have `columns` cells, with the better of both answers.
pub(super) fn fitting<'a>(
    window: &'a [u8],
    shape: Shape,
    columns: usize,
) -> impl Iterator<Item = Record<'a>> {
    let records_from = |bytes| {
        let mut records = Records::new(bytes, shape);
        records.skip_rest_of_record();
        records
    };
    let outside = records_from(window);
    let inside = behind_open_quote(window, shape).map(records_from);
    let records = match inside {
        Some(inside) if Fit::of(&outside, columns).is_worse(Fit::of(&inside, columns)) => inside,
        _ => outside,
    };
    records.filter(move |record| fits(record, columns))
}

fn fits(record: &Record<'_>, columns: usize) -> bool {
    record.is_whole && record.is_sound && !record.has_stray_quote && record.count == columns
}

/// How well a window reads.
#[derive(Clone, Copy, Debug)]
struct Fit {
    fitting: u64,
    whole: u64,
}

impl Fit {
    fn of(records: &Records<'_>, columns: usize) -> Fit {
        let mut fit = Fit { fitting: 0, whole: 0 };
        for record in records.clone().filter(|record| record.is_whole) {
            fit.whole += 1;
            fit.fitting += u64::from(fits(&record, columns));
        }
        fit
    }

    /// By the share of records that fit, then by their number.
    fn is_worse(self, other: Fit) -> bool {
        // With no records at all, a share is zero.
        let share = |fit: Fit, scale: Fit| fit.fitting * scale.whole.max(1);
        (share(self, other), self.fitting) < (share(other, self), other.fitting)
    }
}

/// If the window begins inside quotes: what comes behind the quote that closes them.
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
