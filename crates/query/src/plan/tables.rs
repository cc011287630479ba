//! The tables and functions that a query can name.

pub(crate) mod view_scope;

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::TableFunctionArgs;
use datafusion::catalog::cte_worktable::CteWorkTable;
use datafusion::common::config::ConfigOptions;
use datafusion::common::{Result, TableReference, plan_err};
use datafusion::datasource::{MemTable, provider_as_source};
use datafusion::execution::SessionState;
use datafusion::logical_expr::planner::{
    ContextProvider, ExprPlanner, RelationPlanner, TypePlanner,
};
use datafusion::logical_expr::{
    AggregateUDF, Expr, HigherOrderUDF, ScalarUDF, TableSource, WindowUDF, lit,
};
use datafusion::sql::planner::object_name_to_table_reference;
use datafusion::sql::sqlparser::ast::{
    Expr as SqlExpr, FunctionArg, FunctionArgExpr, ObjectName, TableFunctionArgs as WrittenArgs,
    Value,
};

use super::open_parameters::TableArguments;
use super::type_names::ColumnTypePlanner;
use super::using_joins::KnownColumns;
use crate::account::check_canceled;
use crate::context::StatementContext;
use crate::engine_functions::{engine_function, engine_functions};
use crate::error::Error;
use crate::functions::{AGGREGATES, SCALARS, bounded};
use crate::names::{NAME_KEY, table_name};
use crate::pg_catalog::{self, catalog_function, catalog_functions};
use crate::plan::series;
use crate::plan::tables::view_scope::ViewScope;
use crate::sql::cast_names::cast_name;
use crate::system_tables::table_function;

/// The context of the SQL planner: our tables, as of one moment, and the session's functions.
pub(crate) struct Tables<'a> {
    pub(crate) state: &'a SessionState,
    /// The tables by their name in lower case.
    pub(crate) sources: HashMap<String, Arc<dyn TableSource>>,
    /// The planners of our clauses.
    pub(crate) relations: Vec<Arc<dyn RelationPlanner>>,
    pub(super) views: ViewScope<'a>,
}

/// Returns the name of a table that all sessions see, where a temporary one has its name.
pub(super) fn public_name(table: &str) -> String {
    format!("public.{table}")
}

impl KnownColumns for Tables<'_> {
    fn of_table(&self, name: &ObjectName) -> Option<Vec<String>> {
        let name = object_name_to_table_reference(name.clone(), true).ok()?;
        let ours = table_name(&name).filter(|_| !pg_catalog::hides_tables(&name));
        let public = (name.schema() == Some("public")).then(|| public_name(name.table()));
        let known = |name: Option<&str>| name.and_then(|name| self.sources.get(name));
        match known(public.as_deref()).or_else(|| known(ours.as_deref())) {
            Some(source) => Some(names_of(source.as_ref())),
            None => {
                let of_view = ours.and_then(|name| self.views.columns(&name));
                of_view.or_else(|| pg_catalog::columns(&name))
            }
        }
    }

    fn of_function(&self, name: &ObjectName, args: &WrittenArgs) -> Option<Vec<String>> {
        let [part] = name.0.as_slice() else { return None };
        let literal = |arg: &FunctionArg| match arg {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(SqlExpr::Value(value))) => {
                match &value.value {
                    Value::SingleQuotedString(text) => Some(lit(text.as_str())),
                    Value::Number(digits, _) => digits.parse::<i64>().ok().map(lit),
                    _ => None,
                }
            }
            _ => None,
        };
        let args = args.args.iter().map(literal).collect::<Option<Vec<_>>>()?;
        let source = self.get_table_function_source(&part.as_ident()?.value, args).ok()?;
        Some(names_of(source.as_ref()))
    }
}

/// Returns the names of a table's columns in lower case.
fn names_of(source: &dyn TableSource) -> Vec<String> {
    source.schema().fields().iter().map(|field| field.name().to_lowercase()).collect()
}

