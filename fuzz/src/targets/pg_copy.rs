//! copy_fields-1, copy_fields-2 of `server::pg::copy_fields`: fields are the same wherever the
//! bytes of a binary COPY are split, and any bytes are fields or a protocol error.
//!
//! The first byte is the number of columns, the second says how the rest is split. If a third one
//! is odd, a header is put before the rest, since few inputs begin with one.

use crate::pg::copy_fields::{CopyBreach, CopyField, CopyFieldReader, HEADER};

/// Longer values are refused, as a server would.
const VALUE_MAX: usize = 1 << 10;

/// The fields that were read, up to the first protocol error, and the place of that error.
type Read = (Vec<CopyField>, Result<(), (CopyBreach, (u64, Option<usize>))>);

pub(crate) fn check(bytes: &[u8]) {
    let &[columns, cut, form, ref rest @ ..] = bytes else { return };
    let columns = 1 + usize::from(columns) % 5;
    let header = if form % 2 == 1 { &HEADER[..] } else { &[] };
    let bytes = [header, rest].concat();
    let whole = read(columns, &[&bytes]);
    let pieces = bytes.chunks(1 + usize::from(cut) % 37).collect::<Vec<_>>();
    assert_eq!(read(columns, &pieces), whole, "copy_fields-1");
    for (at, field) in whole.0.iter().enumerate() {
        assert_eq!(field.column, at % columns, "copy_fields-2");
        assert!(field.value.as_ref().is_none_or(|it| it.len() <= VALUE_MAX), "copy_fields-1");
    }
}

fn read(columns: usize, pieces: &[&[u8]]) -> Read {
    let (mut reader, mut fields) = (CopyFieldReader::new(columns, VALUE_MAX), Vec::new());
    for piece in pieces {
        reader.push(piece);
        loop {
            match reader.next() {
                Ok(Some(field)) => fields.push(field),
                Ok(None) => break,
                Err(breach) => return (fields, Err((breach, reader.place()))),
            }
        }
    }
    let end = reader.end().map_err(|breach| (breach, reader.place()));
    (fields, end)
}
