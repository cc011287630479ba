//! Plan cache: plans of statements that are executed repeatedly.
//!
//! - PC1. A plan is used again only for the same text and the same values of parameters, unless it
//!   is one for any values (`compared`), and while all of its tables have the columns that they
//!   had. It reads the tables as they are now: pruning is done every time, and physical planning is
//!   too, unless nothing in it depends on the contents of the tables (`pattern`).
//! - PC2. A plan that depends on the moment (`now()`), on chance, or on a table in any other way
//!   than by its columns is not kept.
//! - PC3. A kept plan refers to no rows: its tables are empty, so that the files of dropped
//!   segments can be deleted.
//! - PC4. At most `PLANS_MAX` plans are kept, none of a text longer than `TEXT_BYTES_MAX`.
//! - PC5. A plan is quick only if all functions that it calls are `STEADY`: it runs on the thread
//!   of a connection, and the other connections of that thread wait for each batch.
//!
//! DataFusion plans a small query in about a millisecond, most of it before physical planning, and
//! the rest in a third of that.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use datafusion::catalog::default_table_source::{provider_as_source, source_as_provider};
use datafusion::common::Result as PlanResult;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Expr, LogicalPlan, TableScan, Volatility};
use datafusion::physical_plan::ExecutionPlan;
use tidegate_model::{Schema, TableId};
use tidegate_storage::{Database, Derived, Snapshot};

use super::compared::Compared;
use super::output_schema;
use super::parameters::Parameter;
use super::pattern::PlanPattern;
use super::query_text::OutputNames;
use crate::error::Result;
use crate::scan::ScanTable;

/// PC4. A dashboard has some dozens of statements.
const PLANS_MAX: usize = 512;
/// PC4. Longer texts are written by programs, each once.
const TEXT_BYTES_MAX: usize = 4 << 10;

/// Functions that take about as long for any row (PC5), for any stored value: not those that look
/// for a pattern, compare every two characters, or make more text or longer lists than they are
/// given. Values of parameters stand in no call of a plan that is for any of them.
const STEADY: &str = "abs acos asin atan atan2 cbrt ceil character_length coalesce cos cosh cot \
    date_bin date_part date_trunc dateadd datediff day day_of_week day_of_week_sunday_first \
    days_in_month degrees exp factorial floor gcd get_field greatest haversine_dist_deg hour \
    is_leap_year isnan iszero lcm least ln log log10 log2 lower micros millis minute month nanos \
    nullif nvl octet_length power radians round sample_by second signum sin sinh sqrt tan tanh \
    timestamp_ceil timestamp_floor to_char to_date to_str to_timestamp to_timestamp_ns \
    to_timezone to_utc trunc upper week_of_year year ||";

/// Plans by the text of their statements.
#[derive(Debug)]
pub(crate) struct PlanCache {
    plans: Mutex<HashMap<String, Arc<CachedPlan>>>,
    quick_max: Duration,
}

/// A plan that was made before.
#[derive(Debug)]
pub(crate) struct CachedPlan {
    /// The optimized logical plan.
    pub(crate) plan: LogicalPlan,
    pub(crate) names: OutputNames,
    /// The columns before optimization, each with the name it is stored under.
    pub(crate) columns: Vec<(String, Option<String>)>,
    pub(crate) notices: Vec<String>,
    /// The index of the designated timestamp.
    pub(crate) designated: Option<usize>,
    tables: Vec<KnownTable>,
    /// Template of the first physical plan; `None` if others cannot be made of it.
    pattern: OnceLock<Option<PlanPattern>>,
    /// True if it calls only `STEADY` functions, so that a quick run promises the next one (PC5).
    is_steady: bool,
    /// True if it took little time when it last ran.
    is_quick: AtomicBool,
}

/// A table of a plan, with the columns that it had.
#[derive(Debug)]
struct KnownTable {
    name: String,
    id: TableId,
    schema: Arc<Schema>,
}

/// The tables of a plan as they are now.
pub(crate) type TablesNow = HashMap<TableId, Arc<Snapshot>>;

impl KnownTable {
    fn is(&self, snapshot: &Snapshot) -> bool {
        let same = Arc::ptr_eq(&self.schema, &snapshot.schema) || self.schema == snapshot.schema;
        self.id == snapshot.table && same
    }
}

