//! index-2, index-4: every kernel gives the index of the state machine, or reports irregular
//! quotes; and the index of a text split in two is that of the whole.
//!
//! Input: delimiter, quote, the split position (two bytes), the text.

use tidegate_ingest::index::{
    Before, FieldIndex, IndexOutcome, Kernel, QuoteState, Start, Structure,
};

use super::input::Input;

pub(crate) fn check(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let delimiter = input.choose(b",;\t|a");
    let quote = input.choose(&[Some(b'"'), Some(b'\''), Some(b'b'), None]);
    let line_end = input.choose(b"\n\r");
    let cut = input.short();
    let (text, structure) = (input.rest, Structure { delimiter, quote, line_end });
    for state in [QuoteState::Outside, QuoteState::Inside] {
        for after in [Before::FieldStart, Before::Quote, Before::Text] {
            check_from(text, cut, Start { state, after }, &structure);
        }
    }
}

fn check_from(text: &[u8], cut: usize, start: Start, structure: &Structure) {
    let whole = indexed(Kernel::Scalar, text, start, structure);
    let counts = Kernel::Scalar.count(text, structure);
    for kernel in Kernel::available() {
        assert_eq!(kernel.count(text, structure), counts, "{kernel:?}");
        let found = indexed(kernel, text, start, structure);
        assert_eq!(found.2.is_regular, whole.2.is_regular, "index-2 {kernel:?}");
        if whole.2.is_regular {
            assert_eq!(found, whole, "index-4 {kernel:?} from {start:?}");
        }
    }
    let (head, tail) = text.split_at(cut.min(text.len()));
    for kernel in Kernel::available() {
        let first = or_scalar(kernel, head, start, structure);
        let second = or_scalar(kernel, tail, first.2.end, structure);
        let behind = |position: &u32| position + u32::try_from(head.len()).expect("small");
        let joined: Vec<u32> = first.0.iter().copied().chain(second.0.iter().map(behind)).collect();
        assert_eq!(joined, whole.0, "field ends, cut at {cut}, {kernel:?} from {start:?}");
        let before = u32::try_from(first.0.len()).expect("small");
        let rows = second.1.iter().map(|row| row + before);
        let joined: Vec<u32> = first.1.iter().copied().chain(rows).collect();
        assert_eq!(joined, whole.1, "row ends, cut at {cut}, {kernel:?} from {start:?}");
        assert_eq!(second.2.end, whole.2.end, "end, cut at {cut}, {kernel:?} from {start:?}");
    }
}

type Indexed = (Vec<u32>, Vec<u32>, IndexOutcome);

fn indexed(kernel: Kernel, text: &[u8], start: Start, structure: &Structure) -> Indexed {
    let mut index = FieldIndex::default();
    let outcome = kernel.index(text, start, structure, &mut index);
    (index.field_ends, index.row_ends, outcome)
}

/// Indexes as a worker does: by the scalar kernel if quotes are irregular.
fn or_scalar(kernel: Kernel, text: &[u8], start: Start, structure: &Structure) -> Indexed {
    let found = indexed(kernel, text, start, structure);
    if found.2.is_regular { found } else { indexed(Kernel::Scalar, text, start, structure) }
}
