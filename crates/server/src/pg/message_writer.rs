//! Writer of the server's messages, into one buffer that is reused.
//!
//! - message_writer-1. A message is begun, filled and ended; its length is set at its end. None
//!   exceeds a length of four bytes: `limits::ROW_BYTES` stops rows long before.

use bytes::{BufMut, BytesMut};

use super::encode::Format;
use super::error_response::{ErrorResponse, Severity};
use super::types::Column;

/// The status of a transaction in ReadyForQuery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    Idle,
    InTransaction,
    /// An error has occurred, and ROLLBACK is awaited.
    Failed,
}

/// The bytes that wait to be sent.
#[derive(Debug, Default)]
pub(super) struct MessageWriter {
    pub(super) bytes: BytesMut,
}

/// A message that is being written: the offset of its length.
#[must_use]
pub(super) struct Begun(usize);

impl MessageWriter {
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn begin(&mut self, tag: u8) -> Begun {
        self.bytes.put_u8(tag);
        let begun = Begun(self.bytes.len());
        self.bytes.put_u32(0);
        begun
    }

    pub(super) fn end(&mut self, begun: Begun) {
        let length = u32::try_from(self.bytes.len() - begun.0).expect("message_writer-1");
        self.bytes[begun.0..begun.0 + 4].copy_from_slice(&length.to_be_bytes());
    }

    /// Writes an authentication message with a code.
    pub(super) fn authentication(&mut self, code: u32, rest: &[u8]) {
        let begun = self.begin(b'R');
        self.bytes.put_u32(code);
        self.bytes.put_slice(rest);
        self.end(begun);
    }

    pub(super) fn parameter_status(&mut self, name: &str, value: &str) {
        let begun = self.begin(b'S');
        self.text(name);
        self.text(value);
        self.end(begun);
    }

    pub(super) fn backend_key(&mut self, process: u32, secret: u32) {
        let begun = self.begin(b'K');
        self.bytes.put_u32(process);
        self.bytes.put_u32(secret);
        self.end(begun);
    }

    pub(super) fn negotiate(&mut self, options: &[String]) {
        let begun = self.begin(b'v');
        // Protocol 3.0.
        self.bytes.put_u32(3 << 16);
        self.count(options.len());
        options.iter().for_each(|option| self.text(option));
        self.end(begun);
    }

    pub(super) fn ready(&mut self, status: Status) {
        let begun = self.begin(b'Z');
        self.bytes.put_u8(match status {
            Status::Idle => b'I',
            Status::InTransaction => b'T',
            Status::Failed => b'E',
        });
        self.end(begun);
    }

    /// Writes a message without content.
    pub(super) fn empty(&mut self, tag: u8) {
        let begun = self.begin(tag);
        self.end(begun);
    }

    pub(super) fn complete(&mut self, tag: &str) {
        let begun = self.begin(b'C');
        self.text(tag);
        self.end(begun);
    }

    /// Writes the message that begins to receive (`G`) or send (`H`) the rows of a COPY.
    pub(super) fn copy(&mut self, tag: u8, columns: usize, format: Format) {
        let begun = self.begin(tag);
        let code = u8::from(format == Format::Binary);
        self.bytes.put_u8(code);
        let columns = u16::try_from(columns).unwrap_or(u16::MAX);
        self.bytes.put_u16(columns);
        (0..columns).for_each(|_| self.bytes.put_u16(code.into()));
        self.end(begun);
    }

    pub(super) fn parameter_types(&mut self, types: &[u32]) {
        let begun = self.begin(b't');
        let count = u16::try_from(types.len());
        self.bytes.put_u16(count.expect("limits::STATEMENT_PARAMETERS fits into two bytes"));
        types.iter().for_each(|&oid| self.bytes.put_u32(oid));
        self.end(begun);
    }

    /// Writes the columns of rows, with the format of each.
    pub(super) fn row_description(&mut self, columns: &[Column], formats: &[bool]) {
        let begun = self.begin(b'T');
        self.bytes.put_u16(u16::try_from(columns.len()).unwrap_or(u16::MAX));
        for (at, column) in columns.iter().enumerate().take(usize::from(u16::MAX)) {
            self.text(&column.name);
            self.bytes.put_u32(column.table);
            self.bytes.put_i16(column.number);
            self.bytes.put_u32(column.ty.oid);
            self.bytes.put_i16(column.ty.size);
            self.bytes.put_i32(column.modifier);
            self.bytes.put_u16(u16::from(formats.get(at).copied().unwrap_or(false)));
        }
        self.end(begun);
    }

    pub(super) fn error_response(&mut self, response: &ErrorResponse) {
        let begun = self.begin(if response.severity == Severity::Warning { b'N' } else { b'E' });
        let severity = match response.severity {
            Severity::Error => "ERROR",
            Severity::Fatal => "FATAL",
            Severity::Warning => "WARNING",
        };
        let position = response.position.map(|position| (position + 1).to_string());
        let more = response.more.clone().unwrap_or_default();
        for (field, value) in [
            (b'S', Some(severity)),
            (b'V', Some(severity)),
            (b'C', Some(response.code)),
            (b'M', Some(response.message.as_str())),
            (b'H', more.hint.as_deref()),
            (b'P', position.as_deref()),
            (b'W', more.place.as_deref()),
            (b't', more.table.as_deref()),
            (b'c', more.column.as_deref()),
            (b'R', response.routine),
        ] {
            if let Some(value) = value {
                self.bytes.put_u8(field);
                self.text(value);
            }
        }
        self.bytes.put_u8(0);
        self.end(begun);
    }

    fn count(&mut self, count: usize) {
        self.bytes.put_u32(u32::try_from(count).expect("message_writer-1"));
    }

    /// Writes a text and its NUL; a text with a NUL in it is cut off there.
    fn text(&mut self, text: &str) {
        let text = text.as_bytes();
        let end = memchr::memchr(0, text).unwrap_or(text.len());
        self.bytes.put_slice(&text[..end]);
        self.bytes.put_u8(0);
    }
}
