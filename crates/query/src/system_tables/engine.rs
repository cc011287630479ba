//! Information about an engine: its statements, its memory, its functions, and the configuration of
//! its host program.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, BooleanArray, Int64Array, RecordBatch, TimestampMicrosecondArray, new_null_array,
};
use datafusion::arrow::datatypes::DataType;
use datafusion::execution::SessionState;
use datafusion::execution::memory_pool::MemoryLimit;
use datafusion::logical_expr::Volatility;

use super::{batch, counts, flags, texts, times};
use crate::context::{StatementContext, shown_value};
use crate::engine_functions::our_functions;
use crate::error::Result;
use crate::functions::sources::{LISTED, Listed};
use crate::role::Role;
use crate::running_queries::RunningQuery;
use crate::server_info::{ConfigEntry, MemoryUse};
use crate::session::Origin;

pub(super) fn parameters(caller: &StatementContext) -> Result<RecordBatch> {
    let all = caller.system.server_info.parameters();
    let text = |of: fn(&ConfigEntry) -> String| texts(all.iter().map(|it| Some(of(it))));
    batch(vec![
        ("property_path", text(|it| it.property_path.clone())),
        ("env_var_name", texts(all.iter().map(|it| it.env_var_name.clone()))),
        ("value", text(shown_value)),
        ("value_source", text(|it| it.value_source.to_owned())),
        ("sensitive", flags(all.iter().map(|it| it.is_sensitive))),
        ("reloadable", flags(all.iter().map(|it| it.is_reloadable))),
    ])
}

/// Returns a line for each statement. Of those that the caller may not see it has the id and the
/// user; the rest is NULL.
pub(super) fn query_activity(caller: &StatementContext) -> Result<RecordBatch> {
    let all = caller.system.running_queries.list();
    let rows = all.len();
    let now = caller.system.database.now_micros();
    let seen = all.iter().map(|it| caller.session.reaches(&it.session).then_some(it));
    let seen = seen.collect::<Vec<_>>();
    let states = seen.iter().map(|it| it.map(|it| it.state(now))).collect::<Vec<_>>();
    let same = |text: &str| texts(vec![Some(text.to_owned()); rows]);
    let text = |of: fn(&RunningQuery) -> Option<String>| {
        texts(seen.iter().map(|it| it.and_then(|it| of(it))))
    };
    let count = |of: fn(&RunningQuery) -> u64| -> ArrayRef {
        let signed = |it: &Arc<RunningQuery>| i64::try_from(of(it)).unwrap_or(i64::MAX);
        Arc::new(seen.iter().map(|it| it.map(signed)).collect::<Int64Array>())
    };
    let starts = seen.iter().map(|it| it.map(|it| it.start));
    let changes = states.iter().map(|it| it.map(|(_, since)| since));
    batch(vec![
        ("query_id", counts(all.iter().map(|it| it.id))),
        // Any worker executes any part of a statement.
        ("worker_id", new_null_array(&DataType::Int64, rows)),
        ("worker_pool", same("query")),
        ("username", texts(all.iter().map(|it| it.session.origin().user.clone()))),
        ("query_start", Arc::new(starts.collect::<TimestampMicrosecondArray>())),
        ("state_change", Arc::new(changes.collect::<TimestampMicrosecondArray>())),
        ("state", texts(states.iter().map(|it| it.map(|(state, _)| state.name().to_owned())))),
        ("query", text(|it| Some(it.sql.to_string()))),
        ("protocol", text(|it| Some(it.session.origin().protocol.to_owned()))),
        ("peer", text(|it| it.session.origin().peer.clone())),
        ("rows_out", count(RunningQuery::rows_out)),
        ("memory_bytes", count(|it| it.memory.bytes())),
        ("spill_bytes", count(RunningQuery::spill_bytes)),
        // No statement applies the commits of another one.
        ("is_wal", flags(vec![false; rows])),
    ])
}

pub(super) fn memory_metrics(caller: &StatementContext) -> Result<RecordBatch> {
    let system = &caller.system;
    let pool = &system.runtime.memory_pool;
    let limit = match pool.memory_limit() {
        MemoryLimit::Finite(bytes) => bytes as u64,
        _ => u64::MAX,
    };
    let mut all = vec![
        MemoryUse { tag: "queries", bytes: pool.reserved() as u64 },
        MemoryUse { tag: "queries_limit", bytes: limit },
        MemoryUse { tag: "query_spill", bytes: system.spill.bytes().0 },
        MemoryUse { tag: "memtables", bytes: system.database.memtable_bytes() },
        MemoryUse { tag: "symbols", bytes: system.database.symbol_memory().used_bytes() },
    ];
    all.extend(system.server_info.memory());
    batch(vec![
        ("memory_tag", texts(all.iter().map(|it| Some(it.tag.to_owned())))),
        ("bytes", counts(all.iter().map(|it| it.bytes))),
    ])
}

pub(super) fn ilp_connections(caller: &StatementContext) -> Result<RecordBatch> {
    let mut all = caller.system.server_info.line_connections();
    let Origin { role, user, .. } = caller.session.origin();
    // As for statements, other users see their own.
    all.retain(|it| *role == Role::Admin || user.is_some() && it.user == *user);
    batch(vec![
        ("peer", texts(all.iter().map(|it| Some(it.peer.clone())))),
        ("user_name", texts(all.iter().map(|it| it.user.clone()))),
        ("since", times(all.iter().map(|it| it.since))),
        ("bytes", counts(all.iter().map(|it| it.bytes))),
        ("rows_committed", counts(all.iter().map(|it| it.rows_committed))),
        ("rows_pending", counts(all.iter().map(|it| it.rows_pending))),
        ("rows_rejected", counts(all.iter().map(|it| it.rows_rejected))),
        ("last_error", texts(all.iter().map(|it| it.last_error.clone()))),
    ])
}

/// Returns all functions by their names; several names of one are listed each.
pub(super) fn functions(state: &SessionState) -> Result<RecordBatch> {
    let (scalars, _) = our_functions(state);
    // `None` for functions that are not scalar, and for names that are rewritten as others.
    let is_constant = |it: &Listed| {
        let known = scalars.get(it.name).or(state.scalar_functions().get(it.name));
        let known = known.filter(|_| it.kind == "SCALAR")?;
        Some(known.signature().volatility != Volatility::Volatile)
    };
    let all = LISTED.iter().filter(|it| it.kind != "OPERATOR");
    let all = all.map(|it| ((it.name, it.kind), it)).collect::<BTreeMap<_, _>>();
    let text = |of: fn(&Listed) -> &str| texts(all.values().map(|it| Some(of(it).to_owned())));
    batch(vec![
        ("name", text(|it| it.name)),
        ("signature", text(|it| it.usage)),
        (
            "runtime_constant",
            Arc::new(all.values().map(|it| is_constant(it)).collect::<BooleanArray>()),
        ),
        ("type", text(|it| it.kind)),
        ("description", text(|it| it.sentence)),
        ("source", text(|it| it.source)),
    ])
}
