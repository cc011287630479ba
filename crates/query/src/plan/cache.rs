//! Plan cache: plans of statements that are executed repeatedly.
//!
//! - plan_cache-1. A plan is used again only for the same text and the same values of parameters,
//!   unless it is one for any values of parameters (`parameters`) or literals (`lifted`), and while
//!   all of its tables have the columns that they had. It reads the tables as they are now: pruning
//!   is done every time, and physical planning is too, unless nothing in it depends on the contents
//!   of the tables (`template`).
//! - plan_cache-2. A plan is quick only if all functions that it calls are `STEADY`: it runs on the
//!   thread of a connection, and the other connections of that thread wait for each batch.
//! - A plan that depends on the moment (`now()`), on chance, or on a table in any other way than by
//!   its columns is not kept.
//! - A kept plan refers to no rows: its tables are empty, so that the files of dropped segments can
//!   be deleted.
//! - The number and the bytes of plans are bounded (`generations`), and none has a text longer than
//!   `TEXT_BYTES_MAX`.
//!
//! DataFusion plans a small query in about a millisecond, most of it before physical planning, and
//! the rest in a third of that.
//!
//! Not here: the execution of cached queries (`engine::cached`).

mod key;
mod generations;
mod lifted;
mod parameters;
mod template;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::default_table_source::{provider_as_source, source_as_provider};
use datafusion::common::Result as PlanResult;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Expr, LogicalPlan, TableScan, Volatility};
use datafusion::physical_plan::ExecutionPlan;
use tidegate_model::{ByteCount, Schema, TableId};
use tidegate_storage::{Database, Derived, Snapshot};

use crate::cancel::CancelState;
use crate::error::Result;
use crate::scan::ScanTable;
use crate::types::tree_changes::ChangePlan;
use generations::{Generations, plan_bytes};
use parameters::{ParameterPredicate, has_one_filter};
use template::PlanTemplate;

pub(crate) use key::PlanKey;
pub(super) use lifted::Lifted;
pub(super) use parameters::parameter_predicates;

/// The most bytes of all plans, and the part of the memory for queries that they may take.
const BYTES_MAX: usize = 32 << 20;
const MEMORY_PART: u64 = 32;
/// Longer texts are written by programs, each once.
const TEXT_BYTES_MAX: usize = 4 << 10;

/// Functions that take about as long for any row (plan_cache-2), for any stored value: not those
/// that look for a pattern, compare every two characters, or make more text or longer lists than
/// they are given. Values of parameters stand in no call of a plan that is for any of them.
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
    plans: Mutex<Generations>,
    quick_max: Duration,
}

/// A plan that was made before.
#[derive(Debug)]
pub(crate) struct CachedPlan {
    /// The optimized logical plan.
    plan: LogicalPlan,
    /// The names of the columns of its answer.
    pub(super) names: Vec<String>,
    pub(super) notices: Vec<String>,
    /// The index of the designated timestamp.
    pub(super) designated: Option<usize>,
    tables: Vec<CachedTable>,
    /// The template of its physical plans; `None` if physical planning is done every time.
    template: Option<PlanTemplate>,
    /// True if it calls only `STEADY` functions, so that a quick run promises the next one.
    is_steady: bool,
    /// True if it took little time when it last ran.
    is_quick: AtomicBool,
    /// About the bytes that it takes.
    bytes: usize,
}

/// A table of a plan, with the columns that it had.
#[derive(Debug)]
struct CachedTable {
    name: String,
    id: TableId,
    schema: Arc<Schema>,
}

impl CachedTable {
    fn is(&self, snapshot: &Snapshot) -> bool {
        let same = Arc::ptr_eq(&self.schema, &snapshot.schema) || self.schema == snapshot.schema;
        self.id == snapshot.table && same
    }
}

/// The tables of a plan as they are now.
type TablesNow = HashMap<TableId, Arc<Snapshot>>;

/// The plan of a query that was just planned for the first time.
pub(super) struct NewPlan<'a> {
    /// The logical plan before optimization.
    pub(super) written: &'a LogicalPlan,
    pub(super) optimized: LogicalPlan,
    pub(super) physical: &'a Arc<dyn ExecutionPlan>,
    /// The schema of its answer.
    pub(super) schema: &'a SchemaRef,
    pub(super) names: Vec<String>,
    pub(super) notices: Vec<String>,
    /// The index of the designated timestamp.
    pub(super) designated: Option<usize>,
    pub(super) snapshots: &'a HashMap<String, Arc<Snapshot>>,
    pub(super) replaceable: Option<ReplaceableValues>,
}

