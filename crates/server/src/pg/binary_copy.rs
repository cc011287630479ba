//! The binary format of COPY: converts received rows to the text that an import reads.
//!
//! - A value has the same meaning as the same bytes in a parameter (`value`).
//! - binary_copy-1. A malformed row is refused, with its row and column.
//!
//! The bounds of fields are found by `copy_fields`. Rows that are sent are those of DataRow
//! messages (`encode`).

use arrow::datatypes::Schema;
use tidegate_model::limits;

use super::copy_fields::{CopyBreach, CopyField, CopyFieldReader};
use super::error_response::{ErrorResponse, More};
use super::types::{PgType, columns};
use super::value::copied_text;

/// A reader of received rows.
pub(super) struct BinaryReader {
    columns: Vec<(String, PgType)>,
    fields: CopyFieldReader,
}

impl BinaryReader {
    /// Makes a reader for rows of these columns.
    pub(super) fn new(schema: &Schema) -> BinaryReader {
        let columns = columns(schema).into_iter().map(|column| (column.name, column.ty));
        let columns = columns.collect::<Vec<_>>();
        let fields = CopyFieldReader::new(columns.len(), limits::VALUE_BYTES);
        BinaryReader { columns, fields }
    }

    /// Takes received bytes, and appends the complete fields in them as text.
    pub(super) fn read(&mut self, bytes: &[u8], text: &mut Vec<u8>) -> Result<(), ErrorResponse> {
        self.fields.push(bytes);
        while let Some(field) = self.fields.next().map_err(|breach| self.breach(&breach))? {
            self.field(&field, text)?;
        }
        Ok(())
    }

    /// Returns the number of bytes of an incomplete field.
    pub(super) fn pending_bytes(&self) -> usize {
        self.fields.pending_bytes()
    }

    /// Checks that the rows end here.
    pub(super) fn end(&self) -> Result<(), ErrorResponse> {
        self.fields.end().map_err(|breach| self.breach(&breach))
    }

    fn field(&self, field: &CopyField, text: &mut Vec<u8>) -> Result<(), ErrorResponse> {
        match &field.value {
            None => text.extend_from_slice(b"\\N"),
            Some(value) => {
                let value = copied_text(self.columns[field.column].1, value);
                let value = value.map_err(|error| self.placed(error, Some(field.column)))?;
                push_escaped(value.as_bytes(), text);
            }
        }
        let is_last = field.column + 1 == self.columns.len();
        text.push(if is_last { b'\n' } else { b'\t' });
        Ok(())
    }

    fn breach(&self, breach: &CopyBreach) -> ErrorResponse {
        let code = match breach {
            CopyBreach::Length { length: 0.., .. } => "54000",
            _ => "22P04",
        };
        let (_, column) = self.fields.place();
        self.placed(ErrorResponse::new(code, breach.to_string()), column)
    }

    /// Adds the row and the column to an error (binary_copy-1).
    fn placed(&self, error: ErrorResponse, column: Option<usize>) -> ErrorResponse {
        let (row, _) = self.fields.place();
        let column = column.map(|at| self.columns[at].0.clone());
        let place = match &column {
            Some(column) => format!("COPY, row {row}, column {column}"),
            None => format!("COPY, row {row}"),
        };
        let more = More { column, place: Some(place), ..More::default() };
        ErrorResponse { more: Some(Box::new(more)), ..error }
    }
}

/// Appends a value as a field of COPY's text.
fn push_escaped(value: &[u8], text: &mut Vec<u8>) {
    for &byte in value {
        let letter = match byte {
            b'\\' => b'\\',
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            _ => {
                text.push(byte);
                continue;
            }
        };
        text.extend_from_slice(&[b'\\', letter]);
    }
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::{DataType, Field};

    use super::*;
    use crate::pg::copy_fields::{HEADER, TRAILER};

    const SIGNATURE: &[u8] = b"PGCOPY\n\xff\r\n\0";

    fn reader() -> BinaryReader {
        let fields = [("n", DataType::Int32), ("s", DataType::Utf8View)];
        let fields = fields.map(|(name, ty)| Field::new(name, ty, true));
        BinaryReader::new(&Schema::new(fields.to_vec()))
    }

    /// Returns the text of the rows, or the SQLSTATE with the place.
    fn read(bytes: &[u8], cut: usize) -> Result<String, (&'static str, Option<String>)> {
        let (mut reader, mut text) = (reader(), Vec::new());
        let parts = bytes.chunks(cut).map(|part| reader.read(part, &mut text));
        let read = parts.collect::<Result<Vec<()>, ErrorResponse>>().and_then(|_| reader.end());
        let place = |error: ErrorResponse| (error.code, error.more.and_then(|more| more.place));
        read.map(|()| String::from_utf8(text).unwrap()).map_err(place)
    }

    fn whole(rows: &[u8]) -> Vec<u8> {
        [&HEADER[..], rows].concat()
    }

    #[track_caller]
    fn check(rows: &[u8], expected: Result<&str, (&'static str, Option<&str>)>) {
        let bytes = whole(rows);
        for cut in 1..=bytes.len() {
            let place =
                |(code, place): (&'static str, Option<&str>)| (code, place.map(String::from));
            assert_eq!(
                read(&bytes, cut),
                expected.map(String::from).map_err(place),
                "copy_fields-1, {cut}"
            );
        }
    }

    const ROW: &[u8] = b"\0\x02\0\0\0\x04\xff\xff\xff\xfe\0\0\0\x03a\t\\";

    #[test]
    fn rows_become_the_text_of_a_copy() {
        let null = b"\0\x02\xff\xff\xff\xff\0\0\0\0";
        check(&[ROW, null, &TRAILER].concat(), Ok("-2\ta\\t\\\\\n\\N\t\n"));
        check(ROW, Ok("-2\ta\\t\\\\\n"));
        check(&TRAILER, Ok(""));
        let extended = [SIGNATURE, b"\0\0\xff\xff\0\0\0\x02??", &TRAILER].concat();
        assert_eq!(read(&extended, 3), Ok(String::new()));
    }

    #[test]
    fn malformed_rows_are_refused_at_their_place() {
        let at = |code, place| Err((code, Some(place)));
        check(b"\0\x03", at("22P04", "COPY, row 1"));
        check(&[ROW, b"\0\x02\0"].concat(), at("22P04", "COPY, row 2, column n"));
        check(&[&TRAILER[..], b"x"].concat(), at("22P04", "COPY, row 0"));
        check(b"\0\x02\xff\xff\xff\xfe", at("22P04", "COPY, row 1, column n"));
        check(b"\0\x02\x7f\xff\xff\xff", at("54000", "COPY, row 1, column n"));
        check(b"\0\x02\0\0\0\x01\0", at("22P03", "COPY, row 1, column n"));
        let text = b"\0\x02\xff\xff\xff\xff\0\0\0\x01\xff";
        check(text, at("22021", "COPY, row 1, column s"));
        let header = ("22P04", Some("COPY, row 0".to_owned()));
        assert_eq!(read(b"PGCOPY\n\xff\r\nx", 4), Err(header.clone()));
        let flags = [SIGNATURE, &[0, 1, 0, 0, 0, 0, 0, 0]].concat();
        assert_eq!(read(&flags, 5), Err(header.clone()));
        let extension = [SIGNATURE, &[0, 0, 0, 0, 0x7f, 0, 0, 0]].concat();
        assert_eq!(read(&extension, 5), Err(header.clone()), "copy_fields-2");
        assert_eq!(read(&HEADER[..7], 9).map_err(|it| it.0), Err("22P04"));
    }
}
