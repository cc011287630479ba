//! Parsing of rows in the two-line format of TSBS, a line of tags and a line of values, and the ids
//! of tag sets, for databases that keep tags in a table of their own.
//!
//! Base tags are the tags that all measurements have; extra tags are those of one measurement.
//!
//! - tagged-1. A set of base tags has one id for all workers; the worker that meets it first writes
//!   it to the table.
//! - tagged-2. Sets that the table has from an earlier load keep their ids.

use std::collections::HashMap;
use std::sync::Mutex;

use memchr::memchr;

use crate::error::{Error, Result};
use crate::tsbs::load::rows::Header;
use crate::tsbs::pipeline::lock;

/// A parsed row.
pub(super) struct TaggedRow<'a> {
    /// The base tags: `key=value`, separated by commas.
    pub(super) base: &'a str,
    /// The extra tags in the same form; may be empty.
    pub(super) extra: &'a str,
    pub(super) name: &'a str,
    /// Nanoseconds since 1970.
    pub(super) ts: i64,
    /// The values, separated by commas; an empty one is no value.
    pub(super) cells: &'a str,
}

/// Parses the rows of a batch; `base_tags` is the number of base tags.
pub(super) fn rows<'a>(
    text: &'a [u8],
    base_tags: usize,
) -> impl Iterator<Item = Result<TaggedRow<'a>>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let tags_end = memchr(b'\n', rest)?;
        let row_end = tags_end + 1 + memchr(b'\n', &rest[tags_end + 1..])?;
        let (tags, row) = (&rest[..tags_end], &rest[tags_end + 1..row_end]);
        rest = &rest[row_end + 1..];
        Some(parse(tags, row, base_tags))
    })
}

fn parse<'a>(tags: &'a [u8], row: &'a [u8], base_tags: usize) -> Result<TaggedRow<'a>> {
    let bad = |text: &[u8]| Error::BadValue {
        place: "a row",
        expected: "row",
        text: String::from_utf8_lossy(text).into_owned(),
    };
    let tags = std::str::from_utf8(tags).ok().and_then(|tags| tags.strip_prefix("tags,"));
    let tags = tags.ok_or_else(|| bad(row))?;
    let text = std::str::from_utf8(row).map_err(|_| bad(row))?;
    let mut parts = text.splitn(3, ',');
    let name = parts.next().unwrap_or_default();
    let ts = parts.next().and_then(|ts| ts.parse().ok()).ok_or_else(|| bad(row))?;
    let cells = parts.next().ok_or_else(|| bad(row))?;
    let mut commas = tags.match_indices(',').map(|(at, _)| at);
    let end = base_tags.checked_sub(1).and_then(|n| commas.nth(n));
    let (base, extra) = end.map_or((tags, ""), |end| (&tags[..end], &tags[end + 1..]));
    Ok(TaggedRow { base, extra, name, ts, cells })
}

/// Returns the keys and values of tags.
pub(super) fn pairs(tags: &str) -> impl Iterator<Item = (&str, &str)> {
    tags.split(',').filter_map(|pair| pair.split_once('='))
}

/// Returns extra tags as a JSON object; `None` if there are none.
pub(super) fn json(extra: &str) -> Option<String> {
    if extra.is_empty() {
        return None;
    }
    let object = pairs(extra).map(|(key, value)| (key.to_owned(), value.into()));
    Some(serde_json::Value::Object(object.collect()).to_string())
}

/// Parses the value of a field; `None` if it is empty.
pub(super) fn float(cell: &str) -> Result<Option<f64>> {
    if cell.is_empty() {
        return Ok(None);
    }
    let parsed = cell.parse().map(Some);
    parsed.map_err(|_| Error::BadValue {
        place: "a field",
        expected: "number",
        text: cell.to_owned(),
    })
}

/// The ids of all sets of base tags (tagged-1).
#[derive(Default)]
pub(super) struct TagIds {
    ids: Mutex<Ids>,
}

#[derive(Default)]
struct Ids {
    ids: HashMap<String, u32>,
    /// The largest id in use.
    last: u32,
}

