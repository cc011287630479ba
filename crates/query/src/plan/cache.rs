//! Logical plans of statements that come again and again.
//!
//! - PC1. A plan is used again only for the same text, and while all of its tables have the columns
//!   that they had. What it reads are the tables as they are now: physical planning, and with it
//!   pruning, is done every time.
//! - PC2. A plan that depends on the moment (`now()`), on chance, or on a table in any other way
//!   than by its columns is not kept.
//! - PC3. A plan that is kept holds on to no rows: its tables are empty, so that the files of
//!   dropped segments can go.
//! - PC4. At most `PLANS_MAX` plans are kept, none of a text longer than `TEXT_BYTES_MAX`.
//!
//! DataFusion plans a small query in about a millisecond, most of it before physical planning.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use datafusion::catalog::default_table_source::{provider_as_source, source_as_provider};
use datafusion::common::Result as PlanResult;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Expr, LogicalPlan, TableScan, Volatility};
use tidegate_model::{Schema, TableId};
use tidegate_storage::{Database, Snapshot};

use super::query_text::OutputNames;
use crate::error::Result;
use crate::scan::ScanTable;

/// PC4. A dashboard has some dozens.
const PLANS_MAX: usize = 512;
/// PC4. Longer texts are written by programs, each once.
const TEXT_BYTES_MAX: usize = 4 << 10;

/// Plans by the text of their statements.
#[derive(Debug, Default)]
pub(crate) struct PlanCache(Mutex<HashMap<String, Arc<CachedPlan>>>);

/// A plan that was made before.
#[derive(Debug)]
pub(crate) struct CachedPlan {
    /// Optimized.
    pub(crate) plan: LogicalPlan,
    pub(crate) names: OutputNames,
    /// The columns before optimization, each with the name it is stored under.
    pub(crate) columns: Vec<(String, Option<String>)>,
    pub(crate) notices: Vec<String>,
    /// Which column is the designated timestamp.
    pub(crate) designated: Option<usize>,
    tables: Vec<KnownTable>,
}

/// A table as a plan knows it.
#[derive(Debug)]
struct KnownTable {
    name: String,
    id: TableId,
    schema: Arc<Schema>,
}

impl KnownTable {
    fn is(&self, snapshot: &Snapshot) -> bool {
        let same = Arc::ptr_eq(&self.schema, &snapshot.schema) || self.schema == snapshot.schema;
        self.id == snapshot.table && same
    }
}

impl PlanCache {
    /// The plan of a text, over the tables as they are now; `None` if it is not known (PC1).
    pub(crate) fn find(
        &self,
        sql: &str,
        database: &Database,
    ) -> Result<Option<(LogicalPlan, Arc<CachedPlan>)>> {
        let found = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(sql).cloned();
        let Some(cached) = found else { return Ok(None) };
        let names = cached.tables.iter().map(|table| table.name.as_str()).collect::<Vec<_>>();
        // A table that is gone makes planning say so.
        let Ok(snapshots) = database.snapshots(&names) else { return Ok(None) };
        let same = cached.tables.iter().zip(&snapshots).all(|(table, now)| table.is(now));
        if !same {
            return Ok(None);
        }
        let by_id = snapshots.into_iter().map(|snapshot| (snapshot.table, snapshot)).collect();
        Ok(Some((over(cached.plan.clone(), &by_id)?, cached)))
    }

    /// Keeps what `make` gives of an optimized plan, if that may be used again (PC2). `written` is
    /// the plan before.
    pub(crate) fn keep(
        &self,
        sql: &str,
        written: &LogicalPlan,
        optimized: LogicalPlan,
        make: impl FnOnce(LogicalPlan) -> PlanResult<CachedPlan>,
    ) -> Result<()> {
        if sql.len() > TEXT_BYTES_MAX || !is_lasting(written)? || !is_lasting(&optimized)? {
            return Ok(());
        }
        let cached = make(optimized)?;
        let mut plans = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if plans.len() >= PLANS_MAX {
            // Rare, and a plan is soon made again.
            plans.clear();
        }
        plans.insert(sql.to_owned(), Arc::new(cached));
        Ok(())
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
        Ok(CachedPlan { plan, names, columns, notices, designated: None, tables })
    }
}

/// A table's columns.
fn without_rows(snapshot: &Snapshot) -> Snapshot {
    Snapshot {
        table: snapshot.table,
        name: snapshot.name.clone(),
        schema: Arc::clone(&snapshot.schema),
        seq_txn: snapshot.seq_txn,
        groups: Vec::new(),
        symbols: std::iter::empty().collect(),
    }
}

/// The same plan over other snapshots of its tables.
fn over(plan: LogicalPlan, snapshots: &HashMap<TableId, Arc<Snapshot>>) -> PlanResult<LogicalPlan> {
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

/// Whether a plan means the same at any time, for tables with the same columns (PC2).
fn is_lasting(plan: &LogicalPlan) -> PlanResult<bool> {
    let mut is_lasting = true;
    plan.apply_with_subqueries(|node| {
        is_lasting &= match node {
            // Others of ours look at a snapshot when they are planned.
            LogicalPlan::Extension(extension) => extension.node.name() == "PickRows",
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

fn depends_on_the_moment(expr: &Expr) -> bool {
    match expr {
        Expr::ScalarFunction(call) => call.func.signature().volatility != Volatility::Immutable,
        Expr::Placeholder(_) => true,
        _ => false,
    }
}
