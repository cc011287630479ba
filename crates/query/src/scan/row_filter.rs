//! Conditions of a scan that are evaluated on encoded columns.
//!
//! - Results for a segment's dictionaries and statistics of the conditions are shared by all tasks
//!   of a scan.
//!
//! Not here: kernels and zones (`filter`), conditions that only DataFusion can evaluate (`read`).

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use datafusion::common::Result;
use tidegate_filter::{
    AdaptiveOrder, ConjunctStatistics, Context, Expr as Condition, Filter, FrameFilter, JitCache,
    LowerCache, Request, Result as Filtered, Selection, SimdLevel, SymbolText,
};
use tidegate_model::{Column, ColumnType, SegmentId, SymbolId};
use tidegate_storage::{SegmentRun, Snapshot, SymbolTable};

use crate::cancel::CancelState;
use crate::error::Error;

/// Compiled conditions of all queries: they are kept by shape, so that a later query with other
/// constants finds them. The cache bounds itself.
static COMPILED: LazyLock<JitCache> = LazyLock::new(JitCache::new);

/// The instruction set of this machine.
static LEVEL: LazyLock<SimdLevel> = LazyLock::new(SimdLevel::detect);

/// Conditions over some columns of a table.
#[derive(Debug)]
pub(crate) struct RowFilter {
    filter: Filter,
    columns: Vec<Column>,
    symbols: ColumnSymbols,
    caches: Mutex<HashMap<SegmentId, Arc<LowerCache>>>,
    history: Mutex<FilterHistory>,
}

/// Statistics of the evaluation.
#[derive(Debug, Default)]
struct FilterHistory {
    /// The state of the latest worker, without counts.
    adaptive: AdaptiveOrder,
    /// The counts of all workers, one for each condition.
    counted: Vec<ConjunctStatistics>,
}

impl FilterHistory {
    fn record(&mut self, mut adaptive: AdaptiveOrder) {
        let counted = adaptive.take_statistics();
        self.counted.resize(self.counted.len().max(counted.len()), ConjunctStatistics::default());
        self.counted.iter_mut().zip(&counted).for_each(|(sum, counted)| sum.merge(counted));
        self.adaptive = adaptive;
    }
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

/// A request for rows of a page frame.
pub(crate) struct FrameRequest<'a> {
    pub(crate) segment: &'a SegmentRun,
    pub(crate) frame: u64,
    /// Counted from the start of the page frame.
    pub(crate) rows: Range<usize>,
    /// Checked for cancellation before each zone.
    pub(crate) stop: Option<&'a CancelState>,
}

impl RowFilter {
    /// Makes the filter of all these conditions. `columns` are positions in the table, and
    /// conditions name a column by its place among them.
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
            history: Mutex::default(),
        })
    }

    /// Returns true if some condition reads texts that may be long.
    pub(crate) fn reads_texts(&self) -> bool {
        let is_text = |ty: ColumnType| matches!(ty, ColumnType::Varchar | ColumnType::Binary);
        self.columns.iter().any(|column| is_text(column.ty))
    }

    /// Returns a line for each condition, for EXPLAIN.
    pub(crate) fn describe(&self) -> Vec<String> {
        let names: Vec<String> = self.columns.iter().map(|column| column.name.clone()).collect();
        self.filter.describe(&names)
    }

    /// Returns the number of rows for which the conditions hold. `live` are the rows of the page
    /// frame that are not deleted, a bit each; `None` if all are there.
    pub(crate) fn count(&self, request: &FrameRequest<'_>, live: Option<&[u64]>) -> Result<usize> {
        self.run(request, live, |filter, inner, adaptive| filter.count(inner, adaptive))
    }

    /// Selects the rows for which the conditions hold, and returns their number.
    pub(crate) fn select(
        &self,
        request: &FrameRequest<'_>,
        live: Option<&[u64]>,
        selection: &mut Selection,
    ) -> Result<usize> {
        self.run(request, live, |filter, inner, adaptive| {
            filter.evaluate(inner, adaptive, selection)
        })
    }

    /// Returns the statistics of zones so far, of all conditions together.
    pub(crate) fn statistics(&self) -> ConjunctStatistics {
        let history = self.history();
        let mut sum = ConjunctStatistics::default();
        history.counted.iter().for_each(|counted| sum.merge(counted));
        sum
    }

    fn run(
        &self,
        request: &FrameRequest<'_>,
        live: Option<&[u64]>,
        run: impl FnOnce(&FrameFilter<'_>, &Request<'_>, &mut AdaptiveOrder) -> Filtered<usize>,
    ) -> Result<usize> {
        let reader = request.segment.reader().map_err(Error::Storage)?;
        let frame = reader.frame(request.frame, &self.columns).map_err(Error::Storage)?;
        let cache = self.cache(request.segment.meta.id);
        let context =
            Context { symbols: &self.symbols, cache: &cache, level: *LEVEL, jit: Some(&*COMPILED) };
        let filter = self.filter.lower(&frame, &context).map_err(Error::Filter)?;
        let inner = Request {
            first: request.rows.start,
            end: request.rows.end,
            live,
            is_cancelled: &|| request.stop.is_some_and(|stop| stop.reason().is_some()),
        };
        let mut adaptive = self.history().adaptive.clone();
        let count = run(&filter, &inner, &mut adaptive);
        let mut history = self.history();
        history.record(adaptive);
        drop(history);
        count.map_err(|error| match request.stop.and_then(CancelState::reason) {
            Some(reason) => Error::from(reason).into(),
            None => Error::Filter(error).into(),
        })
    }

    fn history(&self) -> MutexGuard<'_, FilterHistory> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn cache(&self, segment: SegmentId) -> Arc<LowerCache> {
        let mut caches = self.caches.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(caches.entry(segment).or_default())
    }
}
