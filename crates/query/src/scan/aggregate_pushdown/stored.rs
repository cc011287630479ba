//! The columns of a scan as they are stored, and their bounds.

use datafusion::common::Result;
use tidegate_model::Column;
use tidegate_model::layout::Zone;

use crate::error::Error;
use crate::scan::ScanSource;

/// Returns a column of a scan; `None` for the ids of rows, which are not stored.
pub(super) fn stored_column(at: usize, source: &ScanSource) -> Option<&Column> {
    source.read.snapshot.schema.columns().get(source.read.output[at])
}

/// Returns the bounds of a column in the runs that are read, of those that have values.
pub(super) fn zones_of(column: &Column, source: &ScanSource) -> Result<Vec<Zone>> {
    let mut zones = Vec::new();
    for run in source.selected.groups.iter().flat_map(|group| &group.runs) {
        let reader = run.segment.reader().map_err(Error::Storage)?;
        let footer = reader.footer().column(column.id);
        zones.extend(footer.map(|footer| footer.bounds).filter(|zone| zone.has_value));
    }
    Ok(zones)
}
