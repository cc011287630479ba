//! The summary of a finished import, and its exit code.

use std::fmt;

use tidegate_ingest::ImportSummary;

use crate::error::Exit;
use crate::output::printable;
use crate::text::{bytes, count, counted, elapsed, grouped};

/// Most reasons of rejects that are shown; the rejects file has all of them.
const REASONS_MAX: usize = 5;

/// Most names of a header that are shown.
const NAMES_MAX: usize = 10;

/// A finished import.
pub(crate) struct Report<'a> {
    pub(crate) table: &'a str,
    pub(crate) summary: &'a ImportSummary,
    /// Time from opening the input to the commit.
    pub(crate) nanos: u64,
}

impl Report<'_> {
    /// Returns `Done` if every row and cell was imported, else `Partial`.
    pub(crate) fn exit(&self) -> Exit {
        let is_whole = self.summary.rows_rejected == 0 && self.summary.cells_nulled == 0;
        if is_whole { Exit::Done } else { Exit::Partial }
    }

    fn rows_per_second(&self) -> u64 {
        per_second(self.summary.rows_read, self.nanos)
    }

    fn bytes_per_second(&self) -> u64 {
        per_second(self.summary.bytes_read, self.nanos)
    }

    fn write_rejects(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(file) = &self.summary.rejects else { return Ok(()) };
        writeln!(f, "rejects file   {}", printable(&file.display().to_string()))?;
        for (column, reason, times) in self.summary.reject_reasons.iter().take(REASONS_MAX) {
            let column =
                column.as_ref().map_or(String::new(), |name| format!("{}: ", printable(name)));
            writeln!(f, "               {} x {column}{reason}", grouped(*times))?;
        }
        let left = self.summary.reject_reasons.len().saturating_sub(REASONS_MAX);
        if left > 0 {
            writeln!(f, "               and {}", counted(left as u64, "other reason"))?;
        }
        Ok(())
    }
}

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let summary = self.summary;
        let table = printable(self.table);
        let made = if summary.created_table { ", which is new" } else { "" };
        writeln!(f, "{} imported into {table}{made}", counted(summary.rows_imported, "row"))?;
        writeln!(f, "rows read      {}", grouped(summary.rows_read))?;
        writeln!(f, "rows rejected  {}", grouped(summary.rows_rejected))?;
        if summary.headers > 0 {
            let names = shown_names(&summary.header_names);
            writeln!(f, "headers        {}{names}", grouped(summary.headers))?;
        }
        if summary.cells_nulled > 0 {
            writeln!(f, "cells nulled   {}", grouped(summary.cells_nulled))?;
        }
        self.write_rejects(f)?;
        let rate = count(self.rows_per_second());
        let bytes_rate = bytes(self.bytes_per_second());
        writeln!(f, "time           {}, {rate} rows/s, {bytes_rate}/s", elapsed(self.nanos))?;
        writeln!(f, "bytes read     {}", bytes(summary.bytes_read))?;
        writeln!(f, "bytes on disk  {}", bytes(summary.bytes_written))?;
        writeln!(f, "partitions     {}", grouped(summary.partitions))?;
        writeln!(f, "segments       {}", grouped(summary.segments))?;
        writeln!(f, "spilled        {}", bytes(summary.spilled_bytes))?;
        writeln!(f, "io             {}", summary.io)?;
        for note in &summary.notes {
            writeln!(f, "note           {}", printable(note))?;
        }
        Ok(())
    }
}

/// Formats the first names of a header, in brackets.
fn shown_names(names: &[String]) -> String {
    let shown: Vec<String> = names.iter().take(NAMES_MAX).map(|name| printable(name)).collect();
    let more = if names.len() > NAMES_MAX { ", ..." } else { "" };
    if names.is_empty() { String::new() } else { format!(" ({}{more})", shown.join(", ")) }
}

fn per_second(amount: u64, nanos: u64) -> u64 {
    let wide = u128::from(amount) * 1_000_000_000 / u128::from(nanos.max(1));
    u64::try_from(wide).unwrap_or(u64::MAX)
}
