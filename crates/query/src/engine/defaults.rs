//! Column defaults: checks their expressions, and fills the existing rows of added columns.

use std::ops::Range;
use std::sync::Arc;

use datafusion::common::DataFusionError;
use datafusion::common::runtime::SpawnedTask;
use tidegate_model::{ColumnType, Schema};

use super::{Begun, Engine};
use crate::answer::{Answer, Done};
use crate::control::{finish_in_time, plan_spawned};
use crate::ddl::{self, Definer};
use crate::error::{Error, Result};
use crate::names::{TEMPORARY_SCHEMA, quote_ident};
use crate::parse::statement::alter::{AddColumns, TableChange};
use crate::parse::{Cursor, DefaultClause, Name, RowChange, Statement, blanked, parse_statement};
use crate::plan::check_default;
use crate::position::Position;
use crate::session::Session;

/// The keyword in front of the expression, in the query for its value.
const SELECT: &str = "SELECT ";

impl Engine {
    /// Checks that the default expressions of a statement fit their columns.
    pub(super) async fn check_defaults(
        &self,
        statement: &Statement,
        sql: &str,
        begun: &Begun,
    ) -> Result<()> {
        for (bytes, ty) in self.expressions(statement, &begun.caller.session) {
            refuse_subquery(sql, &bytes)?;
            // Blanks keep the positions in errors.
            let mut text = blanked(&sql[..bytes.end], bytes.start);
            let start = bytes.start.saturating_sub(SELECT.len());
            text.replace_range(start..bytes.start, SELECT);
            let (state, _) = self.statement_state(begun);
            let task =
                plan_spawned(begun.account(), async move { check_default(&state, &text, ty) });
            finish_in_time(task, &begun.stop).await?;
        }
        Ok(())
    }

    /// The default expressions of a statement, with the types of their columns.
    fn expressions(
        &self,
        statement: &Statement,
        session: &Session,
    ) -> Vec<(Range<usize>, ColumnType)> {
        let of_new = |columns: &[(String, ColumnType)], defaults: &[(String, DefaultClause)]| {
            let typed = |(name, clause): &(String, DefaultClause)| {
                let DefaultClause::Expression(bytes) = clause else { return None };
                let (_, ty) = columns.iter().find(|(known, _)| known == name)?;
                Some((bytes.clone(), *ty))
            };
            defaults.iter().filter_map(typed).collect::<Vec<_>>()
        };
        match statement {
            Statement::CreateTable(table) => of_new(&table.columns, &table.defaults),
            Statement::AlterTable { change: TableChange::AddColumns(added), .. } => {
                of_new(&added.columns, &added.defaults)
            }
            Statement::AlterTable {
                table,
                change: TableChange::Default { column, default },
                ..
            } => {
                let Some(DefaultClause::Expression(bytes)) = default else { return Vec::new() };
                let schema = self.schema_of(table, session);
                let column = schema.as_ref().and_then(|schema| schema.find(&column.text));
                column.map(|column| (bytes.clone(), column.ty)).into_iter().collect()
            }
            _ => Vec::new(),
        }
    }

    /// The columns of a table, as a session sees it.
    fn schema_of(&self, table: &Name, session: &Session) -> Option<Arc<Schema>> {
        let seen = session.seen();
        let own = seen.as_ref().and_then(|seen| seen.named(table));
        let own = own.map(|table| Arc::clone(&table.schema));
        own.or_else(|| session.visible(self.database()).schema_of(&table.text))
    }

    /// Does a statement that changes tables.
    pub(super) async fn change_tables(
        &self,
        sql: Arc<str>,
        statement: Statement,
        begun: &Begun,
    ) -> Result<Answer> {
        match statement {
            Statement::AlterTable {
                ref table, change: TableChange::AddColumns(ref added), ..
            } if !added.defaults.is_empty() => {
                let (table, added) = (table.clone(), added.clone());
                self.add_filled(sql, begun, table, added, statement).await
            }
            statement => Ok(self.define(sql, statement, begun).await?.answer()),
        }
    }

    /// Adds columns with defaults. Existing rows get the default that an INSERT would give now, by
    /// an UPDATE; if that fails, the columns are dropped again.
    async fn add_filled(
        &self,
        sql: Arc<str>,
        begun: &Begun,
        table: Name,
        added: AddColumns,
        statement: Statement,
    ) -> Result<Answer> {
        let before = self.schema_of(&table, &begun.caller.session);
        let is_own = begun.caller.session.seen().is_some_and(|seen| seen.named(&table).is_some());
        let done = self.define(sql, statement, begun).await?;
        let is_new =
            |name: &&String| before.as_ref().is_some_and(|schema| schema.find(name).is_none());
        let names = added.defaults.iter().map(|(name, _)| name).filter(is_new);
        let names = names.map(|name| quote_ident(name)).collect::<Vec<_>>();
        let schema = if is_own { TEMPORARY_SCHEMA } else { "public" };
        let name = table.text.strip_prefix(TEMPORARY_SCHEMA).and_then(|it| it.strip_prefix('.'));
        let table = format!("{schema}.{}", quote_ident(name.unwrap_or(&table.text)));
        if names.is_empty() {
            return Ok(done.answer());
        }
        let sets = names.iter().map(|name| format!("{name} = DEFAULT"));
        let sets = sets.collect::<Vec<_>>().join(", ");
        let filled = self.fill(&format!("UPDATE {table} SET {sets}"), begun).await;
        if let Err(error) = filled {
            for name in names {
                let drop = format!("ALTER TABLE {table} DROP COLUMN {name}");
                let statement = parse_statement(&drop)?;
                self.define(Arc::from(drop), statement, begun).await?;
            }
            return Err(error);
        }
        Ok(done.answer())
    }

    /// Executes an UPDATE, as one commit or as part of the open transaction.
    async fn fill(&self, sql: &str, begun: &Begun) -> Result<()> {
        let Statement::ChangeRows(change @ RowChange::Update(_)) = parse_statement(sql)? else {
            unreachable!("it is written as an UPDATE");
        };
        self.changes(begun).execute(sql, change).await.map(drop)
    }

    /// Executes DDL on a thread that may block on the disk.
    pub(super) async fn define(
        &self,
        sql: Arc<str>,
        statement: Statement,
        begun: &Begun,
    ) -> Result<Done> {
        let database = Arc::clone(self.database());
        let session = begun.caller.session.clone();
        let task = SpawnedTask::spawn_blocking(move || {
            ddl::execute(Definer { database: &database, session: &session }, &sql, statement)
        });
        let done = task
            .join_unwind()
            .await
            .map_err(|error| Error::from(DataFusionError::ExecutionJoin(Box::new(error))))?;
        Ok(done?.expect("all others were taken out before"))
    }
}

/// Refuses a default with a subquery: a default reads no rows.
fn refuse_subquery(sql: &str, bytes: &Range<usize>) -> Result<()> {
    let text = blanked(&sql[..bytes.end], bytes.start);
    let mut cursor = Cursor::new(&text)?;
    while let Some(token) = cursor.peek() {
        if token.is_word("SELECT") {
            let position = Some(Position::at(sql, token.offset));
            let feature = "a DEFAULT that reads rows";
            return Err(Error::NotSupported { position, feature });
        }
        cursor.skip();
    }
    Ok(())
}
