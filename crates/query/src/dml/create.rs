//! `CREATE TABLE AS`: a table and its rows in one commit.
//!
//! - Columns are those of the query, with its names and types; a CAST of the statement works like a
//!   CAST in the query.
//! - Without `TIMESTAMP(..)`, the designated timestamp is that of the query.

use std::sync::Arc;

use tidegate_model::{ColumnType, Schema};
use tidegate_storage::{Error as StorageError, TableDdl};

use super::write::{Work, Writer, write};
use super::{RowChanges, Running, Statement};
use crate::answer::Done;
use crate::control::{finish_in_time, plan_spawned};
use crate::error::{Error, Result};
use crate::parse::{CreateAs, Name, blanked};
use crate::plan::{PlannedQuery, plan_query};
use crate::position::Position;
use crate::table_schema::{check_not_system, exists, schema_of};
use crate::transaction_buffer::TransactionBuffer;
use crate::types::literal::type_of;

const TAG: &str = "CREATE TABLE";

impl RowChanges<'_> {
    /// Creates a table from the rows of a query. `sql` is the text of the statement.
    pub(crate) async fn create(&self, sql: &str, create: CreateAs) -> Result<Done> {
        check_not_system(sql, &create.name.text, Some(create.name.offset))?;
        let if_not_exists = create.table.if_not_exists;
        match self.create_filled(sql, create).await {
            // Another session may have been faster.
            Err(Error::Storage(
                error @ (StorageError::TableExists { .. } | StorageError::ViewExists { .. }),
            )) if if_not_exists => Ok(Done::with_notices(TAG, vec![error.to_string()])),
            done => done,
        }
    }

    async fn create_filled(&self, sql: &str, mut create: CreateAs) -> Result<Done> {
        if self.is_taken(&create) {
            return Err(exists(&self.session.visible(&self.database), &create.name.text).into());
        }
        // Blanks keep the positions in errors.
        let query = blanked(&sql[..create.query.end], create.query.start);
        let schema = Arc::new(self.schema_for(sql, &query, &mut create).await?);
        let fill = Statement::Fill(schema.columns().to_vec());
        let Running { stream, notices, columns, .. } = self.start(&query, fill).await?;
        let work = if create.table.temporary.is_some() || self.session.is_in_transaction() {
            let mut changes = self.session.changes();
            let (name, schema) = (&create.name.text, Schema::clone(&schema));
            let snapshot = match create.table.temporary {
                Some(on_commit) => {
                    changes.create_temporary(name, schema, on_commit)?;
                    changes.snapshot(name)?.expect("it was made")
                }
                None => {
                    let name = name.clone();
                    let ddl = TableDdl::CreateTable { name: name.clone(), schema };
                    changes.define(&self.database, ddl)?;
                    self.database.visible(changes.ddl()).snapshot(&name)?
                }
            };
            Work::Hold(TransactionBuffer::of(&self.session, changes, &snapshot, &columns))
        } else {
            Work::Insert(Writer::of_new(&self.database, &create.name.text, &schema))
        };
        write(stream, work, &self.stop).await?;
        let notices = [create.table.notices, notices].concat();
        Ok(Done::with_notices(TAG, notices))
    }

    /// True if there is already a table of this name, temporary or not as `create` says.
    fn is_taken(&self, create: &CreateAs) -> bool {
        let name = &create.name.text;
        match create.table.temporary {
            Some(_) => self.session.own_changes().is_some_and(|seen| seen.find(name).is_some()),
            None => self.session.visible(&self.database).table_id(name).is_some(),
        }
    }

    /// The schema of the new table.
    async fn schema_for(&self, sql: &str, query: &str, create: &mut CreateAs) -> Result<Schema> {
        let (state, database) = (self.state.clone(), Arc::clone(&self.database));
        let text = query.to_owned();
        let parameters = self.parameters.clone();
        let task = plan_spawned(self.account(), async move {
            plan_query(&state, &database, &text, &parameters).await
        });
        let PlannedQuery { schema, designated, .. } = finish_in_time(task, &self.stop).await?;
        let columns = schema.fields().iter().map(|field| {
            let ty = type_of(field).ok_or_else(|| Error::NoColumnType {
                position: Position::at(sql, create.query.start),
                column: field.name().clone(),
                ty: field.data_type().to_string(),
            })?;
            Ok((field.name().clone(), ty))
        });
        let mut columns: Vec<(String, ColumnType)> = columns.collect::<Result<_>>()?;
        for (at, (name, ty)) in create.casts.iter().enumerate() {
            let is_same =
                |(other, _): &(Name, ColumnType)| other.text.eq_ignore_ascii_case(&name.text);
            if create.casts[..at].iter().any(is_same) {
                let position = Position::at(sql, name.offset);
                return Err(Error::ColumnTwice { position, column: name.text.clone() });
            }
            column_mut(&mut columns, sql, name)?.1 = *ty;
        }
        create.table.columns = columns;
        if create.table.timestamp.is_none() {
            let named = designated.map(|at| &create.table.columns[at]);
            let is_time = |(_, ty): &&(String, ColumnType)| ty.time_unit().is_some();
            create.table.timestamp = named.filter(is_time).map(|(name, _)| name.clone());
        }
        schema_of(sql, &create.table)
    }
}

fn column_mut<'c>(
    columns: &'c mut [(String, ColumnType)],
    sql: &str,
    name: &Name,
) -> Result<&'c mut (String, ColumnType)> {
    let is_it = |(own, _): &&mut (String, ColumnType)| own.eq_ignore_ascii_case(&name.text);
    columns.iter_mut().find(is_it).ok_or_else(|| Error::NoSuchColumn {
        position: Some(Position::at(sql, name.offset)),
        column: name.text.clone(),
        similar: None,
    })
}
