//! Detection of the format of times that a file stores as texts: once for each column of the table,
//! from a sample, as for a text file.

use arrow::array::AsArray;
use tidegate_model::schema::same_name;
use tidegate_model::{Schema, TimeUnit};

use crate::error::{Error, Result};
use crate::excerpt::shown;
use crate::options::ImportOptions;
use crate::sniff::Evidence;
use crate::timestamp::{TimestampFormat, TimestampParser};

use super::group::ParquetFile;

/// The number of row groups whose first rows are sampled.
const SAMPLED_GROUPS: usize = 24;

/// The formats of the times of each column of the table.
#[derive(Debug, Default)]
pub(super) struct TimeFormats {
    /// The formats; `None` if no file has texts for the column.
    pub(super) formats: Vec<Option<TimestampFormat>>,
    /// True for columns that are read day first, and could as well be month first.
    pub(super) ambiguous: Vec<bool>,
    pub(super) notes: Vec<String>,
}

impl TimeFormats {
    /// Samples the texts of all files.
    pub(super) fn sample(
        files: &[ParquetFile],
        schema: &Schema,
        options: &ImportOptions,
    ) -> Result<TimeFormats> {
        let mut time_formats = TimeFormats::default();
        for (index, column) in schema.columns().iter().enumerate() {
            let is_designated = schema.designated() == Some(column.id);
            let (mut format, mut is_ambiguous) = (None, false);
            if files.iter().any(|file| parses_times(file, index)) {
                let mut named = options.column_formats.iter();
                let own = named.find(|(name, _)| same_name(name, &column.name));
                let given = own.map(|(_, format)| format).or(options.timestamp_format.as_ref());
                if let Some(given) = given.filter(|_| own.is_some() || is_designated) {
                    format = Some(given.clone());
                } else {
                    let evidence = evidence(files, index, given);
                    if let Some((day_first, month_first)) = evidence.orders().both() {
                        return Err(Error::MixedDates {
                            path: files[0].path.clone(),
                            column: column.name.clone(),
                            day_first: shown(day_first),
                            month_first: shown(month_first),
                            other: None,
                        });
                    }
                    let best = evidence.best_format().clone();
                    is_ambiguous = best == TimestampFormat::DayFirst && evidence.is_ambiguous();
                    format = Some(best);
                }
            }
            if is_ambiguous {
                let name = &column.name;
                let note = format!("column `{name}` could be month first; read as day first");
                time_formats.notes.push(note);
            }
            time_formats.formats.push(format);
            time_formats.ambiguous.push(is_ambiguous);
        }
        Ok(time_formats)
    }
}

fn parses_times(file: &ParquetFile, column: usize) -> bool {
    file.columns[column].as_ref().is_some_and(|own| own.cast.parses_times())
}

/// The evidence of the first rows of some row groups of all files. Unreadable ones become errors
/// later, when they are read.
fn evidence(files: &[ParquetFile], column: usize, given: Option<&TimestampFormat>) -> Evidence {
    let mut evidence = Evidence::new(given);
    let groups = files.iter().filter(|file| parses_times(file, column));
    let groups =
        groups.flat_map(|file| (0..file.metadata.num_row_groups()).map(move |group| (file, group)));
    let groups: Vec<_> = groups.collect();
    let count = groups.len().min(SAMPLED_GROUPS);
    for sampled in 0..count {
        let (file, group) = groups[sampled * groups.len() / count];
        let batch = file.group(group, &[column]).and_then(|mut reader| reader.next());
        let array = batch.ok().flatten().and_then(|mut batch| batch.arrays[column].take());
        let Some(array) = array else { continue };
        let Some(texts) = array.as_binary_view_opt() else { continue };
        for text in texts.iter().flatten().filter(|text| !text.is_empty()) {
            evidence.add(text);
        }
    }
    evidence
}

/// Returns true if a text is a date month first, after it was found not to be one day first.
pub(super) fn is_month_first(text: &[u8]) -> bool {
    TimestampParser::new(&TimestampFormat::MonthFirst, TimeUnit::Micros).parse(text).is_ok()
}
