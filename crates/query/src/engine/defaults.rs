//! Column defaults: checks their expressions, and fills the existing rows of added columns.

use std::ops::Range;
use std::sync::Arc;

use datafusion::common::DataFusionError;
use datafusion::common::runtime::SpawnedTask;
use tidegate_model::{ColumnType, Schema, TableId};
use tidegate_storage::{Class, DdlBefore, Error as StorageError, OtherRows};

use super::{Begun, Engine};
use crate::answer::{Answer, Done};
use crate::control::{finish_in_time, plan_spawned};
use crate::ddl::{self, Definer};
use crate::dml::RowChanges;
use crate::error::{Error, Result};
use crate::names::{TEMPORARY_SCHEMA, quote_ident};
use crate::parse::statement::alter::{AddColumns, TableChange};
use crate::parse::{Cursor, DefaultClause, Name, RowChange, Statement, blanked, parse_statement};
use crate::plan::check_default;
use crate::position::Position;
use crate::session::{Access, Session};

/// The number of attempts to add columns with defaults while other sessions change the columns.
const ATTEMPTS: usize = 8;

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
        let own_changes = session.own_changes();
        let own = own_changes.as_ref().and_then(|changes| changes.named(table));
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
                let adding = Adding { sql, table, added, statement };
                self.add_filled_in_time(begun, &adding).await
            }
            statement => Ok(self.define(sql, statement, begun).await?.answer()),
        }
    }

    /// As `add_filled`; begins again, up to `ATTEMPTS` times, if other sessions have changed the
    /// columns of the table meanwhile.
    async fn add_filled_in_time(&self, begun: &Begun, adding: &Adding) -> Result<Answer> {
        let mut attempt = 0;
        loop {
            attempt += 1;
            match self.add_filled(begun, adding).await {
                Err(Error::Storage(
                    StorageError::ColumnsChanged { .. }
                    | StorageError::ColumnAdded { .. }
                    | StorageError::ColumnDropped { .. }
                    | StorageError::SchemaChanged { .. }
                    | StorageError::TablesChanged { .. },
                )) if attempt < ATTEMPTS && !begun.caller.session.is_in_transaction() => {}
                done => return done,
            }
            begun.stop.begin_again();
        }
    }

    /// Adds columns with defaults. Existing rows get the default that an INSERT would give now, by
    /// an UPDATE in the same commit, or as part of the open transaction.
    ///
    /// If other sessions keep adding rows meanwhile, these get it by a second UPDATE; if that
    /// fails, the columns are dropped again.
    async fn add_filled(&self, begun: &Begun, adding: &Adding) -> Result<Answer> {
        let Adding { sql, table, added, statement } = adding;
        let (sql, statement) = (Arc::clone(sql), statement.clone());
        let session = &begun.caller.session;
        let before = self.schema_of(table, session);
        let is_own = session.own_changes().is_some_and(|changes| changes.named(table).is_some());
        let is_new =
            |name: &&String| before.as_ref().is_some_and(|schema| schema.find(name).is_none());
        let new = added.defaults.iter().map(|(name, _)| name).filter(is_new).collect::<Vec<_>>();
        let names = new.iter().map(|name| quote_ident(name)).collect::<Vec<_>>();
        let schema = if is_own { TEMPORARY_SCHEMA } else { "public" };
        let name = table.text.strip_prefix(TEMPORARY_SCHEMA).and_then(|it| it.strip_prefix('.'));
        let qualified = format!("{schema}.{}", quote_ident(name.unwrap_or(&table.text)));
        if names.is_empty() {
            return Ok(self.define(sql, statement, begun).await?.answer());
        }
        let sets = names.iter().map(|name| format!("{name} = DEFAULT"));
        let update = format!("UPDATE {qualified} SET {}", sets.collect::<Vec<_>>().join(", "));
        if session.is_in_transaction() || is_own {
            let held = self.add_held(sql, begun, &qualified, &names, &update, statement);
            return Box::pin(held).await;
        }
        let provisional = Provisional::begin(session);
        let done = self.define(sql, statement, begun).await?;
        self.check_not_taken(&table.text, &new)?;
        let ddl = session.changes().ddl().clone();
        if let Some((id, schema)) = self.new_columns(table, session) {
            let columns = schema.columns().iter();
            let new = columns.filter(|column| is_new(&&column.name));
            new.for_each(|column| self.system.numbers.forget_column(id, column.id));
        }
        let with = |other_rows| Some(DdlBefore { ddl: ddl.clone(), other_rows });
        // The changes themselves may be what does not fit the table any more.
        let reason = |error: Error| match session.visible(self.database()).check() {
            Err(unfitting) if error.class() == Class::Caller => Error::Storage(unfitting),
            _ => error,
        };
        match self.fill(&update, begun, with(OtherRows::AreRefused)).await {
            Err(Error::Storage(StorageError::SegmentChanged { .. })) => {}
            filled => return filled.map(|()| done.answer()).map_err(reason),
        }
        begun.stop.begin_again();
        self.fill(&update, begun, with(OtherRows::Stay)).await.map_err(reason)?;
        drop(provisional);
        for name in &names {
            begun.stop.begin_again();
            let update = format!("UPDATE {qualified} SET {name} = DEFAULT WHERE {name} IS NULL");
            let filled = self.fill(&update, begun, None).await;
            self.drop_if_unfilled(filled, &qualified, &names, begun).await?;
        }
        Ok(done.answer())
    }

    /// Fails if the table has one of these columns, which the statement did not find: another
    /// session has added it, and its values must stay.
    fn check_not_taken(&self, table: &str, names: &[&String]) -> Result<()> {
        let schema = self.database().schema_of(table);
        let is_taken = |name: &&&String| schema.as_ref().is_some_and(|it| it.find(name).is_some());
        match names.iter().find(is_taken) {
            None => Ok(()),
            Some(&column) => {
                let (table, column) = (table.to_owned(), column.clone());
                Err(StorageError::ColumnsChanged { table, column }.into())
            }
        }
    }

    /// Adds columns with defaults that only the session sees yet. COMMIT fails if others have added
    /// rows to the table since, which would lack the defaults.
    async fn add_held(
        &self,
        sql: Arc<str>,
        begun: &Begun,
        table: &str,
        names: &[String],
        update: &str,
        statement: Statement,
    ) -> Result<Answer> {
        let done = self.define(sql, statement, begun).await?;
        let filled = self.fill(update, begun, None).await;
        self.drop_if_unfilled(filled, table, names, begun).await?;
        Ok(done.answer())
    }

    /// Drops new columns again if their rows could not be filled, unless another session has
    /// dropped one of them.
    async fn drop_if_unfilled(
        &self,
        filled: Result<()>,
        table: &str,
        names: &[String],
        begun: &Begun,
    ) -> Result<()> {
        let is_dropped = matches!(filled, Err(Error::Storage(StorageError::ColumnDropped { .. })));
        if filled.is_err() && !is_dropped {
            for name in names {
                let drop = format!("ALTER TABLE {table} DROP COLUMN {name}");
                let statement = parse_statement(&drop)?;
                self.define(Arc::from(drop), statement, begun).await?;
            }
        }
        filled
    }

    /// The id and the columns of a table, as a session sees it.
    fn new_columns(&self, table: &Name, session: &Session) -> Option<(TableId, Arc<Schema>)> {
        let visible = session.visible(self.database());
        Some((visible.table_id(&table.text)?, visible.schema_of(&table.text)?))
    }

    /// Executes an UPDATE, as one commit with changes of tables before it, or as part of the open
    /// transaction.
    async fn fill(&self, sql: &str, begun: &Begun, before: Option<DdlBefore>) -> Result<()> {
        let Statement::ChangeRows(change @ RowChange::Update(_)) = parse_statement(sql)? else {
            unreachable!("it is written as an UPDATE");
        };
        let changes = RowChanges { before, ..self.changes(begun) };
        Box::pin(changes.execute(sql, change)).await.map(drop)
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

/// An `ALTER TABLE .. ADD COLUMN` with defaults.
struct Adding {
    sql: Arc<str>,
    table: Name,
    added: AddColumns,
    statement: Statement,
}

/// A transaction that only its statement sees, and that is rolled back at its end: the statement
/// commits the changes itself.
struct Provisional<'a>(&'a Session);

impl<'a> Provisional<'a> {
    fn begin(session: &'a Session) -> Provisional<'a> {
        session.begin(Access::ReadWrite);
        Provisional(session)
    }
}

impl Drop for Provisional<'_> {
    fn drop(&mut self) {
        self.0.roll_back();
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
