//! A reader of Thrift's compact protocol, in which a Parquet file stores its footer and the headers
//! of its pages.
//!
//! - thrift-1. Any bytes give sizes or a `Flaw`, never a panic, and nothing is allocated for
//!   declared sizes.
//! - thrift-2. Metadata that passes declares no list with more elements than bytes, no schema that
//!   is nested deeper than `limits::PARQUET_NESTING`, and no group with more columns than there
//!   are.
//!
//! The library that decodes the metadata reserves memory for the declared size of a list or a
//! group, and recurses into groups: damaged bytes would end the process instead of failing the
//! import. Not here: the meaning of the metadata, which the library decodes.

use tidegate_model::limits;

use crate::parquet_flaw::Flaw;

/// The sizes in the header of a page.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct PageSizes {
    /// 0 data, 1 index, 2 dictionary, 3 data of version 2.
    pub(super) kind: i64,
    pub(super) uncompressed: i64,
    pub(super) compressed: i64,
    /// The bytes of levels, which version 2 never compresses.
    pub(super) levels: i64,
    /// Rows of a flat column, or values of its dictionary.
    pub(super) values: i64,
    /// The bytes of the header itself.
    pub(super) header: usize,
}

pub(super) const INDEX_PAGE: i64 = 1;
pub(super) const DICTIONARY_PAGE: i64 = 2;

/// Checks the footer of a file (thrift-2).
pub(super) fn check_footer(bytes: &[u8]) -> Result<(), Flaw> {
    let mut walk = Walk { bytes, at: 0 };
    let mut schema = Schema::default();
    walk.fields(0, &mut |walk, id, ty, depth| match (id, ty) {
        (FILE_SCHEMA, LIST) => schema.read(walk, depth),
        (FILE_ENCRYPTION, STRUCT) => Err(Flaw::Encrypted),
        _ => walk.skip(ty, depth),
    })
}

/// Reads the header of a page; `None` if it continues behind these bytes.
pub(super) fn page_sizes(bytes: &[u8]) -> Result<Option<PageSizes>, Flaw> {
    let mut walk = Walk { bytes, at: 0 };
    let mut sizes = PageSizes::default();
    let read = walk.fields(0, &mut |walk, id, ty, depth| {
        match (id, ty) {
            (1, I32) => sizes.kind = walk.integer()?,
            (2, I32) => sizes.uncompressed = walk.integer()?,
            (3, I32) => sizes.compressed = walk.integer()?,
            (5 | 7 | 8, STRUCT) => {
                let (values, levels) = (&mut sizes.values, &mut sizes.levels);
                let kind = id;
                walk.fields(depth, &mut |walk, id, ty, depth| match (kind, id, ty) {
                    (_, 1, I32) => {
                        *values = walk.integer()?;
                        Ok(())
                    }
                    (8, 5 | 6, I32) => {
                        *levels = levels.saturating_add(walk.integer()?);
                        Ok(())
                    }
                    _ => walk.skip(ty, depth),
                })?;
            }
            _ => walk.skip(ty, depth)?,
        }
        Ok(())
    });
    match read {
        Ok(()) => Ok(Some(PageSizes { header: walk.at, ..sizes })),
        Err(Flaw::MetadataCut) => Ok(None),
        Err(flaw) => Err(flaw),
    }
}

/// The field of a footer that lists the schema.
const FILE_SCHEMA: i64 = 2;
/// The field of a footer that describes the encryption of columns, and the field of a schema's
/// element with its number of children.
const FILE_ENCRYPTION: i64 = 8;
const ELEMENT_CHILDREN: i64 = 5;

/// The types of the compact protocol.
const TRUE: u8 = 1;
const FALSE: u8 = 2;
const BYTE: u8 = 3;
const I16: u8 = 4;
const I32: u8 = 5;
const I64: u8 = 6;
const DOUBLE: u8 = 7;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const SET: u8 = 10;
const MAP: u8 = 11;
const STRUCT: u8 = 12;
const UUID: u8 = 13;

/// The elements of a schema, stored one after the other, each group before its children.
#[derive(Debug, Default)]
struct Schema {
    /// For each open group, the number of children still to come.
    open: Vec<i64>,
}