/// The values of a query that are used for nothing but conditions on columns, so that its plan can
/// have others in place of them.
#[derive(Debug)]
pub(crate) struct ReplaceableValues {
    pub(in crate::plan) predicates: Vec<ParameterPredicate>,
    /// Its literals, if it has no parameters.
    pub(in crate::plan) lifted: Option<Lifted>,
}

/// A query whose plan is cached, with its tables as they are now.
pub(crate) struct CachedQuery {
    pub(super) plan: Arc<CachedPlan>,
    tables: TablesNow,
    /// The filters of its one scan, if parameters have other values than in the plan.
    filters: Option<Arc<[Expr]>>,
}

impl PlanCache {
    /// Makes a cache in which a plan is quick if it took no longer than `quick_max`, beside queries
    /// that may take so much memory.
    pub(crate) fn new(quick_max: Duration, memory: ByteCount) -> PlanCache {
        let bytes = usize::try_from(memory.0 / MEMORY_PART).unwrap_or(BYTES_MAX).min(BYTES_MAX);
        PlanCache { plans: Mutex::new(Generations::new(bytes)), quick_max }
    }

    /// Returns the cached plan of a statement, if there is one (plan_cache-1).
    pub(crate) fn lookup(&self, key: PlanKey<'_>, database: &Database) -> Option<CachedQuery> {
        if !key.is_valid() {
            return None;
        }
        if !key.parameters.is_empty()
            && let Some(cached) = self.for_any(key, database)
        {
            return Some(cached);
        }
        if let Some(plan) = self.plan(&key.of_values()) {
            let tables = plan.tables_now(database)?;
            return Some(CachedQuery { plan, tables, filters: None });
        }
        if !key.parameters.is_empty() {
            return None;
        }
        self.for_any(Lifted::of(key.sql)?.key(), database)
    }

    /// Returns the cached plan of a statement that is for any values, with these values.
    fn for_any(&self, key: PlanKey<'_>, database: &Database) -> Option<CachedQuery> {
        let plan = self.plan(&key.of_types())?;
        let filters = plan.template.as_ref()?.filters_with(key.parameters)?;
        let tables = plan.tables_now(database)?;
        Some(CachedQuery { plan, tables, filters: Some(filters) })
    }

    /// Keeps the plan of a statement, if it may be used again, and returns what is kept.
    pub(super) fn keep(
        &self,
        key: PlanKey<'_>,
        mut new: NewPlan<'_>,
    ) -> Result<Option<Arc<CachedPlan>>> {
        if !is_lasting(new.written)? || !is_lasting(&new.optimized)? {
            return Ok(None);
        }
        let replaceable = match has_one_filter(new.written)? {
            true => new.replaceable.take(),
            false => None,
        };
        let mut plan = CachedPlan::new(new)?;
        let mut known = key.of_values().into_owned();
        if let (Some(template), Some(replaceable)) = (&mut plan.template, &replaceable) {
            let key = replaceable.lifted.as_ref().map_or(key, Lifted::key);
            if template.open(&replaceable.predicates, key.parameters)? {
                known = key.of_types();
            }
        }
        if TEXT_BYTES_MAX < known.len() {
            return Ok(None);
        }
        let plan = Arc::new(plan);
        self.plans().insert(known, Arc::clone(&plan));
        Ok(Some(plan))
    }

    /// Records the execution time of a plan.
    pub(crate) fn record_time(&self, plan: &CachedPlan, time: Duration) {
        plan.is_quick.store(plan.is_steady && time <= self.quick_max, Relaxed);
    }

    fn plan(&self, key: &str) -> Option<Arc<CachedPlan>> {
        self.plans().get(key)
    }

