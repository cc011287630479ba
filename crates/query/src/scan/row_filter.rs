//! The conditions of a scan that are worked on as rows are stored.
//!
//! - RO1. What is learned of a segment's dictionaries and of the conditions is shared by all tasks
//!   of a scan.
//!
//! Not here: kernels and zones (`filter`), conditions that only DataFusion knows (`read`).

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use datafusion::common::Result;
use tidegate_filter::{
    Adapt, Context, Expr as Condition, Filter, FrameFilter, JitCache, Level, LowerCache, Request,
    Result as Filtered, Selection, SymbolText,
};
use tidegate_model::{Column, ColumnType, PageFrame, SegmentId, SymbolId, limits};
use tidegate_storage::{RowMask, SegmentRun, Snapshot, SymbolTable};

use crate::error::Error;

/// Compiled conditions of all queries: they are kept by shape, so that the next query with other
/// constants finds them. It bounds itself.
static COMPILED: LazyLock<JitCache> = LazyLock::new(JitCache::new);

/// The instructions that this machine has.
static LEVEL: LazyLock<Level> = LazyLock::new(Level::detect);

/// Conditions over some columns of a table.
#[derive(Debug)]
pub(crate) struct RowFilter {
    filter: Filter,
    columns: Vec<Column>,
    symbols: ColumnSymbols,
    caches: Mutex<HashMap<SegmentId, Arc<LowerCache>>>,
    adapt: Mutex<Adapt>,
}

/// The symbols of each column of a filter.
#[derive(Debug)]
struct ColumnSymbols(Vec<Option<Arc<SymbolTable>>>);

impl SymbolText for ColumnSymbols {
    fn text(&self, column: usize, id: SymbolId) -> Option<&[u8]> {
        let table = self.0.get(column)?.as_ref()?;
        ((id.0 as usize) < table.len()).then(|| table.text(id))
    }
}

/// Rows of a page frame that are asked about.
pub(crate) struct Asked<'a> {
    pub(crate) segment: &'a SegmentRun,
    pub(crate) frame: u64,
    /// Counted from the start of the page frame.
    pub(crate) rows: Range<usize>,
}

impl RowFilter {
    /// The rows for which all conditions hold. `columns` are positions in the table, which
    /// conditions name by their place in it.
    pub(crate) fn new(
        snapshot: &Snapshot,
        columns: &[usize],
        conditions: Vec<Condition>,
    ) -> Result<RowFilter> {
        let columns: Vec<Column> =
            columns.iter().map(|&at| snapshot.schema.columns()[at].clone()).collect();
        let types: Vec<ColumnType> = columns.iter().map(|column| column.ty).collect();
        let filter = Filter::new(types, Condition::And(conditions)).map_err(Error::Filter)?;
        let symbols = columns.iter().map(|column| snapshot.symbols.get(column.id).cloned());
        Ok(RowFilter {
            filter,
            symbols: ColumnSymbols(symbols.collect()),
            columns,
            caches: Mutex::default(),
            adapt: Mutex::default(),
        })
    }

    /// A line for each condition, for EXPLAIN.
    pub(crate) fn describe(&self) -> Vec<String> {
        let names: Vec<String> = self.columns.iter().map(|column| column.name.clone()).collect();
        self.filter.describe(&names)
    }

    /// How many rows there are for which the conditions hold.
    pub(crate) fn count(&self, asked: &Asked<'_>) -> Result<usize> {
        self.run(asked, |filter, request, adapt| filter.count(request, adapt))
    }

    /// Which rows there are for which the conditions hold, and how many.
    pub(crate) fn select(&self, asked: &Asked<'_>, selection: &mut Selection) -> Result<usize> {
        self.run(asked, |filter, request, adapt| filter.evaluate(request, adapt, selection))
    }

    fn run(
        &self,
        asked: &Asked<'_>,
        run: impl FnOnce(&FrameFilter<'_>, &Request<'_>, &mut Adapt) -> Filtered<usize>,
    ) -> Result<usize> {
        let reader = asked.segment.reader().map_err(Error::Storage)?;
        let frame = reader.frame(asked.frame, &self.columns).map_err(Error::Storage)?;
        let cache = self.cache(asked.segment.meta.id);
        let live = asked.segment.mask.as_deref().and_then(|mask| live_words(mask, asked, &frame));
        let context =
            Context { symbols: &self.symbols, cache: &cache, level: *LEVEL, jit: Some(&*COMPILED) };
        let filter = self.filter.lower(&frame, &context).map_err(Error::Filter)?;
        let request = Request {
            first: asked.rows.start,
            end: asked.rows.end,
            live: live.as_deref(),
            stop: &|| false,
        };
        let mut adapt = self.adapt().clone();
        let count = run(&filter, &request, &mut adapt).map_err(Error::Filter)?;
        *self.adapt() = adapt;
        Ok(count)
    }

    fn adapt(&self) -> std::sync::MutexGuard<'_, Adapt> {
        self.adapt.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn cache(&self, segment: SegmentId) -> Arc<LowerCache> {
        let mut caches = self.caches.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(caches.entry(segment).or_default())
    }
}

/// The rows of a page frame that are there, a bit each; `None` if all are.
fn live_words(mask: &RowMask, asked: &Asked<'_>, frame: &PageFrame<'_>) -> Option<Vec<u64>> {
    let zones_in_frame = limits::FRAME_ROWS.0 / limits::ZONE_ROWS.0;
    let words_in_zone = usize::try_from(limits::ZONE_ROWS.0 / 64).expect("64");
    let first = asked.frame * zones_in_frame;
    let zones = (frame.rows() as u64).div_ceil(limits::ZONE_ROWS.0);
    if (first..first + zones).all(|zone| mask.zone(zone).is_none()) {
        return None;
    }
    let mut words = Vec::with_capacity(words_in_zone * 16);
    for zone in first..first + zones {
        match mask.zone(zone) {
            None => words.resize(words.len() + words_in_zone, u64::MAX),
            Some(bits) => words.extend_from_slice(bits),
        }
    }
    Some(words)
}