impl TagIds {
    /// Adds an id that the table has already (tagged-2); `base` is in the form of
    /// `TaggedRow::base`.
    pub(super) fn insert(&self, id: u32, base: String) {
        let mut ids = lock(&self.ids);
        ids.last = ids.last.max(id);
        ids.ids.insert(base, id);
    }
}

/// Formats a set of base tags like `TaggedRow::base`: in the order of the header, NULL as an empty
/// value.
pub(super) fn base_of<'a>(
    header: &Header,
    values: impl Iterator<Item = Option<&'a str>>,
) -> String {
    let pairs = header.tags.iter().zip(values);
    let pairs = pairs.map(|((name, _), value)| format!("{name}={}", value.unwrap_or_default()));
    pairs.collect::<Vec<_>>().join(",")
}

/// The ids that one worker has used already, so that it looks them up without a lock.
#[derive(Default)]
pub(super) struct KnownTags {
    ids: HashMap<String, u32>,
}

impl KnownTags {
    /// Returns the id of a set of base tags; a set that is new to all workers is pushed to `new`.
    pub(super) fn id(&mut self, all: &TagIds, base: &str, new: &mut Vec<(u32, String)>) -> u32 {
        if let Some(&id) = self.ids.get(base) {
            return id;
        }
        let mut all = lock(&all.ids);
        let id = match all.ids.get(base) {
            Some(&id) => id,
            None => {
                all.last = all.last.checked_add(1).expect("at most 2^32 sets of tags");
                let id = all.last;
                all.ids.insert(base.to_owned(), id);
                new.push((id, base.to_owned()));
                id
            }
        };
        drop(all);
        self.ids.insert(base.to_owned(), id);
        id
    }
}

/// Returns the fields of a measurement, from the header.
pub(super) fn fields<'a>(header: &'a Header, name: &str) -> Result<&'a [String]> {
    let found = header.measurements.iter().find(|(measurement, _)| measurement == name);
    let missing = || Error::NoSuchMeasurement { name: name.to_owned() };
    found.map(|(_, fields)| fields.as_slice()).ok_or_else(missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extra_tags_are_separated_from_base_tags() {
        let text = b"tags,a=1,b=,c=x,d=y\ndisk,10,1,,2.5\ntags,a=2,b=3\ncpu,-5,\n";
        let rows: Vec<_> = rows(text, 2).map(Result::unwrap).collect();
        assert_eq!((rows[0].base, rows[0].extra), ("a=1,b=", "c=x,d=y"));
        assert_eq!((rows[0].name, rows[0].ts, rows[0].cells), ("disk", 10, "1,,2.5"));
        assert_eq!(json(rows[0].extra).unwrap(), r#"{"c":"x","d":"y"}"#);
        assert_eq!((rows[1].base, rows[1].extra, rows[1].ts), ("a=2,b=3", "", -5));
        assert_eq!(json(""), None);
    }

    #[test]
    fn a_set_of_tags_has_one_id() {
        let all = TagIds::default();
        let mut new = Vec::new();
        let (mut one, mut other) = (KnownTags::default(), KnownTags::default());
        assert_eq!(one.id(&all, "a=1", &mut new), 1);
        assert_eq!(other.id(&all, "a=2", &mut new), 2);
        assert_eq!(other.id(&all, "a=1", &mut new), 1);
        assert_eq!(one.id(&all, "a=1", &mut new), 1);
        assert_eq!(new, [(1, "a=1".to_owned()), (2, "a=2".to_owned())], "tagged-1");
    }

    #[test]
    fn a_set_of_an_earlier_load_keeps_its_id() {
        let header = Header {
            tags: vec![("a".to_owned(), true), ("b".to_owned(), false)],
            ..Header::default()
        };
        let all = TagIds::default();
        all.insert(7, base_of(&header, [Some("x"), None].into_iter()));
        all.insert(3, base_of(&header, [None, Some("1500")].into_iter()));
        let (mut known, mut new) = (KnownTags::default(), Vec::new());
        assert_eq!(known.id(&all, "a=,b=1500", &mut new), 3, "tagged-2");
        assert_eq!(known.id(&all, "a=x,b=", &mut new), 7, "tagged-2");
        assert_eq!(known.id(&all, "a=y,b=", &mut new), 8);
        assert_eq!(new, [(8, "a=y,b=".to_owned())]);
    }
}