    fn plans(&self) -> MutexGuard<'_, Generations> {
        self.plans.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CachedPlan {
    fn new(new: NewPlan<'_>) -> PlanResult<CachedPlan> {
        let NewPlan { optimized, physical, schema, names, notices, designated, snapshots, .. } =
            new;
        let table = |(name, snapshot): (&String, &Arc<Snapshot>)| CachedTable {
            name: name.clone(),
            id: snapshot.table,
            schema: Arc::clone(&snapshot.schema),
        };
        let tables = snapshots.iter().map(table).collect();
        let empty = |snapshot: &Arc<Snapshot>| (snapshot.table, Arc::new(without_rows(snapshot)));
        let plan = over(optimized, &snapshots.values().map(empty).collect())?;
        let bytes = plan_bytes(&plan)?;
        Ok(CachedPlan {
            is_steady: calls_none_but(&plan, STEADY)?,
            template: PlanTemplate::of(physical, schema, scans(&plan)?)?,
            plan,
            names,
            notices,
            designated,
            tables,
            is_quick: AtomicBool::new(false),
            bytes,
        })
    }

    /// Returns its tables as they are now; `None` if one of them is no longer as it was.
    fn tables_now(&self, database: &Database) -> Option<TablesNow> {
        let names = self.tables.iter().map(|table| table.name.as_str()).collect::<Vec<_>>();
        // Planning reports a table that is gone.
        let snapshots = database.snapshots(&names).ok()?;
        let is_same = self.tables.iter().zip(&snapshots).all(|(table, now)| table.is(now));
        let by_id = snapshots.into_iter().map(|snapshot| (snapshot.table, snapshot));
        is_same.then(|| by_id.collect())
    }

    /// Returns the schema of its answer, if no physical plan is needed to know it.
    pub(super) fn schema(&self) -> Option<&SchemaRef> {
        self.template.as_ref().map(|template| &template.schema)
    }
}

impl CachedQuery {
    /// Returns true if it has a template, and its last run was quick.
    pub(crate) fn is_quick(&self) -> bool {
        self.has_template() && self.plan.is_quick.load(Relaxed)
    }

    /// Returns about the bytes of its plan.
    pub(crate) fn plan_bytes(&self) -> usize {
        self.plan.bytes
    }

    /// Returns true if its physical plan is made of a template.
    pub(super) fn has_template(&self) -> bool {
        self.plan.template.is_some()
    }

    /// Returns its physical plan, made of the template; `None` if it has none that fits the tables
    /// as they are now.
    pub(super) fn physical(
        &self,
        stop: &Arc<CancelState>,
    ) -> PlanResult<Option<Arc<dyn ExecutionPlan>>> {
        match &self.plan.template {
            Some(template) => template.over(&self.tables, self.filters.as_ref(), stop),
            None => Ok(None),
        }
    }

    /// Returns its logical plan.
    pub(super) fn logical(&self) -> PlanResult<LogicalPlan> {
        over(self.plan.plan.clone(), &self.tables)
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
fn without_rows(snapshot: &Snapshot) -> Snapshot {
    Snapshot {
        table: snapshot.table,
        name: snapshot.name.clone(),
        schema: Arc::clone(&snapshot.schema),
        seq_txn: snapshot.seq_txn,
        rows_changed_at: snapshot.rows_changed_at,
        groups: Vec::new(),
        symbols: std::iter::empty().collect(),
        derived: Derived::default(),
    }
}

/// Returns the same plan over other snapshots of its tables.
fn over(plan: LogicalPlan, snapshots: &TablesNow) -> PlanResult<LogicalPlan> {
    let replaced = plan.change_nodes(&mut |node| {
        let LogicalPlan::TableScan(scan) = node else { return Ok(Transformed::no(node)) };
        let Some(table) = scan_table(&scan) else {
            return Ok(Transformed::no(LogicalPlan::TableScan(scan)));
        };
        let now = snapshots.get(&table.snapshot().table).expect("plan_cache-1");
        let source = provider_as_source(Arc::new(table.as_of(Arc::clone(now))));
        Ok(Transformed::yes(LogicalPlan::TableScan(TableScan { source, ..scan })))
    })?;
    Ok(replaced.data)
}

fn scan_table(scan: &TableScan) -> Option<ScanTable> {
    let provider = source_as_provider(&scan.source).ok()?;
    provider.downcast_ref::<ScanTable>().cloned()
}

/// Returns true if a plan means the same at any time, for tables with the same columns.
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
