//! Parser of a binary COPY into the fields of its rows.
//!
//! - copy_fields-1. Fields do not depend on the pieces in which the bytes arrive. At most one field
//!   is kept, of at most `value_max` bytes.
//! - copy_fields-2. Any bytes are either rows with exactly one field per column, or a `CopyBreach`,
//!   after which nothing more can be read.
//!
//! The format: `HEADER`, whose last eight bytes are flags and the length of an extension, rows of a
//! count (2 bytes) and fields after their lengths (4 bytes, -1 is NULL), and `TRAILER`, which may
//! be missing. Not here: the meaning of fields (`binary_copy`).

use bytes::{Buf, BytesMut};
use thiserror::Error;

const SIGNATURE: [u8; 11] = *b"PGCOPY\n\xff\r\n\0";
/// The flags that a reader must understand; none is known here.
const CRITICAL_FLAGS: u32 = 0xffff_0000;
/// The most bytes of an extension, more than any known one has.
const EXTENSION_MAX: usize = 64 << 10;

/// The bytes before rows that are sent: no flags, and no extension.
pub(crate) const HEADER: [u8; 19] = *b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";
/// The bytes after those rows.
pub(crate) const TRAILER: [u8; 2] = [0xff; 2];

/// A parser of fields (copy_fields-1).
#[derive(Debug)]
pub(crate) struct CopyFieldReader {
    columns: usize,
    value_max: usize,
    pending: BytesMut,
    next: Next,
    /// The number of rows that have begun.
    row: u64,
}

/// The next element of the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Header,
    /// The rest of an extension, in bytes, which is skipped.
    Extension(usize),
    Row,
    Field(usize),
    Nothing,
}

/// A field of the row that has begun last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CopyField {
    pub(crate) column: usize,
    /// `None` is NULL.
    pub(crate) value: Option<BytesMut>,
}

/// The error of malformed bytes.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum CopyBreach {
    #[error("COPY file signature not recognized")]
    Signature,
    #[error("the header has unknown flags {0:#010x}")]
    Flags(u32),
    #[error("the header declares an extension of {0} bytes, and the limit is {EXTENSION_MAX}")]
    Extension(i32),
    #[error("row field count is {count}, expected {expected}")]
    Count { count: i16, expected: usize },
    #[error("a field has the invalid length {length}: it must be from -1 to {max}")]
    Length { length: i32, max: usize },
    #[error("the data ends in the middle of a row")]
    Cut,
    #[error("bytes follow the last row")]
    Behind,
}

impl CopyFieldReader {
    /// Makes a parser for rows of this many columns, at least one, with values of at most this many
    /// bytes.
    pub(crate) fn new(columns: usize, value_max: usize) -> CopyFieldReader {
        assert!(0 < columns, "a table has columns");
        let (pending, next) = (BytesMut::new(), Next::Header);
        CopyFieldReader { columns, value_max, pending, next, row: 0 }
    }

    /// Takes received bytes; the caller then repeats `next` until it returns `None`.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
    }

    /// Returns the number of bytes of an incomplete field.
    pub(crate) fn pending_bytes(&self) -> usize {
        self.pending.len()
    }

    /// Returns the number of the row that has begun last, from 1, and its next column, if any.
    pub(crate) fn place(&self) -> (u64, Option<usize>) {
        match self.next {
            Next::Field(column) => (self.row, Some(column)),
            _ => (self.row, None),
        }
    }

    /// Returns the next field, if it is complete.
    pub(crate) fn next(&mut self) -> Result<Option<CopyField>, CopyBreach> {
        loop {
            self.next = match self.next {
                Next::Field(column) => return self.field(column),
                Next::Header if self.header_is_there()? => self.header()?,
                Next::Extension(left) => {
                    let skipped = left.min(self.pending.len());
                    self.pending.advance(skipped);
                    if skipped < left {
                        self.next = Next::Extension(left - skipped);
                        return Ok(None);
                    }
                    Next::Row
                }
                Next::Row if 2 <= self.pending.len() => self.row()?,
                Next::Header | Next::Row => return Ok(None),
                Next::Nothing if self.pending.is_empty() => return Ok(None),
                Next::Nothing => return Err(CopyBreach::Behind),
            }
        }
    }

    /// Checks that the input may end here. As in PostgreSQL, rows need no trailer.
    pub(crate) fn end(&self) -> Result<(), CopyBreach> {
        let is_whole = matches!(self.next, Next::Row | Next::Nothing);
        if is_whole && self.pending.is_empty() { Ok(()) } else { Err(CopyBreach::Cut) }
    }

    fn header_is_there(&self) -> Result<bool, CopyBreach> {
        let known = self.pending.len().min(SIGNATURE.len());
        match self.pending[..known] == SIGNATURE[..known] {
            true => Ok(HEADER.len() <= self.pending.len()),
            false => Err(CopyBreach::Signature),
        }
    }

    fn header(&mut self) -> Result<Next, CopyBreach> {
        self.pending.advance(SIGNATURE.len());
        let (flags, extension) = (self.pending.get_u32(), self.pending.get_i32());
        if flags & CRITICAL_FLAGS != 0 {
            return Err(CopyBreach::Flags(flags));
        }
        let bytes = usize::try_from(extension).ok().filter(|it| *it <= EXTENSION_MAX);
        bytes.map(Next::Extension).ok_or(CopyBreach::Extension(extension))
    }

    fn row(&mut self) -> Result<Next, CopyBreach> {
        let count = self.pending.get_i16();
        if count == -1 {
            return Ok(Next::Nothing);
        }
        self.row += 1;
        match usize::try_from(count) == Ok(self.columns) {
            true => Ok(Next::Field(0)),
            false => Err(CopyBreach::Count { count, expected: self.columns }),
        }
    }

    fn field(&mut self, column: usize) -> Result<Option<CopyField>, CopyBreach> {
        let Some(head) = self.pending.first_chunk::<4>() else { return Ok(None) };
        let value = match i32::from_be_bytes(*head) {
            -1 => {
                self.pending.advance(4);
                None
            }
            length => {
                let max = self.value_max;
                let bytes = usize::try_from(length).ok().filter(|it| *it <= max);
                let bytes = bytes.ok_or(CopyBreach::Length { length, max })?;
                if self.pending.len() < 4 + bytes {
                    return Ok(None);
                }
                self.pending.advance(4);
                Some(self.pending.split_to(bytes))
            }
        };
        let is_last = column + 1 == self.columns;
        self.next = if is_last { Next::Row } else { Next::Field(column + 1) };
        Ok(Some(CopyField { column, value }))
    }
}