impl PlanCache {
    /// Makes a cache in which a plan is quick if it took no longer than this.
    pub(crate) fn new(quick_max: Duration) -> PlanCache {
        PlanCache { plans: Mutex::default(), quick_max }
    }

    /// Returns the plan of a text, and its tables as they are now; `None` if it is not known (PC1),
    /// or `is_wanted` returns false.
    pub(crate) fn find(
        &self,
        sql: &str,
        database: &Database,
        is_wanted: impl Fn(&CachedPlan) -> bool,
    ) -> Option<(Arc<CachedPlan>, TablesNow)> {
        let cached = self.plans().get(sql).cloned().filter(|cached| is_wanted(cached))?;
        let names = cached.tables.iter().map(|table| table.name.as_str()).collect::<Vec<_>>();
        // Planning reports a table that is gone.
        let snapshots = database.snapshots(&names).ok()?;
        let is_same = cached.tables.iter().zip(&snapshots).all(|(table, now)| table.is(now));
        let by_id = snapshots.into_iter().map(|snapshot| (snapshot.table, snapshot));
        is_same.then(|| (cached, by_id.collect()))
    }

    /// Keeps the result of `make` for an optimized plan, if that may be used again (PC2), under the
    /// key that `make` returns. `written` is the plan before.
    pub(crate) fn keep(
        &self,
        (written, optimized): (&LogicalPlan, LogicalPlan),
        make: impl FnOnce(LogicalPlan) -> PlanResult<(String, CachedPlan)>,
    ) -> Result<Option<Arc<CachedPlan>>> {
        if !is_lasting(written)? || !is_lasting(&optimized)? {
            return Ok(None);
        }
        let (key, cached) = make(optimized)?;
        if TEXT_BYTES_MAX < key.len() {
            return Ok(None);
        }
        let cached = Arc::new(cached);
        let mut plans = self.plans();
        if plans.len() >= PLANS_MAX {
            // A full cache is rare, and a plan is soon made again.
            plans.clear();
        }
        plans.insert(key, Arc::clone(&cached));
        Ok(Some(cached))
    }

    /// Records the time that a plan took to run.
    pub(crate) fn took(&self, cached: &CachedPlan, time: Duration) {
        cached.is_quick.store(cached.is_steady && time <= self.quick_max, Relaxed);
    }

