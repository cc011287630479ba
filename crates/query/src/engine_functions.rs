//! Scalar functions that report on the engine or act on it: `version()`, `build()`,
//! `cancel_query(id)`, `wait_wal_table('t')`; and those of its running clock.
//!
//! They are made for each statement, because they depend on its session. Random functions are in
//! `random`, and take their seeds from here.

pub(crate) mod numbers;

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use datafusion::arrow::array::{ArrayRef, AsArray, BooleanArray};
use datafusion::arrow::datatypes::{DataType, Float64Type, Int64Type, TimeUnit};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::execution::SessionState;
use datafusion::logical_expr::{
    AggregateUDF, ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};

use crate::account::check_canceled;
use crate::context::{StatementContext, named};
use crate::engine_functions::numbers::{number_function, number_functions};
use crate::functions::lists::{LIST_CONTAINS, LIST_LENGTH, LIST_OVERLAPS};
use crate::functions::postgres::{SIMILAR_PATTERN, moment};
use crate::functions::random::{random_function, random_functions};
use crate::functions::template::{Template, Zoned};
use crate::functions::time::AT_TIME_ZONE;
use crate::functions::{AGGREGATES, SCALARS};
use crate::session::SERVER_VERSION;
use crate::types::call_values::{are_constant, constant_or_array};
use crate::types::date_assignment::WHOLE_DAY;

/// The interval at which a sleep checks for cancellation.
const SLEEP_STEP: Duration = Duration::from_millis(10);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Version,
    Build,
    CancelQuery,
    WaitWalTable,
    /// The time at which a batch of rows is made.
    ClockTimestamp,
    TimeOfDay,
    /// Waits, until its statement is cancelled.
    Sleep,
}

const FUNCTIONS: [(&str, Kind); 7] = [
    ("version", Kind::Version),
    ("build", Kind::Build),
    ("cancel_query", Kind::CancelQuery),
    ("wait_wal_table", Kind::WaitWalTable),
    ("clock_timestamp", Kind::ClockTimestamp),
    ("timeofday", Kind::TimeOfDay),
    ("pg_sleep", Kind::Sleep),
];

/// Returns their names.
pub(crate) fn engine_functions() -> impl Iterator<Item = &'static str> {
    let ours = FUNCTIONS.iter().map(|(name, _)| *name);
    ours.chain(random_functions()).chain(number_functions())
}

/// Returns one of them, for the session of a statement.
pub(crate) fn engine_function(state: &SessionState, name: &str) -> Option<Arc<ScalarUDF>> {
    if let Some(function) = number_function(state, name) {
        return Some(function);
    }
    let Some((name, kind)) = FUNCTIONS.iter().find(|(known, _)| *known == name) else {
        let is_one = random_functions().any(|known| known == name);
        return is_one.then(|| {
            random_function(name, StatementContext::of(state).system.database.now_micros())
        })?;
    };
    let signature = match kind {
        Kind::Version | Kind::Build => Signature::nullary(Volatility::Immutable),
        Kind::ClockTimestamp | Kind::TimeOfDay => Signature::nullary(Volatility::Volatile),
        Kind::Sleep => Signature::exact(vec![DataType::Float64], Volatility::Volatile),
        Kind::CancelQuery => Signature::exact(vec![DataType::Int64], Volatility::Volatile),
        Kind::WaitWalTable => Signature::exact(vec![DataType::Utf8View], Volatility::Volatile),
    };
    let caller = StatementContext::of(state);
    let function = EngineFunction { name, kind: *kind, signature, caller };
    Some(Arc::new(ScalarUDF::new_from_impl(function)))
}

#[derive(Debug)]
struct EngineFunction {
    name: &'static str,
    kind: Kind,
    signature: Signature,
    caller: Arc<StatementContext>,
}

impl PartialEq for EngineFunction {
    fn eq(&self, other: &EngineFunction) -> bool {
        self.kind == other.kind && Arc::ptr_eq(&self.caller, &other.caller)
    }
}

impl Eq for EngineFunction {}

impl Hash for EngineFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.kind.hash(state);
    }
}

