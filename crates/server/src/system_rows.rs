//! Columns of the server's own tables, from values that may be missing.
//!
//! Not here: the tables themselves (`ilp::rejects`, `copy::log`).

use std::collections::HashMap;
use std::sync::Arc;

use tidegate_model::{ColumnType, PartitionUnit, TimeUnit, Ttl};
use tidegate_storage::{
    AppendOptions, BatchColumn, BatchTexts, BatchValues, Database, NewTableOptions, RowBatch,
    TableAppend,
};

/// Makes rows for a table that is ordered by its column `ts`, partitioned by day, and created if it
/// is missing.
pub(crate) fn append(table: &str, rows: usize, columns: Vec<BatchColumn>) -> TableAppend {
    TableAppend {
        table: table.to_owned(),
        id: None,
        create: Some(NewTableOptions {
            designated: "ts".to_owned(),
            partition_by: PartitionUnit::Day,
        }),
        add_columns: true,
        made_for: None,
        rows: RowBatch::new(rows, columns),
    }
}

/// Writes rows, and sets the retention of their tables.
pub(crate) fn write(
    database: &Arc<Database>,
    appends: &[TableAppend],
    retention: Option<Ttl>,
) -> tidegate_storage::Result<()> {
    database.append(appends, &AppendOptions::default())?;
    for append in appends {
        match database.schema_of(&append.table) {
            Some(schema) if schema.ttl() != retention => {
                database.set_ttl(&append.table, retention)?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// Makes the designated timestamp: microseconds since 1970.
pub(crate) fn times(values: impl Iterator<Item = i64>) -> BatchColumn {
    BatchColumn {
        name: "ts".to_owned(),
        ty: ColumnType::Timestamp(TimeUnit::Micros),
        values: BatchValues::I64(values.collect()),
        validity: None,
    }
}

pub(crate) fn counts(name: &str, values: impl Iterator<Item = Option<u64>> + Clone) -> BatchColumn {
    let signed =
        |value: Option<u64>| value.map_or(0, |value| i64::try_from(value).unwrap_or(i64::MAX));
    BatchColumn {
        name: name.to_owned(),
        ty: ColumnType::Int64,
        values: BatchValues::I64(values.clone().map(signed).collect()),
        validity: validity(values.map(|value| value.is_some())),
    }
}

pub(crate) fn texts<'a>(
    name: &str,
    values: impl Iterator<Item = Option<&'a str>> + Clone,
) -> BatchColumn {
    let mut texts = BatchTexts::default();
    for value in values.clone() {
        texts.push(value.unwrap_or_default().as_bytes());
    }
    BatchColumn {
        name: name.to_owned(),
        ty: ColumnType::Varchar,
        values: BatchValues::Texts(texts),
        validity: validity(values.map(|value| value.is_some())),
    }
}

pub(crate) fn symbols<'a>(
    name: &str,
    values: impl Iterator<Item = Option<&'a str>> + Clone,
) -> BatchColumn {
    let (mut codes, mut texts) = (Vec::new(), BatchTexts::default());
    let mut known = HashMap::new();
    for value in values.clone() {
        let text = value.unwrap_or_default();
        let next = u32::try_from(known.len()).expect("at most one a row of a batch");
        let code = *known.entry(text).or_insert(next);
        if code == next {
            texts.push(text.as_bytes());
        }
        codes.push(code);
    }
    BatchColumn {
        name: name.to_owned(),
        ty: ColumnType::Symbol,
        values: BatchValues::Symbols { codes, texts },
        validity: validity(values.map(|value| value.is_some())),
    }
}

/// Returns a bit for each value; `None` if all are set.
fn validity(bits: impl Iterator<Item = bool>) -> Option<Vec<u64>> {
    let (mut words, mut count, mut set) = (Vec::new(), 0_usize, 0_usize);
    for bit in bits {
        if count.is_multiple_of(64) {
            words.push(0_u64);
        }
        if let Some(word) = words.last_mut() {
            *word |= u64::from(bit) << (count % 64);
        }
        count += 1;
        set += usize::from(bit);
    }
    (set < count).then_some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_values_are_not_valid() {
        assert_eq!(validity([true, true].into_iter()), None);
        assert_eq!(validity([true, false, true].into_iter()), Some(vec![0b101]));
        let bits = (0..65).map(|bit| bit == 64);
        assert_eq!(validity(bits), Some(vec![0, 1]));
    }

    #[test]
    fn symbols_that_come_again_are_one() {
        let values = [Some("a"), Some("b"), Some("a"), None];
        let column = symbols("table_name", values.into_iter());
        let BatchValues::Symbols { codes, texts } = &column.values else { panic!("symbols") };
        assert_eq!((codes.as_slice(), texts.get(1)), (&[0, 1, 0, 2][..], &b"b"[..]));
        assert_eq!(column.validity, Some(vec![0b0111]));
    }
}