impl Schema {
    fn read(&mut self, walk: &mut Walk<'_>, depth: usize) -> Result<(), Flaw> {
        let (count, ty) = walk.list()?;
        self.open.clear();
        for element in 0..count {
            if ty != STRUCT {
                walk.element(ty, depth)?;
                continue;
            }
            let mut children = 0;
            walk.fields(depth, &mut |walk, id, ty, depth| match (id, ty) {
                (ELEMENT_CHILDREN, I32) => {
                    children = walk.integer()?;
                    Ok(())
                }
                _ => walk.skip(ty, depth),
            })?;
            let left = i64::try_from(count - element - 1).unwrap_or(i64::MAX);
            if children < 0 || children > left {
                return Err(Flaw::SchemaCut);
            }
            self.add(children)?;
        }
        Ok(())
    }

    fn add(&mut self, children: i64) -> Result<(), Flaw> {
        if let Some(open) = self.open.last_mut() {
            *open -= 1;
        }
        if children > 0 {
            self.open.push(children);
        }
        while self.open.last().is_some_and(|&left| left <= 0) {
            self.open.pop();
        }
        match self.open.len() > limits::PARQUET_NESTING {
            true => Err(Flaw::SchemaTooDeep { max: limits::PARQUET_NESTING }),
            false => Ok(()),
        }
    }
}

/// A position in the bytes of the compact protocol.
struct Walk<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// A function that takes a field of a struct: its number, its type, and the nesting of the struct.
type TakeField<'b> = dyn FnMut(&mut Walk<'_>, i64, u8, usize) -> Result<(), Flaw> + 'b;