    fn plans(&self) -> MutexGuard<'_, HashMap<String, Arc<CachedPlan>>> {
        self.plans.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CachedPlan {
    pub(crate) fn new(
        plan: LogicalPlan,
        (names, columns): (OutputNames, Vec<(String, Option<String>)>),
        notices: Vec<String>,
        snapshots: &HashMap<String, Arc<Snapshot>>,
    ) -> PlanResult<CachedPlan> {
        let known = |(name, snapshot): (&String, &Arc<Snapshot>)| KnownTable {
            name: name.clone(),
            id: snapshot.table,
            schema: Arc::clone(&snapshot.schema),
        };
        let tables = snapshots.iter().map(known).collect();
        // PC3.
        let empty = |snapshot: &Arc<Snapshot>| (snapshot.table, Arc::new(without_rows(snapshot)));
        let plan = over(plan, &snapshots.values().map(empty).collect())?;
        Ok(CachedPlan {
            is_steady: calls_none_but(&plan, STEADY)?,
            plan,
            names,
            columns,
            notices,
            designated: None,
            tables,
            pattern: OnceLock::new(),
            is_quick: AtomicBool::new(false),
        })
    }

    /// Returns the logical plan over the tables as they are now.
    pub(crate) fn over(&self, tables: &TablesNow) -> PlanResult<LogicalPlan> {
        over(self.plan.clone(), tables)
    }

    /// Records the first physical plan, of which others may be made.
    pub(crate) fn planned(&self, physical: &Arc<dyn ExecutionPlan>) -> PlanResult<()> {
        if self.pattern.get().is_none() {
            let pattern = self.pattern_of(physical)?;
            // Another statement may have recorded an equal one before.
            let _ = self.pattern.set(pattern);
        }
        Ok(())
    }

    /// Records a physical plan whose parameters have these values and are compared so. Returns true
    /// if it is one for any values.
    pub(crate) fn planned_with(
        &self,
        physical: &Arc<dyn ExecutionPlan>,
        (compared, parameters): (&[Compared], &[Parameter]),
    ) -> PlanResult<bool> {
        let mut pattern = self.pattern_of(physical)?;
        let is_for_any = match &mut pattern {
            Some(pattern) => pattern.open(compared, parameters)?,
            None => false,
        };
        let _ = self.pattern.set(pattern);
        Ok(is_for_any)
    }

    fn pattern_of(&self, physical: &Arc<dyn ExecutionPlan>) -> PlanResult<Option<PlanPattern>> {
        let schema = output_schema(&physical.schema(), &self.names, &self.columns);
        PlanPattern::of((physical, schema), scans(&self.plan)?)
    }

    pub(crate) fn pattern(&self) -> Option<&PlanPattern> {
        self.pattern.get()?.as_ref()
    }

    /// Returns true if its last run was quick.
    pub(crate) fn is_quick(&self) -> bool {
        self.is_quick.load(Relaxed)
    }
}

/// Returns the number of scans of tables in a plan.
fn scans(plan: &LogicalPlan) -> PlanResult<usize> {
    let mut scans = 0;
    plan.apply_with_subqueries(|node| {
        scans += usize::from(matches!(node, LogicalPlan::TableScan(_)));
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(scans)
}

/// Returns a table's snapshot without its rows.
pub(super) fn without_rows(snapshot: &Snapshot) -> Snapshot {
    Snapshot {
        table: snapshot.table,
        name: snapshot.name.clone(),
        schema: Arc::clone(&snapshot.schema),
        seq_txn: snapshot.seq_txn,
        groups: Vec::new(),
        symbols: std::iter::empty().collect(),
        derived: Derived::default(),
    }
}

/// Returns the same plan over other snapshots of its tables.
fn over(plan: LogicalPlan, snapshots: &TablesNow) -> PlanResult<LogicalPlan> {
    let replaced = plan.transform_up_with_subqueries(|node| {
        let LogicalPlan::TableScan(scan) = node else { return Ok(Transformed::no(node)) };
        let Some(table) = scan_table(&scan) else {
            return Ok(Transformed::no(LogicalPlan::TableScan(scan)));
        };
        let now = snapshots.get(&table.snapshot().table).expect("PC1: all tables are known");
        let source = provider_as_source(Arc::new(table.as_of(Arc::clone(now))));
        Ok(Transformed::yes(LogicalPlan::TableScan(TableScan { source, ..scan })))
    })?;
    Ok(replaced.data)
}

fn scan_table(scan: &TableScan) -> Option<ScanTable> {
    let provider = source_as_provider(&scan.source).ok()?;
    provider.downcast_ref::<ScanTable>().cloned()
}

/// Returns true if a plan means the same at any time, for tables with the same columns (PC2).
fn is_lasting(plan: &LogicalPlan) -> PlanResult<bool> {
    let mut is_lasting = true;
    plan.apply_with_subqueries(|node| {
        is_lasting &= match node {
            LogicalPlan::TableScan(scan) => scan_table(scan).is_some(),
            LogicalPlan::Analyze(_) | LogicalPlan::Explain(_) => false,
            _ => true,
        };
        node.apply_expressions(|expr| {
            is_lasting &= !expr.exists(|part| Ok(depends_on_the_moment(part)))?;
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(if is_lasting { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    })?;
    Ok(is_lasting)
}

/// Returns true if a plan calls no other scalar functions than these.
fn calls_none_but(plan: &LogicalPlan, names: &str) -> PlanResult<bool> {
    let is_other = |part: &Expr| match part {
        Expr::ScalarFunction(call) => {
            !names.split_ascii_whitespace().any(|name| name == call.func.name())
        }
        _ => false,
    };
    let mut calls_others = false;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            calls_others |= expr.exists(|part| Ok(is_other(part)))?;
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(if calls_others { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(!calls_others)
}

fn depends_on_the_moment(expr: &Expr) -> bool {
    match expr {
        Expr::ScalarFunction(call) => call.func.signature().volatility != Volatility::Immutable,
        Expr::Placeholder(_) => true,
        _ => false,
    }
}