impl ScalarUDFImpl for EngineFunction {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(match self.kind {
            Kind::Version | Kind::Build | Kind::TimeOfDay | Kind::Sleep => DataType::Utf8View,
            Kind::ClockTimestamp => micros_type(),
            Kind::CancelQuery | Kind::WaitWalTable => DataType::Boolean,
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let of_text = |text: String| Ok(ColumnarValue::Scalar(ScalarValue::Utf8View(Some(text))));
        let arguments = ColumnarValue::values_to_arrays(&args.args)?;
        let answers = match (self.kind, arguments.as_slice()) {
            (Kind::Version, _) => return of_text(version_text()),
            (Kind::Build, _) => return of_text(build_text()),
            (Kind::TimeOfDay, _) => return of_text(clock_text(self.now())),
            (Kind::ClockTimestamp, _) => {
                let now = ScalarValue::TimestampMicrosecond(Some(self.now()), None);
                return Ok(ColumnarValue::Scalar(now));
            }
            (Kind::Sleep, [seconds]) => {
                let seconds = seconds.as_primitive::<Float64Type>();
                seconds.iter().flatten().try_for_each(sleep)?;
                // PostgreSQL shows its type `void` so.
                return of_text(String::new());
            }
            (Kind::CancelQuery, [ids]) => self.cancel(ids)?,
            (Kind::WaitWalTable, [tables]) => self.wait(tables)?,
            _ => return internal_err!("{} takes one argument", self.name),
        };
        constant_or_array(Arc::new(answers), are_constant(&args.args))
    }
}

impl EngineFunction {
    fn now(&self) -> i64 {
        self.caller.system.database.now_micros()
    }

    /// Cancels statements; returns true for each that could be cancelled.
    fn cancel(&self, ids: &ArrayRef) -> Result<BooleanArray> {
        let StatementContext { system, session } = self.caller.as_ref();
        session.check_effect("cancel_query()")?;
        let cancel =
            |id: i64| u64::try_from(id).is_ok_and(|id| system.running_queries.cancel(id, session));
        Ok(ids.as_primitive::<Int64Type>().iter().map(|id| id.map(cancel)).collect())
    }

    /// Returns at once: commits are applied when they are made.
    fn wait(&self, tables: &ArrayRef) -> Result<BooleanArray> {
        let visible = self.caller.session.visible(&self.caller.system.database);
        let wait = |table: Option<&str>| -> Result<Option<bool>> {
            let found = table.map(|table| named(&visible, table)).transpose()?;
            Ok(found.map(|_| true))
        };
        tables.as_string_view().iter().map(wait).collect()
    }
}

/// Waits for so many seconds, or until the statement is cancelled.
fn sleep(seconds: f64) -> Result<()> {
    let (lock, never) = (Mutex::new(()), Condvar::new());
    let mut left = Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX);
    while !left.is_zero() {
        check_canceled()?;
        let step = left.min(SLEEP_STEP);
        let guard = lock.lock().unwrap_or_else(PoisonError::into_inner);
        // No thread wakes it.
        drop(never.wait_timeout(guard, step));
        left -= step;
    }
    Ok(())
}

/// Returns the version in PostgreSQL's form, which its clients read.
fn version_text() -> String {
    let (ours, arch) = (env!("CARGO_PKG_VERSION"), std::env::consts::ARCH);
    format!("PostgreSQL {SERVER_VERSION} (Tidegate {ours}) on {arch}, 64-bit")
}

fn micros_type() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, None)
}

/// Formats a time as PostgreSQL's `timeofday`: `Mon Nov 23 14:56:41.123456 2026 UTC`.
fn clock_text(now: i64) -> String {
    let template = Template::new("Dy Mon DD HH24:MI:SS.US YYYY");
    let mut text = String::new();
    template.write(&moment(now), Zoned::No, &mut text);
    text + " UTC"
}

/// Returns the build in QuestDB's form.
fn build_text() -> String {
    let (ours, arch, os) =
        (env!("CARGO_PKG_VERSION"), std::env::consts::ARCH, std::env::consts::OS);
    format!("Build Information: Tidegate {ours}, {os} {arch}")
}

/// Returns all our functions: scalar functions and aggregates.
pub(crate) fn our_functions(
    state: &SessionState,
) -> (HashMap<String, Arc<ScalarUDF>>, HashMap<String, Arc<AggregateUDF>>) {
    let mut scalars = SCALARS.clone();
    // No query can call these by their names.
    scalars.retain(|name, _| {
        let unnamed = [AT_TIME_ZONE, WHOLE_DAY, SIMILAR_PATTERN];
        let of_lists = [LIST_CONTAINS, LIST_OVERLAPS, LIST_LENGTH];
        !unnamed.contains(&name.as_str()) && !of_lists.contains(&name.as_str())
    });
    let named = |name: &str| Some((name.to_owned(), engine_function(state, name)?));
    scalars.extend(engine_functions().filter_map(named));
    (scalars, AGGREGATES.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_of_postgresql_find_a_version() {
        let text = version_text();
        let number = text.strip_prefix("PostgreSQL ").and_then(|rest| rest.split(' ').next());
        assert_eq!(number, Some(SERVER_VERSION));
        assert!(text.contains("Tidegate") && build_text().contains("Tidegate"));
    }
}
