//! The structural index by a state machine, byte by byte: slow, simple, and correct for every text.

use super::{Before, FieldIndex, IndexOutcome, QuoteState, Start, StructuralCounts, Structure};

/// The state of the machine.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// At the first byte of a field.
    FieldStart,
    /// In an unquoted field, or behind a closing quote and some text.
    Text,
    /// In a quoted field.
    Quoted,
    /// Behind a quote in a quoted field: it closes, unless another one follows.
    QuoteInQuoted,
}

pub(super) fn count(text: &[u8], structure: &Structure) -> StructuralCounts {
    let count = |mark: u8| text.iter().filter(|&&byte| byte == mark).count() as u64;
    StructuralCounts {
        quotes: structure.quote.map_or(0, count),
        line_ends: count(structure.line_end),
    }
}

pub(super) fn index(
    text: &[u8],
    start: Start,
    structure: &Structure,
    index: &mut FieldIndex,
) -> IndexOutcome {
    let mut state = match (start.state, start.after) {
        (QuoteState::Inside, _) => State::Quoted,
        (QuoteState::Outside, Before::FieldStart) => State::FieldStart,
        (QuoteState::Outside, Before::Quote) => State::QuoteInQuoted,
        (QuoteState::Outside, Before::Text) => State::Text,
    };
    let mut is_regular = true;
    for (position, &byte) in text.iter().enumerate() {
        let is_quote = Some(byte) == structure.quote;
        state = match state {
            State::Quoted if is_quote => State::QuoteInQuoted,
            State::Quoted => State::Quoted,
            State::FieldStart | State::QuoteInQuoted if is_quote => State::Quoted,
            _ if byte == structure.delimiter || byte == structure.line_end => {
                if byte == structure.line_end {
                    let idx = u32::try_from(index.field_ends.len());
                    index.row_ends.push(idx.expect("fewer fields than bytes"));
                }
                index.field_ends.push(u32::try_from(position).expect("checked by the caller"));
                State::FieldStart
            }
            _ => {
                is_regular &= !is_quote;
                State::Text
            }
        };
    }
    let end = match state {
        // Inside of quotes the byte before does not matter; the value is that of the vector
        // kernels.
        State::Quoted => Start {
            state: QuoteState::Inside,
            after: text.last().map_or(start.after, |&last| Before::of(last, structure)),
        },
        State::FieldStart => Start { state: QuoteState::Outside, after: Before::FieldStart },
        State::QuoteInQuoted => Start { state: QuoteState::Outside, after: Before::Quote },
        State::Text => Start { state: QuoteState::Outside, after: Before::Text },
    };
    IndexOutcome { end, is_regular }
}