impl Walk<'_> {
    fn byte(&mut self) -> Result<u8, Flaw> {
        let byte = *self.bytes.get(self.at).ok_or(Flaw::MetadataCut)?;
        self.at += 1;
        Ok(byte)
    }

    fn advance(&mut self, bytes: u64) -> Result<(), Flaw> {
        let end = usize::try_from(bytes).ok().and_then(|bytes| self.at.checked_add(bytes));
        self.at = end.filter(|&end| end <= self.bytes.len()).ok_or(Flaw::MetadataCut)?;
        Ok(())
    }

    fn varint(&mut self) -> Result<u64, Flaw> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7F) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Flaw::Metadata)
    }

    /// A signed number, whose sign is in the lowest bit.
    fn integer(&mut self) -> Result<i64, Flaw> {
        let value = self.varint()?;
        Ok((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
    }

    /// The number of elements of a list, and their type.
    fn list(&mut self) -> Result<(u64, u8), Flaw> {
        let header = self.byte()?;
        let count = match header >> 4 {
            15 => self.varint()?,
            count => count.into(),
        };
        let left = (self.bytes.len() - self.at) as u64;
        match count > left {
            // Each element has at least one byte.
            true => Err(Flaw::MetadataCut),
            false => Ok((count, header & 15)),
        }
    }

    /// Calls `take` for each field of a struct at this position.
    fn fields(&mut self, depth: usize, take: &mut TakeField<'_>) -> Result<(), Flaw> {
        if depth > limits::PARQUET_NESTING {
            return Err(Flaw::Metadata);
        }
        let mut id = 0;
        loop {
            let header = self.byte()?;
            if header == 0 {
                return Ok(());
            }
            id = match header >> 4 {
                0 => self.integer()?,
                delta => i64::from(delta) + id,
            };
            take(self, id, header & 15, depth + 1)?;
        }
    }

    /// Skips the value of a field.
    fn skip(&mut self, ty: u8, depth: usize) -> Result<(), Flaw> {
        match ty {
            // The type itself is the value.
            TRUE | FALSE => Ok(()),
            _ => self.element(ty, depth),
        }
    }

    /// Skips an element of a list.
    fn element(&mut self, ty: u8, depth: usize) -> Result<(), Flaw> {
        if depth > limits::PARQUET_NESTING {
            return Err(Flaw::Metadata);
        }
        match ty {
            TRUE | FALSE | BYTE => self.advance(1),
            I16 | I32 | I64 => self.varint().map(|_| ()),
            DOUBLE => self.advance(8),
            UUID => self.advance(16),
            BINARY => {
                let bytes = self.varint()?;
                self.advance(bytes)
            }
            LIST | SET => {
                let (count, ty) = self.list()?;
                (0..count).try_for_each(|_| self.element(ty, depth + 1))
            }
            MAP => self.map(depth),
            STRUCT => self.fields(depth, &mut |walk, _, ty, depth| walk.skip(ty, depth)),
            _ => Err(Flaw::Metadata),
        }
    }

    fn map(&mut self, depth: usize) -> Result<(), Flaw> {
        let count = self.varint()?;
        if count == 0 {
            return Ok(());
        }
        let types = self.byte()?;
        if count > (self.bytes.len() - self.at) as u64 {
            return Err(Flaw::MetadataCut);
        }
        (0..count).try_for_each(|_| {
            self.element(types >> 4, depth + 1)?;
            self.element(types & 15, depth + 1)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A list field of the footer, whose header declares this many structs.
    fn schema_of(count: u8, elements: &[&[u8]]) -> Vec<u8> {
        let mut bytes = vec![0x29, 0xFC, count];
        elements.iter().for_each(|element| bytes.extend_from_slice(element));
        bytes.push(0);
        bytes
    }

    /// An element of a schema with only its number of children.
    fn group(children: u8) -> Vec<u8> {
        vec![0x55, 2 * children, 0]
    }

    #[test]
    fn a_schema_is_as_large_as_it_says() {
        let (leaf, two) = (vec![0], group(2));
        assert_eq!(check_footer(&schema_of(3, &[&two, &leaf, &leaf])), Ok(()));
        let more = schema_of(3, &[&group(3), &leaf, &leaf]);
        assert_eq!(check_footer(&more), Err(Flaw::SchemaCut));
        let less_than_none = [0x29, 0x1C, 0x55, 0x01, 0, 0];
        assert_eq!(check_footer(&less_than_none), Err(Flaw::SchemaCut));
    }

    #[test]
    fn a_schema_is_not_nested_without_end() {
        let one = group(1);
        let deep = |depth: usize| {
            let mut elements = vec![one.as_slice(); depth];
            elements.push(&[0]);
            check_footer(&schema_of(u8::try_from(depth + 1).unwrap(), &elements))
        };
        let max = limits::PARQUET_NESTING;
        assert_eq!(deep(max), Ok(()));
        assert_eq!(deep(max + 1), Err(Flaw::SchemaTooDeep { max }));
    }

    /// A billion row groups, in a list of ten bytes.
    #[test]
    fn a_list_has_no_more_elements_than_bytes() {
        let bytes = [0x49, 0xFC, 0x80, 0x94, 0xEB, 0xDC, 0x03, 0, 0, 0];
        assert_eq!(check_footer(&bytes), Err(Flaw::MetadataCut));
    }

    #[test]
    fn any_short_bytes_are_walked_to_an_end() {
        let mut random = 1_u64;
        for _ in 0..20_000 {
            let bytes: Vec<u8> = (0..24)
                .map(|_| {
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    random.to_le_bytes()[6]
                })
                .collect();
            let _ = check_footer(&bytes);
            if let Ok(Some(sizes)) = page_sizes(&bytes) {
                assert!(sizes.header <= bytes.len(), "thrift-1");
            }
        }
    }

    #[test]
    fn the_sizes_of_a_page_are_read() {
        // A data page of version 2: 200 bytes, 100 of them stored, 9 values, levels of 3 and 4.
        let bytes = [
            0x15, 6, 0x15, 0x90, 0x03, 0x15, 0xC8, 0x01, 0x5C, 0x15, 18, 0x45, 6, 0x15, 8, 0, 0,
            0xFF,
        ];
        let (uncompressed, compressed) = (200, 100);
        let wanted =
            PageSizes { kind: 3, uncompressed, compressed, levels: 7, values: 9, header: 17 };
        assert_eq!(page_sizes(&bytes), Ok(Some(wanted)));
        assert_eq!(page_sizes(&bytes[..10]), Ok(None));
    }
}