impl ContextProvider for Tables<'_> {
    fn get_table_source(&self, name: TableReference) -> Result<Arc<dyn TableSource>> {
        check_canceled()?;
        let ours = table_name(&name).filter(|_| !pg_catalog::hides_tables(&name));
        let public = (name.schema() == Some("public")).then(|| public_name(name.table()));
        let known = |name: Option<&str>| name.and_then(|name| self.sources.get(name));
        let found = known(public.as_deref()).or_else(|| known(ours.as_deref()));
        match found {
            Some(source) => Ok(Arc::clone(source)),
            None => {
                if let Some(name) = ours
                    && let Some(source) = self.views.source(&name)?
                {
                    return Ok(source);
                }
                if let Some(source) = pg_catalog::source(&StatementContext::of(self.state), &name)?
                {
                    return Ok(source);
                }
                let table = name.to_string();
                Err(Error::NoSuchTable { position: None, table }.into())
            }
        }
    }

    fn get_table_function_source(
        &self,
        name: &str,
        args: Vec<Expr>,
    ) -> Result<Arc<dyn TableSource>> {
        let argument = args.first().map(|argument| match argument {
            Expr::Literal(value, _) => value.try_as_str().flatten(),
            _ => None,
        });
        if args.len() < 2
            && argument != Some(None)
            && let Some(rows) = table_function(self.state, name, argument.flatten())?
        {
            // The metadata that columns of tables have.
            let field = |field: &Arc<Field>| {
                let stored = HashMap::from([(NAME_KEY.to_owned(), field.name().clone())]);
                let lower = field.name().to_lowercase();
                field.as_ref().clone().with_name(lower).with_metadata(stored)
            };
            let fields = rows.schema().fields().iter().map(field).collect::<Vec<_>>();
            let rows =
                RecordBatch::try_new(Arc::new(Schema::new(fields)), rows.columns().to_vec())?;
            let rows = MemTable::try_new(rows.schema(), vec![vec![rows]])?;
            return Ok(provider_as_source(Arc::new(rows)));
        }
        let arguments = TableArguments::of(name, args);
        if let Some(source) = series::series(self.state, name, &arguments.args)? {
            return arguments.named_in(name, source);
        }
        let Some(function) = self.state.table_functions().get(name) else {
            return plan_err!("Invalid function '{name}'");
        };
        let args = TableFunctionArgs::new(&arguments.args, self.state);
        let rows = function.create_table_provider_with_args(args).map(provider_as_source)?;
        arguments.named_in(name, rows)
    }

    fn create_cte_work_table(&self, name: &str, schema: SchemaRef) -> Result<Arc<dyn TableSource>> {
        Ok(provider_as_source(Arc::new(CteWorkTable::new(name, schema))))
    }

    fn get_expr_planners(&self) -> &[Arc<dyn ExprPlanner>] {
        self.state.expr_planners()
    }

    fn get_relation_planners(&self) -> &[Arc<dyn RelationPlanner>] {
        &self.relations
    }

    fn get_type_planner(&self) -> Option<Arc<dyn TypePlanner>> {
        Some(Arc::new(ColumnTypePlanner))
    }

    fn get_function_meta(&self, name: &str) -> Option<Arc<ScalarUDF>> {
        if let Some(name) = cast_name(name) {
            return Some(name);
        }
        let ours = SCALARS.get(name).cloned().or_else(|| engine_function(self.state, name));
        let ours = ours.or_else(|| catalog_function(self.state, name));
        let all = ours.or_else(|| self.state.scalar_functions().get(name).cloned());
        all.as_ref().and_then(bounded)
    }

    // Functions that take lambdas are refused (`query_text::lambdas`).
    fn get_higher_order_meta(&self, _name: &str) -> Option<Arc<HigherOrderUDF>> {
        None
    }

    fn get_aggregate_meta(&self, name: &str) -> Option<Arc<AggregateUDF>> {
        AGGREGATES.get(name).or(self.state.aggregate_functions().get(name)).cloned()
    }

    fn get_window_meta(&self, name: &str) -> Option<Arc<WindowUDF>> {
        self.state.window_functions().get(name).cloned()
    }

    fn get_variable_type(&self, _names: &[String]) -> Option<DataType> {
        None
    }

    fn options(&self) -> &ConfigOptions {
        self.state.config_options()
    }

    fn udf_names(&self) -> Vec<String> {
        let all = self.state.scalar_functions().keys().chain(SCALARS.keys()).cloned();
        let of_engine = engine_functions().chain(catalog_functions());
        all.chain(of_engine.map(str::to_owned)).collect()
    }

    fn higher_order_function_names(&self) -> Vec<String> {
        Vec::new()
    }

    fn udaf_names(&self) -> Vec<String> {
        self.state.aggregate_functions().keys().chain(AGGREGATES.keys()).cloned().collect()
    }

    fn udwf_names(&self) -> Vec<String> {
        self.state.window_functions().keys().cloned().collect()
    }
}
