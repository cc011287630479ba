//! Little-endian bytes, written and read: the primitives of every format on disk.
//!
//! - bytes-1. A reader never reads past its end: bytes from disk can be anything, so it returns
//!   `Truncated`.

use thiserror::Error;

/// The bytes end before the value does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{wanted} bytes expected at offset {offset}, but only {left} are left")]
pub struct Truncated {
    /// Offset at which the value begins.
    pub offset: usize,
    /// Bytes that the value has.
    pub wanted: usize,
    /// Bytes that are left.
    pub left: usize,
}

/// Appends values to bytes.
#[derive(Debug, Default)]
pub struct ByteWriter(pub Vec<u8>);

macro_rules! integers {
    ($($name:ident: $ty:ty),*) => {
        impl ByteWriter {
            $(
                /// Appends the integer in little-endian order.
                pub fn $name(&mut self, value: $ty) -> &mut Self {
                    self.0.extend_from_slice(&value.to_le_bytes());
                    self
                }
            )*
        }

        impl ByteReader<'_> {
            $(
                /// Reads an integer in little-endian order.
                ///
                /// # Errors
                /// `Truncated` if the bytes end earlier (bytes-1).
                pub fn $name(&mut self) -> Result<$ty, Truncated> {
                    self.array().map(<$ty>::from_le_bytes)
                }
            )*
        }
    };
}

integers!(u8: u8, u16: u16, u32: u32, u64: u64, i64: i64, i128: i128);

impl ByteWriter {
    /// Appends the bytes as they are.
    pub fn raw(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self
    }

    /// Appends a length of four bytes and the bytes.
    pub fn counted(&mut self, bytes: &[u8]) -> &mut Self {
        self.u32(u32::try_from(bytes.len()).expect("counted bytes are names and small lists"));
        self.raw(bytes)
    }

    /// Appends zeros up to a multiple of `align`.
    pub fn pad(&mut self, align: usize) -> &mut Self {
        self.0.resize(self.0.len().next_multiple_of(align), 0);
        self
    }
}

/// Reads values from the front of bytes.
#[derive(Debug, Clone)]
pub struct ByteReader<'a> {
    bytes: &'a [u8],
    offset: usize,
}

impl<'a> ByteReader<'a> {
    /// Reads from the first byte on.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> ByteReader<'a> {
        ByteReader { bytes, offset: 0 }
    }

    /// Number of bytes read.
    #[must_use]
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Number of bytes left.
    #[must_use]
    pub fn left(&self) -> usize {
        self.bytes.len() - self.offset
    }

    /// The next `count` bytes.
    ///
    /// # Errors
    /// `Truncated` if the bytes end earlier (bytes-1).
    pub fn raw(&mut self, count: usize) -> Result<&'a [u8], Truncated> {
        let left = self.left();
        if count > left {
            return Err(Truncated { offset: self.offset, wanted: count, left });
        }
        let taken = &self.bytes[self.offset..self.offset + count];
        self.offset += count;
        Ok(taken)
    }

    /// The next `N` bytes.
    ///
    /// # Errors
    /// `Truncated` if the bytes end earlier (bytes-1).
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Truncated> {
        self.raw(N).map(|bytes| bytes.try_into().expect("N bytes were taken"))
    }

    /// A length of four bytes and that many bytes.
    ///
    /// # Errors
    /// `Truncated` if the bytes end earlier (bytes-1).
    pub fn counted(&mut self) -> Result<&'a [u8], Truncated> {
        let count = self.u32()?;
        self.raw(count as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_values_are_read_back_to_the_last_byte() {
        let mut writer = ByteWriter::default();
        writer.u8(7).u16(300).u32(70_000).u64(1 << 40).i64(-5).i128(-9).counted(b"name").pad(8);
        let mut reader = ByteReader::new(&writer.0);
        assert_eq!(reader.u8(), Ok(7));
        assert_eq!(reader.u16(), Ok(300));
        assert_eq!(reader.u32(), Ok(70_000));
        assert_eq!(reader.u64(), Ok(1 << 40));
        assert_eq!(reader.i64(), Ok(-5));
        assert_eq!(reader.i128(), Ok(-9));
        assert_eq!(reader.counted(), Ok(&b"name"[..]));
        let left = reader.left();
        assert!(left < 8);
        let offset = reader.offset();
        assert_eq!(reader.raw(8), Err(Truncated { offset, wanted: 8, left }));
    }
}
